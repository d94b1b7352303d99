//! Simulation of whole services: clients, servers and network in one thread, in simulated time, under one seed.
//!
//! * [`Sim`] runs a [`Workload`] on so many clients and servers while [`Faults`] happen, and returns an [`Outcome`]:
//!   the [history](History), what is wrong with it, and figures. The same seed, the same history, byte for byte.
//! * A workload is written once, against a [`Client`]; what it did and saw it writes down as [`Event`]s.
//! * [`Sim::service`] runs a service as it is in production: with a framework, and a
//!   [`Recorder`](zk_curator::observe::Recorder) in place of the client.
//! * [Checkers](checkers) judge the history. Beside them every run is checked for what must never be: a client that
//!   does not finish when all faults are over, a panic, a task that was not started through its client or its framework, a
//!   task, a session or a node that is left behind.
//! * [`Sim::shrink`] makes a run that has failed as small as it can.
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
//!         // As long as there are faults it may fail; then the next round.
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
//! Every client is a process on a host of its own: its tasks are stopped, killed, or late together, and its links to
//! the servers are cut or slow. Servers are those of a [`TestCluster`](zk_curator_testing::TestCluster). Bytes take time, stay in
//! order on one connection and overtake each other on different ones. Which of several ready tasks runs first is
//! decided by the seed as well. All of that is drawn from generators of their own, so that leaving out a fault or a
//! client does not change what the others draw.
//!
//! Only one thread runs at a time: what two threads of one process do to each other is for tests of another kind.

mod census;
pub mod checkers;
mod client;
mod coverage;
mod deadline;
mod faults;
pub mod history;
pub mod host;
mod looks;
mod options;
mod outcome;
mod process;
mod remote;
mod resource;
pub mod scenarios;
mod seed;
mod service;
mod shrink;
mod watch;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use checkers::Checker;
pub use checkers::Violation;
pub use client::{Client, ClientParts, Failure, Rounds, Run, Running, Task, Workload};
pub use coverage::Coverage;
pub use faults::{Fault, FaultAction, FaultKind, Faults};
pub use history::{Event, History, Record};
pub use options::{Manner, Setting};
pub use outcome::{Injected, Outcome, RunStats};
pub use resource::FencedResource;
pub use scenarios::Scenario;
pub use shrink::Shrunk;

use faults::Scale;
use host::Subject;
use world::World;

/// How many clients there are by default.
const CLIENTS: u32 = 5;
/// How many there are in a crowd, and how many rounds each of them does at most.
const CROWD: u32 = 50;
const ROUNDS_OF_A_CROWD: u32 = 2;

/// A simulated run to be made.
///
/// Cheap to clone; each run of it is the same.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is run"]
pub struct Sim {
    seed: u64,
    servers: usize,
    /// `None` for the default.
    clients: Option<u32>,
    /// Whether there are many of them by default.
    is_crowd: bool,
    /// Those that run, of the clients.
    kept_clients: Option<Vec<u32>>,
    rounds: u32,
    session_timeout: Duration,
    patience: Option<Duration>,
    workload: Workload,
    faults: Faults,
    /// Those that happen, of the faults.
    kept_faults: Option<Vec<usize>>,
    /// Whether clients and servers may be set up in other ways than by default.
    has_settings: bool,
    /// Those that are in force, of the settings.
    kept_settings: Option<Vec<usize>>,
    /// What an operator may delete.
    operated: Vec<String>,
    /// Claims that an operator may delete, and the parents of what they are claims to.
    settled: Vec<(String, String)>,
    /// What anybody may delete of what another has created.
    common: Vec<String>,
    /// Nodes whose changes are written down.
    journal: Vec<String>,
    /// Whether the servers are of a release that the seed chooses.
    has_releases: bool,
    checkers: Vec<Arc<dyn Checker>>,
    nodes: Vec<String>,
    leaves: Vec<String>,
    /// Those of the nodes whose sequence numbers are nearly used up.
    worn: Vec<String>,
}

impl Sim {
    /// A run with this seed: three servers, five clients that have nothing to do, ten rounds, random faults.
    pub fn seed(seed: u64) -> Self {
        Self {
            seed,
            servers: 3,
            clients: None,
            is_crowd: false,
            kept_clients: None,
            rounds: 10,
            session_timeout: Duration::from_secs(2),
            patience: None,
            workload: Workload::new(|_| async { Ok(()) }),
            faults: Faults::random(),
            kept_faults: None,
            has_settings: true,
            kept_settings: None,
            operated: Vec::new(),
            settled: Vec::new(),
            common: Vec::new(),
            journal: Vec::new(),
            has_releases: false,
            checkers: Vec::new(),
            nodes: Vec::new(),
            leaves: Vec::new(),
            worn: Vec::new(),
        }
    }

