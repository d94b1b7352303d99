//! The task that keeps a node in existence.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;
use tracing::debug;
use zk_curator::watch::Watch;
use zk_curator::{
    ConnectionState, ConnectionStatus, CreateMode, CuratorFramework, Error, ErrorKind, EventType, OwnedNode,
    Signal, Stat, WatchEnded, WatchedEvent,
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
    /// Whether it is deleted when nobody keeps it any more.
    pub(super) deleted_at_end: bool,
}

/// The state that the task and the handle share.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) ended: bool,
    /// The data that it is to have, and how often they were set.
    pub(super) data: Bytes,
    pub(super) wanted: u64,
    /// Of these, those that are on the server.
    pub(super) written: u64,
    /// Where it is, or was when it last existed.
    pub(super) path: Option<String>,
    pub(super) hold: Option<Hold>,
    /// The number of times that it was created.
    pub(super) creations: u64,
    /// Why it does not exist, or lacks its data, if that is known and does not pass by itself.
    pub(super) error: Option<Error>,
}

/// A node that exists.
#[derive(Debug)]
pub(super) enum Hold {
    /// We have created it.
    Owned(Box<OwnedNode>),
    /// It was there, or is not to be deleted.
    Lasting {
        /// The transaction that created it.
        czxid: i64,
    },
}

impl Hold {
    /// Whether it has not ended with its session.
    pub(super) fn is_alive(&self) -> bool {
        match self {
            Self::Owned(node) => node.is_ours(),
            Self::Lasting { .. } => true,
        }
    }

    /// The transaction that created it.
    fn czxid(&self) -> i64 {
        match self {
            Self::Owned(node) => node.stat().czxid,
            Self::Lasting { czxid } => *czxid,
        }
    }

    /// It is gone: nothing of it is to be deleted.
    fn forget(self) {
        if let Self::Owned(node) = self {
            drop(node.leak());
        }
    }
}

pub(super) struct Keeper {
    pub(super) zk: CuratorFramework,
    pub(super) spec: Spec,
    pub(super) known: Arc<Signal<Known>>,
    pub(super) health: HealthReporter,
}

impl Keeper {
    /// Keeps the node until the handle is gone, or the framework is closed.
    pub(super) async fn run(self) {
        tokio::select! {
            biased;
            () = self.known.until(|known| known.ended) => {}
            () = self.keep() => self.known.modify(|known| known.ended = true),
        }
    }

