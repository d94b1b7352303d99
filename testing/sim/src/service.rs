//! Services that know nothing of the simulation.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator::observe::{self, HoldMode, Recorder, Step, UseOutcome};

use super::Sim;
use super::client::{Client, Failure};
use super::history::{Event, Mode, Name, Outcome, ProcessId, ResourceUse};

/// The time that a service runs on without faults, in session timeouts.
const QUIET: u32 = 3;
/// The longest pause before a service that has ended is started again.
const RESTART: Duration = Duration::from_millis(500);

impl Sim {
    /// Runs a service as it is: each client connects, and calls the function with its framework and its recorder. The function
    /// is that of production, with another recorder: see [`Recorder`].
    ///
    /// A service that returns an error during the faults, or because of them, is started again in a new process, as by its
    /// supervisor. An error of a service that was started after the last fault fails the run. A service that does not return is
    /// dropped three session timeouts after the last fault, and its framework is closed; [`Recovery`](crate::checkers::Recovery)
    /// requires that it works until then. One that returns without an error has finished.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use zk_curator::CuratorFramework;
    /// use zk_curator::observe::{Attempt, HoldMode, Recorder};
    /// use zk_curator_recipes::lock::{Error, InterProcessMutex};
    /// use zk_curator_sim::Sim;
    /// use zk_curator_sim::checkers::Exclusion;
    ///
    /// /// The service: no word of the simulation.
    /// async fn serve(zk: CuratorFramework, recorder: impl Recorder) -> Result<(), Error> {
    ///     let lock = InterProcessMutex::new(&zk, "/lock");
    ///     loop {
    ///         let attempt = Attempt::begin(&recorder, "lock", HoldMode::Exclusive);
    ///         let guard = lock.acquire().await?;
    ///         let held = attempt.acquired(guard.fencing_token());
    ///         tokio::select! {
    ///             biased;
    ///             () = guard.lost() => held.lost(),
    ///             () = tokio::time::sleep(zk.jitter(Duration::from_millis(500))) => drop(held),
    ///         }
    ///     }
    /// }
    ///
    /// let outcome = Sim::seed(0).service(serve).checker(Exclusion::mutual()).run();
    /// assert_eq!(outcome.violation, None, "{}", outcome.history);
    /// ```
    pub fn service<F, Fut, E>(self, serve: F) -> Self
    where
        F: Fn(CuratorFramework, Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure> + 'static,
    {
        let serve = Arc::new(serve);
        self.workload(move |client| {
            let serve = Arc::clone(&serve);
            async move { life(&client, |zk| serve(zk, client.clone())).await }
        })
    }
}

/// A service has ended with an error that the faults may explain: it is started again.
#[derive(Debug, thiserror::Error)]
#[error("the service has ended")]
pub(super) struct Ended(#[source] Failure);

/// One life of a process with a service.
async fn life<Fut, E>(client: &Client, serve: impl FnOnce(CuratorFramework) -> Fut) -> Result<(), Failure>
where
    Fut: Future<Output = Result<(), E>>,
    E: Into<Failure>,
{
    if !matches!(client.who(), ProcessId::Client { incarnation: 0, .. }) {
        sleep(client.moment(RESTART)).await;
    }
    let began_in_faults = !client.no_more_faults();
    let zk = client.connect().await?;
    let is_over = async {
        client.faults_are_over().await;
        sleep(client.session_timeout() * QUIET).await;
    };
    let ended = tokio::select! {
        biased;
        ended = serve(zk) => ended.map_err(Into::into),
        () = is_over => return Ok(()),
    };
    ended.map_err(|error| if began_in_faults { Ended(error).into() } else { error })
}

/// Writes down the steps of a service in the history of the run.
impl Recorder for Client {
    fn record(&self, step: Step<'_>) {
        Self::record(self, event(step));
    }

    fn next_attempt(&self) -> u64 {
        self.unique()
    }
}

/// A step in the terms of the history.
fn event(step: Step<'_>) -> Event {
    let name = |name: &str| Name::from(name);
    match step {
        Step::Acquiring { resource, mode, hold } => {
            Event::Acquiring { resource: name(resource), mode: mode.into(), hold }
        }
        Step::Acquired { resource, mode, hold, token } => {
            Event::Acquired { resource: name(resource), mode: mode.into(), hold, token: token.get() }
        }
        Step::Missed { hold } => Event::Missed { hold },
        Step::Lost { hold } => Event::Lost { hold },
        Step::Releasing { hold } => Event::Releasing { hold },
        Step::Released { hold } => Event::Released { hold },
        Step::Used { resource, hold, token, outcome } => {
            Event::Used { resource: name(resource), hold, token: token.get(), outcome: outcome.into() }
        }
        Step::Putting { queue, item, rank } => Event::Putting { queue: name(queue), item: name(item), rank },
        Step::Put { queue, item, outcome } => {
            Event::Put { queue: name(queue), item: name(item), outcome: outcome.into() }
        }
        Step::Taken { queue, item, attempt } => {
            Event::Taken { queue: name(queue), item: name(item), attempt }
        }
        Step::Finishing { queue, item } => Event::Finishing { queue: name(queue), item: name(item) },
        Step::Done { queue, item, outcome } => {
            Event::Done { queue: name(queue), item: name(item), outcome: outcome.into() }
        }
        Step::Returned { queue, item } => Event::Returned { queue: name(queue), item: name(item) },
        Step::Dead { queue, item } => Event::Dead { queue: name(queue), item: name(item) },
        // A note, or a step that came later.
        other => Event::Note { text: other.to_string() },
    }
}

impl From<HoldMode> for Mode {
    fn from(mode: HoldMode) -> Self {
        match mode {
            HoldMode::Shared => Self::Shared,
            HoldMode::Lease => Self::Lease,
            HoldMode::Leader => Self::Leader,
            // A mode that came later: the strictest one.
            _ => Self::Exclusive,
        }
    }
}

impl From<UseOutcome> for ResourceUse {
    fn from(outcome: UseOutcome) -> Self {
        match outcome {
            UseOutcome::Accepted(place) => Self::Accepted(place),
            _ => Self::Refused,
        }
    }
}

impl From<observe::Outcome> for Outcome {
    fn from(outcome: observe::Outcome) -> Self {
        match outcome {
            observe::Outcome::Sure => Self::Sure,
            observe::Outcome::Failed => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_curator::FencingToken;
    use zk_curator::observe::{HoldMode, Outcome, Step, UseOutcome};

    use super::event;

    #[test]
    fn steps_are_events_of_the_same_meaning() {
        let (resource, queue, item, hold) = ("orders", "mails", "m", 7);
        let (mode, token) = (HoldMode::Leader, FencingToken::new(0x1f));
        let (outcome, sure) = (UseOutcome::Accepted(3), Outcome::Sure);
        for (step, text) in [
            (Step::Acquiring { resource, mode, hold }, "acquires orders (leader), #7"),
            (Step::Acquired { resource, mode, hold, token }, "holds orders (leader), #7, token 0x1f"),
            (Step::Missed { hold }, "misses #7"),
            (Step::Lost { hold }, "has lost #7"),
            (Step::Releasing { hold }, "releases #7"),
            (Step::Released { hold }, "has released #7"),
            (Step::Used { resource, hold, token, outcome }, "uses orders, #7, token 0x1f: accepted as use 3"),
            (Step::Putting { queue, item, rank: 0 }, "puts m into mails"),
            (Step::Put { queue, item, outcome: Outcome::Unknown }, "has put m into mails: nobody knows"),
            (Step::Taken { queue, item, attempt: 2 }, "takes m from mails, delivery 2"),
            (Step::Finishing { queue, item }, "is about to remove m from mails"),
            (Step::Done { queue, item, outcome: sure }, "has worked off m of mails: done"),
            (Step::Returned { queue, item }, "gives m back to mails"),
            (Step::Dead { queue, item }, "puts m of mails aside"),
            (Step::Note { text: "a note" }, "a note"),
        ] {
            assert_eq!(event(step).to_string(), text);
        }
    }
}
