use std::fmt;
use std::future::{Future, pending};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::Stream;
use tokio::time::timeout;
use tracing::warn;
use zk_curator::op::{CreateOp, Transaction};
use zk_curator::path::ZPath;
use zk_curator::value::FromData;
use zk_curator::{CreateMode, ErrorCode, ErrorKind, OwnedNode, Ownership};

use super::codec;
use super::driver::{
    self, Claimed, Claimer, Claims, FeedDriver, Receipts, Returned, count, is_lost, log_unsettled, settle,
    unless_lost,
};
use super::error::{Error, ErrorMode};
use super::layout::{QueueLayout, at_least_one, create_persistent};
use super::redelivery::Backoff;
use super::value::decode_all;
use crate::measure;
use crate::path::child;

/// Hands out the items of a queue, in their order, each under a claim: an item leaves the queue when it is
/// [acknowledged](Delivery::ack), and goes back if its consumer fails. Wire-compatible with Apache Curator's queues
/// with a lock path.
///
/// # Layout
/// ```text
/// <lock path>                          persistent, made on first use
///   ├─ queue-0000000007                ephemeral: the claim to the item of the same name; data: which claim it is
///   └─ _r_<uuid>                       ephemeral: a receipt of a consumer that settles items
/// ```
///
/// # Protocol
/// 1. Create the claim, and read the item, in one flight. If somebody else has claimed it, take the next.
/// 2. Hand it out.
/// 3. Acknowledged: in one transaction, make sure of the claim, delete the item, delete the claim. Back into the queue:
///    the same, and create it again at its end.
///
/// Three requests and two flights for an item; with [dead letters](Self::dead_letters) four and three. With many consumers
/// one or two requests more: the first 128 items are read to find one that nobody has claimed. When there is nothing to
/// claim, a watch waits for new items; after half a second, others for the first 64 claims of others, and more claims
/// than those are read every second. As long as there is, what others have claimed is looked at again after a second,
/// when the next call comes.
///
/// In queues with priorities or times, a claim is given back for an item that was put meanwhile and comes first, when that
/// could be claimed.
///
/// # Guarantees
/// * Each item is handed out at least once, and not to two at a time as long as the sessions of both live.
/// * Who has lost its claim can neither acknowledge nor put back (CURATOR-605): the item is handed out again, and what
///   its first consumer does with it by then is for [`Delivery::ownership`] to fence.
/// * An item that is put back keeps its priority, its time and its id.
/// * If somebody deletes a claim by hand, another consumer can claim the item while the first one works on it. ZooKeeper
///   cannot tell the two claims apart, because they have the same path. If the first one has not [noticed](Delivery::lost) it,
///   its acknowledgement removes the item and the other claim, and the other consumer gets [`Error::Lost`]. With
///   [dead letters](Self::dead_letters) the version of the item tells the consumers apart from its next delivery on, and the
///   first one gets [`Error::Lost`]. In both cases the item is acknowledged once. A consumer
///   in Java does not write the item, so dead letters do not protect its claim.
///
/// # Assumptions
/// Where ACLs are used, a consumer can create and delete children of the lock path, which holds its claims and receipts; it can
/// delete children of the queue, and create them to [put items back](Delivery::requeue). With dead letters it can also write
/// items, and create children of the queue of dead letters.
///
/// # Connection loss
/// * SUSPENDED: deliveries are held on to.
/// * LOST: the claims are gone with the session, [`Delivery::lost`] resolves, and others get the items.
///
/// # Cancel safety
/// Dropping it gives back the claims that were not handed out. Dropping a future of it keeps them for the next call.
pub struct Consumer {
    claims: Claims<BesideItems>,
    backoff: Backoff,
}

/// Claims in a directory of their own.
struct BesideItems {
    lock_path: ZPath,
    dead_letters: Option<DeadLetters>,
    receipts: Receipts,
}

/// Where items go that were handed out so often and never acknowledged.
struct DeadLetters {
    path: ZPath,
    deliveries: u32,
}

impl Claimer for BesideItems {
    type Claim = Delivery;
    const GIVES_WAY: bool = true;

    fn attempt(claim: &Delivery) -> u32 {
        claim.attempt()
    }

    fn node(claim: &Delivery) -> &OwnedNode {
        &claim.claim
    }

    fn claimed_by(&self, _site: &QueueLayout, name: &str) -> Option<String> {
        Some(child(&self.lock_path, name))
    }

