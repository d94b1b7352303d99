use std::sync::Arc;

use zk_curator_client::{Created, Version};

use super::protection::Protection;
use super::session::Session;
use crate::path::join;
use crate::raw::{RawFuture, RevocableFuture};

/// A deletion that `Drop` has left to the janitor. Paths are the server's. A `bound` chore ends with its session.
pub(crate) enum Chore {
    /// Deletes a node.
    Delete(Deletion),
    /// Deletes the node of a create that was dropped before its reply.
    AbandonedCreate {
        session: Arc<Session>,
        /// The path that was asked for.
        path: String,
        answer: RevocableFuture<Created>,
        /// How to find the node if the answer is lost.
        protection: Option<Protection>,
        bound: bool,
        /// Whether others create nodes of the same name.
        shared: bool,
    },
    /// Finds and deletes the node of a create with an unknown outcome.
    FindAndDelete { session: Arc<Session>, protection: Protection, bound: bool },
}

impl Chore {
    /// The node, or its parent and how its name begins.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Delete(deletion) => deletion.path.clone(),
            Self::AbandonedCreate { protection: Some(protection), .. }
            | Self::FindAndDelete { protection, .. } => join(&protection.parent, &protection.prefix),
            Self::AbandonedCreate { path, .. } => path.clone(),
        }
    }

    /// Makes a start with it, without waiting: a delete by path is queued ahead of everything that the session sends later.
    /// Whether there is anything to do at all.
    pub(crate) fn begin(&mut self) -> bool {
        match self {
            Self::Delete(deletion) if deletion.bound && deletion.session.lost.is_cancelled() => false,
            Self::Delete(deletion) => {
                if deletion.czxid.is_none() && deletion.first.is_none() {
                    deletion.first = Some(deletion.session.raw.delete(&deletion.path, deletion.version));
                }
                true
            }
            Self::AbandonedCreate { .. } => !self.withdraw(),
            Self::FindAndDelete { .. } => true,
        }
    }

    /// Takes back a create that was not sent: it leaves nothing.
    pub(crate) fn withdraw(&mut self) -> bool {
        match self {
            Self::AbandonedCreate { answer, .. } => answer.as_mut().withdraw(),
            Self::Delete(_) | Self::FindAndDelete { .. } => false,
        }
    }

    /// Whether it ends with its session.
    pub(crate) const fn is_bound(&self) -> bool {
        match self {
            Self::Delete(deletion) => deletion.bound,
            Self::AbandonedCreate { bound, .. } | Self::FindAndDelete { bound, .. } => *bound,
        }
    }
}

pub(crate) struct Deletion {
    pub(crate) session: Arc<Session>,
    pub(crate) path: String,
    pub(crate) version: Version,
    /// The request that has been queued already.
    pub(crate) first: Option<RawFuture<()>>,
    pub(crate) bound: bool,
    /// Whether its descendants go first.
    pub(crate) with_children: bool,
    /// The transaction that created the node, where others create nodes of the same name: the node is looked at before
    /// every delete but the `first`.
    pub(crate) czxid: Option<i64>,
}

impl Deletion {
    /// Of a node alone, at any version.
    pub(crate) const fn of(session: Arc<Session>, path: String, bound: bool) -> Self {
        Self { session, path, version: Version::Any, first: None, bound, with_children: false, czxid: None }
    }
}
