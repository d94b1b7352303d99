//! What every error of a recipe can be asked.

/// Implements `is_retryable` and `may_have_applied` for an error with the variant `Framework`, whose error decides; of the others
/// those that are listed are retryable, or have an unknown outcome.
macro_rules! classify {
    ($error:ident, retryable: [$($retryable:pat),*], unknown: [$($unknown:pat),*]) => {
        impl $error {
            /// Whether the same call may succeed later: the connection or the session was lost, or others are in the way. Check
            /// [`may_have_applied`](Self::may_have_applied) too: what may have been done is done twice then.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                match self {
                    Self::Framework(error) => error.is_transient(),
                    $($retryable => true,)*
                    _ => false,
                }
            }

            /// Whether it may have been done although it failed here, or a part of it: a body that was under way when what it was
            /// founded on was lost.
            #[must_use]
            pub const fn may_have_applied(&self) -> bool {
                match self {
                    Self::Framework(error) => error.may_have_applied(),
                    $($unknown => true,)*
                    _ => false,
                }
            }
        }
    };
}

pub(crate) use classify;
