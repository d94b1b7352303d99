//! Chaos in real time: the workloads of the [simulator](zk_curator_sim) on an ensemble of Apache
//! ZooKeeper whose servers, network and clients fail for real.
//!
//! A [`Chaos`] runs simulations unchanged, with their workloads, checkers and nodes. Every client
//! is a process of its own, and has a proxy of its own to every server. A seed decides the faults
//! of each of them independently:
//!
//! | what | how |
//! |---|---|
//! | servers, any or the leader | killed (SIGKILL) and started again; stopped (SIGSTOP) and continued; all stopped |
//! | the network of a client, to one server or to all | connections cut, or refused; silent in both directions or in one, with the sent requests held back or lost; slow |
//! | the process of a client | stopped and continued; killed, and another one started in its place |
//! | the session of a client | closed by another connection, with its id and password |
//!
//! Half of the faults of clients wait for the moment in which the client has acquired a resource.
//! Faults last from a hundredth of a session timeout to two and a half session timeouts. The
//! workload also drops futures ([`Client::maybe_cancel`](zk_curator_sim::Client::maybe_cancel)).
//!
//! After each [round](Chaos::round) all faults end. Then all clients have to finish in time, with
//! exit code 0, no node and no session may be left on the servers, and the checkers judge what the
//! clients saw. A round in which the servers themselves have lost transactions is
//! [void](Report::void). `docs/book/src/testing/chaos.md` describes the limits of real time.
//!
//! A busy machine delays clients without faults, too. So where a workload expects something soon,
//! it counts steps instead of time: reads of a node, or iterations of a wait. A pause of the process
//! is one step. Two tasks never compare their clocks.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use zk_curator_real::chaos::Chaos;
//! use zk_curator_sim::checkers::Exclusion;
//! use zk_curator_sim::{Client, Failure, Sim};
//!
//! async fn work(client: Client) -> Result<(), Failure> {
//!     let zk = client.connect().await?;
//!     while client.next_round().is_some() {
//!         // …
//!     }
//!     Ok(())
//! }
//!
//! fn main() -> ExitCode {
//!     let orders = Sim::seed(1).workload(work).checker(Exclusion::mutual());
//!     let chaos = Chaos::of([("orders", orders)]);
//!     // The clients are processes of this program.
//!     if let Some(code) = chaos.work_if_client() {
//!         return code;
//!     }
//!     run(&chaos)
//! }
//!
//! #[tokio::main]
//! async fn run(chaos: &Chaos) -> ExitCode {
//!     match chaos.run(|line| println!("{line}")).await {
//!         Ok(report) if report.found.is_empty() => ExitCode::SUCCESS,
//!         Ok(report) => {
//!             println!("{report}\n{}", report.found[0]);
//!             ExitCode::FAILURE
//!         }
//!         Err(error) => {
//!             println!("{error}");
//!             ExitCode::from(2)
//!         }
//!     }
//! }
//! ```
//!
//! `zk-chaos` runs the scenarios in this way. Unix only.

mod clients;
mod error;
mod journal;
mod judge;
mod leftovers;
mod link;
mod process;
mod report;
mod round;
mod schedule;
mod servers;
mod settings;
mod wire;
mod witness;
mod worker;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use error::ChaosError;
pub use report::{Found, RecipeReport, Report};
pub use settings::Chaos;

impl Chaos {
    /// Does the work of a client and returns its exit code, if [`Chaos::run`] started this process
    /// as a client. Returns `None` otherwise. Call it first in `main`, outside a runtime.
    #[must_use]
    pub fn work_if_client(&self) -> Option<ExitCode> {
        worker::work_if_client(&self.subjects)
    }

    /// Starts the servers and the clients. The clients are processes of this program, whose `main`
    /// calls [`Chaos::work_if_client`]. Stops at the first violation. `progress` receives a line
    /// from time to time.
    ///
    /// # Errors
    /// A [`ChaosError`] if the run cannot be made. Violations are in the report.
    ///
    /// # Cancel safety
    /// If the future is dropped, all processes are killed.
    pub async fn run(&self, mut progress: impl FnMut(&str)) -> Result<Report, ChaosError> {
        let program = std::env::current_exe().map_err(ChaosError::io("find this program"))?;
        let program: Arc<Path> = program.into();
        let mut ensemble = servers::start(self.servers.max(1)).await?;
        let mut report = Report::default();
        let began = Instant::now();
        let mut left = self.duration;
        let mut seed = self.seed;
        while !left.is_zero() && report.found.is_empty() {
            let faulty = left.min(self.round.max(Duration::from_secs(1)));
            let round = round::play(self, seed, faulty, &program, &mut ensemble).await?;
            progress(&round.summary(seed));
            report.add(seed, round);
            left -= faulty;
            seed = seed.wrapping_add(1);
        }
        report.took = began.elapsed();
        report.judge(self);
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_sim::Sim;

    use super::settings::Subject;
    use super::*;

    #[test]
    fn a_scenario_may_ask_for_more_patience_and_not_for_less() {
        let minute = Duration::from_secs(60);
        let subject = |sim| Subject { name: String::new(), sim };
        assert_eq!(subject(Sim::seed(0)).patience(minute), minute);
        for (own, granted) in [(minute * 10, minute * 10), (minute / 10, minute)] {
            assert_eq!(subject(Sim::seed(0).patience_after_faults(own)).patience(minute), granted);
        }
        let many_claims = zk_curator_sim::scenarios::named("many_claims").expect("a scenario");
        assert!(subject(Sim::seed(0).scenario(many_claims)).patience(minute) > minute);
    }
}
