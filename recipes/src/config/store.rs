use zk_curator::CuratorFramework;
use zk_curator::path::ZPath;

use super::Error;
use crate::path::child;

/// The data of the node of a store.
pub(crate) const MAGIC: &str = "config 1";
/// The default number of records that are kept.
const KEPT: u32 = 10;

/// Typed values with revisions, in the nodes of one store. Cheap to clone. See the [module](super).
#[derive(Debug, Clone)]
pub struct ConfigStore {
    pub(super) zk: CuratorFramework,
    pub(super) root: String,
    pub(super) values: String,
    pub(super) history: String,
    pub(super) kept: u32,
}

impl ConfigStore {
    /// The store at a path. Nothing is sent: the first update creates it. An invalid path is
    /// refused by the first operation.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let root = path.into();
        let (values, history) = (child(&root, "values"), child(&root, "history"));
        Self { zk: zk.uncompressed(), root, values, history, kept: KEPT }
    }

    /// The number of updates that the history keeps, from 1. Default: 10. Every update removes up
    /// to 100 records that are too old by the setting of its own process, so all writers should
    /// have the same setting. Zero is refused by the [commit](super::Update::commit).
    #[must_use]
    pub fn kept(mut self, updates: u32) -> Self {
        self.kept = updates;
        self
    }

    /// The path of the store.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.root
    }

    pub(super) fn value_path(&self, key: &str) -> String {
        format!("{}/{key}", self.values)
    }

    pub(super) fn record_path(&self, version: i32) -> String {
        format!("{}/{version:010}", self.history)
    }

    /// Refuses an invalid path on behalf of an operation.
    pub(super) fn check_path(&self, operation: &'static str) -> Result<(), Error> {
        ZPath::for_operation(operation, self.path())?;
        Ok(())
    }

    pub(super) fn check_key(&self, key: &str) -> Result<(), Error> {
        let is_name =
            !key.contains('/') && ZPath::for_operation("update", self.value_path(key)).is_ok();
        if is_name && key.split('.').all(|part| !part.is_empty()) {
            Ok(())
        } else {
            Err(Error::InvalidKey { path: self.path().to_owned(), key: key.to_owned() })
        }
    }
}
