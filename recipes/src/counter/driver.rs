//! The task of a counter: brings the operations of this process into as few writes as possible.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::internal::{Locked, Setbacks, sleep};
use zk_curator::op::CreateOp;
use zk_curator::{Error as ZkError, ErrorCode, ErrorKind};

use super::batch::OperationOutcome;
use super::error::Error;
use super::once::{self, OnceRecord, RECORDS_PER_SWEEP};
use super::queue::{OperationAnswer, OperationQueue, OperationRequest};
use super::settings::CounterSettings;
use super::site::{CounterNode, WriteConflicts, WriteFailure};
use crate::observe::{COUNTER_MERGED, COUNTER_UNKNOWN};

/// The time for which a faster process is assumed to be still writing.
const RIVALRY: Duration = Duration::from_secs(1);
/// Shorter round trips differ enough by themselves.
const LONG_FLIGHT: Duration = Duration::from_millis(1);
/// The bounds of the number of consecutive writes before a pause for other processes.
const SHORTEST_ROW: u32 = 4;
const LONGEST_ROW: u32 = 16;
/// The most operations in one write.
const MOST: usize = 10_000;
/// The most records in one write.
const MOST_RECORDS: usize = 100;

/// Operations that wait for one write.
#[derive(Debug)]
struct OperationBatch {
    settings: Arc<CounterSettings>,
    requests: Vec<OperationRequest>,
    /// The paths of their records.
    records: BTreeSet<String>,
    /// `true` if the parents of records were created for it.
    has_parents: bool,
    /// `true` if a write of them is under way.
    is_written: bool,
}

impl OperationBatch {
    const fn of(settings: Arc<CounterSettings>) -> Self {
        Self {
            settings,
            requests: Vec::new(),
            records: BTreeSet::new(),
            has_parents: false,
            is_written: false,
        }
    }

    /// Adds the operations that can share its write. Operations with one id cannot, nor very many
    /// with ids.
    fn fill(&mut self, queue: &OperationQueue) {
        let (room, records) = (MOST - self.requests.len(), &mut self.records);
        self.requests.extend(queue.take(room, |request| match &request.record {
            None => true,
            Some(record) => records.len() < MOST_RECORDS && records.insert(record.path.clone()),
        }));
    }

    /// Removes those whose callers have given up.
    fn retain_waiting(&mut self) {
        let records = &mut self.records;
        self.requests.retain(|request| {
            let waits = !request.is_abandoned();
            if let (false, Some(record)) = (waits, &request.record) {
                records.remove(&record.path);
            }
            waits
        });
    }

    fn remove(&mut self, at: usize) -> OperationRequest {
        let request = self.requests.remove(at);
        if let Some(record) = &request.record {
            self.records.remove(&record.path);
        }
        request
    }

    fn put(&mut self, at: usize, request: OperationRequest) {
        if let Some(record) = &request.record {
            self.records.insert(record.path.clone());
        }
        self.requests.insert(at, request);
    }

    /// Removes all of them, to return their results.
    fn take(&mut self) -> Vec<OperationRequest> {
        self.is_written = false;
        self.records.clear();
        std::mem::take(&mut self.requests)
    }

    /// Fails the operations that have a record.
    fn fail_recorded(&mut self, error: &Error) {
        self.records.clear();
        let (recorded, rest): (Vec<_>, _) = std::mem::take(&mut self.requests)
            .into_iter()
            .partition(|request| request.record.is_some());
        self.requests = rest;
        for request in recorded {
            request.fail(&self.settings.site.path, error.clone());
        }
    }

    /// The nodes that a write creates for its records, and the positions of the requests that they
    /// are of.
    fn recorded(&self, outcomes: &[OperationOutcome]) -> (Vec<CreateOp>, Vec<usize>) {
        let of = |(at, (request, outcome)): (usize, (&OperationRequest, &OperationOutcome))| match (
            &request.record,
            outcome,
        ) {
            (Some(record), OperationOutcome::Done(change)) => Some((record.create(*change), at)),
            _ => None,
        };
        self.requests.iter().zip(outcomes).enumerate().filter_map(of).unzip()
    }

