//! Delayed jobs: failed jobs that become pending again at a given time.

use std::collections::BTreeSet;
use std::future::pending;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator::internal::{Setbacks, millis, sleep, sleep_until};
use zk_curator::op::fan_out;
use zk_curator::{Error as ZkError, ErrorKind, Result};

use super::kept::KeptNode;
use super::places::{Places, is_gone, is_missing};
use super::record::Later;
use crate::queue::wire::name::NamingRules;

pub(super) const DIRECTORY: &str = "later";
/// The shortest time from one listing to the next.
const PAUSE: Duration = Duration::from_millis(100);
/// The maximum time between two reads of the clock, which may be changed during a wait.
const CLOCK_CHECKED: Duration = Duration::from_secs(1);
/// The time after which making a job pending is retried if it has failed.
const STUCK: Duration = Duration::from_secs(60);
/// The number of jobs that one request reads.
const READ_AT_ONCE: usize = 256;
/// The maximum number of jobs that are made pending at a time.
const AT_ONCE: usize = 64;

/// The node of a job that is pending again after a time. Attempts have names of their own, so no
/// two jobs have the same node.
pub(super) fn node(
    places: &Places,
    pause: Duration,
    attempt: &str,
    held: &str,
    why: String,
) -> KeptNode {
    let due = places.pending.now().saturating_add(millis(pause));
    let path = places.of(DIRECTORY, &format!("{due:013}|{attempt}"));
    KeptNode::later(path, Later { name: held.to_owned(), why }.encode())
}

/// The time in the name of a delayed job, in milliseconds since 1970.
pub(crate) fn due(name: &str) -> Option<i64> {
    name.split_once('|')?.0.parse().ok()
}

/// Searches for a delayed job by its id, one request at a time, and returns the path of its node.
pub(super) async fn find(places: &Places, id: &str) -> Result<Option<String>> {
    let names = match places.zk.children(places.below(DIRECTORY)).await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
        names => names?,
    };
    let paths: Vec<String> = names.iter().map(|name| places.of(DIRECTORY, name)).collect();
    for some in paths.chunks(READ_AT_ONCE) {
        let reads = some.iter().fold(places.zk.multi_read(), |reads, path| reads.get_data(path));
        for (path, read) in some.iter().zip(reads.await?) {
            let record = match read {
                Ok(read) => read.into_data().and_then(|(data, _)| Later::parse(&data)),
                Err(error) if error.kind() == ErrorKind::NoNode => None,
                Err(error) => return Err(error),
            };
            let meta = record.as_ref().and_then(|record| NamingRules::Job.meta(&record.name));
            if meta.is_some_and(|meta| meta.id == id) {
                return Ok(Some(path.clone()));
            }
        }
    }
    Ok(None)
}

/// Makes due delayed jobs pending until a permanent error, and returns that error.
pub(super) async fn bring_back(places: &Places) -> ZkError {
    let mut aside = StuckDelayed::default();
    loop {
        let passed = match pass(places, &mut aside).await {
            Err(error) if is_missing(&error) => places.prepare().await,
            passed => passed,
        };
        if let Err(error) = passed {
            if error.is_transient() || error.kind() == ErrorKind::Closed {
                if let Err(error) = places.zk.wait_for_recovery(error).await {
                    return error;
                }
            } else {
                aside.setbacks.report(&places.zk, &error);
                sleep(STUCK).await;
            }
        }
        sleep(PAUSE).await;
    }
}

/// Delayed jobs that cannot be made pending.
#[derive(Debug, Default)]
struct StuckDelayed {
    /// Nodes that are not delayed jobs.
    foreign: BTreeSet<String>,
    /// Jobs whose change was refused, until the next retry.
    stuck: BTreeSet<String>,
    again: Option<Instant>,
    setbacks: Setbacks,
}

impl StuckDelayed {
    fn has(&self, name: &str) -> bool {
        self.foreign.contains(name) || self.stuck.contains(name)
    }
}

