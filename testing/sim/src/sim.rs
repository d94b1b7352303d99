//! The settings of a simulated run.

use std::sync::Arc;
use std::time::Duration;

use crate::checkers::Checker;
use crate::client::{Client, Failure, Workload};
use crate::exhaust::FaultPlan;
use crate::faults::{Fault, FaultKind, Faults, Scale};
use crate::host::Subject;
use crate::options::{self, Setting};
use crate::outcome::RunStats;
use crate::seed;

/// The default number of clients.
const CLIENTS: u32 = 5;
/// The default number of clients in a crowd, and the maximum number of rounds of each.
const CROWD: u32 = 50;
const ROUNDS_OF_A_CROWD: u32 = 2;

/// The description of a simulated run.
///
/// Cheap to clone. Each run of it is the same.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is run"]
pub struct Sim {
    pub(crate) seed: u64,
    pub(crate) servers: usize,
    /// `None` for the default.
    pub(crate) clients: Option<u32>,
    /// `true` if the default number of clients is that of a crowd.
    pub(crate) is_crowd: bool,
    /// The numbers of the clients that run; `None` for all.
    pub(crate) kept_clients: Option<Vec<u32>>,
    pub(crate) rounds: u32,
    pub(crate) session_timeout: Duration,
    pub(crate) patience: Option<Duration>,
    pub(crate) faults_within: Option<Duration>,
    pub(crate) workload: Workload,
    pub(crate) faults: Faults,
    /// The numbers of the faults that happen; `None` for all.
    pub(crate) kept_faults: Option<Vec<usize>>,
    /// The faults at decision points, in place of those at times.
    pub(crate) plan: Option<FaultPlan>,
    /// `true` if clients and servers may be set up in other ways than by default.
    pub(crate) has_settings: bool,
    /// The numbers of the settings that are in force; `None` for all.
    pub(crate) kept_settings: Option<Vec<usize>>,
    /// Patterns of the nodes that an operator may delete.
    pub(crate) operated: Vec<String>,
    /// Patterns of the claims that an operator may delete, each with the parent of the claimed
    /// nodes.
    pub(crate) settled: Vec<(String, String)>,
    /// Patterns of the ephemeral nodes that clients other than the creator may delete.
    pub(crate) common: Vec<String>,
    /// Patterns of the nodes whose changes are recorded.
    pub(crate) journal: Vec<String>,
    /// Patterns of the nodes of instances.
    pub(crate) instances: Vec<String>,
    /// `true` if the seed chooses the release of the servers.
    pub(crate) has_releases: bool,
    /// The largest difference between the wall clocks of the servers.
    pub(crate) clocks_differ: Duration,
    pub(crate) checkers: Vec<Arc<dyn Checker>>,
    /// What the clients achieve in many runs.
    pub(crate) achieves: Vec<&'static str>,
    pub(crate) nodes: Vec<String>,
    pub(crate) leaves: Vec<String>,
    /// The parents in `nodes` whose sequence numbers are nearly used up.
    pub(crate) near_overflow: Vec<String>,
}

