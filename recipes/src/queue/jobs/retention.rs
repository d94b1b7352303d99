//! The jobs that are kept after their end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zk_curator::internal::{millis, sleep};
use zk_curator::op::fan_out;
use zk_curator::{Error as ZkError, ErrorKind, Result, Stat};

use super::kept;
use super::places::{JobEnd, Places, is_gone};
use crate::queue::consume::redelivery::MOST_DELIVERIES;

/// The default maximum of kept jobs, for done jobs and for failed jobs.
const KEPT: u32 = 10_000;
/// The time from one sweep to the next.
const EVERY: Duration = Duration::from_secs(60);
/// The number of nodes that are read, or deleted, at a time.
const AT_ONCE: usize = 64;

/// The jobs that are kept after their end. A job that exceeds either limit is deleted.
///
/// ```
/// use std::time::Duration;
/// use zk_curator_recipes::queue::jobs::Retention;
///
/// let newest: Retention = 1_000.into();
/// let a_day: Retention = Duration::from_secs(24 * 3600).into();
/// let both = Retention::unlimited().newest(1_000).within(Duration::from_secs(24 * 3600));
/// assert_ne!(newest, both);
/// assert_ne!(a_day, both);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Retention {
    newest: Option<u32>,
    within: Option<Duration>,
}

impl Retention {
    /// Keeps all, until they are [forgotten](super::Jobs::forget).
    pub const fn unlimited() -> Self {
        Self { newest: None, within: None }
    }

    /// Keeps this number of the newest, from 1.
    pub const fn newest(mut self, jobs: u32) -> Self {
        self.newest = Some(jobs);
        self
    }

    /// Keeps the jobs that have ended within this time.
    pub const fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    pub(super) const fn has_zero(self) -> bool {
        matches!(self.newest, Some(0)) || matches!(self.within, Some(Duration::ZERO))
    }
}

impl Default for Retention {
    /// The newest 10,000.
    fn default() -> Self {
        KEPT.into()
    }
}

impl From<u32> for Retention {
    fn from(jobs: u32) -> Self {
        Self::unlimited().newest(jobs)
    }
}

impl From<Duration> for Retention {
    fn from(time: Duration) -> Self {
        Self::unlimited().within(time)
    }
}

/// The policy for jobs, on which all their users must agree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    pub(super) max_attempts: Option<u32>,
    pub(super) done: Retention,
    pub(super) failed: Retention,
}

impl Default for Policy {
    fn default() -> Self {
        let kept = Retention::default();
        Self { max_attempts: Some(MOST_DELIVERIES), done: kept, failed: kept }
    }
}

/// The kept node of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeptJob {
    /// The transaction that created it.
    czxid: i64,
    /// The time of this transaction, in milliseconds since 1970.
    ctime: i64,
}

impl From<Stat> for KeptJob {
    fn from(stat: Stat) -> Self {
        Self { czxid: stat.czxid, ctime: stat.ctime }
    }
}

/// The known nodes, by their names with the names of their buckets.
type KnownNodes = BTreeMap<String, KeptJob>;

