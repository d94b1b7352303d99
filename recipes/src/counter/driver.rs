//! The task of a counter: brings the operations of this process into as few writes as possible.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};
use zk_curator::op::CreateOp;
use zk_curator::{Error as ZkError, ErrorCode, ErrorKind};

use super::batch::{Change, Operation, Outcome};
use super::error::Error;
use super::once::{self, RECORDS_PER_SWEEP, Record};
use super::settings::{Missing, Settings};
use super::site::{Conflicts, Failure, Node};
use crate::measure;
use crate::random::fraction;

/// For how long another process that was faster is taken for one that still writes.
const RIVALRY: Duration = Duration::from_secs(1);
/// Shorter flights differ enough by themselves.
const LONG_FLIGHT: Duration = Duration::from_millis(1);
/// The most operations in one write.
const MOST: usize = 10_000;
/// The most records in one write.
const MOST_RECORDS: usize = 100;

/// The answer to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Done(Change),
    /// It was done before.
    Before(Change),
    Differs(i64),
    Exists,
}

/// An operation of a caller who waits.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    /// Of an operation that is done once.
    pub(super) record: Option<Record>,
    /// Why it may have been applied by a write of an earlier session.
    lost: Option<ZkError>,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

impl Request {
    pub(super) fn new(
        operation: Operation,
        record: Option<Record>,
    ) -> (Self, oneshot::Receiver<Result<Answer, Error>>) {
        let (reply, answer) = oneshot::channel();
        (Self { operation, record, lost: None, reply }, answer)
    }

    /// Answers with an error; nothing was written since the last time that it may have been applied.
    fn fail(self, path: &str, error: &Error) {
        let error = match self.lost {
            Some(why) => Error::Unknown { path: path.to_owned(), why },
            None => error.clone(),
        };
        // A failure means that nobody waits any more.
        drop(self.reply.send(Err(error)));
    }
}

/// Operations that wait for one write.
#[derive(Debug, Default)]
struct Batch {
    requests: Vec<Request>,
    /// The paths of their records.
    records: BTreeSet<String>,
}

impl Batch {
    const fn has_room(&self) -> bool {
        self.requests.len() < MOST
    }

    /// Adds an operation; it is returned if it has to wait for the next write.
    fn add(&mut self, request: Request) -> Option<Request> {
        if let Some(record) = &request.record
            && (self.records.len() >= MOST_RECORDS || !self.records.insert(record.path.clone()))
        {
            return Some(request);
        }
        self.requests.push(request);
        None
    }

    /// Removes those whose callers do not wait any more; they were not sent.
    fn retain_waiting(&mut self) {
        let records = &mut self.records;
        self.requests.retain(|request| {
            let waits = !request.reply.is_closed();
            if let (false, Some(record)) = (waits, &request.record) {
                records.remove(&record.path);
            }
            waits
        });
    }

    fn remove(&mut self, at: usize) -> Request {
        let request = self.requests.remove(at);
        if let Some(record) = &request.record {
            self.records.remove(&record.path);
        }
        request
    }

    /// Removes those that have a record.
    fn take_recorded(&mut self) -> Vec<Request> {
        self.records.clear();
        let (recorded, rest) =
            std::mem::take(&mut self.requests).into_iter().partition(|request| request.record.is_some());
        self.requests = rest;
        recorded
    }

    /// The nodes that a write creates for its records, and the positions of the requests that they are of.
    fn recorded(&self, outcomes: &[Outcome]) -> (Vec<CreateOp>, Vec<usize>) {
        let of = |(at, (request, outcome)): (usize, (&Request, &Outcome))| match (&request.record, outcome) {
            (Some(record), Outcome::Done(change)) => Some((record.create(*change), at)),
            _ => None,
        };
        self.requests.iter().zip(outcomes).enumerate().filter_map(of).unzip()
    }

    /// The parents of all records, in an order in which they can be created.
    fn parents(&self) -> Vec<String> {
        let records = self.requests.iter().filter_map(|request| request.record.as_ref());
        let paths: BTreeSet<_> = records.flat_map(Record::parents).collect();
        paths.into_iter().map(str::to_owned).collect()
    }
}

pub(super) struct Driver {
    settings: Settings,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Those that have to wait for a later write.
    later: VecDeque<Request>,
    /// The node after our last write. Somebody else may have written it since.
    known: Option<Node>,
    /// The records that were written since a bucket was cleaned.
    unswept: u32,
    /// When another process was faster last.
    rivals: Option<Instant>,
}

