//! The description of the REST interface.

use axum::http::header;
use axum::response::IntoResponse;

use super::node::JSON;

const DOCUMENT: &str = include_str!("openapi.json");

/// `GET /api/v1/openapi.json`
pub(crate) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, JSON)], DOCUMENT)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::DOCUMENT;

    #[test]
    fn the_document_is_json_with_all_operations() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let operations = |path: &str| {
            let operations = document["paths"][path].as_object().unwrap().keys();
            let mut names: Vec<_> = operations.filter(|key| *key != "parameters").collect();
            names.sort_unstable();
            names.into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(operations("/node/{path}"), ["delete", "get", "post", "put"]);
        for path in [
            "/children/{path}",
            "/names",
            "/watch/{path}",
            "/why/{path}",
            "/recipes/{path}",
            "/services/{path}",
            "/ensemble",
            "/ensemble/watch",
            "/search/{path}",
            "/changes/{path}",
            "/history/{path}",
            "/backup/{path}",
            "/diff",
        ] {
            assert_eq!(operations(path), ["get"], "{path}");
        }
    }
}
