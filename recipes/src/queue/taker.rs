use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::debug;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind, OwnedNode, Stat};

use super::feed::{Feed, Turn};
use super::name::Kind;
use super::site::{Site, Started};
use super::{Error, codec};
use crate::contender::child;

/// How long it is believed that nothing new has come.
const FRESH: Duration = Duration::from_millis(100);
/// How many items are read ahead, unless it is said otherwise.
const READ_AHEAD: usize = 16;

/// What was taken from a queue, and is not in it any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The path of the node that it was.
    pub path: String,
    /// The data: one item, unless several were [put as one](super::CuratorQueue::put_multi).
    pub items: Vec<Bytes>,
}

/// Takes items from a queue, in their order: each is **removed, then handed out**. So it is handed out at most once, as by
/// Apache Curator's queues without a lock path: whoever crashes with an item in its hands has lost it. A
/// [`Consumer`](super::Consumer) is for items that must not get lost.
///
/// # Cost
/// An item costs a read and a delete, and one flight, because items are read ahead; a listing is worked through before the
/// queue is listed anew. Items that others take meanwhile cost a read.
///
/// # Cancel safety
/// What a dropped [`next`](Self::next) has removed comes from the next one. Dropping the taker loses what it has removed and
/// not handed out, at most as many items as its [window of deletes](Self::delete_window).
pub struct Taker {
    feed: Feed,
    how: How,
    read_ahead: usize,
    /// How many are read ahead now: more while they are wanted.
    window: usize,
    delete_window: usize,
    fetches: VecDeque<Fetch>,
    removals: VecDeque<Removal>,
    /// When the last item was handed out.
    handed_out: Option<Instant>,
}

/// How items are removed.
pub(super) enum How {
    /// By a delete.
    Delete,
    /// With a receipt in our node among the items, for which the feed has to be guarded: a lost answer can then be found
    /// out. One at a time, for it tells of the last only.
    Receipt(Option<Unsures>),
}

/// What to do about items whose producer is not sure of them yet.
pub(super) struct Unsures {
    pub(super) producers: ZPath,
    /// Whether nothing behind them may be taken.
    pub(super) strict: bool,
}

struct Fetch {
    name: String,
    read: Started<Result<(Bytes, Stat), zk_curator::Error>>,
}

struct Removal {
    item: Item,
    done: Started<Result<Removed, zk_curator::Error>>,
}

/// What has become of an item.
enum Removed {
    /// We have removed it.
    Ours,
    /// Somebody else has.
    Others,
    /// It is still there.
    Not,
}

impl Taker {
    pub(super) const fn new(feed: Feed, how: How) -> Self {
        Self {
            feed,
            how,
            read_ahead: READ_AHEAD,
            window: 1,
            delete_window: 1,
            fetches: VecDeque::new(),
            removals: VecDeque::new(),
            handed_out: None,
        }
    }

    /// How many items are read ahead at most, from 1; they are in memory meanwhile. Default: 16.
    #[must_use]
    pub fn read_ahead(mut self, items: usize) -> Self {
        self.read_ahead = items.max(1);
        self
    }

    /// How many items are removed at a time, from 1. More than 1, and a crash loses as many items that were removed and not
    /// handed out; but the network is waited for once for all of them. Default: 1.
    #[must_use]
    pub fn delete_window(mut self, items: usize) -> Self {
        self.delete_window = items.max(1);
        self.read_ahead = self.read_ahead.max(self.delete_window);
        self.window = self.delete_window;
        self
    }

    /// The next item, however long it takes until there is one.
    ///
    /// # Errors
    /// None of them ends the taker: it may be called again.
    /// * [`Error::Corrupt`] for an item that cannot be read, once; it stays where it is.
    /// * [`Error::Foreign`] for a node that is no item, once; it stays where it is.
    /// * [`Error::Unknown`] when the answer to the delete of an item was lost, and it is gone since.
    /// * [`Error::Framework`] when an operation fails for longer than the retry policy allows; nothing was taken.
    ///
    /// # Cancel safety
    /// Nothing is lost: an item that was removed meanwhile is the next.
    pub async fn next(&mut self) -> Result<Item, Error> {
        let mut turn = None;
        loop {
            if let Some(item) = self.of_list(&mut turn).await? {
                return Ok(item);
            }
            self.feed.more(&mut turn).await?;
        }
    }

