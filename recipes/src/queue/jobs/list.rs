//! Lists of jobs, a page at a time.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use super::inspect::{self, JobInfo};
use super::listing::{self, LISTINGS};
use super::phase::JobPhase;
use super::places::Places;
use crate::queue::error::Error;
use crate::queue::wire::layout::at_least_one;

/// The default number of jobs of a page.
const PAGE: u32 = 100;
/// The maximum number of jobs of a page.
const LARGEST: u32 = 1_000;

/// Jobs, and the position of the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobPage {
    /// The jobs. There may be fewer than requested, even none, although there is a next page.
    pub jobs: Vec<JobInfo>,
    /// The position of the next page, for [`JobList::after`]; `None` if there is none. It is opaque
    /// text, and stays valid even if the jobs change.
    pub next: Option<String>,
}

/// Lists jobs: see [`Jobs::list`](super::Jobs::list).
#[derive(Debug, Clone)]
#[must_use = "nothing is sent until it is awaited"]
pub struct JobList {
    places: Places,
    phases: Vec<JobPhase>,
    after: Option<String>,
    limit: u32,
    has_payload: bool,
}

impl JobList {
    pub(super) fn new(places: Places) -> Self {
        Self {
            places,
            phases: JobPhase::ALL.to_vec(),
            after: None,
            limit: PAGE,
            has_payload: false,
        }
    }

    /// Lists only jobs in these states. Default: in all states. An empty set lists no job.
    pub fn only(mut self, phases: impl IntoIterator<Item = JobPhase>) -> Self {
        self.phases = phases.into_iter().collect();
        self
    }

    /// Begins after an earlier page, at its [`next`](JobPage::next). The states must be those of
    /// that page. Default: at the beginning.
    pub fn after(mut self, position: impl Into<String>) -> Self {
        self.after = Some(position.into());
        self
    }

    /// Sets the maximum number of jobs of a page, from 1 to 1,000; larger values count as 1,000.
    /// Default: 100.
    pub const fn limit(mut self, jobs: u32) -> Self {
        self.limit = jobs;
        self
    }

    /// Reads the [payloads](JobInfo::payload) of the jobs, the times of their submission, and the
    /// [results](JobInfo::result) of those that are done. Default: they are not returned.
    ///
    /// Up to 16 of them are read at a time. A page of 1,000 jobs with 1 MB each is 1 GB in memory:
    /// choose the [limit](Self::limit) accordingly.
    pub const fn with_payload(mut self) -> Self {
        self.has_payload = true;
        self
    }

    /// Lists all jobs, page by page, without duplicates. If a job is seen twice because its state
    /// has changed, the later state is returned. The [limit](Self::limit) applies to each page.
    ///
    /// # Errors
    /// As for one page: see [`Jobs::list`](super::Jobs::list).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn all(mut self) -> Result<Vec<JobInfo>, Error> {
        let mut jobs = BTreeMap::new();
        loop {
            let page = self.clone().await?;
            jobs.extend(page.jobs.into_iter().map(|job| (job.id.clone(), job)));
            if page.next.is_none() {
                return Ok(jobs.into_values().collect());
            }
            self.after = page.next;
        }
    }

    async fn run(self) -> Result<JobPage, Error> {
        let places = &self.places;
        places.pending.check()?;
        let limit = at_least_one(&places.path, "limit", self.limit)?.min(LARGEST);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let invalid = || {
            zk_curator::Error::invalid_argument("list", &places.path, "not a position of a list")
        };
        let (first, mut from) = match &self.after {
            None => (JobPhase::ALL[0], ""),
            Some(position) => {
                let (phase, from) = position.split_once(' ').ok_or_else(invalid)?;
                (JobPhase::parse(phase).ok_or_else(invalid)?, from)
            }
        };
        let mut listings = LISTINGS;
        let mut jobs = Vec::new();
        for phase in
            JobPhase::ALL.into_iter().filter(|phase| *phase >= first && self.phases.contains(phase))
        {
            if phase != first {
                from = "";
            }
            let is_full = jobs.len() >= limit;
            if is_full || listings == 0 {
                return Ok(JobPage { jobs, next: Some(format!("{} ", phase.directory())) });
            }
            let listed =
                listing::list(places, phase, from, limit - jobs.len(), &mut listings).await?;
            let listed = listed.ok_or_else(invalid)?;
            jobs.extend(inspect::read(places, phase, &listed.names, self.has_payload).await?);
            if let Some(next) = listed.next {
                return Ok(JobPage { jobs, next: Some(format!("{} {next}", phase.directory())) });
            }
        }
        Ok(JobPage { jobs, next: None })
    }
}

impl IntoFuture for JobList {
    type Output = Result<JobPage, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
