use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join;
use tokio::time::sleep;
use tracing::{debug, warn};
use zk_curator::watch::Watch;
use zk_curator::{ErrorCode, ErrorKind};

use super::{Executing, Places, is_gone};
use crate::leader::{self, LeaderSelector, ride_out};
use crate::queue::Error;
use crate::queue::name::Kind;

/// Leases come and go with every job: how long it is at least from one look to the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes part in the election, and cleans while elected, until nothing mends an error.
pub(super) async fn run(places: &Places, max_attempts: Option<u32>) -> Result<(), Error> {
    let selector = LeaderSelector::new(&places.zk, places.below("cleaner"));
    loop {
        // Nothing depends on there being one only: it saves requests.
        match selector.run(|_| clean(places, max_attempts)).await {
            Ok(error) | Err(leader::Error::Framework(error)) => return Err(error.into()),
            Err(leader::Error::Closed) => return Ok(()),
            Err(error) => debug!(%error, "is not the cleaner any more"),
        }
    }
}

/// Cleans until nothing mends an error, which it returns.
async fn clean(places: &Places, max_attempts: Option<u32>) -> zk_curator::Error {
    let mut odd = BTreeSet::new();
    loop {
        let passed = match pass(places, max_attempts, &mut odd).await {
            Ok(watch) => {
                // Fired or ended: look again.
                drop(watch.await);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NoNode => places.prepare().await,
            Err(error) => Err(error),
        };
        if let Err(error) = passed
            && let Err(error) = ride_out(&places.zk, error).await
        {
            return error;
        }
        sleep(PAUSE).await;
    }
}

/// Looks once, and returns what fires when there is reason to look again.
async fn pass(
    places: &Places,
    max_attempts: Option<u32>,
    odd: &mut BTreeSet<String>,
) -> zk_curator::Result<Watch> {
    let (attempts, leases) = (places.below("executing"), places.below("leases"));
    // In this order: an attempt that is seen has had its lease before, so if that is not there then, it is gone.
    let executing = async { places.zk.children(attempts).await };
    let leased = async { places.zk.children(leases).watched().await };
    let (executing, leased) = join(executing, leased).await;
    let (executing, leased) = (executing?, leased?);
    let alive: BTreeSet<String> = leased.value.0.into_iter().collect();
    for attempt in executing {
        if !alive.contains(&attempt) && !odd.contains(&attempt) {
            if let Some(worker) = end(places, &attempt, max_attempts).await? {
                debug!(attempt, worker, "the job of a worker that has gone is for others");
            } else {
                warn!(attempt, "not an attempt at a job");
                odd.insert(attempt);
            }
        }
    }
    Ok(leased.watch)
}

/// Ends an attempt, if it has no lease; its worker, or `None` if it is no attempt.
async fn end(
    places: &Places,
    attempt: &str,
    max_attempts: Option<u32>,
) -> zk_curator::Result<Option<String>> {
    let (path, lease) = (places.of("executing", attempt), places.of("leases", attempt));
    let data = match places.zk.get_data(&path).await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Some(String::new())),
        data => data?,
    };
    let record = Executing::parse(&data).filter(|record| Kind::Job.marks(&record.name).is_some());
    let Some(Executing { name, worker, .. }) = record else { return Ok(None) };
    // This proves that there is no lease.
    let unleased = places.zk.transaction().create(&lease, "").delete(&lease);
    let why = format!("the worker {worker} has gone");
    let ended = places.attempt_failed(unleased.delete(&path), &name, &why, max_attempts).await;
    match ended {
        Err(error)
            if is_gone(&error, 2)
                || matches!(
                    error.kind(),
                    ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NodeExists }
                ) => {}
        ended => drop(ended?),
    }
    Ok(Some(worker))
}