    /// The parents of all records, in an order in which they can be created.
    fn parents(&self) -> Vec<String> {
        let records = self.requests.iter().filter_map(|request| request.record.as_ref());
        let paths: BTreeSet<_> = records.flat_map(OnceRecord::parents).collect();
        paths.into_iter().map(str::to_owned).collect()
    }
}

impl Drop for OperationBatch {
    /// The task has ended in the middle of a write, with its runtime or by a panic.
    fn drop(&mut self) {
        if !self.is_written {
            return;
        }
        let path = self.settings.site.path.clone();
        for request in self.take() {
            let why = ZkError::closed("counter", path.as_str());
            request.answer(Err(Error::Unknown { path: path.clone(), why }));
        }
    }
}

pub(super) struct CounterDriver {
    settings: Arc<CounterSettings>,
    queue: Arc<OperationQueue>,
    /// The node after our last write. Another client may have written it since.
    known: Option<CounterNode>,
    /// The records that were written since a bucket was cleaned.
    unswept: u32,
    /// Failures to clean buckets.
    uncleaned: Arc<Locked<Setbacks>>,
    /// When another process was faster last.
    rivals: Option<Instant>,
    /// The number of consecutive writes, and the number after which this process pauses.
    row: u32,
    longest_row: u32,
    /// The time of the response to the last write.
    wrote: Option<Instant>,
}

impl Drop for CounterDriver {
    fn drop(&mut self) {
        self.queue.unserved();
    }
}

/// The end of an attempt at a write.
enum WriteAttemptEnd {
    /// All have their results.
    Done,
    /// Again: there is something new.
    Again,
    /// Again, after a pause.
    Conflict { is_lock_lost: bool },
}

impl CounterDriver {
    pub(super) fn new(settings: Arc<CounterSettings>, queue: Arc<OperationQueue>) -> Self {
        Self {
            settings,
            queue,
            known: None,
            unswept: 0,
            uncleaned: Arc::default(),
            rivals: None,
            row: 0,
            longest_row: SHORTEST_ROW,
            wrote: None,
        }
    }

    /// Runs until the last handle is gone and every operation has its result.
    pub(super) async fn run(mut self) {
        while self.queue.ready().await {
            let mut batch = OperationBatch::of(Arc::clone(&self.settings));
            batch.fill(&self.queue);
            if let Err(error) = self.perform(&mut batch).await {
                for request in batch.take() {
                    request.fail(&self.settings.site.path, error.clone());
                }
            }
        }
    }

    /// Performs operations, and later ones that arrive before they are sent. On an error nothing
    /// was written for the remaining ones.
    async fn perform(&mut self, batch: &mut OperationBatch) -> Result<(), Error> {
        let mut conflicts = WriteConflicts::new();
        self.give_way().await;
        loop {
            // Without a connection, a read waits for it as the retry policy allows: callers who
            // give up do not begin that again, as they do with a write, which they withdraw.
            let is_connected = self.settings.site.zk.state().is_connected();
            let node = match self.known.take().filter(|_| is_connected) {
                Some(node) => node,
                None => self.settings.site.read(false).await?,
            };
            match self.attempt(batch, node, &conflicts).await? {
                WriteAttemptEnd::Done => return Ok(()),
                WriteAttemptEnd::Again => {}
                WriteAttemptEnd::Conflict { is_lock_lost } => {
                    self.rivals = Some(Instant::now());
                    (self.row, self.longest_row) = (0, SHORTEST_ROW);
                    conflicts.met(&self.settings.site, is_lock_lost).await?;
                }
            }
        }
    }

