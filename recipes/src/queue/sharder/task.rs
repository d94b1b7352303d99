//! The background task of a sharder: counts the items of the queues, and adds a queue when all are
//! full.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use zk_curator::internal::{Setbacks, Signal, sleep};
use zk_curator::op::fan_out;
use zk_curator::path::ZPath;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind};

use crate::health::{Health, HealthReporter};
use crate::leader::Candidate;
use crate::path::child;
use crate::queue::error::Error;
use crate::queue::wire::layout::create_persistent;

/// The beginning of the names of the queues: Curator's `QUEUE_PREFIX`.
const PREFIX: &str = "queue-";
/// The number of queues that are counted at a time.
const LOOKS: usize = 64;

/// Makes the queue at a path.
pub(super) type Allocate<Q> = Arc<dyn Fn(&CuratorFramework, &str) -> Q + Send + Sync>;

/// The state that the sharder and its task share.
pub(super) struct SharderState<Q> {
    /// The queues, by their names.
    pub(super) queues: BTreeMap<String, Q>,
    /// The queues that take new items.
    pub(super) free: BTreeSet<String>,
    /// How the task has ended.
    pub(super) end: Option<Result<(), Error>>,
}

/// The background task of a sharder.
pub(super) struct SharderTask<Q> {
    pub(super) zk: CuratorFramework,
    pub(super) path: ZPath,
    pub(super) allocate: Allocate<Q>,
    pub(super) threshold: u32,
    pub(super) interval: Duration,
    pub(super) max_queues: usize,
    pub(super) known: Arc<Signal<SharderState<Q>>>,
    /// Fires when queues have come or gone.
    pub(super) watch: Option<Watch>,
    pub(super) health: HealthReporter,
}

impl<Q: Clone + Send + Sync + 'static> SharderTask<Q> {
    /// Checks the queues until it is stopped, or the framework is closed.
    pub(super) async fn run(
        mut self,
        candidate: Candidate,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let mut states = self.zk.states();
        let mut setbacks = Setbacks::default();
        loop {
            let pause = match self.check(&candidate).await {
                Ok(()) => {
                    setbacks.over();
                    self.health.report(Health::Working);
                    self.interval
                }
                Err(error) => self.not_checked(error, &mut setbacks),
            };
            let changed = async {
                match self.watch.take() {
                    Some(watch) => drop(watch.await),
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = states.until(|_| false) => break,
                () = changed => {}
                () = sleep(pause) => {}
            }
        }
        match candidate.close().await {
            // The framework is.
            Err(crate::leader::Error::Closed { .. }) => Ok(()),
            left => left.map_err(|error| of_election(error, self.path.as_str())),
        }
    }

    /// Returns the pause before the next check.
    fn not_checked(&self, error: Error, setbacks: &mut Setbacks) -> Duration {
        debug!(path = %self.path, %error, "the queues were not checked");
        match error {
            Error::Framework(error)
                if !error.is_transient() && error.kind() != ErrorKind::Closed =>
            {
                setbacks.report(&self.zk, &error);
                self.health.report(Health::Failed(error));
                self.interval.max(setbacks.pause(&self.zk))
            }
            _ => {
                self.health.report(Health::Waiting);
                self.interval
            }
        }
    }

    /// Finds new and deleted queues, and counts the items. The leader adds a queue if all are full.
    async fn check(&mut self, candidate: &Candidate) -> Result<(), Error> {
        let names = self.list().await?;
        let looks: Vec<_> =
            names.iter().map(|name| self.zk.exists(child(&self.path, name))).collect();
        let threshold = self.threshold;
        let mut counts = Vec::new();
        for (name, stat) in names.iter().zip(fan_out(LOOKS, looks).await) {
            if let Some(stat) = stat? {
                counts.push((name, u32::try_from(stat.num_children).unwrap_or(0)));
            }
        }
        let (is_full, queues) = self.known.modify(|known| {
            for (name, items) in counts {
                if items >= threshold {
                    known.free.remove(name);
                } else if items <= threshold / 2 {
                    known.free.insert(name.clone());
                }
            }
            (known.free.is_empty(), known.queues.len())
        });
        let Some(leadership) = candidate.leadership().filter(|_| is_full) else { return Ok(()) };
        if queues >= self.max_queues {
            warn!(path = %self.path, queues, "all queues are full, and max_queues is reached");
            return Ok(());
        }
        let name = self.new_name();
        match leadership.fenced().create(child(&self.path, &name), "").await {
            Ok(_) => {}
            // Another one leads. If it was applied, it is listed.
            Err(error) if error.kind() == ErrorKind::OwnershipLost || error.may_have_applied() => {
                return Ok(());
            }
            // The servers have deleted the container because it was empty, or another client has.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. }
                ) =>
            {
                drop(self.create_first().await?);
            }
            Err(error) => return Err(error.into()),
        }
        info!(path = %self.path, name, "added a queue: all others are full");
        self.list().await.map(drop)
    }

    /// Lists the queues, and takes over new and removed ones. Returns their names.
    pub(super) async fn list(&mut self) -> Result<Vec<String>, Error> {
        let listed = match self.zk.children(self.path.as_str()).watched().await {
            Ok(listed) => listed,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        self.watch = Some(listed.watch);
        let mut names = listed.value.0;
        names.retain(|name| name.starts_with(PREFIX));
        self.adopt(names.clone());
        self.known.modify(|known| {
            // At least one queue is kept, even if it no longer exists: a put creates it again.
            if !names.is_empty() {
                known.queues.retain(|name, _| names.contains(name));
                known.free.retain(|name| names.contains(name));
            }
        });
        Ok(names)
    }

    /// Makes the queues with these names known.
    pub(super) fn adopt(&self, mut names: Vec<String>) {
        self.known.look(|known| names.retain(|name| !known.queues.contains_key(name)));
        for name in names {
            let queue = (self.allocate)(&self.zk, &child(&self.path, &name));
            self.known.modify(|known| {
                known.free.insert(name.clone());
                known.queues.insert(name, queue)
            });
        }
    }

    /// Creates a queue, along with the parent: its name.
    pub(super) async fn create_first(&self) -> Result<String, Error> {
        let name = self.new_name();
        let path = ZPath::for_operation("queue sharder", child(&self.path, &name))?;
        create_persistent(&self.zk, path.as_str()).await?;
        Ok(name)
    }

    fn new_name(&self) -> String {
        format!("{PREFIX}{}", self.zk.new_guid())
    }
}

/// The error of the election.
fn of_election(error: crate::leader::Error, path: &str) -> Error {
    match error {
        crate::leader::Error::Framework(error) => error.into(),
        _ => Error::Lost { path: path.to_owned() },
    }
}
