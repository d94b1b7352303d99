//! The format of payloads.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The format of payloads: how they name the Java class that Curator's readers create.
///
/// `null` never has a class. A Java reader without the class fails on the whole record. Readers of
/// this crate accept every form and every class.
///
/// | Rust | `map` (default) | `tagged("com.acme.Meta")` | `plain` |
/// |---|---|---|---|
/// | text, `bool`, `i32`, `f64` | plain | `["com.acme.Meta",…]` | plain |
/// | integer beyond `i32` | `["java.lang.Long",…]` | `["com.acme.Meta",…]` | `["java.lang.Long",…]` |
/// | list | `["java.util.ArrayList",[…]]` | `["com.acme.Meta",[…]]` | `["java.util.ArrayList",[…]]` |
/// | struct, map | `{"@class":"java.util.HashMap",…}` | `{"@class":"com.acme.Meta",…}` | `{…}` |
///
/// For a Java `byte[]`, use [`Base64`] with `tagged("[B")`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PayloadCodec(pub(crate) PayloadForm);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum PayloadForm {
    Plain,
    #[default]
    Map,
    Tagged(String),
}

impl PayloadCodec {
    /// Writes structs and maps as objects without a class. Java reads them where it expects an
    /// `Object`, a `Map` or a `HashMap`.
    #[must_use]
    pub const fn plain() -> Self {
        Self(PayloadForm::Plain)
    }

    /// Writes structs and maps with the class `java.util.HashMap`. Java reads them where it expects
    /// an `Object`, a `Map` or a `HashMap`.
    #[must_use]
    pub const fn map() -> Self {
        Self(PayloadForm::Map)
    }

    /// Writes every payload with this Java class.
    #[must_use]
    pub fn tagged(class: impl Into<String>) -> Self {
        Self(PayloadForm::Tagged(class.into()))
    }
}

/// The bytes of a Java `byte[]`, written as base64 text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "made and taken apart by its users")]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(D::Error::custom)
    }
}
