//! The operations that add, remove and check watches.

use std::sync::Arc;

use tokio::sync::mpsc;
use zk_curator_proto::records::{AddWatchMode, WatcherType};
use zk_curator_proto::{ErrorCode, OpCode};

use super::{EventSink, PersistentWatch, WatchKind};
use crate::answer::{Pending, PendingWatched, nothing};
use crate::session::{WatchEffect, WatchPlan};
use crate::{Error, ZooKeeper};

impl ZooKeeper {
    /// Adds a persistent watch on a node, which need not exist; needs ZooKeeper 3.6.
    ///
    /// **Awaiting returns** a [`PersistentWatch`]. It reports everything that happens after the
    /// server has added it.
    pub fn add_watch(&self, path: &str, mode: AddWatchMode) -> PendingWatched<(), PersistentWatch> {
        let path: Arc<str> = match self.absolute(path) {
            Ok(path) => path.into(),
            Err(error) => return PendingWatched::failed(error),
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let watch = PersistentWatch::new(Arc::clone(&path), receiver, Arc::clone(self.queue()));
        let kind = match mode {
            AddWatchMode::PersistentRecursive => WatchKind::Recursive,
            _ => WatchKind::Persistent,
        };
        let effect = WatchEffect::Arm(
            WatchPlan::Persistent(kind),
            Arc::clone(&path),
            EventSink::Stream(sender),
        );
        let answer = self.enqueue(OpCode::AddWatch, Some(effect), nothing, |body| {
            body.string(&path);
            body.i32(mode.code());
        });
        PendingWatched { answer, watch: Some(watch) }
    }

    /// Removes all watches of a kind that this client has on a node. Their handles end with
    /// [`super::WatchEnded::Removed`]. Usually you drop a handle to remove its watch; this method
    /// also ends the watches of other handles.
    ///
    /// The kinds `Persistent` and `PersistentRecursive` need ZooKeeper 3.9.
    ///
    /// # Errors
    /// `NoWatcher`.
    pub fn remove_watches(&self, path: &str, watcher_type: WatcherType) -> Pending<()> {
        let path: Arc<str> = match self.absolute(path) {
            Ok(path) => path.into(),
            Err(error) => return Pending::failed(error),
        };
        let effect = WatchEffect::Remove(watcher_type, Arc::clone(&path));
        self.enqueue(OpCode::RemoveWatches, Some(effect), nothing, |body| {
            body.string(&path);
            body.i32(watcher_type.code());
        })
    }

    /// Returns `true` if the server has a watch of this kind from this client on a node.
    pub fn check_watches(&self, path: &str, watcher_type: WatcherType) -> Pending<bool> {
        let present = |_, _: &str| Some(true);
        self.at(path, OpCode::CheckWatches, present, |body| body.i32(watcher_type.code()))
            .refused_with(ErrorCode::NoWatcher, || false)
    }
}

impl<T, W> PendingWatched<T, W> {
    pub(crate) fn failed(error: Error) -> Self {
        Self { answer: Pending::failed(error), watch: None }
    }
}
