//! Paths of nodes in URLs.
//!
//! Each component of a path is percent-encoded by itself, so every name that ZooKeeper accepts has
//! a URL: spaces, `%`, `?`, `#`, backslashes and letters of all alphabets. The root is the empty
//! text.

use zk_curator::path::{PathError, ZPath};
pub(crate) use zk_curator_ops::path::join as child_of;
use zk_curator_ops::path::split;

/// The reason why a part of a URL is not the path of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// A `%` is not followed by two hexadecimal digits.
    #[error("the URL has an invalid percent encoding")]
    Encoding,
    /// The decoded bytes are not UTF-8.
    #[error("the URL is not UTF-8")]
    NotUtf8,
    /// A component contains an encoded slash. No name of a node contains one.
    #[error("the URL has an encoded slash, which no name of a node contains")]
    Slash,
    /// ZooKeeper does not accept the path.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Returns the part of a URL for a valid path: empty for the root, and otherwise with a leading
/// slash. It consists of slashes, unreserved characters and percent encodings.
#[must_use]
pub fn url_of(path: &str) -> String {
    let mut url = String::with_capacity(path.len());
    for component in path.split('/').filter(|component| !component.is_empty()) {
        url.push('/');
        encode(component, &mut url);
    }
    url
}

/// Returns the path of a part of a URL, which [`url_of`] has made or a person has written. The
/// empty text and `/` are the root.
///
/// # Errors
/// The first rule that the URL breaks.
pub fn path_of(url: &str) -> Result<String, UrlError> {
    if url.is_empty() || url == "/" {
        return Ok("/".to_owned());
    }
    let mut path = String::with_capacity(url.len());
    for (place, component) in url.split('/').enumerate() {
        if place > 0 {
            path.push('/');
        }
        let name = decode(component.as_bytes(), false)?;
        if name.contains('/') {
            return Err(UrlError::Slash);
        }
        path.push_str(&name);
    }
    Ok(ZPath::parse(path)?.into())
}

/// Appends a text in percent encoding.
pub(crate) fn encode(text: &str, url: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            url.push(char::from(byte));
        } else {
            url.push('%');
            url.push(char::from(DIGITS[usize::from(byte >> 4)]));
            url.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

/// Decodes a text in percent encoding; with `plus`, a plus sign is a space, as in forms.
pub(crate) fn decode(text: &[u8], plus: bool) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let high = rest.next().and_then(|digit| digit_of(*digit));
                let low = rest.next().and_then(|digit| digit_of(*digit));
                high.zip(low).map(|(high, low)| (high << 4) | low).ok_or(UrlError::Encoding)?
            }
            b'+' if plus => b' ',
            byte => *byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| UrlError::NotUtf8)
}

fn digit_of(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Returns the parent of a valid path; `None` for the root.
pub(crate) fn parent_of(path: &str) -> Option<&str> {
    (path != "/").then(|| split(path).0)
}

/// Returns the last component of a valid path; empty for the root.
pub(crate) fn name_of(path: &str) -> &str {
    split(path).1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_keep_all_their_characters() {
        for (path, url) in [
            ("/", ""),
            ("/a", "/a"),
            ("/a b/c", "/a%20b/c"),
            ("/%2f", "/%252f"),
            ("/a?b#c&d=e+f", "/a%3Fb%23c%26d%3De%2Bf"),
            (r"/a\b", "/a%5Cb"),
            ("/ü", "/%C3%BC"),
            ("/\u{202e}x", "/%E2%80%AEx"),
            ("/<b>\"'", "/%3Cb%3E%22%27"),
        ] {
            assert_eq!(url_of(path), url);
            assert_eq!(path_of(url).as_deref(), Ok(path));
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for (url, error) in [
            ("/a%2fb", UrlError::Slash),
            ("/a%2", UrlError::Encoding),
            ("/%zz", UrlError::Encoding),
            ("/%ff", UrlError::NotUtf8),
            ("/a/../b", UrlError::Path(PathError::RelativeComponent)),
            ("/%2e%2e", UrlError::Path(PathError::RelativeComponent)),
            ("/a//b", UrlError::Path(PathError::EmptyComponent)),
            ("/a/", UrlError::Path(PathError::TrailingSlash)),
            ("/a%00", UrlError::Path(PathError::InvalidCharacter('\0'))),
            ("a", UrlError::Path(PathError::Relative)),
        ] {
            assert_eq!(path_of(url), Err(error), "{url}");
        }
    }

    #[test]
    fn parents_and_children_are_inverse() {
        assert_eq!((parent_of("/"), name_of("/")), (None, ""));
        assert_eq!((parent_of("/a"), name_of("/a")), (Some("/"), "a"));
        assert_eq!((parent_of("/a/b"), name_of("/a/b")), (Some("/a"), "b"));
        assert_eq!((child_of("/", "a"), child_of("/a", "b")), ("/a".to_owned(), "/a/b".to_owned()));
    }

    proptest! {
        #[test]
        fn every_path_survives_its_url(
            names in prop::collection::vec("[ -.0-~\u{a1}-\u{d7ff}]{1,12}", 0..6),
        ) {
            let path = format!("/{}", names.join("/"));
            prop_assume!(ZPath::parse(path.as_str()).is_ok());
            let url = url_of(&path);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%/".contains(&byte);
            prop_assert!(url.bytes().all(is_plain), "{}", url);
            prop_assert_eq!(path_of(&url), Ok(path));
        }

        #[test]
        fn a_decoded_url_is_a_valid_path(url in "(/|%2f|%[0-9a-f]{2}|\\.|[a-z+?]|ü){0,20}") {
            if let Ok(path) = path_of(&url) {
                prop_assert!(ZPath::parse(path.as_str()).is_ok());
                prop_assert_eq!(path_of(&url_of(&path)), Ok(path));
            }
        }
    }
}
