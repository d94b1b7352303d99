use super::parents::{Parents, create_parents};
use super::{OpTarget, awaits, call_options};
use crate::framework::CuratorFramework;
use zk_curator_client::{Acl, CreateMode};

impl CuratorFramework {
    /// Creates a node, and missing nodes above it, as containers.
    ///
    /// **Awaiting returns** `()`.
    pub fn create_containers(&self, path: impl Into<String>) -> CreateContainersBuilder {
        CreateContainersBuilder::new(self.clone(), path.into())
    }
}

/// Creates a node and all missing nodes above it as containers, which the server removes when their
/// last child is gone. Existing nodes stay unchanged.
///
/// # Cancel safety
/// Once the future was polled, some of the nodes may be created.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct CreateContainersBuilder {
    target: OpTarget,
    parents: Parents,
}

impl CreateContainersBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        let parents = Parents { mode: Some(CreateMode::Container), acl: None };
        Self { target: OpTarget::new(zk, "create_containers", path), parents }
    }

    /// Sets the access control list. Default: that of the [provider](crate::acl::AclProvider).
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.parents.acl = Some(acl);
        self
    }
}

call_options!(CreateContainersBuilder);

awaits!(CreateContainersBuilder => (), |this| {
    let path = this.target.server_path()?;
    create_parents(&this.target, &mut this.target.budget(), &path, &this.parents).await
});
