//! Simulation of whole services: clients, servers and network run in one thread, in simulated time,
//! under one seed.
//!
//! * [`Sim`] runs a [`Workload`] on a number of clients and servers while [`Faults`] happen. It
//!   returns an [`Outcome`]: the [history](History), the violation if there is one, and figures.
//!   The same seed gives the same history, byte for byte.
//! * A workload is written once, against a [`Client`]. It records what it did and saw as
//!   [`Event`]s.
//! * [`Sim::service`] runs a service as it is in production: with a framework, and a
//!   [`Recorder`](zk_curator::observe::Recorder) in place of the client.
//! * [Checkers](checkers) judge the history. In addition, every run fails if a client does not
//!   finish after all faults are over, if a task panics, if a task was not started through its
//!   client or its framework, or if a task, a session or a node is left behind.
//! * [`Sim::shrink`] makes a failed run as small as possible.
//! * [`Coverage`] counts which faults have hit between which events.
//! * [`scenarios`] has a workload for each recipe, which the program `zk-sim` runs.
//!
//! ```
//! use std::time::Duration;
//!
//! use zk_curator_recipes::lock::InterProcessMutex;
//! use zk_curator_sim::{Client, Failure, Faults, Sim};
//!
//! /// What each process of the service does.
//! async fn work(client: Client) -> Result<(), Failure> {
//!     let zk = client.connect().await?;
//!     let lock = InterProcessMutex::new(&zk, "/locks/orders");
//!     while client.next_round().is_some() {
//!         // Acquiring may fail while there are faults. The client then begins its next round.
//!         let Ok(guard) = lock.acquire().await else { continue };
//!         tokio::time::sleep(client.moment(Duration::from_millis(50))).await;
//!         drop(guard);
//!     }
//!     Ok(())
//! }
//!
//! for seed in 0..5 {
//!     let outcome = Sim::seed(seed).servers(3).clients(3).rounds(5).workload(work).faults(Faults::random()).run();
//!     assert_eq!(outcome.violation, None, "seed {seed}:\n{}", outcome.history);
//! }
//! ```
//!
//! # What is simulated
//! Every client is a process on a host of its own. Its tasks are stopped, killed or delayed
//! together, and its links to the servers are cut or slow. Servers are those of a
//! [`TestCluster`](zk_curator_testing::TestCluster). Bytes take time; they stay in order on one
//! connection, and overtake each other on different connections. The seed also decides which of
//! several ready tasks runs first. Each of these choices has a random generator of its own, so
//! leaving out a fault or a client does not change the other draws.
//!
//! Only one thread runs at a time. Races between two threads of one process need tests of another
//! kind.

mod census;
pub mod checkers;
mod client;
mod coverage;
mod deadline;
mod exhaust;
mod faults;
pub mod history;
pub mod host;
mod looks;
mod options;
mod outcome;
mod process;
mod remote;
mod resource;
mod run;
#[expect(clippy::disallowed_methods, reason = "the work of a service takes time")]
pub mod scenarios;
mod seed;
mod service;
mod shared_run;
mod shrink;
mod sim;
mod tasks;
mod watch;
mod world;

pub use checkers::Violation;
pub use client::{Client, ClientParts, Failure, Rounds, Running, Workload};
pub use coverage::Coverage;
pub use exhaust::{DecisionPoint, Exhaustion, Explored, FaultPlan, Flaw, PointFault, PointKind};
pub use faults::{Fault, FaultAction, FaultKind, Faults};
pub use history::{Event, History, Record};
pub use options::{ClientSettings, Setting};
pub use outcome::{Achieved, Injected, Outcome, RunStats};
pub use resource::FencedResource;
pub use scenarios::Scenario;
pub use shared_run::Run;
pub use shrink::Shrunk;
pub use sim::Sim;
pub use tasks::Task;

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
