//! The task that keeps a node in existence.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use tracing::{debug, warn};
use zk_curator::internal::{Setbacks, Signal};
use zk_curator::op::Authorship;
use zk_curator::watch::Watch;
use zk_curator::{
    ConnectionState, ConnectionStatus, CreateMode, CuratorFramework, Error, ErrorCode, ErrorKind,
    EventType, OwnedNode, Stat, WatchEnded, WatchedEvent,
};

use crate::health::{Health, HealthReporter};

/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// The node that is to exist.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) path: String,
    pub(super) mode: CreateMode,
    pub(super) ttl: Option<Duration>,
    pub(super) protected: bool,
    pub(super) parents: bool,
    /// `true` if they are created as persistent nodes, and not as containers.
    pub(super) parents_stay: bool,
    /// `true` if it is deleted when it is no longer kept.
    pub(super) deleted_at_end: bool,
}

/// The state that the task and the handle share.
#[derive(Debug, Default)]
pub(super) struct KeptNodeState {
    pub(super) ended: bool,
    /// `true` if no further node is created: the handle waits for the response to the last create.
    pub(super) closing: bool,
    /// `true` during a create.
    pub(super) creating: bool,
    /// Why the task has ended, if neither the handle nor the framework was closed.
    pub(super) ended_early: Option<Error>,
    /// The wanted data, and the number of times that they were set.
    pub(super) data: Bytes,
    pub(super) wanted: u64,
    /// The data that are on the server.
    pub(super) written: u64,
    /// Where it is, or was when it last existed.
    pub(super) path: Option<String>,
    pub(super) hold: Option<NodeHold>,
    /// The number of times that it was created.
    pub(super) creations: u64,
    /// The reason why it does not exist, or lacks its data, if the reason is known and permanent.
    pub(super) error: Option<Error>,
}

/// A node that exists.
#[derive(Debug)]
pub(super) enum NodeHold {
    /// We have created it.
    Owned(Box<OwnedNode>),
    /// It was there, or is not to be deleted.
    Persistent {
        /// The transaction that created it.
        czxid: i64,
    },
}

impl NodeHold {
    /// Returns `true` if it has not ended with its session.
    pub(super) fn is_alive(&self) -> bool {
        match self {
            Self::Owned(node) => node.is_ours(),
            Self::Persistent { .. } => true,
        }
    }

    /// The transaction that created it.
    fn czxid(&self) -> i64 {
        match self {
            Self::Owned(node) => node.stat().czxid,
            Self::Persistent { czxid } => *czxid,
        }
    }

    /// It is gone: nothing has to be deleted.
    fn forget(self) {
        if let Self::Owned(node) = self {
            drop(node.leak());
        }
    }
}

pub(super) struct NodeReconciler {
    pub(super) zk: CuratorFramework,
    pub(super) spec: Spec,
    pub(super) known: Arc<Signal<KeptNodeState>>,
    pub(super) health: HealthReporter,
    /// Which creates without a response may have been applied.
    pub(super) author: Authorship,
    /// The data that these creates have, and the number of that setting: the node is recognised by
    /// them.
    pub(super) sent: Option<(Bytes, u64)>,
    pub(super) setbacks: Setbacks,
}

/// Returns `true` if a node can be created now: a read-only server would refuse.
fn is_writable(status: &ConnectionStatus) -> bool {
    status.state.is_connected() && status.state != ConnectionState::ReadOnly
}

impl NodeReconciler {
    /// Keeps the node until the handle is gone, or the framework is closed.
    pub(super) async fn run(mut self) {
        let known = Arc::clone(&self.known);
        tokio::select! {
            biased;
            () = known.until(|known| known.ended || known.closing && !known.creating) => {}
            () = self.keep() => {}
        }
    }

    /// Ends when the framework is closed.
    async fn keep(&mut self) {
        let mut states = self.zk.states();
        loop {
            if !is_writable(&self.zk.status()) {
                self.health.report(Health::Waiting);
            }
            if states.until(is_writable).await.is_none() {
                return;
            }
            match self.exist().await {
                Ok(watch) => self.wait(watch).await,
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => {
                    debug!(path = self.spec.path, %error, "the node is not there");
                    let mut pause = PAUSE;
                    if !error.is_transient() {
                        self.fail(&error);
                        pause = self.setbacks.pause(&self.zk);
                    } else if !self.is_held() {
                        self.health.report(Health::Waiting);
                    }
                    // Other data may be accepted.
                    let wanted = self.known.look(|known| known.wanted);
                    drop(timeout(pause, self.known.until(|known| known.wanted != wanted)).await);
                }
            }
        }
    }

    /// Nothing but a repair helps.
    fn fail(&mut self, error: &Error) {
        self.setbacks.report(&self.zk, error);
        self.health.report(Health::Failed(error.clone()));
        self.known.modify(|known| known.error = Some(error.clone()));
    }

