//! The settings of a run.

use std::time::Duration;

use zk_curator_sim::Sim;

/// A workload and its checkers.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) sim: Sim,
}

impl Subject {
    /// Returns the time that its clients may take to finish after the faults: its own patience, but
    /// no less than `of_all`.
    pub(super) fn patience(&self, of_all: Duration) -> Duration {
        self.sim.subject().patience.map_or(of_all, |own| own.max(of_all))
    }
}

/// The description of a run: scenarios on one ensemble, each with clients of its own.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is run"]
pub struct Chaos {
    pub(super) subjects: Vec<Subject>,
    pub(super) seed: u64,
    pub(super) duration: Duration,
    pub(super) round: Duration,
    pub(super) clients: u32,
    pub(super) servers: usize,
    pub(super) session_timeout: Duration,
    pub(super) patience: Duration,
}

impl Chaos {
    /// Creates a run of one minute with seed 0, three servers, and four clients of each scenario.
    /// It takes the workload, the checkers and the nodes of the simulations. Each simulation has a
    /// name.
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

    /// Sets the seed, which decides the faults, their times, and the choices of the clients. Their
    /// interplay depends on the machine, so the same seed does not give the same history. Default:
    /// 0.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the total duration of the faults. Default: 60 s.
    pub const fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Sets the duration of the faults of a round, at least one second. Then all clients have to
    /// finish and are judged, before the next round begins with the next seed. Default: 60 s.
    pub const fn round(mut self, round: Duration) -> Self {
        self.round = round;
        self
    }

    /// Sets the number of clients of each scenario, from 1 to 1000. Each is a process. Default: 4.
    pub const fn clients(mut self, clients: u32) -> Self {
        self.clients = clients;
        self
    }

    /// Sets the number of servers, at least one. Default: 3.
    pub const fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Sets the session timeout of the clients, from 400 ms to 60 s. The durations of faults are
    /// multiples of it. Default: 3 s.
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Sets the time that clients may take to finish after the faults, and servers to remove their
    /// nodes. A scenario with a longer [patience of its own](Sim::patience_after_faults) has that
    /// time. Default: 60 s.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}
