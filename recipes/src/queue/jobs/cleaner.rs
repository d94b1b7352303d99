use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join;
use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator::internal::{sleep, sleep_until};
use zk_curator::watch::Watch;
use zk_curator::{Error as ZkError, ErrorCode, ErrorKind};

use super::kept::KeptNode;
use super::later;
use super::places::{Places, is_gone, is_missing};
use super::record::Executing;
use super::retention::{self, Policy};
use crate::health::{Health, HealthReporter};
use crate::leader::{self, LeaderSelector};
use crate::queue::error::Error;
use crate::queue::wire::name::NamingRules;

/// The minimum time from one check to the next, because claims change with every job.
const PAUSE: Duration = Duration::from_millis(100);
/// The time after which ending an attempt is retried if it has failed.
const STUCK: Duration = Duration::from_secs(60);
/// The pause of a background cleaner after an error that stops it, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Takes part in the election, and cleans while elected, until a permanent error.
pub(super) async fn run(
    places: &Places,
    policy: Policy,
    health: &HealthReporter,
) -> Result<(), Error> {
    let selector = LeaderSelector::within(&places.zk, places.below("cleaner"), "jobs");
    loop {
        // Correctness does not depend on a single cleaner; it saves requests.
        let elected = selector.run_once(|_| work(places, policy, health)).await;
        health.report(Health::Waiting);
        match elected {
            Ok(error) | Err(leader::Error::Framework(error)) => return Err(error.into()),
            Err(leader::Error::Closed { .. }) => return Ok(()),
            Err(error) => debug!(%error, "is not the cleaner any more"),
        }
    }
}

/// Runs the cleaner in the background until the framework is closed. After an error it reports the
/// error, and joins the election again after a pause.
pub(super) async fn keep_running(places: &Places, policy: Policy, health: &HealthReporter) {
    let (mut pause, longest) = RETRY;
    loop {
        match run(places, policy, health).await {
            Err(Error::Framework(error)) if error.kind() != ErrorKind::Closed => {
                health.report(Health::Failed(error.clone()));
                places.zk.report_background_error(error);
            }
            // It returns no other error.
            Ok(()) | Err(_) => return,
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Runs all tasks of a cleaner until a permanent error, and returns that error.
async fn work(places: &Places, policy: Policy, health: &HealthReporter) -> ZkError {
    tokio::select! {
        biased;
        error = clean(places, policy.max_attempts, health) => error,
        error = later::bring_back(places) => error,
        error = retention::sweep(places, policy) => error,
    }
}

/// Attempts that cannot be ended.
#[derive(Debug, Default)]
struct StuckAttempts {
    /// Nodes whose data are not those of an attempt.
    foreign: BTreeSet<String>,
    /// Jobs whose end was refused, with the time of the next try.
    stuck: BTreeMap<String, Instant>,
}

impl StuckAttempts {
    fn is_due(&self, attempt: &str) -> bool {
        !self.foreign.contains(attempt)
            && self.stuck.get(attempt).is_none_or(|next| *next <= Instant::now())
    }
}

/// Cleans until a permanent error, and returns it.
async fn clean(places: &Places, max_attempts: Option<u32>, health: &HealthReporter) -> ZkError {
    let mut aside = StuckAttempts::default();
    loop {
        let passed = match pass(places, max_attempts, &mut aside).await {
            Ok(watch) => {
                health.report(Health::Working);
                let next = aside.stuck.values().min().copied();
                // A watch has fired or ended, or a retry is due: check again.
                tokio::select! {
                    biased;
                    _ = watch => {}
                    () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                }
                Ok(())
            }
            Err(error) if is_missing(&error) => places.prepare().await,
            Err(error) => Err(error),
        };
        if let Err(error) = passed
            && let Err(error) = places.zk.wait_for_recovery(error).await
        {
            return error;
        }
        sleep(PAUSE).await;
    }
}

/// Checks once, and returns the watches that fire when another check is needed.
async fn pass(
    places: &Places,
    max_attempts: Option<u32>,
    aside: &mut StuckAttempts,
) -> zk_curator::Result<Watch> {
    let (attempts, claims) = (places.below("executing"), places.below("leases"));
    // With this order, every claim either ended before the attempts were listed, or its end fires
    // the watch. An attempt may have a claim that was created after the claims were listed: `end`
    // is refused then.
    let claimed = async { places.zk.children(claims).watched().await };
    let executing = async { places.zk.children(attempts).await };
    let (claimed, executing) = join(claimed, executing).await;
    let (claimed, executing) = (claimed?, executing?);
    let alive: BTreeSet<String> = claimed.value.0.into_iter().collect();
    let present: BTreeSet<String> = executing.into_iter().collect();
    aside.foreign.retain(|attempt| present.contains(attempt));
    aside.stuck.retain(|attempt, _| present.contains(attempt));
    for attempt in present {
        if alive.contains(&attempt) || !aside.is_due(&attempt) {
            continue;
        }
        match end(places, &attempt, max_attempts).await {
            Ok(Some(worker)) => {
                aside.stuck.remove(&attempt);
                debug!(attempt, worker, "the job of a worker that has gone is for others");
            }
            Ok(None) => {
                warn!(attempt, "not an attempt at a job");
                aside.foreign.insert(attempt);
            }
            Err(error)
                if error.is_transient()
                    || is_missing(&error)
                    || error.kind() == ErrorKind::Closed =>
            {
                return Err(error);
            }
            // Other attempts may still be ended.
            Err(error) => {
                if aside.stuck.insert(attempt, Instant::now() + STUCK).is_none() {
                    places.zk.report_background_error(error);
                }
            }
        }
    }
    Ok(claimed.watch)
}

/// Ends an attempt if it has no claim. Returns its worker, or `None` if the node is not an attempt.
async fn end(
    places: &Places,
    attempt: &str,
    max_attempts: Option<u32>,
) -> zk_curator::Result<Option<String>> {
    let (path, claim) = (places.of("executing", attempt), places.of("leases", attempt));
    let data = match places.zk.get_data(&path).await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Some(String::new())),
        data => data?,
    };
    let record =
        Executing::parse(&data).filter(|record| NamingRules::Job.meta(&record.name).is_some());
    let Some(Executing { name, worker, .. }) = record else { return Ok(None) };
    let why = format!("the worker {worker} has gone");
    let mut next = KeptNode::after_attempt(places, &name, &why, max_attempts);
    loop {
        // This proves that there is no claim.
        let unclaimed = places.zk.transaction().create(&claim, "").delete(&claim);
        let Err(error) = next.create(unclaimed.delete(&path)).await else { break };
        let is_claimed = matches!(
            error.kind(),
            ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NodeExists }
        );
        if is_claimed || is_gone(&error, 2) {
            break;
        }
        if !next.correct(places, &error).await? {
            return Err(error);
        }
    }
    Ok(Some(worker))
}
