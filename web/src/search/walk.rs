//! The walk of a search, a step at a time. Dropping it ends the search.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use zk_curator::internal::CancellationToken;
use zk_curator::op::{ReadResult, fan_out};
use zk_curator::{CuratorFramework, Error, ErrorKind};

use super::pattern::{SearchCandidate, SearchComparison, SearchHit, SearchIn, SearchPattern};
use super::summary::{SearchEnd, SearchSummary};
use crate::paths::child_of;
use crate::security::Redaction;

/// The number of nodes that are listed in one request.
const LISTS: usize = 256;
/// The numbers of nodes whose data are read in one request: the first one, and the greatest.
const FIRST_READS: usize = 16;
const MOST_READS: usize = 256;
/// A request for more data follows a response that is smaller than this, in bytes.
const SMALL: u64 = 1 << 20;
/// The number of single reads in flight, for servers that cannot read many nodes at a time.
const IN_FLIGHT: usize = 16;
/// The bytes of the paths and lines of all results.
const HIT_BYTES: usize = 512 << 10;

/// The limits of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SearchLimits {
    /// The nodes that are found.
    pub(crate) nodes: usize,
    /// The bytes of the data that are read. The last response may exceed it.
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    pub(crate) hits: usize,
}

/// A search at a node and below it.
#[derive(Debug)]
pub(crate) struct SearchWalk {
    zk: CuratorFramework,
    redaction: Redaction,
    pattern: Arc<SearchPattern>,
    limits: SearchLimits,
    ends: Instant,
    /// The nodes whose children are not listed yet; the next one is the last.
    pending: Vec<String>,
    /// The nodes whose data are not read yet; the next one is the last.
    unread: Vec<String>,
    /// The number of nodes whose data the next request reads.
    reads: usize,
    /// The bytes of the results.
    hit_bytes: usize,
    is_over: bool,
    /// Cancelled when the walk is dropped, for a comparison that is running.
    stop: CancellationToken,
    summary: SearchSummary,
}

impl SearchWalk {
    /// Prepares a search. Nothing is sent before the first step.
    pub(crate) fn new(
        zk: CuratorFramework,
        redaction: Redaction,
        (part, pattern): (SearchIn, SearchPattern),
        root: &str,
        limits: SearchLimits,
    ) -> Self {
        Self {
            zk,
            redaction,
            pattern: Arc::new(pattern),
            limits,
            ends: Instant::now() + limits.time,
            pending: vec![root.to_owned()],
            unread: Vec::new(),
            reads: FIRST_READS,
            hit_bytes: 0,
            is_over: false,
            stop: CancellationToken::new(),
            summary: SearchSummary::new(part),
        }
    }

    /// Returns the extent of the search so far.
    pub(crate) const fn summary(&self) -> &SearchSummary {
        &self.summary
    }

    /// Returns the end of the time of the search.
    pub(crate) const fn ends(&self) -> Instant {
        self.ends
    }

