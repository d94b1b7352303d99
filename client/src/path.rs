//! Rules of valid paths, as in `org.apache.zookeeper.common.PathUtils`.

/// The reason why a string is not a path.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The string is empty.
    #[error("path is empty")]
    Empty,
    /// The path does not begin with `/`.
    #[error("path does not start with a slash")]
    Relative,
    /// The path ends with `/` and is not the root.
    #[error("path ends with a slash")]
    TrailingSlash,
    /// The path has an empty component (`//`).
    #[error("path has an empty component")]
    EmptyComponent,
    /// The path has the component `.` or `..`.
    #[error("path has a relative component")]
    RelativeComponent,
    /// The path has a character that ZooKeeper does not allow: NUL, another control character, a
    /// private-use character, or a character above U+FFEF, such as an emoji.
    #[error("path has the invalid character {0:?}")]
    InvalidCharacter(char),
}

/// Checks a path.
///
/// # Errors
/// Returns the first rule that `path` breaks.
pub fn validate(path: &str) -> Result<(), PathError> {
    if is_plain(path.as_bytes()) {
        return Ok(());
    }
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    let Some(rest) = path.strip_prefix('/') else {
        return Err(PathError::Relative);
    };
    if let Some(bad) = path.chars().find(|c| is_forbidden(*c)) {
        return Err(PathError::InvalidCharacter(bad));
    }
    if rest.is_empty() {
        return Ok(());
    }
    if rest.ends_with('/') {
        return Err(PathError::TrailingSlash);
    }
    for component in rest.split('/') {
        match component {
            "" => return Err(PathError::EmptyComponent),
            "." | ".." => return Err(PathError::RelativeComponent),
            _ => {}
        }
    }
    Ok(())
}

/// Returns `true` if a path is valid by a quick check: printable ASCII, and no component is empty
/// or begins with a dot. Most paths are.
fn is_plain(path: &[u8]) -> bool {
    let mut before = b'x';
    for (place, byte) in path.iter().enumerate() {
        match byte {
            b'/' if before == b'/' => return false,
            b'.' if before == b'/' => return false,
            b'/' => {}
            0x20..=0x7e if place > 0 => {}
            _ => return false,
        }
        before = *byte;
    }
    before != b'/' && !path.is_empty()
}

/// Checks the path of a sequential create. Its last component may be empty (`/queue/`), because the
/// server appends the number.
///
/// # Errors
/// Returns the first rule that `path` breaks.
pub fn validate_sequential(path: &str) -> Result<(), PathError> {
    match path.strip_suffix('/') {
        Some(parent) if !parent.is_empty() => validate(parent),
        Some(_) => Ok(()),
        None => validate(path),
    }
}

/// Returns a path and all paths above it, up to the root.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind('/') {
        _ if *path == "/" => None,
        Some(0) => Some("/"),
        Some(slash) => Some(&path[..slash]),
        None => None,
    })
}

/// Returns `true` if a path on the server is the node of the chroot, or below it.
pub(crate) fn is_below(chroot: &str, path: &str) -> bool {
    path.strip_prefix(chroot).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the path as the client shows it: without the chroot, if it is below the chroot.
pub fn visible<'a>(chroot: &str, path: &'a str) -> &'a str {
    match path.strip_prefix(chroot) {
        Some("") if !chroot.is_empty() => "/",
        Some(_) if is_below(chroot, path) => &path[chroot.len()..],
        _ => path,
    }
}

const fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_path_has_its_error() {
        let cases = [
            ("", Err(PathError::Empty)),
            ("a", Err(PathError::Relative)),
            ("/", Ok(())),
            ("/a/", Err(PathError::TrailingSlash)),
            ("//", Err(PathError::TrailingSlash)),
            ("/a//b", Err(PathError::EmptyComponent)),
            ("/a/./b", Err(PathError::RelativeComponent)),
            ("/a/..", Err(PathError::RelativeComponent)),
            ("/a\0", Err(PathError::InvalidCharacter('\0'))),
            ("/a/.b/..c/d..", Ok(())),
            ("/ünïcode/日本", Ok(())),
            ("/a b", Ok(())),
            ("/a\u{7f}", Err(PathError::InvalidCharacter('\u{7f}'))),
            ("/a/b", Ok(())),
            ("/.a", Ok(())),
            ("/.", Err(PathError::RelativeComponent)),
            ("/\u{e000}", Err(PathError::InvalidCharacter('\u{e000}'))),
            ("/\u{f900}", Ok(())),
            ("/\u{1f512}", Err(PathError::InvalidCharacter('\u{1f512}'))),
        ];
        for (path, expected) in cases {
            assert_eq!(validate(path), expected, "{path:?}");
        }
    }

    #[test]
    fn ancestors_end_at_the_root() {
        assert_eq!(ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(ancestors("/").collect::<Vec<_>>(), ["/"]);
    }

    #[test]
    fn only_whole_components_of_the_chroot_are_hidden() {
        for (chroot, server, client) in [
            ("", "/a", "/a"),
            ("", "/", "/"),
            ("/app", "/app/a", "/a"),
            ("/app", "/app", "/"),
            ("/app", "/app/app", "/app"),
            ("/zoo", "/zookeeper/config", "/zookeeper/config"),
        ] {
            assert_eq!(visible(chroot, server), client, "{server} below {chroot:?}");
        }
    }

    #[test]
    fn a_sequential_path_may_end_with_a_slash() {
        assert_eq!(validate_sequential("/"), Ok(()));
        assert_eq!(validate_sequential("/q/"), Ok(()));
        assert_eq!(validate_sequential("/q//"), Err(PathError::TrailingSlash));
        assert_eq!(validate_sequential(""), Err(PathError::Empty));
    }
}
