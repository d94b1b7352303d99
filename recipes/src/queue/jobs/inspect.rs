use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use futures_util::future::try_join_all;
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use zk_curator::op::fan_out;
use zk_curator::{CuratorFramework, ErrorKind, Stat};

use super::kept;
use super::later::{self, Delayed};
use super::places::Places;
use super::record::{Executing, Failed, Later};
use crate::queue::buckets;
use crate::queue::core::name::Kind;
use crate::queue::error::Error;

/// The number of nodes that are read at a time.
const READS: usize = 64;

/// A job, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its id.
    pub id: String,
    /// The number of attempts, the present one included. Of a job that is done it is not kept.
    pub attempts: u32,
    /// Its state.
    pub state: JobState,
}

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobState {
    /// It waits for a worker.
    Pending,
    /// A worker executes it.
    #[non_exhaustive]
    Executing {
        /// The name of the worker.
        worker: String,
        /// The id of its session.
        session: i64,
        /// Since when, by the clock of the servers.
        since: SystemTime,
        /// Whether it still has it. If not, the cleaner is about to give the job to others.
        is_alive: bool,
    },
    /// It has failed, and is pending again at a time: see [`Job::retry_after`](super::Job::retry_after).
    #[non_exhaustive]
    Delayed {
        /// Why its last attempt has failed.
        why: String,
        /// When it is pending again, by the clock of its last worker.
        until: SystemTime,
    },
    /// It is done, and its result is kept.
    #[non_exhaustive]
    Done {
        /// Since when, by the clock of the servers.
        since: SystemTime,
    },
    /// It has failed for good.
    #[non_exhaustive]
    Failed {
        /// Why, by its last worker or by the cleaner.
        why: String,
        /// Since when, by the clock of the servers.
        since: SystemTime,
    },
}

/// The names of the children; none if there is no such node.
async fn names(zk: &CuratorFramework, path: String) -> zk_curator::Result<Vec<String>> {
    match zk.children(path).await {
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
        names => names,
    }
}

pub(super) async fn inspect(places: &Places) -> Result<Vec<JobInfo>, Error> {
    // In the direction in which jobs go: who moves meanwhile is seen twice rather than not at all, and the latter counts.
    let pending = buckets::names(&places.pending).await?;
    let lists = ["executing", "leases", "done", "failed"]
        .map(|directory| async move { names(&places.zk, places.below(directory)).await });
    let lists: [Vec<String>; 4] = try_join_all(lists).await?.try_into().unwrap_or_default();
    let [executing, leases, done, failed] = lists;
    let delayed = later::all(places).await?;
    let (done, failed) =
        (in_buckets(places, "done", done).await?, in_buckets(places, "failed", failed).await?);
    let leases: BTreeSet<String> = leases.into_iter().collect();

    let mut jobs = BTreeMap::new();
    let mut add = |id: &str, attempts, state| {
        jobs.insert(id.to_owned(), JobInfo { id: id.to_owned(), attempts, state });
    };
    for name in &pending {
        if let Some(meta) = Kind::Job.meta(name) {
            add(meta.id, meta.times, JobState::Pending);
        }
    }
    for (attempt, data, stat) in read(places, "executing", executing).await? {
        let Some(Executing { name, session, worker }) = Executing::parse(&data) else { continue };
        let (since, is_alive) = (since(&stat), leases.contains(&attempt));
        if let Some(meta) = Kind::Job.meta(&name) {
            add(meta.id, meta.times, JobState::Executing { worker, session, since, is_alive });
        }
    }
    for Delayed { due, record: Later { name, why }, .. } in delayed {
        if let Some(meta) = Kind::Job.meta(&name) {
            add(meta.id, meta.times, JobState::Delayed { why, until: time(due) });
        }
    }
    for (id, _, stat) in read(places, "done", done).await? {
        add(kept::id_of(&id), 0, JobState::Done { since: since(&stat) });
    }
    for (id, data, stat) in read(places, "failed", failed).await? {
        let Some(Failed { attempts, why, .. }) = Failed::parse(&data) else { continue };
        add(kept::id_of(&id), attempts, JobState::Failed { why, since: since(&stat) });
    }
    Ok(jobs.into_values().collect())
}

/// The names below a directory, with those of their buckets: those of its children, and of the children of its buckets.
async fn in_buckets(
    places: &Places,
    directory: &str,
    children: Vec<String>,
) -> zk_curator::Result<Vec<String>> {
    let (buckets, mut all): (Vec<_>, Vec<_>) = children.into_iter().partition(|name| kept::is_bucket(name));
    let lists = buckets.iter().map(|bucket| names(&places.zk, places.of(directory, bucket)));
    for (bucket, names) in buckets.iter().zip(fan_out(READS, lists).await) {
        all.extend(names?.into_iter().map(|name| format!("{bucket}/{name}")));
    }
    Ok(all)
}

/// Reads nodes; without those that are gone.
async fn read(
    places: &Places,
    directory: &str,
    names: Vec<String>,
) -> zk_curator::Result<Vec<(String, bytes::Bytes, Stat)>> {
    let reads = names.into_iter().map(|name| async move {
        match places.zk.get_data(places.of(directory, &name)).with_stat().await {
            Ok((data, stat)) => Ok(Some((name, data, stat))),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error),
        }
    });
    iter(reads).buffered(READS).try_filter_map(async |read| Ok(read)).try_collect().await
}

fn since(stat: &Stat) -> SystemTime {
    time(stat.ctime)
}

/// A time in milliseconds since 1970.
fn time(millis: i64) -> SystemTime {
    let since = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
}
