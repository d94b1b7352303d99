use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::stream::{Stream, unfold};
use zk_curator::internal::task_has_ended;
use zk_curator::watch::DataWatch;
use zk_curator::{CuratorFramework, Error as ZkError, ErrorKind};

use super::batch::{BatchRules, CounterChange as RawChange, OnMissing, Operation};
use super::driver::CounterDriver;
use super::encoding::Encoding;
use super::error::Error;
use super::once::OnceRecord;
use super::queue::{OperationAnswer, OperationQueue};
use super::settings::CounterSettings;

/// The types of numbers.
pub trait Number: Copy + Into<i64> + TryFrom<i64> + Send + Sync + 'static + sealed::Sealed {
    /// The format of Curator.
    const ENCODING: Encoding;
}

mod sealed {
    #[expect(unnameable_types, reason = "nobody else is to implement numbers")]
    pub trait Sealed {
        /// The least and the greatest number.
        const RANGE: (i64, i64);

        /// The number of the type that is nearest. It cannot fail: it is called when the number is
        /// written.
        fn nearest(value: i64) -> Self;
    }

    impl Sealed for i64 {
        const RANGE: (Self, Self) = (Self::MIN, Self::MAX);

        fn nearest(value: i64) -> Self {
            value
        }
    }

    impl Sealed for i32 {
        const RANGE: (i64, i64) = (Self::MIN as i64, Self::MAX as i64);

        fn nearest(value: i64) -> Self {
            Self::try_from(value).unwrap_or(if value < 0 { Self::MIN } else { Self::MAX })
        }
    }
}

impl Number for i64 {
    const ENCODING: Encoding = Encoding::I64Be;
}

impl Number for i32 {
    const ENCODING: Encoding = Encoding::I32Be;
}

/// A number in a node that many processes change: see the [module](super). Cheap to clone; the
/// operations of all clones share writes.
pub struct Counter<N> {
    shared: Arc<CounterShared>,
    number: PhantomData<fn() -> N>,
}

/// A counter of 64 bits (`DistributedAtomicLong`).
pub type DistributedAtomicLong = Counter<i64>;

/// A counter of 32 bits (`DistributedAtomicInteger`).
pub type DistributedAtomicInteger = Counter<i32>;

struct CounterShared {
    settings: Arc<CounterSettings>,
    /// The task that executes its operations begins with the first one.
    queue: Arc<OperationQueue>,
}

