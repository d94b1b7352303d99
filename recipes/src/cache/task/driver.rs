//! The task of a cache: follows its root session after session.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator::internal::{Setbacks, sleep};
use zk_curator::{ConnectionStatus, CuratorFramework, Error, ErrorKind};

use super::options::CacheOptions;
use super::session::{CacheSession, CacheTaskState};
use super::shared::CacheShared;
use super::source::{CacheEventSource, SingleWatches, is_unsupported};
use super::wants::answer;
use crate::cache::state::StaleCause;
use crate::cache::told::{CheckpointEffect, CheckpointInput, Checkpoints};
use crate::health::{Health, HealthReporter};

pub(crate) struct CacheDriver {
    task: CacheTaskState,
    /// `true` if persistent watches are not available.
    watches_each: bool,
}

impl CacheDriver {
    pub(crate) const fn new(
        shared: Arc<CacheShared>,
        options: CacheOptions,
        health: HealthReporter,
    ) -> Self {
        let task = CacheTaskState { shared, options, health, checkpoints: Checkpoints::new() };
        Self { task, watches_each: false }
    }

    /// Runs until the last handle is gone, or the framework is closed.
    pub(crate) async fn run(mut self) {
        let stop = self.task.shared.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.follow() => {}
        }
    }

    /// Follows the tree, session after session.
    async fn follow(&mut self) {
        let mut states = self.task.shared.zk.states();
        let mut setbacks = Setbacks::default();
        while states.until(|status| status.state.is_connected()).await.is_some() {
            let error = match self.session().await {
                Ok(cause) => {
                    setbacks.over();
                    self.stale(cause);
                    continue;
                }
                Err(error) => error,
            };
            if error.kind() == ErrorKind::Closed {
                return;
            }
            if error.is_transient() {
                let is_over = error.is_session_lost();
                self.stale(if is_over { StaleCause::SessionLost } else { StaleCause::Suspended });
                match self.task.shared.zk.wait_for_recovery(error).await {
                    Ok(()) => continue,
                    // The handle is bound to a session that is over, or the framework is closed.
                    Err(error) => return self.refuse(&error),
                }
            }
            self.stale(StaleCause::Failed(error.kind()));
            self.task.health.report(Health::Failed(error.clone()));
            // It has followed its root since the last failure.
            if self.task.shared.look(|contents| contents.failed.is_none()) {
                setbacks.over();
            }
            if setbacks.report(&self.task.shared.zk, &error) {
                warn!(path = self.task.shared.root, %error, "the cache cannot follow its root");
            }
            let is_final = error.kind() == ErrorKind::InvalidPath;
            self.refuse(&error);
            self.task.shared.change(|contents| contents.failed = Some(error));
            if is_final {
                return;
            }
            sleep(setbacks.pause(&self.task.shared.zk)).await;
        }
    }

    /// Fails all pending callers with an error.
    fn refuse(&mut self, error: &Error) {
        let questions = self.task.shared.wants.take();
        for input in [CheckpointInput::Asked(questions), CheckpointInput::Failed(error.clone())] {
            for effect in self.task.checkpoints.step(input) {
                if let CheckpointEffect::Answer { callers, answer: result } = effect {
                    answer(callers, &result);
                }
            }
        }
    }

    fn stale(&self, cause: StaleCause) {
        self.task.health.report(Health::Waiting);
        self.task.shared.change(|contents| {
            contents.exact = None;
            contents.becomes_stale(cause, Instant::now());
            contents.state.forget_reads();
        });
    }

    /// Follows the tree until the end of one session. Returns the reason why the contents are stale
    /// then.
    async fn session(&mut self) -> Result<StaleCause, Error> {
        // Read before the session is chosen, so that the end of another session in between is
        // noticed.
        let status = self.task.shared.zk.status();
        let zk = self.task.shared.zk.bound_to_session()?;
        let watch = self.watch(&zk, status).await?;
        CacheSession::new(&mut self.task, zk, watch).follow().await
    }

    async fn watch(
        &mut self,
        zk: &CuratorFramework,
        status: ConnectionStatus,
    ) -> Result<CacheEventSource, Error> {
        let root = self.task.shared.root.clone();
        if !self.watches_each {
            let watch = if self.task.shared.look(|contents| contents.state.is_of_one_node()) {
                zk.add_watch(root.as_str()).await
            } else {
                zk.add_watch(root.as_str()).recursive().await
            };
            match watch {
                Err(error) if is_unsupported(&error) => {
                    debug!(path = root, %error, "there are no persistent watches: every node is watched");
                    self.watches_each = true;
                    self.task.shared.arrange(|contents| contents.state.watch_each());
                }
                watch => return Ok(CacheEventSource::Persistent(Box::new(watch?))),
            }
        }
        Ok(CacheEventSource::Single(Box::new(SingleWatches::new(zk.clone(), root, status))))
    }
}
