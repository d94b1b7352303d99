//! The types of parameters.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A session or a zxid: `0x` and hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hex(i64);

impl Hex {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for Hex {
    fn from(number: i64) -> Self {
        Self(number)
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number.map(|number| Self(number.cast_signed())).ok_or_else(|| {
            D::Error::custom(format_args!("'{text}' is not `0x` with 1 to 16 hexadecimal digits"))
        })
    }
}

/// Milliseconds, from 0 to 4,294,967,295.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Millis(u32);

impl Millis {
    /// Returns the duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_millis(self.0 as u64)
    }
}

/// The path of a node: it begins with a slash, and does not end with one unless it is the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePath(String);

impl NodePath {
    /// Returns the path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for NodePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if !text.starts_with('/') {
            Err(D::Error::custom(format_args!("the path '{text}' does not begin with a slash")))
        } else if text.len() > 1 && text.ends_with('/') {
            Err(D::Error::custom(format_args!("the path '{text}' ends with a slash")))
        } else {
            Ok(Self(text))
        }
    }
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