    fn claim(
        &self,
        layout: QueueLayout,
        name: String,
        is_contended: bool,
        _returned: Returned,
    ) -> impl Future<Output = Result<Claimed<Delivery>, Error>> + Send + 'static {
        claim(layout, self.lock_path.clone(), self.receipts.clone(), name, is_contended)
    }

    async fn admit(&self, mut delivery: Delivery) -> Result<Option<Delivery>, Error> {
        let Some(dead_letters) = &self.dead_letters else { return Ok(Some(delivery)) };
        match delivery.count(dead_letters).await {
            Ok(true) => Ok(Some(delivery)),
            Ok(false) => put_aside(delivery, dead_letters).await.map(|()| None),
            // Another consumer has it now, or none: the next one that claims it hands it out.
            Err(Error::Lost) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Consumer {
    pub(super) fn new(feed: FeedDriver, lock_path: ZPath) -> Self {
        let receipts = Receipts::below(&feed.layout, lock_path.as_str());
        let claims = Claims::new(feed, BesideItems { lock_path, dead_letters: None, receipts });
        Self { claims, backoff: Backoff::default() }
    }

    /// Sets the number of items that are claimed at a time, from 1. Claimed items are kept from others until they are handed out.
    /// Default: 1.
    #[must_use]
    pub fn prefetch(mut self, items: usize) -> Self {
        self.claims.prefetch(items);
        self
    }

    /// Counts how often each item is handed out, and puts it aside instead when that was so many times, from 1, and nobody
    /// has acknowledged it: into the queue at `path`, which is one of the same kind, for an operator, for example.
    ///
    /// The count is the version of the item's node: it is written again before it is handed out. So it counts
    /// those too who crash with it, at the price of a request and a flight. An item that is [put back](Delivery::requeue) is a
    /// new one, which begins with one; an item that is dropped back to its place is the same. A dropped
    /// [`next`](Self::next) may have counted. Consumers without this, and those in Java, neither count nor put aside.
    #[must_use]
    pub fn dead_letters(mut self, path: impl Into<String>, deliveries: u32) -> Self {
        let layout = &mut self.claims.feed.layout;
        let path = layout.valid_path("dead letters", path);
        layout.note(at_least_one("dead_letters", deliveries));
        self.claims.claimer.dead_letters = Some(DeadLetters { path, deliveries });
        self
    }

    /// How long [`run`](Self::run) holds an item back that `body` has failed with, before it goes back to the queue: `first`
    /// after the first delivery, twice as long after each one more that was [counted](Self::dead_letters), `longest` at most;
    /// of that between a half and all, by chance. Zero for not at all. Default: 100 ms and 30 s.
    ///
    /// The item is held back under its claim, so no consumer gets it earlier, unless the session of this one is over.
    #[must_use]
    pub const fn redeliver_after(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = Backoff { first, longest };
        self
    }

    /// The next item, however long it takes until there is one.
    ///
    /// # Errors
    /// None of them ends the consumer: it may be called again.
    /// * [`Error::Corrupt`] for an item that cannot be read, once; it stays where it is.
    /// * [`Error::Foreign`] for a node that is no item, or is below one, once; it stays where it is.
    /// * [`Error::Framework`] when an operation fails for longer than the retry policy allows.
    ///
    /// # Cancel safety
    /// Nothing is lost: an item that was claimed meanwhile is the next.
    pub async fn next(&mut self) -> Result<Delivery, Error> {
        driver::next(&mut self.claims).await
    }

    /// The items as a stream, which does not end. An error is not the end either.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream is dropping the consumer.
    pub fn into_stream(self) -> impl Stream<Item = Result<Delivery, Error>> + Send {
        driver::into_stream(self.claims)
    }

    /// Hands every item to `body`, so many nodes at a time at most, from 1. An item is acknowledged when `body` is done
    /// with it. When `body` fails, the `mode` says whether it goes back, after [a while](Self::redeliver_after); of several
    /// items in one node all do. While 64 nodes are held back, no other is taken. `body` is dropped when the session of the
    /// claim is lost.
    ///
    /// # Errors
    /// `Closed`, and what else no repetition mends. What [`next`](Self::next) reports of single items, and items whose
    /// claim was lost, are logged as warnings.
    ///
    /// # Cancel safety
    /// The items of `body` go back to the queue.
    pub async fn run<F, Fut, E>(self, limit: usize, mode: ErrorMode, body: F) -> Result<(), Error>
    where
        F: Fn(Bytes) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        self.run_until(limit, mode, pending(), Duration::ZERO, body).await
    }

    /// As [`run`](Self::run), until `stop`: no item is taken after that, and the items in hand may be worked off for as long as
    /// `drain`; what `body` has failed with goes back at once. Then the rest is dropped and goes back to its place. Returns when all
    /// of it is there again, or the session is over. See [the graceful stop](crate::queue#a-graceful-stop).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until<F, Fut, E>(
        self,
        limit: usize,
        mode: ErrorMode,
        stop: impl Future<Output = ()>,
        drain: Duration,
        body: F,
    ) -> Result<(), Error>
    where
        F: Fn(Bytes) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let backoff = self.backoff;
        let each = |delivery: Delivery| async {
            let (path, attempt) = (delivery.path.clone(), delivery.attempt);
            let lost = delivery.ownership().session_lost();
            let work = async {
                for item in delivery.items() {
                    body(item.clone()).await?;
                }
                Ok::<_, E>(())
            };
            if let Err(error) = unless_lost(&path, lost.cancelled(), work).await? {
                if mode != ErrorMode::Delete {
                    let delay = backoff.after(attempt, &delivery.layout.zk);
                    warn!(path, attempt, ?delay, %error, "an item goes back to the queue");
                    let time = async move { drop(timeout(delay, lost.cancelled()).await) };
                    return Some((time, give_back(delivery, mode)));
                }
                warn!(path, %error, "an item is given up");
            }
            log_unsettled(&path, delivery.ack().await);
            None
        };
        driver::run(self.claims, limit, (stop, drain), each).await
    }
}

