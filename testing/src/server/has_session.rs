//! [`HasSession`]: sessions to expire or to disconnect.

use zk_curator_client::{SessionId, ZooKeeper};

/// A client with a session, or the id of a session: for
/// [`TestServer::expire`](crate::TestServer::expire) and
/// [`TestServer::disconnect`](crate::TestServer::disconnect).
pub trait HasSession {
    /// Returns the id of the session, if there is one.
    fn session_id(&self) -> Option<i64>;
}

impl<T: HasSession + ?Sized> HasSession for &T {
    fn session_id(&self) -> Option<i64> {
        (**self).session_id()
    }
}

impl HasSession for i64 {
    fn session_id(&self) -> Option<i64> {
        Some(*self)
    }
}

impl HasSession for SessionId {
    fn session_id(&self) -> Option<i64> {
        Some(self.get())
    }
}

impl HasSession for ZooKeeper {
    fn session_id(&self) -> Option<i64> {
        self.session().map(|session| session.id.get())
    }
}
