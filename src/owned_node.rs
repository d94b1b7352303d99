use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::sleep;
use zk_curator_client::{Created, Error as RawError, ErrorCode, EventType, SessionId, Version};

use crate::core::{
    Call, Cleanup, FencingToken, OwedDeletion, PendingCleanup, ResourceRegistration, Session,
    delete_created_by,
};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::retry::{Budget, RetryLoop};
use crate::watch::Watch;

/// A guard of a node that this client has created, and that it deletes when it is dropped.
///
/// If a guard outlives its framework, a persistent node stays: [`close`](CuratorFramework::close)
/// waits a moment for the guard, and then reports the node.
///
/// A guard sends nothing if its node is known to be gone, or its session is over and its node
/// ephemeral.
///
/// # Shared names
/// No other client creates nodes with the names of [protected](crate::op::CreateBuilder::protected)
/// and sequential nodes, so these are deleted by their path. A node with a given name, also one
/// that is [protected by data](crate::op::CreateBuilder::protected_by_data), may be deleted and
/// created again by other clients. So before such a delete, the guard reads the node (a transaction
/// of one check and `exists`, one more round trip). It deletes the node at the version it has read,
/// if it is the node that this client created. ZooKeeper has no delete by identity. In the
/// remaining window, another client may delete the node by its path and create another one of the
/// same version between the read and the delete. Guards of the same node in the same framework do
/// not interfere: if two are dropped at the same time, one of them finds the node gone.
///
/// # Cancel safety
/// Dropping it leaves the delete to the janitor, which repeats it after a lost connection. For an
/// unshared name, the delete is queued immediately, ahead of everything that the session sends
/// later.
#[must_use = "dropping it deletes the node in the background"]
pub struct OwnedNode {
    ownership: Ownership,
    /// The path on the server.
    server_path: String,
    stat: zk_curator_client::Stat,
    ephemeral: bool,
    /// `true` if other clients create nodes of the same name.
    shared_name: bool,
    armed: bool,
    registration: ResourceRegistration,
}

impl OwnedNode {
    /// Creates the guard. `created` has the path on the server.
    pub(crate) fn new(
        zk: &CuratorFramework,
        created: Created,
        session: Arc<Session>,
        ephemeral: bool,
        shared_name: bool,
    ) -> Self {
        let ownership = Ownership {
            zk: zk.with_default_compression(),
            session_id: session.raw.session().map(|session| session.id),
            path: zk.ns().strip(&created.path).to_owned(),
            czxid: created.stat.czxid,
            token: FencingToken::new(created.stat.czxid),
            term: session.lost.child_token(),
            gone: CancellationToken::new(),
            session,
        };
        // No other author can mistake the node for its own.
        zk.core().authors.created(&created.path, created.stat.czxid);
        let registration = zk.core().resources.node(
            &created.path,
            ownership.token,
            ownership.session.epoch,
            !ephemeral,
        );
        Self {
            ownership,
            server_path: created.path,
            stat: created.stat,
            ephemeral,
            shared_name,
            armed: true,
            registration,
        }
    }

    /// Returns the path of the node, within the namespace.
    #[must_use]
    pub fn path(&self) -> &str {
        self.ownership.path()
    }

    /// Returns the name of the node.
    #[must_use]
    pub fn name(&self) -> &str {
        crate::path::split(&self.server_path).1
    }

    /// Returns the stat of the node when it was created.
    #[must_use]
    pub const fn stat(&self) -> &zk_curator_client::Stat {
        &self.stat
    }

    /// Returns `true` if the node, if ephemeral, belongs to the present live session (CURATOR-604).
    #[must_use]
    pub fn is_ours(&self) -> bool {
        !self.ownership.is_session_lost()
            && (!self.ephemeral
                || self
                    .ownership
                    .session_id
                    .is_some_and(|id| id.get() == self.stat.ephemeral_owner))
    }

