//! Runs of services that are written without the simulation.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use zk_curator::observe::{self, HoldMode, Recorder, Step, UseOutcome};
use zk_curator::{CancellationToken, CuratorFramework};
use zk_curator_client::internal::sleep;

use super::client::{Client, Ended, Failure};
use super::history::{Event, Hold, Mode, Outcome, ProcessId, Queue, ResourceUse};
use super::sim::Sim;

/// The time for which a service runs without faults, in session timeouts.
const QUIET: u32 = 3;
/// The time that a service has to end after its signal, in session timeouts.
const ENDING: u32 = 3;
/// The longest pause before a service is restarted after it has ended.
const RESTART: Duration = Duration::from_millis(500);

impl Sim {
    /// Runs an unchanged service: each client connects, and calls the function with its framework
    /// and its recorder. The function is the one that runs in production, with another recorder:
    /// see [`Recorder`].
    ///
    /// A service that returns an error during the faults, or because of them, is restarted in a new
    /// process, as its supervisor would do. If a service that was started after the last fault
    /// returns an error, the run fails. A service that does not return is dropped three session
    /// timeouts after the last fault, and its framework is closed.
    /// [`Recovery`](crate::checkers::Recovery) requires that it works until then. A service that
    /// returns without an error has finished.
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
            async move { life(&client, None, |zk| serve(zk, client.clone())).await }
        })
    }

    /// Runs a service as [`service`](Self::service) does, with a signal to stop producing, for
    /// services that put items into a queue.
    ///
    /// The token is cancelled three session timeouts after the last fault. The service should then
    /// start no new work, process the remaining items, and return. If it has not returned three
    /// session timeouts later, it is dropped. [`Delivery`](crate::checkers::Delivery) counts an
    /// item that is in the queue at the end as lost, so a service that never stops producing fails
    /// it.
    ///
    /// The guide `docs/book/src/testing/simulating-services.md` has such a service, with a producer
    /// and a consumer.
    pub fn stoppable_service<F, Fut, E>(self, serve: F) -> Self
    where
        F: Fn(CuratorFramework, Client, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure> + 'static,
    {
        let serve = Arc::new(serve);
        self.workload(move |client| {
            let (serve, stop) = (Arc::clone(&serve), CancellationToken::new());
            async move { life(&client, Some(&stop), |zk| serve(zk, client.clone(), stop.clone())).await }
        })
    }
}

/// Runs one life of a process with a service.
async fn life<Fut, E>(
    client: &Client,
    stop: Option<&CancellationToken>,
    serve: impl FnOnce(CuratorFramework) -> Fut,
) -> Result<(), Failure>
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
        if let Some(stop) = stop {
            stop.cancel();
            sleep(client.session_timeout() * ENDING).await;
        }
    };
    let ended = tokio::select! {
        biased;
        ended = serve(zk) => ended.map_err(Into::into),
        () = is_over => return Ok(()),
    };
    ended.map_err(|error| if began_in_faults { Ended(error).into() } else { error })
}

/// Records the steps of a service in the history of the run.
impl Recorder for Client {
    fn record(&self, step: Step<'_>) {
        Self::record(self, event(step));
    }

    fn next_attempt(&self) -> u64 {
        self.unique()
    }
}

/// Returns the event of the history for a step.
fn event(step: Step<'_>) -> Event {
    match step {
        Step::Acquiring { resource, mode, hold } => {
            Hold::Acquiring { resource: resource.into(), mode: mode.into(), hold }.into()
        }
        Step::Acquired { resource, mode, hold, token } => {
            let (resource, mode, token) = (resource.into(), mode.into(), token.get());
            Hold::Acquired { resource, mode, hold, token }.into()
        }
        Step::Missed { hold } => Hold::Missed { hold }.into(),
        Step::Lost { hold } => Hold::Lost { hold }.into(),
        Step::Releasing { hold } => Hold::Releasing { hold }.into(),
        Step::Released { hold } => Hold::Released { hold }.into(),
        Step::Used { resource, hold, token, outcome } => {
            let (resource, token, outcome) = (resource.into(), token.get(), outcome.into());
            Hold::Used { resource, hold, token, outcome }.into()
        }
        Step::Putting { queue, item, rank } => {
            Queue::Putting { queue: queue.into(), item: item.into(), rank }.into()
        }
        Step::Put { queue, item, outcome } => {
            Queue::Put { queue: queue.into(), item: item.into(), outcome: outcome.into() }.into()
        }
        Step::Taken { queue, item, attempt } => {
            Queue::Taken { queue: queue.into(), item: item.into(), attempt }.into()
        }
        Step::Finishing { queue, item } => {
            Queue::Finishing { queue: queue.into(), item: item.into() }.into()
        }
        Step::Done { queue, item, outcome } => {
            Queue::Done { queue: queue.into(), item: item.into(), outcome: outcome.into() }.into()
        }
        Step::Returned { queue, item } => {
            Queue::Returned { queue: queue.into(), item: item.into() }.into()
        }
        Step::Dead { queue, item } => Queue::Dead { queue: queue.into(), item: item.into() }.into(),
        // A note, or a step that a later version adds.
        other => Event::Note { text: other.to_string() },
    }
}

impl From<HoldMode> for Mode {
    fn from(mode: HoldMode) -> Self {
        match mode {
            HoldMode::Shared => Self::Shared,
            HoldMode::Lease => Self::Lease,
            HoldMode::Leader => Self::Leader,
            // A mode that a later version adds is treated as the strictest one.
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
            (
                Step::Acquired { resource, mode, hold, token },
                "holds orders (leader), #7, token 0x1f",
            ),
            (Step::Missed { hold }, "has not acquired #7"),
            (Step::Lost { hold }, "has lost #7"),
            (Step::Releasing { hold }, "releases #7"),
            (Step::Released { hold }, "has released #7"),
            (
                Step::Used { resource, hold, token, outcome },
                "uses orders, #7, token 0x1f: accepted as use 3",
            ),
            (Step::Putting { queue, item, rank: 0 }, "puts m into mails"),
            (Step::Put { queue, item, outcome: Outcome::Unknown }, "has put m into mails: unknown"),
            (Step::Taken { queue, item, attempt: 2 }, "takes m from mails, delivery 2"),
            (Step::Finishing { queue, item }, "is about to remove m from mails"),
            (Step::Done { queue, item, outcome: sure }, "has processed m of mails: done"),
            (Step::Returned { queue, item }, "returns m to mails"),
            (Step::Dead { queue, item }, "makes m of mails a dead letter"),
            (Step::Note { text: "a note" }, "a note"),
        ] {
            assert_eq!(event(step).to_string(), text);
        }
    }
}
