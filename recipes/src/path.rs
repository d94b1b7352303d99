use zk_curator::{CuratorFramework, Error};

/// Creates the parents of a node as containers.
pub(crate) async fn create_parents(zk: &CuratorFramework, path: &str) -> Result<(), Error> {
    match path.rsplit_once('/') {
        Some((parent, _)) if !parent.is_empty() => zk.create_containers(parent).await,
        _ => Ok(()),
    }
}

/// Returns the path of a child.
pub(crate) fn child(parent: impl AsRef<str>, name: &str) -> String {
    format!("{}/{name}", parent.as_ref().trim_end_matches('/'))
}
