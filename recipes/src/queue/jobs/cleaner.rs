use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join;
use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator::internal::{Setbacks, sleep, sleep_until};
use zk_curator::watch::Watch;
use zk_curator::{Error as ZkError, ErrorCode, ErrorKind};

use super::kept::KeptNode;
use super::later;
use super::places::{Places, is_gone, is_missing};
use super::record::Executing;
use super::retention::{self, Policy};
use crate::advice;
use crate::health::{Health, HealthReporter};
use crate::leader::{self, LeaderSelector};
use crate::queue::error::Error;
use crate::queue::wire::name::NamingRules;

/// The minimum time from one check to the next, because claims change with every job.
const PAUSE: Duration = Duration::from_millis(100);
/// The time after which ending an attempt is retried if it has failed.
const STUCK: Duration = Duration::from_secs(60);

/// Takes part in the election, and cleans while elected, until a permanent error. `setbacks` are
/// over with the first check that succeeds.
pub(super) async fn run(
    places: &Places,
    policy: Policy,
    health: &HealthReporter,
    setbacks: &mut Setbacks,
) -> Result<(), Error> {
    let selector = LeaderSelector::within(&places.zk, places.below("cleaner"), "jobs");
    loop {
        // Correctness does not depend on a single cleaner; it saves requests.
        let cleaning = Box::pin(work(places, policy, health, setbacks));
        let elected = selector.run_once(|_| cleaning).await;
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
    let mut setbacks = Setbacks::default();
    loop {
        match run(places, policy, health, &mut setbacks).await {
            Err(Error::Framework(error)) if error.kind() != ErrorKind::Closed => {
                setbacks.report(&places.zk, &error);
                health.report(Health::Failed(error));
            }
            // It returns no other error.
            Ok(()) | Err(_) => return,
        }
        sleep(setbacks.pause(&places.zk)).await;
    }
}

/// Runs all tasks of a cleaner until a permanent error, and returns that error.
async fn work(
    places: &Places,
    policy: Policy,
    health: &HealthReporter,
    setbacks: &mut Setbacks,
) -> ZkError {
    tokio::select! {
        biased;
        error = clean(places, policy.max_attempts, health, setbacks) => error,
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
    /// Attempts with a claim, and the time when it is read; `None` after that.
    claimed: BTreeMap<String, Option<Instant>>,
}

impl StuckAttempts {
    fn is_due(&self, attempt: &str) -> bool {
        !self.foreign.contains(attempt)
            && self.stuck.get(attempt).is_none_or(|next| *next <= Instant::now())
    }

    /// Returns the attempts that have had a claim for long, each once.
    fn long_claimed(&mut self) -> Vec<String> {
        let now = Instant::now();
        let is_due = |read: &mut Option<Instant>| read.take_if(|read| *read <= now).is_some();
        let due = self
            .claimed
            .iter_mut()
            .filter_map(|(attempt, read)| is_due(read).then(|| attempt.clone()));
        due.collect()
    }

    /// Returns the time of the next try or read.
    fn next(&self) -> Option<Instant> {
        self.stuck.values().chain(self.claimed.values().flatten()).min().copied()
    }
}

/// Cleans until a permanent error, and returns it.
async fn clean(
    places: &Places,
    max_attempts: Option<u32>,
    health: &HealthReporter,
    setbacks: &mut Setbacks,
) -> ZkError {
    let mut aside = StuckAttempts::default();
    loop {
        let passed = match pass(places, max_attempts, &mut aside).await {
            Ok(watch) => {
                setbacks.over();
                health.report(Health::Working);
                let next = aside.next();
                // A watch has fired or ended, or a retry or a read is due: check again.
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
    aside.claimed.retain(|attempt, _| alive.contains(attempt));
    for attempt in present {
        if alive.contains(&attempt) {
            aside.claimed.entry(attempt).or_insert_with(|| Some(Instant::now() + advice::LONG));
            continue;
        }
        if !aside.is_due(&attempt) {
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
    // A restored claim would keep its job from all workers.
    let restored = aside.long_claimed().into_iter().map(|attempt| places.of("leases", &attempt));
    advice::of_persistent(&places.zk, "clean", restored).await;
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
