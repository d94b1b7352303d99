//! The strict writer.

use bytes::Bytes;
use serde::Serialize;

use super::MAX_BYTES;
use super::read::{Fault, check};
use super::text::{WrittenJson, joined, json, pairs};
use crate::instance::{ServiceInstance, ServiceType, Shape, Tag};
use crate::payload::{PayloadCodec, PayloadForm};

/// The rule by which a record contains the field `enabled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum JsonMode {
    /// Only if it is `false`. So the record of an enabled instance is, byte for byte, the record of
    /// Curator's default serializer.
    #[default]
    Compatible,
    /// Always, as Curator's serializer does outside its compatible mode.
    Full,
}

/// The reason why an instance cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The payload cannot be serialized.
    #[error("the payload cannot be serialized")]
    Payload(#[source] serde_json::Error),
    /// Curator does not define this kind of registration.
    #[error("Curator has no service type {0:?}")]
    ServiceType(String),
    /// The record is larger than [`MAX_BYTES`].
    #[error("a record of {0} bytes is too large")]
    TooLarge(usize),
    /// Readers would refuse the record: its nesting is too deep, or an object has duplicate keys.
    #[error("readers would refuse the record")]
    Unreadable(#[source] Fault),
}

/// Writes the record of an instance.
///
/// A payload that was read with a Java class keeps that class, regardless of the codec, if it is
/// still an object, a list, a text, a number, or a boolean.
///
/// # Errors
/// See [`WriteError`].
pub fn write<P: Serialize>(
    instance: &ServiceInstance<P>,
    codec: &PayloadCodec,
    mode: JsonMode,
) -> Result<Bytes, WriteError> {
    finished(joined(pairs(&fields(instance, codec, mode)?)))
}

/// Returns the fields of the record of an instance.
pub(crate) fn fields<P: Serialize>(
    instance: &ServiceInstance<P>,
    codec: &PayloadCodec,
    mode: JsonMode,
) -> Result<WrittenJson, WriteError> {
    if let ServiceType::Other(other) = &instance.service_type {
        return Err(WriteError::ServiceType(other.clone()));
    }
    let payload = json(&instance.payload).map_err(WriteError::Payload)?;
    let known = [
        ("name", json(&instance.name)),
        ("id", json(&instance.id)),
        ("address", json(&instance.address)),
        ("port", json(&instance.port)),
        ("sslPort", json(&instance.ssl_port)),
        ("payload", tagged(payload, codec, instance.extra.tag.as_ref())),
        ("registrationTimeUTC", json(&instance.registration_time_utc)),
        ("serviceType", json(instance.service_type.as_str())),
        ("uriSpec", json(&instance.uri_spec)),
    ];
    let enabled =
        (!instance.enabled || mode == JsonMode::Full).then(|| ("enabled", json(&instance.enabled)));
    let mut fields = known
        .into_iter()
        .chain(enabled)
        .map(|(name, value)| Ok((name.to_owned(), value.map_err(WriteError::Payload)?)))
        .collect::<Result<WrittenJson, _>>()?;
    let rest = &instance.extra.rest;
    fields.extend(rest.iter().map(|(name, value)| (name.clone(), value.to_string())));
    Ok(fields)
}

/// Checks that readers accept a record.
pub(super) fn finished(record: String) -> Result<Bytes, WriteError> {
    if record.len() > MAX_BYTES {
        return Err(WriteError::TooLarge(record.len()));
    }
    check(&record).map_err(WriteError::Unreadable)?;
    Ok(record.into())
}

/// Adds the Java class to a payload.
fn tagged(
    payload: String,
    codec: &PayloadCodec,
    read: Option<&Tag>,
) -> Result<String, serde_json::Error> {
    let kept = read.filter(|tag| tag.shape == Shape::of(&payload));
    let is_property = kept.map_or_else(|| payload.starts_with('{'), |tag| tag.is_property);
    let class = match (&codec.0, payload.as_bytes().first()) {
        (_, Some(b'n')) => None,
        _ if kept.is_some() => kept.map(|tag| &*tag.class),
        (PayloadForm::Tagged(class), _) => Some(&**class),
        (PayloadForm::Map, Some(b'{')) => Some("java.util.HashMap"),
        (_, Some(b'[')) => Some("java.util.ArrayList"),
        (_, Some(b'-' | b'0'..=b'9')) if is_long(&payload) => Some("java.lang.Long"),
        _ => None,
    };
    let Some(class) = class else { return Ok(payload) };
    let class = json(class)?;
    Ok(match payload.strip_prefix('{').filter(|_| is_property) {
        Some("}") => format!("{{\"@class\":{class}}}"),
        Some(rest) => format!("{{\"@class\":{class},{rest}"),
        None => format!("[{class},{payload}]"),
    })
}

/// Returns `true` for an integer that does not fit into a Java `int`.
fn is_long(number: &str) -> bool {
    number.parse::<i128>().is_ok() && number.parse::<i32>().is_err()
}
