//! The addresses of the explorer.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use zk_curator::CuratorFramework;

use crate::guard::guard;
use crate::options::WebOptions;
use crate::problem::Problem;
use crate::state::Web;
use crate::{api, pages, static_files};

/// Returns the explorer of a framework, which has to be started.
///
/// The router has its own state, so it can be served or [nested](Router::nest) below another one.
/// The framework is not closed with it.
///
/// # Panics
/// Panics if the operating system has no random numbers.
#[must_use = "the explorer has to be served"]
pub fn router(zk: &CuratorFramework, options: WebOptions) -> Router {
    let web = Arc::new(Web::new(zk, options));
    let routes = Router::new()
        .route("/", get(pages::root))
        .route("/go", get(pages::go))
        .route("/help", get(pages::help))
        .route("/login", get(pages::sign_in_page).post(pages::sign_in))
        .route("/logout", post(pages::sign_out))
        .route("/static/{name}", get(static_files::file))
        .route("/api/v1/openapi.json", get(api::openapi))
        .route("/api/v1/names", get(api::names))
        // The ensemble.
        .route("/ensemble", get(pages::ensemble))
        .route("/api/v1/ensemble", get(pages::ensemble))
        .route("/api/v1/ensemble/watch", get(api::watch_ensemble));
    let of_nodes: [(&str, MethodRouter<Arc<Web>>); 14] = [
        ("/tree", get(pages::tree)),
        ("/node", get(pages::node).post(pages::change)),
        ("/raw", get(pages::raw)),
        ("/api/v1/node", get(pages::node).put(api::put).post(api::post).delete(api::delete)),
        ("/api/v1/children", get(pages::tree)),
        ("/api/v1/watch", get(api::watch)),
        // Recipes and services.
        ("/why", get(pages::why)),
        ("/recipes", get(pages::recipes)),
        ("/services", get(pages::services)),
        ("/api/v1/why", get(pages::why)),
        ("/api/v1/recipes", get(pages::recipes)),
        ("/api/v1/services", get(pages::services)),
        // Searches.
        ("/search", get(pages::search)),
        ("/api/v1/search", get(pages::search)),
    ];
    let routes = of_nodes.into_iter().fold(routes, |routes, (start, methods)| {
        // The root, with and without a slash, and every other node.
        routes
            .route(start, methods.clone())
            .route(&format!("{start}/"), methods.clone())
            .route(&format!("{start}/{{*path}}"), methods)
    });
    // A fallback of its own: a nested router would otherwise have that of the outer one.
    routes.fallback(no_page).layer(from_fn_with_state(Arc::clone(&web), guard)).with_state(web)
}

async fn no_page() -> Problem {
    Problem::no_page()
}