    /// Ends when the framework is closed.
    async fn keep(&self) {
        let mut states = self.zk.states();
        // A read-only server would only refuse.
        let writable = |status: &ConnectionStatus| {
            status.state.is_connected() && status.state != ConnectionState::ReadOnly
        };
        while states.until(writable).await.is_some() {
            match self.exist().await {
                Ok(watch) => self.wait(watch).await,
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => {
                    debug!(path = self.spec.path, %error, "the node is not there");
                    let passes = error.is_retryable()
                        || error.is_session_lost()
                        || error.kind() == ErrorKind::ReadOnly;
                    if !passes {
                        self.zk.report_background_error(error.clone());
                        self.health.report(Health::Failed(error.clone()));
                        self.known.modify(|known| known.error = Some(error));
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Makes it exist with the data that it is to have: a watch for when it does not.
    async fn exist(&self) -> Result<Option<Watch>, Error> {
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
                Err(error) if is_gone(&error) => {
                    self.gone();
                    return Ok(None);
                }
                Err(error) => return Err(error),
                Ok(()) => self.known.modify(|known| known.written = wanted),
            }
        }
        let watched = self.zk.exists(path).watched().await?;
        let held = self.known.look(|known| known.hold.as_ref().map(Hold::czxid));
        // One with another czxid has taken its place during an outage, or before the watch was left.
        if watched.value.is_none_or(|stat| held.is_some_and(|held| held != stat.czxid)) {
            self.gone();
            return Ok(None);
        }
        if self.known.look(|known| known.error.is_some()) {
            self.known.modify(|known| known.error = None);
        }
        self.health.report(Health::Working);
        Ok(Some(watched.watch))
    }

    /// Whether it was there when we last looked, and its session is not over.
    fn is_held(&self) -> bool {
        let over = self.known.modify(|known| known.hold.take_if(|hold| !hold.is_alive()));
        // Its session is over, and it with it.
        if let Some(hold) = over {
            hold.forget();
            self.health.report(Health::Waiting);
        }
        self.known.look(|known| known.hold.is_some())
    }

    /// It does not exist any more.
    fn gone(&self) {
        if let Some(hold) = self.known.modify(|known| known.hold.take()) {
            hold.forget();
            self.health.report(Health::Waiting);
        }
    }

    /// Creates it, where it was before if it was: a sequential one keeps its number, a protected one its prefix
    /// (CURATOR-483, CURATOR-190).
    async fn create(&self, path: Option<String>) -> Result<Option<String>, Error> {
        let Spec { mode, ttl, protected, parents, .. } = self.spec;
        let again = path.is_some();
        let mode = if again { without_number(mode) } else { mode };
        let path = path.unwrap_or_else(|| self.spec.path.clone());
        let (data, wanted) = self.known.look(|known| (known.data.clone(), known.wanted));
        let mut create = self.zk.create(path.as_str()).mode(mode).data(data).owned();
        if let Some(ttl) = ttl {
            create = create.ttl(ttl);
        }
        if parents {
            create = create.creating_parents_as_containers();
        }
        if protected && !again {
            create = create.protected();
        } else if mode == CreateMode::Ephemeral {
            create = create.idempotent();
        }
        let node = match create.await {
            Ok(node) => node,
            Err(error) if error.kind() == ErrorKind::NodeExists => return self.occupied(path, mode).await,
            Err(error) => return Err(error),
        };
        let path = node.path().to_owned();
        let hold = if self.spec.deleted_at_end {
            Hold::Owned(Box::new(node))
        } else {
            Hold::Lasting { czxid: node.leak().stat.czxid }
        };
        self.created(path.clone(), hold, wanted);
        Ok(Some(path))
    }

    /// It exists; if the handle has gone meanwhile, it is deleted.
    fn created(&self, path: String, hold: Hold, written: u64) {
        let too_late = self.known.modify(|known| {
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

    /// There is one already: a lasting one will do, once it has our data. An ephemeral one of another session is waited
    /// for: it may be ours of before, which ends by itself, or it may be anybody's.
    async fn occupied(&self, path: String, mode: CreateMode) -> Result<Option<String>, Error> {
        let watched = self.zk.exists(path.as_str()).watched().await?;
        let Some(stat) = watched.value else { return Ok(None) };
        if !mode.is_ephemeral() && !stat.is_ephemeral() {
            return self.adopt(path, &stat).await;
        }
        let session = self.zk.session().map_or(0, |session| session.id.get());
        if mode.is_ephemeral() && stat.ephemeral_owner == session {
            // Ours, with data that have been replaced since: created anew, it is known to be ours. A server that lags
            // behind may show one that is gone; and where two of one process want different data, they take turns.
            sleep(PAUSE).await;
            let there = self.zk.exists(path.as_str()).synced().await?;
            if there.is_some_and(|there| there.czxid == stat.czxid && there.version == stat.version) {
                let delete = self.zk.delete(path).version(stat.version).czxid(stat.czxid).quietly();
                match delete.await {
                    // Changed, or another one meanwhile.
                    Err(error) if error.kind() == ErrorKind::BadVersion => {}
                    deleted => deleted?,
                }
            }
            return Ok(None);
        }
        drop(watched.watch.await);
        Ok(None)
    }

    /// Makes a lasting node ours by writing our data into it. Not before that is it present.
    async fn adopt(&self, path: String, stat: &Stat) -> Result<Option<String>, Error> {
        let (data, wanted) = self.known.look(|known| (known.data.clone(), known.wanted));
        match self.zk.set_data(path.as_str(), data).version(stat.version).idempotent().await {
            Ok(written) if written.czxid == stat.czxid => {
                self.created(path.clone(), Hold::Lasting { czxid: stat.czxid }, wanted);
                Ok(Some(path))
            }
            // Another node has taken its place: look again.
            Ok(_) => Ok(None),
            Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::BadVersion) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the data of our node, not those of another that has taken its place.
    async fn write(&self, path: &str, data: Bytes) -> Result<(), Error> {
        let owned = self.known.look(|known| match &known.hold {
            Some(Hold::Owned(node)) => Some(node.ownership().clone()),
            _ => None,
        });
        match owned {
            Some(ownership) => match ownership.fenced().set_data(path, data).commit().await {
                Ok(_) => Ok(()),
                Err(error) => Err(error.of_operation("set_data")),
            },
            None => self.zk.set_data(path, data).idempotent().await.map(|_| ()),
        }
    }

    /// Waits until there is something to do.
    async fn wait(&self, watch: Option<Watch>) {
        let Some(watch) = watch else { return };
        let session_lost = self.known.look(|known| match &known.hold {
            Some(Hold::Owned(node)) => Some(node.ownership().session_lost()),
            _ => None,
        });
        tokio::select! {
            biased;
            () = async {
                match session_lost {
                    Some(lost) => lost.cancelled().await,
                    None => std::future::pending().await,
                }
            } => {}
            event = watch => if is_delete(&event) {
                self.gone();
            },
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

const fn without_number(mode: CreateMode) -> CreateMode {
    match mode {
        CreateMode::EphemeralSequential => CreateMode::Ephemeral,
        CreateMode::PersistentSequential => CreateMode::Persistent,
        CreateMode::PersistentSequentialWithTtl => CreateMode::PersistentWithTtl,
        mode => mode,
    }
}
