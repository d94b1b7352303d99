//! The seam between the framework `zk-curator` and a raw ZooKeeper client.
//!
//! The framework knows sessions only through [`RawClient`]: one value is one session. It opens the next one
//! through a [`RawClientFactory`] when a session is lost. [`NativeFactory`] is the default and opens
//! [`ZooKeeper`](crate::ZooKeeper) sessions. An adapter for another client is a crate that implements the two traits.

mod native;

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use tokio::time::Instant;

use crate::{
    Acl, AclOf, AddWatchMode, ChangesSince, Children, ClientInfo, Created, Data, Error, OneshotWatch, Op,
    OpResult, PersistentWatch, Read, ReadAnswer, Reconfiguration, SessionCredentials, SessionInfo,
    SessionState, Stat, Version, WatchedEvent, WatcherType,
};

pub use native::NativeFactory;

/// The answer to a request that has been queued already.
pub type RawFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// The answer to a request that has been queued already, and that can be taken back until it is sent.
pub trait Revocable<T>: Future<Output = Result<T, Error>> + Send {
    /// Takes the request back, if it is certain that it was not sent: it never will be. Otherwise nothing changes.
    fn withdraw(self: Pin<&mut Self>) -> bool;
}

/// A boxed [`Revocable`].
pub type RevocableFuture<T> = Pin<Box<dyn Revocable<T>>>;

/// A request that counts as sent.
struct Irrevocable<T>(RawFuture<T>);

impl<T> Future for Irrevocable<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<T> Revocable<T> for Irrevocable<T> {
    fn withdraw(self: Pin<&mut Self>) -> bool {
        false
    }
}

/// The states of one session: all of them, in order, beginning with the present one; ends after a final one.
pub type RawStates = Pin<Box<dyn Stream<Item = SessionState> + Send>>;

/// The settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSettings {
    /// The servers, as the user named them.
    pub connect_string: String,
    /// The session timeout to ask for.
    pub session_timeout: Duration,
    /// How long a request waits for a connection before it fails with [`Error::NotConnected`].
    pub connection_timeout: Duration,
    /// How long closing tries to tell a server.
    pub close_timeout: Duration,
    /// Whether a server in read-only mode will do.
    pub read_only: bool,
    /// After which part of the negotiated timeout without a connection the session is given up, from 1 to 100 percent.
    pub expiration_percent: u8,
    /// The largest request in bytes, the servers' `jute.maxbuffer`; `None` for what the client takes it to be.
    pub max_frame: Option<usize>,
    /// The largest answer in bytes; `None` for what the client makes of the largest request.
    pub max_answer: Option<usize>,
    /// How many requests may wait for their answers, and their size in bytes; `None` for the limits of the client.
    pub queue_limits: Option<(usize, usize)>,
    /// Makes its random choices repeatable: another one for every session of a framework that has a seed.
    pub seed: Option<u64>,
    /// A session to take up, rather than begin one.
    pub resume: Option<SessionCredentials>,
    /// The last transaction that earlier sessions have seen, which the first server must have; 0 for none. A client that finds no
    /// such server for the session timeout goes on without.
    pub last_zxid_seen: i64,
}

/// For tests of raw clients. The timeouts are the framework's defaults; there is no server.
impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            connect_string: String::new(),
            session_timeout: Duration::from_secs(60),
            connection_timeout: Duration::from_secs(15),
            close_timeout: Duration::from_secs(5),
            read_only: false,
            expiration_percent: 100,
            max_frame: None,
            max_answer: None,
            queue_limits: None,
            seed: None,
            resume: None,
            last_zxid_seen: 0,
        }
    }
}

/// Opens sessions.
#[async_trait]
pub trait RawClientFactory: Debug + Send + Sync + 'static {
    /// Checks the settings, without I/O.
    ///
    /// # Errors
    /// When no session can ever be opened with them, with what is wrong.
    fn validate(&self, settings: &SessionSettings) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Begins a new session, without waiting for a server. The client goes on trying until it is closed.
    ///
    /// # Errors
    /// When the session cannot even be begun; the framework tries again later.
    async fn open(&self, settings: &SessionSettings) -> Result<Arc<dyn RawClient>, Error>;

    /// Whether its connections are encrypted, so that the client ports that an ensemble names do not serve them.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// Whether its sessions prove who they are by means of their own, such as SASL. A start then fails when that is
    /// refused.
    fn has_credentials(&self) -> bool {
        false
    }
}

