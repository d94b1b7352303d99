//! Names that only we can have chosen, and the nodes that have them.

use bytes::Bytes;
use zk_curator_client::{Error as RawError, ErrorCode, Stat};

use super::quorum::read_behind_quorum;
use super::random::Random;
use crate::path::join;
use crate::raw::RawClient;

/// Where a protected node is, and how its name begins.
#[derive(Debug, Clone)]
pub(crate) struct Protection {
    pub(crate) parent: String,
    /// The whole name, if the data say whose node it is.
    pub(crate) prefix: String,
    /// The data that only our node has.
    pub(crate) data: Option<Bytes>,
}

/// A new prefix, in Curator's form: `_c_`, a UUID in lower case, and a hyphen.
pub(crate) fn new_prefix(random: &Random) -> String {
    format!("_c_{}-", random.guid())
}

/// The node of a protected create.
pub(crate) struct Found {
    pub(crate) path: String,
    /// If it was read with the data that say whose it is.
    pub(crate) stat: Option<Stat>,
}

/// Looks for the node of a protected create.
///
/// The answer to the create was never seen, so the server we are connected to now may lag behind it (CURATOR-264).
pub(crate) async fn find(raw: &dyn RawClient, protection: &Protection) -> Result<Option<Found>, RawError> {
    if let Some(ours) = &protection.data {
        let path = join(&protection.parent, &protection.prefix);
        return match read_behind_quorum(raw, &path, |raw, path| raw.get_data(path)).await {
            Ok(node) => Ok((node.data == *ours).then_some(Found { path, stat: Some(node.stat) })),
            Err(RawError::Refused(ErrorCode::NoNode)) => Ok(None),
            Err(error) => Err(error),
        };
    }
    let children = read_behind_quorum(raw, &protection.parent, |raw, path| raw.get_children(path)).await;
    let names = match children {
        Ok(children) => children.names,
        Err(RawError::Refused(ErrorCode::NoNode)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = names.iter().find(|name| name.starts_with(&protection.prefix));
    Ok(found.map(|name| Found { path: join(&protection.parent, name), stat: None }))
}