    /// How many servers there are, from 1 to 99. Default: 3.
    pub const fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// How many clients there are. Default: 5, or 50 in a [crowd](Self::crowd).
    pub const fn clients(mut self, clients: u32) -> Self {
        self.clients = Some(clients);
        self
    }

    /// With one seed in 64, there are 50 clients by default, and each does two rounds of its work at most. Default: never.
    pub fn crowd(mut self) -> Self {
        self.is_crowd |= seed::rng(self.seed, "crowd", 0).u8(..64) == 0;
        self
    }

    /// Runs only these of the clients; the others, and what happens to them, are left out. Default: all.
    pub fn keep_clients(mut self, numbers: impl IntoIterator<Item = u32>) -> Self {
        self.kept_clients = Some(numbers.into_iter().collect());
        self
    }

    /// How many rounds of its work each client does: [`Client::next_round`]. Default: 10.
    pub const fn rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// The session timeout of the clients, at least 100 ms. Default: 2 s.
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long after the last fault the clients may take to finish. Default: ten session timeouts, and one second
    /// for each round of each client.
    pub const fn patience_after_faults(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// What each client does: a function that is called once for each of its lives. Default: nothing.
    pub fn workload<F, Fut>(mut self, run: F) -> Self
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.workload = Workload::new(run);
        self
    }

    /// What goes wrong. Default: [`Faults::random`].
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Lets only these of the faults happen, by their numbers: [`Outcome::faults`]. Default: all.
    pub fn keep_faults(mut self, numbers: impl IntoIterator<Item = usize>) -> Self {
        self.kept_faults = Some(numbers.into_iter().collect());
        self
    }

    /// Whether clients and servers are [set up](Setting) in the ways that the seed wants. Default: yes.
    pub const fn settings(mut self, drawn: bool) -> Self {
        self.has_settings = drawn;
        self
    }

    /// Lets only these of the settings be in force, by their numbers: [`Outcome::settings`]. Default: all.
    pub fn keep_settings(mut self, numbers: impl IntoIterator<Item = usize>) -> Self {
        self.kept_settings = Some(numbers.into_iter().collect());
        self
    }

    /// Lets an [operator](FaultKind::Operator) delete nodes that a pattern describes, see
    /// [`RuleRequest::matches`](zk_curator_testing::RuleRequest::matches), and what is below them. What was held by such a node may be
    /// gone from then on. Default: none.
    pub fn operator<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.operated.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Lets a client whose claim an operator has deleted delete the claim of another at the same path, in one transaction
    /// with the node that it was a claim to. Not if the other one holds something by it, or has written the node under it.
    /// Each entry is a pattern of claims, and the parent of the nodes, which have the names of the claims; or `..` where a
    /// claim is a child of the node. Default: none.
    pub fn settled<P: Into<String>>(mut self, claims: impl IntoIterator<Item = (P, P)>) -> Self {
        self.settled.extend(claims.into_iter().map(|(claims, nodes)| (claims.into(), nodes.into())));
        self
    }

    /// Lets clients delete ephemeral nodes of each other that a pattern describes. Other ones are only deleted by the
    /// client that has created them; else it is a violation. Default: none.
    pub fn common<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.common.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Writes down at the end of the run how the servers changed the nodes that a pattern describes, for checkers:
    /// [`Event::Applied`]. Default: none.
    pub fn journal<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.journal.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// With every other seed the servers are of the latest release, whose watch events carry the transaction, and else
    /// of 3.8. Default: 3.8.
    pub const fn releases(mut self) -> Self {
        self.has_releases = true;
        self
    }

    /// Judges the history by this, too. Default: by nothing but what is wrong with every run.
    pub fn checker(mut self, checker: impl Checker + 'static) -> Self {
        self.checkers.push(Arc::new(checker));
        self
    }