    /// Applies the operations to the known node, and writes the result. Nothing is awaited between
    /// the check for waiting callers and the write. Until the write is sent, a caller that gives up
    /// withdraws it.
    #[expect(clippy::too_many_lines, reason = "one attempt: fold, write, answer")]
    async fn attempt(
        &mut self,
        batch: &mut OperationBatch,
        node: CounterNode,
        conflicts: &WriteConflicts,
    ) -> Result<WriteAttemptEnd, Error> {
        let withdrawal = self.queue.withdrawal();
        batch.fill(&self.queue);
        batch.retain_waiting();
        if batch.requests.is_empty() {
            self.known = Some(node);
            return Ok(WriteAttemptEnd::Done);
        }
        let CounterSettings { site, rules, .. } = &*self.settings;
        let folded = rules.fold(
            rules.present(node.data()),
            batch.requests.iter().map(|request| request.operation),
        );
        let Some(value) = folded.write else {
            // Nothing proves the value but a read.
            let now = site.read(true).await?;
            let is_confirmed = node.is_still(&now);
            self.known = Some(now);
            if !is_confirmed {
                return Ok(WriteAttemptEnd::Again);
            }
            self.answer(batch, &node, folded.outcomes);
            return Ok(WriteAttemptEnd::Done);
        };
        let data = rules.encoding.encode(value).ok_or_else(|| {
            let why = "the number does not fit the encoding of the counter";
            ZkError::invalid_argument("counter", site.path.as_str(), why)
        })?;
        let (records, recorded) = batch.recorded(&folded.outcomes);
        let parents = if node == CounterNode::Absent { batch.parents() } else { Vec::new() };
        let first_record = parents.len();
        let companions = parents.into_iter().map(CreateOp::new).chain(records).collect();
        batch.is_written = true;
        let written =
            site.write(node.clone(), data, companions, conflicts.guard(), withdrawal).await;
        batch.is_written = false;
        match written {
            Ok(written) => {
                self.known = written;
                self.wrote = Some(Instant::now());
                self.sweep(batch, &recorded);
                self.answer(batch, &node, folded.outcomes);
                Ok(WriteAttemptEnd::Done)
            }
            Err(WriteFailure::Unknown(why)) => {
                self.unknown(batch, folded.outcomes, &why);
                Ok(WriteAttemptEnd::Done)
            }
            Err(WriteFailure::Withdrawn) => {
                self.known = Some(node);
                Ok(WriteAttemptEnd::Again)
            }
            Err(WriteFailure::Companion(index, code, error)) => {
                let record = index.checked_sub(first_record).and_then(|index| recorded.get(index));
                let is_new = match record {
                    Some(at) => {
                        self.known = Some(node);
                        self.refused(batch, *at, code, error).await
                    }
                    // A parent of records, which are created together with the node.
                    None => {
                        batch.fail_recorded(&error.of_operation("add_once").into());
                        true
                    }
                };
                Ok(if is_new {
                    WriteAttemptEnd::Again
                } else {
                    WriteAttemptEnd::Conflict { is_lock_lost: false }
                })
            }
            Err(WriteFailure::Other(error)) => Err(error),
            Err(WriteFailure::LockLost) => Ok(WriteAttemptEnd::Conflict { is_lock_lost: true }),
            Err(WriteFailure::Conflict) => Ok(WriteAttemptEnd::Conflict { is_lock_lost: false }),
        }
    }

    /// Pauses after some writes, so that other processes can write. The process that has written
    /// last knows the value, and writes again in one round trip. The other processes must read it
    /// first, and are always too late. So one process would write again and again, while the others
    /// wait. A pause of two round trips lets one of them read and write.
    async fn give_way(&mut self) {
        let site = &self.settings.site;
        let pause = site.flight() * 2;
        let is_in_a_row = self.wrote.is_some_and(|wrote| wrote.elapsed() < pause);
        if self.known.is_none() || !is_in_a_row || site.flight() < LONG_FLIGHT {
            self.row = 0;
            return;
        }
        let has_rivals =
            self.rivals.is_some_and(|met| met.elapsed() < RIVALRY) || site.has_others();
        self.row += 1;
        if has_rivals && self.row >= self.longest_row {
            self.row = 0;
            self.longest_row = (self.longest_row * 2).min(LONGEST_ROW);
            sleep(pause).await;
        }
    }

