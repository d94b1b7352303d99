//! An embedded ZooKeeper server for tests, with fault injection.
//!
//! * [`TestServer`]: a complete in-memory ZooKeeper in this process, on TCP and on an in-memory network, in
//!   real or in paused time. It is a test double: production runs on Apache ZooKeeper.
//! * [`TestServer::rule`]: faults on matched requests, as a [`Verdict`]: delayed, refused, lost on the way or on
//!   the way back. See [`rule`]. [`TestServer::journal`] tells what was injected.
//! * [`TestServer::expire`], [`disconnect`](TestServer::disconnect), [`hold`](TestServer::hold),
//!   [`partition`](TestServer::partition), [`set_read_only`](TestServer::set_read_only),
//!   [`stop`](TestServer::stop), [`restart`](TestServer::restart): faults of the server and the network.
//! * [`Relay`]: faults of the network between a client and any servers, in real time.
//! * [`TestServer::probe`]: a printable snapshot of nodes, sessions and watches, for assertions such as "nothing
//!   is left behind"; [`TestServer::until`] waits for one.
//! * [`TestServer::snapshot`]: its nodes and sessions, to start other servers with, or to keep in a file.
//! * [`TestCluster`]: several of them that agree on what is written, and then lag, are cut off, end, or lead no
//!   longer.
//! * The four-letter words (`ruok`, `srvr`, `mntr` and so on) are answered.
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
//! # How it differs from Apache ZooKeeper
//! It answers every operation of a client as Apache ZooKeeper does: `tests/differential_real.rs` compares random
//! ones. Where releases differ, it behaves like 3.9 unless [`TestServerBuilder::version`] says otherwise. But
//!
//! * everything is in memory, and latencies in the answers to four-letter words are zero;
//! * nothing is reconfigured, nor is SASL configured, as by default there;
//! * requests are carried out one after the other, each when the one before is done. Apache ZooKeeper prepares them
//!   earlier, which shows in [`SequenceOverflow`], and in requests in flight behind others: there they are judged by
//!   credentials that arrive after them, by the ACLs and quotas from before the ones in front of them, and `cversion`
//!   may grow by less or more when a delete or a multi that fails is in front of a create;
//! * what has no order there has the same one in every run: children, the ephemeral nodes of a session that ends;
//! * where a request makes Apache ZooKeeper end its process or owe the answer for ever, such as quotas that are no
//!   numbers or a `check` outside of a multi, this server ignores or refuses it;
//! * characters outside the basic plane are answered in UTF-8, not as two surrogates;
//! * sessions expire with a finer granularity unless [`TestServerBuilder::tick_time`] says otherwise.

mod access;
mod builder;
mod clock;
mod cluster;
mod collections;
mod connection;
mod dispatch;
mod door;
mod four_letter;
mod glob;
mod journal;
mod log;
mod member;
mod network;
mod outbox;
mod pipe;
mod probe;
mod quorum;
mod reads;
mod relay;
pub mod rule;
mod server;
mod session;
mod shared;
mod snapshot;
mod state;
mod stop_signal;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod tree;
mod version;
mod watch;
mod writes;

pub use access::digest;
pub use builder::TestServerBuilder;
pub use cluster::{ClusterProbe, LagGuard, MemberProbe, MemberRole, TestCluster, TestClusterBuilder};
pub use journal::{Fault, Journal, JournalEntry};
pub use network::{MemoryConnector, Way};
pub use probe::{Probe, ProbeSession, ProbeWatch};
pub use relay::{Flow, Relay, RelayCounts};
pub use rule::{RuleGuard, RuleRequest, Verdict};
pub use server::TestServer;
pub use snapshot::{Snapshot, SnapshotError};
pub use stop_signal::stop_signal;
#[cfg(feature = "tls")]
pub use tls::{ServerTls, ServerTlsError};
pub use version::{SequenceOverflow, ZooKeeperVersion};
pub use watch::WatchKind;
pub use writes::{NodeWrite, WriteKind};

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
