//! The state of jobs.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use zk_curator::op::ReadResult;
use zk_curator::value::FromData;
use zk_curator::{ErrorKind, Stat};

use super::kept;
use super::later;
use super::listing;
use super::phase::JobPhase;
use super::places::{JobEnd, Places};
use super::record::{Executing, FailedJobRecord, Later};
use crate::path::is_uuid;
use crate::queue::error::Error;
use crate::queue::wire::codec::CorruptItem;
use crate::queue::wire::name::{Bucket, ItemMeta, NamingRules};
use crate::queue::wire::value::decode;
use crate::race::RACE_ROUNDS;

/// The number of records that one request reads.
const RECORDS: usize = 256;
/// The number of payloads and results, of up to 1 MB each, that one request reads. One such request
/// is sent at a time.
const PAYLOADS: usize = 16;
/// The maximum number of buckets of pending jobs whose names are counted. Those of more are counted
/// by the servers.
const NAMED: usize = 16;

/// A job, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// The id.
    pub id: String,
    /// The number of attempts, including a running one. Zero for a done job, for which it is not
    /// kept.
    pub attempts: u32,
    /// The [priority](super::Submission::priority); `None` for a done job, for which it is not
    /// kept.
    pub priority: Option<i32>,
    /// The state.
    pub state: JobState,
    /// The time of the submission, by the clock of the servers. `None` if the payload was not
    /// requested, or the job no longer exists.
    pub submitted_at: Option<SystemTime>,
    payload: Option<StoredJob>,
    result: Option<StoredJob>,
}

/// The data of a node, and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoredJob {
    path: String,
    data: Result<Bytes, CorruptItem>,
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
        /// The time of the claim, by the clock of the servers.
        since: SystemTime,
        /// `true` if the worker still has its claim. If not, the cleaner will make the job pending
        /// again.
        is_alive: bool,
    },
    /// It has failed, and becomes pending again at a given time: see
    /// [`Delivery::retry_after`](crate::queue::Delivery::retry_after).
    #[non_exhaustive]
    Delayed {
        /// The reason why its last attempt has failed.
        why: String,
        /// The time at which it becomes pending again, by the clock of its last worker.
        until: SystemTime,
    },
    /// It is done, and its result is kept.
    #[non_exhaustive]
    Done {
        /// The time of its end, by the clock of the servers.
        since: SystemTime,
    },
    /// It has failed permanently.
    #[non_exhaustive]
    Failed {
        /// The reason that its last worker or the cleaner has given.
        why: String,
        /// The time of its end, by the clock of the servers.
        since: SystemTime,
    },
}

/// The numbers of jobs in each state: see [`Jobs::counts`](super::Jobs::counts).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct JobCounts {
    /// Jobs that wait for a worker.
    pub pending: usize,
    /// Jobs that a worker executes, or was executing when it died.
    pub executing: usize,
    /// Jobs that become pending again at a given time.
    pub delayed: usize,
    /// Jobs that are done, and whose results are kept.
    pub done: usize,
    /// Jobs that have failed permanently, and are kept.
    pub failed: usize,
}

impl JobCounts {
    /// The number of all jobs.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.pending + self.executing + self.delayed + self.done + self.failed
    }
}

impl JobState {
    /// The state without its details.
    #[must_use]
    pub const fn phase(&self) -> JobPhase {
        match self {
            Self::Pending => JobPhase::Pending,
            Self::Executing { .. } => JobPhase::Executing,
            Self::Delayed { .. } => JobPhase::Delayed,
            Self::Done { .. } => JobPhase::Done,
            Self::Failed { .. } => JobPhase::Failed,
        }
    }
}

impl JobInfo {
    fn new(meta: ItemMeta<'_>, state: JobState) -> Self {
        let ItemMeta { id, times, priority } = meta;
        Self { attempts: times, priority: Some(priority), ..Self::ended(id, state) }
    }

    fn ended(id: &str, state: JobState) -> Self {
        let id = id.to_owned();
        Self {
            id,
            attempts: 0,
            priority: None,
            state,
            submitted_at: None,
            payload: None,
            result: None,
        }
    }

    /// Returns the payload; `None` if it was not [requested](super::JobList::with_payload), or the
    /// job no longer exists.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the framework compresses and it cannot be decompressed.
    pub fn payload(&self) -> Result<Option<&Bytes>, Error> {
        self.payload.as_ref().map(StoredJob::data).transpose()
    }

    /// Returns the payload as a value of this type; `None` as [`payload`](Self::payload).
    ///
    /// # Errors
    /// [`Error::Undecodable`] if it cannot be decoded; as [`payload`](Self::payload).
    pub fn value<T: FromData>(&self) -> Result<Option<T>, Error> {
        self.payload()?.map(|data| decode(&self.id, data)).transpose()
    }