    /// The next item if there is one, `None` if not. Never waits for others.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub async fn try_next(&mut self) -> Result<Option<Item>, Error> {
        self.feed.unblock();
        loop {
            if let Some(item) = self.of_list(&mut None).await? {
                return Ok(Some(item));
            }
            if self.feed.is_blocked() || !self.feed.look().await? {
                return Ok(None);
            }
        }
    }

    /// Whether something was removed that is not handed out yet.
    pub(super) fn has_removed(&self) -> bool {
        !self.removals.is_empty()
    }

    /// The next item of the list; `None` at its end.
    async fn of_list(&mut self, turn: &mut Turn) -> Result<Option<Item>, Error> {
        loop {
            if let Some(path) = self.feed.pop_foreign() {
                return Err(Error::Foreign { path });
            }
            self.fill(turn).await?;
            let Some(removal) = self.removals.front_mut() else {
                self.window = self.delete_window;
                return Ok(None);
            };
            let removed = (&mut removal.done).await;
            let Some(Removal { item, .. }) = self.removals.pop_front() else { continue };
            match removed {
                Ok(Removed::Ours) => {
                    self.window = (self.window * 2).min(self.read_ahead);
                    self.handed_out = Some(Instant::now());
                    return Ok(Some(item));
                }
                Ok(Removed::Others) => self.missed(),
                Ok(Removed::Not) => {
                    self.feed.unguard();
                    self.reset();
                }
                Err(error) if error.may_have_applied() => {
                    return Err(Error::Unknown { item: Box::new(item), why: error });
                }
                Err(error) => {
                    self.reset();
                    return Err(error.into());
                }
            }
        }
    }

    fn reset(&mut self) {
        self.feed.reset();
        self.fetches.clear();
    }

    fn missed(&mut self) {
        if self.feed.missed() {
            self.fetches.clear();
        }
    }

    /// Reads ahead, and begins to remove what has been read.
    async fn fill(&mut self, turn: &mut Turn) -> Result<(), Error> {
        if self.handed_out.take().is_some_and(|at| at.elapsed() > FRESH) {
            self.feed.start_check();
        }
        if !self.feed.is_guarded() {
            // What was read may be of a queue that is gone.
            self.reset();
        }
        if self.removals.is_empty() && self.feed.refreshed(!self.fetches.is_empty()).await? {
            self.fetches.clear();
        }
        self.fetch();
        while self.removals.len() < self.delete_window {
            if self.fetches.is_empty() {
                return Ok(());
            }
            let Some(fetch) = self.fetches.front_mut() else { return Ok(()) };
            let read = (&mut fetch.read).await;
            let Some(Fetch { name, .. }) = self.fetches.pop_front() else { return Ok(()) };
            match read {
                Ok((data, stat)) => self.found(name, data, &stat, turn).await?,
                Err(error) if error.kind() == ErrorKind::NoNode => self.missed(),
                Err(error) => {
                    self.reset();
                    return Err(error.into());
                }
            }
            // In the same flight.
            self.fetch();
        }
        Ok(())
    }

    fn fetch(&mut self) {
        while self.fetches.len() < self.window
            && let Some(name) = self.feed.pop()
        {
            let site = &self.feed.site;
            let read = Started::new(site.zk.get_data(site.item(&name)).with_stat().into_future());
            self.fetches.push_back(Fetch { name, read });
        }
    }

    /// An item has been read.
    async fn found(&mut self, name: String, data: Bytes, stat: &Stat, turn: &mut Turn) -> Result<(), Error> {
        let site = self.feed.site.clone();
        let path = site.item(&name);
        if let How::Receipt(Some(Unsures { producers, strict })) = &self.how
            && is_unsure(&name, stat)
        {
            let (producer, strict) = (producer(producers, &data), *strict);
            self.unsure(&name, path, &producer, strict).await?;
            return Ok(());
        }
        let items = match site.kind {
            Kind::Simple | Kind::Fifo => vec![data],
            _ => match codec::decode(&data) {
                Ok(items) => items,
                Err(why) => {
                    debug!(path, %why, "a corrupt item stays where it is");
                    self.feed.put_aside(name);
                    return Err(Error::Corrupt { path, why });
                }
            },
        };
        let done = match (&self.how, self.feed.guard()) {
            (How::Delete, _) => Started::new(delete(site.zk, path.clone(), *stat)),
            (How::Receipt(_), Some(receipt)) => {
                let receipt = Arc::clone(receipt);
                Started::new(delete_with_receipt(site.zk, path.clone(), *stat, receipt, name))
            }
            // It is gone with its session, since the item was listed.
            (How::Receipt(_), None) => {
                self.reset();
                return Ok(());
            }
        };
        self.removals.push_back(Removal { item: Item { path, items }, done });
        self.feed.took(turn);
        self.feed.start_check();
        Ok(())
    }

    /// An item of whose enqueueing its producer is not sure yet. Without its producer it will never be.
    async fn unsure(&mut self, name: &str, path: String, producer: &str, strict: bool) -> Result<(), Error> {
        if strict {
            self.fetches.clear();
        }
        self.feed.block(name, path.clone(), strict);
        self.feed.block(name, producer.to_owned(), strict);
        let zk = self.feed.site.zk.clone();
        if zk.exists(producer).await?.is_some() {
            return Ok(());
        }
        // The server may lag behind.
        zk.sync(producer).await?;
        if zk.exists(producer).await?.is_some() {
            return Ok(());
        }
        match zk.delete(&path).version(0).await {
            Ok(()) => debug!(path, "removed what a dead producer has left"),
            // Its producer was sure in the end, or somebody else has removed it: see again.
            Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => {}
            Err(error) if error.may_have_applied() => {}
            Err(error) => return Err(error.into()),
        }
        self.feed.unblock_item(name);
        self.reset();
        Ok(())
    }

    /// Hands every item to `body`, so many at a time at most, from 1. Ends with an error that does not pass; what `body`
    /// has in its hands then is dropped, with `body`.
    ///
    /// # Errors
    /// `Closed`, and what else no repetition mends. What [`next`](Self::next) reports of single items is logged as a
    /// warning.
    ///
    /// # Cancel safety
    /// What `body` has in its hands is lost, as when it panics.
    pub async fn run<F, Fut>(mut self, limit: usize, body: F) -> Result<(), Error>
    where
        F: Fn(Bytes) -> Fut,
        Fut: Future<Output = ()>,
    {
        let zk = self.feed.site.zk.clone();
        let each = |item: Item| async {
            for item in item.items {
                body(item).await;
            }
        };
        super::claims::run(&zk, limit, &mut self, async |taker: &mut Self| taker.next().await, each).await
    }
}

