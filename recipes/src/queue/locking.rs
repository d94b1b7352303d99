use std::fmt;
use std::future::{Future, IntoFuture};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::join;
use futures_util::stream::{Stream, unfold};
use tokio::time::timeout;
use tracing::warn;
use zk_curator::op::{CreateOp, Transaction};
use zk_curator::path::ZPath;
use zk_curator::{
    CreateMode, CuratorFramework, ErrorCode, ErrorKind, FencingToken, OpResult, OwnedNode, Ownership,
};

use super::Error;
use super::buckets::{self, PutTarget};
use super::claims::{Back, Claimed, Claimer, Claims, Receipts, Returned, count, is_lost, run, try_settle};
use super::feed::Feed;
use super::layout::{QueueLayout, at_least_one};
use super::name::{ItemMeta, Kind};
use super::put::Producer;
use super::redelivery::{self, Backoff, MOST_DELIVERIES, Rejection};
use crate::path::child;

/// The name of the claim to an item.
const CLAIM: &str = "claim";

/// A queue whose items are taken under claims: an item leaves it when it is acknowledged, and is back at its place when
/// its consumer lets go of it or dies. Each is put exactly once, in a line of those that wait there is no herd, every
/// delivery says the how manieth it is, and what fails too often is put aside.
///
/// What kazoo's `LockingQueue` is for, with a layout of its own.
///
/// # Layout
/// ```text
/// /queue
///   ├─ items                                         persistent, made on first use; data: `buckets 1`
///   │    └─ b-100000000|0000000003                      persistent, sequential: a bucket, for items of one priority
///   │         └─ item-100000000|<id>|0|0000000007           persistent, sequential; data: the item
///   │              └─ claim                                  ephemeral: its consumer's; data: a GUID
///   ├─ ids                                           persistent: puts under way
///   │    ├─ _c_<uuid>-producer-0000000000                ephemeral, sequential: one who puts
///   │    └─ put-<count>-<producer>                       persistent
///   ├─ _r_<uuid>                                     ephemeral: a receipt of a consumer that settles items
///   ├─ line                                          container: those that wait for an item
///   │    └─ _c_<uuid>-wait-0000000003                    ephemeral, sequential
///   └─ dead                                          a queue like this one: what was put aside; data: how often it
///                                                    was delivered, why it was rejected, and the item
/// ```
/// A bucket takes [4,096 items](Self::bucket_size), then it is closed and the next one opened; empty ones are deleted by
/// consumers. Items directly below `items` were put by an earlier version of this crate, and come first; a queue whose `items`
/// have other data is [used without buckets](Self::upgrade_layout).
///
/// The name of an item has its priority, as Curator writes it; an id, which it keeps as long as it is anywhere; and how
/// often it was claimed before it came to this place. The server counts how often it was claimed there: that is how
/// many children its node has had.
///
/// # Protocol
/// 1. Put: in one transaction, create a node with an id, as of [`FifoQueue`](super::FifoQueue), make sure that the bucket is
///    open, and create the item. A full bucket is closed in one transaction that creates the next.
/// 2. Take: create the claim and read the item, in one flight. If another consumer has claimed it, read which of the
///    next items are free, and claim the first of them after a short random pause. One that is back is tried before
///    those behind it. An item that was claimed before is written again, under the claim: its version tells its consumers apart.
/// 3. Acknowledge: in one [certain](zk_curator::certain) transaction, make sure of the claim, delete it, delete the item at
///    its version. Back to the end, or aside: the same, and create it there.
/// 4. Wait for an item: get into the line. Only its first watches the items and the claims of others, and leaves
///    the line with the first item that it claims, which wakes the next. It watches 64 claims, and reads more than those
///    every second.
///
/// Taking an item and acknowledging it are three requests and two flights; with many consumers one or two requests more. A
/// redelivery is one request and one flight more.
///
/// # Guarantees
/// * A put that succeeds has put its item once. One that fails says whether it may have.
/// * Each item is handed out at least once, and not to two at a time as long as the sessions of both live. It is
///   acknowledged, put back or put aside by one of those who had it, and by nobody who has lost its claim.
/// * Of items with the same priority those put earlier are handed out earlier; what comes back keeps its place, and is
///   handed out before those behind it to whoever looks after it has heard of that.
/// * Nothing of a claim stays anywhere when its item is gone: a claim is a child of the item.
/// * No name is given twice, also if somebody deletes the queue and it is made anew: whoever had an item of the
///   first one has lost its claim. If somebody deletes a claim by hand, its consumer can acknowledge the item until it is
///   delivered to another one, and gets [`Error::Lost`] from then on.
///
/// # Assumptions
/// Only users of this queue write here. Nobody holds more items than a few: those who look for one read which are claimed.
///
/// # Access control
/// New nodes get the ACL of the framework's [provider](zk_curator::acl::AclProvider). Everybody who uses the queue may read all of
/// it, and has these rights:
///
/// | node | producers | consumers |
/// |---|---|---|
/// | `/queue` | – | create, delete: receipts |
/// | `items` | create, write: buckets | delete: buckets; as producers, to requeue |
/// | a bucket | create: items; write: to close it | delete: items; as producers, to requeue |
/// | an item | – | create, delete: claims; write: redeliveries |
/// | `ids` | create, delete, write | – |
/// | `line` | – | create, delete |
/// | `dead` | – | create |
/// | `dead/items` and its buckets | – | as producers |
///
/// Who uses the queue first creates `items`, `ids` and `line`, which takes the right to create children of `/queue`, or an operator
/// has created them before, `items` with the data `buckets 1`. A right that is missing is an [`Error::Framework`] with
/// `NoAuth` and a path: without that to create children of `/queue`, an acknowledgement fails with the path of the receipt,
/// `/queue/_r_<uuid>`, and so does [`next`](LockingConsumer::next) with an item that is handed out again.
///
/// # Connection loss
/// * SUSPENDED: what was handed out is held on to, operations wait for a connection.
/// * LOST: the claims are gone with the session, [`LockingDelivery::lost`] resolves, and others get the items.
///
/// # Cancel safety
/// A put that is dropped may be in the queue.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::queue::LockingQueue;
///
/// let queue = LockingQueue::new(&zk, "/queue")?.max_deliveries(2)?;
/// queue.put("one").await?;
/// queue.put("two").await?;
///
/// let mut consumer = queue.consumer();
/// let one = consumer.next().await?;
/// drop(one); // The consumer has failed, or crashed.
/// let one = consumer.next().await?;
/// assert_eq!((&one.data()[..], one.attempt()), (&b"one"[..], 2));
/// one.ack().await?;
///
/// let two = consumer.next().await?;
/// two.reject("not a number").await?;
/// let dead = queue.dead_letters()?.consumer().next().await?;
/// assert_eq!((dead.data(), &dead.rejection().unwrap().why[..]), (&"two".into(), "not a number"));
/// # drop(consumer);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct LockingQueue {
    zk: CuratorFramework,
    producer: Producer,
    line: ZPath,
    dead: QueueLayout,
    refresh_after: u32,
    max_deliveries: Option<u32>,
}

