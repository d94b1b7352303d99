//! Runs of services that are written without the simulation.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator_client::internal::sleep;
use zk_curator_recipes::Shutdown;

use super::client::{Client, Ended, Failure};
use super::history::ProcessId;
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
    /// see [`Recorder`](zk_curator::observe::Recorder).
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
    /// The shutdown begins three session timeouts after the last fault. The service should then
    /// start no new work, process the remaining items, and return. If it has not returned three
    /// session timeouts later, it is dropped. [`Delivery`](crate::checkers::Delivery) counts an
    /// item that is in the queue at the end as lost, so a service that never stops producing fails
    /// it.
    ///
    /// The guide `docs/book/src/testing/simulating-services.md` has such a service, with a producer
    /// and a consumer.
    pub fn stoppable_service<F, Fut, E>(self, serve: F) -> Self
    where
        F: Fn(CuratorFramework, Client, Shutdown) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure> + 'static,
    {
        let serve = Arc::new(serve);
        self.workload(move |client| {
            let (serve, stop) = (Arc::clone(&serve), Shutdown::new());
            async move { life(&client, Some(&stop), |zk| serve(zk, client.clone(), stop.clone())).await }
        })
    }
}

/// Runs one life of a process with a service.
async fn life<Fut, E>(
    client: &Client,
    stop: Option<&Shutdown>,
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
            stop.begin();
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
