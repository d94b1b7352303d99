//! The lenient reader.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use zk_curator::internal::unless_it_panics;

use super::text::joined;
use super::{MAX_BYTES, MAX_DEPTH, scalar};
use crate::instance::{Extra, ServiceInstance, ServiceType, Shape, Tag};
use crate::uri_spec::{UriPart, UriSpec};

/// The reason why data are not a valid record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}, at byte {offset}")]
#[non_exhaustive]
pub struct Fault {
    /// The position of the first unexpected byte, from zero. For a value of the wrong type, this is
    /// the first byte of the value.
    pub offset: usize,
    /// The reason.
    pub reason: String,
}

impl Fault {
    pub(super) fn new(offset: usize, reason: impl Into<String>) -> Self {
        Self { offset, reason: reason.into() }
    }

    /// Converts the error of a parser that has read `text`.
    pub(super) fn of(text: &str, error: &serde_json::Error) -> Self {
        let before = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let line: usize = before.map(str::len).sum();
        let offset = (line + error.column().saturating_sub(1)).min(text.len());
        // The text of the error ends with a line and a column.
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        Self::new(offset, reason)
    }
}

/// Reads a record. `name` and `id` are those of its path, for a record without them.
///
/// # Errors
/// Fails if the data are not a record, are larger than [`MAX_BYTES`] or nested deeper than
/// [`MAX_DEPTH`], or if a field or the payload has the wrong type.
pub fn read<P: DeserializeOwned>(
    data: &[u8],
    name: &str,
    id: &str,
) -> Result<ServiceInstance<P>, Fault> {
    read_as(RecordOrigin::Node, data, name, id).map(|(instance, _)| instance)
}

/// Reads the body of a request: a record whose list of two is no payload with a Java class. Also
/// returns `true` if it has the field `enabled`.
#[cfg(feature = "rest")]
pub(crate) fn read_body<P: DeserializeOwned>(
    data: &[u8],
    name: &str,
    id: &str,
) -> Result<(ServiceInstance<P>, bool), Fault> {
    read_as(RecordOrigin::Body, data, name, id)
}

/// The place that a record is from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordOrigin {
    Node,
    #[cfg(feature = "rest")]
    Body,
}

fn read_as<P: DeserializeOwned>(
    source: RecordOrigin,
    data: &[u8],
    name: &str,
    id: &str,
) -> Result<(ServiceInstance<P>, bool), Fault> {
    let text = text(data)?;
    check(text)?;
    let fields = RecordFields::of(text)?;
    let mut instance = ServiceInstance {
        name: name.to_owned(),
        id: id.to_owned(),
        address: None,
        port: None,
        ssl_port: None,
        payload: (),
        registration_time_utc: 0,
        service_type: ServiceType::Dynamic,
        uri_spec: None,
        enabled: true,
        extra: Extra::default(),
    };
    let (mut has_name, mut has_id, mut has_enabled) = (false, false, false);
    let mut payload = "null";
    for (field, raw) in fields.0 {
        let raw = raw.get();
        match field.as_str() {
            "name" => has_name = put(&mut instance.name, scalar(text, raw, scalar::text)?),
            "id" => has_id = put(&mut instance.id, scalar(text, raw, scalar::text)?),
            "address" => instance.address = scalar(text, raw, scalar::text)?,
            "port" => instance.port = scalar(text, raw, port)?,
            "sslPort" => instance.ssl_port = scalar(text, raw, port)?,
            "payload" => payload = raw,
            "registrationTimeUTC" => {
                instance.registration_time_utc =
                    scalar(text, raw, scalar::integer)?.unwrap_or_default();
            }
            "serviceType" => instance.service_type = scalar(text, raw, service_type)?,
            "uriSpec" => instance.uri_spec = uri_spec(text, raw)?,
            "enabled" => {
                instance.enabled = scalar(text, raw, scalar::boolean)?;
                has_enabled = true;
            }
            _ => instance.extra.rest.push((field, raw.into())),
        }
    }
    instance.extra.incomplete = !has_name || !has_id;
    // A follower of many records must not end with one of them.
    let (tag, value) = unless_it_panics(|| read_payload(source, text, payload))
        .unwrap_or_else(|| Err(Fault::new(offset(text, payload), "its `Deserialize` panicked")))?;
    instance.extra.tag = tag;
    Ok((instance.with_payload(value), has_enabled))
}

/// Returns the data as text, if their size is acceptable.
pub(super) fn text(data: &[u8]) -> Result<&str, Fault> {
    if data.len() > MAX_BYTES {
        return Err(Fault::new(
            MAX_BYTES,
            format!("a record of {} bytes is too large", data.len()),
        ));
    }
    if data.starts_with(b"\xef\xbb\xbf") {
        return Err(Fault::new(0, "unexpected byte order mark"));
    }
    str::from_utf8(data).map_err(|error| Fault::new(error.valid_up_to(), "not UTF-8"))
}

/// Checks that the text is JSON, is not nested too deeply, and has no duplicate keys.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let mut input = serde_json::Deserializer::from_str(text);
    let checked = Nested { depth: 0 }.deserialize(&mut input).and_then(|()| input.end());
    checked.map_err(|error| Fault::of(text, &error))
}

/// Replaces a field if there is a value.
fn put<T>(field: &mut T, value: Option<T>) -> bool {
    value.map(|value| *field = value).is_some()
}

