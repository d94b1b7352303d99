use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zk_curator::SessionId;

/// The known facts about sessions, for [`verdicts`](super::verdicts).
///
/// They come from the servers' commands `cons`, `dump` and `wchp`, or from their admin servers. All
/// are optional: a verdict that needs a missing fact is not given.
///
/// ```
/// use std::time::Duration;
/// use zk_curator::SessionId;
/// use zk_curator_recipes::inspect::{KnownSession, Sessions};
///
/// let mut sessions = Sessions::new();
/// let session = KnownSession::new()
///     .timeout(Duration::from_secs(30))
///     .connected("zk2", "10.0.3.17:41234")
///     .heard(Duration::from_millis(800));
/// sessions.insert(SessionId::new(0x1000a3f2100004f), session);
/// sessions.all_servers_asked();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sessions {
    sessions: BTreeMap<SessionId, KnownSession>,
    /// `true` if a session without a connection here has no connection.
    is_complete: bool,
    own: BTreeSet<SessionId>,
    /// The sessions that watch each path.
    watches: BTreeMap<String, BTreeSet<SessionId>>,
    /// `true` if there are no other watches.
    knows_watches: bool,
}

/// The known facts about a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KnownSession {
    /// The session timeout.
    pub timeout: Option<Duration>,
    /// Its connection, if one was found.
    pub connection: Option<Connection>,
    /// The least time since the servers last heard from the client.
    pub heard: Option<Duration>,
    /// The longest time until its end unless the servers hear from the client, as they tell it.
    pub expires: Option<Duration>,
}

/// The connection of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// The name of the server.
    pub server: String,
    /// The address of the client.
    pub address: String,
}

impl Sessions {
    /// Returns a value without any facts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a session, or replaces the facts about it.
    pub fn insert(&mut self, id: SessionId, session: KnownSession) {
        self.sessions.insert(id, session);
    }

    /// Notes that the connections of all servers are known: a session without a connection here has
    /// none.
    pub const fn all_servers_asked(&mut self) {
        self.is_complete = true;
    }

    /// Notes a session of the process that asks.
    pub fn own(&mut self, id: SessionId) {
        self.own.insert(id);
    }

    /// Notes that a session watches a path.
    pub fn watch(&mut self, path: impl Into<String>, id: SessionId) {
        self.watches.entry(path.into()).or_default().insert(id);
    }

    /// Notes that the watches of all servers are known.
    pub const fn all_watches_known(&mut self) {
        self.knows_watches = true;
    }

    /// Returns the facts about a session, if there are any.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&KnownSession> {
        self.sessions.get(&id)
    }

    /// Returns the connection of a session, if one was found.
    #[must_use]
    pub fn connection(&self, id: SessionId) -> Option<&Connection> {
        self.get(id)?.connection.as_ref()
    }

    /// Returns `true` if the session has no connection, `false` if it has one, and `None` if that
    /// is unknown.
    #[must_use]
    pub fn is_disconnected(&self, id: SessionId) -> Option<bool> {
        if self.connection(id).is_some() { Some(false) } else { self.is_complete.then_some(true) }
    }

    /// Returns the longest time until the end of a session, unless its client is heard; `None` if
    /// that is unknown.
    #[must_use]
    pub fn expires_within(&self, id: SessionId) -> Option<Duration> {
        let session = self.get(id)?;
        let heard = session.heard.unwrap_or_default();
        let by_timeout = session.timeout.map(|timeout| timeout.saturating_sub(heard));
        by_timeout.into_iter().chain(session.expires).min()
    }

    /// Returns the time for which a session has been silent, if that is more than two thirds of its
    /// timeout. Clients send something after a third or a half of it.
    #[must_use]
    pub fn silent_for(&self, id: SessionId) -> Option<Duration> {
        let session = self.get(id)?;
        let (heard, timeout) = session.heard.zip(session.timeout)?;
        (heard > timeout / 3 * 2).then_some(heard)
    }

    /// Returns `true` if this is a session of the process that asks.
    #[must_use]
    pub fn is_own(&self, id: SessionId) -> bool {
        self.own.contains(&id)
    }

    /// Returns `true` if a session watches a path or a node below it; `None` if that is unknown.
    #[must_use]
    pub fn watches_below(&self, id: SessionId, path: &str) -> Option<bool> {
        let below = path.trim_end_matches('/');
        let is_below = |watched: &str| {
            watched.strip_prefix(below).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let watches =
            self.watches.iter().any(|(watched, ids)| is_below(watched) && ids.contains(&id));
        (watches || self.knows_watches).then_some(watches)
    }
}

impl KnownSession {
    /// Returns a session without any facts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the session timeout.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the server and the address of the client.
    #[must_use]
    pub fn connected(mut self, server: impl Into<String>, address: impl Into<String>) -> Self {
        self.connection = Some(Connection { server: server.into(), address: address.into() });
        self
    }

    /// Sets the least time since the servers last heard from the client.
    #[must_use]
    pub const fn heard(mut self, ago: Duration) -> Self {
        self.heard = Some(ago);
        self
    }

    /// Sets the longest time until its end, unless the servers hear from the client.
    #[must_use]
    pub const fn expires(mut self, within: Duration) -> Self {
        self.expires = Some(within);
        self
    }
}