/// Puts an item back, to the end or to its place.
async fn give_back(delivery: Delivery, mode: ErrorMode) {
    let path = delivery.path.clone();
    if mode == ErrorMode::Requeue {
        log_unsettled(&path, delivery.requeue().await);
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("layout", &self.claims.feed.layout).finish_non_exhaustive()
    }
}

/// Claims an item and reads it, in one flight unless others contend for it.
async fn claim(
    layout: QueueLayout,
    lock_path: ZPath,
    receipts: Receipts,
    name: String,
    is_contended: bool,
) -> Result<Claimed<Delivery>, Error> {
    let path = layout.item(&name);
    let on = child(&lock_path, &name);
    let create = layout.zk.create(&on).mode(CreateMode::Ephemeral).creating_parents();
    // The data tell our claim from those of others when the answer is lost.
    let create = create.data(layout.zk.new_guid()).protected_by_data();
    // Read after our claim was there, also if that takes several attempts: others may have claimed and removed it before.
    let claimed = if is_contended {
        match create.owned().await {
            Ok(claim) => match layout.zk.get_data(&path).with_stat().await {
                Ok(read) => Ok((claim, Some(read))),
                Err(error) if error.kind() == ErrorKind::NoNode => Ok((claim, None)),
                Err(error) => return Err(error.into()),
            },
            Err(error) => Err(error),
        }
    } else {
        create.owned_with_data(&path).await
    };
    let (claim, read) = match claimed {
        Ok(claimed) => claimed,
        Err(error) if error.kind() == ErrorKind::NodeExists => return Ok(Claimed::Others(on)),
        Err(error) => return Err(error.into()),
    };
    let Some((data, stat)) = read else { return Ok(Claimed::Gone) };
    if stat.num_children > 0
        && let Some(path) = layout.foreign_child(&path, None).await?
    {
        // It could not be acknowledged.
        return Err(Error::Foreign { path });
    }
    let items = layout.unpack(data.clone()).and_then(|data| codec::decode(&data));
    let items = items.map_err(|why| Error::Corrupt { path: path.clone(), why })?;
    let (version, attempt) = (stat.version, attempt(stat.version));
    Ok(Claimed::Ours(Box::new(Delivery { layout, path, data, items, version, attempt, claim, receipts })))
}

/// Which delivery it is when a node has this version: every one before has written it.
fn attempt(version: i32) -> u32 {
    u32::try_from(version).unwrap_or(0).saturating_add(1)
}

