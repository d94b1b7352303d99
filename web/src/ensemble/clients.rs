//! The sessions of an ensemble, in bounded number. Pure.

use std::time::Duration;

use zk_curator_ops::ensemble::sessions::{EnsembleSession, EnsembleSessions};

/// The maximum number of sessions that are kept.
pub(crate) const MOST_SESSIONS: usize = 10_000;
/// The maximum number of ephemeral nodes of a session whose paths are kept.
pub(crate) const MOST_PATHS: usize = 20;

/// The sessions of an ensemble.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionList {
    /// The first sessions by their ids.
    pub(crate) sessions: Vec<ListedSession>,
    /// The number of all sessions.
    pub(crate) total: usize,
    /// `true` if every server told its connections.
    pub(crate) has_all_connections: bool,
    /// `true` if a server told all sessions.
    pub(crate) has_all_sessions: bool,
}

/// A session. A value is `None` if no server told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedSession {
    pub(crate) id: String,
    pub(crate) address: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) silent: Option<Duration>,
    pub(crate) last_operation: Option<String>,
    pub(crate) requests: Option<u64>,
    /// The number of its ephemeral nodes.
    pub(crate) ephemerals: usize,
    /// The paths of the first of them, as the servers know them.
    pub(crate) paths: Vec<String>,
}

/// Returns the first sessions.
pub(crate) fn session_list(found: EnsembleSessions) -> SessionList {
    let (total, has_all_connections) = (found.by_id.len(), found.all_connections);
    let has_all_sessions = found.all_sessions;
    let listed = |id: String, session: EnsembleSession| {
        let ephemerals = session.ephemerals.len();
        let mut paths = session.ephemerals;
        paths.sort_unstable();
        paths.truncate(MOST_PATHS);
        paths.shrink_to_fit();
        ListedSession {
            id,
            address: session.address,
            server: session.server,
            timeout: session.timeout,
            silent: session.silent,
            last_operation: session.last_operation,
            requests: session.requests,
            ephemerals,
            paths,
        }
    };
    let first = found.by_id.into_iter().take(MOST_SESSIONS);
    let sessions = first.map(|(id, session)| listed(id.to_string(), session)).collect();
    SessionList { sessions, total, has_all_connections, has_all_sessions }
}

#[cfg(test)]
mod tests {
    use zk_curator::SessionId;

    use super::*;

    #[test]
    fn sessions_and_paths_are_bounded() {
        let mut found = EnsembleSessions::default();
        for id in 0..20_000 {
            let mut session = EnsembleSession::default();
            session.ephemerals.extend((0..id % 50).map(|n| format!("/e{n:02}")).rev());
            found.by_id.insert(SessionId::new(id), session);
        }
        let list = session_list(found);
        assert_eq!((list.total, list.sessions.len()), (20_000, MOST_SESSIONS));
        let one = &list.sessions[49];
        assert_eq!((one.id.as_str(), one.ephemerals, one.paths.len()), ("0x31", 49, MOST_PATHS));
        assert_eq!(one.paths[0], "/e00");
    }
}
