//! The changes that a request can make. Each needs a [`ChangePermit`], and leaves a record.

use bytes::Bytes;
use zk_curator::{CreateMode, CuratorFramework, Error, Stat, Version};

use crate::live::Hub;
use crate::security::{ChangePermit, NodeChange, audited};

/// The means to change nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changes<'a> {
    pub(crate) zk: &'a CuratorFramework,
    pub(crate) hub: &'a Hub,
    pub(crate) permit: &'a ChangePermit,
}

impl Changes<'_> {
    /// Replaces the data of a node, and returns its stat.
    pub(crate) async fn set(
        self,
        path: &str,
        data: Bytes,
        version: Version,
    ) -> Result<Stat, Error> {
        let change =
            NodeChange { operation: "set", path, version: version.exactly(), bytes: data.len() };
        let written = self.zk.set_data(path, data).uncompressed().version(version).await;
        self.done(change, written)
    }

    /// Creates a node, and returns its path and its stat.
    pub(crate) async fn create(
        self,
        path: &str,
        data: Bytes,
        mode: CreateMode,
    ) -> Result<(String, Stat), Error> {
        let change = NodeChange { operation: "create", path, version: None, bytes: data.len() };
        let created = self.zk.create(path).mode(mode).data(data).uncompressed().await;
        self.done(change, created.map(|created| (created.path, created.stat)))
    }

    /// Deletes a node without children.
    pub(crate) async fn delete(self, path: &str, version: Version) -> Result<(), Error> {
        let change = NodeChange { operation: "delete", path, version: version.exactly(), bytes: 0 };
        let deleted = self.zk.delete(path).version(version).await;
        self.done(change, deleted)
    }

    fn done<T>(self, change: NodeChange<'_>, result: Result<T, Error>) -> Result<T, Error> {
        self.hub.forget(change.path);
        audited(self.permit, change, result)
    }
}