impl LockingQueue {
    /// The queue at a path. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Framework`] when the path is not valid.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Result<Self, Error> {
        Ok(Self::at(zk, &ZPath::for_operation("queue", path)?)?)
    }

    fn at(zk: &CuratorFramework, path: &ZPath) -> zk_curator::Result<Self> {
        let below = |name| ZPath::for_operation("queue", child(path, name));
        let mut producer = Producer::new(QueueLayout::new(zk, below("items")?, Kind::Locking));
        producer.with_ids(below("ids")?);
        let dead = QueueLayout::new(zk, below("dead/items")?, Kind::Locking);
        Ok(Self {
            zk: zk.clone(),
            producer,
            line: below("line")?,
            dead,
            refresh_after: u32::MAX,
            max_deliveries: Some(MOST_DELIVERIES),
        })
    }

    /// Consumers look for items that were put with a priority meanwhile, and come before those that they have listed:
    /// with every item that they take, which costs one request more and no flight. Default: they look when they have worked through
    /// their list, of 10,000 items at most.
    #[must_use]
    pub const fn prioritized(mut self) -> Self {
        self.refresh_after = 1;
        self
    }

    /// How often an item is claimed at most, from 1; after that it is [put aside](Self::dead_letters), by the consumer that
    /// comes upon it. Default: 20, and no limit for a queue of dead letters.
    ///
    /// Of the crash of a consumer all items are counted that it had claimed, also those that it had
    /// [claimed ahead](LockingConsumer::prefetch).
    ///
    /// # Errors
    /// [`Error::Zero`].
    pub fn max_deliveries(mut self, limit: u32) -> Result<Self, Error> {
        self.max_deliveries = Some(at_least_one("max_deliveries", limit)?);
        Ok(self)
    }

    /// The number of items that are put into a [bucket](Self#layout), from 1. Consumers list one bucket at a time, so it bounds
    /// the size of answers: 4,096 names are 0.3 MB. Queues with different sizes at one path work together. It applies to clones
    /// of this queue as well. Default: 4,096.
    ///
    /// # Errors
    /// [`Error::Zero`].
    pub fn bucket_size(self, items: u32) -> Result<Self, Error> {
        self.producer.layout.set_bucket_size(items)?;
        self.dead.set_bucket_size(items)?;
        Ok(self)
    }

    /// Puts items into buckets also where earlier versions of this crate have put items without: see [Layout](Self#layout).
    /// Those that do not know of buckets find no items any more, and report each bucket as foreign. So it is for when all
    /// clients know of them. Default: such a queue keeps its layout.
    #[must_use]
    pub fn upgrade_layout(self) -> Self {
        self.producer.layout.upgrade_layout();
        self.dead.upgrade_layout();
        self
    }

    /// Items are claimed however often it takes: nothing is put aside but what is [rejected](LockingDelivery::reject).
    #[must_use]
    pub const fn unlimited_deliveries(mut self) -> Self {
        self.max_deliveries = None;
        self
    }

    /// Puts an item at the end, once.
    ///
    /// # Errors
    /// [`Error::Framework`]; `TooLarge` when servers would not accept it, before anything is sent;
    /// [`may_have_applied`](zk_curator::Error::may_have_applied) when nobody could tell for longer than the retry policy
    /// allows.
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn put(&self, item: impl Into<Bytes>) -> Result<(), Error> {
        self.put_with_priority(item, 0).await
    }

    /// Puts an item behind all with the same priority or a lower number, once: see [`prioritized`](Self::prioritized).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn put_with_priority(&self, item: impl Into<Bytes>, priority: i32) -> Result<(), Error> {
        self.producer.put(&[self.node(item.into(), priority)]).await
    }

    /// Puts several items at the end, in this order: all or none, and once. One flight.
    ///
    /// # Errors
    /// As [`put`](Self::put); `TooLarge` when they are too large together.
    ///
    /// # Cancel safety
    /// Once polled, the items may be in the queue.
    pub async fn put_all(&self, items: impl IntoIterator<Item = Bytes>) -> Result<(), Error> {
        let nodes: Vec<_> = items.into_iter().map(|item| self.node(item, 0)).collect();
        self.producer.put(&nodes).await
    }

    /// Waits until all puts are answered, and deletes the ids that are not needed any more.
    ///
    /// # Errors
    /// [`Error::Framework`] when an id cannot be deleted; that goes on in the background.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn flush(&self) -> Result<(), Error> {
        self.producer.flush().await
    }

    /// How many items are in the queue, claimed or not. A queue that nobody has used yet is empty. Two requests, and one more
    /// for each bucket after the first; items that come or go meanwhile may be counted or not.
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn count(&self) -> Result<usize, Error> {
        buckets::count(&self.producer.layout).await
    }

    /// Takes items. Nothing is sent yet.
    pub fn consumer(&self) -> LockingConsumer {
        let feed = Feed::new(self.producer.layout.clone(), Some(self.line.clone()), self.refresh_after);
        let layout = &feed.layout;
        let parent = layout.path.parent();
        let receipts = Receipts::below(layout, parent.as_ref().map_or("/", ZPath::as_str));
        let claimer = OnItems { dead: self.dead.clone(), max_deliveries: self.max_deliveries, receipts };
        LockingConsumer { claims: Claims::new(feed, claimer), backoff: Backoff::default() }
    }

    /// What was put aside: a queue as this one, whose items are taken, acknowledged and put back in the same way. They keep
    /// their ids; their deliveries are counted from 1 again, without a limit. [`Message::rejection`] says how often they
    /// were delivered before, why they were rejected, and when.
    ///
    /// # Errors
    /// [`Error::Framework`] when the path, which is longer than that of this queue, is not valid.
    pub fn dead_letters(&self) -> Result<Self, Error> {
        let path = self.dead.path.parent().unwrap_or_else(ZPath::root);
        let mut dead = Self::at(&self.zk, &path)?.unlimited_deliveries();
        dead.producer.layout = self.dead.clone();
        Ok(dead)
    }

    fn node(&self, item: Bytes, priority: i32) -> (String, Bytes) {
        let QueueLayout { zk, kind, .. } = &self.producer.layout;
        let id = zk.new_guid();
        (format!("{}{}", kind.tag(), ItemMeta { priority, id: &id, times: 0 }), item)
    }
}

