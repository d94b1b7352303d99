//! Valid paths, and their components.

use zk_curator_proto::ErrorCode;

/// The nodes of the server itself, which cannot be deleted.
pub(super) const SPECIAL: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

/// Splits a path at its last slash. The parent of a top-level node is the empty string, an alias of
/// `/`.
pub(super) fn split(path: &str) -> Result<(&str, &str), ErrorCode> {
    if path.contains('\0') {
        return Err(ErrorCode::BadArguments);
    }
    path.rsplit_once('/').ok_or(ErrorCode::BadArguments)
}

/// Returns the last component of a valid path.
pub(super) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the names on the way from the root to `path`; `None` if the path does not begin at the
/// root.
pub(super) fn components(path: &str) -> Option<impl Iterator<Item = &str>> {
    let names = if path.is_empty() { "" } else { path.strip_prefix('/')? };
    Some(names.split('/').skip(usize::from(names.is_empty())))
}

/// Returns the parent of a valid path other than `/`.
pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Accepts absolute paths without empty, `.` and `..` components, control characters, private-use
/// code points and the specials block.
pub(super) fn validate(path: &str) -> Result<(), ErrorCode> {
    let Some(components) = path.strip_prefix('/') else {
        return Err(ErrorCode::BadArguments);
    };
    if components.is_empty() {
        return Ok(());
    }
    let component_ok = |component: &str| !matches!(component, "" | "." | "..");
    if components.split('/').all(component_ok) && components.chars().all(character_ok) {
        Ok(())
    } else {
        Err(ErrorCode::BadArguments)
    }
}

/// Java checks UTF-16 units, so everything outside the basic plane is refused as a surrogate.
const fn character_ok(c: char) -> bool {
    !matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}'
        | '\u{10000}'..=char::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_are_valid() {
        for path in ["/", "/a", "/a/b", "/a.b", "/...", "/.a", "/a..", "/ä ö", "/-_:,;|"] {
            assert_eq!(validate(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn malformed_paths_are_bad_arguments() {
        for path in [
            "",
            "a",
            "a/b",
            "/a/",
            "//",
            "//a",
            "/a//b",
            "/.",
            "/..",
            "/a/.",
            "/a/../b",
            "/a\0b",
            "/a\u{1}",
            "/\u{7f}",
            "/\u{e000}",
            "/\u{fff5}",
            "/\u{1f980}",
        ] {
            assert_eq!(validate(path), Err(ErrorCode::BadArguments), "{path:?}");
        }
    }

    #[test]
    fn the_parent_of_a_top_level_node_is_the_root() {
        assert_eq!(parent("/a"), "/");
        assert_eq!(parent("/a/b"), "/a");
        assert_eq!(split("/a"), Ok(("", "a")));
        assert_eq!(split("a"), Err(ErrorCode::BadArguments));
    }
}
