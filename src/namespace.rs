use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// The reason why a string is not a namespace, although it would be one without a slash. It is the
/// source of an error of the kind [`InvalidPath`](ErrorKind::InvalidPath). Other invalid names
/// violate a rule of [paths](zk_curator_client::path::PathError).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamespaceError {
    /// It begins with a slash.
    LeadingSlash,
    /// It ends with a slash.
    TrailingSlash,
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeadingSlash => {
                "a namespace is a name, not a path: leave out the slash at its beginning"
            }
            Self::TrailingSlash => {
                "a namespace is a name, not a path: leave out the slash at its end"
            }
        })
    }
}

impl std::error::Error for NamespaceError {}

/// The prefix of all paths of a framework handle. Maps whole components, never parts of names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Namespace {
    /// The path of the namespace; empty for none, and never the root.
    prefix: String,
}

impl Namespace {
    /// Parses `name`, which has no leading slash. The empty string means no namespace.
    pub(crate) fn parse(operation: &'static str, name: &str) -> Result<Self> {
        if name.is_empty() {
            return Ok(Self::default());
        }
        let slash = match (name.starts_with('/'), name.ends_with('/')) {
            (true, _) => Some(NamespaceError::LeadingSlash),
            (false, true) => Some(NamespaceError::TrailingSlash),
            (false, false) => None,
        };
        if let Some(why) = slash {
            return Err(Error::new(ErrorKind::InvalidPath, operation, name).with_source(why));
        }
        let prefix = format!("/{name}");
        match zk_curator_client::path::validate(&prefix) {
            Ok(()) => Ok(Self { prefix }),
            Err(why) => Err(Error::invalid_path(operation, name, why)),
        }
    }

    /// Returns the name, without the leading slash.
    pub(crate) fn name(&self) -> &str {
        self.prefix.strip_prefix('/').unwrap_or_default()
    }

    /// Returns the node of the namespace; `None` without one.
    pub(crate) fn node(&self) -> Option<&str> {
        if self.prefix.is_empty() { None } else { Some(&self.prefix) }
    }

    /// Returns the path on the server.
    pub(crate) fn apply(&self, path: &str) -> String {
        match (self.prefix.as_str(), path) {
            ("", path) => path.to_owned(),
            (prefix, "/") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}{path}"),
        }
    }

    /// Returns the path on the server of a node to create. The name of a sequential node may be
    /// empty.
    pub(crate) fn apply_create(&self, path: &str, sequential: bool) -> String {
        if sequential && path == "/" { format!("{}/", self.prefix) } else { self.apply(path) }
    }

    /// Returns the path within the namespace. Returns a path outside of it unchanged.
    pub(crate) fn strip<'a>(&self, path: &'a str) -> &'a str {
        match path.strip_prefix(&self.prefix) {
            _ if self.prefix.is_empty() => path,
            Some("") => "/",
            Some(rest) if rest.starts_with('/') => rest,
            _ => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_both_ways() {
        let ns = Namespace::parse("builder", "a/b").unwrap();
        for (inner, outer) in [("/", "/a/b"), ("/x", "/a/b/x")] {
            assert_eq!(ns.apply(inner), outer);
            assert_eq!(ns.strip(outer), inner);
        }
        assert_eq!(ns.name(), "a/b");
    }

    /// CURATOR-379: the namespace `/foo` is not a prefix of the path `/foobar`.
    #[test]
    fn curator_379_a_namespace_is_no_prefix_of_a_longer_name() {
        let ns = Namespace::parse("builder", "foo").unwrap();
        assert_eq!(ns.strip("/foobar"), "/foobar");
    }

    #[test]
    fn a_slash_at_an_end_is_reported() {
        for (name, end) in [("/x", "beginning"), ("/", "beginning"), ("x/", "end")] {
            let error = Namespace::parse("build", name).unwrap_err();
            let told =
                format!("a namespace is a name, not a path: leave out the slash at its {end}");
            assert_eq!(error.to_string(), format!("build {name:?}: invalid path ({told})"));
        }
    }

    #[test]
    fn bad_names_are_refused() {
        for name in ["/a", "a/", "a//b", "..", "a\0"] {
            assert!(Namespace::parse("builder", name).is_err(), "{name:?}");
        }
        assert_eq!(Namespace::parse("builder", "").unwrap().node(), None);
    }
}
