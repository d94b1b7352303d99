use std::fmt;

use futures_util::future::join;
use tracing::debug;
use zk_curator::op::Transaction;
use zk_curator::watch::Watch;
use zk_curator::{ErrorCode, ErrorKind, EventType, FencingToken, OwnedNode, Ownership};

use super::Error;
use super::ready::{BarrierSite, Ready};
use super::rules::{self, Began, Leaving, READY};

/// A place in a round of a [`DistributedDoubleBarrier`](super::DistributedDoubleBarrier).
///
/// # Cancel safety
/// Dropping it leaves the round in the background, without waiting for the other members, which
/// treat this one as dead.
#[must_use = "dropping it gives the place in the round up, without waiting for the others"]
pub struct RoundPlace {
    place: BarrierSite,
    node: OwnedNode,
    began: Began,
    /// Fires when the node `ready` is deleted.
    end: Watch,
    /// A watch on our node from the time it waited: it ends with the node. Removing it would cost a
    /// request.
    own: Option<Watch>,
}

impl RoundPlace {
    pub(super) fn new(
        place: BarrierSite,
        node: OwnedNode,
        ready: Ready,
        own: Option<Watch>,
    ) -> Self {
        let Ready { began, end } = ready;
        Self { place, node, began, end, own }
    }

    /// The path of our node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Returns the number of the round, which is the same for all its members, and higher than the
    /// numbers of all earlier rounds.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        FencingToken::new(self.began.czxid)
    }

    /// Our place, without the duty to give it up; cheap to clone and to give to tasks.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        self.node.ownership()
    }

    /// Resolves when this member may have lost its place, so that the other members may end the
    /// round without it: see [`Ownership::lost`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.node.ownership().lost().await;
    }

    /// Begins a transaction that is only applied while we are in the round: see
    /// [`Ownership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.node.ownership().fenced()
    }

    /// Says that we are done, and waits until every member of the round is, or has died, however
    /// long it takes.
    ///
    /// # Errors
    /// * [`Error::Lost`] if our node is gone: the other members did not wait for this one.
    /// * [`Error::Framework`], as for a read or a delete. The other members no longer wait for this
    ///   one.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the round in the background, without waiting for the other
    /// members.
    pub async fn leave(self) -> Result<(), Error> {
        let Self { place, node, began, end, own: _own } = self;
        if !node.is_ours() {
            return Err(place.loss());
        }
        // All of them were there when the round began. Curator does not say who they are.
        let mut left = match began.members {
            Some(members) => members,
            None => members(&place.children().await?),
        };
        let mut leaver = Leaver { place, node: Some(node), end: Some(end), czxid: began.czxid };
        loop {
            match rules::leaving(&left, leaver.node.as_ref().map(OwnedNode::name)) {
                Leaving::Over => return Ok(()),
                Leaving::Lost => return Err(leaver.place.loss()),
                Leaving::Last => return Box::pin(leaver.finish()).await, // 4
                Leaving::Stay { on } => leaver.stay(on).await?,          // 4
                Leaving::Withdraw { on } => {
                    let lowest = Box::pin(leaver.withdraw(on)).await?; // 5
                    if leaver.is_over(lowest).await && rules::all_ours(&left) {
                        return Ok(()); // 6
                    }
                }
                Leaving::Wait { on } => {
                    let lowest = leaver.place.watch(on).await?; // 6
                    if leaver.is_over(lowest).await && rules::all_ours(&left) {
                        return Ok(());
                    }
                }
            }
            left = leaver.still_there(left).await?;
        }
    }
}

impl fmt::Debug for RoundPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoundPlace")
            .field("node", &self.node)
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}

/// A member on its way out. Dropped, it is gone.
struct Leaver {
    place: BarrierSite,
    /// Nothing once it is deleted.
    node: Option<OwnedNode>,
    /// Fires when the node `ready` is deleted; nothing once it has.
    end: Option<Watch>,
    /// The transaction that created the node `ready`.
    czxid: i64,
}

