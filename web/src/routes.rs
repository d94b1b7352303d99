//! The addresses of the explorer.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use zk_curator::CuratorFramework;

use crate::destinations::Destinations;
use crate::guard::{Gate, HEALTH, guard};
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
/// Panics if the operating system has no random numbers; with
/// [`impersonate`](WebOptions::impersonate), also outside a tokio runtime.
#[must_use = "the explorer has to be served"]
pub fn router(zk: &CuratorFramework, options: WebOptions) -> Router {
    let of_nodes = pages_of_nodes().map(|(start, _)| start);
    let destinations = Destinations::new(of_nodes, other_pages().map(|(address, _)| address));
    let web = Arc::new(Web::new(zk, options, destinations));
    if let Some(impersonation) = web.impersonation.clone() {
        zk.spawn(impersonation.sweep(zk.states()));
    }
    let gate = Gate::new(Arc::clone(&web), unguarded_router);
    routes().layer(from_fn_with_state(gate, guard)).with_state(web)
}

/// Returns the explorer of a user, whose requests have passed the guard.
fn unguarded_router(web: Arc<Web>) -> Router {
    routes().with_state(web)
}

/// Returns the pages of nodes, by the starts of their addresses.
fn pages_of_nodes() -> [(&'static str, MethodRouter<Arc<Web>>); 9] {
    [
        ("/tree", get(pages::tree)),
        ("/node", get(pages::node).post(pages::change)),
        // Recipes and services.
        ("/why", get(pages::why)),
        ("/recipes", get(pages::recipes)),
        ("/services", get(pages::services)),
        // Searches.
        ("/search", get(pages::search)),
        // Backups, comparisons, changes and the past.
        ("/data", get(pages::data).post(pages::data_form)),
        ("/changes", get(pages::journal)),
        ("/history", get(pages::history).post(pages::history_form)),
    ]
}

/// Returns the other pages, except for the login page.
fn other_pages() -> [(&'static str, MethodRouter<Arc<Web>>); 2] {
    [("/help", get(pages::help)), ("/ensemble", get(pages::ensemble))]
}

fn routes() -> Router<Arc<Web>> {
    let routes = Router::new()
        .route("/", get(pages::root))
        .route("/go", get(pages::go))
        .route("/login", get(pages::sign_in_page).post(pages::sign_in))
        .route("/logout", post(pages::sign_out))
        .route(HEALTH, get(health))
        .route("/static/{name}", get(static_files::file))
        .route("/api/v1/openapi.json", get(api::openapi))
        .route("/api/v1/names", get(api::names))
        .route("/api/v1/diff", get(api::diff))
        .route("/api/v1/ensemble", get(pages::ensemble))
        .route("/api/v1/ensemble/watch", get(api::watch_ensemble));
    let others = other_pages().into_iter();
    let routes = others.fold(routes, |routes, (address, methods)| routes.route(address, methods));
    let of_nodes: [(&str, MethodRouter<Arc<Web>>); 11] = [
        ("/raw", get(pages::raw)),
        ("/api/v1/node", get(pages::node).put(api::put).post(api::post).delete(api::delete)),
        ("/api/v1/children", get(pages::tree)),
        ("/api/v1/watch", get(api::watch)),
        ("/api/v1/why", get(pages::why)),
        ("/api/v1/recipes", get(pages::recipes)),
        ("/api/v1/services", get(pages::services)),
        ("/api/v1/search", get(pages::search)),
        ("/api/v1/history", get(pages::history)),
        ("/api/v1/backup", get(api::backup)),
        ("/api/v1/changes", get(api::changes)),
    ];
    let of_nodes = pages_of_nodes().into_iter().chain(of_nodes);
    let routes = of_nodes.fold(routes, |routes, (start, methods)| {
        // The root, with and without a slash, and every other node.
        routes
            .route(start, methods.clone())
            .route(&format!("{start}/"), methods.clone())
            .route(&format!("{start}/{{*path}}"), methods)
    });
    // A fallback of its own: a nested router would otherwise have that of the outer one.
    routes.fallback(no_page)
}

/// `GET /health`: this program serves. It says nothing about ZooKeeper: during an outage, the
/// explorer tells its users about it, and a restart would not help.
async fn health() -> &'static str {
    "ok\n"
}

async fn no_page() -> Problem {
    Problem::no_page()
}