impl Drop for CounterShared {
    fn drop(&mut self) {
        self.queue.close();
    }
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
    pub(super) fn with_settings(settings: CounterSettings) -> Self {
        let shared = CounterShared { settings: Arc::new(settings), queue: Arc::default() };
        Self { shared: Arc::new(shared), number: PhantomData }
    }

    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.shared.settings.site.path
    }

    pub(super) fn framework(&self) -> &CuratorFramework {
        &self.shared.settings.site.zk
    }

    fn rules(&self) -> BatchRules {
        self.shared.settings.rules
    }

    /// Returns the value: every operation that was acknowledged before, to any client, is in it. It
    /// costs the ensemble as much as a write: see
    /// [`linearizable`](zk_curator::op::GetDataBuilder::linearizable).
    ///
    /// # Errors
    /// [`Error::Undecodable`]; [`Error::Missing`] where a counter without a node
    /// [is to](OnMissing::Fail) fail; [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get(&self) -> Result<N, Error> {
        self.decode(self.framework().get_data(self.path()).linearizable().await)
    }

    /// Returns the value as the connected server knows it, which may lag.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get_relaxed(&self) -> Result<N, Error> {
        self.decode(self.framework().get_data(self.path()).await)
    }

    fn decode(&self, read: Result<bytes::Bytes, ZkError>) -> Result<N, Error> {
        match read {
            Ok(data) => self.value(Some(&data)),
            Err(error) if error.kind() == ErrorKind::NoNode => self.value(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The value of a node with these data, or without a node.
    fn value(&self, data: Option<&bytes::Bytes>) -> Result<N, Error> {
        let rules = self.rules();
        let value = match data {
            None if rules.missing == OnMissing::Fail => {
                return Err(Error::Missing { path: self.path().to_owned() });
            }
            None => Some(rules.initial),
            Some(data) if data.is_empty() => Some(rules.initial),
            Some(data) => rules.encoding.decode(data).filter(|value| rules.contain(*value)),
        };
        let undecodable =
            || Error::undecodable(self.path(), data.map_or(&[][..], |data| &data[..]));
        value.map(N::nearest).ok_or_else(undecodable)
    }

    /// Adds a number, which may be negative; returns the value before and after. It is added once,
    /// or not at all.
    ///
    /// Operations that are called while a write is under way share the next one.
    ///
    /// # Errors
    /// * [`Error::Overflow`]; the other operations of the batch are applied.
    /// * [`Error::Unknown`] only if the session ended before the outcome could be determined, or
    ///   another client has deleted the receipt.
    /// * [`Error::Contended`], [`Error::LockTimeout`], [`Error::Undecodable`], [`Error::Missing`],
    ///   [`Error::ReceiptDenied`].
    /// * [`Error::Framework`]: not applied.
    ///
    /// # Cancel safety
    /// An operation that was not sent is not applied. A sent operation may be.
    pub async fn add(&self, delta: N) -> Result<Change<N>, Error> {
        self.applied(Operation::Add(delta.into())).await.map(change)
    }

    /// Adds a number, once for an id: a call with an id that was used before changes nothing, in
    /// whatever process or session it is. For callers who repeat a call without knowing how the
    /// first one has ended.
    ///
    /// The transaction also creates a node with the name of the id: see the [layout](super). It is
    /// kept for [a time](super::AtomicBuilder::keep_records).
    ///
    /// # Errors
    /// * As [`add`](Self::add). [`Error::Unknown`] only if the retry policy ends before a later
    ///   session could repeat the call. A repetition may return [`Once::Before`] for this call's own
    ///   first attempt.
    /// * `InvalidArgument`, `InvalidPath` if the id is not the name of a node, or longer than 1,024
    ///   bytes.
    ///
    /// # Cancel safety
    /// It may be applied; calling it again with the same id applies it at most once.
    pub async fn add_once(
        &self,
        id: impl Into<String>,
        delta: N,
    ) -> Result<Once<Change<N>>, Error> {
        Ok(match self.once(&id.into(), Operation::Add(delta.into())).await? {
            Once::Applied(applied) => Once::Applied(change(applied)),
            Once::Before(before) => Once::Before(change(before)),
        })
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
        self.applied(Operation::Add(negative)).await.map(change)
    }

    /// Adds one; returns the value after.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn increment(&self) -> Result<N, Error> {
        self.applied(Operation::Add(1)).await.map(|change| N::nearest(change.post))
    }

    /// Subtracts one; returns the value after.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn decrement(&self) -> Result<N, Error> {
        self.applied(Operation::Add(-1)).await.map(|change| N::nearest(change.post))
    }

    /// Replaces the value, whatever it is, also data that are no number of this counter. Returns
    /// the value before, `None` if it was no number.
    ///
    /// # Errors
    /// As [`add`](Self::add), except `Undecodable` and `Overflow`.
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    #[doc(alias = "forceSet")]
    #[doc(alias = "trySet")]
    pub async fn set(&self, new: N) -> Result<Option<N>, Error> {
        match self.perform(Operation::Set(new.into()), None).await? {
            OperationAnswer::Set(pre) => Ok(pre.map(N::nearest)),
            _ => Err(self.unexpected()),
        }
    }

    /// Replaces the value if it is the expected one. A counter without a node has its initial
    /// value, and is created.
    ///
    /// **The inner result** is the change, or the value that differs from the expected one.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn compare_and_set(
        &self,
        expected: N,
        new: N,
    ) -> Result<Result<Change<N>, N>, Error> {
        let operation = Operation::CompareAndSet { expected: expected.into(), new: new.into() };
        match self.perform(operation, None).await? {
            OperationAnswer::Done(done) => Ok(Ok(change(done))),
            OperationAnswer::Differs(value) => Ok(Err(N::nearest(value))),
            _ => Err(self.unexpected()),
        }
    }

    /// Creates the node with this value. Returns `false` if it exists already.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn initialize(&self, value: N) -> Result<bool, Error> {
        Ok(matches!(
            self.perform(Operation::Initialize(value.into()), None).await?,
            OperationAnswer::Done(_)
        ))
    }

    /// Follows the value: the present one first, then each newer one that differs.
    pub fn follow(&self) -> CounterWatch<N> {
        let watch = self.framework().watch_data(self.path());
        CounterWatch { watch, counter: self.clone(), told: None }
    }

    /// Performs an operation that is never refused.
    pub(super) async fn applied(&self, operation: Operation) -> Result<RawChange, Error> {
        match self.perform(operation, None).await? {
            OperationAnswer::Done(change) => Ok(change),
            _ => Err(self.unexpected()),
        }
    }

    /// Performs an operation that is never refused, once for an id.
    pub(super) async fn once(
        &self,
        id: &str,
        operation: Operation,
    ) -> Result<Once<RawChange>, Error> {
        let record = OnceRecord::new(self.framework(), self.path(), id)?;
        match self.perform(operation, Some(record)).await? {
            OperationAnswer::Done(change) => Ok(Once::Applied(change)),
            OperationAnswer::Before(change) => Ok(Once::Before(change)),
            _ => Err(self.unexpected()),
        }
    }

    async fn perform(
        &self,
        operation: Operation,
        record: Option<OnceRecord>,
    ) -> Result<OperationAnswer, Error> {
        if let Operation::Set(new)
        | Operation::CompareAndSet { new, .. }
        | Operation::Initialize(new) = operation
            && !self.rules().contain(new)
        {
            let why = "the number does not fit the encoding of the counter";
            return Err(ZkError::invalid_argument("counter", self.path(), why).into());
        }
        let CounterShared { settings, queue } = &*self.shared;
        let (ticket, is_unserved) = queue.push(operation, record);
        if is_unserved {
            self.framework()
                .spawn(CounterDriver::new(Arc::clone(settings), Arc::clone(queue)).run());
        }
        // Without a response, the operation was not sent.
        ticket
            .await
            .unwrap_or_else(|| Err(task_has_ended(self.framework(), "counter", self.path()).into()))
    }

    /// Something was applied.
    fn unexpected(&self) -> Error {
        let why = ZkError::invalid_argument(
            "counter",
            self.path(),
            "the response is to another operation",
        );
        Error::Unknown { path: self.path().to_owned(), why }
    }
}

fn change<N: Number>(RawChange { pre, post }: RawChange) -> Change<N> {
    Change { pre: N::nearest(pre), post: N::nearest(post) }
}

impl<N> Clone for Counter<N> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), number: PhantomData }
    }
}

impl<N> fmt::Debug for Counter<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter")
            .field("path", &self.shared.settings.site.path)
            .finish_non_exhaustive()
    }
}

/// Follows the value of a [`Counter`]. It costs no task: nothing is read unless
/// [`next`](Self::next) is awaited.
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
    /// Waits for the next value, forever and across sessions. A counter without a node has its
    /// initial value.
    ///
    /// # Errors
    /// [`Error::Undecodable`]; [`Error::Missing`] if there is no node and the counter is set to
    /// [fail](OnMissing::Fail); [`Error::Framework`] for permanent errors.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<N, Error> {
        loop {
            let data = self.watch.next().await?.map(|(data, _)| data);
            let value = self.counter.value(data.as_ref());
            let told =
                std::mem::replace(&mut self.told, value.as_ref().ok().map(|value| (*value).into()));
            if value.is_err() || told != self.told {
                return value;
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