    /// Returns the ownership of the node, without the duty to delete it.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Ends the present ownership: clones of its [`Ownership`] are lost, and the node continues
    /// under a new one. It is for passing the node on to another user.
    ///
    /// A [fenced](Ownership::fenced) transaction of the former ownership was sent before this
    /// returns, or is never sent.
    pub fn renew_ownership(&mut self) {
        let term = self.ownership.session.lost.child_token();
        let former = std::mem::replace(&mut self.ownership.term, term);
        self.ownership.zk.core().fenced_sends.end(|| former.cancel());
        // It may be known since the last check, and a new term would hide it.
        if self.ownership.is_gone() {
            self.ownership.term.cancel();
        }
    }

    /// Gives the node the fencing token of a node that it replaces, because the contender behind
    /// that node may have a token between the two. Default: the transaction that created the node.
    pub const fn keep_fencing_token(&mut self, token: FencingToken) {
        self.ownership.token = token;
    }

    /// Deletes the node and waits for the response.
    ///
    /// # Errors
    /// * `NoNode` if the node was already gone, or another one has its path: the ownership had been
    ///   lost.
    /// * `ConnectionLoss` or `SessionExpired` if the outcome is unknown. The janitor continues.
    ///
    /// # Cancel safety
    /// If the future is dropped, the node is still deleted.
    pub async fn delete(mut self) -> Result<()> {
        const OP: &str = "delete";
        self.ownership.term.cancel();
        self.armed = false;
        let core = Arc::clone(self.ownership.zk.core());
        // The guard has no deadline; its caller may have one.
        let call = Call { deadline: None, session_epoch: None, ..self.ownership.zk.call().clone() };
        let mut budget = Budget::new(&core, &call);
        let gone = || core.error(OP, self.path(), RawError::Refused(ErrorCode::NoNode));
        if self.ownership.is_gone() {
            return Err(gone());
        }
        // From here on this future is responsible for the deletion.
        let pending = PendingCleanup::new(&core, &self.server_path, !self.ephemeral);
        let session = Arc::clone(&self.ownership.session);
        let deletion = OwedDeletion::of(session, self.server_path.clone(), self.ephemeral);
        let cleanup = Cleanup::Delete(OwedDeletion { czxid: self.shared_czxid(), ..deletion });
        pending
            .change(|owed| *owed = Some(cleanup))
            .map_err(|closed| core.error(OP, self.path(), closed))?;
        self.registration.hand_over();
        let mut retries = RetryLoop::new(&mut budget);
        loop {
            let session = &self.ownership.session;
            let raw = &*session.raw;
            let deleted = match self.shared_czxid() {
                Some(czxid) => {
                    let looked_at = delete_created_by(
                        &core.deletes,
                        raw,
                        &self.server_path,
                        czxid,
                        Version::Any,
                    );
                    // The rarer case is boxed, so that the guards of locks stay small.
                    Box::pin(looked_at).await
                }
                None => raw.delete(&self.server_path, Version::Any).await.map(|()| true),
            };
            let error = match deleted {
                Ok(true) => break,
                Ok(false) => gone(),
                Err(error) => core.error(OP, self.path(), error),
            };
            if error.kind() == ErrorKind::NoNode && retries.may_have_applied() {
                break;
            }
            if !error.is_retryable() {
                // A missing node is the goal. Other errors are left to the janitor, which knows the
                // permanent ones.
                if error.kind() == ErrorKind::NoNode {
                    drop(pending.settle());
                }
                return Err(retries.failure(error));
            }
            retries.again(error, session.epoch).await?;
        }
        // The node is deleted, even if other clients try that too.
        drop(pending.settle());
        Ok(())
    }

    /// Returns the transaction that created the node, if other clients create nodes of the same
    /// name.
    fn shared_czxid(&self) -> Option<i64> {
        self.shared_name.then_some(self.stat.czxid)
    }