/// Takes the items of a [`LockingQueue`], each under a claim.
///
/// # Cancel safety
/// Dropping it gives back the items that it has claimed and not handed out.
pub struct LockingConsumer {
    claims: Claims<OnItems>,
    backoff: Backoff,
}

impl LockingConsumer {
    /// How many items are claimed at a time, from 1: those that are not handed out yet are kept from others meanwhile.
    /// Default: 1.
    #[must_use]
    pub fn prefetch(mut self, items: usize) -> Self {
        self.claims.prefetch = items;
        self
    }

    /// How long [`run`](Self::run) holds an item back that `body` has failed with: `first` after the first delivery, twice as
    /// long after each one more, `longest` at most; of that between a half and all, by chance. Zero for not at all. Default:
    /// 100 ms and 30 s.
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
    /// * [`Error::Corrupt`] for an item that cannot be decompressed, where the framework compresses, once; it stays where
    ///   it is.
    /// * [`Error::Foreign`] for a node that is no item, or is below one and no claim, once; it stays where it is.
    /// * [`Error::Framework`] when an operation fails for longer than the retry policy allows.
    ///
    /// # Cancel safety
    /// Nothing is lost: an item that was claimed meanwhile is the next.
    pub async fn next(&mut self) -> Result<LockingDelivery, Error> {
        self.claims.next().await
    }

