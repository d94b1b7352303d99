//! The lenient reader.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{MAX_BYTES, MAX_DEPTH};
use crate::instance::{Extra, ServiceInstance, ServiceType, Shape, Tag};
use crate::uri_spec::UriSpec;

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
    fn new(offset: usize, reason: impl Into<String>) -> Self {
        Self { offset, reason: reason.into() }
    }

    /// Converts the error of a parser that has read `text`.
    fn of(text: &str, error: &serde_json::Error) -> Self {
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
    read_as(Source::Node, data, name, id).map(|(instance, _)| instance)
}

/// Reads the body of a request: a record whose list of two is no payload with a Java class. Also
/// returns `true` if it has the field `enabled`.
#[cfg(feature = "rest")]
pub(crate) fn read_body<P: DeserializeOwned>(
    data: &[u8],
    name: &str,
    id: &str,
) -> Result<(ServiceInstance<P>, bool), Fault> {
    read_as(Source::Body, data, name, id)
}

/// The place that a record is from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Node,
    #[cfg(feature = "rest")]
    Body,
}

fn read_as<P: DeserializeOwned>(
    source: Source,
    data: &[u8],
    name: &str,
    id: &str,
) -> Result<(ServiceInstance<P>, bool), Fault> {
    let text = text(data)?;
    check(text)?;
    let fields = Fields::of(text)?;
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
        match &*field {
            "name" => has_name = put(&mut instance.name, text, raw)?,
            "id" => has_id = put(&mut instance.id, text, raw)?,
            "address" => instance.address = value(text, raw)?,
            "port" => instance.port = value(text, raw)?,
            "sslPort" => instance.ssl_port = value(text, raw)?,
            "payload" => payload = raw,
            "registrationTimeUTC" => {
                put(&mut instance.registration_time_utc, text, raw)?;
            }
            "serviceType" => {
                instance.service_type =
                    value::<Option<String>>(text, raw)?.map_or_else(Default::default, Into::into);
            }
            "uriSpec" => instance.uri_spec = value::<Option<UriSpec>>(text, raw)?,
            "enabled" => has_enabled = put(&mut instance.enabled, text, raw)?,
            _ => instance.extra.rest.push((field.into_owned(), raw.into())),
        }
    }
    instance.extra.incomplete = !has_name || !has_id;
    let (tag, value) = read_payload(source, text, payload)?;
    instance.extra.tag = tag;
    Ok((instance.with_payload(value), has_enabled))
}

/// Returns the data as text, if their size is acceptable.
fn text(data: &[u8]) -> Result<&str, Fault> {
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

/// Replaces a field, unless the value is `null`.
fn put<T: DeserializeOwned>(field: &mut T, text: &str, raw: &str) -> Result<bool, Fault> {
    let value: Option<T> = value(text, raw)?;
    Ok(value.map(|value| *field = value).is_some())
}

/// Reads the value of a field; `raw` is a part of `text`.
fn value<T: DeserializeOwned>(text: &str, raw: &str) -> Result<T, Fault> {
    serde_json::from_str(raw)
        .map_err(|error| Fault::new(offset(text, raw), Fault::of(raw, &error).reason))
}

/// Returns the position of a part of a text.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

fn read_payload<P: DeserializeOwned>(
    source: Source,
    text: &str,
    raw: &str,
) -> Result<(Option<Tag>, P), Fault> {
    if source == Source::Node
        && let Some((class, value)) = wrapped(raw)
        && let Ok(payload) = serde_json::from_str(value.get())
    {
        let shape = Shape::of(value.get());
        return Ok((Some(Tag { class, is_property: false, shape }), payload));
    }
    if raw.starts_with('{') {
        let fields = Fields::of(raw)?;
        if let Some((class, rest)) = property(&fields) {
            let payload = serde_json::from_str(&rest)
                .map_err(|error| Fault::new(offset(text, raw), Fault::of(&rest, &error).reason))?;
            return Ok((Some(Tag { class, is_property: true, shape: Shape::Object }), payload));
        }
        if source != Source::Node && fields.0.iter().any(|(name, _)| name == "@class") {
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
fn property(fields: &Fields<'_>) -> Option<(String, String)> {
    let (_, class) = fields.0.iter().find(|(name, _)| name == "@class")?;
    let class = serde_json::from_str(class.get()).ok()?;
    let mut rest = String::from("{");
    for (name, raw) in fields.0.iter().filter(|(name, _)| name != "@class") {
        if rest.len() > 1 {
            rest.push(',');
        }
        rest.push_str(&super::text::json(name).ok()?);
        rest.push(':');
        rest.push_str(raw.get());
    }
    rest.push('}');
    Some((class, rest))
}

/// The fields of an object, in order.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn of(text: &'a str) -> Result<Self, Fault> {
        serde_json::from_str(text).map_err(|error| Fault::of(text, &error))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    fields.push((Cow::Owned(name), map.next_value()?));
                }
                Ok(Fields(fields))
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