impl Leaver {
    /// Waits, as the lowest, until something has happened to the highest.
    async fn stay(&self, highest: &str) -> Result<(), Error> {
        let Some(node) = &self.node else { return Ok(()) };
        let session_lost = node.ownership().session_lost();
        let Some(watch) = self.place.watch(highest).await? else { return Ok(()) };
        tokio::select! {
            biased;
            () = session_lost => Err(self.place.loss()),
            // Whatever has happened: look.
            _ = watch => Ok(()),
        }
    }

    /// Watches the lowest member, if it exists, and deletes our node, in one round trip.
    async fn withdraw(&mut self, lowest: &str) -> Result<Option<Watch>, Error> {
        let Some(node) = self.node.take() else { return Ok(None) };
        let ownership = node.ownership().clone();
        let (watch, deleted) = join(self.place.watch(lowest), node.delete()).await;
        match deleted {
            Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::SessionExpired) => {
                return Err(self.place.loss());
            }
            // Gone in any case, by the delete or with its session.
            Err(error) if error.may_have_applied() && ownership.is_session_lost() => {}
            deleted => deleted?,
        }
        Ok(watch?)
    }

    /// Waits until the lowest is gone, or the node `ready`: whether it was the latter.
    ///
    /// The lowest member deletes both in one round trip, `ready` first.
    async fn is_over(&mut self, lowest: Option<Watch>) -> bool {
        let Some(lowest) = lowest else { return false };
        let end = async {
            match &mut self.end {
                Some(end) => end.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = end => {
                self.end = None;
                event.is_ok_and(|event| event.event_type == EventType::NodeDeleted)
            }
            _ = lowest => false,
        }
    }

    /// Returns those of these members that still exist. If none exists, the node `ready` is no
    /// longer needed.
    async fn still_there(&self, mut left: Vec<String>) -> Result<Vec<String>, Error> {
        // A later session than that of our node may be connected to a server that does not show the
        // other members yet.
        let children = match &self.node {
            Some(_) => self.place.children().await?,
            None => self.place.newest_children().await?,
        };
        let now = members(&children);
        left.retain(|name| now.binary_search(name).is_ok());
        if left.is_empty() && children.iter().any(|name| name == READY) {
            debug!(path = %self.place.path, "the last member of the round has died");
            self.place.sweep(self.czxid).await?;
        }
        Ok(left)
    }

    /// Ends the round, as the last member.
    async fn finish(mut self) -> Result<(), Error> {
        let Some(mut node) = self.node.take() else { return Ok(()) };
        // Once we have tried, it does not matter how our node went; but it may be gone whatever
        // fails afterwards.
        let mut tried: Option<zk_curator::Error> = None;
        loop {
            let transaction =
                self.place.zk.transaction().delete(self.place.ready()).delete(node.path());
            let Err(error) = transaction.commit().await else { break };
            match error.kind() {
                // Another member has deleted `ready`: Curator's members do so.
                ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NoNode }
                    if node.is_ours() =>
                {
                    return match node.delete().await {
                        Err(error) if error.kind() != ErrorKind::NoNode => {
                            Err(tried.unwrap_or(error).into())
                        }
                        Err(_) if tried.is_none() => Err(self.place.loss()),
                        _ => Ok(()),
                    };
                }
                ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. } if tried.is_some() => {
                    break;
                }
                ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. } => {
                    return Err(self.place.loss());
                }
                _ if error.may_have_applied() => tried = Some(error),
                _ if node.is_ours() => return Err(tried.unwrap_or(error).into()),
                _ if tried.is_some() => break,
                _ => return Err(self.place.loss()),
            }
        }
        node.renew_ownership();
        drop(node.leak());
        Ok(())
    }
}

/// The members among the children, sorted by name.
fn members(children: &[String]) -> Vec<String> {
    let mut members: Vec<_> = children.iter().filter(|name| *name != READY).cloned().collect();
    members.sort_unstable();
    members
}
