use super::{Target, awaits};
use crate::framework::CuratorFramework;

/// Brings the server up to date with the leader.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct SyncBuilder {
    target: Target,
}

impl SyncBuilder {
    pub(crate) const fn new(zk: CuratorFramework, path: String) -> Self {
        Self { target: Target::new(zk, "sync", path) }
    }
}

awaits!(SyncBuilder => (), |this| this.target.read(|session, path| session.raw.sync(path)).await);
