use crate::error::{Error, Result};

/// The prefix of all paths of a framework handle. Maps whole components, never parts of names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Namespace {
    /// Empty, or a path that is not the root.
    prefix: String,
}

impl Namespace {
    /// `name` has no leading slash; the empty string is no namespace.
    pub(crate) fn parse(operation: &'static str, name: &str) -> Result<Self> {
        if name.is_empty() {
            return Ok(Self::default());
        }
        let prefix = format!("/{name}");
        match zk_curator_client::path::validate(&prefix) {
            Ok(()) => Ok(Self { prefix }),
            Err(why) => Err(Error::invalid_path(operation, name, why)),
        }
    }

    /// The name, without the leading slash.
    pub(crate) fn name(&self) -> &str {
        self.prefix.strip_prefix('/').unwrap_or_default()
    }

    /// The node of the namespace; `None` without one.
    pub(crate) fn node(&self) -> Option<&str> {
        if self.prefix.is_empty() { None } else { Some(&self.prefix) }
    }

    /// The path on the server.
    pub(crate) fn apply(&self, path: &str) -> String {
        match (self.prefix.as_str(), path) {
            ("", path) => path.to_owned(),
            (prefix, "/") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}{path}"),
        }
    }

    /// The path on the server of a node to create: the name of a sequential one may be empty.
    pub(crate) fn apply_create(&self, path: &str, sequential: bool) -> String {
        if sequential && path == "/" { format!("{}/", self.prefix) } else { self.apply(path) }
    }

    /// The path within the namespace; a path outside of it is answered as it is.
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
    fn bad_names_are_refused() {
        for name in ["/a", "a/", "a//b", "..", "a\0"] {
            assert!(Namespace::parse("builder", name).is_err(), "{name:?}");
        }
        assert_eq!(Namespace::parse("builder", "").unwrap().node(), None);
    }
}