/// Lists the delayed jobs, makes the due ones pending, and waits for the next one or for a change.
async fn pass(places: &Places, aside: &mut StuckDelayed) -> Result<()> {
    if aside.again.is_some_and(|again| again <= Instant::now()) {
        (aside.stuck, aside.again) = (BTreeSet::new(), None);
    }
    let listed = places.zk.children(places.below(DIRECTORY)).watched().await?;
    let (names, watch) = (listed.value.0, listed.watch);
    aside.foreign.retain(|name| names.contains(name));
    aside.foreign.extend(names.iter().filter(|name| due(name).is_none()).cloned());
    let waiting = names.iter().filter(|name| !aside.has(name));
    let mut waiting: Vec<(i64, &String)> =
        waiting.filter_map(|name| Some((due(name)?, name))).collect();
    waiting.sort_unstable();
    let now = places.pending.now();
    let (ready, later) = waiting.split_at(waiting.partition_point(|(due, _)| *due <= now));
    let returns: Vec<_> = ready.iter().map(|(_, name)| return_one(places, name)).collect();
    let returned = fan_out(AT_ONCE, returns).await;
    let mut is_refused = false;
    for ((_, name), returned) in ready.iter().zip(returned) {
        match returned {
            Ok(true) => {}
            Ok(false) => {
                warn!(name, "not a delayed job");
                aside.foreign.insert((*name).clone());
            }
            Err(error)
                if error.is_transient()
                    || is_missing(&error)
                    || error.kind() == ErrorKind::Closed =>
            {
                return Err(error);
            }
            // Other jobs may still be made pending.
            Err(error) => {
                is_refused = true;
                aside.stuck.insert((*name).clone());
                aside.again.get_or_insert_with(|| Instant::now() + STUCK);
                aside.setbacks.report(&places.zk, &error);
            }
        }
    }
    if !is_refused && aside.stuck.is_empty() {
        aside.setbacks.over();
    }
    let next = later.first().map(|(due, _)| *due);
    tokio::select! {
        biased;
        _ = watch => {}
        () = until_due(places, next) => {}
        () = sleep_until(aside.again.unwrap_or_else(Instant::now)), if aside.again.is_some() => {}
    }
    // Listings of many jobs are long.
    sleep(Duration::from_millis(names.len() as u64 / 10)).await;
    Ok(())
}

/// Waits until a time, in milliseconds since 1970; forever if there is none.
async fn until_due(places: &Places, due: Option<i64>) {
    let Some(due) = due else { return pending().await };
    loop {
        match u64::try_from(due.saturating_sub(places.pending.now())) {
            Ok(millis @ 1..) => sleep(Duration::from_millis(millis).min(CLOCK_CHECKED)).await,
            _ => return,
        }
    }
}

/// Makes a delayed job pending. Returns `false` if the node is not a delayed job.
async fn return_one(places: &Places, name: &str) -> Result<bool> {
    let path = places.of(DIRECTORY, name);
    let data = match places.zk.get_data(&path).await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(true),
        data => data?,
    };
    let record = Later::parse(&data).filter(|record| NamingRules::Job.meta(&record.name).is_some());
    let Some(Later { name: held, .. }) = record else { return Ok(false) };
    let mut next = KeptNode::pending(places, &held);
    loop {
        let Err(error) = next.create(places.zk.transaction().delete(&path)).await else { break };
        if is_gone(&error, 0) {
            // Another cleaner was faster, or the job was withdrawn.
            break;
        }
        if !next.correct(places, &error).await? {
            return Err(error);
        }
    }
    debug!(name, held, "a delayed job is pending again");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_in_the_name() {
        assert_eq!(
            due("1795352400000|5e0a7c8e-0000-4000-8000-000000000001"),
            Some(1_795_352_400_000)
        );
        assert_eq!(due("0000000000007|x"), Some(7));
        for name in ["", "1795352400000", "x|y", "|"] {
            assert_eq!(due(name), None, "{name}");
        }
    }
}