    /// Creates these nodes, and what is missing above them, before the first client starts. They may be there at the
    /// end; whatever else is left then is a violation. Default: none.
    pub fn nodes<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.nodes.extend(paths.into_iter().map(Into::into));
        self
    }

    /// The parents of sequential nodes. With one seed in eight they are [there from the start](Self::nodes), with
    /// numbers that are used up after a few dozen children; then they go on below zero, or stick. Default: none.
    pub fn sequences<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        if seed::rng(self.seed, "sequences", 0).u8(..8) == 0 {
            self.worn.extend(paths.into_iter().map(Into::into));
            self.nodes.extend_from_slice(&self.worn);
        }
        self
    }

    /// Lets nodes be there at the end that a pattern describes, see
    /// [`RuleRequest::matches`](zk_curator_testing::RuleRequest::matches). Default: none.
    pub fn leaves<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.leaves.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// The workload, the checkers and the nodes of a scenario.
    pub fn scenario(self, scenario: &Scenario) -> Self {
        scenario.set_up(self)
    }

    /// What it is about, for those who run it [elsewhere](host).
    #[must_use]
    pub fn subject(&self) -> Subject<'_> {
        let Self { workload, checkers, nodes, leaves, .. } = self;
        Subject { workload, checkers, nodes, leaves }
    }

    /// Runs it, in a thread of its own when this one belongs to a tokio runtime. Until it is over the generator of
    /// `fastrand` of that thread has a seed.
    ///
    /// # Panics
    /// When no runtime, or thread, can be started.
    #[must_use]
    pub fn run(&self) -> Outcome {
        if Handle::try_current().is_ok() {
            return std::thread::scope(|scope| match scope.spawn(|| self.run_here()).join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
        }
        self.run_here()
    }

    fn run_here(&self) -> Outcome {
        let before = fastrand::get_seed();
        // Whoever draws without asking for a seed: the servers their passwords, for one.
        fastrand::seed(seed::of(self.seed, "others", 0));
        let (faults, settings) = (self.schedule(), self.chosen_settings());
        let threads = Arc::new(AtomicU32::new(0));
        let started = Arc::clone(&threads);
        let mut builder = Builder::new_current_thread();
        builder.on_thread_start(move || {
            started.fetch_add(1, Ordering::Relaxed);
        });
        let runtime = match builder.enable_time().start_paused(true).build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("cannot start a runtime: {error}"),
        };
        let outcome = runtime.block_on(async {
            let world = match World::new(self, &faults, &settings).await {
                Ok(world) => world,
                Err(error) => panic!("cannot start {} servers: {error}", self.servers),
            };
            world.play().await
        });
        // Waits for the threads of the runtime, if there are any.
        drop(runtime);
        fastrand::seed(before);
        if threads.load(Ordering::Relaxed) > 0 {
            let broken = "a process has work done by other threads, by spawn_blocking or files: they are not simulated";
            outcome.run.fail(Violation::new("strays", broken, Vec::new()));
        }
        let history = outcome.run.history();
        let mut stats = RunStats {
            runs: 1,
            simulated: history.records().last().map(|record| record.at).unwrap_or_default(),
            requests: outcome.requests,
            sessions: outcome.sessions,
            polls: outcome.polls,
            faults: outcome.begun,
            cancelled: outcome.run.cancelled(),
            ..RunStats::default()
        };
        stats.count(&history);
        let judged = || self.checkers.iter().find_map(|checker| checker.check(&history).err());
        let violation = outcome.run.violation().or_else(judged);
        Outcome { violation, history, faults, injected: outcome.injected, settings, stats }
    }

    /// The faults that happen, with their numbers.
    fn schedule(&self) -> Vec<(usize, Fault)> {
        let scale = Scale {
            clients: self.all_clients(),
            servers: self.servers,
            session: self.session_timeout,
            horizon: self.session_timeout * 10,
        };
        let faults = self.faults.schedule(self.seed, &scale).into_iter().enumerate();
        match &self.kept_faults {
            Some(kept) => faults.filter(|(number, _)| kept.contains(number)).collect(),
            None => faults.collect(),
        }
    }

    /// The settings that are in force, with their numbers.
    fn chosen_settings(&self) -> Vec<(usize, Setting)> {
        if !self.has_settings {
            return Vec::new();
        }
        let settings = options::draw(self.seed, self.all_clients()).into_iter().enumerate();
        match &self.kept_settings {
            Some(kept) => settings.filter(|(number, _)| kept.contains(number)).collect(),
            None => settings.collect(),
        }
    }

    /// The numbers of the clients that run.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        let runs = |number: &u32| self.kept_clients.as_ref().is_none_or(|kept| kept.contains(number));
        (0..self.all_clients()).filter(runs)
    }

    /// How many clients there are, those included that do not run.
    fn all_clients(&self) -> u32 {
        self.clients.unwrap_or(if self.is_crowd { CROWD } else { CLIENTS })
    }

    /// How many rounds each of them does.
    fn all_rounds(&self) -> u32 {
        let is_crowd = self.is_crowd && self.clients.is_none();
        if is_crowd { self.rounds.min(ROUNDS_OF_A_CROWD) } else { self.rounds }
    }

    fn patience(&self) -> Duration {
        let rounds = self.all_rounds().saturating_mul(self.all_clients());
        self.patience.unwrap_or_else(|| self.session_timeout * 10 + Duration::from_secs(1) * rounds)
    }
}

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