/// Reads the value of a field with a function of [`scalar`](super::scalar); `raw` is a part of
/// `text`.
pub(super) fn scalar<T>(
    text: &str,
    raw: &str,
    read: impl FnOnce(&str) -> Result<T, &'static str>,
) -> Result<T, Fault> {
    read(raw).map_err(|why| Fault::new(offset(text, raw), why))
}

fn port(raw: &str) -> Result<Option<u16>, &'static str> {
    let port = scalar::integer(raw)?.map(u16::try_from).transpose();
    port.map_err(|_| "not a port: it is not from 0 to 65535")
}

/// Reads the kind of a registration: its name, or its number in Java.
fn service_type(raw: &str) -> Result<ServiceType, &'static str> {
    const KINDS: [ServiceType; 4] = [
        ServiceType::Dynamic,
        ServiceType::Static,
        ServiceType::Permanent,
        ServiceType::DynamicSequential,
    ];
    let Some(name) = scalar::text(raw)? else { return Ok(ServiceType::default()) };
    let Ok(number) = name.parse::<usize>() else { return Ok(name.into()) };
    KINDS.get(number).cloned().ok_or("not the number of a service type")
}

/// A template, with values that are not read yet.
#[derive(Deserialize)]
struct RawUriSpec<'a> {
    #[serde(borrow, default)]
    parts: Vec<RawUriPart<'a>>,
}

#[derive(Deserialize)]
struct RawUriPart<'a> {
    #[serde(borrow)]
    value: &'a RawValue,
    #[serde(borrow, default)]
    variable: Option<&'a RawValue>,
}

fn uri_spec(text: &str, raw: &str) -> Result<Option<UriSpec>, Fault> {
    if raw == "\"\"" {
        // For Jackson an empty text is an object without fields.
        return Ok(Some(UriSpec::default()));
    }
    let Some(spec) = value::<Option<RawUriSpec<'_>>>(text, raw)? else { return Ok(None) };
    let part = |part: RawUriPart<'_>| {
        let value = scalar(text, part.value.get(), |raw| {
            scalar::text(raw)?.ok_or("the part of a template has no value")
        })?;
        let variable = part.variable.map(|raw| scalar(text, raw.get(), scalar::boolean));
        Ok(UriPart { value, variable: variable.transpose()?.unwrap_or_default() })
    };
    spec.parts.into_iter().map(part).collect::<Result<_, _>>().map(|parts| Some(UriSpec::of(parts)))
}

/// Reads the value of a field; `raw` is a part of `text`.
fn value<'a, T: Deserialize<'a>>(text: &str, raw: &'a str) -> Result<T, Fault> {
    serde_json::from_str(raw)
        .map_err(|error| Fault::new(offset(text, raw), Fault::of(raw, &error).reason))
}

/// Returns the position of a part of a text, or its end for a part that it lacks.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize).min(text.len())
}

fn read_payload<P: DeserializeOwned>(
    source: RecordOrigin,
    text: &str,
    raw: &str,
) -> Result<(Option<Tag>, P), Fault> {
    if source == RecordOrigin::Node
        && let Some((class, value)) = wrapped(raw)
        && let Ok(payload) = serde_json::from_str(value.get())
    {
        let shape = Shape::of(value.get());
        return Ok((Some(Tag { class, is_property: false, shape }), payload));
    }
    if raw.starts_with('{') {
        let fields = RecordFields::of(raw)?;
        if let Some((class, rest)) = property(&fields) {
            let payload = serde_json::from_str(&rest)
                .map_err(|error| Fault::new(offset(text, raw), Fault::of(&rest, &error).reason))?;
            return Ok((Some(Tag { class, is_property: true, shape: Shape::Object }), payload));
        }
        if source != RecordOrigin::Node && fields.iter().any(|(name, _)| name == "@class") {
            return Err(Fault::new(offset(text, raw), "@class is not a text"));
        }
    }
    Ok((None, value(text, raw)?))
}

/// Returns the class and the value of an array such as `["java.lang.Long",7]`.
fn wrapped(raw: &str) -> Option<(String, &RawValue)> {
    raw.starts_with('[').then(|| serde_json::from_str(raw).ok()).flatten()
}

/// Returns the class of an object, and the object without it.
fn property(fields: &RecordFields<'_>) -> Option<(String, String)> {
    let (_, class) = fields.iter().find(|(name, _)| *name == "@class")?;
    let class = serde_json::from_str(class).ok()?;
    Some((class, joined(fields.iter().filter(|(name, _)| *name != "@class"))))
}

/// The fields of an object, in order.
pub(super) struct RecordFields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> RecordFields<'a> {
    pub(super) fn of(text: &'a str) -> Result<Self, Fault> {
        serde_json::from_str(text).map_err(|error| Fault::of(text, &error))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, raw)| (name.as_str(), raw.get()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RecordFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = RecordFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    fields.push((name, map.next_value()?));
                }
                Ok(RecordFields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// Checks a value without keeping it.
struct Nested {
    /// The number of lists and objects around it.
    depth: usize,
}

impl Nested {
    fn inner<E: serde::de::Error>(&self) -> Result<Self, E> {
        if self.depth < MAX_DEPTH {
            Ok(Self { depth: self.depth + 1 })
        } else {
            Err(E::custom(format_args!("nested deeper than {MAX_DEPTH}")))
        }
    }
}

impl<'de> DeserializeSeed<'de> for Nested {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while seq.next_element_seed(Self { depth: inner.depth })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        let mut names = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("duplicate field {name:?}")));
            }
            names.insert(name);
            map.next_value_seed(Self { depth: inner.depth })?;
        }
        Ok(())
    }
}
