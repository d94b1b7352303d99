//! The node `ready`, which exists from the beginning of a round to its end.

use zk_curator::path::ZPath;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, Error, ErrorCode, ErrorKind};

use super::rules::{self, Began, READY};
use crate::path::child;

/// Where a barrier is.
#[derive(Debug, Clone)]
pub(super) struct BarrierSite {
    pub(super) zk: CuratorFramework,
    pub(super) path: ZPath,
}

/// A node `ready`, and a watch for its end.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) began: Began,
    pub(super) end: Watch,
}

impl BarrierSite {
    pub(super) fn child(&self, name: &str) -> String {
        child(&self.path, name)
    }

    pub(super) fn ready(&self) -> String {
        self.child(READY)
    }

    /// The error of a member whose node is gone.
    pub(super) fn loss(&self) -> super::Error {
        super::Error::Lost { path: self.path.as_str().to_owned() }
    }

    /// The children, the node `ready` among them.
    pub(super) async fn children(&self) -> Result<Vec<String>, Error> {
        Ok(unless_gone(self.zk.children(self.path.as_str()).await)?.unwrap_or_default())
    }

    /// Reads the node behind a quorum.
    pub(super) async fn newest_children(&self) -> Result<Vec<String>, Error> {
        Ok(unless_gone(self.zk.children(self.path.as_str()).synced().await)?.unwrap_or_default())
    }

    /// Reads the node `ready`, if it exists.
    pub(super) async fn read_ready(&self) -> Result<Option<Ready>, Error> {
        let read = self.zk.get_data(self.ready()).watched().await;
        Ok(unless_gone(read)?.map(|read| {
            let (data, stat) = read.value;
            Ready {
                began: Began { czxid: stat.czxid, members: rules::decode(&data) },
                end: read.watch,
            }
        }))
    }

    /// Returns a watch on a child, if it exists.
    pub(super) async fn watch(&self, name: &str) -> Result<Option<Watch>, Error> {
        let read = self.zk.get_data(self.child(name)).watched().await;
        Ok(unless_gone(read)?.map(|read| read.watch))
    }

    /// Deletes the node `ready` that `czxid` created, for its round is over.
    ///
    /// Another member may do so at the same time, and the next round may begin: the delete must not
    /// hit that round's node, however late it comes. It can be bound to a version only, and new
    /// nodes have the same. But every round that begins changes the version of the barrier itself.
    /// If this version has not changed since before the node was read, it is the same node.
    pub(super) async fn sweep(&self, czxid: i64) -> Result<(), Error> {
        let Some(barrier) = self.zk.exists(self.path.as_str()).await? else { return Ok(()) };
        let Some(ready) = self.zk.exists(self.ready()).await? else { return Ok(()) };
        if ready.czxid != czxid {
            return Ok(());
        }
        let delete = self
            .zk
            .transaction()
            .check(self.path.as_str(), Some(barrier.version))
            .delete(self.ready());
        match delete.commit().await {
            // A member that waits for its end reads again.
            Err(error)
                if error.may_have_applied()
                    || matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion)) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }
}

/// Nothing instead of `NoNode`.
pub(super) fn unless_gone<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        Err(error) => Err(error),
    }
}
