//! Unique names of protected nodes, and the search for these nodes.

use bytes::Bytes;
use zk_curator_client::{Error as RawError, ErrorCode, Stat};

use super::quorum::read_behind_quorum;
use super::random::RandomSource;
use crate::path::join;
use crate::raw::RawClient;

/// The place of a protected node, and the prefix of its name.
#[derive(Debug, Clone)]
pub(crate) struct Protection {
    pub(crate) parent: String,
    /// The prefix, or the whole name if the data identify the node.
    pub(crate) prefix: String,
    /// The data that identify the node.
    pub(crate) data: Option<Bytes>,
}

/// Returns a new prefix in Curator's form: `_c_`, a UUID in lower case, and a hyphen.
pub(crate) fn new_prefix(random: &RandomSource) -> String {
    format!("_c_{}-", random.guid())
}

/// The node of a protected create.
pub(crate) struct ProtectedNode {
    pub(crate) path: String,
    /// The stat, if the node was read with the data that identify it.
    pub(crate) stat: Option<Stat>,
}

/// Searches for the node of a protected create.
///
/// The response to the create was lost, so the present server may lag behind the create
/// (CURATOR-264).
pub(crate) async fn find(
    raw: &dyn RawClient,
    protection: &Protection,
) -> Result<Option<ProtectedNode>, RawError> {
    if let Some(ours) = &protection.data {
        let path = join(&protection.parent, &protection.prefix);
        return match read_behind_quorum(raw, &path, |raw, path| raw.get_data(path)).await {
            Ok(node) => {
                Ok((node.data == *ours).then_some(ProtectedNode { path, stat: Some(node.stat) }))
            }
            Err(RawError::Refused(ErrorCode::NoNode)) => Ok(None),
            Err(error) => Err(error),
        };
    }
    let children =
        read_behind_quorum(raw, &protection.parent, |raw, path| raw.get_children(path)).await;
    let names = match children {
        Ok(children) => children.names,
        Err(RawError::Refused(ErrorCode::NoNode)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = names.iter().find(|name| name.starts_with(&protection.prefix));
    Ok(found.map(|name| ProtectedNode { path: join(&protection.parent, name), stat: None }))
}
