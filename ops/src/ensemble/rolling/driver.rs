//! Performs a rolling restart: observes the servers, and has them restarted.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::events::{RollingEffect, RollingInput};
use super::observation::Observation;
use super::plan::RollingPlanner;
use super::report::{RollingProgress, RollingRestartError};
use super::view::RollingView;
use crate::ensemble::probe::ProbedServer;

/// The shortest time between two observations.
const SHORTEST: Duration = Duration::from_millis(1);

/// The means by which the caller restarts a server.
pub trait RollingMeans {
    /// Restarts a server. It may return before the server serves again: the run waits for that.
    ///
    /// The run waits for this future without a time limit, so it needs one of its own. If the
    /// caller asks twice for the end of the run, the future is dropped.
    ///
    /// # Errors
    /// The reason why the server is not known to have restarted. It ends the run.
    fn restart(
        &self,
        server: &ProbedServer,
    ) -> impl Future<Output = Result<(), RollingRestartError>> + Send;

    /// Receives the progress of the run, and should return soon: the run waits for it. The default
    /// ignores it.
    fn report(&self, progress: &RollingProgress) {
        let _ = progress;
    }
}

/// Runs a rolling restart to its end. `every` is the time between two observations. `stop` returns
/// when the caller asks for the end: the run then ends before the next restart. If it returns again
/// while a server is restarted, that future is dropped.
pub(super) async fn run(
    planner: &mut RollingPlanner,
    view: &impl RollingView,
    means: &impl RollingMeans,
    every: Duration,
    mut stop: impl AsyncFnMut(),
) {
    let mut ticks = interval(every.max(SHORTEST));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut effects = vec![RollingEffect::Observe { is_thorough: true }];
    loop {
        effects = match report(means, effects) {
            Some(RollingEffect::Observe { is_thorough }) => {
                let input = tokio::select! {
                    biased;
                    () = stop() => RollingInput::StopRequested,
                    seen = observe(view, &mut ticks, is_thorough) => RollingInput::Observed(seen),
                };
                planner.step(input)
            }
            Some(RollingEffect::Restart(server)) => {
                let result = restart(planner, view, means, &server, &mut ticks, &mut stop).await;
                planner.step(RollingInput::RestartEnded { at: view.now(), result })
            }
            _ => return,
        };
    }
}

/// Reports the progress among effects, and returns the last of the others.
fn report(means: &impl RollingMeans, effects: Vec<RollingEffect>) -> Option<RollingEffect> {
    let mut last = None;
    for effect in effects {
        match effect {
            RollingEffect::Report(progress) => means.report(&progress),
            effect => last = Some(effect),
        }
    }
    last
}

async fn observe(view: &impl RollingView, ticks: &mut Interval, is_thorough: bool) -> Observation {
    ticks.tick().await;
    view.observe(is_thorough).await
}

/// Restarts a server, and observes until that returns.
async fn restart(
    planner: &mut RollingPlanner,
    view: &impl RollingView,
    means: &impl RollingMeans,
    server: &ProbedServer,
    ticks: &mut Interval,
    stop: &mut impl AsyncFnMut(),
) -> Result<(), RollingRestartError> {
    let mut restarting = pin!(means.restart(server));
    loop {
        let input = tokio::select! {
            biased;
            result = &mut restarting => return result,
            () = stop() => RollingInput::StopRequested,
            seen = observe(view, ticks, false) => RollingInput::Observed(seen),
        };
        let effects = planner.step(input);
        if report(means, effects) == Some(RollingEffect::Drop) {
            return Err(RollingRestartError::Stopped(server.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Mutex, MutexGuard};

    use tokio::sync::Semaphore;

    use super::super::events::RollingRules;
    use super::super::report::RollingEnd;
    use super::super::world::{Fate, World};
    use super::*;

    /// Restarts the servers of a world.
    struct Simulated {
        world: Mutex<World>,
        /// Restarts do not return.
        hangs: bool,
        /// The requests to stop, which a restart that hangs makes.
        stops: Semaphore,
        progress: Mutex<Vec<RollingProgress>>,
    }

    impl Simulated {
        fn world(&self) -> MutexGuard<'_, World> {
            self.world.lock().expect("a world")
        }
    }

    impl RollingView for Simulated {
        fn now(&self) -> Duration {
            self.world().now
        }

        async fn observe(&self, is_thorough: bool) -> Observation {
            self.world().observe(&[], is_thorough)
        }
    }

    impl RollingMeans for Simulated {
        async fn restart(&self, server: &ProbedServer) -> Result<(), RollingRestartError> {
            if self.hangs {
                self.stops.add_permits(2);
                pending::<()>().await;
            }
            let id = server.id.expect("a member");
            self.world().restart(id, Fate::Restarts(1));
            Ok(())
        }

        fn report(&self, progress: &RollingProgress) {
            self.progress.lock().expect("progress").push(progress.clone());
        }
    }

    /// Runs a restart of three servers to its end. Returns its end and its progress.
    async fn ended(hangs: bool, every: Duration) -> (RollingEnd, Vec<RollingProgress>) {
        let world = World::new(3, 0, true);
        let rules = RollingRules {
            targets: world.members().into_keys().collect(),
            least_age: None,
            wait: Duration::from_secs(20),
            pause: Duration::ZERO,
            is_dry_run: false,
        };
        let mut planner = RollingPlanner::new(&world.found(), rules);
        let (world, stops) = (Mutex::new(world), Semaphore::new(0));
        let simulated = Simulated { world, hangs, stops, progress: Mutex::default() };
        let stop = async || simulated.stops.acquire().await.expect("a request").forget();
        run(&mut planner, &simulated, &simulated, every, stop).await;
        let progress = simulated.progress.into_inner().expect("progress");
        (planner.end().expect("an end").clone(), progress)
    }

    #[tokio::test]
    async fn every_server_is_restarted() {
        // The shortest time between observations is not zero.
        for every in [Duration::ZERO, Duration::from_millis(1)] {
            let (end, progress) = ended(false, every).await;
            assert_eq!(end, RollingEnd::Done);
            let begins = progress.iter().filter_map(|progress| match progress {
                RollingProgress::Restarting { number, total, .. } => Some((*number, *total)),
                _ => None,
            });
            assert_eq!(begins.collect::<Vec<_>>(), [(1, 3), (2, 3), (3, 3)]);
        }
    }

    #[tokio::test]
    async fn a_second_stop_drops_a_restart() {
        let (end, progress) = ended(true, Duration::from_millis(1)).await;
        let RollingEnd::RestartFailed(RollingRestartError::Stopped(server)) = &end else {
            panic!("{end:?}")
        };
        assert_eq!(progress.last(), Some(&RollingProgress::Finishing(server.clone())));
    }
}
