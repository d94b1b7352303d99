use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zk_curator_client::{Created, Error as RawError, ErrorCode, EventType, SessionId, Version};

use crate::core::{Call, Chore, Debt, Deletion, FencingToken, Session, Ticket, delete_created_by};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::retry::Budget;
use crate::watch::Watch;

/// The pause of [`Ownership::lost`] after a failed look.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A node that we created and that goes with this guard.
///
/// The node of a guard that outlives its framework stays, if it is not ephemeral: [`close`](CuratorFramework::close) waits a
/// moment for the guard, and names the node.
///
/// A guard whose node is known to be gone, or whose session is over and its node ephemeral, sends nothing any more.
///
/// # Shared names
/// No other client creates nodes with the names of [protected](crate::op::CreateBuilder::protected) and sequential nodes:
/// these are deleted by their path. Others may create a node of a name that was given, also
/// [protected by data](crate::op::CreateBuilder::protected_by_data), when somebody has deleted ours. Before such a
/// delete the node is looked at (a transaction of one check and `exists`, one flight more), and it is deleted at the version
/// that it had then, if it is the one that we created. ZooKeeper has no delete by identity: what remains is somebody who
/// deletes our node by its path and creates another one, of the same version, in the moment between. Other guards of the
/// same node, in the same framework, do not do that: of two that are dropped at once, one finds the node gone.
///
/// # Cancel safety
/// Dropping it leaves the delete to the janitor, which repeats it after a lost connection. That of a name that nobody
/// shares is queued at once, ahead of everything that the session sends later.
#[must_use = "dropping it deletes the node in the background"]
pub struct OwnedNode {
    ownership: Ownership,
    /// The path on the server.
    server_path: String,
    stat: zk_curator_client::Stat,
    ephemeral: bool,
    /// Whether others create nodes of the same name.
    shared_name: bool,
    armed: bool,
    ticket: Ticket,
}

