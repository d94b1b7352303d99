//! The creation of missing parents.

use bytes::Bytes;
use futures_util::future::join_all;
use zk_curator_client::path::ancestors;
use zk_curator_client::{Acl, CreateMode, Created, Error as RawError, ErrorCode, Op};

use super::OpTarget;
use crate::chroot;
use crate::core::RACE_ROUNDS;
use crate::error::{Error, ErrorKind, Result};
use crate::path::split;
use crate::raw::RawClient;
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
pub(crate) fn missing_chroot<R>(target: &OpTarget<R>) -> Error {
    let error = target.error(RawError::Refused(ErrorCode::NoNode));
    match target.zk.core().chroot() {
        Some(path) => error.with_source(chroot::why_missing(&path)),
        None => error,
    }
}

/// A create that has failed: its path, and the error.
type FailedParent<'p> = Option<(&'p str, RawError)>;

/// Returns the create that has failed, if it tells that later ones must fail too, and the last one
/// that was denied without any sign that its node exists.
fn failures<'p>(
    results: impl Iterator<Item = (&'p str, Result<Created, RawError>)>,
) -> (FailedParent<'p>, FailedParent<'p>) {
    let mut denied = None;
    for (path, result) in results {
        match result {
            Ok(_) | Err(RawError::Refused(ErrorCode::NodeExists)) => denied = None,
            // Servers check the permission on the parent before they check if the node exists:
            // what becomes of the node below tells whether it does (CURATOR-715).
            Err(error @ RawError::Refused(ErrorCode::NoAuth | ErrorCode::NotReadOnly)) => {
                denied = Some((path, error));
            }
            Err(error) => return (Some((path, error)), denied),
        }
    }
    (None, denied)
}

/// Creates `parent`, a path of the server, and missing nodes above it, if that was requested or it
/// is the namespace. An error says if any of them may have been created.
#[expect(clippy::too_many_lines, reason = "one round trip: send, judge")]
pub(crate) async fn create_parents<R>(
    target: &OpTarget<R>,
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
    // At first only the parent, because the nodes above it mostly exist.
    let mut paths = vec![parent];
    let mut retries = RetryLoop::new(budget);
    let mut rounds = 0..RACE_ROUNDS;
    loop {
        let attempt = target.next_attempt(&mut retries).await?;
        let create = |path: &str| {
            let acl = parents.acl.clone().unwrap_or_else(|| core.acl_of(path));
            let (path, data) = (path.to_owned(), Some(Bytes::new()));
            attempt.raw.create(&Op::Create { path, data, acl, mode, ttl: None })
        };
        // The calls queue the requests in this order, and the server executes them in it.
        let results = join_all(paths.iter().map(|path| create(path))).await;
        let error = match failures(paths.iter().copied().zip(results)) {
            (None, None) => return Ok(()),
            (Some((_, RawError::Refused(ErrorCode::NoNode))) | None, Some((path, denied))) => {
                let exists = |raw: &dyn RawClient, path: &str| raw.exists(path);
                match target.read_within(retries.budget(), path, exists).await? {
                    Some(_) if path == parent => return Ok(()),
                    // It was created in the meantime.
                    Some(_) if rounds.next().is_some() => continue,
                    _ => denied,
                }
            }
            // Curator does the same where the servers have no containers.
            (
                Some((
                    _,
                    RawError::Unsupported(_)
                    | RawError::Unimplemented { .. }
                    | RawError::Refused(ErrorCode::Unimplemented),
                )),
                _,
            ) if mode == CreateMode::Container => {
                mode = CreateMode::Persistent;
                continue;
            }
            // Every server has a root.
            (Some((path, RawError::Refused(ErrorCode::NoNode))), None) if split(path).0 == "/" => {
                let left = retries.budget().time_left();
                if rounds.next().is_none() || !chroot::restore(core, left).await {
                    return Err(missing_chroot(target));
                }
                continue;
            }
            (Some((_, RawError::Refused(ErrorCode::NoNode))), None) if paths.len() == 1 => {
                paths = from_the_top(parent);
                continue;
            }
            // The node above was deleted in the meantime.
            (Some((_, RawError::Refused(ErrorCode::NoNode))), None) if rounds.next().is_some() => {
                continue;
            }
            (Some((_, error)), _) => error,
        };
        retries.again(target.error(error), attempt.session.epoch).await?;
    }
}

/// Returns all nodes above a node, and the node, from the top. Every server has a root.
fn from_the_top(path: &str) -> Vec<&str> {
    let mut all: Vec<_> = ancestors(path).filter(|path| *path != "/").collect();
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_begin_at_the_top() {
        assert_eq!(from_the_top("/a/b/c"), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(from_the_top("/ä"), ["/ä"]);
    }
}
