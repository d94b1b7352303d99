//! Chaos in real time: the workloads of the [simulator](zk_curator_sim) on an ensemble of Apache ZooKeeper whose servers,
//! network and clients fail for real.
//!
//! A [`Chaos`] takes simulations as they are, workload, checkers and nodes. Every client is a process of its own, which
//! reaches every server through a proxy of its own. A seed decides what happens to them, each independently of the others:
//!
//! | what | how |
//! |---|---|
//! | servers, any or the leader | killed (SIGKILL) and started again; stopped (SIGSTOP) and continued; all stopped |
//! | the network of a client, to one server or to all | connections cut, or refused; silent in both directions or in one, with what was sent held back or lost; slow |
//! | the process of a client | stopped and continued; killed, and another one started in its place |
//! | the session of a client | closed by somebody else, with its id and password |
//!
//! Half of what happens to clients waits for the moment in which they have acquired something. Faults last from a
//! hundredth of a session timeout to two and a half of it. The workload drops futures as well
//! ([`Client::maybe_cancel`](zk_curator_sim::Client::maybe_cancel)).
//!
//! After each [round](Chaos::round) all faults end. Then everybody has to finish in time, with exit code 0; no node may be
//! left on the servers, and no session; and the checkers judge what the clients saw. `docs/guide/chaos.md` says what
//! real time allows there, and what it does not.
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
//! `zk-chaos` is such a program for the scenarios. Unix only.

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
mod wire;
mod worker;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

pub use error::ChaosError;
pub use report::{Found, RecipeReport, Report};

use zk_curator_sim::Sim;

/// A workload, and what it is judged by.
#[derive(Debug, Clone)]
struct Subject {
    name: String,
    sim: Sim,
}

/// A run to be made: scenarios side by side on one ensemble, each with clients of its own.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is run"]
pub struct Chaos {
    subjects: Vec<Subject>,
    seed: u64,
    duration: Duration,
    round: Duration,
    clients: u32,
    servers: usize,
    session_timeout: Duration,
    patience: Duration,
}

impl Chaos {
    /// A run of one minute with seed 0, three servers and four clients of each scenario. Of the simulations, which have a
    /// name each, it takes the workload, the checkers, and the nodes.
    pub fn of<N: Into<String>>(scenarios: impl IntoIterator<Item = (N, Sim)>) -> Self {
        let subject = |(name, sim): (N, Sim)| Subject { name: name.into(), sim };
        Self {
            subjects: scenarios.into_iter().map(subject).collect(),
            seed: 0,
            duration: Duration::from_secs(60),
            round: Duration::from_secs(60),
            clients: 4,
            servers: 3,
            session_timeout: Duration::from_secs(3),
            patience: Duration::from_secs(60),
        }
    }

    /// Decides the faults, their times, and what the clients choose. Their interplay is up to the machine: the same seed
    /// is not the same history. Default: 0.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How long there are faults, all in all. Default: 60 s.
    pub const fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// After how long faults end, everybody has to finish, and is judged, before it all begins anew with the next seed.
    /// At least a second. Default: 60 s.
    pub const fn round(mut self, round: Duration) -> Self {
        self.round = round;
        self
    }

    /// How many clients each scenario has, each of them a process, from 1 to 1000. Default: 4.
    pub const fn clients(mut self, clients: u32) -> Self {
        self.clients = clients;
        self
    }

    /// How many servers there are, at least one. Default: 3.
    pub const fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// The session timeout of the clients, from 400 ms to 60 s. Faults are measured by it. Default: 3 s.
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long clients may take to finish when the faults are over, and servers to forget them. Default: 60 s.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Does the work of a client and returns its exit code, if this process is one of [`Chaos::run`]: `None` if it is not.
    /// To be called first in `main`, outside of a runtime.
    #[must_use]
    pub fn work_if_client(&self) -> Option<ExitCode> {
        worker::work_if_client(&self.subjects)
    }

    /// Starts the servers, and the clients: processes of this program, whose `main` calls [`Chaos::work_if_client`].
    /// Stops at the first violation. `progress` gets a line now and then.
    ///
    /// # Errors
    /// When the run cannot be made. What it finds is in the report.
    ///
    /// # Cancel safety
    /// All processes are killed.
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
        Ok(report)
    }
}

/// Sleeps, but no longer than there are faults. Whether they are over.
async fn sleep_or_over(time: Duration, over: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = over.cancelled() => true,
        () = tokio::time::sleep(time) => false,
    }
}
