//! The task of a counter: brings the operations of this process into as few writes as possible.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tracing::debug;
use zk_curator::op::{CreateOp, SetDataOp};
use zk_curator::{Error as ZkError, ErrorCode, ErrorKind, Version};

use super::batch::{Change, Operation, Outcome};
use super::error::Error;
use super::settings::{Missing, Settings};
use crate::lock::{self, InterProcessMutex, MutexGuard as LockGuard};
use crate::path::create_parents;
use crate::random::fraction;

/// The pauses after a write that another process was faster with.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// After so many conflicts in a row the pauses are halved.
const UNLUCKY: u32 = 3;
/// The most operations in one write.
const MOST: usize = 10_000;

/// The answer to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Done(Change),
    Differs(i64),
    Exists,
}

/// An operation of a caller who waits.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) reply: oneshot::Sender<Result<Answer, Error>>,
}

/// The node, as it was read or written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Absent,
    Present { czxid: Option<i64>, version: i32, value: Option<i64> },
}

impl Node {
    const fn value(self) -> Option<Option<i64>> {
        match self {
            Self::Absent => None,
            Self::Present { value, .. } => Some(value),
        }
    }

    /// Returns the node, created by this transaction if that is not known yet.
    const fn or_created_by(self, zxid: Option<i64>) -> Self {
        match self {
            Self::Present { czxid: None, version, value } => Self::Present { czxid: zxid, version, value },
            node => node,
        }
    }

    /// Whether nothing was written in between, as far as both tell.
    fn is_still(self, later: Self) -> bool {
        match (self, later) {
            (Self::Absent, Self::Absent) => true,
            (
                Self::Present { czxid: Some(before), version, .. },
                Self::Present { czxid: Some(now), version: version_now, .. },
            ) => before == now && version == version_now,
            _ => false,
        }
    }
}

/// Why a write was not applied, or may not have been.
enum Failure {
    /// Another process has written, created or deleted the node.
    Conflict,
    /// The lock is lost that the write depended on.
    LockLost,
    Unknown(ZkError),
    Other(Error),
}

pub(super) struct Driver {
    settings: Settings,
    requests: mpsc::UnboundedReceiver<Request>,
    /// The node after our last write. Somebody else may have written it since.
    known: Option<Node>,
    /// Whether the receipt was made before the first write.
    is_prepared: bool,
}

impl Driver {
    pub(super) const fn new(settings: Settings, requests: mpsc::UnboundedReceiver<Request>) -> Self {
        Self { settings, requests, known: None, is_prepared: false }
    }

    /// Runs until the last handle is gone and everything is answered.
    pub(super) async fn run(mut self) {
        while let Some(first) = self.requests.recv().await {
            self.perform(vec![first]).await;
        }
    }

