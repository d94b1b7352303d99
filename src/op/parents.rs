//! The creation of missing parents.

use bytes::Bytes;
use zk_curator_client::{Acl, CreateMode, Error as RawError, ErrorCode, Op};

use super::Target;
use crate::chroot::MissingChroot;
use crate::error::{Error, ErrorKind, Result};
use crate::path::split;
use crate::retry::Budget;

/// The treatment of missing parents. They have no data.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    /// The kind of node to create; `None` if they are expected to be there.
    pub(crate) mode: Option<CreateMode>,
    /// Their ACL; `None` for that of the provider.
    pub(crate) acl: Option<Vec<Acl>>,
}

impl Parents {
    pub(crate) const fn are_wanted(&self) -> bool {
        self.mode.is_some()
    }
}

/// The options about parents, for a builder with a field `parents`.
macro_rules! parent_options {
    () => {
        /// Creates missing parents as persistent nodes without data, with the ACL that the
        /// [provider](crate::acl::AclProvider) has for each.
        pub const fn creating_parents(mut self) -> Self {
            self.parents.mode = Some(zk_curator_client::CreateMode::Persistent);
            self
        }

        /// Creates missing parents as containers, which the server removes when their last child is gone;
        /// without data, with the ACL that the [provider](crate::acl::AclProvider) has for each.
        pub const fn creating_parents_as_containers(mut self) -> Self {
            self.parents.mode = Some(zk_curator_client::CreateMode::Container);
            self
        }

        /// The access control list of parents that are created. Default: that of the
        /// [provider](crate::acl::AclProvider).
        pub fn acl_of_parents(mut self, acl: Vec<zk_curator_client::Acl>) -> Self {
            self.parents.acl = Some(acl);
            self
        }
    };
}
pub(crate) use parent_options;

/// A child of the root has no parent: it is the chroot that does not exist.
pub(crate) fn missing_chroot<R>(target: &Target<R>) -> Error {
    let error = target.error(RawError::Refused(ErrorCode::NoNode));
    match target.zk.core().chroot() {
        Some(chroot) => error.with_source(MissingChroot(chroot)),
        None => error,
    }
}

/// Creates `parent`, a path of the server, and what is missing above it, if that is wanted or it is the
/// namespace. An error says whether any of them may have been created unnoticed.
pub(crate) async fn create_parents<R>(
    target: &Target<R>,
    budget: &mut Budget<'_>,
    parent: &str,
    parents: &Parents,
) -> Result<()> {
    let of_namespace = (target.zk.ns().node() == Some(parent)).then_some(CreateMode::Container);
    let Some(mut mode) = parents.mode.or(of_namespace) else {
        return Err(Error::new(ErrorKind::NoNode, target.operation, target.path.as_str()));
    };
    let core = target.zk.core();
    // From the parent upwards until one can be created, and down again (CURATOR-715).
    let mut missing = vec![parent];
    let mut unknown: Option<Error> = None;
    while let Some(path) = missing.last().copied() {
        if path == "/" {
            // Of the chroot, which is not ours to create, or of the server, which has one.
            return Ok(());
        }
        let acl = parents.acl.clone().unwrap_or_else(|| core.acl_of(path));
        let op = Op::Create { path: path.to_owned(), data: Bytes::new(), acl, mode, ttl: None };
        let attempt = target.attempt(budget).await.map_err(|last| unknown.clone().unwrap_or(last))?;
        match attempt.raw.create(&op).await {
            Ok(_) | Err(RawError::Refused(ErrorCode::NodeExists)) => {
                missing.pop();
            }
            // Servers ask whether the parent may be written to before they look whether the node exists.
            Err(RawError::Refused(ErrorCode::NoAuth | ErrorCode::NotReadOnly))
                if target.read_within(budget, path, |raw, path| raw.exists(path)).await?.is_some() =>
            {
                missing.pop();
            }
            // Curator does so where the servers have none.
            Err(RawError::Unsupported(_) | RawError::Refused(ErrorCode::Unimplemented))
                if mode == CreateMode::Container =>
            {
                mode = CreateMode::Persistent;
            }
            Err(RawError::Refused(ErrorCode::NoNode)) if split(path).0 != "/" => {
                missing.push(split(path).0);
            }
            // Every server has a root.
            Err(RawError::Refused(ErrorCode::NoNode)) => return Err(missing_chroot(target)),
            Err(error) => {
                let error = target.error(error);
                if error.may_have_applied() {
                    unknown.get_or_insert_with(|| error.clone());
                }
                budget
                    .spend(error, attempt.session.epoch)
                    .await
                    .map_err(|last| unknown.clone().unwrap_or(last))?;
            }
        }
    }
    Ok(())
}
