use std::fmt;
use std::future::{Future, IntoFuture, pending};
use std::time::{Duration, SystemTime};

use futures_util::future::join;
use futures_util::stream::Stream;
use tokio::time::timeout;
use tracing::warn;
use zk_curator::{CreateMode, ErrorKind, OwnedNode};

use super::delivery::{CLAIM, Home, LockingDelivery, Message, Stored};
use crate::queue::core::name::ItemMeta;
use crate::queue::driver::{
    self, Claimed, Claimer, Claims, FeedDriver, Returned, log_unsettled, unless_lost,
};
use crate::queue::error::Error;
use crate::queue::layout::QueueLayout;
use crate::queue::redelivery::{self, Backoff, Rejection};

/// Takes the items of a [`LockingQueue`](super::LockingQueue), each under a claim.
///
/// # Cancel safety
/// Dropping it gives back the items that it has claimed and not handed out.
pub struct LockingConsumer {
    claims: Claims<OnItems>,
    backoff: Backoff,
}

impl LockingConsumer {
    pub(super) fn new(feed: FeedDriver, home: Home, max_deliveries: Option<u32>) -> Self {
        let claims = Claims::new(feed, OnItems { home, max_deliveries });
        Self { claims, backoff: Backoff::default() }
    }

    /// Sets the number of items that are claimed at a time, from 1. Claimed items are kept from others until they are handed out.
    /// Default: 1.
    #[must_use]
    pub fn prefetch(mut self, items: usize) -> Self {
        self.claims.prefetch(items);
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
        driver::next(&mut self.claims).await
    }

    /// The next item if there is one that nobody has claimed, `None` if not. Never waits for others.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub async fn try_next(&mut self) -> Result<Option<LockingDelivery>, Error> {
        driver::try_next(&mut self.claims).await
    }

    /// The items as a stream, which does not end. An error is not the end either.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream is dropping the consumer.
    pub fn into_stream(self) -> impl Stream<Item = Result<LockingDelivery, Error>> + Send {
        driver::into_stream(self.claims)
    }

    /// Hands every item to `body`, so many at a time at most, from 1. An item is acknowledged when `body` is done with
    /// it. When `body` fails, it goes back to its place after [a while](Self::redeliver_after), in which those behind it are
    /// handed out; after its [last delivery](super::LockingQueue::max_deliveries) it is put aside, with the error as the reason.
    /// While 64 items are held back, no other is taken. `body` is dropped when the claim is lost.
    ///
    /// # Errors
    /// `Closed`, and what else no repetition mends. What [`next`](Self::next) reports of single items, and items whose
    /// claim was lost, are logged as warnings.
    ///
    /// # Cancel safety
    /// The items of `body` go back to their places.
    pub async fn run<F, Fut, E>(self, limit: usize, body: F) -> Result<(), Error>
    where
        F: Fn(Message) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        self.run_until(limit, pending(), Duration::ZERO, body).await
    }

    /// As [`run`](Self::run), until `stop`: no item is claimed after that, and the items in hand may be worked off for as long as
    /// `drain`; what `body` has failed with goes back at once. Then the rest is dropped and goes back to its place, which counts as a
    /// delivery. Returns when all of it is there again, or the session is over. See
    /// [the graceful stop](crate::queue#a-graceful-stop).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until<F, Fut, E>(
        self,
        limit: usize,
        stop: impl Future<Output = ()>,
        drain: Duration,
        body: F,
    ) -> Result<(), Error>
    where
        F: Fn(Message) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let zk = self.claims.feed.layout.zk.clone();
        let (backoff, limit_of_item) = (self.backoff, self.claims.claimer.max_deliveries);
        let each = |item: LockingDelivery| async {
            let (id, attempt) = (item.id().to_owned(), item.attempt());
            let done = unless_lost(&id, item.lost(), body(item.message())).await?;
            let settled = match done {
                Ok(()) => item.ack().await,
                Err(error) if limit_of_item.is_some_and(|limit| attempt >= limit) => {
                    warn!(id, attempt, %error, "an item is put aside");
                    item.reject(error.to_string()).await
                }
                Err(error) => {
                    let delay = backoff.after(attempt, &zk);
                    warn!(id, attempt, ?delay, %error, "an item goes back to its place");
                    let claim = item.ownership().clone();
                    let time = async move { drop(timeout(delay, claim.over()).await) };
                    return Some((time, async move { drop(item) }));
                }
            };
            log_unsettled(&id, settled);
            None
        };
        driver::run(self.claims, limit, (stop, drain), each).await
    }
}

impl fmt::Debug for LockingConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockingConsumer").field("layout", &self.claims.feed.layout).finish_non_exhaustive()
    }
}

/// Claims are children of the items.
struct OnItems {
    home: Home,
    max_deliveries: Option<u32>,
}

impl Claimer for OnItems {
    type Claim = LockingDelivery;
    // It would count as a delivery.
    const GIVES_WAY: bool = false;

    fn attempt(claim: &LockingDelivery) -> u32 {
        claim.attempt()
    }

    fn node(claim: &LockingDelivery) -> &OwnedNode {
        claim.node()
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
        claim(layout, self.home.clone(), name, is_contended, returned)
    }

    async fn admit(&self, mut item: LockingDelivery) -> Result<Option<LockingDelivery>, Error> {
        if item.is_redelivered && !item.count().await? {
            return Ok(None);
        }
        if self.max_deliveries.is_none_or(|limit| item.attempt() <= limit) {
            return Ok(Some(item));
        }
        let deliveries = item.attempt().saturating_sub(1);
        let why = format!("{deliveries} deliveries, none of them acknowledged");
        warn!(id = item.id(), deliveries, "an item is put aside");
        match item.put_aside(deliveries, &why).await {
            // The next consumer that claims it puts it aside.
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
    home: Home,
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
            let (body, rejected) = redelivery::unwrap(&data);
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0));
            let message = Message {
                data: layout
                    .unpack(body.clone())
                    .map_err(|why| Error::Corrupt { path: path.clone(), why })?,
                id: id.to_owned(),
                attempt: times.saturating_add(claims),
                rejection: rejected.map(|(deliveries, why)| Rejection { deliveries, why, at }),
                claim: claim.ownership().clone(),
            };
            let back = returned.on_drop(name.clone());
            let stored = Stored { data, body, version: stat.version };
            let is_redelivered = claims > 1;
            let item = LockingDelivery { home, path, priority, stored, message, is_redelivered, claim, back };
            return Ok(Claimed::Ours(Box::new(item)));
        }
        if looks.next().is_none() {
            // Our claim was deleted.
            return Ok(Claimed::Gone);
        }
        read = layout.zk.get_data(&path).with_stat().await;
    }
}
