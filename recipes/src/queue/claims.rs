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
use super::site::{Site, Started};

/// Claims the items of a feed in their order, a few ahead if the caller wants that.
pub(super) struct Claims<C: Claimer> {
    pub(super) feed: Feed,
    pub(super) claimer: C,
    pub(super) prefetch: usize,
    under_way: VecDeque<Claiming<C::Claim>>,
    returned: Returned,
}

/// How an item is claimed.
pub(super) trait Claimer: Sync {
    /// A claim: given back when it is dropped.
    type Claim: Send + 'static;

    /// Whether a claim is given back, and not handed out, when there are items by then that come before it.
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
        Self { feed, claimer, prefetch: 1, under_way: VecDeque::new(), returned: Returned::default() }
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
            let in_hand = self.under_way.len();
            while self.under_way.len() < self.prefetch
                && let Some(name) = self.feed.pop()
            {
                let claim = self.claimer.claim(self.feed.site.clone(), name.clone(), self.returned.clone());
                self.under_way.push_back(Claiming { name, done: Started::new(claim) });
            }
            if self.under_way.len() > in_hand {
                // In the same flight.
                self.feed.start_check();
            }
            let Some(first) = self.under_way.front_mut() else { return Ok(None) };
            let done = (&mut first.done).await;
            let Some(Claiming { name, .. }) = self.under_way.pop_front() else { continue };
            match done {
                // Claimed for a call that was given up, and lost with its session since.
                Ok(Claimed::Ours(claim)) if !C::node(&claim).is_ours() => self.feed.reset(),
                Ok(Claimed::Ours(claim)) => {
                    let in_hand: Vec<String> = std::iter::once(name.clone())
                        .chain(self.under_way.iter().map(|claiming| claiming.name.clone()))
                        .collect();
                    // Dropped here, the item is the next again: noted after the claim is dropped, in this order.
                    let (back, claim) = (self.returned.on_drop(name), claim);
                    if self.feed.refreshed(true).await?
                        && C::GIVES_WAY
                        && self.feed.has_better(&in_hand).await?
                    {
                        self.under_way.clear();
                        back.never();
                        continue;
                    }
                    let admitted = self.claimer.admit(*claim).await;
                    back.never();
                    match admitted {
                        Ok(Some(claim)) => {
                            self.feed.took(turn);
                            return Ok(Some(claim));
                        }
                        Ok(None) => {}
                        Err(error) => {
                            self.feed.reset();
                            return Err(error);
                        }
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
        let Err(error) = changes(claim.ownership().fenced()).await else { break };
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

/// Hands what comes from `source` to `body`, so many at a time, through every failure that passes.
pub(super) async fn run<S, T, B, Fut>(
    zk: &CuratorFramework,
    limit: usize,
    source: &mut S,
    next: impl AsyncFn(&mut S) -> Result<T, Error>,
    body: B,
) -> Result<(), Error>
where
    B: Fn(T) -> Fut,
    Fut: Future<Output = ()>,
{
    let mut running = FuturesUnordered::new();
    loop {
        let next = tokio::select! {
            biased;
            Some(()) = running.next(), if !running.is_empty() => continue,
            next = next(source), if running.len() < limit.max(1) => next,
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
