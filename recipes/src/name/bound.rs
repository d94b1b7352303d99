use bytes::Bytes;
use zk_curator::Stat;

use super::Error;
use zk_curator::value::FromData;

/// Identifies a binding of a name: by the transaction that made it, and the number of times it was
/// rebound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    pub(super) czxid: i64,
    pub(super) version: i32,
}

impl Version {
    const fn of(stat: &Stat) -> Self {
        Self { czxid: stat.czxid, version: stat.version }
    }
}

/// The value of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The path of the node.
    pub path: String,
    /// The stored value.
    pub data: Bytes,
    /// For [`NameService::rebind`](super::NameService::rebind).
    pub version: Version,
    /// `true` if it ends with the session of its creator.
    pub is_ephemeral: bool,
}

impl Bound {
    pub(super) fn new(path: String, data: Bytes, stat: &Stat) -> Self {
        Self { path, data, version: Version::of(stat), is_ephemeral: stat.is_ephemeral() }
    }

    /// The value as this type.
    ///
    /// # Errors
    /// [`Error::Undecodable`] when it is none of this type.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        T::from_data(&self.data)
            .map_err(|source| Error::Undecodable { path: self.path.clone(), source })
    }
}