/// One session.
///
/// Every request is queued **when its method is called**, in the order of the calls, and answered in that
/// order; the future it returns only waits. Calls therefore neither wait nor need a runtime: `Drop`
/// implementations use them. Errors say whether the request may have been applied.
///
/// A method that a client does not support fails with [`Error::Unsupported`], as the default implementations do.
#[async_trait]
pub trait RawClient: Debug + Send + Sync + 'static {
    /// Returns a handle with a deadline for every request that is made through it: a request that is not answered in
    /// this time from the call on fails with [`Error::DeadlineExceeded`].
    fn with_deadline(&self, deadline: Duration) -> Arc<dyn RawClient>;
    /// Follows the state.
    fn states(&self) -> RawStates;
    /// The session, once there is one.
    fn session(&self) -> Option<SessionInfo>;
    /// The server of the present connection, as `host:port`, if there is one and it is known.
    fn server(&self) -> Option<Arc<str>> {
        None
    }
    /// Why the last connection, or the last attempt to open one, failed, if it is known.
    fn last_failure(&self) -> Option<Arc<io::Error>> {
        None
    }
    /// Creates a node; `op` is an [`Op::Create`].
    fn create(&self, op: &Op) -> RawFuture<Created>;
    /// [`create`](Self::create), for a caller that may lose interest before it is sent. By default it cannot be taken back.
    fn create_revocable(&self, op: &Op) -> RevocableFuture<Created> {
        Box::pin(Irrevocable(self.create(op)))
    }
    /// Deletes a node.
    fn delete(&self, path: &str, version: Version) -> RawFuture<()>;
    /// Answers the stat of a node, `None` if it does not exist.
    fn exists(&self, path: &str) -> RawFuture<Option<Stat>>;
    /// [`RawClient::exists`] with a watch.
    fn exists_watched(&self, path: &str) -> RawFuture<(Option<Stat>, OneshotWatch)>;
    /// Answers data and stat of a node.
    fn get_data(&self, path: &str) -> RawFuture<Data>;
    /// [`RawClient::get_data`] with a watch.
    fn get_data_watched(&self, path: &str) -> RawFuture<(Data, OneshotWatch)>;
    /// Replaces the data of a node.
    fn set_data(&self, path: &str, data: &[u8], version: Version) -> RawFuture<Stat>;
    /// Answers the names of a node's children.
    fn get_children(&self, path: &str) -> RawFuture<Children>;
    /// [`RawClient::get_children`] with a watch.
    fn get_children_watched(&self, path: &str) -> RawFuture<(Children, OneshotWatch)>;
    /// Reads many nodes in one request; each read succeeds or fails for itself.
    fn multi_read(&self, _reads: &[Read]) -> RawFuture<Vec<Result<ReadAnswer, Error>>> {
        unsupported("many reads in one request")
    }
    /// Asks a server which of many nodes have changed after a transaction; see
    /// [`ZooKeeper::changes_since`](crate::ZooKeeper::changes_since). Nothing is sent before the answer is awaited.
    fn changes_since(&self, _question: &Arc<ChangesSince>) -> RawFuture<Vec<WatchedEvent>> {
        unsupported("changes since a transaction")
    }
    /// Brings the server up to date with the leader.
    fn sync(&self, path: &str) -> RawFuture<()>;
    /// Applies all operations or none.
    fn multi(&self, ops: &[Op]) -> RawFuture<Vec<OpResult>>;
    /// Whether these operations are a transaction that servers accept, by its size, without sending anything. By default it
    /// is not known, and they are.
    ///
    /// # Errors
    /// [`Error::TooLarge`], and what else [`multi`](Self::multi) refuses to send.
    fn check_size(&self, _ops: &[Op]) -> Result<(), Error> {
        Ok(())
    }
    /// Adds an identity to this and every later connection.
    fn add_auth(&self, scheme: &str, auth: &[u8]) -> RawFuture<()>;
    /// Answers the access control list of a node.
    fn get_acl(&self, _path: &str) -> RawFuture<AclOf> {
        unsupported("reading an ACL")
    }
    /// Replaces the access control list of a node.
    fn set_acl(&self, _path: &str, _acl: &[Acl], _version: Version) -> RawFuture<Stat> {
        unsupported("replacing an ACL")
    }
    /// Adds a watch that stays.
    fn add_watch(&self, _path: &str, _mode: AddWatchMode) -> RawFuture<PersistentWatch> {
        unsupported("a lasting watch")
    }
    /// Removes all watches of a kind on a node.
    fn remove_watches(&self, _path: &str, _watcher_type: WatcherType) -> RawFuture<()> {
        unsupported("removing watches")
    }
    /// Answers the paths of the ephemeral nodes of this session that begin with `prefix`.
    fn get_ephemerals(&self, _prefix: &str) -> RawFuture<Vec<String>> {
        unsupported("the ephemeral nodes of a session")
    }
    /// Answers how many nodes are below a node, at any depth.
    fn get_all_children_number(&self, _path: &str) -> RawFuture<u32> {
        unsupported("the number of nodes below a node")
    }
    /// Answers the identities of the present connection.
    fn who_am_i(&self) -> RawFuture<Vec<ClientInfo>> {
        unsupported("the identities of a connection")
    }
    /// Answers the configuration of the ensemble, `/zookeeper/config` whatever the chroot.
    fn get_config(&self) -> RawFuture<Data> {
        unsupported("the configuration of the ensemble")
    }
    /// [`RawClient::get_config`] with a watch.
    fn get_config_watched(&self) -> RawFuture<(Data, OneshotWatch)> {
        unsupported("the configuration of the ensemble")
    }
    /// Changes the members of the ensemble, and answers the new configuration.
    fn reconfig(&self, _change: &Reconfiguration) -> RawFuture<Data> {
        unsupported("changing the ensemble")
    }
    /// Replaces the servers, in the same chroot.
    ///
    /// # Errors
    /// When the connect string is not valid, or this client cannot.
    fn update_server_list(&self, _connect_string: &str) -> Result<(), Error> {
        Err(Error::Unsupported("another list of servers"))
    }
    /// The credentials to resume the session with, if they are known.
    fn credentials(&self) -> Option<SessionCredentials> {
        None
    }
    /// Until when the session is certain to be alive, whether or not the tasks of the client get to run; `None` if that is not
    /// known. See [`ZooKeeper::valid_until`](crate::ZooKeeper::valid_until).
    fn valid_until(&self) -> Option<Instant> {
        None
    }
    /// The last transaction that the client has seen, or was opened with; 0 if that is not known.
    fn last_zxid_seen(&self) -> i64 {
        0
    }
    /// The transaction of [`SessionSettings::last_zxid_seen`], if no server had it and the client has given that up.
    fn lost_history(&self) -> Option<i64> {
        None
    }
    /// Leaves the session, which lives on, after the requests that were queued before.
    ///
    /// # Errors
    /// When there is no session to leave, or this client cannot do that; then nothing happens.
    async fn detach(&self) -> Result<SessionCredentials, Error> {
        Err(Error::Unsupported("leaving a session"))
    }
    /// Ends another session, which was given up, through the server of this one. One that has expired is no error.
    ///
    /// # Errors
    /// When the server could not be told, or this client cannot do that.
    async fn end_session(&self, _credentials: SessionCredentials) -> Result<(), Error> {
        Err(Error::Unsupported("ending another session"))
    }
    /// Closes the session, after the requests that were queued before.
    ///
    /// # Errors
    /// When no server could be told; the client is closed all the same.
    async fn close(&self) -> Result<(), Error>;
}

fn unsupported<T>(what: &'static str) -> RawFuture<T> {
    Box::pin(async move { Err(Error::Unsupported(what)) })
}
