use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{Stream, unfold};
use tokio::sync::mpsc;
use zk_curator::watch::DataWatch;
use zk_curator::{CuratorFramework, Error as ZkError, ErrorKind};

use super::batch::{Change as RawChange, Operation, Rules};
use super::driver::{Answer, Driver, Request};
use super::encoding::Encoding;
use super::error::Error;
use super::once::Record;
use super::settings::Settings;

/// The types of numbers.
pub trait Number: Copy + Into<i64> + TryFrom<i64> + Send + Sync + 'static + sealed::Sealed {
    /// The format of Curator.
    const ENCODING: Encoding;
}

mod sealed {
    #[expect(unnameable_types, reason = "nobody else is to implement numbers")]
    pub trait Sealed {}

    impl Sealed for i64 {}
    impl Sealed for i32 {}
}

impl Number for i64 {
    const ENCODING: Encoding = Encoding::I64Be;
}

impl Number for i32 {
    const ENCODING: Encoding = Encoding::I32Be;
}

/// A number in a node that many processes change: see the [module](super). Cheap to clone; the operations of all clones share
/// writes.
pub struct Counter<N> {
    shared: Arc<Shared>,
    number: PhantomData<fn() -> N>,
}

/// A counter of 64 bits (`DistributedAtomicLong`).
pub type DistributedAtomicLong = Counter<i64>;

/// A counter of 32 bits (`DistributedAtomicInteger`).
pub type DistributedAtomicInteger = Counter<i32>;

struct Shared {
    zk: CuratorFramework,
    path: String,
    rules: Rules,
    task: Mutex<Task>,
}

/// The task begins with the first operation.
enum Task {
    Latent(Box<Settings>),
    Running(mpsc::UnboundedSender<Request>),
}

/// The value before an operation, and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change<N> {
    /// The value before.
    pub pre: N,
    /// The value after.
    pub post: N,
}

/// The outcome of an operation that is done once for an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third outcome")]
pub enum Once<C> {
    /// It was applied now.
    Applied(C),
    /// It was applied before, with this outcome, and nothing was changed.
    Before(C),
}

impl<C> Once<C> {
    /// The outcome, whenever it was applied.
    pub fn into_inner(self) -> C {
        match self {
            Self::Applied(outcome) | Self::Before(outcome) => outcome,
        }
    }
}