impl fmt::Debug for Taker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taker").field("site", &self.feed.site).finish_non_exhaustive()
    }
}

/// Whether the producer of an item is not sure yet that it is in the queue: it has created the node and not written it.
fn is_unsure(name: &str, stat: &Stat) -> bool {
    name.starts_with("_c_") && stat.version == 0
}

/// The node of the producer of an item.
fn producer(producers: &ZPath, data: &Bytes) -> String {
    let name = String::from_utf8_lossy(data);
    // Whatever is written there, it is a name.
    let name: String =
        name.chars().filter(|char| char.is_ascii_alphanumeric() || "_-".contains(*char)).collect();
    child(producers, if name.is_empty() { "none" } else { &name })
}

/// Removes an item. After a lost answer it is ours if it can be removed again; if it is gone instead, nobody can tell.
async fn delete(zk: CuratorFramework, path: String, stat: Stat) -> Result<Removed, zk_curator::Error> {
    let error = match zk.delete(&path).version(stat.version).await {
        Ok(()) => return Ok(Removed::Ours),
        Err(error) => error,
    };
    if error.may_have_applied() {
        zk.sync(&path).await.map_err(|_| error.clone())?;
        let there = zk.exists(&path).await.map_err(|_| error.clone())?;
        return if there.is_some_and(|there| there.czxid == stat.czxid) {
            Ok(Removed::Not)
        } else {
            Err(error)
        };
    }
    refused(error)
}

fn refused(error: zk_curator::Error) -> Result<Removed, zk_curator::Error> {
    match error.kind() {
        ErrorKind::NoNode => Ok(Removed::Others),
        // It has changed since it was read.
        ErrorKind::BadVersion => Ok(Removed::Not),
        _ => Err(error),
    }
}

/// Removes an item and writes its name into our receipt, or neither: that says what has become of it after a lost answer,
/// as long as our session lives.
async fn delete_with_receipt(
    zk: CuratorFramework,
    path: String,
    stat: Stat,
    receipt: Arc<OwnedNode>,
    name: String,
) -> Result<Removed, zk_curator::Error> {
    loop {
        let delete = zk.transaction().delete_if(&path, stat.version).set_data(receipt.path(), name.clone());
        let Err(error) = delete.await else { return Ok(Removed::Ours) };
        if !error.may_have_applied() {
            return match error.kind() {
                ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NoNode } => Ok(Removed::Others),
                // Changed since it was read, or our receipt is gone with its session: see again.
                ErrorKind::TransactionFailed { .. } => Ok(Removed::Not),
                _ => Err(error),
            };
        }
        zk.sync(receipt.path()).await.map_err(|_| error.clone())?;
        // Without our receipt nobody can tell.
        let written = zk.get_data(receipt.path()).await.map_err(|_| error.clone())?;
        if written == name {
            return Ok(Removed::Ours);
        }
        // Not applied, and it cannot be any more.
    }
}

/// A taker on the items of a site, as Curator's.
pub(super) const fn of_curator(site: Site, line: Option<ZPath>, refresh_after: u32) -> Taker {
    Taker::new(Feed::new(site, line, refresh_after), How::Delete)
}

/// A taker on the items of a site that leaves receipts.
pub(super) fn with_receipts(site: Site, line: Option<ZPath>, unsures: Option<Unsures>) -> Taker {
    Taker::new(Feed::new(site, line, 1).guarded(), How::Receipt(unsures))
}
