//! The strict writer.

use bytes::Bytes;
use serde::Serialize;

use super::MAX_BYTES;
use super::read::{Fault, check};
use super::text::json;
use crate::instance::{ServiceInstance, ServiceType, Shape, Tag};
use crate::payload::{Form, PayloadCodec};

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
    if let ServiceType::Other(other) = &instance.service_type {
        return Err(WriteError::ServiceType(other.clone()));
    }
    let mut record = String::from("{");
    let mut field = |name: &str, value: &str| {
        if record.len() > 1 {
            record.push(',');
        }
        // Names of unknown fields may contain quotes.
        record.push_str(&json(name).map_err(WriteError::Payload)?);
        record.push(':');
        record.push_str(value);
        Ok(())
    };
    let known = |value: Result<String, serde_json::Error>| value.map_err(WriteError::Payload);
    field("name", &known(json(&instance.name))?)?;
    field("id", &known(json(&instance.id))?)?;
    field("address", &known(json(&instance.address))?)?;
    field("port", &known(json(&instance.port))?)?;
    field("sslPort", &known(json(&instance.ssl_port))?)?;
    let payload = known(json(&instance.payload))?;
    field("payload", &known(tagged(payload, codec, instance.extra.tag.as_ref()))?)?;
    field("registrationTimeUTC", &instance.registration_time_utc.to_string())?;
    field("serviceType", &known(json(instance.service_type.as_str()))?)?;
    field("uriSpec", &known(json(&instance.uri_spec))?)?;
    if !instance.enabled || mode == JsonMode::Full {
        field("enabled", if instance.enabled { "true" } else { "false" })?;
    }
    for (name, value) in &instance.extra.rest {
        field(name, value)?;
    }
    record.push('}');
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
        (Form::Tagged(class), _) => Some(&**class),
        (Form::Map, Some(b'{')) => Some("java.util.HashMap"),
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
