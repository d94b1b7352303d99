//! Pages with the policy that the explorer has.

use axum::Router;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use zk_curator_browser::{BrowserError, Site};

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";

/// Light by default, and dark if the user prefers that.
const STYLE: &str = "
body { background: rgb(255, 255, 255); color: rgb(20, 20, 20); font-family: sans-serif; }
.pale { color: rgb(200, 200, 200); }
.dim { color: rgb(60, 60, 60); }
.wide { width: 600px; }
@media (prefers-color-scheme: dark) {
    body { background: rgb(20, 20, 20); color: rgb(235, 235, 235); }
}";

/// Returns a router with one page, which has this body and this script.
pub(super) fn router(body: &str, script: &'static str) -> Router {
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page</title>\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/style.css\">\
         <script src=\"/script.js\" defer></script></head><body>{body}</body></html>"
    );
    Router::new()
        .route("/", get(move || async move { html(page) }))
        .route("/style.css", get(|| async { ([(CONTENT_TYPE, "text/css")], STYLE) }))
        .route(
            "/script.js",
            get(move || async move { ([(CONTENT_TYPE, "text/javascript")], script) }),
        )
}

/// Serves one page.
pub(super) fn site(body: &str, script: &'static str) -> Result<Site, BrowserError> {
    Site::serve(router(body, script))
}

fn html(page: String) -> Response {
    ([(CONTENT_SECURITY_POLICY, POLICY)], Html(page)).into_response()
}