impl Driver {
    pub(super) const fn new(settings: Settings, requests: mpsc::UnboundedReceiver<Request>) -> Self {
        Self { settings, requests, later: VecDeque::new(), known: None, unswept: 0, rivals: None }
    }

    /// Runs until the last handle is gone and everything is answered.
    pub(super) async fn run(mut self) {
        loop {
            let first = match self.later.pop_front() {
                Some(first) => first,
                None => match self.requests.recv().await {
                    Some(first) => first,
                    None => return,
                },
            };
            let mut batch = Batch::default();
            self.later.extend(batch.add(first));
            if let Err(error) = self.perform(&mut batch).await {
                self.fail(batch.requests, &error);
            }
        }
    }

    /// Performs operations, and those that come before they are sent. On an error nothing was written for those that are left.
    async fn perform(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let mut conflicts = Conflicts::new();
        self.give_way().await;
        loop {
            while let Some(more) = batch.has_room().then(|| self.requests.try_recv().ok()).flatten() {
                self.later.extend(batch.add(more));
            }
            batch.retain_waiting();
            if batch.requests.is_empty() {
                return Ok(());
            }
            let node = match self.known.take() {
                Some(node) => node,
                None => self.settings.site.read(false).await?,
            };
            let is_missing = node == Node::Absent && self.settings.missing == Missing::Fail;
            let decoded = self.decode(&node);
            if is_missing || decoded.is_err() {
                // An older state than the present one is no reason to fail.
                let now = self.settings.site.read(true).await?;
                if !node.is_still(&now) {
                    self.known = Some(now);
                    continue;
                }
            }
            if is_missing {
                self.fail_but_initialize(batch);
                if batch.requests.is_empty() {
                    return Ok(());
                }
            }
            let rules = self.settings.rules;
            let present = decoded?;
            let folded = rules.fold(present, batch.requests.iter().map(|request| request.operation));
            let Some(data) = folded.write.map(|value| self.encode(value)).transpose()? else {
                // Nothing proves the value but a read.
                let now = self.settings.site.read(true).await?;
                let is_confirmed = node.is_still(&now);
                self.known = Some(now);
                if is_confirmed {
                    self.answer(std::mem::take(batch), folded.outcomes);
                    return Ok(());
                }
                continue;
            };
            let (records, recorded) = batch.recorded(&folded.outcomes);
            let parents = if node == Node::Absent { batch.parents() } else { Vec::new() };
            let first_record = parents.len();
            let companions = parents.into_iter().map(CreateOp::new).chain(records).collect();
            let is_lock_lost =
                match self.settings.site.write(node.clone(), data, companions, conflicts.guard()).await {
                    Ok(node) => {
                        self.known = node;
                        self.sweep(batch, &recorded);
                        self.answer(std::mem::take(batch), folded.outcomes);
                        return Ok(());
                    }
                    Err(Failure::Unknown(why)) => {
                        self.unknown(std::mem::take(batch), folded.outcomes, &why);
                        return Ok(());
                    }
                    Err(Failure::Companion(index, code, error)) => {
                        if let Some(at) =
                            index.checked_sub(first_record).and_then(|index| recorded.get(index))
                        {
                            self.known = Some(node);
                            self.refused(batch, *at, code, error).await;
                        }
                        continue;
                    }
                    Err(Failure::Other(error)) => return Err(error),
                    Err(Failure::LockLost) => true,
                    Err(Failure::Conflict) => false,
                };
            self.rivals = Some(Instant::now());
            conflicts.met(&self.settings.site, is_lock_lost).await?;
        }
    }

    /// Who has written last knows the value, and writes again in one flight. Others read first: between their read and their write
    /// there is always one of ours, unless we give way.
    async fn give_way(&self) {
        let has_rivals = self.rivals.is_some_and(|met| met.elapsed() < RIVALRY);
        let site = &self.settings.site;
        if has_rivals && self.known.is_some() && site.flight() >= LONG_FLIGHT {
            sleep(site.flight().mul_f64(fraction(&site.zk))).await;
        }
    }

    fn decode(&self, node: &Node) -> Result<Option<Option<i64>>, Error> {
        let decode = |data: &Bytes| self.settings.rules.encoding.decode(&self.settings.site.path, data);
        node.data().map(decode).transpose()
    }

