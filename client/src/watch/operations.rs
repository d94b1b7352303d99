//! The operations on watches themselves.

use std::sync::Arc;

use tokio::sync::mpsc;
use zk_curator_proto::records::{AddWatchMode, AddWatchRequest, WatcherType, WatchesRequest};
use zk_curator_proto::{ErrorCode, Request};

use super::{PersistentWatch, Sink, WatchKind};
use crate::answer::{Pending, PendingWatched, nothing};
use crate::session::{WatchEffect, WatchPlan};
use crate::{Error, ZooKeeper};

impl ZooKeeper {
    /// Adds a watch that stays, on a node that need not exist; since ZooKeeper 3.6.
    ///
    /// **Awaiting returns** a [`PersistentWatch`]. What happens after the server has added it is reported.
    pub fn add_watch(&self, path: &str, mode: AddWatchMode) -> PendingWatched<(), PersistentWatch> {
        let path: Arc<str> = match self.absolute(path) {
            Ok(path) => path.into(),
            Err(error) => return PendingWatched::failed(error),
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let watch = PersistentWatch::new(Arc::clone(&path), receiver, self.shared.commands.downgrade());
        let kind = match mode {
            AddWatchMode::PersistentRecursive => WatchKind::Recursive,
            _ => WatchKind::Persistent,
        };
        let request = Request::AddWatch(AddWatchRequest { path: path.to_string(), mode: mode.code() });
        let effect = WatchEffect::Arm(WatchPlan::Lasting(kind), path, Sink::Stream(sender));
        PendingWatched { answer: self.enqueue(&request, Some(effect), nothing), watch: Some(watch) }
    }

    /// Removes all watches of a kind that this client has on a node. Their handles end with
    /// [`super::WatchEnded::Removed`]. Dropping a handle is the usual way to remove a watch; this one ends those
    /// of others, too.
    ///
    /// The kinds `Persistent` and `PersistentRecursive` need ZooKeeper 3.9. Fails with `NoWatcher`.
    pub fn remove_watches(&self, path: &str, watcher_type: WatcherType) -> Pending<()> {
        let path: Arc<str> = match self.absolute(path) {
            Ok(path) => path.into(),
            Err(error) => return Pending::failed(error),
        };
        let body = WatchesRequest { path: path.to_string(), watcher_type: watcher_type.code() };
        let effect = WatchEffect::Remove(watcher_type, path);
        self.enqueue(&Request::RemoveWatches(body), Some(effect), nothing)
    }

    /// Whether the server has a watch of this kind of this client on a node.
    pub fn check_watches(&self, path: &str, watcher_type: WatcherType) -> Pending<bool> {
        let build = |path| Request::CheckWatches(WatchesRequest { path, watcher_type: watcher_type.code() });
        self.at(path, build, |_, _| Some(true)).refused_with(ErrorCode::NoWatcher, || false)
    }
}

impl<T, W> PendingWatched<T, W> {
    pub(crate) fn failed(error: Error) -> Self {
        Self { answer: Pending::failed(error), watch: None }
    }
}
