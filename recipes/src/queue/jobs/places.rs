use futures_util::future::try_join_all;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind};

use crate::path::child;
use crate::queue::wire::layout::QueueLayout;
use crate::queue::wire::name::LAYOUT;

/// The paths of all nodes of the jobs.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    pub(super) pending: QueueLayout,
    pub(super) line: ZPath,
}

impl Places {
    pub(super) fn below(&self, directory: &str) -> String {
        child(&self.path, directory)
    }

    pub(super) fn of(&self, directory: &str, name: &str) -> String {
        format!("{}/{name}", self.below(directory))
    }

    /// Creates the missing directories.
    pub(super) async fn prepare(&self) -> zk_curator::Result<()> {
        let create = |directory| async move {
            let has_buckets = ["pending", "done", "failed"].contains(&directory);
            let data = if has_buckets { LAYOUT } else { "" };
            match self
                .zk
                .create(self.below(directory))
                .creating_parents()
                .data(data)
                .idempotent()
                .await
            {
                Err(error) if error.kind() == ErrorKind::NodeExists => Ok(()),
                created => created.map(drop),
            }
        };
        try_join_all(
            ["all", "pending", "executing", "leases", "later", "done", "failed"].map(create),
        )
        .await
        .map(drop)
    }
}

/// The end of a job that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobEnd {
    Done,
    Failed,
}

impl JobEnd {
    pub(super) const ALL: [Self; 2] = [Self::Done, Self::Failed];

    pub(super) const fn directory(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// Returns `true` if a transaction failed because the node of one of its operations did not exist.
pub(super) fn is_gone(error: &zk_curator::Error, of: usize) -> bool {
    matches!(error.kind(), ErrorKind::TransactionFailed { index, code: ErrorCode::NoNode } if index == of)
}

/// Returns `true` if a directory does not exist, because another client has deleted it.
pub(super) fn is_missing(error: &zk_curator::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NoNode | ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. }
    )
}
