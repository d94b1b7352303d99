//! A rolling restart: every server of an ensemble once, one at a time, and the ensemble serves.
//!
//! A [`RollingRestart`] observes the servers, and decides which one is restarted next. The caller
//! provides the [`RollingMeans`]: a command over SSH, a call to an orchestrator, or another way to
//! restart one server.
//!
//! # Order
//! Observers first, because they have no vote, then the followers, and the leader last: so there is
//! one election. If the leadership moves during the run, the order of the servers that are left
//! adapts.
//!
//! # Protocol
//! 1. Ask all servers. A [doubt](RollingDoubt) ends the run.
//! 2. Restart the next server. Nothing else is restarted before that returns.
//! 3. Ask all servers, until the server has restarted, is the same member, has every transaction
//!    that a member had one observation earlier, and nothing else is in doubt, several times in a
//!    row, in which no server has begun another role. Then continue with 2. A doubt that cannot pass ends the run, and so does the time limit.
//!
//! # Guarantees
//! * A run restarts a server at most once, and only if the last responses prove that the others are
//!   a majority of the voting members that serves, that all members serve, and that none is behind.
//!   A missing response proves nothing.
//! * Responses are about the past. A server that fails, or a reconfiguration, between the last
//!   observation and the restart is noticed after it.
//! * A server is known to have restarted if no process listened in between, or if it has a new role
//!   in another process. Since 3.6, the counters of `mntr` tell processes apart. Before 3.6, and on
//!   servers without these counters, the evidence is a role that is new in the same epoch, and for
//!   the leader a new role: a server that loses its leader at that time looks the same.
//!
//! # Cancel safety
//! Dropping [`RollingRestart::run`] drops a restart that runs: the server may have been restarted,
//! or not. Nothing else is lost: another run, [of the rest](RollingRestart::only), continues.
//!
//! # Errors
//! Only [`RollingRestart::find`] fails. The [end](RollingReport::end) of a run has its reasons.
//!
//! # Example
//! The plan of an ensemble:
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cluster = zk_curator_testing::TestCluster::start(3).await;
//! # let servers = cluster.connect_string();
//! use std::time::Duration;
//!
//! use zk_curator_ops::ensemble::EnsembleProbe;
//! use zk_curator_ops::ensemble::rolling::{RollingEnd, RollingRestart};
//! use zk_curator_ops::ensemble::words::ServerMode;
//!
//! let rolling = RollingRestart::find(EnsembleProbe::new(servers)).await?;
//! let plan = rolling.interval(Duration::from_millis(100)).plan().await;
//! assert_eq!(plan.end, RollingEnd::Planned);
//! let last = plan.rows.last().expect("three servers");
//! assert_eq!(last.role, Some(ServerMode::Leader));
//! # Ok(()) }
//! ```
//!
//! A run over SSH:
//! ```no_run
//! use std::process::Command;
//!
//! use zk_curator_ops::ensemble::EnsembleProbe;
//! use zk_curator_ops::ensemble::probe::ProbedServer;
//! use zk_curator_ops::ensemble::rolling::{
//!     RollingEnd, RollingMeans, RollingProgress, RollingRestart, RollingRestartError,
//! };
//!
//! struct Ssh;
//!
//! impl RollingMeans for Ssh {
//!     async fn restart(&self, server: &ProbedServer) -> Result<(), RollingRestartError> {
//!         let host = server.host.clone();
//!         let run = move || {
//!             Command::new("ssh").args(["--", &host, "systemctl restart zookeeper"]).status()
//!         };
//!         let status = tokio::task::spawn_blocking(run).await;
//!         match status {
//!             Ok(Ok(status)) if status.success() => Ok(()),
//!             Ok(Ok(status)) => Err(RollingRestartError::failed(server, status)),
//!             Ok(Err(error)) => Err(RollingRestartError::not_started(server, error)),
//!             Err(error) => Err(RollingRestartError::failed(server, error)),
//!         }
//!     }
//!
//!     fn report(&self, progress: &RollingProgress) {
//!         println!("{progress}");
//!     }
//! }
//!
//! # async fn example() -> Result<(), zk_curator_ops::Error> {
//! let rolling = RollingRestart::find(EnsembleProbe::new("zk1:2181")).await?;
//! let report = rolling.run(&Ssh, async || std::future::pending::<()>().await).await;
//! for reason in report.end.reasons() {
//!     println!("stopped: {reason}");
//! }
//! assert_eq!(report.end, RollingEnd::Done);
//! # Ok(()) }
//! ```

mod doubt;
mod driver;
mod events;
mod evidence;
mod observation;
mod plan;
mod report;
mod restart;
#[cfg(test)]
mod tests;
mod view;
#[cfg(test)]
mod world;

pub use doubt::RollingDoubt;
pub use driver::RollingMeans;
pub use report::{
    RollingEnd, RollingOutcome, RollingProgress, RollingReport, RollingRestartError, RollingRow,
};
pub use restart::RollingRestart;