impl OwnedNode {
    /// `created` has the path on the server.
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
            gone: Arc::default(),
            session,
        };
        let ticket = zk.core().held.node(&created.path, ownership.token, ownership.session.epoch, !ephemeral);
        Self {
            ownership,
            server_path: created.path,
            stat: created.stat,
            ephemeral,
            shared_name,
            armed: true,
            ticket,
        }
    }

    /// The path of the node, within the namespace.
    #[must_use]
    pub fn path(&self) -> &str {
        self.ownership.path()
    }

    /// The name of the node.
    #[must_use]
    pub fn name(&self) -> &str {
        crate::path::split(&self.server_path).1
    }

    /// The stat of the node when it was created.
    #[must_use]
    pub const fn stat(&self) -> &zk_curator_client::Stat {
        &self.stat
    }

    /// Whether the node, if ephemeral, belongs to the session that is alive here and now (CURATOR-604).
    #[must_use]
    pub fn is_ours(&self) -> bool {
        !self.ownership.is_session_lost()
            && (!self.ephemeral
                || self.ownership.session_id.is_some_and(|id| id.get() == self.stat.ephemeral_owner))
    }

    /// The ownership that the node stands for, without the duty to delete it.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Ends what the node has stood for so far: clones of its [`Ownership`] are lost, and the node goes on under a
    /// new one. For one that passes the node on to another user.
    pub fn renew_ownership(&mut self) {
        let term = self.ownership.session.lost.child_token();
        std::mem::replace(&mut self.ownership.term, term).cancel();
    }

    /// Gives the node the fencing token of one that it takes the place of: whoever waits behind that one may have a
    /// token between the two. Default: the transaction that created the node.
    pub const fn keep_fencing_token(&mut self, token: FencingToken) {
        self.ownership.token = token;
    }

    /// Deletes the node and waits for the answer.
    ///
    /// # Errors
    /// * `NoNode` when it was gone already, or another one is in its place: whatever it stood for had been lost.
    /// * `ConnectionLoss` or `SessionExpired` when that cannot be known; the janitor goes on.
    ///
    /// # Cancel safety
    /// The node is deleted all the same.
    pub async fn delete(mut self) -> Result<()> {
        const OP: &str = "delete";
        self.ownership.term.cancel();
        self.armed = false;
        let core = Arc::clone(self.ownership.zk.core());
        // The guard has no deadline: whoever waits for it may have one.
        let call = Call { deadline: None, session_epoch: None, ..self.ownership.zk.call().clone() };
        let mut budget = Budget::new(&core, &call);
        let gone = || core.error(OP, self.path(), RawError::Refused(ErrorCode::NoNode));
        if self.ownership.is_gone() {
            return Err(gone());
        }
        // From here on it is this future that owes the deletion.
        let debt = Debt::new(&core, &self.server_path, !self.ephemeral);
        let session = Arc::clone(&self.ownership.session);
        let deletion = Deletion::of(session, self.server_path.clone(), self.ephemeral);
        let chore = Chore::Delete(Deletion { czxid: self.shared_czxid(), ..deletion });
        debt.change(|owed| *owed = Some(chore)).map_err(|closed| core.error(OP, self.path(), closed))?;
        self.ticket.hand_over();
        let mut unknown = None;
        loop {
            let session = &self.ownership.session;
            let raw = &*session.raw;
            let deleted = match self.shared_czxid() {
                Some(czxid) => {
                    delete_created_by(&core.deletes, raw, &self.server_path, czxid, Version::Any).await
                }
                None => raw.delete(&self.server_path, Version::Any).await.map(|()| true),
            };
            let error = match deleted {
                Ok(true) => break,
                Ok(false) => gone(),
                Err(error) => core.error(OP, self.path(), error),
            };
            if error.kind() == ErrorKind::NoNode && unknown.is_some() {
                break;
            }
            if error.may_have_applied() {
                unknown.get_or_insert_with(|| error.clone());
            }
            if !error.is_retryable() {
                // Gone is gone; anything else is left to the janitor, which knows what cannot be mended.
                if error.kind() == ErrorKind::NoNode {
                    drop(debt.settle());
                }
                return Err(unknown.unwrap_or(error));
            }
            budget.spend(error, session.epoch).await.map_err(|last| unknown.take().unwrap_or(last))?;
        }
        // Deleted, whoever else tries it as well.
        drop(debt.settle());
        Ok(())
    }

    /// The transaction that created the node, if others create nodes of the same name.
    fn shared_czxid(&self) -> Option<i64> {
        self.shared_name.then_some(self.stat.czxid)
    }

    /// Gives up the duty to delete the node: it stays, or ends with its session if it is ephemeral.
    #[must_use = "the path and stat of the node are in the answer"]
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
        let deletion = Deletion { first, czxid, ..Deletion::of(session, path, self.ephemeral) };
        self.ownership.zk.core().owe(Chore::Delete(deletion));
    }
}

impl fmt::Debug for OwnedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedNode").field("ownership", &self.ownership).finish_non_exhaustive()
    }
}

/// The ownership that an [`OwnedNode`] stands for. Cheap to clone; without the duty to delete the node.
#[derive(Clone)]
pub struct Ownership {
    pub(crate) zk: CuratorFramework,
    session: Arc<Session>,
    session_id: Option<SessionId>,
    path: String,
    /// The transaction that created the node.
    czxid: i64,
    token: FencingToken,
    /// Cancelled when the session is over, or the node is given up, or known to be gone.
    term: CancellationToken,
    /// Whether the node is known to be gone, whoever has deleted it.
    gone: Arc<AtomicBool>,
}

impl Ownership {
    /// The path of the node, within the namespace.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The fencing token: the transaction that created the node, unless it has
    /// [kept another one](OwnedNode::keep_fencing_token).
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Counts the sessions of the framework, from one: the one that the node belongs to.
    #[must_use]
    pub fn session_epoch(&self) -> u64 {
        self.session.epoch
    }

    /// The path on the server.
    pub(crate) fn server_path(&self) -> String {
        self.zk.ns().apply(&self.path)
    }

