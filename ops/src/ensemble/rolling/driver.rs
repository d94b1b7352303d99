//! Performs a rolling restart: asks the servers, and runs the commands.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::super::probe::Server;
use super::doubt::RestartError;
use super::events::{RollingEffect, RollingInput, RollingProgress};
use super::observation::Observation;
use super::plan::Rolling;

/// The means of a rolling restart.
pub(crate) trait RollingMeans {
    /// Returns the time since the start of the run.
    fn now(&self) -> Duration;

    /// Asks all servers. A thorough observation has all findings of the doctor, and the members as
    /// they are now.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn observe(&self, is_thorough: bool) -> Observation;

    /// Restarts a server.
    ///
    /// # Cancel safety
    /// Dropping the future kills the command. The server may have been restarted, or not.
    async fn restart(&self, server: &Server) -> Result<(), RestartError>;

    /// Reports news.
    fn report(&self, news: &RollingProgress);
}

/// Runs a rolling restart to its end. `every` is the time between two observations. `stop` returns
/// when the user asks for the end: the run then ends before the next restart. If it returns again
/// while a command runs, the command is killed.
///
/// # Cancel safety
/// As for [`RollingMeans::restart`], if a command runs.
pub(crate) async fn run(
    rolling: &mut Rolling,
    means: &impl RollingMeans,
    every: Duration,
    mut stop: impl AsyncFnMut(),
) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut effects = vec![RollingEffect::Observe { is_thorough: true }];
    loop {
        effects = match report(means, effects) {
            Some(RollingEffect::Observe { is_thorough }) => {
                let input = tokio::select! {
                    biased;
                    () = stop() => RollingInput::StopRequested,
                    seen = observe(means, &mut ticks, is_thorough) => RollingInput::Observed(seen),
                };
                rolling.step(input)
            }
            Some(RollingEffect::Restart(server)) => {
                restart(rolling, means, &server, &mut ticks, &mut stop).await
            }
            _ => return,
        };
    }
}

/// Reports the news among effects, and returns the last of the others.
fn report(means: &impl RollingMeans, effects: Vec<RollingEffect>) -> Option<RollingEffect> {
    let mut last = None;
    for effect in effects {
        match effect {
            RollingEffect::Report(news) => means.report(&news),
            effect => last = Some(effect),
        }
    }
    last
}

async fn observe(
    means: &impl RollingMeans,
    ticks: &mut Interval,
    is_thorough: bool,
) -> Observation {
    ticks.tick().await;
    means.observe(is_thorough).await
}

/// Runs the command of a server, and observes until it ends. Returns the effects of its end.
async fn restart(
    rolling: &mut Rolling,
    means: &impl RollingMeans,
    server: &Server,
    ticks: &mut Interval,
    stop: &mut impl AsyncFnMut(),
) -> Vec<RollingEffect> {
    let result = {
        let mut command = pin!(means.restart(server));
        loop {
            let input = tokio::select! {
                biased;
                result = &mut command => break result,
                () = stop() => RollingInput::StopRequested,
                seen = observe(means, ticks, false) => RollingInput::Observed(seen),
            };
            let effects = rolling.step(input);
            if report(means, effects) == Some(RollingEffect::Kill) {
                break Err(RestartError::Killed(server.clone()));
            }
        }
    };
    rolling.step(RollingInput::CommandEnded { at: means.now(), result })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::pending;

    use tokio::sync::Semaphore;

    use super::super::events::{RollingEnd, RollingRules};
    use super::super::world::{Fate, World};
    use super::*;

    /// Restarts the servers of a world.
    struct SimulatedMeans {
        world: RefCell<World>,
        /// Commands do not end.
        hangs: bool,
        /// The requests to stop, which a command that hangs makes.
        stops: Semaphore,
        news: RefCell<Vec<RollingProgress>>,
    }

    impl RollingMeans for SimulatedMeans {
        fn now(&self) -> Duration {
            self.world.borrow().now
        }

        async fn observe(&self, is_thorough: bool) -> Observation {
            self.world.borrow_mut().observe(&[], is_thorough)
        }

        async fn restart(&self, server: &Server) -> Result<(), RestartError> {
            if self.hangs {
                self.stops.add_permits(2);
                pending::<()>().await;
            }
            let id = server.id.expect("a member");
            self.world.borrow_mut().restart(id, Fate::Restarts(1));
            Ok(())
        }

        fn report(&self, news: &RollingProgress) {
            self.news.borrow_mut().push(news.clone());
        }
    }

    /// Runs a restart of three servers to its end. Returns its end and its news.
    async fn ended(hangs: bool) -> (RollingEnd, Vec<RollingProgress>) {
        let world = World::new(3, 0, true);
        let rules = RollingRules {
            targets: world.members().into_keys().collect(),
            least_age: None,
            wait: Duration::from_secs(20),
            pause: Duration::ZERO,
            is_dry_run: false,
        };
        let mut rolling = Rolling::new(&world.found(), rules);
        let (world, stops) = (RefCell::new(world), Semaphore::new(0));
        let means = SimulatedMeans { world, hangs, stops, news: RefCell::default() };
        let stop = async || means.stops.acquire().await.expect("a request").forget();
        run(&mut rolling, &means, Duration::from_millis(1), stop).await;
        let news = means.news.take();
        (rolling.end().expect("an end").clone(), news)
    }

    #[tokio::test]
    async fn every_server_is_restarted() {
        let (end, news) = ended(false).await;
        assert_eq!(end, RollingEnd::Done);
        let begins = news.iter().filter_map(|news| match news {
            RollingProgress::Restarting { number, total, .. } => Some((*number, *total)),
            _ => None,
        });
        assert_eq!(begins.collect::<Vec<_>>(), [(1, 3), (2, 3), (3, 3)]);
    }

    #[tokio::test]
    async fn a_second_stop_kills_a_command() {
        let (end, news) = ended(true).await;
        let RollingEnd::CommandFailed(RestartError::Killed(server)) = &end else {
            panic!("{end:?}")
        };
        assert_eq!(news.last(), Some(&RollingProgress::Finishing(server.clone())));
    }
}
