use super::{OpTarget, awaits, call_options};
use crate::framework::CuratorFramework;

impl CuratorFramework {
    /// Brings the server up to date with the leader, so that later reads see all earlier commits.
    ///
    /// **Awaiting returns** `()`.
    pub fn sync(&self, path: impl Into<String>) -> SyncBuilder {
        SyncBuilder::new(self.clone(), path.into())
    }
}

/// Brings the server up to date with the leader.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct SyncBuilder {
    target: OpTarget,
}

impl SyncBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        Self { target: OpTarget::new(zk, "sync", path) }
    }
}

call_options!(SyncBuilder);
awaits!(SyncBuilder => (), |this| this.target.read(|raw, path| raw.sync(path)).await);