    /// Returns the result; `None` if the job is not done, or the payload was not
    /// [requested](super::JobList::with_payload).
    ///
    /// # Errors
    /// As [`payload`](Self::payload).
    pub fn result(&self) -> Result<Option<&Bytes>, Error> {
        self.result.as_ref().map(StoredJob::data).transpose()
    }

    fn set_payload(&mut self, places: &Places, job: (Bytes, Stat)) {
        let (data, stat) = job;
        self.submitted_at = Some(time(stat.ctime));
        self.payload = Some(StoredJob::new(places, places.of("all", &self.id), data));
    }
}

impl StoredJob {
    fn new(places: &Places, path: String, data: Bytes) -> Self {
        Self { path, data: places.pending.unpack(data) }
    }

    fn data(&self) -> Result<&Bytes, Error> {
        self.data.as_ref().map_err(|why| Error::Corrupt { path: self.path.clone(), why: *why })
    }
}

/// Reads the jobs with these names, without the missing ones.
pub(super) async fn read(
    places: &Places,
    phase: JobPhase,
    names: &[String],
    has_payload: bool,
) -> Result<Vec<JobInfo>, Error> {
    let paths = names.iter().map(|name| places.of(phase.directory(), name));
    let mut jobs: Vec<JobInfo> = match phase {
        JobPhase::Pending => {
            let metas = names.iter().filter_map(|name| NamingRules::Job.meta(name));
            metas.map(|meta| JobInfo::new(meta, JobState::Pending)).collect()
        }
        JobPhase::Executing if names.is_empty() => Vec::new(),
        JobPhase::Executing => {
            let claims = listing::children(&places.zk, places.below("leases")).await?;
            let claims: BTreeSet<String> = claims.into_iter().collect();
            let read = read_each(places, paths, RECORDS).await?;
            let attempts = names.iter().zip(read);
            attempts.filter_map(|(name, node)| executing(&node?, claims.contains(name))).collect()
        }
        JobPhase::Delayed => {
            let read = names.iter().zip(read_each(places, paths, RECORDS).await?);
            read.filter_map(|(name, node)| delayed(name, &node?.0)).collect()
        }
        JobPhase::Done => {
            let read = names.iter().zip(read_each(places, paths, PAYLOADS).await?);
            let job =
                |(name, node): (&String, Option<_>)| Some(done(places, name, node?, has_payload));
            read.filter_map(job).collect()
        }
        JobPhase::Failed => {
            let read = names.iter().zip(read_each(places, paths, RECORDS).await?);
            read.filter_map(|(name, node)| failed(kept::id_of(name), &node?)).collect()
        }
    };
    if has_payload {
        let paths = jobs.iter().map(|job| places.of("all", &job.id)).collect::<Vec<_>>();
        let payloads = read_each(places, paths.into_iter(), PAYLOADS).await?;
        for (job, read) in jobs.iter_mut().zip(payloads) {
            if let Some(read) = read {
                job.set_payload(places, read);
            }
        }
    }
    Ok(jobs)
}

/// Reads nodes, one request at a time; `None` for a missing node.
async fn read_each(
    places: &Places,
    paths: impl Iterator<Item = String>,
    per_request: usize,
) -> zk_curator::Result<Vec<Option<(Bytes, Stat)>>> {
    let paths: Vec<String> = paths.collect();
    let mut nodes = Vec::with_capacity(paths.len());
    for some in paths.chunks(per_request) {
        let reads = some.iter().fold(places.zk.multi_read(), |reads, path| reads.get_data(path));
        for read in reads.per_request(per_request).await? {
            nodes.push(found(read)?.and_then(ReadResult::into_data));
        }
    }
    Ok(nodes)
}

fn executing((data, stat): &(Bytes, Stat), is_alive: bool) -> Option<JobInfo> {
    let Executing { name, session, worker } = Executing::parse(data)?;
    let state = JobState::Executing { worker, session, since: time(stat.ctime), is_alive };
    Some(JobInfo::new(NamingRules::Job.meta(&name)?, state))
}

fn delayed(node: &str, data: &[u8]) -> Option<JobInfo> {
    let Later { name, why } = Later::parse(data)?;
    let state = JobState::Delayed { why, until: time(later::due(node)?) };
    Some(JobInfo::new(NamingRules::Job.meta(&name)?, state))
}

fn done(places: &Places, name: &str, (data, stat): (Bytes, Stat), has_payload: bool) -> JobInfo {
    let path = places.of(JobEnd::Done.directory(), name);
    let result = has_payload.then(|| StoredJob::new(places, path, data));
    let state = JobState::Done { since: time(stat.ctime) };
    JobInfo { result, ..JobInfo::ended(kept::id_of(name), state) }
}

fn failed(id: &str, (data, stat): &(Bytes, Stat)) -> Option<JobInfo> {
    let FailedJobRecord { attempts, priority, why } = FailedJobRecord::parse(data)?;
    let state = JobState::Failed { why, since: time(stat.ctime) };
    Some(JobInfo { attempts, priority: Some(priority), ..JobInfo::ended(id, state) })
}

