//! The names of nodes that stand for keys of a service.

use std::borrow::Cow;
use std::fmt::Write;

use zk_curator_client::path::{PathError, validate};

/// A key of a service as the name of a node (`org.apache.curator.x.async.modeled.NodeName`).
///
/// Strings stand for themselves, numbers and booleans for their decimal text. [`Escaped`] makes a
/// name of any string. Other types implement the trait:
///
/// ```
/// use std::borrow::Cow;
/// use zk_curator::path::{NodeName, PathTemplate};
///
/// struct Region { country: &'static str, zone: u8 }
///
/// impl NodeName for Region {
///     fn node_name(&self) -> Cow<'_, str> {
///         format!("{}-{}", self.country, self.zone).into()
///     }
/// }
///
/// let orders = PathTemplate::parse("/orders/{region}")?;
/// let path = orders.resolve([("region", Region { country: "de", zone: 2 })])?;
/// assert_eq!(path.as_str(), "/orders/de-2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Different keys must have different names. The name is checked where it becomes a part of a path:
/// see [`NameError`].
pub trait NodeName {
    /// Returns the name.
    fn node_name(&self) -> Cow<'_, str>;
}

impl<N: NodeName + ?Sized> NodeName for &N {
    fn node_name(&self) -> Cow<'_, str> {
        (**self).node_name()
    }
}

impl NodeName for str {
    fn node_name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl NodeName for String {
    fn node_name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl NodeName for Cow<'_, str> {
    fn node_name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

macro_rules! as_text {
    ($($type:ty)*) => {$(
        impl NodeName for $type {
            fn node_name(&self) -> Cow<'_, str> {
                self.to_string().into()
            }
        }
    )*};
}

as_text!(bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

/// The reason why a string cannot be the name of a node.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name contains a slash, so it would be several names.
    Slash,
    /// The name is `.` or `..`.
    Relative,
    /// The name has a character that ZooKeeper does not allow: see
    /// [`PathError::InvalidCharacter`].
    InvalidCharacter(char),
}

impl std::fmt::Display for NameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("a name is empty"),
            Self::Slash => f.write_str("a name contains a slash"),
            Self::Relative => f.write_str("a name is relative"),
            Self::InvalidCharacter(bad) => write!(f, "a name has the invalid character {bad:?}"),
        }
    }
}

impl std::error::Error for NameError {}

/// Checks that a string can be the name of a node.
pub(super) fn check(name: &str) -> Result<(), NameError> {
    if name.contains('/') {
        return Err(NameError::Slash);
    }
    match validate(&format!("/{name}")) {
        _ if name.is_empty() => Err(NameError::Empty),
        Ok(()) => Ok(()),
        Err(PathError::InvalidCharacter(bad)) => Err(NameError::InvalidCharacter(bad)),
        Err(_) => Err(NameError::Relative),
    }
}

/// A string as the name of a node, with an escape for everything that a name must not contain:
/// slashes, characters that ZooKeeper does not allow, and the names `.` and `..`. The bytes of
/// their UTF-8 become `%` and two upper-case hexadecimal digits, and so does `%` itself. So
/// different strings have different names, and [`decode`](Self::decode) returns the string of a
/// name. The empty string has no name.
///
/// ```
/// use zk_curator::path::{Escaped, NodeName};
///
/// let name = Escaped("a/b 100%").node_name().into_owned();
/// assert_eq!(name, "a%2Fb 100%25");
/// assert_eq!(Escaped::decode(&name).as_deref(), Some("a/b 100%"));
/// assert_eq!(Escaped("..").node_name(), "%2E%2E");
/// ```
#[expect(clippy::exhaustive_structs, reason = "users construct it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Escaped<S>(pub S);

impl<S: AsRef<str>> NodeName for Escaped<S> {
    fn node_name(&self) -> Cow<'_, str> {
        let text = self.0.as_ref();
        let is_relative = matches!(text, "." | "..");
        let is_plain = |c: char| {
            c != '%'
                && !is_relative
                && (matches!(c, '.' | ' '..='~') || check(c.encode_utf8(&mut [0; 4])).is_ok())
        };
        if !text.contains('/') && text.chars().all(is_plain) {
            return Cow::Borrowed(text);
        }
        let mut name = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            if c != '/' && is_plain(c) {
                name.push(c);
            } else {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    write!(name, "%{byte:02X}").expect("invariant: a string accepts all text");
                }
            }
        }
        Cow::Owned(name)
    }
}

impl Escaped<String> {
    /// Returns the string of a name; `None` if it is not the name of an escaped string.
    #[must_use]
    pub fn decode(name: &str) -> Option<String> {
        let mut bytes = Vec::with_capacity(name.len());
        let mut rest = name.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let (digits, after) = rest.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        }
        let text = String::from_utf8(bytes).ok()?;
        // Only the escapes that `node_name` writes: no name has two strings, no string two names.
        (Escaped(text.as_str()).node_name() == name && !text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_name_has_its_error() {
        for (name, expected) in [
            ("a", Ok(())),
            ("...", Ok(())),
            ("grün", Ok(())),
            ("", Err(NameError::Empty)),
            ("/", Err(NameError::Slash)),
            ("a/b", Err(NameError::Slash)),
            ("\0/", Err(NameError::Slash)),
            (".", Err(NameError::Relative)),
            ("..", Err(NameError::Relative)),
            ("a\n", Err(NameError::InvalidCharacter('\n'))),
            ("\u{f8ff}", Err(NameError::InvalidCharacter('\u{f8ff}'))),
        ] {
            assert_eq!(check(name), expected, "{name:?}");
        }
    }

    #[test]
    fn names_of_escaped_strings_are_theirs_alone() {
        for name in ["%", "%2", "%2f", "%41", "a/b", "%+1", "%FF", "", ".", "😀"] {
            assert_eq!(Escaped::decode(name), None, "{name}");
        }
        assert_eq!(Escaped("😀").node_name(), "%F0%9F%98%80");
        assert_eq!(Escaped("plain.txt").node_name(), "plain.txt");
    }
}
