//! The task of a cache: follows its root session after session.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{debug, warn};
use zk_curator::{ConnectionStatus, CuratorFramework, Error, ErrorKind};

use super::freshness::StaleCause;
use super::options::Options;
use super::session::{Session, Task};
use super::shared::{Command, Shared};
use super::source::{SingleWatches, Source, is_unsupported};
use crate::health::{Health, HealthReporter};

/// The pauses before the watch is added again after an error that does not pass by itself.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct Driver {
    task: Task,
    /// Whether lasting watches cannot be had.
    watches_each: bool,
}

/// Says that the cache has ended: also when its runtime is shut down, or a filter of the user panics.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.change(|inner| {
            inner.becomes_stale(StaleCause::Closed);
            inner.ended = true;
        });
    }
}

impl Driver {
    pub(super) const fn new(
        shared: Arc<Shared>,
        options: Options,
        commands: mpsc::UnboundedReceiver<Command>,
        health: HealthReporter,
    ) -> Self {
        Self { task: Task { shared, options, commands, health, waiters: Vec::new() }, watches_each: false }
    }

    /// Runs until the last handle is gone, or the framework is closed.
    pub(super) async fn run(mut self) {
        let (stop, ended) = (self.task.shared.stop.clone(), Ended(Arc::clone(&self.task.shared)));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.follow() => {}
        }
        // With the watch, and with everybody who waits for an answer.
        drop(self);
        drop(ended);
    }

    /// Follows the tree, session after session.
    async fn follow(&mut self) {
        let mut states = self.task.shared.zk.states();
        let mut pause = FIRST_PAUSE;
        while states.until(|status| status.state.is_connected()).await.is_some() {
            let error = match self.session().await {
                Ok(cause) => {
                    pause = FIRST_PAUSE;
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
                // A failure is told by the states.
                drop(self.task.shared.zk.ride_out(error).await);
                continue;
            }
            self.stale(StaleCause::Failed(error.kind()));
            warn!(path = self.task.shared.root, %error, "the cache cannot follow its root");
            self.task.health.report(Health::Failed(error.clone()));
            self.task.shared.zk.report_background_error(error.clone());
            let is_final = error.kind() == ErrorKind::InvalidPath;
            self.refuse(&error);
            self.task.shared.change(|inner| inner.failed = Some(error));
            if is_final {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Answers those who wait with an error.
    fn refuse(&mut self, error: &Error) {
        while let Ok(command) = self.task.commands.try_recv() {
            if let Command::Sync(waiter) = command {
                self.task.waiters.push(waiter);
            }
        }
        for waiter in self.task.waiters.drain(..) {
            // A failure means that nobody waits any more.
            drop(waiter.send(Err(error.clone())));
        }
    }

    fn stale(&self, cause: StaleCause) {
        self.task.health.report(Health::Waiting);
        self.task.shared.change(|inner| {
            inner.exact = None;
            inner.becomes_stale(cause);
            inner.state.forget_reads();
        });
    }

    /// Follows the tree in one session, until that is over: why the contents are stale now.
    async fn session(&mut self) -> Result<StaleCause, Error> {
        // From before the session is chosen: so the end of another one that comes in between shows.
        let status = self.task.shared.zk.status();
        let zk = self.task.shared.zk.bound_to_session()?;
        let watch = self.watch(&zk, status).await?;
        Session::new(&mut self.task, zk, watch).follow().await
    }

    async fn watch(&mut self, zk: &CuratorFramework, status: ConnectionStatus) -> Result<Source, Error> {
        let root = self.task.shared.root.clone();
        if !self.watches_each {
            let watch = if self.task.shared.look(|inner| inner.state.is_of_one_node()) {
                zk.add_watch(root.as_str()).await
            } else {
                zk.add_watch(root.as_str()).recursive().await
            };
            match watch {
                Err(error) if is_unsupported(&error) => {
                    debug!(path = root, %error, "there are no lasting watches: every node is watched");
                    self.watches_each = true;
                    self.task.shared.arrange(|inner| inner.state.watch_each());
                }
                watch => return Ok(Source::Lasting(Box::new(watch?))),
            }
        }
        Ok(Source::Single(Box::new(SingleWatches::new(zk.clone(), root, status))))
    }
}
