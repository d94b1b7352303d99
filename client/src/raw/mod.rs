//! The interface between the framework `zk-curator` and a raw ZooKeeper client.
//!
//! The framework knows sessions only through [`RawClient`]: one value is one session. When a
//! session is lost, it opens the next one through a [`RawClientFactory`]. [`NativeFactory`] is the
//! default and opens [`ZooKeeper`](crate::ZooKeeper) sessions. An adapter for another client is a
//! crate that implements the two traits.

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
    Acl, AclOf, AddWatchMode, ChangesSince, Children, ClientInfo, Created, Data, Error,
    OneshotWatch, Op, OpResult, PersistentWatch, Read, ReadResponse, Reconfiguration,
    SessionCredentials, SessionInfo, SessionState, Stat, Version, WatchedEvent, WatcherType,
};

pub use native::NativeFactory;

/// The response to a request that is already queued.
pub type RawFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// The response to a request that is already queued, and that can be withdrawn until it is sent.
pub trait Revocable<T>: Future<Output = Result<T, Error>> + Send {
    /// Withdraws the request. If this returns `true`, the request was not sent and never will be.
    /// Otherwise nothing changes.
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

/// The states of one session: all states, in order, beginning with the current one. Ends after a
/// final state.
pub type RawStates = Pin<Box<dyn Stream<Item = SessionState> + Send>>;

/// The settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSettings {
    /// The servers, as the user wrote them.
    pub connect_string: String,
    /// The session timeout to request.
    pub session_timeout: Duration,
    /// The time for which a request waits for a connection before it fails with
    /// [`Error::NotConnected`].
    pub connection_timeout: Duration,
    /// The time for which closing tries to reach a server.
    pub close_timeout: Duration,
    /// `true` if read-only servers are accepted.
    pub read_only: bool,
    /// The part of the granted timeout, in percent from 1 to 100, after which a client without a
    /// connection gives the session up.
    pub expiration_percent: u8,
    /// The largest request in bytes, the servers' `jute.maxbuffer`; `None` for the client's
    /// default.
    pub max_frame: Option<usize>,
    /// The largest response in bytes; `None` for the limit that the client derives from the largest
    /// request.
    pub max_response: Option<usize>,
    /// The maximum number of requests that wait for responses, and their total size in bytes;
    /// `None` for the client's limits.
    pub queue_limits: Option<(usize, usize)>,
    /// The seed of random choices, for reproducible runs. Each session of a framework with a seed
    /// gets another one.
    pub seed: Option<u64>,
    /// A session to resume instead of beginning a new one.
    pub resume: Option<SessionCredentials>,
    /// The last transaction that earlier sessions have seen; 0 for none. The first server must have
    /// it. A client that finds no such server for the session timeout continues without it.
    pub last_zxid_seen: i64,
}

/// Settings for tests of raw clients. The timeouts are the framework's defaults; there is no
/// server.
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
            max_response: None,
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
    /// Returns the fault if no session can ever be opened with these settings.
    fn validate(
        &self,
        settings: &SessionSettings,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Begins a new session, without waiting for a server. The client keeps trying until it is
    /// closed.
    ///
    /// # Errors
    /// Fails if the session cannot be begun. The framework tries again later.
    async fn open(&self, settings: &SessionSettings) -> Result<Arc<dyn RawClient>, Error>;

    /// Returns `true` if its connections are encrypted. The client ports that an ensemble announces
    /// cannot be used then.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// Returns `true` if its sessions authenticate by a mechanism of their own, such as SASL. A
    /// start then fails if a server refuses the credentials.
    fn has_credentials(&self) -> bool {
        false
    }
}

