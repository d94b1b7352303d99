//! Serialisation of fields whose types have none: ids in hexadecimal, as everywhere in `zkc`.

use bytes::Bytes;
use serde::{Serialize, Serializer};
use zk_curator::SessionId;

use crate::data;
use crate::node::hex;

/// Serialises the id of a transaction. Numbers in JSON are exact only up to 2^53.
pub(super) fn zxid<S: Serializer>(zxid: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex(*zxid))
}

/// Serialises a digest.
pub(super) fn digest<S: Serializer>(digest: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex(digest.cast_signed()))
}

/// Serialises the id of a session.
pub(super) fn session<S: Serializer>(id: &SessionId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// Serialises data as text or base64: see [`data::value`].
pub(super) fn bytes<S: Serializer>(
    bytes: &Option<Bytes>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    bytes.as_deref().map(data::value).serialize(serializer)
}
