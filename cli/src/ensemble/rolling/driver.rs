//! Performs a rolling restart: asks the servers, and runs the commands.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::super::probe::Server;
use super::RestartError;
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