    /// The next item if there is one that nobody has claimed, `None` if not. Never waits for others.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub async fn try_next(&mut self) -> Result<Option<LockingDelivery>, Error> {
        self.claims.try_next().await
    }

    /// The items as a stream, which does not end. An error is not the end either.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream is dropping the consumer.
    pub fn into_stream(self) -> impl Stream<Item = Result<LockingDelivery, Error>> + Send {
        unfold(self, |mut consumer| async move { Some((consumer.next().await, consumer)) })
    }

    /// Hands every item to `body`, so many at a time at most, from 1. An item is acknowledged when `body` is done with
    /// it. When `body` fails, it goes back to its place after [a while](Self::redeliver_after), in which those behind it are
    /// handed out; after its [last delivery](LockingQueue::max_deliveries) it is put aside, with the error as the reason.
    /// While 64 items are held back, no other is taken. `body` is dropped when the claim is lost.
    ///
    /// # Errors
    /// `Closed`, and what else no repetition mends. What [`next`](Self::next) reports of single items, and items whose
    /// claim was lost, are logged as warnings.
    ///
    /// # Cancel safety
    /// What `body` has in its hands goes back to its place.
    pub async fn run<F, Fut, E>(mut self, limit: usize, body: F) -> Result<(), Error>
    where
        F: Fn(Message) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let zk = self.claims.feed.layout.zk.clone();
        let (backoff, limit_of_item) = (self.backoff, self.claims.claimer.max_deliveries);
        let each = |item: LockingDelivery| async {
            let (id, attempt) = (item.id().to_owned(), item.attempt());
            let done = tokio::select! {
                biased;
                () = item.lost() => {
                    warn!(id, "the claim to an item was lost");
                    return None;
                }
                done = body(item.message()) => done,
            };
            let settled = match done {
                Ok(()) => item.ack().await,
                Err(error) if limit_of_item.is_some_and(|limit| attempt >= limit) => {
                    warn!(id, attempt, %error, "an item is put aside");
                    item.reject(error.to_string()).await
                }
                Err(error) => {
                    let delay = backoff.after(attempt, &item.layout.zk);
                    warn!(id, attempt, ?delay, %error, "an item goes back to its place");
                    return Some(hold(item, delay));
                }
            };
            if let Err(error) = settled {
                warn!(id, %error, "an item may be handed out again");
            }
            None
        };
        run(&zk, limit, &mut self, async |consumer: &mut Self| consumer.next().await, each).await
    }
}

/// Gives an item back after a while, or when its claim is over.
async fn hold(item: LockingDelivery, delay: Duration) {
    drop(timeout(delay, item.ownership().over()).await);
}

