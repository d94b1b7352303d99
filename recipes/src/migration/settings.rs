use std::time::Duration;

use bytes::Bytes;
use zk_curator::certain::Receipt;
use zk_curator::{CuratorFramework, Ownership};

/// The default time to wait for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of a manager.
#[derive(Debug, Clone)]
pub(super) struct MigrationSettings {
    pub(super) zk: CuratorFramework,
    pub(super) lock_path: String,
    pub(super) metadata_path: String,
    pub(super) lock_timeout: Duration,
    pub(super) label: Bytes,
    /// `true` if each migration has a transaction of its own.
    pub(super) one_each: bool,
    /// The node that replaces the lock.
    pub(super) fence: Option<Ownership>,
    pub(super) receipt: Receipt,
}

impl MigrationSettings {
    pub(super) fn new(zk: &CuratorFramework, lock_path: String, metadata_path: String) -> Self {
        Self {
            zk: zk.clone(),
            lock_path,
            // Java counts the children of the parent of the metadata, so receipts are above it.
            receipt: Receipt::new(zk, metadata_path.as_str()),
            metadata_path,
            lock_timeout: LOCK_TIMEOUT,
            label: Bytes::new(),
            one_each: false,
            fence: None,
        }
    }
}
