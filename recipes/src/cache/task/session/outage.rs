//! Outages, and how a session catches up after them.

use std::future::IntoFuture;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use tokio::time::Instant;
use tracing::debug;

use super::super::options::ServerDiffMode;
use super::super::source::CacheEventSource;
use super::CacheSession;
use super::phase::{CachePhase, Compared};
use crate::cache::state::{StaleCause, TreeState};
use crate::cache::told::CheckpointInput;
use crate::health::Health;

/// The number of paths that are collected under one lock.
const AT_A_TIME: usize = 2_000;

impl CacheSession<'_> {
    /// Notes that the next server may lag behind the events that this one has sent after its last
    /// response.
    pub(super) fn disconnected(&mut self) {
        self.step(CheckpointInput::Disconnected);
        let is_newer = !self.task.checkpoints.is_proven();
        if self.phase.disconnected(is_newer) {
            // If the framework retried them, the responses would come before the server has caught
            // up.
            self.reads = FuturesOrdered::new();
            self.halves.clear();
            let is_sweeping = self.task.shared.look(|contents| contents.state.is_sweeping());
            self.missed(TreeState::forget_reads);
            if is_sweeping {
                // Its remaining events are lost, even if nothing happens until the reconnect.
                self.phase.missed(Instant::now());
            }
        }
        self.task.health.report(Health::Waiting);
        self.task
            .shared
            .change(|contents| contents.becomes_stale(StaleCause::Suspended, Instant::now()));
    }

    pub(super) fn rearmed(&mut self, unchanged: bool) {
        self.phase.rearmed();
        self.pauses.reset();
        if unchanged || self.phase.has_resync() {
            return;
        }
        let nodes = self.task.shared.look(|contents| contents.state.tree().len());
        let pause = self.task.pause(&self.requests.zk, nodes);
        debug!(path = self.task.shared.root, ?pause, "changes may have been missed");
        self.task.shared.change(|contents| {
            contents.exact = None;
            contents.becomes_stale(StaleCause::Suspended, Instant::now());
        });
        self.missed(TreeState::missed);
        let is_awaited = self.task.checkpoints.is_awaited();
        let now = Instant::now();
        self.phase.missed(if is_awaited { now } else { now + pause });
    }

    /// Notes that changes may have been missed.
    fn missed(&mut self, missed: impl FnOnce(&mut TreeState)) {
        self.task.shared.arrange(|contents| missed(&mut contents.state));
        self.step(CheckpointInput::Missed);
    }

    /// Reads everything that may have changed, or lets the server compute the changes.
    pub(super) fn resync(&mut self) {
        self.phase = if let Some(comparison) = self.comparison() {
            CachePhase::Comparing(comparison)
        } else {
            self.task.shared.arrange(|contents| contents.state.sweep());
            CachePhase::Current
        };
    }

    /// Lets the server compute the changes since the cache was fresh, if this is cheaper than
    /// reading everything.
    fn comparison(&self) -> Option<BoxFuture<'static, Compared>> {
        let when = self.task.options.server_diff;
        let since = self.task.shared.look(|contents| {
            let is_wanted = match when {
                ServerDiffMode::Never => false,
                ServerDiffMode::Auto => contents.state.is_large(),
                ServerDiffMode::Always => true,
            };
            contents.freshness.zxid().filter(|_| is_wanted)
        })?;
        if !matches!(self.watch, CacheEventSource::Persistent(_)) {
            return None;
        }
        let (mut data, mut children) = (Vec::new(), Vec::new());
        loop {
            let last = data.last().map(String::as_str);
            let more =
                self.task.shared.look(|contents| contents.state.compared_paths(last, AT_A_TIME));
            let is_all = more.0.len() < AT_A_TIME;
            data.extend(more.0);
            children.extend(more.1);
            if is_all {
                break;
            }
        }
        debug!(path = self.task.shared.root, nodes = data.len(), since, "the server compares");
        let diff =
            self.requests.zk.changes_since(since).data(data).children(children).into_future();
        Some(Box::pin(diff))
    }

    /// Processes the changed nodes that the server has found.
    pub(super) fn compared(&self, changed: Compared) {
        self.task.shared.arrange(|contents| match changed {
            Ok(changed) => contents.state.doubt(changed.iter().map(|event| event.path.as_str())),
            Err(error) => {
                debug!(path = self.task.shared.root, %error, "the server does not compare: everything is read");
                contents.state.sweep();
            }
        });
    }
}