impl Sim {
    /// Creates a run with this seed: three servers, five clients without work, ten rounds, random
    /// faults.
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
            faults_within: None,
            workload: Workload::new(|_| async { Ok(()) }),
            faults: Faults::random(),
            kept_faults: None,
            plan: None,
            has_settings: true,
            kept_settings: None,
            operated: Vec::new(),
            settled: Vec::new(),
            common: Vec::new(),
            journal: Vec::new(),
            instances: Vec::new(),
            has_releases: false,
            clocks_differ: Duration::ZERO,
            checkers: Vec::new(),
            achieves: Vec::new(),
            nodes: Vec::new(),
            leaves: Vec::new(),
            near_overflow: Vec::new(),
        }
    }

    /// Sets the number of servers, from 1 to 99. Default: 3.
    pub const fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Sets the number of clients. Default: 5, or 50 in a [crowd](Self::crowd).
    pub const fn clients(mut self, clients: u32) -> Self {
        self.clients = Some(clients);
        self
    }

    /// Uses 50 clients by default with one seed in 64. Each of them then does at most two rounds of
    /// its work. Default: never.
    pub fn crowd(mut self) -> Self {
        self.is_crowd |= seed::rng(self.seed, "crowd", 0).u8(..64) == 0;
        self
    }

    /// Runs only the clients with these numbers. The other clients, and the faults that concern
    /// them, are left out. Default: all.
    pub fn keep_clients(mut self, numbers: impl IntoIterator<Item = u32>) -> Self {
        self.kept_clients = Some(numbers.into_iter().collect());
        self
    }

    /// Sets the number of rounds of work of each client: [`Client::next_round`]. Default: 10.
    pub const fn rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets the session timeout of the clients, at least 100 ms. Default: 2 s.
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Sets the time that the clients may take to finish after the last fault. Default: ten session
    /// timeouts, and one second for each round of each client.
    pub const fn patience_after_faults(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Sets the time in which the faults of a [plan](Self::plan) may begin, for a workload that
    /// repeats itself until there are [no more faults](Client::no_more_faults). Default: five
    /// session timeouts.
    pub const fn faults_begin_within(mut self, time: Duration) -> Self {
        self.faults_within = Some(time);
        self
    }

    /// Sets the work of each client: a function that is called once for each of its lives. Default:
    /// nothing.
    pub fn workload<F, Fut>(mut self, run: F) -> Self
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.workload = Workload::new(run);
        self
    }

    /// Sets the faults of the run. Default: [`Faults::random`].
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Lets only the faults with these numbers happen: [`Outcome::faults`](crate::Outcome::faults).
    /// Default: all.
    pub fn keep_faults(mut self, numbers: impl IntoIterator<Item = usize>) -> Self {
        self.kept_faults = Some(numbers.into_iter().collect());
        self
    }

    /// Lets these faults happen at decision points, in place of faults at times, and records the
    /// points: [`Outcome::points`](crate::Outcome::points). Default: none.
    pub fn plan(mut self, plan: FaultPlan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Sets up clients and servers in the ways that the seed draws: [`Setting`]. Default: `true`.
    pub const fn settings(mut self, drawn: bool) -> Self {
        self.has_settings = drawn;
        self
    }

    /// Lets only the settings with these numbers be in force:
    /// [`Outcome::settings`](crate::Outcome::settings). Default: all.
    pub fn keep_settings(mut self, numbers: impl IntoIterator<Item = usize>) -> Self {
        self.kept_settings = Some(numbers.into_iter().collect());
        self
    }

    /// Lets an [operator](crate::FaultKind::Operator) delete nodes that match a pattern, and
    /// everything below them. [`RuleRequest::matches`](zk_curator_testing::RuleRequest::matches)
    /// describes the patterns. From then on, a client may have lost what it held by such a node.
    /// Default: none.
    pub fn operator<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.operated.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Lets a client whose claim an operator has deleted delete another client's claim at the same
    /// path, in one transaction with the claimed node. This is still a violation if the other
    /// client holds something by its claim, or has written the node under it. Each entry is a
    /// pattern of claims and the parent of the claimed nodes, which have the names of the claims.
    /// The parent is `..` where a claim is a child of its node. Default: none.
    pub fn settled<P: Into<String>>(mut self, claims: impl IntoIterator<Item = (P, P)>) -> Self {
        self.settled
            .extend(claims.into_iter().map(|(claims, nodes)| (claims.into(), nodes.into())));
        self
    }

    /// Lets clients delete each other's ephemeral nodes if they match a pattern. All other
    /// ephemeral nodes may be deleted only by the client that created them; a foreign delete is a
    /// violation. Default: none.
    pub fn common<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.common.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Records, at the end of the run, how the servers changed the nodes that match a pattern, for
    /// checkers: [`Cache::Applied`](crate::history::Cache::Applied). Default: none.
    pub fn journal<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.journal.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Records, at the end of the run, how the servers created and deleted the nodes of instances
    /// that match a pattern: [`Discovery::Written`](crate::history::Discovery::Written). Default:
    /// none.
    pub fn instances<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.instances.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Runs servers of the latest release with every second seed, and servers of 3.8 with the
    /// others. Watch events of the latest release carry the transaction id. Default: 3.8.
    pub const fn releases(mut self) -> Self {
        self.has_releases = true;
        self
    }

    /// Sets the largest difference between the wall clocks of the servers, which the seed draws.
    /// The time of a transaction is that of its leader. Default: zero.
    pub const fn server_clocks_differ(mut self, most: Duration) -> Self {
        self.clocks_differ = most;
        self
    }

    /// Adds a checker of the history. Default: no checker, only the checks of every run.
    pub fn checker(mut self, checker: impl Checker + 'static) -> Self {
        self.checkers.push(Arc::new(checker));
        self
    }

    /// Names what clients [achieve](crate::Event::achievement) in many runs of the workload, for
    /// [`missing`](Self::missing). Default: nothing.
    pub fn achieves(mut self, what: &[&'static str]) -> Self {
        self.achieves.extend(what);
        self
    }

    /// Returns what many runs lack, with these figures: achievements of the workload, and kinds of
    /// faults that have hit no client. A workload that achieves nothing, and faults that hit
    /// nobody, prove nothing.
    #[must_use]
    pub fn missing(&self, stats: &RunStats) -> Vec<String> {
        let kinds = self.faults.kinds().into_iter().filter(|kind| match kind {
            FaultKind::Operator => !self.operated.is_empty(),
            _ => true,
        });
        let missed = kinds.filter(|kind| !stats.hits.contains_key(kind));
        let missed = missed.map(|kind| format!("a fault that hits: {kind}"));
        self.unachieved(stats).map(str::to_owned).chain(missed).collect()
    }

    /// Returns the [achievements](Self::achieves) that runs with these figures lack. A few dozen
    /// runs should have all of them; kinds of faults need more.
    pub fn unachieved<'a>(&'a self, stats: &'a RunStats) -> impl Iterator<Item = &'static str> {
        let has = |what: &&str| stats.achieved.get(*what).is_some_and(|count| *count > 0);
        self.achieves.iter().copied().filter(move |what| !has(what))
    }

    /// Creates these nodes, with their missing parents, before the first client starts. They may
    /// exist at the end of the run; any other node that is left then is a violation. Default: none.
    pub fn nodes<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.nodes.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Names the parents of sequential nodes. With one seed in eight they exist [from the
    /// start](Self::nodes), and their sequence numbers are used up after a few dozen children.
    /// Further numbers then go on below zero, or stay the same. Default: none.
    pub fn sequences<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        if seed::rng(self.seed, "sequences", 0).u8(..8) == 0 {
            self.near_overflow.extend(paths.into_iter().map(Into::into));
            self.nodes.extend_from_slice(&self.near_overflow);
        }
        self
    }

    /// Allows nodes that match a pattern to exist at the end of the run.
    /// [`RuleRequest::matches`](zk_curator_testing::RuleRequest::matches) describes the patterns.
    /// Default: none.
    pub fn leaves<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.leaves.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Returns the parts of the run that are the same for clients that run it
    /// [elsewhere](crate::host).
    #[must_use]
    pub fn subject(&self) -> Subject<'_> {
        let Self { workload, checkers, nodes, leaves, patience, achieves, .. } = self;
        Subject { workload, checkers, nodes, patience: *patience, achieves, leaves }
    }

    /// Returns the faults that happen, with their numbers.
    pub(crate) fn schedule(&self) -> Vec<(usize, Fault)> {
        if self.plan.is_some() {
            return Vec::new();
        }
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

    /// Returns the settings that are in force, with their numbers.
    pub(crate) fn chosen_settings(&self) -> Vec<(usize, Setting)> {
        if !self.has_settings {
            return Vec::new();
        }
        let settings = options::draw(self.seed, self.all_clients()).into_iter().enumerate();
        match &self.kept_settings {
            Some(kept) => settings.filter(|(number, _)| kept.contains(number)).collect(),
            None => settings.collect(),
        }
    }

    /// Returns the numbers of the clients that run.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let runs =
            |number: &u32| self.kept_clients.as_ref().is_none_or(|kept| kept.contains(number));
        (0..self.all_clients()).filter(runs)
    }

    /// Returns the number of clients, including the clients that do not run.
    pub(crate) fn all_clients(&self) -> u32 {
        self.clients.unwrap_or(if self.is_crowd { CROWD } else { CLIENTS })
    }

    /// Returns the number of rounds of each client.
    pub(crate) fn all_rounds(&self) -> u32 {
        let is_crowd = self.is_crowd && self.clients.is_none();
        if is_crowd { self.rounds.min(ROUNDS_OF_A_CROWD) } else { self.rounds }
    }

    pub(crate) fn patience(&self) -> Duration {
        let rounds = self.all_rounds().saturating_mul(self.all_clients());
        self.patience.unwrap_or_else(|| self.session_timeout * 10 + Duration::from_secs(1) * rounds)
    }
}
