//! The record of changes, as events of `tracing`.

use std::fmt;

use tracing::{info, warn};

use super::permit::ChangePermit;

/// A change that was attempted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeChange<'a> {
    /// `create`, `set`, `delete`, `restore` or `undelete`.
    pub(crate) operation: &'static str,
    pub(crate) path: &'a str,
    /// The expected version; `None` for any.
    pub(crate) version: Option<i32>,
    /// The size of the new data in bytes.
    pub(crate) bytes: usize,
}

/// Records a change, also a refused one, with the target `zk_curator_web::audit`. The record has
/// sizes and no data.
pub(crate) fn audited<T, E: fmt::Display>(
    permit: &ChangePermit,
    change: NodeChange<'_>,
    result: Result<T, E>,
) -> Result<T, E> {
    let NodeChange { operation, path, version, bytes } = change;
    let version = version.map_or_else(|| "any".to_owned(), |version| version.to_string());
    let (who, version) = (permit.who(), version.as_str());
    match &result {
        Ok(_) => {
            info!(target: "zk_curator_web::audit", who, operation, path, version, bytes, "changed");
        }
        Err(error) => {
            warn!(
                target: "zk_curator_web::audit",
                who, operation, path, version, bytes, %error,
                "not changed, or unknown"
            );
        }
    }
    result
}
