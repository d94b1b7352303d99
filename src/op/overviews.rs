use zk_curator_client::ClientInfo;

use super::{OpTarget, awaits, call_options};
use crate::error::Result;
use crate::framework::CuratorFramework;
use crate::schema::Intent;

impl CuratorFramework {
    /// Finds the ephemeral nodes of the present session at a path or below it; since ZooKeeper 3.6.
    ///
    /// **Awaiting returns** `Vec<String>`, the paths within the namespace, in no order.
    #[doc(alias = "getEphemerals")]
    pub fn get_ephemerals(&self, path: impl Into<String>) -> EphemeralsBuilder {
        EphemeralsBuilder { target: OpTarget::new(self.clone(), "get_ephemerals", path.into()) }
    }

    /// Counts the nodes below a node, at any depth; since ZooKeeper 3.6. Fails with `NoNode`.
    ///
    /// **Awaiting returns** `u32`. The server looks at every node that it has.
    #[doc(alias = "getAllChildrenNumber")]
    pub fn get_all_children_number(&self, path: impl Into<String>) -> AllChildrenNumberBuilder {
        let target = OpTarget::new(self.clone(), "get_all_children_number", path.into());
        AllChildrenNumberBuilder { target }
    }

    /// Lists the identities that the server knows of the present connection; since ZooKeeper 3.7.
    /// Every client is at least `ip`.
    ///
    /// **Awaiting returns** `Vec<ClientInfo>`.
    #[doc(alias = "whoAmI")]
    pub fn who_am_i(&self) -> WhoAmIBuilder {
        WhoAmIBuilder { target: OpTarget::new(self.clone(), "who_am_i", "/".to_owned()) }
    }
}

/// Finds ephemeral nodes of the present session. A retry in the next session returns the nodes of
/// that session.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct EphemeralsBuilder {
    target: OpTarget,
}

impl EphemeralsBuilder {
    async fn run(self) -> Result<Vec<String>> {
        let target = &self.target;
        target.admit(Intent::Read { watched: false })?;
        let (root, namespace) = (target.server_path()?, target.zk.ns());
        let mut paths = target.read(|raw, path| raw.get_ephemerals(path)).await?;
        // Servers compare strings: below `/app` they also find `/application`.
        let is_below =
            |path: &str| path.strip_prefix(&*root).is_some_and(|rest| rest.starts_with('/'));
        paths.retain(|path| root == "/" || *path == root || is_below(path));
        Ok(paths.iter().map(|path| namespace.strip(path).to_owned()).collect())
    }
}

call_options!(EphemeralsBuilder);
awaits!(EphemeralsBuilder => Vec<String>, |this| this.run().await);

/// Counts the nodes below a node.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct AllChildrenNumberBuilder {
    target: OpTarget,
}

impl AllChildrenNumberBuilder {
    async fn run(self) -> Result<u32> {
        self.target.admit(Intent::Read { watched: false })?;
        self.target.read(|raw, path| raw.get_all_children_number(path)).await
    }
}

call_options!(AllChildrenNumberBuilder);
awaits!(AllChildrenNumberBuilder => u32, |this| this.run().await);

/// Lists the identities of the present connection.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct WhoAmIBuilder {
    target: OpTarget,
}

call_options!(WhoAmIBuilder);
awaits!(WhoAmIBuilder => Vec<ClientInfo>, |this| this.target.read(|raw, _| raw.who_am_i()).await);
