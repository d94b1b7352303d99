use zk_curator_client::{AddWatchMode, ErrorCode, WatcherType};

use super::{OpTarget, awaits, call_options};
use crate::error::Result;
use crate::framework::CuratorFramework;
use crate::raw::RawClient;
use crate::watch::PersistentWatch;

impl CuratorFramework {
    /// Adds a watch that reports repeatedly, until it is dropped or the session ends.
    ///
    /// **Awaiting returns** a [`PersistentWatch`](crate::watch::PersistentWatch).
    pub fn add_watch(&self, path: impl Into<String>) -> AddWatchBuilder {
        AddWatchBuilder::new(self.clone(), path.into())
    }

    /// Removes all watches of this session on a node.
    ///
    /// **Awaiting returns** `()`.
    pub fn remove_watches(&self, path: impl Into<String>) -> RemoveWatchesBuilder {
        RemoveWatchesBuilder::new(self.clone(), path.into())
    }
}

/// Adds a persistent watch on a node that need not exist; since ZooKeeper 3.6.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct AddWatchBuilder {
    target: OpTarget,
    mode: AddWatchMode,
}

impl AddWatchBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        Self { target: OpTarget::new(zk, "add_watch", path), mode: AddWatchMode::Persistent }
    }

    /// Also watches everything below the node, but then reports no
    /// [`NodeChildrenChanged`](crate::EventType::NodeChildrenChanged). Default: only the node and
    /// its children.
    pub const fn recursive(mut self) -> Self {
        self.mode = AddWatchMode::PersistentRecursive;
        self
    }
}

call_options!(AddWatchBuilder);

awaits!(AddWatchBuilder => PersistentWatch, |this| {
    let watch = this.target.read(|raw, path| raw.add_watch(path, this.mode)).await?;
    Ok(PersistentWatch::new(watch, &this.target.zk))
});

/// Removes all watches of a kind that this session has on a node, including those of other handles.
/// Fails with the code `NoWatcher`.
///
/// Dropping a watch is the usual way to remove it.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct RemoveWatchesBuilder {
    target: OpTarget,
    watcher_type: WatcherType,
    quietly: bool,
}

impl RemoveWatchesBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        let target = OpTarget::new(zk, "remove_watches", path);
        Self { target, watcher_type: WatcherType::Any, quietly: false }
    }

    /// Sets the kind. Default: [`WatcherType::Any`]. The kinds `Persistent` and
    /// `PersistentRecursive` need ZooKeeper 3.9.
    pub const fn of_type(mut self, watcher_type: WatcherType) -> Self {
        self.watcher_type = watcher_type;
        self
    }

    /// Also succeeds if there is none.
    pub const fn quietly(mut self) -> Self {
        self.quietly = true;
        self
    }

    async fn run(self) -> Result<()> {
        let path = self.target.server_path()?;
        let send = |raw: &dyn RawClient| raw.remove_watches(&path, self.watcher_type);
        match self.target.write(&mut self.target.budget(), true, send).await {
            Err(error) if self.quietly && error.code() == Some(ErrorCode::NoWatcher) => Ok(()),
            result => result,
        }
    }
}

call_options!(RemoveWatchesBuilder);

awaits!(RemoveWatchesBuilder => (), |this| this.run().await);