    fn encode(&self, value: i64) -> Result<Bytes, Error> {
        let why = "the number does not fit the encoding of the counter";
        let refused = || ZkError::invalid_argument("write", self.settings.site.path.as_str(), why).into();
        self.settings.rules.encoding.encode(value).ok_or_else(refused)
    }

    /// There is no node, and only some operations may create it.
    fn fail_but_initialize(&self, batch: &mut Batch) {
        let is_made = |request: &Request| matches!(request.operation, Operation::Initialize(_));
        let (first, rest) = std::mem::take(batch).requests.into_iter().partition(is_made);
        batch.requests = first;
        self.fail(rest, &Error::Missing { path: self.settings.site.path.clone() });
    }

    /// The record of an operation could not be created: it is there, or its parent is not. Others do not suffer from it.
    async fn refused(&self, batch: &mut Batch, at: usize, code: ErrorCode, error: ZkError) {
        let zk = &self.settings.site.zk;
        if code == ErrorCode::NoNode {
            for path in batch.parents() {
                match zk.create(path).idempotent().await {
                    // The counter is gone, which the next write says.
                    Err(error) if error.kind() == ErrorKind::NoNode => return,
                    Err(error) if error.kind() != ErrorKind::NodeExists => {
                        return self.fail(batch.take_recorded(), &error.into());
                    }
                    _ => {}
                }
            }
            return;
        }
        if code != ErrorCode::NodeExists {
            return self.fail(vec![batch.remove(at)], &error.into());
        }
        let Some(path) = batch.requests[at].record.as_ref().map(|record| record.path.clone()) else {
            return;
        };
        let answer = match zk.get_data(path.as_str()).synced().await {
            Ok(data) => {
                once::decode(&data).map(Answer::Before).ok_or_else(|| Error::undecodable(&path, &data))
            }
            // It has just been cleaned.
            Err(error) if error.kind() == ErrorKind::NoNode => return,
            Err(error) => return self.fail(vec![batch.remove(at)], &error.into()),
        };
        drop(batch.remove(at).reply.send(answer));
    }

    /// Cleans a bucket from time to time.
    fn sweep(&mut self, batch: &Batch, recorded: &[usize]) {
        self.unswept = self.unswept.saturating_add(u32::try_from(recorded.len()).unwrap_or(u32::MAX));
        let last = recorded.last().and_then(|at| batch.requests.get(*at)?.record.clone());
        if let (RECORDS_PER_SWEEP.., Some(record)) = (self.unswept, last) {
            self.unswept = 0;
            let zk = &self.settings.site.zk;
            zk.spawn(once::sweep(zk.clone(), record, self.settings.keep));
        }
    }

    /// The outcome of a write is unknown. Operations with a record are retried, since they cannot be applied twice; others that
    /// have changed the value are told so.
    fn unknown(&mut self, batch: Batch, outcomes: Vec<Outcome>, why: &ZkError) {
        let path = self.settings.site.path.as_str();
        for (mut request, outcome) in batch.requests.into_iter().zip(outcomes) {
            match (outcome, &request.record) {
                (Outcome::Done(_), Some(_)) => {
                    request.lost = Some(why.clone());
                    self.later.push_back(request);
                }
                (Outcome::Done(_), None) => {
                    measure::counter_unknown();
                    request.fail(path, &Error::Unknown { path: path.to_owned(), why: why.clone() });
                }
                _ => request.fail(path, &Error::Framework(why.clone())),
            }
        }
    }

    fn answer(&self, batch: Batch, outcomes: Vec<Outcome>) {
        measure::counter_merged(outcomes.len().saturating_sub(1));
        for (request, outcome) in batch.requests.into_iter().zip(outcomes) {
            let answer = match outcome {
                Outcome::Done(change) => Ok(Answer::Done(change)),
                Outcome::Differs(value) => Ok(Answer::Differs(value)),
                Outcome::Exists => Ok(Answer::Exists),
                Outcome::Overflow { value, delta } => {
                    Err(Error::Overflow { path: self.settings.site.path.clone(), value, delta })
                }
            };
            drop(request.reply.send(answer));
        }
    }

    /// Answers all with an error.
    fn fail(&self, requests: Vec<Request>, error: &Error) {
        for request in requests {
            request.fail(&self.settings.site.path, error);
        }
    }
}