    /// Whether the node is still ours, as far as is known here, and belongs to this session.
    pub(crate) fn is_of(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session) && !self.is_over()
    }

    /// Whether the session of the node is known to be over.
    #[must_use]
    pub fn is_session_lost(&self) -> bool {
        self.session.lost.is_cancelled()
    }

    /// Cancelled when the session of the node is over.
    #[must_use]
    pub fn session_lost(&self) -> CancellationToken {
        self.session.lost.child_token()
    }

    /// Whether it is known here that the node is not ours any more: its session is over, or its guard has deleted it,
    /// or begun to. What others do to the node is not known until somebody who waits in [`Ownership::lost`],
    /// [`lost_by`](Ownership::lost_by) or [`lost_or`](Ownership::lost_or) has heard of it, or a
    /// [fenced](Ownership::fenced) transaction has found it gone. From then on the guard sends nothing.
    ///
    /// It also looks at the [clock](Self::valid_until), so that code that runs first after a long stop sees it, before a task of
    /// the framework could tell. Once over, it stays over, even if the session turns out to be alive.
    #[must_use]
    pub fn is_over(&self) -> bool {
        if self.term.is_cancelled() {
            return true;
        }
        let overdue = self.valid_until().is_some_and(|until| until <= Instant::now());
        if overdue {
            self.term.cancel();
        }
        overdue
    }

    /// Until when it is certain that the session of the node is alive, and an ephemeral node with it, on tokio's clock; in the past
    /// when the session is over. `None` if the raw client does not tell.
    ///
    /// It moves on with every answer of a server. A task that is about to do something that takes time compares it with the time
    /// that this takes. That clock stands still while the machine is suspended: ask again rather than keep it.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        self.session.raw.valid_until()
    }

    /// The node is gone, whoever has deleted it.
    pub(crate) fn give_up(&self) {
        self.gone.store(true, Ordering::Release);
        self.term.cancel();
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Resolves when the node can no longer be assumed to exist: its session is over, its guard has been released
    /// or dropped, or somebody has deleted it. To learn of the latter it leaves a watch on the node, which costs
    /// one request.
    ///
    /// It does not resolve while the connection is merely suspended.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.lost_or(|_| false).await;
    }

    /// [`lost`](Self::lost), by a watch that [`get_data`](CuratorFramework::get_data) has left on the node: no request, unless
    /// its data change.
    ///
    /// # Cancel safety
    /// Nothing is lost but the watch.
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
    /// Nothing is lost.
    pub async fn over(&self) {
        self.term.cancelled().await;
    }

    /// Resolves when the data of the node are such that `matches` says so, or when it is [`lost`](Self::lost). The
    /// data are read now, and whenever they change.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost_or(&self, matches: impl Fn(&[u8]) -> bool + Send) {
        self.unless_over(self.gone_or(matches)).await;
    }

    /// Waits for `gone`, which says whether the node is, or until it is over for another reason.
    async fn unless_over(&self, gone: impl Future<Output = bool>) {
        tokio::select! {
            biased;
            () = self.term.cancelled() => {}
            gone = gone => if gone {
                self.give_up();
            }
        }
    }

    /// Waits until the node is gone, or, and then not `true`, its data match.
    async fn gone_or(&self, matches: impl Fn(&[u8]) -> bool + Send) -> bool {
        let server_path = self.server_path();
        loop {
            match self.session.raw.get_data_watched(&server_path).await {
                Ok((data, _)) if data.stat.czxid != self.czxid => return true,
                Ok((data, _)) if matches(&data.data) => return false,
                Ok((_, watch)) => match watch.await {
                    Ok(event) if event.event_type == EventType::NodeDeleted => return true,
                    // Changed, or the watch has been removed: look.
                    Ok(_) | Err(_) => {}
                },
                Err(RawError::Refused(ErrorCode::NoNode)) => return true,
                // However long the outage: it is the session that decides.
                Err(error) if Error::raw("lost", "", error.clone()).is_retryable() => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                // Not to be learnt this way: the end of the session says it.
                Err(_) => std::future::pending().await,
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