    /// Returns `true` if nothing follows.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sends the next request, and returns its results, of which there may be none. `None` at the
    /// end.
    ///
    /// # Errors
    /// The error of the root, and errors of requests as a whole. [`failed`](Self::failed) ends the
    /// search then.
    ///
    /// # Cancel safety
    /// The walk has to be dropped as well.
    pub(crate) async fn step(&mut self) -> Result<Option<Vec<SearchHit>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let candidates = if !self.unread.is_empty() {
            self.read().await?
        } else if self.pending.is_empty() {
            let summary = &self.summary;
            let is_complete = summary.unlisted.total == 0 && summary.partly_listed.total == 0;
            self.end(if is_complete { SearchEnd::Complete } else { SearchEnd::Nodes });
            return Ok(None);
        } else {
            self.list().await?
        };
        let hits = self.compared(candidates.unwrap_or_default()).await;
        self.check_limits();
        Ok(Some(hits))
    }

    /// Ends the search because its time is over.
    pub(crate) fn late(&mut self) {
        self.end(SearchEnd::Time);
    }

    /// Ends the search because of a failure.
    pub(crate) fn failed(&mut self, why: &Error) {
        self.end(SearchEnd::Failed(why.to_string()));
    }

    /// Lists the children of some nodes, and returns the nodes to compare; `None` at the end of the
    /// time.
    async fn list(&mut self) -> Result<Option<Vec<SearchCandidate>>, Error> {
        let is_first = self.summary.nodes == 0;
        if is_first {
            self.summary.nodes = 1;
        }
        let from = self.pending.len().saturating_sub(LISTS);
        let mut batch = self.pending.split_off(from);
        batch.reverse();
        let lists = batch.iter().fold(self.zk.multi_read(), |lists, path| lists.children(path));
        let results = match timeout_at(self.ends, lists.into_future()).await {
            Ok(Ok(results)) => results,
            other => {
                batch.reverse();
                self.pending.append(&mut batch);
                return other.map_or(Ok(None), |result| result.map(|_| None));
            }
        };
        let (mut found, mut readable) = (Vec::new(), Vec::new());
        found.extend(batch.first().filter(|_| is_first).cloned());
        let from = found.len();
        for (path, result) in batch.into_iter().zip(results) {
            match result.map(ReadResult::into_children) {
                Ok(names) => self.add_children(&path, names.unwrap_or_default(), &mut found),
                Err(error) if is_first => return Err(error),
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    // It was deleted since it was found.
                    continue;
                }
                Err(error) => {
                    self.unreadable(&path, &error);
                    if error.kind() == ErrorKind::NoAuth {
                        continue;
                    }
                }
            }
            readable.push(path);
        }
        self.pending.extend(found[from..].iter().rev().cloned());
        if self.summary.part.needs_data() {
            readable.reverse();
            readable.retain(|path| !self.is_redacted(path));
            self.unread = readable;
            return Ok(Some(Vec::new()));
        }
        let candidate = |path| SearchCandidate { path, data: None };
        Ok(Some(found.into_iter().map(candidate).collect()))
    }

    /// Adds the children of a node, up to the limit of nodes.
    fn add_children(&mut self, parent: &str, mut names: Vec<String>, found: &mut Vec<String>) {
        let room = self.limits.nodes.saturating_sub(self.summary.nodes);
        names.sort_unstable();
        if names.len() > room {
            names.truncate(room);
            self.summary.partly_listed.add(parent);
        }
        self.summary.nodes += names.len();
        found.extend(names.iter().map(|name| child_of(parent, name)));
    }

    /// Reads the data of some nodes, in one response that the framework accepts; `None` at the end
    /// of the time.
    async fn read(&mut self) -> Result<Option<Vec<SearchCandidate>>, Error> {
        loop {
            let from = self.unread.len().saturating_sub(self.reads);
            let batch: Vec<_> = self.unread[from..].iter().rev().cloned().collect();
            let Ok(results) = timeout_at(self.ends, self.read_batch(&batch)).await else {
                return Ok(None);
            };
            let results = match results {
                Err(error) if is_too_large(&error) && batch.len() > 1 => {
                    self.reads = batch.len() / 2;
                    continue;
                }
                // One node alone is too large.
                Err(error) if is_too_large(&error) => vec![Err(error)],
                results => results?,
            };
            self.unread.truncate(from);
            return Ok(Some(self.take_data(batch, results)));
        }
    }

    async fn read_batch(&self, paths: &[String]) -> Result<Vec<Result<ReadResult, Error>>, Error> {
        let reads = paths.iter().fold(self.zk.multi_read(), |reads, path| reads.get_data(path));
        match reads.undecompressed().in_one_request().await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let single = |path: &String| self.zk.multi_read().get_data(path).undecompressed();
                let results = fan_out(IN_FLIGHT, paths.iter().map(single)).await;
                results
                    .into_iter()
                    .map(|result| result?.into_iter().next().ok_or_else(|| error.clone()))
                    .collect()
            }
            results => results,
        }
    }

    fn take_data(
        &mut self,
        batch: Vec<String>,
        results: Vec<Result<ReadResult, Error>>,
    ) -> Vec<SearchCandidate> {
        let (mut candidates, mut bytes) = (Vec::with_capacity(batch.len()), 0_u64);
        for (path, result) in batch.into_iter().zip(results) {
            match result.map(ReadResult::into_data) {
                Ok(data) => {
                    let data: Bytes = data.map(|(data, _)| data).unwrap_or_default();
                    bytes = bytes.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
                    candidates.push(SearchCandidate { path, data: Some(data) });
                }
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => self.unreadable(&path, &error),
            }
        }
        self.summary.bytes = self.summary.bytes.saturating_add(bytes);
        self.reads = match bytes {
            0..SMALL => (self.reads * 2).min(MOST_READS),
            _ => (self.reads / 2).max(1),
        };
        candidates
    }

    /// Compares nodes on a thread for such work, so that a slow comparison delays no other request.
    async fn compared(&mut self, candidates: Vec<SearchCandidate>) -> Vec<SearchHit> {
        if candidates.is_empty() {
            return Vec::new();
        }
        let paths: Vec<_> = candidates.iter().map(|candidate| candidate.path.clone()).collect();
        let most = self.limits.hits.saturating_sub(self.summary.hits);
        let (pattern, stop, ends) = (Arc::clone(&self.pattern), self.stop.clone(), self.ends);
        let goes_on = move || !stop.is_cancelled() && Instant::now() < ends;
        let task = tokio::task::spawn_blocking(move || pattern.compare(candidates, most, goes_on));
        let SearchComparison { hits, compared, cut } = match task.await {
            Ok(comparison) => comparison,
            Err(why) => {
                self.end(SearchEnd::Failed(why.to_string()));
                SearchComparison::default()
            }
        };
        self.summary.compared += compared;
        self.summary.hits += hits.len();
        cut.iter().for_each(|path| self.summary.cut.add(path));
        if compared < paths.len() {
            paths.iter().skip(compared).for_each(|path| self.summary.left.add(path));
            let is_full = self.summary.hits >= self.limits.hits;
            self.end(if is_full { SearchEnd::Hits } else { SearchEnd::Time });
        }
        let bytes = |hit: &SearchHit| hit.path.len() + hit.line.as_ref().map_or(0, String::len);
        self.hit_bytes += hits.iter().map(bytes).sum::<usize>();
        hits
    }

    fn check_limits(&mut self) {
        if self.summary.nodes >= self.limits.nodes {
            self.leave_below();
        }
        if self.pending.is_empty() && self.unread.is_empty() {
            return;
        }
        if Instant::now() >= self.ends {
            self.end(SearchEnd::Time);
        } else if self.summary.hits >= self.limits.hits || self.hit_bytes >= HIT_BYTES {
            self.end(SearchEnd::Hits);
        } else if self.summary.bytes >= self.limits.bytes {
            self.end(SearchEnd::Bytes);
        }
    }

    /// Lists no more children. The data of the nodes that were found are still compared.
    fn leave_below(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        pending.iter().rev().for_each(|path| self.summary.unlisted.add(path));
        if self.summary.part.needs_data() {
            let mut later: Vec<_> =
                pending.into_iter().filter(|path| !self.is_redacted(path)).collect();
            later.append(&mut self.unread);
            self.unread = later;
        }
    }

    /// Ends the search, and names the rest of the nodes. An earlier end stays.
    fn end(&mut self, end: SearchEnd) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        self.summary.end = end;
        self.leave_below();
        let unread = std::mem::take(&mut self.unread);
        unread.iter().rev().for_each(|path| self.summary.left.add(path));
    }

    /// Returns `true` if the data of a node are hidden, and counts it then.
    fn is_redacted(&mut self, path: &str) -> bool {
        let hides = self.redaction.hides(path);
        if hides {
            self.summary.redacted.add(path);
        }
        hides
    }

    fn unreadable(&mut self, path: &str, error: &Error) {
        let why = match error.kind() {
            ErrorKind::NoAuth => "no permission".to_owned(),
            ErrorKind::ResponseTooLarge => "too large".to_owned(),
            kind => kind.to_string(),
        };
        self.summary.unreadable.add(&format!("{path} ({why})"));
    }
}

impl Drop for SearchWalk {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn is_too_large(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ResponseTooLarge | ErrorKind::TooLarge)
}
