//! The changes that a request can make. Each needs a [`ChangePermit`], and leaves a record.

use bytes::Bytes;
use zk_curator::{CreateMode, CuratorFramework, Error, Stat, Version};

use crate::live::Hub;
use crate::security::{ChangePermit, NodeChange, PendingRecord};

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
        let record = PendingRecord::new(self.permit, change);
        let written = self.zk.set_data(path, data).uncompressed().version(version).await;
        self.done(record, path, written)
    }

    /// Creates a node, and returns its path and its stat.
    pub(crate) async fn create(
        self,
        path: &str,
        data: Bytes,
        mode: CreateMode,
    ) -> Result<(String, Stat), Error> {
        let change = NodeChange { operation: "create", path, version: None, bytes: data.len() };
        let record = PendingRecord::new(self.permit, change);
        let created = self.zk.create(path).mode(mode).data(data).uncompressed().await;
        // The server appends a number to the name of a sequential node.
        let own = created.as_ref().map_or_else(|_| path.to_owned(), |created| created.path.clone());
        let created = self.done(record, &own, created)?;
        Ok((created.path, created.stat))
    }

    /// Deletes a node without children.
    pub(crate) async fn delete(self, path: &str, version: Version) -> Result<(), Error> {
        let change = NodeChange { operation: "delete", path, version: version.exactly(), bytes: 0 };
        let record = PendingRecord::new(self.permit, change);
        let deleted = self.zk.delete(path).version(version).await;
        self.done(record, path, deleted)
    }

    fn done<T>(
        self,
        record: PendingRecord<'_>,
        path: &str,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        self.hub.forget(path);
        record.end(path, &result);
        result
    }
}
