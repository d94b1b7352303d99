use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::try_join_all;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind};

use crate::path::child;
use crate::queue::core::name::LAYOUT;
use crate::queue::layout::QueueLayout;

/// Where everything is.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    pub(super) pending: QueueLayout,
    pub(super) line: ZPath,
    pub(super) flat: Flat,
}

impl Places {
    pub(super) fn below(&self, directory: &str) -> String {
        child(&self.path, directory)
    }

    pub(super) fn of(&self, directory: &str, name: &str) -> String {
        format!("{}/{name}", self.below(directory))
    }

    /// Creates what is missing of the directories.
    pub(super) async fn prepare(&self) -> zk_curator::Result<()> {
        let create = |directory| async move {
            let has_buckets = ["pending", "done", "failed"].contains(&directory);
            let data = if has_buckets { LAYOUT } else { "" };
            match self.zk.create(self.below(directory)).creating_parents().data(data).idempotent().await {
                Err(error) if error.kind() == ErrorKind::NodeExists => Ok(()),
                created => created.map(drop),
            }
        };
        try_join_all(["all", "pending", "executing", "leases", "later", "done", "failed"].map(create))
            .await
            .map(drop)
    }
}

/// The end of a job of which something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Failed,
}

impl End {
    pub(super) const ALL: [Self; 2] = [Self::Done, Self::Failed];

    pub(super) const fn directory(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// The directories of ends that were found without buckets: an earlier version of this crate has made them.
#[derive(Debug, Clone, Default)]
pub(super) struct Flat(Arc<[AtomicBool; 2]>);

impl Flat {
    pub(super) fn of(&self, end: End) -> &AtomicBool {
        &self.0[end as usize]
    }
}

/// Whether a transaction failed because the node of one of its operations was not there.
pub(super) fn is_gone(error: &zk_curator::Error, of: usize) -> bool {
    matches!(error.kind(), ErrorKind::TransactionFailed { index, code: ErrorCode::NoNode } if index == of)
}

/// Whether a directory is not there: somebody has deleted it.
pub(super) fn is_missing(error: &zk_curator::Error) -> bool {
    matches!(error.kind(), ErrorKind::NoNode | ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. })
}
