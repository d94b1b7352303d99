/// Emits an event with the framework, session and server that it concerns.
macro_rules! tell {
    ($level:ident, $core:expr, $status:expr, $($told:tt)+) => {{
        let status = &$status;
        tracing::$level!(
            framework = $core.name(),
            session = status.session.map(|session| tracing::field::display(session.id)),
            server = status.server.as_deref(),
            $($told)+
        )
    }};
}
pub(crate) use tell;
