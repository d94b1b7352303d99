//! A session with ZooKeeper for each user, with the digest that the user has entered.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::internal::{Locked, sleep};
use zk_curator::state::StateWatch;
use zk_curator::{CuratorFramework, CuratorFrameworkBuilder};

use crate::problem::{Problem, RequestResult};
use crate::security::{ClientId, Keys, excess};

/// The time between two looks for idle sessions.
const LOOK: Duration = Duration::from_secs(30);
/// The longest name and password together, in bytes.
const LONGEST: usize = 1_024;

/// The reason why no framework can be built.
type ConnectError = Box<dyn StdError + Send + Sync>;

/// Builds the frameworks of the users.
type Connect = dyn Fn() -> Result<CuratorFrameworkBuilder, ConnectError> + Send + Sync;

/// Sessions with ZooKeeper in the name of the users who have signed in.
///
/// The login form then also asks for a name and a password of ZooKeeper's scheme `digest`. Every
/// request of that browser is sent in a session with this identity and no other one. The password
/// is only in the settings of that session, in memory, and is gone when the session is closed.
/// ZooKeeper does not check it: a wrong password is another identity, with the rights of everybody.
///
/// All clones are handles to the same sessions.
///
/// ```no_run
/// use zk_curator::CuratorFramework;
/// use zk_curator_web::{Impersonation, WebOptions};
///
/// let connect = || Ok(CuratorFramework::builder().connect_string("zk1:2181,zk2:2181"));
/// let impersonation = Impersonation::new(connect);
/// let options = WebOptions::new().impersonate(impersonation.clone());
/// # drop(options);
/// # async move {
/// // At the end of the program:
/// impersonation.close().await;
/// # };
/// ```
#[derive(Clone)]
#[must_use]
pub struct Impersonation {
    connect: Arc<Connect>,
    most: usize,
    idle: Duration,
    open: Arc<Locked<BTreeMap<ClientId, OpenClient>>>,
}

/// The session of a user with ZooKeeper.
#[derive(Debug, Clone)]
pub(crate) struct UserSession {
    pub(crate) zk: CuratorFramework,
    /// Differs for each framework.
    mark: Arc<()>,
}

struct OpenClient {
    user: Arc<str>,
    session: UserSession,
    used: Instant,
}

impl UserSession {
    /// Returns `true` if both are sessions of one framework.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.mark, &other.mark)
    }
}

impl Impersonation {
    /// Returns the settings. `connect` builds the framework of a user: with the servers and without
    /// any identity, because a session has the rights of all of its identities together. The
    /// certificate of a client is an identity too.
    pub fn new(
        connect: impl Fn() -> Result<CuratorFrameworkBuilder, ConnectError> + Send + Sync + 'static,
    ) -> Self {
        let idle = Duration::from_secs(15 * 60);
        Self { connect: Arc::new(connect), most: 64, idle, open: Arc::default() }
    }

    /// Sets the number of sessions, from 1. Above it, the least recently used session of the user
    /// with the most sessions is closed, and the user has to sign in again. Default: 64.
    pub const fn most(mut self, sessions: usize) -> Self {
        self.most = if sessions == 0 { 1 } else { sessions };
        self
    }

    /// Sets the time without a request after which a session is closed. A live page makes a request
    /// at least every 10 minutes. Default: 15 minutes.
    pub const fn idle(mut self, time: Duration) -> Self {
        self.idle = time;
        self
    }

    /// Closes all sessions, and waits for their end.
    ///
    /// # Cancel safety
    /// The sessions are closed in the background.
    pub async fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock());
        open.values().for_each(|client| client.session.zk.close_in_background());
        for client in open.into_values() {
            // A session that cannot be closed expires.
            drop(client.session.zk.close().await);
        }
    }

    /// Opens a session for a user, unless there is one with this digest. Does not wait for it.
    pub(crate) fn open(&self, keys: &Keys, user: &str, digest: &str) -> RequestResult<ClientId> {
        check(digest)?;
        let id = keys.client_id(user, digest);
        if self.session_of(id).is_some() {
            return Ok(id);
        }
        let builder = (self.connect)().map_err(|why| failed(&*why))?;
        let zk = builder.authorization("digest", digest.to_owned()).build()?;
        zk.start_in_background()?;
        let session = UserSession { zk, mark: Arc::default() };
        let client = OpenClient { user: user.into(), session, used: Instant::now() };
        let mut open = self.open.lock();
        while open.len() >= self.most {
            let clients = open.iter().map(|(id, client)| (*id, &*client.user, client.used));
            let Some(oldest) = excess(clients) else { break };
            if let Some(client) = open.remove(&oldest) {
                client.session.zk.close_in_background();
            }
        }
        if let Some(other) = open.insert(id, client) {
            // The user has signed in twice at the same time.
            other.session.zk.close_in_background();
        }
        Ok(id)
    }

    /// Returns a session that is open, and notes that it is used.
    pub(crate) fn session_of(&self, id: ClientId) -> Option<UserSession> {
        let mut open = self.open.lock();
        let client = open.get_mut(&id)?;
        client.used = Instant::now();
        Some(client.session.clone())
    }

    /// Returns `true` if a session is open.
    pub(crate) fn is_open(&self, id: ClientId) -> bool {
        self.open.lock().contains_key(&id)
    }

    /// Closes a session, for example because its user has signed out.
    pub(crate) fn close_one(&self, id: ClientId) {
        if let Some(client) = self.open.lock().remove(&id) {
            client.session.zk.close_in_background();
        }
    }

    /// Closes idle sessions until the framework of the explorer is closed, and then all of them.
    pub(crate) async fn sweep(self, mut states: StateWatch) {
        let mut closed = std::pin::pin!(async { while states.next().await.is_some() {} });
        loop {
            tokio::select! {
                () = &mut closed => break,
                () = sleep(LOOK) => self.close_idle(),
            }
        }
        self.close().await;
    }

    fn close_idle(&self) {
        let now = Instant::now();
        self.open.lock().retain(|_, client| {
            let is_idle = now.saturating_duration_since(client.used) >= self.idle;
            if is_idle {
                client.session.zk.close_in_background();
            }
            !is_idle
        });
    }
}

/// Checks a name and a password.
fn check(digest: &str) -> RequestResult<()> {
    let is_valid = digest.len() <= LONGEST
        && !digest.contains(char::is_control)
        && digest
            .split_once(':')
            .is_some_and(|(name, password)| !name.is_empty() && !password.is_empty());
    if is_valid {
        return Ok(());
    }
    Err(Problem::usage("Enter your identity in ZooKeeper: a name, a colon and a password."))
}

fn failed(why: &(dyn StdError + Send + Sync)) -> Problem {
    let detail = format!("No session with ZooKeeper can be opened: {why}.");
    Problem::unavailable("No session with ZooKeeper", detail)
}

impl fmt::Debug for Impersonation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Impersonation")
            .field("most", &self.most)
            .field("idle", &self.idle)
            .field("open", &self.open.lock().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_a_name_and_a_password() {
        assert!(check("ann:secret").is_ok() && check("ann:a:b").is_ok());
        let long = format!("ann:{}", "x".repeat(LONGEST));
        for digest in ["", "ann", "ann:", ":secret", "ann:a\nb", &long] {
            assert!(check(digest).is_err(), "{digest}");
        }
    }
}