/// The nodes to delete, from the oldest.
fn outdated(seen: &KnownNodes, retention: Retention, now: i64) -> Vec<(String, KeptJob)> {
    let mut all: Vec<(&String, &KeptJob)> = seen.iter().collect();
    all.sort_unstable_by_key(|(_, kept)| kept.czxid);
    let newest =
        retention.newest.map_or(usize::MAX, |jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
    let too_many = all.len().saturating_sub(newest);
    let within = retention.within.map(millis);
    let is_too_old =
        |kept: &KeptJob| within.is_some_and(|within| now.saturating_sub(kept.ctime) > within);
    let is_outdated =
        |(rank, (_, kept)): &(usize, (&String, &KeptJob))| *rank < too_many || is_too_old(kept);
    all.into_iter()
        .enumerate()
        .filter(is_outdated)
        .map(|(_, (name, kept))| (name.clone(), *kept))
        .collect()
}

/// Deletes kept results beyond the limits until a permanent error, and returns that error.
pub(super) async fn sweep(places: &Places, policy: Policy) -> ZkError {
    let mut seen = [KnownNodes::new(), KnownNodes::new()];
    let mut is_reported = false;
    loop {
        let mut refused = None;
        for (end, seen) in JobEnd::ALL.into_iter().zip(&mut seen) {
            let retention = match end {
                JobEnd::Done => policy.done,
                JobEnd::Failed => policy.failed,
            };
            match sweep_one(places, end, retention, seen).await {
                Ok(()) => {}
                Err(error) if error.is_transient() || error.kind() == ErrorKind::Closed => {
                    if let Err(error) = places.zk.wait_for_recovery(error).await {
                        return error;
                    }
                }
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            None => is_reported = false,
            Some(error) if !std::mem::replace(&mut is_reported, true) => {
                places.zk.report_background_error(error);
            }
            Some(_) => {}
        }
        sleep(EVERY).await;
    }
}

async fn sweep_one(
    places: &Places,
    end: JobEnd,
    retention: Retention,
    seen: &mut KnownNodes,
) -> Result<()> {
    if retention == Retention::unlimited() {
        return Ok(());
    }
    let names = names(places, end).await?;
    seen.retain(|name, _| names.contains(name));
    let is_full = retention
        .newest
        .is_some_and(|jobs| names.len() > usize::try_from(jobs).unwrap_or(usize::MAX));
    if !is_full && retention.within.is_none() {
        return Ok(());
    }
    let path = |name: &String| places.of(end.directory(), name);
    let new: Vec<&String> = names.iter().filter(|name| !seen.contains_key(*name)).collect();
    let looks: Vec<_> = new.iter().map(|name| places.zk.exists(path(name))).collect();
    let stats = fan_out(AT_ONCE, looks).await;
    for (name, stat) in new.into_iter().zip(stats) {
        if let Some(stat) = stat? {
            seen.insert(name.clone(), stat.into());
        }
    }
    let outdated = outdated(seen, retention, places.pending.now());
    let deletes: Vec<_> =
        outdated.iter().map(|(name, kept)| delete(places, path(name), name, *kept)).collect();
    let deleted = fan_out(AT_ONCE, deletes).await;
    let mut refused = Ok(());
    for ((name, _), deleted) in outdated.into_iter().zip(deleted) {
        match deleted {
            Ok(None) => drop(seen.remove(&name)),
            Ok(Some(kept)) => drop(seen.insert(name, kept)),
            Err(error) => refused = Err(error),
        }
    }
    refused
}

/// Returns the names of the kept results, each with the name of its bucket.
async fn names(places: &Places, end: JobEnd) -> Result<BTreeSet<String>> {
    let children = match places.zk.children(places.below(end.directory())).await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(BTreeSet::new()),
        children => children?,
    };
    let buckets: Vec<String> = children.into_iter().filter(|name| kept::is_bucket(name)).collect();
    let paths: Vec<String> =
        buckets.iter().map(|bucket| places.of(end.directory(), bucket)).collect();
    let mut names = BTreeSet::new();
    for (bucket, children) in buckets.iter().zip(places.zk.children_of_each(paths).await?) {
        names.extend(children.unwrap_or_default().iter().map(|id| format!("{bucket}/{id}")));
    }
    Ok(names)
}

/// Deletes an ended job. Returns the node that is kept under its id now, if that is another one.
async fn delete(
    places: &Places,
    path: String,
    name: &str,
    kept: KeptJob,
) -> Result<Option<KeptJob>> {
    let Some(stat) = places.zk.exists(&path).await? else { return Ok(None) };
    if stat.czxid != kept.czxid {
        // The id is used again.
        return Ok(Some(stat.into()));
    }
    let job = places.of("all", kept::id_of(name));
    match places.zk.transaction().delete(&path).delete(job).await {
        Ok(_) => Ok(None),
        // Forgotten, or deleted by another cleaner.
        Err(error) if is_gone(&error, 0) => Ok(None),
        // Another client has deleted the job.
        Err(error) if is_gone(&error, 1) => {
            places.zk.delete(&path).czxid(kept.czxid).await.map(|()| None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(nodes: &[(&str, i64, i64)]) -> KnownNodes {
        let node =
            |&(name, czxid, ctime): &(&str, i64, i64)| (name.to_owned(), KeptJob { czxid, ctime });
        nodes.iter().map(node).collect()
    }

    #[test]
    fn the_oldest_beyond_a_limit_are_deleted() {
        let seen = seen(&[("a", 3, 300), ("b", 1, 100), ("c", 2, 200)]);
        let names = |retention: Retention| {
            outdated(&seen, retention, 1000).into_iter().map(|(name, _)| name).collect::<String>()
        };
        assert_eq!(
            (names(1.into()), names(2.into()), names(3.into())),
            ("bc".into(), "b".into(), String::new())
        );
        let within = Duration::from_millis;
        assert_eq!(
            (names(within(800).into()), names(within(799).into())),
            ("b".into(), "bc".into())
        );
        assert_eq!(names(Retention::unlimited()), "");
        assert_eq!(names(Retention::unlimited().newest(2).within(within(799))), "bc");
        assert!(Retention::from(0).has_zero() && Retention::from(Duration::ZERO).has_zero());
        assert!(!Retention::default().has_zero() && !Retention::unlimited().has_zero());
    }

    proptest! {
        #[test]
        fn what_is_kept_is_newer_than_what_is_deleted(
            zxids in prop::collection::btree_set(any::<i32>(), 0..20), newest in 1..9_u32, millis in 1..2000_u64,
        ) {
            let seen: KnownNodes = zxids.iter().map(|zxid| {
                let czxid = i64::from(*zxid);
                (zxid.to_string(), KeptJob { czxid, ctime: czxid })
            }).collect();
            let retention = Retention::unlimited().newest(newest).within(Duration::from_millis(millis));
            let deleted = outdated(&seen, retention, 1000);
            prop_assert!(seen.len() - deleted.len() <= newest as usize);
            let last = deleted.iter().map(|(_, kept)| kept.czxid).max();
            let is_deleted = |name: &String| deleted.iter().any(|(other, _)| other == name);
            for (name, kept) in &seen {
                prop_assert!(is_deleted(name) || Some(kept.czxid) > last);
            }
        }
    }
}
