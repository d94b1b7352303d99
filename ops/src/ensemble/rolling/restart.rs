//! A rolling restart for callers.

use std::future::pending;
use std::time::Duration;

use super::driver::{self, RollingMeans};
use super::events::RollingRules;
use super::plan::RollingPlanner;
use super::report::{RollingReport, RollingRestartError};
use super::view::EnsembleView;
use crate::ensemble::members::EnsembleMembers;
use crate::ensemble::probe::ProbedServer;
use crate::ensemble::target::EnsembleProbe;
use crate::error::Error;

/// A rolling restart of the servers of an ensemble. See the [module](super).
#[derive(Debug, Clone)]
#[must_use = "nothing is restarted before `run`"]
pub struct RollingRestart<'a> {
    probe: EnsembleProbe<'a>,
    members: EnsembleMembers,
    rules: RollingRules,
    every: Duration,
    ignores_doctor: bool,
}

impl<'a> RollingRestart<'a> {
    /// Finds the servers. By default all members are restarted.
    ///
    /// The servers need the words `srvr`, `conf` and `mntr` in their whitelist, or an
    /// [admin server](crate::ensemble::probe::ProbeOptions::admin).
    ///
    /// # Errors
    /// As of [`EnsembleProbe::members`]. A server that does not respond is a doubt of the run.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn find(probe: EnsembleProbe<'a>) -> Result<Self, Error> {
        let members = probe.members().await?;
        let rules = RollingRules {
            targets: members.servers.iter().filter_map(|server| server.id).collect(),
            least_age: None,
            wait: Duration::from_secs(300),
            pause: Duration::ZERO,
            is_dry_run: false,
        };
        let every = Duration::from_secs(1);
        Ok(Self { probe, members, rules, every, ignores_doctor: false })
    }

    /// Restarts only the members with these ids. An id of no member is a doubt of the run. Default:
    /// all members.
    pub fn only(mut self, ids: impl IntoIterator<Item = u64>) -> Self {
        self.rules.targets = ids.into_iter().collect();
        self
    }

    /// Leaves out servers that have had their role for less than this at the start of the run: they
    /// have restarted, or taken part in an election. A server that does not report the age of its
    /// role, as before 3.6, is a doubt. Default: no server is left out.
    pub const fn least_age(mut self, age: Duration) -> Self {
        self.rules.least_age = Some(age);
        self
    }

    /// Sets the time after each restart in which the ensemble has to be in order again. Default:
    /// 5 min.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.rules.wait = wait;
        self
    }

    /// Sets the least time between an ensemble in order and the next restart. Default: 0.
    pub const fn pause(mut self, pause: Duration) -> Self {
        self.rules.pause = pause;
        self
    }

    /// Sets the time between two observations, at least 1 ms. Default: 1 s.
    pub const fn interval(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Continues in spite of the errors that the [doctor](crate::ensemble::doctor) finds. Quorum,
    /// members and lag are still checked. Default: `false`.
    pub const fn ignore_doctor(mut self, ignores: bool) -> Self {
        self.ignores_doctor = ignores;
        self
    }

    /// Returns the servers that were found.
    #[must_use]
    pub const fn members(&self) -> &EnsembleMembers {
        &self.members
    }

    /// Returns the servers that a run restarts, unless their roles are younger than
    /// [`least_age`](Self::least_age).
    pub fn targets(&self) -> impl Iterator<Item = &ProbedServer> {
        let ids = &self.rules.targets;
        let is_target = move |server: &&ProbedServer| server.id.is_some_and(|id| ids.contains(&id));
        self.members.servers.iter().filter(is_target)
    }

    /// Returns the order of the restarts, or the doubts that would stop a run at its start. It
    /// restarts nothing.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn plan(&self) -> RollingReport {
        let rules = RollingRules { is_dry_run: true, ..self.rules.clone() };
        self.perform(rules, &NoMeans, async || pending::<()>().await).await
    }

    /// Restarts one server after another by these means, until all were restarted or the next
    /// restart is in doubt.
    ///
    /// `stop` is called again and again, and returns when the caller asks for the end of the run,
    /// for example at a signal; `async || std::future::pending::<()>().await` never returns. Its
    /// future is dropped and made again many times, so it must be cancel safe. The run ends before
    /// the next restart. While a server is restarted, the run waits for the end of that, and a
    /// second request drops the restart.
    ///
    /// # Cancel safety
    /// Dropping the future drops a restart that runs: the server may have been restarted, or not.
    pub async fn run(&self, means: &impl RollingMeans, stop: impl AsyncFnMut()) -> RollingReport {
        self.perform(self.rules.clone(), means, stop).await
    }

    async fn perform(
        &self,
        rules: RollingRules,
        means: &impl RollingMeans,
        stop: impl AsyncFnMut(),
    ) -> RollingReport {
        let mut planner = RollingPlanner::new(&self.members, rules);
        let view = EnsembleView::start(&self.probe, &self.members, self.ignores_doctor);
        driver::run(&mut planner, &view, means, self.every, stop).await;
        planner.report()
    }
}

/// The means of a plan, which restarts nothing.
struct NoMeans;

impl RollingMeans for NoMeans {
    async fn restart(&self, server: &ProbedServer) -> Result<(), RollingRestartError> {
        Err(RollingRestartError::not_started(server, "this is a plan"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use zk_curator_testing::TestCluster;

    use super::super::report::{RollingEnd, RollingOutcome};
    use super::*;

    /// Restarts the members of an embedded ensemble.
    struct Embedded {
        cluster: TestCluster,
        /// The restarted members, in their order.
        order: Mutex<Vec<usize>>,
    }

    impl RollingMeans for Embedded {
        async fn restart(&self, server: &ProbedServer) -> Result<(), RollingRestartError> {
            let address = server.to_string();
            let is_here = |member: &usize| self.cluster.member(*member).connect_string() == address;
            let member = (0..self.cluster.members().len()).find(is_here).expect("a member");
            self.order.lock().expect("an order").push(member);
            let restarted = self.cluster.restart(member).await;
            restarted.map_err(|error| RollingRestartError::failed(server, error))
        }
    }

    #[tokio::test]
    async fn an_embedded_ensemble_is_restarted() {
        let cluster = TestCluster::start(3).await;
        let leader = cluster.leader().expect("a leader");
        let probe = EnsembleProbe::new(cluster.connect_string());
        let means = Embedded { cluster, order: Mutex::default() };
        let rolling = RollingRestart::find(probe).await.expect("servers");
        let rolling = rolling.interval(Duration::from_millis(20));
        assert_eq!(rolling.targets().count(), 3);
        let plan = rolling.plan().await;
        assert_eq!(plan.end, RollingEnd::Planned);
        assert_eq!(plan.to_do().count(), 3);
        let report = rolling.run(&means, async || pending::<()>().await).await;
        assert_eq!(report.end, RollingEnd::Done, "{report:?}");
        assert!(report.rows.iter().all(|row| row.outcome == RollingOutcome::Restarted));
        let order = means.order.into_inner().expect("an order");
        assert_eq!((order.len(), order.last()), (3, Some(&leader)));
    }
}
