//! The names of the jobs in a state, a page at a time.

use zk_curator::certain::is_receipt;
use zk_curator::{CuratorFramework, ErrorKind};

use super::kept;
use super::later;
use super::phase::JobPhase;
use super::places::Places;
use crate::queue::wire::name::{Bucket, NamingRules, apart};

/// The maximum number of requests for listings of buckets for a page.
pub(super) const LISTINGS: u32 = 20;
/// The maximum number of buckets of ended jobs that one request lists: with a million jobs, 64
/// buckets are 64,000 names.
const WIDEST: usize = 64;
/// The maximum number of buckets of pending jobs that one request lists, each of which may be 0.3
/// MB.
const WIDEST_PENDING: usize = 8;
/// The number of requests for listings after which a search checks the names.
const SEARCHED: u32 = 5;

/// The order of names: the order of claims, or the alphabetical order.
type JobKey = (i64, u32, String);

/// The names of a page, each with the name of its bucket.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) names: Vec<String>,
    /// The position at which the next page of this state begins; `None` if there is none.
    pub(super) next: Option<String>,
}

/// Returns the names of children; none if the node does not exist.
pub(super) async fn children(
    zk: &CuratorFramework,
    path: String,
) -> zk_curator::Result<Vec<String>> {
    match zk.children(path).await {
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
        names => names,
    }
}

/// Returns the position of a bucket; `None` for another node.
fn bucket_key(phase: JobPhase, name: &str) -> Option<JobKey> {
    match phase {
        JobPhase::Pending => Bucket::parse(name).map(|bucket| {
            let (rank, number) = bucket.position();
            (i64::from(rank), number, String::new())
        }),
        JobPhase::Done | JobPhase::Failed => kept::is_bucket(name).then(|| (0, 0, name.to_owned())),
        JobPhase::Executing | JobPhase::Delayed => None,
    }
}

/// Returns the position of a job within its bucket, or in a directory without buckets; `None` for a
/// node that is not a job.
fn job_key(phase: JobPhase, name: &str) -> Option<JobKey> {
    let is_job = match phase {
        JobPhase::Pending => {
            return NamingRules::Job
                .place(name)
                .map(|place| (place.rank, place.sequence(), String::new()));
        }
        JobPhase::Delayed => later::due(name).is_some(),
        JobPhase::Executing => true,
        JobPhase::Done | JobPhase::Failed => kept::is_bucket(name) && name.contains('/'),
    };
    let name = apart(name).1;
    (is_job && !name.is_empty() && !is_receipt(name)).then(|| (0, 0, name.to_owned()))
}

/// Lists up to `limit` jobs from a position on. The position is empty for the first page, and
/// otherwise comes from an earlier page.
///
/// Returns `None` if the position is invalid. `listings` is the number of requests for listings of
/// buckets that the page may still send.
pub(super) async fn list(
    places: &Places,
    phase: JobPhase,
    from: &str,
    limit: usize,
    listings: &mut u32,
) -> zk_curator::Result<Option<Names>> {
    let (in_bucket, name) = apart(from);
    let in_bucket = in_bucket.trim_end_matches('/');
    let first_bucket = if in_bucket.is_empty() { None } else { bucket_key(phase, in_bucket) };
    let after = if name.is_empty() { None } else { job_key(phase, from) };
    if first_bucket.is_none() != in_bucket.is_empty() || after.is_none() != name.is_empty() {
        return Ok(None);
    }
    let children = children(&places.zk, places.below(phase.directory())).await?;
    let mut found = Names::default();
    let mut buckets = Vec::new();
    let mut others = Vec::new();
    for name in children {
        match bucket_key(phase, &name) {
            Some(key) => buckets.push((key, name)),
            None => others.push(name),
        }
    }
    if first_bucket.is_none() {
        found.names = sorted(phase, others, after.as_ref());
    }
    buckets.retain(|(key, _)| first_bucket.as_ref().is_none_or(|first| key >= first));
    buckets.sort_unstable();
    let mut rest = buckets.as_slice();
    let mut width = 1;
    let widest = if phase == JobPhase::Pending { WIDEST_PENDING } else { WIDEST };
    // One more job than requested shows whether there is another page.
    while found.names.len() <= limit && !rest.is_empty() && *listings > 0 {
        *listings -= 1;
        let (now, later) = rest.split_at(width.min(rest.len()));
        (rest, width) = (later, (width * 4).min(widest));
        let paths = now.iter().map(|(_, bucket)| places.of(phase.directory(), bucket));
        for ((key, bucket), names) in now.iter().zip(places.zk.children_of_each(paths).await?) {
            let names =
                names.unwrap_or_default().into_iter().map(|name| format!("{bucket}/{name}"));
            let is_first = first_bucket.as_ref() == Some(key);
            found.names.extend(sorted(phase, names.collect(), after.as_ref().filter(|_| is_first)));
        }
    }
    if found.names.len() > limit {
        found.names.truncate(limit);
        found.next = found.names.last().cloned().or_else(|| Some(from.to_owned()));
    } else if let Some((_, bucket)) = rest.first() {
        found.next = Some(format!("{bucket}/"));
    }
    Ok(Some(found))
}