    /// Performs operations, and those that come before they are sent.
    async fn perform(&mut self, mut batch: Vec<Request>) {
        let (mut conflicts, mut pause) = (0, FIRST_PAUSE);
        let mut guard: Option<LockGuard> = None;
        loop {
            while let Some(more) = (batch.len() < MOST).then(|| self.requests.try_recv().ok()).flatten() {
                batch.push(more);
            }
            // Of callers who do not wait any more, what was not sent is not done.
            batch.retain(|request| !request.reply.is_closed());
            if batch.is_empty() {
                break;
            }
            let node = match self.known.take() {
                Some(node) => node,
                None => match self.read(false).await {
                    Ok(node) => node,
                    Err(error) => return fail(batch, &error),
                },
            };
            if node == Node::Absent && self.settings.missing == Missing::Fail {
                let is_made = |request: &Request| matches!(request.operation, Operation::Initialize(_));
                let path = || self.settings.path.clone();
                let (first, rest): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_made);
                fail(rest, &Error::Missing { path: path() });
                if first.is_empty() {
                    break;
                }
                batch = first;
            }
            let folded =
                self.settings.rules.fold(node.value(), batch.iter().map(|request| request.operation));
            let Some(write) = folded.write else {
                // Nothing proves the value but a read.
                match self.read(true).await {
                    Ok(now) if node.is_still(now) => {
                        self.known = Some(now);
                        self.answer(batch, folded.outcomes);
                        break;
                    }
                    Ok(now) => self.known = Some(now),
                    Err(error) => return fail(batch, &error),
                }
                continue;
            };
            match self.write(node, write, guard.as_ref()).await {
                Ok(node) => {
                    // A node that cannot be told from another one is read again.
                    self.known = Some(node).filter(|node| !matches!(node, Node::Present { czxid: None, .. }));
                    self.answer(batch, folded.outcomes);
                    break;
                }
                Err(Failure::Unknown(why)) => return self.unknown(batch, folded.outcomes, &why),
                Err(Failure::Other(error)) => return fail(batch, &error),
                Err(Failure::LockLost) => guard = None,
                Err(Failure::Conflict) => {}
            }
            conflicts += 1;
            if conflicts >= self.settings.optimistic_tries && guard.is_none() {
                match self.lock(conflicts).await {
                    Ok(lock) => guard = Some(lock),
                    Err(error) => return fail(batch, &error),
                }
                continue;
            }
            let halved = if conflicts >= UNLUCKY { pause / 2 } else { pause };
            sleep(halved).await;
            let (least, most) = (FIRST_PAUSE, (pause * 3).min(LONGEST_PAUSE));
            pause = least + most.saturating_sub(least).mul_f64(fraction(&self.settings.zk));
        }
    }

    /// Reads the node; `confirmed` is behind a quorum.
    async fn read(&mut self, confirmed: bool) -> Result<Node, Error> {
        let Settings { zk, path, rules, receipt, .. } = &self.settings;
        let read = zk.get_data(path.as_str());
        let read = if confirmed { read.linearizable() } else { read.synced() }.with_stat().into_future();
        let read = match receipt.as_ref().filter(|_| !self.is_prepared) {
            // In the same flight: a receipt that is there before the first write cannot be deleted unnoticed.
            Some(receipt) => {
                let (read, prepared) =
                    futures_util::future::join(read, zk.transaction().certain(receipt).into_future()).await;
                // Without the node there is no place for it, and the first write makes both.
                self.is_prepared = prepared.is_ok();
                read
            }
            None => read.await,
        };
        match read {
            Ok((data, stat)) => Ok(Node::Present {
                czxid: Some(stat.czxid),
                version: stat.version,
                value: rules.encoding.decode(path, &data)?,
            }),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(Node::Absent),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a value if the node is as it is known: the node after that.
    async fn write(&self, node: Node, value: i64, guard: Option<&LockGuard>) -> Result<Node, Failure> {
        let Settings { zk, path, rules, receipt, .. } = &self.settings;
        let Some(data) = rules.encoding.encode(value) else {
            let why = "the number does not fit the encoding of the counter";
            return Err(Failure::Other(ZkError::invalid_argument("write", path.as_str(), why).into()));
        };
        let (after, transaction) = {
            let transaction = guard.map_or_else(|| zk.transaction(), LockGuard::fenced).uncompressed();
            match node {
                Node::Absent => {
                    let after = Node::Present { czxid: None, version: 0, value: Some(value) };
                    (after, transaction.with(CreateOp::new(path.as_str()).data(data)))
                }
                Node::Present { czxid, version, .. } => {
                    let write = SetDataOp::new(path.as_str(), data).version(Version::Exactly(version));
                    let after = Node::Present { czxid, version: version.wrapping_add(1), value: Some(value) };
                    (after, transaction.with(write))
                }
            }
        };
        let written = match receipt {
            Some(receipt) => transaction.certain(receipt).await.map(|applied| Some(applied.zxid())),
            // Servers before 3.9 do not tell the stat of a node that is created in a transaction.
            None => transaction.commit().await.map(|results| results.first()?.stat().map(|stat| stat.czxid)),
        };
        let error = match written {
            Ok(created) => return Ok(after.or_created_by(created)),
            Err(error) => error,
        };
        debug!(path, %error, "not written");
        if error.may_have_applied() {
            return match receipt {
                Some(_) => Err(Failure::Unknown(error)),
                None => self.look(node, error).await,
            };
        }
        match error.kind() {
            ErrorKind::OwnershipLost => Err(Failure::LockLost),
            ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NoNode } if node == Node::Absent => {
                create_parents(zk, path).await.map_err(|error| Failure::Other(error.into()))?;
                Err(Failure::Conflict)
            }
            ErrorKind::TransactionFailed {
                index: 0,
                code: ErrorCode::BadVersion | ErrorCode::NoNode | ErrorCode::NodeExists,
            } => Err(Failure::Conflict),
            // The node is gone, and its receipt with it, or has never had one.
            ErrorKind::NoNode => Err(Failure::Conflict),
            ErrorKind::NoAuth | ErrorKind::NoChildrenForEphemerals
                if receipt.as_ref().is_some_and(|receipt| is_below(error.path(), receipt.parent())) =>
            {
                let parent = receipt.as_ref().map_or_else(String::new, |receipt| receipt.parent().to_owned());
                Err(Failure::Other(Error::ReceiptDenied { parent, why: error }))
            }
            _ => Err(Failure::Other(error.into())),
        }
    }

    /// Without a receipt: whether a write whose answer was lost was not applied. That it was, nothing proves.
    async fn look(&self, node: Node, lost: ZkError) -> Result<Node, Failure> {
        let Settings { zk, path, .. } = &self.settings;
        match (node, zk.exists(path.as_str()).linearizable().await) {
            (Node::Absent, Ok(None)) => Err(Failure::Conflict),
            (Node::Present { czxid, version, .. }, Ok(Some(stat)))
                if stat.version == version && czxid == Some(stat.czxid) =>
            {
                Err(Failure::Conflict)
            }
            _ => Err(Failure::Unknown(lost)),
        }
    }

    /// Acquires the lock, if there is one, after so many tries.
    async fn lock(&self, tries: u32) -> Result<LockGuard, Error> {
        let Settings { zk, path, lock, .. } = &self.settings;
        let path = || path.clone();
        let Some(lock) = lock else { return Err(Error::Contended { path: path(), tries }) };
        let acquire = InterProcessMutex::new(zk, lock.path.as_str());
        match timeout(lock.timeout, acquire.acquire()).await {
            Ok(Ok(guard)) => Ok(guard),
            Ok(Err(lock::Error::Framework(error))) => Err(error.into()),
            Ok(Err(_)) => Err(Error::Contended { path: path(), tries }),
            Err(_) => Err(Error::LockTimeout { path: path() }),
        }
    }

    /// Nobody knows whether the write was applied: those who have changed the value are told so, the others can try again.
    fn unknown(&self, batch: Vec<Request>, outcomes: Vec<Outcome>, why: &ZkError) {
        for (request, outcome) in batch.into_iter().zip(outcomes) {
            let error = match outcome {
                Outcome::Done(_) => Error::Unknown { path: self.settings.path.clone(), why: why.clone() },
                _ => Error::Framework(why.clone()),
            };
            drop(request.reply.send(Err(error)));
        }
    }

    fn answer(&self, batch: Vec<Request>, outcomes: Vec<Outcome>) {
        for (request, outcome) in batch.into_iter().zip(outcomes) {
            let answer = match outcome {
                Outcome::Done(change) => Ok(Answer::Done(change)),
                Outcome::Differs(value) => Ok(Answer::Differs(value)),
                Outcome::Exists => Ok(Answer::Exists),
                Outcome::Overflow { value, delta } => {
                    Err(Error::Overflow { path: self.settings.path.clone(), value, delta })
                }
            };
            // A failure means that nobody waits any more.
            drop(request.reply.send(answer));
        }
    }
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}

/// Answers all with an error; nothing was written.
fn fail(batch: Vec<Request>, error: &Error) {
    for request in batch {
        drop(request.reply.send(Err(error.clone())));
    }
}
