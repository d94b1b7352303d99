use std::future::{Future, IntoFuture};
use std::time::{Duration, SystemTime};

use futures_util::future::join;
use tracing::warn;
use zk_curator::certain::ReceiptPool;
use zk_curator::{CreateMode, ErrorKind, Stat};

use super::locking_delivery::{ClaimedItem, Home, Locking, Message, StoredMessage};
use crate::queue::consume::claims::{ClaimKind, ClaimResult, Claims, Unclaimed};
use crate::queue::consume::consumer::Consumer;
use crate::queue::consume::delivery::Delivery;
use crate::queue::consume::kind::Finish;
use crate::queue::error::Error;
use crate::queue::feed::driver::FeedDriver;
use crate::queue::kinds::locking_delivery::LockingDelivery;
use crate::queue::wire::layout::QueueLayout;
use crate::queue::wire::name::{CLAIM, ItemMeta};
use crate::queue::wire::rejection::{self, Rejection};

impl Consumer<Locking> {
    pub(super) fn locking(feed: FeedDriver, home: Home, max_deliveries: Option<u32>) -> Self {
        let receipts = ReceiptPool::below(&home.items.layout.zk, home.items.layout.parent());
        Self::of(Claims::new(feed, Locking { home, max_deliveries }, receipts))
    }
}

impl ClaimKind for Locking {
    fn claimed_by(&self, layout: &QueueLayout, name: &str) -> Option<String> {
        Some(claim_of(&layout.item(name)))
    }

    fn claim(
        &self,
        item: Unclaimed,
    ) -> impl Future<Output = Result<ClaimResult<Self>, Error>> + Send + 'static {
        claim(item, self.home.clone(), self.max_deliveries)
    }

    fn admit(
        &self,
        item: Delivery<Self>,
    ) -> impl Future<Output = Result<Option<Delivery<Self>>, Error>> + Send + 'static {
        admit(item, self.max_deliveries)
    }

    fn finish(item: Delivery<Self>, done: Result<(), String>) -> Finish {
        let is_last = item.item.max_deliveries.is_some_and(|limit| item.attempt >= limit);
        match done {
            Ok(()) => Finish::done(item.ack()),
            Err(why) if is_last => Finish::now("an item became a dead letter", item.reject(why)),
            Err(_) => Finish::give_back(item),
        }
    }
}

/// Counts a delivery that is not the first before it is handed out, or puts the item aside.
async fn admit(
    mut item: LockingDelivery,
    max_deliveries: Option<u32>,
) -> Result<Option<LockingDelivery>, Error> {
    if max_deliveries.is_none_or(|limit| item.attempt() <= limit) {
        let is_ours = !item.item.is_redelivered || item.count().await?;
        return Ok(is_ours.then_some(item));
    }
    let deliveries = item.attempt().saturating_sub(1);
    let why = format!("{deliveries} deliveries, none of them acknowledged");
    warn!(id = item.id(), deliveries, "an item became a dead letter");
    match item.put_aside(deliveries, &why).await {
        // The next consumer that claims it puts it aside.
        Ok(()) | Err(Error::Lost { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path of the claim to the item at a path.
fn claim_of(item: &str) -> String {
    format!("{item}/{CLAIM}")
}

/// When the node was created, by the clock of the servers.
fn time_of(stat: &Stat) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0))
}

/// Claims an item and reads it, in one round trip unless others contend for it.
#[expect(clippy::too_many_lines, reason = "the steps of a claim in their order")]
async fn claim(
    item: Unclaimed,
    home: Home,
    max_deliveries: Option<u32>,
) -> Result<ClaimResult<Locking>, Error> {
    let Unclaimed { layout, name, is_contended, returned, receipts } = item;
    let (zk, path) = (&layout.zk, layout.item(&name));
    let Some(ItemMeta { priority, id, times }) = layout.kind.meta(&name) else {
        return Ok(ClaimResult::Gone);
    };
    let on = claim_of(&path);
    // The data tell our claim from those of others when the response is lost.
    let create =
        zk.create(&on).mode(CreateMode::Ephemeral).data(zk.new_guid()).protected_by_data().owned();
    let read = || zk.get_data(&path).with_stat().into_future();
    let (created, read) = if is_contended {
        (create.await, None)
    } else {
        let (created, read) = join(create.into_future(), read()).await;
        (created, Some(read))
    };
    let claim = match created {
        Ok(claim) => claim,
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(ClaimResult::Gone),
        Err(error) if error.kind() == ErrorKind::NodeExists => return Ok(ClaimResult::Others(on)),
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
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(ClaimResult::Gone),
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
            // Every delivery but the first has written the item. A claim that was given back
            // without a delivery has not.
            let deliveries = stat.version.cast_unsigned().saturating_add(2).min(claims);
            let (body, rejected) = rejection::unwrap(&data);
            let rejection =
                rejected.map(|(deliveries, why)| Rejection { deliveries, why, at: time_of(&stat) });
            let attempt = times.saturating_add(deliveries);
            let unpacked = layout.unpack(body.clone());
            let message = Message {
                data: unpacked.map_err(|why| Error::Corrupt { path: path.clone(), why })?,
                id: id.to_owned(),
                attempt,
                rejection,
                claim: claim.ownership().clone(),
            };
            let item = ClaimedItem {
                home,
                priority,
                stored: StoredMessage { data, body, version: stat.version },
                message,
                is_redelivered: claims > 1,
                max_deliveries,
                back: returned.on_drop(name.clone()),
            };
            let item = Delivery { claim, receipts, path, attempt, item };
            return Ok(ClaimResult::Ours(Box::new(item)));
        }
        if looks.next().is_none() {
            // Our claim was deleted.
            return Ok(ClaimResult::Gone);
        }
        read = layout.zk.get_data(&path).with_stat().await;
    }
}