    /// Makes it exist with the data that it is to have: a watch for when it does not.
    async fn exist(&mut self) -> Result<Option<Watch>, Error> {
        let path = match self.known.look(|known| known.path.clone()) {
            Some(path) if self.is_held() => path,
            path => match self.create(path).await? {
                Some(path) => path,
                // Another node was there, and has gone or changed.
                None => return Ok(None),
            },
        };
        let (data, wanted, written) =
            self.known.look(|known| (known.data.clone(), known.wanted, known.written));
        if wanted != written {
            match self.write(&path, data).await {
                Ok(true) => self.known.modify(|known| known.written = wanted),
                Ok(false) => {
                    self.gone();
                    return Ok(None);
                }
                Err(error) if is_gone(&error) => {
                    self.gone();
                    return Ok(None);
                }
                // Another client was faster.
                Err(error) if is_bad_version(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let watched = self.zk.exists(path).watched().await?;
        let held = self.known.look(|known| known.hold.as_ref().map(NodeHold::czxid));
        // One with another czxid has taken its place during an outage, or before the watch was
        // left.
        if watched.value.is_none_or(|stat| held.is_some_and(|held| held != stat.czxid)) {
            self.gone();
            return Ok(None);
        }
        if self.known.look(|known| known.error.is_some()) {
            self.known.modify(|known| known.error = None);
        }
        self.health.report(Health::Working);
        self.setbacks.over();
        Ok(Some(watched.watch))
    }

    /// Returns `true` if it was there when we last looked, and its session is not over.
    fn is_held(&self) -> bool {
        let over = self.known.modify(|known| known.hold.take_if(|hold| !hold.is_alive()));
        // Its session is over, and it with it.
        if let Some(hold) = over {
            hold.forget();
            self.health.report(Health::Waiting);
        }
        self.known.look(|known| known.hold.is_some())
    }

    /// It no longer exists.
    fn gone(&self) {
        if let Some(hold) = self.known.modify(|known| known.hold.take()) {
            hold.forget();
            self.health.report(Health::Waiting);
        }
    }

    /// Creates it, where it was before if it was: a sequential one keeps its number, a protected
    /// one its prefix (CURATOR-483, CURATOR-190).
    async fn create(&mut self, path: Option<String>) -> Result<Option<String>, Error> {
        let Spec { mode, ttl, protected, parents, parents_stay, .. } = self.spec;
        let again = path.is_some();
        let mode = if again { without_number(mode) } else { mode };
        let path = path.unwrap_or_else(|| self.spec.path.clone());
        let (data, wanted) = match self.sent.take() {
            Some(sent) => sent,
            None => self.known.look(|known| (known.data.clone(), known.wanted)),
        };
        let mut create = self.zk.create(path.as_str()).mode(mode).data(data.clone()).owned();
        if let Some(ttl) = ttl {
            create = create.ttl(ttl);
        }
        create = match (parents, parents_stay) {
            (true, false) => create.creating_parents_as_containers(),
            (true, true) => create.creating_parents(),
            (false, _) => create,
        };
        if protected && !again {
            create = create.protected();
        } else if mode == CreateMode::Ephemeral {
            create = create.idempotent().authored_by(&self.author);
        }
        let is_closing = self.known.modify(|known| {
            known.creating = !known.closing;
            known.closing
        });
        if is_closing {
            // The task ends.
            std::future::pending::<()>().await;
        }
        let node = match create.await {
            Ok(node) => node,
            Err(error) if error.kind() == ErrorKind::NodeExists => {
                self.known.modify(|known| known.creating = false);
                return self.occupied(path, mode, error).await;
            }
            Err(error) => {
                self.known.modify(|known| known.creating = false);
                self.sent = error.may_have_applied().then_some((data, wanted));
                return Err(error);
            }
        };
        let path = node.path().to_owned();
        let hold = if self.spec.deleted_at_end {
            NodeHold::Owned(Box::new(node))
        } else {
            NodeHold::Persistent { czxid: node.leak().stat.czxid }
        };
        self.created(path.clone(), hold, wanted);
        Ok(Some(path))
    }

    /// It exists; if the handle is gone, it is deleted.
    fn created(&self, path: String, hold: NodeHold, written: u64) {
        let too_late = self.known.modify(|known| {
            known.creating = false;
            if known.ended {
                return Some(hold);
            }
            known.path = Some(path);
            known.creations += 1;
            known.error = None;
            known.written = written;
            known.hold.replace(hold)
        });
        drop(too_late);
    }

    /// There is one already. A persistent one will do where ours is to be one, once it has our
    /// data. Wait for the end of an ephemeral node of any session: it belongs to another guard,
    /// another client, or an earlier session of ours. Only a node that was left to this session by
    /// the framework it was taken up from is replaced. A persistent node in the place of an
    /// ephemeral one is a failure with this error: no session will ever remove it.
    async fn occupied(
        &mut self,
        path: String,
        mode: CreateMode,
        error: Error,
    ) -> Result<Option<String>, Error> {
        let watched = self.zk.exists(path.as_str()).watched().await?;
        let Some(stat) = watched.value else { return Ok(None) };
        if !mode.is_ephemeral() && !stat.is_ephemeral() {
            return self.adopt(path, &stat).await;
        }
        if mode.is_ephemeral() && self.zk.is_inherited(&stat) {
            // Created again, it has a guard.
            return match self
                .zk
                .delete(path)
                .version(stat.version)
                .czxid(stat.czxid)
                .quietly()
                .await
            {
                Err(error) if !is_bad_version(&error) => Err(error),
                _ => Ok(None),
            };
        }
        if stat.is_ephemeral() {
            self.health.report(Health::Waiting);
            drop(watched.watch.await);
            return Ok(None);
        }
        warn!(path, "the node is persistent: no session will ever remove it");
        self.fail(&error);
        let wanted = self.known.look(|known| known.wanted);
        tokio::select! {
            biased;
            _ = watched.watch => {}
            // Whoever has set the data learns it, too.
            () = self.known.until(|known| known.wanted != wanted) => {}
        }
        Ok(None)
    }

    /// Makes a persistent node ours by writing our data into it. Not before that is it present.
    async fn adopt(&self, path: String, stat: &Stat) -> Result<Option<String>, Error> {
        let (data, wanted) = self.known.look(|known| (known.data.clone(), known.wanted));
        match self.zk.set_data(path.as_str(), data).version(stat.version).idempotent().await {
            Ok(written) if written.czxid == stat.czxid => {
                self.created(path.clone(), NodeHold::Persistent { czxid: stat.czxid }, wanted);
                Ok(Some(path))
            }
            // Another node has taken its place: read again.
            Ok(_) => Ok(None),
            Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::BadVersion) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces the data of our node, but not those of another node in its place: `false` if ours
    /// is gone. `BadVersion` if another client wrote it at the same time.
    ///
    /// A write names its node by the path, so the node is read first, and written at the version
    /// that was read. A node of the same version that takes its place in between is written all the
    /// same.
    async fn write(&self, path: &str, data: Bytes) -> Result<bool, Error> {
        let (held, owned) = self.known.look(|known| {
            let owned = match &known.hold {
                Some(NodeHold::Owned(node)) => Some(node.ownership().clone()),
                _ => None,
            };
            (known.hold.as_ref().map(NodeHold::czxid), owned)
        });
        let there = self.zk.exists(path).linearizable().await?;
        let Some(stat) = there.filter(|stat| Some(stat.czxid) == held) else { return Ok(false) };
        match owned {
            Some(ownership) => {
                let fenced = ownership.fenced();
                // An ownership has the default of the framework, not that of the handle.
                let fenced = if self.zk.is_compressing() { fenced } else { fenced.uncompressed() };
                let write = fenced.set_data_if(path, data, stat.version);
                write.commit().await.map(|_| true).map_err(|error| error.of_operation("set_data"))
            }
            None => {
                self.zk.set_data(path, data).version(stat.version).idempotent().await.map(|_| true)
            }
        }
    }

    /// Waits until there is something to do.
    async fn wait(&self, watch: Option<Watch>) {
        let Some(watch) = watch else { return };
        let mut states = self.zk.states();
        let session_lost = self.known.look(|known| match &known.hold {
            Some(NodeHold::Owned(node)) => Some(node.ownership().session_lost()),
            _ => None,
        });
        tokio::select! {
            biased;
            () = async {
                match session_lost {
                    Some(lost) => lost.await,
                    None => std::future::pending().await,
                }
            } => {}
            event = watch => if is_delete(&event) {
                self.gone();
            },
            _ = states.until(|status| !is_writable(status)) => {}
            () = self.known.until(|known| known.wanted != known.written) => {}
        }
    }
}

fn is_delete(event: &Result<WatchedEvent, WatchEnded>) -> bool {
    matches!(event, Ok(event) if event.event_type == EventType::NodeDeleted)
}

fn is_gone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoNode | ErrorKind::OwnershipLost)
}

fn is_bad_version(error: &Error) -> bool {
    error.code() == Some(ErrorCode::BadVersion)
}

const fn without_number(mode: CreateMode) -> CreateMode {
    match mode {
        CreateMode::EphemeralSequential => CreateMode::Ephemeral,
        CreateMode::PersistentSequential => CreateMode::Persistent,
        CreateMode::PersistentSequentialWithTtl => CreateMode::PersistentWithTtl,
        mode => mode,
    }
}