    /// Gives up the duty to delete the node. A persistent node stays, and an ephemeral one ends
    /// with its session.
    #[must_use = "the path and stat of the node are in the result"]
    pub fn leak(mut self) -> Created {
        self.armed = false;
        Created::new(self.ownership.path.clone(), self.stat)
    }
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        self.ownership.term.cancel();
        let ended = self.ephemeral && self.ownership.is_session_lost();
        if ended || self.ownership.is_gone() {
            return;
        }
        let session = Arc::clone(&self.ownership.session);
        let path = std::mem::take(&mut self.server_path);
        let czxid = self.shared_czxid();
        let first = czxid.is_none().then(|| session.raw.delete(&path, Version::Any));
        let deletion =
            OwedDeletion { first, czxid, ..OwedDeletion::of(session, path, self.ephemeral) };
        self.ownership.zk.core().owe(Cleanup::Delete(deletion));
    }
}

impl fmt::Debug for OwnedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedNode").field("ownership", &self.ownership).finish_non_exhaustive()
    }
}

/// The ownership of an [`OwnedNode`]. Cheap to clone, without the duty to delete the node.
#[derive(Clone)]
pub struct Ownership {
    pub(crate) zk: CuratorFramework,
    session: Arc<Session>,
    session_id: Option<SessionId>,
    path: String,
    /// The transaction that created the node.
    czxid: i64,
    token: FencingToken,
    /// Cancelled when the session is over, the node is given up, or the node is known to be gone.
    term: CancellationToken,
    /// Cancelled when the node is known to be gone, by any delete. All terms share it.
    gone: CancellationToken,
}

impl Ownership {
    /// Returns the path of the node, within the namespace.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the framework whose session the node belongs to.
    #[must_use]
    pub const fn framework(&self) -> &CuratorFramework {
        &self.zk
    }

    /// Returns the fencing token: the transaction that created the node, unless the node has [kept
    /// another one](OwnedNode::keep_fencing_token).
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns the transaction that created the node. It identifies the node, also if another one
    /// has its path later.
    #[must_use]
    pub const fn czxid(&self) -> i64 {
        self.czxid
    }

    /// Returns the number of the session that the node belongs to, counting the sessions of the
    /// framework from one.
    #[must_use]
    pub fn session_epoch(&self) -> u64 {
        self.session.epoch
    }

    /// Returns the path on the server.
    pub(crate) fn server_path(&self) -> String {
        self.zk.ns().apply(&self.path)
    }

