use bytes::Bytes;
use zk_curator::Stat;

use super::Error;
use zk_curator::value::FromData;

/// Which binding of a name it is: that which was made by one transaction, and so many times rebound.
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
    /// The value as it is stored.
    pub data: Bytes,
    /// For [`NameService::rebind`](super::NameService::rebind).
    pub version: Version,
    /// Whether it goes with the session of whoever has bound it.
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
        T::from_data(&self.data).map_err(|source| Error::Undecodable { path: self.path.clone(), source })
    }
}