/// One session.
///
/// Every request is queued **when its method is called**, in the order of the calls, and has its
/// response in that order. The returned future only waits. Calls therefore neither wait nor need a
/// runtime, so `Drop` implementations can use them. Errors say if the request may have been
/// applied.
///
/// A method that a client does not support fails with [`Error::Unsupported`]; this is the default
/// implementation.
#[async_trait]
pub trait RawClient: Debug + Send + Sync + 'static {
    /// Returns a handle that gives each of its requests a deadline. A request without a response in
    /// this time after the call fails with [`Error::DeadlineExceeded`].
    fn with_deadline(&self, deadline: Duration) -> Arc<dyn RawClient>;
    /// Returns a stream of the states.
    fn states(&self) -> RawStates;
    /// Returns the session, if there is one already.
    fn session(&self) -> Option<SessionInfo>;
    /// Returns the server of the current connection, as `host:port`, if it is known.
    fn server(&self) -> Option<Arc<str>> {
        None
    }
    /// Returns the reason why the last connection, or the last attempt to open one, failed, if it
    /// is known.
    fn last_failure(&self) -> Option<Arc<io::Error>> {
        None
    }
    /// Creates a node; `op` is an [`Op::Create`].
    fn create(&self, op: &Op) -> RawFuture<Created>;
    /// Does the same as [`create`](Self::create), for a caller that may withdraw it before it is
    /// sent. By default it cannot be withdrawn.
    fn create_revocable(&self, op: &Op) -> RevocableFuture<Created> {
        Box::pin(Irrevocable(self.create(op)))
    }
    /// Does the same as [`multi`](Self::multi), for a caller that may withdraw it before it is
    /// sent. By default it cannot be withdrawn.
    fn multi_revocable(&self, ops: &[Op]) -> RevocableFuture<Vec<OpResult>> {
        Box::pin(Irrevocable(self.multi(ops)))
    }
    /// Deletes a node.
    fn delete(&self, path: &str, version: Version) -> RawFuture<()>;
    /// Returns the stat of a node, `None` if it does not exist.
    fn exists(&self, path: &str) -> RawFuture<Option<Stat>>;
    /// Does the same as [`RawClient::exists`], and sets a watch.
    fn exists_watched(&self, path: &str) -> RawFuture<(Option<Stat>, OneshotWatch)>;
    /// Returns data and stat of a node.
    fn get_data(&self, path: &str) -> RawFuture<Data>;
    /// Does the same as [`RawClient::get_data`], and sets a watch.
    fn get_data_watched(&self, path: &str) -> RawFuture<(Data, OneshotWatch)>;
    /// Replaces the data of a node.
    fn set_data(&self, path: &str, data: &[u8], version: Version) -> RawFuture<Stat>;
    /// Returns the names of a node's children.
    fn get_children(&self, path: &str) -> RawFuture<Children>;
    /// Does the same as [`RawClient::get_children`], and sets a watch.
    fn get_children_watched(&self, path: &str) -> RawFuture<(Children, OneshotWatch)>;
    /// Reads many nodes in one request. Each read has a result of its own.
    fn multi_read(&self, _reads: &[Read]) -> RawFuture<Vec<Result<ReadResponse, Error>>> {
        unsupported("many reads in one request")
    }
    /// Returns which of many nodes have changed after a transaction; see
    /// [`ZooKeeper::changes_since`](crate::ZooKeeper::changes_since). Nothing is sent before the
    /// future is polled.
    fn changes_since(&self, _question: &Arc<ChangesSince>) -> RawFuture<Vec<WatchedEvent>> {
        unsupported("changes since a transaction")
    }
    /// Brings the server up to date with the leader.
    fn sync(&self, path: &str) -> RawFuture<()>;
    /// Applies all operations or none.
    fn multi(&self, ops: &[Op]) -> RawFuture<Vec<OpResult>>;
    /// Checks that servers accept a transaction of this size. Sends nothing. By default the size is
    /// not known, and this succeeds.
    ///
    /// # Errors
    /// [`Error::TooLarge`], and the errors with which [`multi`](Self::multi) fails before it sends.
    fn check_size(&self, _ops: &[Op]) -> Result<(), Error> {
        Ok(())
    }
    /// Adds an identity to this and every later connection.
    fn add_auth(&self, scheme: &str, auth: &[u8]) -> RawFuture<()>;
    /// Returns the access control list of a node.
    fn get_acl(&self, _path: &str) -> RawFuture<AclOf> {
        unsupported("reading an ACL")
    }
    /// Replaces the access control list of a node.
    fn set_acl(&self, _path: &str, _acl: &[Acl], _version: Version) -> RawFuture<Stat> {
        unsupported("replacing an ACL")
    }
    /// Adds a persistent watch.
    fn add_watch(&self, _path: &str, _mode: AddWatchMode) -> RawFuture<PersistentWatch> {
        unsupported("a persistent watch")
    }
    /// Removes all watches of a kind on a node.
    fn remove_watches(&self, _path: &str, _watcher_type: WatcherType) -> RawFuture<()> {
        unsupported("removing watches")
    }
    /// Returns the paths of the ephemeral nodes of this session that begin with `prefix`.
    fn get_ephemerals(&self, _prefix: &str) -> RawFuture<Vec<String>> {
        unsupported("the ephemeral nodes of a session")
    }
    /// Returns the number of nodes below a node, at any depth.
    fn get_all_children_number(&self, _path: &str) -> RawFuture<u32> {
        unsupported("the number of nodes below a node")
    }
    /// Returns the identities of the current connection.
    fn who_am_i(&self) -> RawFuture<Vec<ClientInfo>> {
        unsupported("the identities of a connection")
    }
    /// Returns the configuration of the ensemble: `/zookeeper/config`, whatever the chroot is.
    fn get_config(&self) -> RawFuture<Data> {
        unsupported("the configuration of the ensemble")
    }
    /// Does the same as [`RawClient::get_config`], and sets a watch.
    fn get_config_watched(&self) -> RawFuture<(Data, OneshotWatch)> {
        unsupported("the configuration of the ensemble")
    }
    /// Changes the members of the ensemble, and returns the new configuration.
    fn reconfig(&self, _change: &Reconfiguration) -> RawFuture<Data> {
        unsupported("changing the ensemble")
    }
    /// Replaces the servers; the chroot must be the same.
    ///
    /// # Errors
    /// Fails if the connect string is not valid, or if this client cannot do it.
    fn update_server_list(&self, _connect_string: &str) -> Result<(), Error> {
        Err(Error::Unsupported("another list of servers"))
    }
    /// Returns the credentials to resume the session with, if they are known.
    fn credentials(&self) -> Option<SessionCredentials> {
        None
    }
    /// Returns the time until which the session is certainly alive, even if the client's tasks do
    /// not run; `None` if it is not known. See
    /// [`ZooKeeper::valid_until`](crate::ZooKeeper::valid_until).
    fn valid_until(&self) -> Option<Instant> {
        None
    }
    /// Returns the time for which the machine was suspended, counted from any fixed point in time:
    /// see [`Clock`](crate::Clock). `None` if it is not known.
    fn suspended(&self) -> Option<Duration> {
        None
    }
    /// Returns the last transaction that the client has seen, or was opened with; 0 if it is not
    /// known.
    fn last_zxid_seen(&self) -> i64 {
        0
    }
    /// Returns the transaction of [`SessionSettings::last_zxid_seen`], if no server had it and the
    /// client has continued without it.
    fn lost_history(&self) -> Option<i64> {
        None
    }
    /// Leaves the session, which stays alive, after the responses to all queued requests.
    ///
    /// # Errors
    /// Fails if there is no session to leave, or if this client cannot do it. Nothing happens then.
    async fn detach(&self) -> Result<SessionCredentials, Error> {
        Err(Error::Unsupported("leaving a session"))
    }
    /// Ends another session, which was given up, through the server of this one. Succeeds if that
    /// session has already expired.
    ///
    /// # Errors
    /// Fails if no server could be reached, or if this client cannot do it.
    async fn end_session(&self, _credentials: SessionCredentials) -> Result<(), Error> {
        Err(Error::Unsupported("ending another session"))
    }
    /// Closes the session, after the requests that were queued before.
    ///
    /// # Errors
    /// Fails if no server could be reached. The client is closed in any case.
    async fn close(&self) -> Result<(), Error>;
}

fn unsupported<T>(what: &'static str) -> RawFuture<T> {
    Box::pin(async move { Err(Error::Unsupported(what)) })
}
