//! Paths that are parsed once, and then known to be valid; names of nodes, and templates of paths.

mod name;
mod template;

use std::fmt;

pub use name::{Escaped, NameError, NodeName};
pub use template::{PathTemplate, ResolveError, TemplateError};
#[doc(no_inline)]
pub use zk_curator_client::path::PathError;
use zk_curator_client::path::{validate, validate_sequential};

use crate::error::Error;

/// An absolute, valid path of a node.
///
/// ```
/// use zk_curator::path::ZPath;
///
/// let path = ZPath::parse("/locks")?.join("orders")?;
/// assert_eq!(path.as_str(), "/locks/orders");
/// assert_eq!(path.parent().unwrap().as_str(), "/locks");
/// assert_eq!(path.name(), "orders");
/// assert!(ZPath::parse("locks/../orders").is_err());
/// # Ok::<(), zk_curator::path::PathError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ZPath(String);

impl ZPath {
    /// Parses a path.
    ///
    /// # Errors
    /// The first rule that `path` violates.
    pub fn parse(path: impl Into<String>) -> Result<Self, PathError> {
        let path = path.into();
        validate(&path)?;
        Ok(Self(path))
    }

    /// Parses a path on behalf of an operation, which the error names.
    ///
    /// # Errors
    /// `InvalidPath`, with the [`PathError`] as its source.
    pub fn for_operation(operation: &'static str, path: impl Into<String>) -> Result<Self, Error> {
        let path = path.into();
        match validate(&path) {
            Ok(()) => Ok(Self(path)),
            Err(why) => Err(Error::invalid_path(operation, path, why)),
        }
    }

    /// Returns the root.
    #[must_use]
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Returns the path of a child, or of a deeper descendant (`a/b`).
    ///
    /// # Errors
    /// The first rule that the joined path violates.
    pub fn join(&self, name: &str) -> Result<Self, PathError> {
        if name.is_empty() {
            return Err(PathError::Empty);
        }
        Self::parse(join(&self.0, name))
    }

    /// Returns the parent; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.0 == "/" { None } else { Some(Self(split(&self.0).0.to_owned())) }
    }

    /// Returns the last component; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        split(&self.0).1
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ZPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ZPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<ZPath> for String {
    fn from(path: ZPath) -> Self {
        path.0
    }
}

/// The number that the server appended to the name of a sequential node. It is the counter of the
/// parent: ten digits, or eleven characters if it is negative (`-2147483648`).
///
/// Numbers from 0 to 2^31 - 2 are issued in ascending order. After that a server repeats
/// 2147483647, issues negative numbers, or alternates between both. Only the `czxid` of the nodes
/// then shows their order, so this type has no order.
///
/// ```
/// use zk_curator::path::SequenceSuffix;
///
/// assert_eq!(SequenceSuffix::after("lock-0000000017", "lock-").unwrap().get(), 17);
/// assert_eq!(SequenceSuffix::after("lock-17", "lock-"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceSuffix(i32);

impl SequenceSuffix {
    /// Returns the number at the end of `name`, if it has the server's form and follows `tag`.
    #[must_use]
    pub fn after(name: &str, tag: &str) -> Option<Self> {
        // A negative number of ten digits has one more character. The sign counts as one, and a tag
        // may end with one too.
        [11, 10].into_iter().find_map(|length| {
            let (before, digits) = name.split_at_checked(name.len().checked_sub(length)?)?;
            let number: i32 = digits.parse().ok()?;
            // Accepts only the server's form: no plus sign, no missing or additional zeros.
            (before.ends_with(tag) && format!("{number:010}") == digits).then_some(Self(number))
        })
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0
    }
}

/// Checks the path of a create: only a sequential one may end with a slash.
pub(crate) fn validate_create(path: &str, sequential: bool) -> Result<(), PathError> {
    if sequential { validate_sequential(path) } else { validate(path) }
}

/// Splits a valid path into parent and name. The parent of a top-level node is `/`.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => ("/", path),
    }
}

/// Returns the path of a child.
pub(crate) fn join(parent: &str, name: &str) -> String {
    if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_prints_negative_counters_with_ten_characters_at_least() {
        // `%010d` counts the sign: -5 is nine digits and the sign.
        assert_eq!(SequenceSuffix::after("lock--000000005", "lock-").unwrap().get(), -5);
        assert_eq!(SequenceSuffix::after("lock--2147483648", "lock-").unwrap().get(), i32::MIN);
        assert_eq!(SequenceSuffix::after("lock-2147483648", "lock-"), None);
        assert_eq!(SequenceSuffix::after("_c_x-lock-0000000007", "lock-").unwrap().get(), 7);
        assert_eq!(SequenceSuffix::after("latch-0000000007", "lock-"), None);
        assert_eq!(SequenceSuffix::after("lock-+000000007", "lock-"), None);
    }

    #[test]
    fn split_and_join_are_inverse() {
        for path in ["/a", "/a/b", "/a/b/c"] {
            let (parent, name) = split(path);
            assert_eq!(join(parent, name), path);
        }
    }
}
