//! The Curator for async Rust: a framework over Apache ZooKeeper that manages the session, the
//! retries and the state of the connection, with a fluent builder for every operation.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let connect_string = server.connect_string();
//! use zk_curator::{CreateMode, CuratorFramework};
//!
//! let zk = CuratorFramework::builder().connect_string(connect_string).namespace("orders").build()?;
//! zk.start().await?;
//!
//! let created = zk
//!     .create("/jobs/j-")
//!     .mode(CreateMode::EphemeralSequential)
//!     .creating_parents_as_containers()
//!     .protected()
//!     .data("payload")
//!     .await?;
//! let (data, stat) = zk.get_data(&created.path).with_stat().await?;
//! zk.transaction().check(&created.path, stat.version).set_data(&created.path, "done").commit().await?;
//! assert_eq!(data, "payload");
//!
//! zk.close().await?;
//! # Ok(()) }
//! ```
//!
//! Modules and types:
//!
//! * [`CuratorFramework`] and its [builder](CuratorFrameworkBuilder): start here;
//! * [`op`]: the builders of all operations, and their retries;
//! * [`watch`]: followed states, and the kinds of watches;
//! * [`state`]: SUSPENDED, LOST and RECONNECTED, as a stream with epochs;
//! * [`retry`]: Curator's retry policies, and budgets that several operations share;
//! * [`certain`]: transactions whose outcome can be determined after a lost response;
//! * [`acl`] and [`ensemble`]: the ACLs of new nodes, and the members of the ensemble;
//! * [`OwnedNode`] and [`Ownership`]: a node with a guard that deletes it, and with a fencing
//!   token; the basis of recipes;
//! * [`typed`] and [`value`]: nodes as values of a type; [`model`]: their paths and options as a
//!   specification;
//! * [`raw`]: the interface to the raw client.
//!
//! Features, all off by default:
//!
//! | feature | adds |
//! |---|---|
//! | `tls` | TLS to the servers: a [connector](CuratorFrameworkBuilder::connector) from the module `tls` |
//! | `sasl` | SASL DIGEST-MD5: `CuratorFrameworkBuilder::sasl_digest_md5` |
//! | `kerberos` | SASL GSSAPI: `CuratorFrameworkBuilder::sasl_kerberos` |
//! | `backoff` | any policy of the crate `backoff` as a retry policy: `retry::BackoffRetry` |
//! | `gzip` | Curator's gzip, for [`compression`] |
//! | `schema` | regular expressions and Curator's JSON, for [`schema`] |
//! | `zookeeper-async` | sessions of that crate: the module `raw::zookeeper_async` |
//! | `metrics` | counters and latencies through the crate `metrics`: [`observe`] |
//! | `serde` | values of any type in JSON: `value::Json` |
//! | `blocking` | a front for programs without async code: the module `blocking` |
//! | `signal` | `Shutdown::on_signals` of the recipes |
//!
//! The recipes (locks and more) are in the crate `zk-curator-recipes`, an embedded server for tests
//! in `zk-curator-testing`.

pub mod acl;
mod background;
#[cfg(feature = "blocking")]
pub mod blocking;
mod builder;
pub mod certain;
mod chroot;
pub mod compression;
mod core;
pub mod ensemble;
mod error;
mod framework;
mod handle_options;
mod handover;
#[doc(hidden)]
pub mod internal;
mod janitor;
pub mod model;
mod namespace;
pub mod observe;
pub mod op;
mod outage;
mod owned_node;
pub mod path;
pub mod raw;
pub mod retry;
pub mod schema;
mod setbacks;
pub mod state;
mod task;
#[cfg(feature = "kerberos")]
pub use zk_curator_client::kerberos;
#[cfg(feature = "tls")]
pub use zk_curator_client::tls;
pub mod typed;
pub mod value;
pub mod watch;

pub use crate::core::FencingToken;
pub use builder::CuratorFrameworkBuilder;
pub use error::{Error, ErrorKind, LeftBehind, Result};
pub use framework::CuratorFramework;
pub use namespace::NamespaceError;
pub use outage::Recoverable;
pub use owned_node::{OwnedNode, Ownership};
pub use state::{ConnectionHealth, ConnectionState, ConnectionStateErrorPolicy, ConnectionStatus};
pub use task::{TaskError, TaskHandle};
pub use zk_curator_client::{
    Acl, ClientInfo, CreateMode, Created, Credentials, CredentialsProvider, ErrorCode, EventType,
    OpResult, Permissions, PersistentEvent, SessionCredentials, SessionId, SessionInfo, Stat,
    Version, WatchEnded, WatchedEvent, WatcherType,
};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