/// Reads a job, with its payload; `None` if no job has this id.
pub(super) async fn get(places: &Places, id: &str) -> Result<Option<JobInfo>, Error> {
    for _ in 0..RACE_ROUNDS {
        let kept = JobEnd::ALL.map(|end| kept::path(places, end, id));
        let ends = kept.iter().fold(places.zk.multi_read(), |reads, path| reads.get_data(path));
        let reads =
            ends.children(places.below("executing")).children(places.below(later::DIRECTORY));
        let mut answers = reads.get_data(places.of("all", id)).await?.into_iter().map(found);
        let mut next = || answers.next().transpose().map(Option::flatten);
        let (mut ended, mut done_at) = (None, String::new());
        for (end, path) in JobEnd::ALL.into_iter().zip(&kept) {
            let Some(node) = next()?.and_then(ReadResult::into_data) else { continue };
            let is_known = ended.is_some();
            match end {
                _ if is_known => {}
                JobEnd::Done => {
                    done_at.clone_from(path);
                    let state = JobState::Done { since: time(node.1.ctime) };
                    let result = Some(StoredJob::new(places, path.clone(), node.0));
                    ended = Some(JobInfo { result, ..JobInfo::ended(id, state) });
                }
                JobEnd::Failed => ended = failed(id, &node),
            }
        }
        let executing = next()?.and_then(ReadResult::into_children).unwrap_or_default();
        let delayed = next()?.and_then(ReadResult::into_children).unwrap_or_default();
        let Some(job) = next()?.and_then(ReadResult::into_data) else { return Ok(None) };
        let known = match ended {
            Some(ended) => Some(ended),
            None => under_way(places, id, &executing, &delayed).await?,
        };
        if let Some(mut info) = known {
            info.set_payload(places, job);
            return Ok(Some(info));
        }
        // The job has moved in between.
    }
    Ok(None)
}

/// Searches for a job that has not ended.
async fn under_way(
    places: &Places,
    id: &str,
    attempts: &[String],
    delayed: &[String],
) -> Result<Option<JobInfo>, Error> {
    for (phase, names) in [(JobPhase::Executing, attempts), (JobPhase::Delayed, delayed)] {
        let mut jobs = read(places, phase, names, false).await?.into_iter();
        if let Some(job) = jobs.find(|job| job.id == id) {
            return Ok(Some(job));
        }
    }
    let pending = listing::find_pending(places, id).await?;
    let meta = pending.as_deref().and_then(|name| NamingRules::Job.meta(name));
    Ok(meta.map(|meta| JobInfo::new(meta, JobState::Pending)))
}

/// Counts the jobs in each state.
pub(super) async fn count(places: &Places) -> Result<JobCounts, Error> {
    let reads = JobPhase::ALL.iter().fold(places.zk.multi_read(), |reads, phase| {
        reads.children(places.below(phase.directory()))
    });
    let mut counts = [0_usize; JobPhase::ALL.len()];
    let mut buckets = Vec::new();
    for (phase, read) in JobPhase::ALL.into_iter().zip(reads.await?) {
        let names = found(read)?.and_then(ReadResult::into_children).unwrap_or_default();
        let is_counted = |name: &&String| match phase {
            JobPhase::Pending => Bucket::parse(name).is_some(),
            JobPhase::Executing => is_uuid(name),
            JobPhase::Delayed => later::due(name).is_some(),
            JobPhase::Done | JobPhase::Failed => kept::is_bucket(name),
        };
        let counted = names.iter().filter(is_counted);
        if matches!(phase, JobPhase::Executing | JobPhase::Delayed) {
            counts[phase as usize] = counted.count();
        } else {
            buckets.extend(counted.map(|name| (phase, places.of(phase.directory(), name))));
        }
    }
    let pending = buckets.iter().filter(|(phase, _)| *phase == JobPhase::Pending).count();
    let reads = buckets.iter().fold(places.zk.multi_read(), |reads, (phase, path)| match phase {
        JobPhase::Pending if pending <= NAMED => reads.children(path),
        _ => reads.get_data(path),
    });
    for ((phase, _), read) in buckets.iter().zip(reads.await?) {
        counts[*phase as usize] += match found(read)? {
            Some(ReadResult::Children { names }) => {
                names.iter().filter(|name| NamingRules::Job.meta(name).is_some()).count()
            }
            read => read.and_then(ReadResult::into_data).map_or(0, |(_, stat)| children(&stat)),
        };
    }
    let [pending, executing, delayed, done, failed] = counts;
    Ok(JobCounts { pending, executing, delayed, done, failed })
}

fn children(stat: &Stat) -> usize {
    usize::try_from(stat.num_children).unwrap_or(0)
}

/// `None` for a node that does not exist.
fn found<T>(read: zk_curator::Result<T>) -> zk_curator::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        read => read.map(Some),
    }
}

/// A time in milliseconds since 1970.
fn time(millis: i64) -> SystemTime {
    let since = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
}
