//! The deletion of abandoned nodes.
//!
//! 1. A future that creates or deletes a node has a [`PendingCleanup`]: the cleanup that is
//!    necessary if the future is dropped now.
//! 2. Its drop, or that of a guard, sends a [`Cleanup`] to the janitor
//!    ([`Core::owe`](super::Core::owe)). If `close` comes first and the future is not polled,
//!    `close` takes the cleanup out of the shared [`CleanupSlot`](slot::CleanupSlot).
//! 3. The janitor calls [`perform`], which retries with a pause that doubles.
//! 4. Each of them has a [`ResourceRegistration`] in [`Resources`]: `inspect` lists them, and
//!    `close` waits for those with persistent nodes, and returns the paths that are left.

mod pending;
mod perform;
mod registry;
mod slot;

use std::sync::Arc;

use zk_curator_client::{Created, Version};

pub(crate) use pending::PendingCleanup;
pub(crate) use perform::perform;
pub use registry::{HeldNode, HeldWatch, HeldWatchKind, PendingDeletion};
pub(crate) use registry::{ResourceRegistration, Resources};

use super::authorship::{Authorship, Orphan};
use super::protection::Protection;
use super::session::Session;
use crate::path::join;
use crate::raw::{RawFuture, RevocableFuture};

/// A deletion that the janitor performs. Paths are the server's. A `bound` cleanup ends with its
/// session.
pub(crate) enum Cleanup {
    /// Deletes a node.
    Delete(OwedDeletion),
    /// Deletes the node of a create that was dropped before its reply.
    AbandonedCreate {
        session: Arc<Session>,
        /// The requested path.
        path: String,
        answer: RevocableFuture<Created>,
        /// The protection by which the node is found if the response is lost.
        protection: Option<Protection>,
        /// The author that tracks the node if the response is lost and there is no protection.
        author: Option<Authorship>,
        bound: bool,
        /// `true` if other clients create nodes of the same name.
        shared: bool,
    },
    /// Finds and deletes the node of a create with an unknown outcome.
    FindAndDelete { session: Arc<Session>, protection: Protection, bound: bool },
    /// Deletes the node of a create with an unknown outcome whose author is gone. It ends with its
    /// session.
    Orphan(Orphan),
}

impl Cleanup {
    /// Returns the path of the node, or the parent and the prefix of its name.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Delete(deletion) => deletion.path.clone(),
            Self::AbandonedCreate { protection: Some(protection), .. }
            | Self::FindAndDelete { protection, .. } => {
                join(&protection.parent, &protection.prefix)
            }
            Self::AbandonedCreate { path, .. } | Self::Orphan(Orphan { path, .. }) => path.clone(),
        }
    }

    /// Begins without waiting: a delete by path is queued ahead of everything that the session
    /// sends later. Returns `false` if there is nothing to do.
    pub(crate) fn begin(&mut self) -> bool {
        match self {
            Self::Delete(deletion) if deletion.bound && deletion.session.lost.is_cancelled() => {
                false
            }
            Self::Delete(deletion) => {
                if deletion.czxid.is_none() && deletion.first.is_none() {
                    deletion.first =
                        Some(deletion.session.raw.delete(&deletion.path, deletion.version));
                }
                true
            }
            Self::AbandonedCreate { author, answer, .. } => {
                let is_sent = !answer.as_mut().withdraw();
                if let (false, Some(author)) = (is_sent, author) {
                    author.refused();
                }
                is_sent
            }
            Self::FindAndDelete { .. } | Self::Orphan(_) => true,
        }
    }

    /// Cancels a create that was not sent. It leaves no node.
    pub(crate) fn cancel(&mut self) -> bool {
        match self {
            Self::AbandonedCreate { answer, .. } => answer.as_mut().withdraw(),
            Self::Delete(_) | Self::FindAndDelete { .. } | Self::Orphan(_) => false,
        }
    }

    /// Returns `true` if the cleanup ends with its session.
    pub(crate) const fn is_bound(&self) -> bool {
        match self {
            Self::Delete(deletion) => deletion.bound,
            Self::AbandonedCreate { bound, .. } | Self::FindAndDelete { bound, .. } => *bound,
            Self::Orphan(_) => true,
        }
    }
}

pub(crate) struct OwedDeletion {
    pub(crate) session: Arc<Session>,
    pub(crate) path: String,
    pub(crate) version: Version,
    /// The request that is already queued.
    pub(crate) first: Option<RawFuture<()>>,
    pub(crate) bound: bool,
    /// `true` if the descendants are deleted first.
    pub(crate) with_children: bool,
    /// The transaction that created the node, if other clients create nodes of the same name. The
    /// node is then read before every delete except the `first`.
    pub(crate) czxid: Option<i64>,
}

impl OwedDeletion {
    /// Creates the deletion of a single node, at any version.
    pub(crate) const fn of(session: Arc<Session>, path: String, bound: bool) -> Self {
        Self {
            session,
            path,
            version: Version::Any,
            first: None,
            bound,
            with_children: false,
            czxid: None,
        }
    }
}
