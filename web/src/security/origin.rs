//! The origin of a request, by the headers that browsers add and that scripts cannot change.

use axum::http::{HeaderMap, header};

/// The page that has caused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A page of this server, or the person in front of the browser.
    Same,
    /// Another page.
    Foreign,
    /// Unknown: the request has none of the headers, so no common browser has sent it.
    Absent,
}

/// Returns the origin of a request that was sent to `host`.
pub(crate) fn origin_of(headers: &HeaderMap, host: &str) -> Origin {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    match (site, origin) {
        (None, None) => Origin::Absent,
        (Some(site), _) if !matches!(site, b"same-origin" | b"none") => Origin::Foreign,
        (_, Some(origin)) if !is_of(origin, host) => Origin::Foreign,
        _ => Origin::Same,
    }
}

/// The scheme does not count: a proxy may have removed TLS.
fn is_of(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| !host.is_empty() && authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn every_header_has_to_agree() {
        for (site, origin, expected) in [
            ("", "", Origin::Absent),
            ("same-origin", "", Origin::Same),
            ("none", "", Origin::Same),
            ("same-origin", "http://localhost:9181", Origin::Same),
            ("", "https://LOCALHOST:9181", Origin::Same),
            ("same-site", "", Origin::Foreign),
            ("cross-site", "http://localhost:9181", Origin::Foreign),
            ("same-origin", "http://localhost:1", Origin::Foreign),
            ("", "null", Origin::Foreign),
            ("", "http://evil.com", Origin::Foreign),
            ("", "localhost:9181", Origin::Foreign),
            ("x", "", Origin::Foreign),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [("sec-fetch-site", site), ("origin", origin)] {
                if !value.is_empty() {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(origin_of(&headers, "localhost:9181"), expected, "{site:?} {origin:?}");
        }
    }
}
