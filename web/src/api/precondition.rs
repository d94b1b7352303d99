//! The headers that make a change conditional.

use axum::http::{HeaderMap, header};
use zk_curator::Version;

use crate::problem::{Problem, RequestResult};

/// Returns the version that `If-Match` requires. `*` stands for any version.
pub(super) fn required_version(headers: &HeaderMap) -> RequestResult<Version> {
    if headers.contains_key(header::IF_NONE_MATCH) {
        return Err(Problem::usage("If-None-Match is for POST, which creates nodes."));
    }
    let Some(tag) = headers.get(header::IF_MATCH) else {
        return Err(Problem::no_precondition(
            "Send If-Match with the ETag of the node, or * for any version.",
        ));
    };
    let tag = tag.to_str().unwrap_or_default().trim();
    if tag == "*" {
        return Ok(Version::Any);
    }
    let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let version = version.and_then(|version| version.parse::<i32>().ok());
    let version = version.ok_or_else(|| {
        Problem::usage("If-Match has to be one ETag of a node, such as \"7\", or *.")
    })?;
    Ok(Version::Exactly(version))
}

/// Requires `If-None-Match: *`, by which the client says that the node must not exist.
pub(super) fn require_new(headers: &HeaderMap) -> RequestResult<()> {
    if headers.contains_key(header::IF_MATCH) {
        return Err(Problem::usage("If-Match is for PUT and DELETE, which need a node."));
    }
    match headers.get(header::IF_NONE_MATCH) {
        Some(tag) if tag.as_bytes().trim_ascii() == b"*" => Ok(()),
        Some(_) => Err(Problem::usage("If-None-Match has to be *.")),
        None => {
            Err(Problem::no_precondition("Send If-None-Match: *, because POST creates a node."))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !value.is_empty() {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn versions_are_tags() {
        for (value, expected) in [
            ("\"7\"", Ok(Version::Exactly(7))),
            ("\"-2\"", Ok(Version::Exactly(-2))),
            (" * ", Ok(Version::Any)),
            ("", Err(428)),
            ("7", Err(400)),
            ("W/\"7\"", Err(400)),
            ("\"7\", \"8\"", Err(400)),
            ("\"99999999999\"", Err(400)),
            ("\"\"", Err(400)),
        ] {
            let version = required_version(&headers("if-match", value));
            assert_eq!(version.map_err(|problem| problem.status.as_u16()), expected, "{value}");
        }
        assert!(required_version(&headers("if-none-match", "*")).is_err());
    }

    #[test]
    fn a_create_says_that_the_node_is_new() {
        for (name, value, status) in [
            ("if-none-match", "*", None),
            ("if-none-match", "", Some(428)),
            ("if-none-match", "\"7\"", Some(400)),
            ("if-match", "*", Some(400)),
        ] {
            let refused = require_new(&headers(name, value)).err();
            assert_eq!(refused.map(|problem| problem.status.as_u16()), status, "{name} {value}");
        }
    }
}