impl fmt::Debug for LockingConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockingConsumer").field("layout", &self.claims.feed.layout).finish_non_exhaustive()
    }
}

/// An item that was handed out, without the duty to settle it. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Message {
    /// The item.
    pub data: Bytes,
    /// The same for as long as the item exists, also when it is put back or put aside.
    pub id: String,
    /// How often it was claimed, this time included.
    pub attempt: u32,
    /// How it became a dead letter, if it is one.
    pub rejection: Option<Rejection>,
    /// The claim: [`Ownership::fenced`] transactions are only applied while it is held.
    pub claim: Ownership,
}

/// Claims are children of the items.
struct OnItems {
    dead: QueueLayout,
    max_deliveries: Option<u32>,
    receipts: Receipts,
}

impl Claimer for OnItems {
    type Claim = LockingDelivery;
    // It would count as a delivery.
    const GIVES_WAY: bool = false;

    fn node(claim: &LockingDelivery) -> &OwnedNode {
        &claim.claim
    }

    fn claimed_by(&self, layout: &QueueLayout, name: &str) -> Option<String> {
        Some(claim_of(&layout.item(name)))
    }

    fn claim(
        &self,
        layout: QueueLayout,
        name: String,
        is_contended: bool,
        returned: Returned,
    ) -> impl Future<Output = Result<Claimed<LockingDelivery>, Error>> + Send + 'static {
        claim(layout, self.dead.clone(), self.receipts.clone(), name, is_contended, returned)
    }

    async fn admit(&self, mut item: LockingDelivery) -> Result<Option<LockingDelivery>, Error> {
        if item.is_redelivered {
            let (data, version) = (item.stored.clone(), item.version);
            match count(&item.receipts, &item.claim, &item.path, data, version).await? {
                Some(version) => item.version = version,
                None => return Ok(None),
            }
        }
        if self.max_deliveries.is_none_or(|limit| item.attempt() <= limit) {
            return Ok(Some(item));
        }
        let deliveries = item.attempt().saturating_sub(1);
        let why = format!("{deliveries} deliveries, none of them acknowledged");
        warn!(id = item.id(), deliveries, "an item is put aside");
        match item.put_aside(deliveries, &why).await {
            // Whoever claims it next puts it aside.
            Ok(()) | Err(Error::Lost) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The path of the claim to the item at a path.
fn claim_of(item: &str) -> String {
    format!("{item}/{CLAIM}")
}

/// Claims an item and reads it, in one flight unless others contend for it.
async fn claim(
    layout: QueueLayout,
    dead: QueueLayout,
    receipts: Receipts,
    name: String,
    is_contended: bool,
    returned: Returned,
) -> Result<Claimed<LockingDelivery>, Error> {
    let (zk, path) = (&layout.zk, layout.item(&name));
    let Some(ItemMeta { priority, id, times }) = layout.kind.meta(&name) else { return Ok(Claimed::Gone) };
    let on = claim_of(&path);
    // The data tell our claim from those of others when the answer is lost.
    let create = zk.create(&on).mode(CreateMode::Ephemeral).data(zk.new_guid()).protected_by_data().owned();
    let read = || zk.get_data(&path).with_stat().into_future();
    let (created, read) = if is_contended {
        (create.await, None)
    } else {
        let (created, read) = join(create.into_future(), read()).await;
        (created, Some(read))
    };
    let claim = match created {
        Ok(claim) => claim,
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Claimed::Gone),
        Err(error) if error.kind() == ErrorKind::NodeExists => return Ok(Claimed::Others(on)),
        Err(error) => return Err(error.into()),
    };
    let mut read = match read {
        Some(read) => read,
        None => zk.get_data(&path).with_stat().await,
    };
    let mut looks = 0..2;
    loop {
        let (data, stat) = match read {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Claimed::Gone),
            Err(error) => return Err(error.into()),
        };
        // It was read after our claim was there, which is the last child it has had.
        if stat.num_children > 1
            && let Some(path) = layout.foreign_child(&path, Some(CLAIM)).await?
        {
            // It could not be acknowledged.
            return Err(Error::Foreign { path });
        }
        if stat.pzxid == claim.stat().czxid {
            let claims = stat.cversion.wrapping_add(stat.num_children).cast_unsigned() / 2;
            let ownership = claim.ownership().clone();
            let attempt = times.saturating_add(claims);
            let stored = data;
            let (body, rejected) = redelivery::unwrap(&stored);
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0));
            let rejection = rejected.map(|(deliveries, why)| Rejection { deliveries, why, at });
            let data =
                layout.unpack(body.clone()).map_err(|why| Error::Corrupt { path: path.clone(), why })?;
            let what = Message { data, id: id.to_owned(), attempt, rejection, claim: ownership };
            let back = returned.on_drop(name.clone());
            let (is_redelivered, version) = (claims > 1, stat.version);
            let item = LockingDelivery {
                layout,
                dead,
                path,
                priority,
                stored,
                body,
                what,
                is_redelivered,
                version,
                claim,
                receipts,
                back,
            };
            return Ok(Claimed::Ours(Box::new(item)));
        }
        if looks.next().is_none() {
            // Somebody has deleted our claim.
            return Ok(Claimed::Gone);
        }
        read = layout.zk.get_data(&path).with_stat().await;
    }
}

