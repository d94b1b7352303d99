use std::fmt;
use std::future::pending;

use tracing::info;
use zk_curator::op::Transaction;
use zk_curator::watch::{Watch, Watched};
use zk_curator::{
    ConnectionState, ConnectionStatus, CuratorFramework, Error, FencingToken, OwnedNode, Ownership,
    SessionId,
};

use crate::contender::KeptWatch;
use crate::measure::MeasuredHold;

/// Leadership for one term: until it is [over](Self::is_over). Cheap to clone and to give to
/// tasks; without the duty to resign.
#[derive(Clone)]
pub struct Leadership {
    zk: CuratorFramework,
    ownership: Ownership,
    /// The state of the connection in which it began: see [`ConnectionStatus::epoch`].
    since: u64,
    /// `true` if a task waits in [`lost_by`](Self::lost_by), on behalf of all, until the node is
    /// gone.
    is_watched: bool,
}

impl Leadership {
    /// Begins a term with a node that is first in its queue, and stays first as long as it exists.
    /// Returns `None` if it is no longer ours.
    ///
    /// A candidate that relied only on a notification could lead with a node that another client
    /// has deleted during the wait, or with a node of an ended session (CURATOR-696). So a watch
    /// that has not fired must prove that the node exists: `kept`, if it was set on this
    /// connection. Otherwise the node is read again. The watch is for [`lost_by`](Self::lost_by).
    pub(super) async fn begin(
        zk: &CuratorFramework,
        node: &OwnedNode,
        kept: Option<KeptWatch>,
    ) -> Result<Option<(Self, Watch)>, Error> {
        let term = |since| Self {
            zk: zk.clone(),
            ownership: node.ownership().clone(),
            since,
            is_watched: false,
        };
        if let Some(mut kept) = kept
            && is_writable(&zk.status())
            && node.is_ours()
            && kept.holds(zk)
        {
            return Ok(Some((term(kept.since), kept.watch)));
        }
        while node.is_ours() {
            let mut states = zk.states();
            let status = tokio::select! {
                biased;
                () = node.ownership().session_lost() => None,
                status = states.until(is_writable) => status,
            };
            let Some(ConnectionStatus { epoch: since, .. }) = status else { break };
            match zk.exists(node.path()).watched().await {
                Ok(Watched { value: Some(stat), watch, .. })
                    if stat.czxid == node.stat().czxid && node.is_ours() =>
                {
                    if zk.status().epoch == since {
                        return Ok(Some((term(since), watch)));
                    }
                }
                Ok(_) => break,
                Err(error) => zk.wait_for_recovery(error).await?,
            }
        }
        Ok(None)
    }

    /// The path of the leader's node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.ownership.path()
    }

    /// Returns the fencing token, which is higher than the tokens of all earlier leaders. The terms
    /// of one node before and after a suspended connection have the same token, because no other
    /// client has led in between.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.ownership.fencing_token()
    }

    /// The ownership of the leader's node.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Returns `true` if it is known here that the term is over. A deletion of the node by another
    /// client is noticed only by [`lost`](Self::lost) or a [fenced](Self::fenced) transaction.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ownership.is_over()
            || self.ends_when_suspended() && self.zk.status().epoch != self.since
    }

    /// Resolves when the term is over: see [the table](super#when-leadership-ends). Sets a watch on
    /// the node, to notice its deletion: one request, except for a
    /// [`LeaderLatch`](super::LeaderLatch), whose task watches the node for all.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        if self.is_watched {
            self.suspended_or(self.ownership.over()).await;
        } else {
            self.suspended_or(self.ownership.lost()).await;
        }
    }

    /// Notes that a task waits in [`lost_by`](Self::lost_by) during the whole term, so that other
    /// waiters for its end need no watches of their own.
    pub(super) const fn watched(mut self) -> Self {
        self.is_watched = true;
        self
    }

    /// [`lost`](Self::lost) for all clones, by a watch that is on the node already: no request.
    pub(super) async fn lost_by(&self, watch: Watch) {
        self.suspended_or(self.ownership.lost_by(watch)).await;
    }

    async fn suspended_or(&self, lost: impl Future<Output = ()>) {
        let suspended = async {
            if !self.ends_when_suspended() {
                return pending().await;
            }
            // Every other state came through SUSPENDED, also where that was not seen.
            self.zk.states().until(|status| status.epoch != self.since).await
        };
        tokio::select! {
            biased;
            _ = suspended => {}
            () = lost => {}
        }
    }

    /// Begins a transaction that is only applied while we lead: see [`Ownership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.ownership.fenced()
    }

    fn ends_when_suspended(&self) -> bool {
        self.zk.connection_state_error_policy().is_error(ConnectionState::Suspended)
    }
}

/// Says in the log that a term begins and, when it is dropped, that it is over: whatever ends it.
#[derive(Debug)]
pub(super) struct TermLog(Leadership, MeasuredHold);

impl TermLog {
    pub(super) fn begin(leadership: &Leadership, recipe: &'static str) -> Self {
        let told = Self(leadership.clone(), MeasuredHold::of_leader(&leadership.zk, recipe));
        let (framework, session) = told.about();
        let token = leadership.fencing_token();
        info!(framework, session, path = leadership.path(), %token, "leads");
        told
    }

    fn about(&self) -> (Option<&str>, Option<tracing::field::DisplayValue<SessionId>>) {
        let session = self.0.zk.session().map(|session| tracing::field::display(session.id));
        (self.0.zk.name(), session)
    }
}

impl Drop for TermLog {
    fn drop(&mut self) {
        self.1.end(self.0.is_over());
        let (framework, session) = self.about();
        info!(framework, session, path = self.0.path(), "leads no longer");
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("path", &self.path())
            .field("token", &self.fencing_token())
            .field("is_over", &self.is_over())
            .finish_non_exhaustive()
    }
}

/// Returns `true` if a leader could do something: one that reaches no quorum should not begin.
fn is_writable(status: &ConnectionStatus) -> bool {
    status.state.is_connected() && status.state != ConnectionState::ReadOnly
}
