//! Items as values of a type.

use bytes::Bytes;
use zk_curator::value::{FromData, ToData};

use crate::queue::error::Error;
use crate::queue::wire::item::Item;

impl Item {
    /// Decodes the items as values of this type.
    ///
    /// # Errors
    /// [`Error::Undecodable`] if one of them cannot be decoded.
    pub fn values<T: FromData>(&self) -> Result<Vec<T>, Error> {
        decode_all(&self.path, &self.items)
    }
}

/// Encodes an item for the queue at a path.
pub(in crate::queue) fn encode(path: &str, item: &impl ToData) -> Result<Bytes, Error> {
    item.to_data().map_err(|source| Error::Unencodable { path: path.to_owned(), source })
}

/// Encodes several.
pub(in crate::queue) fn encode_all(
    path: &str,
    items: impl IntoIterator<Item = impl ToData>,
) -> Result<Vec<Bytes>, Error> {
    items.into_iter().map(|item| encode(path, &item)).collect()
}

/// Decodes an item; the path, or the id, is for the error.
pub(in crate::queue) fn decode<T: FromData>(item: &str, data: &Bytes) -> Result<T, Error> {
    T::from_data(data).map_err(|source| Error::Undecodable { item: item.to_owned(), source })
}

/// Decodes several.
pub(in crate::queue) fn decode_all<T: FromData>(
    item: &str,
    data: &[Bytes],
) -> Result<Vec<T>, Error> {
    data.iter().map(|data| decode(item, data)).collect()
}