    /// The record of an operation could not be created: it exists already, or its parent does not
    /// exist. The failure does not affect the other operations. Returns whether the next attempt is
    /// another one.
    async fn refused(
        &self,
        batch: &mut OperationBatch,
        at: usize,
        code: ErrorCode,
        error: ZkError,
    ) -> bool {
        let CounterSettings { site, rules, .. } = &*self.settings;
        if code == ErrorCode::NoNode {
            let mut is_new = false;
            for path in batch.parents() {
                match site.zk.create(path).idempotent().await {
                    Ok(_) => is_new = true,
                    Err(error) if error.kind() == ErrorKind::NodeExists => {}
                    // The counter is gone, which the next write says.
                    Err(error) if error.kind() == ErrorKind::NoNode => return false,
                    Err(error) => {
                        batch.fail_recorded(&error.into());
                        return true;
                    }
                }
            }
            // Another client may delete them repeatedly.
            return is_new && !std::mem::replace(&mut batch.has_parents, true);
        }
        let request = batch.remove(at);
        let Some(record) = request.record.as_ref().filter(|_| code == ErrorCode::NodeExists) else {
            request.fail(&site.path, error.of_operation("add_once").into());
            return true;
        };
        let path = record.path.as_str();
        match site.zk.get_data(path).synced().await {
            Ok(data) => match once::decode(&data).filter(|change| change.is_within(*rules)) {
                Some(change) => request.answer(Ok(OperationAnswer::Before(change))),
                None => {
                    let error = Error::undecodable(path, &data);
                    request.fail(&site.path, error);
                }
            },
            // It has just been cleaned.
            Err(error) if error.kind() == ErrorKind::NoNode => {
                batch.put(at, request);
                return false;
            }
            // By the record, it was applied before.
            Err(why) => request.answer(Err(Error::Unknown { path: site.path.clone(), why })),
        }
        true
    }

    /// Cleans a bucket from time to time.
    fn sweep(&mut self, batch: &OperationBatch, recorded: &[usize]) {
        self.unswept =
            self.unswept.saturating_add(u32::try_from(recorded.len()).unwrap_or(u32::MAX));
        let last = recorded.last().and_then(|at| batch.requests.get(*at)?.record.clone());
        if let (RECORDS_PER_SWEEP.., Some(record)) = (self.unswept, last) {
            self.unswept = 0;
            let zk = &self.settings.site.zk;
            let uncleaned = Arc::clone(&self.uncleaned);
            zk.spawn(once::sweep(zk.clone(), record, self.settings.keep, uncleaned));
        }
    }

    /// The outcome of a write is unknown. Operations with a record are retried, because they cannot
    /// be applied twice. So are operations that did not contribute to the write. The other
    /// operations fail with `Unknown`.
    fn unknown(&self, batch: &mut OperationBatch, outcomes: Vec<OperationOutcome>, why: &ZkError) {
        let path = self.settings.site.path.as_str();
        for (mut request, outcome) in batch.take().into_iter().zip(outcomes) {
            match (outcome.is_written(), &request.record) {
                (true, None) => {
                    COUNTER_UNKNOWN.of(&self.settings.site.zk, []).add(1);
                    request.answer(Err(Error::Unknown { path: path.to_owned(), why: why.clone() }));
                }
                (is_written, _) => {
                    if is_written {
                        request.lost = Some(why.clone());
                    }
                    self.queue.put_back(request);
                }
            }
        }
    }

    /// Completes all operations; `node` is the node that their outcomes refer to.
    fn answer(
        &self,
        batch: &mut OperationBatch,
        node: &CounterNode,
        outcomes: Vec<OperationOutcome>,
    ) {
        // All operations of the batch beyond the first.
        let merged = outcomes.len().saturating_sub(1) as u64;
        COUNTER_MERGED.of(&self.settings.site.zk, []).add(merged);
        let path = || self.settings.site.path.clone();
        for (request, outcome) in batch.take().into_iter().zip(outcomes) {
            let answer = match outcome {
                OperationOutcome::Done(change) => Ok(OperationAnswer::Done(change)),
                OperationOutcome::Set(pre) => Ok(OperationAnswer::Set(pre)),
                OperationOutcome::Differs(value) => Ok(OperationAnswer::Differs(value)),
                OperationOutcome::Exists => Ok(OperationAnswer::Exists),
                OperationOutcome::Overflow { value, delta } => {
                    Err(Error::Overflow { path: path(), value, delta })
                }
                OperationOutcome::Missing => Err(Error::Missing { path: path() }),
                OperationOutcome::Foreign => {
                    Err(Error::undecodable(&path(), node.data().map_or(&[][..], |data| &data[..])))
                }
            };
            match answer {
                Ok(answer) => request.answer(Ok(answer)),
                Err(error) => request.fail(&self.settings.site.path, error),
            }
        }
    }
}
