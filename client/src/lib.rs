//! A ZooKeeper client for tokio: one session over any number of consecutive connections.
//!
//! This is the raw client under `zk-curator`. Most services should use the framework, which adds
//! retries, new sessions, namespaces and recipes. This crate guarantees:
//!
//! * **Order.** A request is encoded and queued when its method is called, in call order. The
//!   returned [`Pending`] only waits. Responses to two calls in a row come in that order, in one
//!   round trip.
//! * **Known outcomes.** A failed request says if it [may have been
//!   applied](Error::may_have_applied). Nothing is retried silently.
//! * **Watches survive.** One-shot watches are re-armed after a reconnect, in frames of bounded
//!   size. They fire for changes that happened without a connection.
//! * **A session ends once**, as a state and not as an error string: when the server says so, or
//!   when the granted timeout has passed without a response ([`SessionState::Expired`]).
//!
//! The framework uses it through the traits in [`raw`].
//!
//! Features, off by default: `tls` for `tls::TlsConnector`, `sasl` for
//! `ZooKeeperBuilder::sasl_digest_md5`, `kerberos` for `ZooKeeperBuilder::sasl_kerberos`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let connect_string = server.connect_string();
//! use zk_curator_client::{Acl, CreateMode, ZooKeeper};
//!
//! let zk = ZooKeeper::builder(connect_string).connect()?;
//! let created = zk.create("/a", b"hello", &Acl::open_unsafe(), CreateMode::Ephemeral);
//! let read = zk.get_data("/a");                  // queued behind the create, sent in the same round trip
//! assert_eq!(created.await?.path, "/a");
//! assert_eq!(read.await?.data, "hello");
//! zk.close().await?;
//! # Ok(()) }
//! ```

mod admin;
mod answer;
#[cfg(feature = "signal")]
mod caught_signals;
mod clock;
mod config;
mod connect_string;
mod connector;
mod credentials;
mod error;
mod ignored_signals;
#[doc(hidden)]
pub mod internal;
#[cfg(feature = "kerberos")]
pub mod kerberos;
mod locked;
mod on_drop;
mod operations;
pub mod path;
mod primitives;
pub mod raw;
mod sasl;
mod session;
mod signal;
mod spawn;
mod timer;
#[cfg(feature = "tls")]
pub mod tls;
mod types;
mod version;
mod watch;
mod zookeeper;

pub use answer::{Pending, PendingWatched};
pub use clock::{Clock, NeverSuspended, SystemClock};
pub use config::{ConnectError, DisconnectedPolicy, ZooKeeperBuilder};
pub use connect_string::{ConnectString, ConnectStringError, HostPort};
pub use connector::{ConnectionFailure, Connector, TcpConnector, Transport};
pub use credentials::{Credentials, CredentialsProvider};
pub use error::Error;
pub use session::{ExpiredBy, SessionState, SessionStates, StatePublisher};
pub use spawn::{BackgroundTask, Spawn};
pub use types::{
    AclOf, Children, Created, Data, Op, OpResult, Read, ReadResponse, Reconfiguration,
    SessionCredentials, SessionId, SessionInfo,
};
pub use version::Version;
pub use watch::{
    ChangesSince, OneshotWatch, PersistentEvent, PersistentWatch, WatchEnded, WatchNotifier,
    WatchedEvent,
};
pub use zookeeper::ZooKeeper;

pub use zk_curator_proto::records::{
    Acl, AddWatchMode, ClientInfo, CreateMode, EventType, Permissions, Stat, WatcherType,
};
pub use zk_curator_proto::{DEFAULT_MAX_FRAME, DecodeError, ErrorCode, OpCode};
