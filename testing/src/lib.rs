//! An embedded ZooKeeper server for tests, with fault injection.
//!
//! * [`TestServer`]: a complete in-memory ZooKeeper in this process, on TCP and on an in-memory
//!   network, in real or in paused time. It is a test double: production runs on Apache ZooKeeper.
//! * [`TestServer::framework`] builds frameworks that are connected to it, [`paused`] runs a test
//!   under a paused clock, and [`TestServer::from_env`] runs the same test on a real ensemble.
//! * [`wait`]: waits with their reason in their name, in the place of sleeps.
//! * [`TestServer::rule`]: faults on matched requests. A [`Verdict`] delays or refuses a request,
//!   or loses it or its reply. See [`rule`]. [`TestServer::journal`] lists the injected faults.
//! * [`TestServer::expire`], [`disconnect`](TestServer::disconnect), [`hold`](TestServer::hold),
//!   [`partition`](TestServer::partition), [`set_read_only`](TestServer::set_read_only),
//!   [`stop`](TestServer::stop), [`restart`](TestServer::restart): faults of the server and the
//!   network.
//! * [`FaultProxy`]: the same rules, and network faults, between clients and any servers, in real
//!   time.
//! * [`TestServer::probe`]: a printable snapshot of nodes, sessions and watches, for assertions
//!   such as "nothing is left behind"; [`TestServer::until`] waits for one.
//! * [`TestServer::snapshot`]: nodes and sessions, to start other servers with or to save to a
//!   file.
//! * [`TestCluster`]: an ensemble of servers whose members lag, are partitioned, stop, and lose the
//!   leadership.
//! * The four-letter words (`ruok`, `srvr`, `mntr` and so on) have their responses.
//! * The program `zk-test-server`, a package of its own, serves clients in other languages.
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
//! It responds to every client operation as Apache ZooKeeper does: `tests/differential_real.rs`
//! compares random operations. Where releases differ, it behaves like 3.9 unless
//! [`TestServerBuilder::version`] says otherwise. Differences:
//!
//! * All data are in memory. Latencies in the responses to four-letter words are zero.
//! * Reconfiguration and SASL are not available, as in Apache ZooKeeper's default configuration.
//! * Requests run one after another. Apache ZooKeeper prepares requests before earlier ones are
//!   applied. This shows in [`SequenceOverflow`] and in pipelined requests: Apache ZooKeeper checks
//!   them against credentials that arrive later and against ACLs and quotas from before the
//!   requests in front of them, and `cversion` may grow by less or more when a failing delete or
//!   multi precedes a create.
//! * Unordered output (children, the ephemeral nodes of an ending session) has the same order in
//!   every run.
//! * Requests that make Apache ZooKeeper exit or never respond, such as quotas that are not numbers
//!   or a `check` outside a multi, are ignored or refused.
//! * Characters outside the basic plane are encoded as UTF-8, not as two surrogates.
//! * Sessions expire with a finer granularity unless [`TestServerBuilder::tick_time`] says
//!   otherwise.

mod access;
mod causes;
mod clock;
mod cluster;
mod collections;
mod config;
mod ensemble;
mod fault_proxy;
mod four_letter;
#[cfg(feature = "framework")]
mod framework;
mod ids;
mod member;
mod paused;
mod quorum;
pub mod rule;
mod server;
mod session;
mod stop_signal;
#[cfg_attr(not(feature = "tls"), path = "tls/absent.rs")]
mod tls;
mod tree;
mod version;
pub mod wait;
mod watch;
mod wire;

pub use access::digest;
pub use causes::with_causes;
pub use cluster::{
    ClusterProbe, LagGuard, MemberProbe, MemberRole, TestCluster, TestClusterBuilder,
};
pub use ensemble::{Fault, Journal, JournalEntry, NodeWrite, Snapshot, SnapshotError, WriteKind};
pub use fault_proxy::{
    FaultProxy, FaultProxyBuilder, FaultProxyError, Flow, ProxiedServer, ProxyCounts, ProxySession,
    ProxyTraffic,
};
#[cfg(feature = "framework")]
pub use framework::{SERVERS_VARIABLE, TestEnsemble};
pub use paused::paused;
pub use rule::{RuleGuard, RuleRequest, Verdict};
pub use server::{HasSession, Probe, ProbeSession, ProbeWatch, TestServer, TestServerBuilder};
pub use stop_signal::stop_signal;
#[cfg(feature = "tls")]
pub use tls::{ServerTls, ServerTlsError};
pub use version::{SequenceOverflow, ZooKeeperVersion};
pub use watch::WatchKind;
pub use wire::{Direction, MemoryConnector};
/// The types that rules compare with.
pub use zk_curator_proto::{ErrorCode, OpCode};
