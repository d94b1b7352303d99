//! The engine of all consumers that take items under claims.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tracing::warn;
use zk_curator::op::Transaction;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorKind, OwnedNode};

use super::Error;
use super::feed::{Feed, Turn};
use super::redelivery::MOST_HELD;
use super::site::{Site, Started};

/// Claims the items of a feed in their order, a few ahead if the caller wants that.
pub(super) struct Claims<C: Claimer> {
    pub(super) feed: Feed,
    pub(super) claimer: C,
    pub(super) prefetch: usize,
    under_way: VecDeque<Claiming<C::Claim>>,
    /// The next, if nothing comes before it.
    held: Option<Held<C::Claim>>,
    returned: Returned,
}

/// How an item is claimed.
pub(super) trait Claimer: Sync {
    /// A claim: given back when it is dropped.
    type Claim: Send + 'static;

    /// Whether a claim is given back, and not handed out, when another item can be claimed by then that comes before it: in
    /// queues with priorities or times.
    const GIVES_WAY: bool;

    /// The node of a claim.
    fn node(claim: &Self::Claim) -> &OwnedNode;

    /// Claims the item with this name. What is to be put back when the claim is dropped notes its name in `returned`.
    fn claim(
        &self,
        site: Site,
        name: String,
        returned: Returned,
    ) -> impl Future<Output = Result<Claimed<Self::Claim>, Error>> + Send + 'static;

    /// The last step before an item is handed out; `None` if it is not to be.
    fn admit(&self, claim: Self::Claim) -> impl Future<Output = Result<Option<Self::Claim>, Error>> + Send {
        async { Ok(Some(claim)) }
    }
}

/// What has become of an attempt to claim an item.
pub(super) enum Claimed<T> {
    Ours(Box<T>),
    /// Somebody else has it, by the node at this path; with a watch on it, the item is tried again as soon as it fires.
    Others(String, Option<Watch>),
    /// Somebody was faster.
    Gone,
}

struct Claiming<T> {
    name: String,
    done: Started<Result<Claimed<T>, Error>>,
}

/// A claim that is handed out if nothing comes before it.
struct Held<T> {
    name: String,
    claim: Box<T>,
    look: Look,
}

/// What is known of the items that come before one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Nothing yet.
    Unknown,
    /// There are new items, and no list of them.
    New,
    /// The list is as new as the claim.
    Done,
}

/// The names of the items that were handed out and are back at their place.
#[derive(Debug, Clone, Default)]
pub(super) struct Returned(Arc<Mutex<Vec<String>>>);

impl Returned {
    /// Notes the name when it is dropped: for the field after the claim, which is deleted first.
    pub(super) fn on_drop(&self, name: String) -> Back {
        Back { name: Some(name), to: self.clone() }
    }

    fn take(&self) -> Vec<String> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An item that is back at its place when this is dropped.
pub(super) struct Back {
    name: Option<String>,
    to: Returned,
}

impl Back {
    /// The item is not back: it is settled.
    pub(super) fn never(mut self) {
        self.name = None;
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.to.0.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        }
    }
}

impl<C: Claimer> Claims<C> {
    pub(super) fn new(feed: Feed, claimer: C) -> Self {
        Self {
            feed,
            claimer,
            prefetch: 1,
            under_way: VecDeque::new(),
            held: None,
            returned: Returned::default(),
        }
    }

