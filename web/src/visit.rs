//! A request that has passed the checks.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

use crate::fields::Fields;
use crate::paths::path_of;
use crate::problem::{Problem, RequestResult};
use crate::security::{Origin, Viewer};

/// The form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Html,
    Json,
}

impl Format {
    /// Returns the form of the response: JSON for the REST interface, and for other addresses if
    /// the client accepts JSON and no HTML.
    pub(crate) fn of(path: &str, headers: &HeaderMap) -> Self {
        let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
        let accepted = accepted.unwrap_or_default().to_ascii_lowercase();
        let is_json = accepted.contains("json") && !accepted.contains("text/html");
        if is_json || path.starts_with("/api/") { Self::Json } else { Self::Html }
    }
}

/// A request that has passed the checks of the guard.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) viewer: Viewer,
    pub(crate) format: Format,
    pub(crate) query: Fields,
    pub(crate) headers: HeaderMap,
    pub(crate) origin: Origin,
    /// The path of the URL, in percent encoding and below the base path.
    url: String,
}

impl Visit {
    /// Returns the path of the node in a URL that begins with one of the prefixes.
    pub(crate) fn node_below(&self, prefixes: &[&str]) -> RequestResult<String> {
        let rest = prefixes.iter().find_map(|prefix| self.url.strip_prefix(prefix));
        Ok(path_of(rest.ok_or_else(Problem::no_page)?)?)
    }

    /// Returns the last component of the URL.
    pub(crate) fn file_name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or_default()
    }
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> RequestResult<Self> {
        // Without the guard, no request gets here.
        let viewer =
            parts.extensions.get::<Viewer>().cloned().ok_or_else(Problem::not_signed_in)?;
        let origin = parts.extensions.get::<Origin>().copied().unwrap_or(Origin::Foreign);
        let url = parts.uri.path().to_owned();
        let query = Fields::parse(parts.uri.query().unwrap_or_default().as_bytes())?;
        let format = Format::of(&url, &parts.headers);
        Ok(Self { viewer, format, query, headers: parts.headers.clone(), origin, url })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn browsers_get_pages_and_programs_get_json() {
        for (path, accepted, format) in [
            ("/tree", "text/html,application/xhtml+xml,*/*;q=0.8", Format::Html),
            ("/tree", "*/*", Format::Html),
            ("/tree", "application/json", Format::Json),
            ("/tree", "application/problem+json", Format::Json),
            ("/tree", "text/html, application/json", Format::Html),
            ("/api/v1/node", "text/html", Format::Json),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accepted));
            assert_eq!(Format::of(path, &headers), format, "{path} {accepted}");
        }
    }
}
