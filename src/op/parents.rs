//! The creation of missing parents.

use bytes::Bytes;
use zk_curator_client::{Acl, CreateMode, Error as RawError, ErrorCode, Op};

use super::Target;
use crate::chroot::{self, MissingChroot};
use crate::core::RACE_ROUNDS;
use crate::error::{Error, ErrorKind, Result};
use crate::path::split;
use crate::retry::{Budget, RetryLoop};

/// The treatment of missing parents. They have no data.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    /// The kind of node to create; `None` if the parents are expected to exist.
    pub(crate) mode: Option<CreateMode>,
    /// The ACL of created parents; `None` for that of the provider.
    pub(crate) acl: Option<Vec<Acl>>,
}

impl Parents {
    pub(crate) const fn are_wanted(&self) -> bool {
        self.mode.is_some()
    }
}

/// Defines the options about parents, for a builder with a field `parents`.
macro_rules! parent_options {
    () => {
        /// Creates missing parents as persistent nodes without data, with the ACL that the
        /// [provider](crate::acl::AclProvider) has for each.
        pub const fn creating_parents(mut self) -> Self {
            self.parents.mode = Some(zk_curator_client::CreateMode::Persistent);
            self
        }

        /// Creates missing parents as containers without data, with the ACL that the
        /// [provider](crate::acl::AclProvider) has for each. The server removes a container when
        /// its last child is gone.
        pub const fn creating_parents_as_containers(mut self) -> Self {
            self.parents.mode = Some(zk_curator_client::CreateMode::Container);
            self
        }

        /// Sets the access control list of created parents. Default: that of the
        /// [provider](crate::acl::AclProvider).
        pub fn acl_of_parents(mut self, acl: Vec<zk_curator_client::Acl>) -> Self {
            self.parents.acl = Some(acl);
            self
        }
    };
}
pub(crate) use parent_options;

/// Returns the error of a missing chroot: a child of the root has no other parent.
pub(crate) fn missing_chroot<R>(target: &Target<R>) -> Error {
    let error = target.error(RawError::Refused(ErrorCode::NoNode));
    match target.zk.core().chroot() {
        Some(chroot) => error.with_source(MissingChroot(chroot)),
        None => error,
    }
}

/// Creates `parent`, a path of the server, and missing nodes above it, if that was requested or it
/// is the namespace. An error says if any of them may have been created.
pub(crate) async fn create_parents<R>(
    target: &Target<R>,
    budget: &mut Budget<'_>,
    parent: &str,
    parents: &Parents,
) -> Result<()> {
    let core = target.zk.core();
    if parent == "/" {
        let is_restored = chroot::restore(core, budget.time_left()).await;
        return if is_restored { Ok(()) } else { Err(missing_chroot(target)) };
    }
    let of_namespace = (target.zk.ns().node() == Some(parent)).then_some(CreateMode::Container);
    let Some(mut mode) = parents.mode.or(of_namespace) else {
        return Err(Error::new(ErrorKind::NoNode, target.operation, target.path.as_str()));
    };
    // Goes upwards from the parent until a node can be created, and then down again (CURATOR-715).
    let mut missing = vec![parent];
    let mut retries = RetryLoop::new(budget);
    let mut rounds = 0..RACE_ROUNDS;
    while let Some(path) = missing.last().copied() {
        let acl = parents.acl.clone().unwrap_or_else(|| core.acl_of(path));
        let (path_of_node, data) = (path.to_owned(), Some(Bytes::new()));
        let op = Op::Create { path: path_of_node, data, acl, mode, ttl: None };
        let attempt = target.next_attempt(&mut retries).await?;
        match attempt.raw.create(&op).await {
            Ok(_) | Err(RawError::Refused(ErrorCode::NodeExists)) => {
                missing.pop();
            }
            // Servers check the permission on the parent before they check if the node exists.
            Err(RawError::Refused(ErrorCode::NoAuth | ErrorCode::NotReadOnly))
                if target
                    .read_within(retries.budget(), path, |raw, path| raw.exists(path))
                    .await?
                    .is_some() =>
            {
                missing.pop();
            }
            // Curator does the same where the servers have no containers.
            Err(
                RawError::Unsupported(_)
                | RawError::Unimplemented { .. }
                | RawError::Refused(ErrorCode::Unimplemented),
            ) if mode == CreateMode::Container => {
                mode = CreateMode::Persistent;
            }
            Err(RawError::Refused(ErrorCode::NoNode)) if split(path).0 != "/" => {
                missing.push(split(path).0);
            }
            // Every server has a root.
            Err(RawError::Refused(ErrorCode::NoNode)) => {
                let left = retries.budget().time_left();
                if rounds.next().is_none() || !chroot::restore(core, left).await {
                    return Err(missing_chroot(target));
                }
            }
            Err(error) => retries.again(target.error(error), attempt.session.epoch).await?,
        }
    }
    Ok(())
}