    /// The next item, however long it takes until there is one. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<C::Claim, Error> {
        let mut turn = None;
        loop {
            if let Some(claim) = self.of_list(&mut turn).await? {
                return Ok(claim);
            }
            self.feed.more(&mut turn).await?;
        }
    }

    /// The next item if there is one that nobody has claimed. Never waits for others.
    pub(super) async fn try_next(&mut self) -> Result<Option<C::Claim>, Error> {
        self.feed.unblock_unwatched();
        loop {
            if let Some(claim) = self.of_list(&mut None).await? {
                return Ok(Some(claim));
            }
            if !self.feed.look().await? {
                return Ok(None);
            }
        }
    }

    /// The next item of the list; `None` at its end.
    async fn of_list(&mut self, turn: &mut Turn) -> Result<Option<C::Claim>, Error> {
        // Once: it takes time to find them all claimed again.
        self.feed.try_stale();
        loop {
            if let Some(path) = self.feed.pop_foreign() {
                return Err(Error::Foreign { path });
            }
            self.feed.put_back(self.returned.take());
            poll_fn(|cx| {
                self.feed.poll_freed(cx);
                Poll::Ready(())
            })
            .await;
            self.look().await?;
            let in_hand = self.under_way.len();
            let held = self.held.as_ref().map(|held| held.name.as_str());
            let is_wanted = |feed: &Feed, name: &str| match held {
                Some(held) => C::GIVES_WAY && feed.can_be_reordered() && feed.is_before(name, held),
                None => true,
            };
            while self.under_way.len() < self.prefetch
                && let Some(name) = self.feed.pop_if(is_wanted)
            {
                let claim = self.claimer.claim(self.feed.site.clone(), name.clone(), self.returned.clone());
                self.under_way.push_back(Claiming { name, done: Started::new(claim) });
            }
            if self.under_way.len() > in_hand {
                // In the same flight.
                self.feed.start_check();
            }
            let first = self.under_way.front_mut();
            let Some(first) = first.filter(|first| is_wanted(&self.feed, &first.name)) else {
                let Some(held) = self.held.take() else { return Ok(None) };
                match self.admit(held).await? {
                    Some(claim) => {
                        self.feed.took(turn);
                        return Ok(Some(claim));
                    }
                    None => continue,
                }
            };
            let done = (&mut first.done).await;
            let Some(Claiming { name, .. }) = self.under_way.pop_front() else { continue };
            match done {
                Ok(Claimed::Ours(claim)) => {
                    if let Some(Held { name, claim, .. }) =
                        self.held.replace(Held { name, claim, look: Look::Unknown })
                    {
                        drop(claim);
                        self.feed.put_back([name]);
                    }
                }
                Ok(Claimed::Others(on, watch)) => self.feed.block_claimed(&name, on, watch),
                Ok(Claimed::Gone) => drop(self.feed.missed()),
                Err(error) => {
                    if matches!(error, Error::Corrupt { .. }) {
                        self.feed.put_aside(name);
                    } else {
                        self.feed.reset();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Finds out what comes before the claim that is held.
    async fn look(&mut self) -> Result<(), Error> {
        let Some(held) = &mut self.held else { return Ok(()) };
        if held.look == Look::Unknown {
            let is_new = self.feed.refreshed(true).await? && C::GIVES_WAY;
            held.look = if is_new { Look::New } else { Look::Done };
            if is_new {
                // What is claimed behind it may have to come later, too.
                self.under_way.clear();
            }
        }
        if held.look == Look::New {
            self.feed.list_others(&held.name).await?;
            held.look = Look::Done;
        }
        Ok(())
    }

    /// The last step before a claim is handed out. Dropped here, its item is the next again.
    async fn admit(&mut self, held: Held<C::Claim>) -> Result<Option<C::Claim>, Error> {
        // It was claimed for a call that was given up, or before the others were listed.
        if !C::node(&held.claim).is_ours() {
            self.feed.reset();
            return Ok(None);
        }
        // Noted after the claim is dropped, in this order.
        let (back, claim) = (self.returned.on_drop(held.name), held.claim);
        let admitted = self.claimer.admit(*claim).await;
        back.never();
        if admitted.is_err() {
            self.feed.reset();
        }
        admitted
    }
}

/// Ends a claim, all of it or nothing: with what `changes` does, which deletes the node of the claim among others.
/// After a lost answer that node says what has become of it, as long as its session lives.
///
/// Dropping the future leaves it applied, or the claim is given back.
pub(super) async fn settle(
    zk: &CuratorFramework,
    claim: OwnedNode,
    changes: impl Fn(Transaction) -> Transaction,
) -> zk_curator::Result<()> {
    loop {
        let Err(error) = changes(claim.ownership().fenced().uncompressed()).await else { break };
        if !error.may_have_applied() {
            return Err(error);
        }
        // The claim is deleted by the transaction, or by the end of the session.
        zk.sync(claim.path()).await.map_err(|_| error.clone())?;
        let there = zk.exists(claim.path()).await.map_err(|_| error.clone())?;
        if !claim.is_ours() {
            return Err(error);
        }
        if there.is_none_or(|stat| stat.czxid != claim.stat().czxid) {
            break;
        }
    }
    drop(claim.leak());
    Ok(())
}

/// Hands what comes from `source` to `body`, so many at a time, through every failure that passes. What `body` returns goes
/// on beside the others and does not count among them: it holds an item back.
pub(super) async fn run<S, T, B, Fut, W>(
    zk: &CuratorFramework,
    limit: usize,
    source: &mut S,
    next: impl AsyncFn(&mut S) -> Result<T, Error>,
    body: B,
) -> Result<(), Error>
where
    B: Fn(T) -> Fut,
    Fut: Future<Output = Option<W>>,
    W: Future<Output = ()>,
{
    let (mut running, mut held) = (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        let is_free = running.len() < limit.max(1) && held.len() < MOST_HELD;
        let next = tokio::select! {
            biased;
            Some(back) = running.next(), if !running.is_empty() => {
                held.extend(back);
                continue;
            }
            Some(()) = held.next(), if !held.is_empty() => continue,
            next = next(source), if is_free => next,
        };
        match next {
            Ok(item) => running.push(body(item)),
            Err(Error::Framework(error))
                if error.is_retryable() || error.kind() == ErrorKind::SessionExpired =>
            {
                warn!(%error, "consuming goes on when there is a connection");
                zk.wait_connected().await?;
            }
            Err(Error::Framework(error)) => return Err(error.into()),
            Err(error) => warn!(%error, "an item was not handed out"),
        }
    }
}