/// An item in the hands of its consumer. Dropped, it goes back to its place in the queue.
#[must_use = "dropping it puts the item back"]
pub struct LockingDelivery {
    layout: QueueLayout,
    dead: QueueLayout,
    path: String,
    priority: i32,
    /// The data as they are stored.
    stored: Bytes,
    /// The same without what makes it a dead letter.
    body: Bytes,
    what: Message,
    /// Whether it was claimed at this place before: an earlier consumer may take itself for the present one.
    is_redelivered: bool,
    /// Of the data: another one for every consumer that it was handed out to.
    version: i32,
    claim: OwnedNode,
    receipts: Receipts,
    back: Back,
}

impl LockingDelivery {
    /// The item.
    #[must_use]
    pub const fn data(&self) -> &Bytes {
        &self.what.data
    }

    /// The same for as long as the item exists, also when it is put back or put aside: a UUID.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.what.id
    }

    /// The path of the item.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The priority that the item was put with.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        self.priority
    }

    /// How often the item was claimed, this time included: from 1.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.what.attempt
    }

    /// How the item became a dead letter, if it is one.
    #[must_use]
    pub const fn rejection(&self) -> Option<&Rejection> {
        self.what.rejection.as_ref()
    }

    /// All of that, without the duty to settle it.
    #[must_use]
    pub fn message(&self) -> Message {
        self.what.clone()
    }

    /// The claim: [`Ownership::fenced`] transactions are only applied while it is held.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        self.claim.ownership()
    }

    /// The fencing token of the claim: higher than that of everybody who had this item before.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.claim.ownership().fencing_token()
    }

    /// Resolves when the claim is lost: others get the item. To learn that somebody has deleted it, it leaves a watch,
    /// which costs one request.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.claim.ownership().lost().await;
    }

    /// The item is done with: removes it from the queue.
    ///
    /// # Errors
    /// * [`Error::Foreign`] when somebody has created another node below the item: it cannot be removed.
    /// * [`Error::Lost`] when the claim was lost: the item is handed out again, or was put back or removed by whoever
    ///   has had it since.
    /// * [`Error::Framework`] with `NoAuth` and the path of a receipt, without the
    ///   [right](LockingQueue#access-control) to create children of the queue. The item goes back to its place.
    /// * [`Error::Framework`] when it cannot be known, or the connection is lost for longer than the retry policy allows:
    ///   the item is removed, or handed out again.
    ///
    /// # Cancel safety
    /// The item is removed, or goes back to its place.
    pub async fn ack(self) -> Result<(), Error> {
        self.settle(None).await
    }

    /// Puts the item back at the end of the queue: behind all others of its priority. It keeps its id, and its count goes
    /// on. To put it back at its place, drop it.
    ///
    /// # Errors
    /// As [`ack`](Self::ack); the item is put back, or handed out again. An item so large that servers accept no receipt
    /// beside it is put back without: after a lost answer the error says
    /// [`may_have_applied`](zk_curator::Error::may_have_applied).
    ///
    /// # Cancel safety
    /// The item goes back to the end, or to its place.
    pub async fn requeue(self) -> Result<(), Error> {
        let put = self.put(self.layout.clone(), self.attempt(), self.stored.clone());
        self.settle(Some(put)).await
    }

    /// Puts the item aside, with the reason and the number of its deliveries: see [`LockingQueue::dead_letters`]. Of a longer
    /// reason the first 1,024 bytes are kept, and none where servers would not accept it along with the item.
    ///
    /// # Errors
    /// As [`requeue`](Self::requeue); the item is put aside, or handed out again.
    ///
    /// # Cancel safety
    /// The item is put aside, or goes back to its place.
    pub async fn reject(self, why: impl Into<String>) -> Result<(), Error> {
        let deliveries = self.attempt();
        // On the heap, for futures of callers that are small.
        Box::pin(self.put_aside(deliveries, &why.into())).await
    }

    async fn put_aside(self, deliveries: u32, why: &str) -> Result<(), Error> {
        let put = |data| Some(self.put(self.dead.clone(), 0, data));
        let with = |why| put(redelivery::wrap(deliveries, why, &self.body));
        // What servers do not accept with a reason, they accept without.
        let candidates = [with(why), with(""), put(redelivery::escape(self.body.clone()))];
        let fits = |put: &Option<Put>| {
            let fenced = self.ownership().fenced().uncompressed();
            let changed = changes(fenced, self.claim.path(), &self.path, self.version, put.as_ref());
            !matches!(changed.check_size(), Err(error) if error.kind() == ErrorKind::TooLarge)
        };
        let put = candidates.into_iter().find(fits).unwrap_or_else(|| with(""));
        self.settle(put).await
    }

    fn put(&self, to: QueueLayout, times: u32, data: Bytes) -> Put {
        let meta = ItemMeta { priority: self.priority, id: &self.what.id, times };
        Put { base: format!("{}{meta}", to.kind.tag()), target: PutTarget::as_long(&to.path), to, data }
    }

    async fn settle(self, mut put: Option<Put>) -> Result<(), Error> {
        let claim = self.claim.path().to_owned();
        let error = loop {
            if let Some(put) = &mut put {
                put.find_target(self.priority).await?;
            }
            let ending =
                |fenced: Transaction| changes(fenced, &claim, &self.path, self.version, put.as_ref());
            match (try_settle(&self.receipts, &self.claim, ending).await, &put) {
                (Ok(results), put) => {
                    drop(self.claim.leak());
                    self.back.never();
                    if let Some(put) = put {
                        put.done(self.priority, &results).await;
                    }
                    return Ok(());
                }
                (Err(error), Some(put)) if put.target.is_stale(&error) => put.retry(self.priority).await,
                (Err(error), _) => break error,
            }
        };
        Err(match error.kind() {
            // The claim is gone, or the item is another consumer's.
            _ if is_lost(&error, 0) || is_lost(&error, 1) => Error::Lost,
            ErrorKind::TransactionFailed { index: 1, code: ErrorCode::NotEmpty } => {
                match self.layout.foreign_child(&self.path, Some(CLAIM)).await? {
                    Some(path) => Error::Foreign { path },
                    None => Error::Lost,
                }
            }
            _ => error.into(),
        })
    }
}