/// Returns the names of jobs behind a position, in their order.
fn sorted(phase: JobPhase, names: Vec<String>, after: Option<&JobKey>) -> Vec<String> {
    let keyed = names.into_iter().filter_map(|name| Some((job_key(phase, &name)?, name)));
    let mut keyed: Vec<_> =
        keyed.filter(|(key, _)| after.is_none_or(|after| key > after)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, name)| name).collect()
}

/// Searches for a pending job, and returns its name with the name of its bucket. Lists all buckets
/// until it is found.
pub(super) async fn find_pending(places: &Places, id: &str) -> zk_curator::Result<Option<String>> {
    let is_it = |name: &String| NamingRules::Job.meta(name).is_some_and(|meta| meta.id == id);
    let mut from = String::new();
    loop {
        let (phase, mut listings) = (JobPhase::Pending, SEARCHED);
        // All listed names are checked, so there is no limit.
        let page = list(places, phase, &from, usize::MAX, &mut listings).await?.unwrap_or_default();
        if let Some(name) = page.names.into_iter().find(is_it) {
            return Ok(Some(name));
        }
        match page.next {
            Some(next) => from = next,
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_jobs_are_in_the_order_of_claims() {
        let names = [
            "job-100000000|b|0|0000000010",
            "job-100000000|a|1|0000000009",
            "job-0FFFFFFFF|c|0|0000000011",
        ]
        .map(|name| format!("b-{}|0000000001/{name}", &name[4..13]));
        let sorted = |after: Option<&str>| {
            let after = after.and_then(|after| job_key(JobPhase::Pending, after));
            let names = names.iter().cloned().chain(["notes".to_owned()]);
            sorted(JobPhase::Pending, names.collect(), after.as_ref())
        };
        assert_eq!(sorted(None), [&*names[2], &names[1], &names[0]]);
        assert_eq!(sorted(Some(&names[1])), [&*names[0]]);
        assert!(sorted(Some(&names[0])).is_empty());
    }

    #[test]
    fn foreign_nodes_are_no_jobs() {
        let receipt = "_r_5e0a7c8e-0000-4000-8000-000000000001";
        for phase in JobPhase::ALL {
            assert_eq!(job_key(phase, receipt), None, "{phase:?}");
        }
        assert_eq!(job_key(JobPhase::Delayed, "notes"), None);
        assert_eq!(job_key(JobPhase::Done, "b|120"), None);
        assert_eq!(job_key(JobPhase::Done, "a"), None);
        assert_eq!(job_key(JobPhase::Done, "b|120/a").unwrap().2, "a");
    }
}