impl<N: Number> Counter<N> {
    pub(super) fn new(settings: Settings) -> Self {
        let (zk, path, rules) = (settings.site.zk.clone(), settings.site.path.clone(), settings.rules);
        let task = Mutex::new(Task::Latent(Box::new(settings)));
        Self { shared: Arc::new(Shared { zk, path, rules, task }), number: PhantomData }
    }

    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.shared.path
    }

    pub(super) fn framework(&self) -> &CuratorFramework {
        &self.shared.zk
    }

    /// Returns the value: every operation that was answered before, to any client, is in it. It costs the ensemble as much as a
    /// write: see [`linearizable`](zk_curator::op::GetDataBuilder::linearizable).
    ///
    /// # Errors
    /// [`Error::Undecodable`], [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get(&self) -> Result<N, Error> {
        self.decode(self.shared.zk.get_data(self.path()).linearizable().await)
    }

    /// Returns the value as the connected server knows it, which may lag.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get_relaxed(&self) -> Result<N, Error> {
        self.decode(self.shared.zk.get_data(self.path()).await)
    }

    fn decode(&self, read: Result<bytes::Bytes, ZkError>) -> Result<N, Error> {
        let value = match read {
            Ok(data) => self.shared.rules.encoding.decode(self.path(), &data)?,
            Err(error) if error.kind() == ErrorKind::NoNode => None,
            Err(error) => return Err(error.into()),
        };
        self.narrow(value.unwrap_or(self.shared.rules.initial))
    }

    /// Adds a number, which may be negative; returns the value before and after. It is added once, or not at all.
    ///
    /// Operations that are called while a write is under way share the next one.
    ///
    /// # Errors
    /// * [`Error::Overflow`]; the others of the batch are applied.
    /// * [`Error::Unknown`] only if the session ended before the outcome could be learned, or somebody has deleted the receipt.
    /// * [`Error::Contended`], [`Error::LockTimeout`], [`Error::Undecodable`], [`Error::Missing`], [`Error::ReceiptDenied`].
    /// * [`Error::Framework`]: not applied.
    ///
    /// # Cancel safety
    /// An operation that was not sent is not applied. One that was sent may be.
    pub async fn add(&self, delta: N) -> Result<Change<N>, Error> {
        self.change(self.applied(Operation::Add(delta.into())).await?)
    }

    /// Adds a number, once for an id: a call with an id that was used before changes nothing, in whatever process or session it
    /// is. For callers who repeat a call without knowing how the first one has ended.
    ///
    /// The transaction also creates a node with the name of the id: see the [layout](super). It is kept for
    /// [a time](super::AtomicBuilder::keep_records).
    ///
    /// # Errors
    /// * As [`add`](Self::add). [`Error::Unknown`] only if no later session could repeat it: with the retry policy of the framework,
    ///   it does so by itself, and may then answer [`Once::Before`] of its own first try.
    /// * `InvalidArgument`, `InvalidPath` if the id is not the name of a node, or longer than 1,024 bytes.
    ///
    /// # Cancel safety
    /// It may be applied; calling it again with the same id applies it at most once.
    pub async fn add_once(&self, id: &str, delta: N) -> Result<Once<Change<N>>, Error> {
        match self.once(id, Operation::Add(delta.into())).await? {
            Once::Applied(change) => self.change(change).map(Once::Applied),
            Once::Before(change) => self.change(change).map(Once::Before),
        }
    }

    /// Subtracts a number: as [`add`](Self::add).
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn subtract(&self, delta: N) -> Result<Change<N>, Error> {
        let delta: i64 = delta.into();
        let Some(negative) = delta.checked_neg() else {
            return Err(Error::Overflow { path: self.path().to_owned(), value: 0, delta });
        };
        self.change(self.applied(Operation::Add(negative)).await?)
    }

    /// Adds one; returns the value after.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn increment(&self) -> Result<N, Error> {
        self.narrow(self.applied(Operation::Add(1)).await?.post)
    }

    /// Subtracts one; returns the value after.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn decrement(&self) -> Result<N, Error> {
        self.narrow(self.applied(Operation::Add(-1)).await?.post)
    }

    /// Replaces the value, whatever it is; returns the value before and after.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    #[doc(alias = "forceSet")]
    #[doc(alias = "trySet")]
    pub async fn set(&self, new: N) -> Result<Change<N>, Error> {
        self.change(self.applied(Operation::Set(new.into())).await?)
    }

    /// Replaces the value if it is the expected one. A counter without a node has its initial value, and is created.
    ///
    /// **The inner result** is the change, or the value that differs from the expected one.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn compare_and_set(&self, expected: N, new: N) -> Result<Result<Change<N>, N>, Error> {
        let operation = Operation::CompareAndSet { expected: expected.into(), new: new.into() };
        match self.perform(operation, None).await? {
            Answer::Done(change) => self.change(change).map(Ok),
            Answer::Differs(value) => self.narrow(value).map(Err),
            _ => Err(self.unexpected()),
        }
    }

    /// Creates the node with a value; not `true` if there is one.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn initialize(&self, value: N) -> Result<bool, Error> {
        Ok(matches!(self.perform(Operation::Initialize(value.into()), None).await?, Answer::Done(_)))
    }

    /// Follows the value: the present one first, then every last one that differs.
    pub fn follow(&self) -> CounterWatch<N> {
        let watch = self.shared.zk.watch_data(self.path());
        CounterWatch { watch, counter: self.clone(), told: None }
    }

    /// Performs an operation that is never refused.
    pub(super) async fn applied(&self, operation: Operation) -> Result<RawChange, Error> {
        match self.perform(operation, None).await? {
            Answer::Done(change) => Ok(change),
            _ => Err(self.unexpected()),
        }
    }

    /// Performs an operation that is never refused, once for an id.
    pub(super) async fn once(&self, id: &str, operation: Operation) -> Result<Once<RawChange>, Error> {
        let record = Record::new(&self.shared.zk, self.path(), id)?;
        match self.perform(operation, Some(record)).await? {
            Answer::Done(change) => Ok(Once::Applied(change)),
            Answer::Before(change) => Ok(Once::Before(change)),
            _ => Err(self.unexpected()),
        }
    }

    async fn perform(&self, operation: Operation, record: Option<Record>) -> Result<Answer, Error> {
        if let Operation::Set(new) | Operation::CompareAndSet { new, .. } | Operation::Initialize(new) =
            operation
        {
            let (least, greatest) = self.shared.rules.encoding.range();
            if !(least..=greatest).contains(&new) {
                let why = "the number does not fit the encoding of the counter";
                return Err(ZkError::invalid_argument("counter", self.path(), why).into());
            }
        }
        let (request, answer) = Request::new(operation, record);
        // A failure means that the task has ended, with its runtime; as that of the answer does.
        drop(self.requests().send(request));
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(ZkError::closed("counter", self.path()).into()),
        }
    }

    fn requests(&self) -> mpsc::UnboundedSender<Request> {
        let mut task = self.shared.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Task::Running(sender) = &*task {
            return sender.clone();
        }
        let (sender, requests) = mpsc::unbounded_channel();
        if let Task::Latent(settings) = std::mem::replace(&mut *task, Task::Running(sender.clone())) {
            self.shared.zk.spawn(Driver::new(*settings, requests).run());
        }
        sender
    }

    fn change(&self, RawChange { pre, post }: RawChange) -> Result<Change<N>, Error> {
        Ok(Change { pre: self.narrow(pre)?, post: self.narrow(post)? })
    }

    fn narrow(&self, value: i64) -> Result<N, Error> {
        let why = "the number of the node does not fit the type of the counter";
        N::try_from(value).map_err(|_| ZkError::invalid_argument("counter", self.path(), why).into())
    }

    fn unexpected(&self) -> Error {
        ZkError::invalid_argument("counter", self.path(), "an answer to another operation").into()
    }
}