/// Moves an item that was handed out too often.
async fn put_aside(delivery: Delivery, dead_letters: &DeadLetters) -> Result<(), Error> {
    let (layout, path) = (&delivery.layout, delivery.path.clone());
    create_persistent(&layout.zk, dead_letters.path.as_str()).await?;
    let anew = CreateOp::new(child(&dead_letters.path, layout.kind.base(layout.name(&delivery.path))));
    let anew = anew.mode(CreateMode::PersistentSequential).data(delivery.data.clone());
    warn!(path, attempts = delivery.attempt - 1, aside = %dead_letters.path, "an item is put aside");
    let kind = layout.kind;
    match delivery.settle(Some(anew)).await {
        Ok(()) => {
            measure::dead_letter(kind.recipe());
            Ok(())
        }
        Err(Error::Lost) => Ok(()),
        Err(error) => Err(error),
    }
}

/// An item in the hands of its consumer. Dropped, it goes back to its place in the queue.
#[must_use = "dropping it puts the item back"]
pub struct Delivery {
    layout: QueueLayout,
    path: String,
    /// As they are stored.
    data: Bytes,
    items: Vec<Bytes>,
    version: i32,
    attempt: u32,
    claim: OwnedNode,
    receipts: Receipts,
}

impl Delivery {
    /// The path of the item.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The data: one item, unless several were [put as one](super::CuratorQueue::put_multi).
    #[must_use]
    pub fn items(&self) -> &[Bytes] {
        &self.items
    }

    /// The items as values of this type.
    ///
    /// # Errors
    /// [`Error::Undecodable`] when one of them is none.
    pub fn values<T: FromData>(&self) -> Result<Vec<T>, Error> {
        decode_all(&self.path, &self.items)
    }

    /// The id that the item was put with; `None` in another queue than a
    /// [`DistributedIdQueue`](super::DistributedIdQueue).
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.layout.kind.id_of(self.layout.name(&self.path))
    }

    /// Which delivery of this item it is, from 1. Only those by consumers that [count](Consumer::dead_letters) are counted.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The claim: [`Ownership::fenced`] transactions are only applied while it is held.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        self.claim.ownership()
    }

    /// Resolves when the claim is lost: others get the item.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.claim.ownership().lost().await;
    }

    /// The item is done with: removes it from the queue.
    ///
    /// # Errors
    /// * [`Error::Lost`] when the claim was lost: the item is handed out again.
    /// * [`Error::Foreign`] when somebody has created a node below the item: it cannot be removed.
    /// * [`Error::Framework`] when it cannot be known, or the connection is lost for longer than the retry policy allows:
    ///   the item is removed, or handed out again.
    ///
    /// # Cancel safety
    /// The item is removed, or goes back to its place.
    pub async fn ack(self) -> Result<(), Error> {
        self.settle(None).await
    }

    /// Puts the item back, at the end of the queue: behind all others of its priority. Its time and its id stay the same.
    /// To put it back at its place, drop it.
    ///
    /// # Errors
    /// As [`ack`](Self::ack); the item is put back, or handed out again. An item so large that servers accept no receipt
    /// beside it is put back without: after a lost answer the error says
    /// [`may_have_applied`](zk_curator::Error::may_have_applied).
    ///
    /// # Cancel safety
    /// The item goes back to the end, or to its place.
    pub async fn requeue(self) -> Result<(), Error> {
        let end = self.layout.item(self.layout.kind.base(self.layout.name(&self.path)));
        let anew = CreateOp::new(end).mode(CreateMode::PersistentSequential).data(self.data.clone());
        self.settle(Some(anew)).await
    }

    /// Counts this delivery; not `true` if there were too many before.
    async fn count(&mut self, dead_letters: &DeadLetters) -> Result<bool, Error> {
        if self.attempt > dead_letters.deliveries {
            return Ok(false);
        }
        let (data, version) = (self.data.clone(), self.version);
        let counted = count(&self.receipts, &self.claim, &self.path, data, version).await?;
        self.version = counted.ok_or(Error::Lost)?;
        Ok(true)
    }

    async fn settle(self, anew: Option<CreateOp>) -> Result<(), Error> {
        let claim = self.claim.path().to_owned();
        let ending = |fenced: Transaction| {
            let removed = fenced.delete_if(&self.path, self.version);
            anew.iter().cloned().fold(removed, Transaction::with).delete(&claim)
        };
        let Err(error) = settle(&self.receipts, self.claim, ending).await else { return Ok(()) };
        if matches!(error.kind(), ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NotEmpty })
            && let Some(path) = self.layout.foreign_child(&self.path, None).await?
        {
            return Err(Error::Foreign { path });
        }
        Err(if is_lost(&error, 0) { Error::Lost } else { error.into() })
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Delivery");
        debug.field("path", &self.path).field("items", &self.items.len()).field("claim", &self.claim).finish()
    }
}
