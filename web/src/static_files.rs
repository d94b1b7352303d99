//! The stylesheet, the script and the icon. Their names contain a hash, so browsers keep them.

use std::sync::LazyLock;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hmac_sha256::Hash;

use crate::problem::{Problem, RequestResult};
use crate::visit::Visit;

/// A file of this crate.
#[derive(Debug)]
pub(crate) struct StaticFile {
    /// The name with a hash of the content.
    pub(crate) name: String,
    media: &'static str,
    content: &'static str,
}

pub(crate) static STYLE: LazyLock<StaticFile> = LazyLock::new(|| {
    StaticFile::new("style", "css", "text/css; charset=utf-8", include_str!("../static/style.css"))
});
pub(crate) static SCRIPT: LazyLock<StaticFile> = LazyLock::new(|| {
    let media = "text/javascript; charset=utf-8";
    StaticFile::new("script", "js", media, include_str!("../static/script.js"))
});
pub(crate) static ICON: LazyLock<StaticFile> = LazyLock::new(|| {
    StaticFile::new("icon", "svg", "image/svg+xml", include_str!("../static/icon.svg"))
});

impl StaticFile {
    fn new(stem: &str, ending: &str, media: &'static str, content: &'static str) -> Self {
        let hash = Hash::hash(content.as_bytes());
        let hash: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Self { name: format!("{stem}-{hash}.{ending}"), media, content }
    }

    fn response(&self, headers: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", self.name);
        let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
        let cached = [
            (header::CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned()),
            (header::ETAG, tag.clone()),
            (header::CONTENT_TYPE, self.media.to_owned()),
        ];
        if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
            return (StatusCode::NOT_MODIFIED, cached).into_response();
        }
        (cached, self.content).into_response()
    }
}

/// `GET /static/{name}`
pub(crate) async fn file(visit: Visit) -> RequestResult<Response> {
    let name = visit.file_name();
    let files = [&*STYLE, &*SCRIPT, &*ICON];
    let file = files.into_iter().find(|file| file.name == name).ok_or_else(Problem::no_page)?;
    Ok(file.response(&visit.headers))
}