/// Where an item is created anew, under which name, and with which data.
struct Put {
    to: QueueLayout,
    target: PutTarget,
    base: String,
    data: Bytes,
}

impl Put {
    async fn find_target(&mut self, priority: i32) -> Result<(), Error> {
        if let Some(buckets) = &self.to.buckets {
            // On the heap, for futures of callers that are small.
            self.target = Box::pin(buckets.target(&self.to, priority, 1)).await?;
        }
        Ok(())
    }

    async fn retry(&self, priority: i32) {
        if let Some(buckets) = &self.to.buckets {
            buckets.gone(priority, &self.target).await;
        }
    }

    async fn done(&self, priority: i32, results: &[OpResult]) {
        if let Some(buckets) = &self.to.buckets {
            buckets.put(priority, &self.target, results.iter().filter_map(OpResult::created_path)).await;
        }
    }
}

/// Removes an item, and creates it anew if it is to be.
fn changes(fenced: Transaction, claim: &str, path: &str, version: i32, put: Option<&Put>) -> Transaction {
    let removed = fenced.delete(claim).delete_if(path, version);
    let Some(Put { target, base, data, .. }) = put else { return removed };
    let anew = CreateOp::new(target.item(base)).mode(CreateMode::PersistentSequential);
    target.check(removed).with(anew.data(data.clone()))
}

impl fmt::Debug for LockingDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LockingDelivery");
        debug.field("path", &self.path).field("attempt", &self.what.attempt);
        debug.field("claim", &self.claim).finish()
    }
}
