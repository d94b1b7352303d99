//! An embedded ZooKeeper for tests, with fault injection, and a launcher for Apache ZooKeeper.
//!
//! * [`TestServer`]: a complete in-memory ZooKeeper in this process, on TCP and on an in-memory network, in
//!   real or in paused time. It is a test double: production runs on Apache ZooKeeper, and so do the suites that
//!   matter, see [`real`].
//! * [`TestServer::rule`]: faults on matched requests, as a [`Verdict`]: delayed, refused, lost on the way or on
//!   the way back. See [`rule`].
//! * [`TestServer::expire`], [`disconnect`](TestServer::disconnect), [`hold`](TestServer::hold),
//!   [`partition`](TestServer::partition), [`stop`](TestServer::stop), [`restart`](TestServer::restart): faults of
//!   the server and the network.
//! * [`TestServer::probe`]: a printable snapshot of nodes, sessions and watches, for assertions such as "nothing
//!   is left behind"; [`TestServer::until`] waits for one.
//! * The binary `zk-test-server` serves clients in other languages.
//!
//! ```
//! use zk_curator_testing::{TestServer, Verdict};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let server = TestServer::start().await;
//! println!("connect a client to {}", server.connect_string());
//!
//! let refused = server.rule(|request| {
//!     if request.is_create() { Verdict::Disconnect } else { Verdict::Pass }
//! });
//! // … run the code under test …
//! assert_eq!(refused.hits(), 0);
//! assert!(server.probe().sessions().is_empty(), "{}", server.probe());
//! # }
//! ```
//!
//! How it differs from Apache ZooKeeper: it keeps everything in memory; reconfiguration is disabled and SASL not
//! configured, as by default there; of the identities of one connection it keeps the order in which they were
//! added; session expiry has a finer granularity unless [`TestServerBuilder::tick_time`] says otherwise. Where
//! releases differ, it behaves like 3.9 unless [`TestServerBuilder::version`] says otherwise.

mod access;
mod builder;
mod collections;
mod connection;
mod dispatch;
mod four_letter;
mod network;
mod outbox;
mod probe;
mod reads;
pub mod real;
pub mod rule;
mod server;
mod session;
mod shared;
mod state;
mod tree;
mod version;
mod watch;

pub use access::digest;
pub use builder::TestServerBuilder;
pub use network::MemoryConnector;
pub use probe::{Probe, ProbeSession, ProbeWatch};
pub use rule::{RuleGuard, RuleRequest, Verdict};
pub use server::TestServer;
pub use version::{SequenceOverflow, ZooKeeperVersion};
pub use watch::WatchKind;