impl<N> Clone for Counter<N> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), number: PhantomData }
    }
}

impl<N> fmt::Debug for Counter<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

/// Follows the value of a [`Counter`]. It costs no task: nothing is read unless [`next`](Self::next) is awaited.
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless it is asked for the next value"]
pub struct CounterWatch<N> {
    watch: DataWatch,
    counter: Counter<N>,
    told: Option<i64>,
}

impl<N: Number> CounterWatch<N> {
    /// Waits for the next value, for ever and across sessions. A counter without a node has its initial value.
    ///
    /// # Errors
    /// [`Error::Undecodable`]; [`Error::Framework`] for errors that do not pass by themselves.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<N, Error> {
        loop {
            let rules = self.counter.shared.rules;
            let value = match self.watch.next().await? {
                Some((data, _)) => rules.encoding.decode(self.counter.path(), &data)?,
                None => None,
            };
            let value = value.unwrap_or(rules.initial);
            if self.told.replace(value) != Some(value) {
                return self.counter.narrow(value);
            }
        }
    }

    /// The values as a stream. After an error, the next value is waited for.
    pub fn into_stream(self) -> impl Stream<Item = Result<N, Error>> + Send + 'static {
        unfold(self, async |mut watch| Some((watch.next().await, watch)))
    }
}

impl<N> fmt::Debug for CounterWatch<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CounterWatch").field(&self.counter).finish()
    }
}