    /// Returns `true` if the node is still owned, as far as this client knows, and belongs to this
    /// session.
    pub(crate) fn is_of(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session) && !self.is_over()
    }

    /// Returns `true` if the session of the node is known to be over.
    #[must_use]
    pub fn is_session_lost(&self) -> bool {
        self.session.lost.is_cancelled()
    }

    /// Resolves when the session of the node is over. The future does not borrow the ownership.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub fn session_lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.session.lost.clone().cancelled_owned()
    }

    /// Returns `true` if this client knows that the node is no longer owned: its session is over,
    /// or its guard has deleted it, or begun to. A delete by another client becomes known only when
    /// a task that waits in [`Ownership::lost`], [`lost_by`](Ownership::lost_by) or
    /// [`lost_or`](Ownership::lost_or) learns of it, or a [fenced](Ownership::fenced) transaction
    /// finds the node gone. From then on the guard sends nothing.
    ///
    /// It also checks the [clock](Self::valid_until), so code that runs first after a long stop
    /// sees the end before a task of the framework reports it. Once it is over, it stays over, even
    /// if the session turns out to be alive.
    #[must_use]
    pub fn is_over(&self) -> bool {
        if self.term.is_cancelled() {
            return true;
        }
        if self.is_gone() {
            self.term.cancel();
            return true;
        }
        let overdue = self.valid_until().is_some_and(|until| until <= Instant::now());
        if overdue {
            self.term.cancel();
        }
        overdue
    }

    /// Returns the time until which the session of the node, and an ephemeral node with it, is
    /// certainly alive, on tokio's clock. It is in the past when the session is over. `None` if the
    /// raw client does not report it.
    ///
    /// It moves forward with every response of a server. A task can compare it with the time that
    /// its next action takes. The clock stands still while the machine is suspended, so call this
    /// again instead of keeping the value.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        self.session.raw.valid_until()
    }

    /// Asks the server if the node still exists, and watches it. `None` if the node is gone, or the
    /// ownership [is over](Self::is_over) for another reason; from then on it is.
    /// [`is_over`](Self::is_over) rests on what this client was told; this is for the next step of
    /// one that has not asked for long.
    ///
    /// The result is as old as the server's state, as that of every read.
    ///
    /// # Errors
    /// As [`exists`](CuratorFramework::exists): then nothing is known.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn confirm(&self) -> Result<Option<Watch>> {
        if self.is_over() {
            return Ok(None);
        }
        let seen = self.zk.exists(self.path.as_str()).watched().await?;
        if seen.value.is_none_or(|stat| stat.czxid != self.czxid) {
            self.give_up();
        }
        Ok(Some(seen.watch).filter(|_| !self.is_over()))
    }

    /// Records that the node is gone, by any delete.
    pub(crate) fn give_up(&self) {
        self.gone.cancel();
        self.term.cancel();
    }

    fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Resolves when the node can no longer be assumed to exist: its session is over, its guard was
    /// released or dropped, or another client has deleted it. To learn of the latter it sets a
    /// watch on the node, which costs one request.
    ///
    /// It does not resolve while the connection is only suspended.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) {
        self.lost_or(|_| false).await;
    }

    /// Does the same as [`lost`](Self::lost), by a watch that
    /// [`get_data`](CuratorFramework::get_data) has set on the node. It sends no request unless the
    /// data change.
    ///
    /// # Cancel safety
    /// Dropping the future drops the watch.
    pub async fn lost_by(&self, watch: Watch) {
        let gone = async {
            match watch.await {
                Ok(event) if event.event_type == EventType::NodeDeleted => true,
                Ok(_) | Err(_) => self.gone_or(|_| false).await,
            }
        };
        self.unless_over(gone).await;
    }

    /// Resolves when it [is over](Self::is_over).
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn over(&self) {
        tokio::select! {
            biased;
            () = self.term.cancelled() => {}
            // A holder of an earlier term has learned of it.
            () = self.gone.cancelled() => self.term.cancel(),
        }
    }

    /// Resolves when `matches` returns `true` for the data of the node, or the node is
    /// [`lost`](Self::lost). The data are read now, and whenever they change.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn lost_or(&self, matches: impl Fn(&[u8]) -> bool + Send) {
        self.unless_over(self.gone_or(matches)).await;
    }

    /// Waits for `gone`, which returns `true` if the node is gone, or until the ownership is over
    /// for another reason.
    async fn unless_over(&self, gone: impl Future<Output = bool>) {
        tokio::select! {
            biased;
            () = self.over() => {}
            gone = gone => if gone {
                self.give_up();
            }
        }
    }

    /// Waits until the node is gone, and returns `true`, or until its data match, and returns
    /// `false`.
    async fn gone_or(&self, matches: impl Fn(&[u8]) -> bool + Send) -> bool {
        let server_path = self.server_path();
        loop {
            match self.session.raw.get_data_watched(&server_path).await {
                Ok((data, _)) if data.stat.czxid != self.czxid => return true,
                Ok((data, _)) if matches(&data.data) => return false,
                Ok((_, watch)) => match watch.await {
                    Ok(event) if event.event_type == EventType::NodeDeleted => return true,
                    // The data have changed, or the watch was removed: reads the node again.
                    Ok(_) | Err(_) => {}
                },
                Err(RawError::Refused(ErrorCode::NoNode)) => return true,
                // The session decides, regardless of the length of the outage.
                Err(error) => {
                    let error = Error::raw("lost", self.path.as_str(), error);
                    if !error.is_transient() {
                        // This read has no result. The wait ends with the session.
                        std::future::pending::<()>().await;
                    }
                    sleep(self.zk.pause_after(&error)).await;
                }
            }
        }
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ownership")
            .field("path", &self.path)
            .field("token", &self.token)
            .field("session_epoch", &self.session.epoch)
            .finish_non_exhaustive()
    }
}
