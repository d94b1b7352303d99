//! The header and the footer of every page.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use tracing::error;
use zk_curator::ConnectionHealth;

use crate::live::Scope;
use crate::paths::url_of;
use crate::problem::Problem;
use crate::security::{Means, Viewer};
use crate::show::{duration, visible};
use crate::state::Web;
use crate::static_files::{ICON, SCRIPT, STYLE};

/// The header and the footer of a page.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) base: String,
    pub(super) style: String,
    pub(super) script: String,
    pub(super) icon: String,
    /// The node of the page; empty without one.
    pub(super) path: String,
    /// The URL of the news of the node; empty if the page is not live.
    pub(super) live: String,
    pub(super) pages: Vec<PageLink>,
    pub(super) chip: &'static str,
    pub(super) chip_class: &'static str,
    pub(super) chip_icon: &'static str,
    pub(super) connection: String,
    pub(super) servers: String,
    pub(super) identity: String,
    pub(super) mode: &'static str,
    pub(super) has_user: bool,
    pub(super) user: String,
    pub(super) can_sign_out: bool,
    pub(super) csrf: String,
    /// A sentence about the change that led to the page; empty without one.
    pub(super) done: String,
}

/// A link of the navigation.
#[derive(Debug)]
pub(super) struct PageLink {
    pub(super) label: &'static str,
    pub(super) url: String,
    pub(super) is_current: bool,
}

const ENSEMBLE: &str = "/ensemble";
pub(super) const HISTORY: &str = "/history";
/// The pages of the navigation. A new page gets a line here, and a route.
const PAGES: &[(&str, &str)] = &[
    // In the order of the navigation.
    ("Tree", "/tree"),
    ("Recipes", "/recipes"),
    ("Services", "/services"),
    ("Ensemble", ENSEMBLE),
    ("Search", "/search"),
    ("History", HISTORY),
    ("Help", "/help"),
];

impl Frame {
    /// Returns the frame of a page. `page` is its address, as in the navigation. Clients that have
    /// not signed in learn nothing about the servers.
    pub(super) async fn new(web: &Web, viewer: Option<&Viewer>, page: &str) -> Self {
        // The form of the login page needs the token.
        let csrf = viewer.map(|viewer| viewer.csrf.clone()).unwrap_or_default();
        let viewer = viewer.filter(|viewer| is_known(web, viewer));
        let base = &web.base;
        let file = |name: &str| format!("{base}/static/{name}");
        let link = |(label, url): (&'static str, &str)| PageLink {
            label,
            url: format!("{base}{url}"),
            is_current: url == page,
        };
        let health = web.zk.connection_health();
        let (chip_class, chip_icon, chip) = if health.is_ready() {
            ("", "○", "loaded once")
        } else {
            ("warn", "⚠", "ZooKeeper is away")
        };
        let hidden = || "shown to users".to_owned();
        let (connection, servers, identity) = match viewer {
            Some(_) => (connection_of(&health), web.zk.connect_string(), web.identity().await),
            None => (hidden(), hidden(), hidden()),
        };
        let user = viewer.map(|viewer| visible(&viewer.user).into_owned()).unwrap_or_default();
        Self {
            style: file(&STYLE.name),
            script: file(&SCRIPT.name),
            icon: file(&ICON.name),
            path: String::new(),
            live: String::new(),
            pages: if viewer.is_some() {
                PAGES.iter().copied().filter(|(_, url)| has_page(web, url)).map(link).collect()
            } else {
                Vec::new()
            },
            chip,
            chip_class,
            chip_icon,
            connection,
            servers: visible(&servers).into_owned(),
            identity,
            mode: if web.write { "read and write" } else { "read-only" },
            has_user: !user.is_empty(),
            user,
            can_sign_out: viewer.is_some_and(|viewer| viewer.means == Means::Cookie),
            csrf,
            done: String::new(),
            base: base.clone(),
        }
    }

    /// Makes it the frame of a page about a node. `url` is that of the node, without the page.
    pub(super) fn of_node(mut self, web: &Web, path: &str, url: &str) -> Self {
        path.clone_into(&mut self.path);
        if web.live {
            self.live = format!("{}/api/v1/watch{url}", self.base);
        }
        self
    }

    /// Makes it the frame of a page about a node that follows everything below `root`: a recipe, or
    /// a subtree.
    pub(super) fn following(mut self, web: &Web, path: &str, root: &str, scope: Scope) -> Self {
        path.clone_into(&mut self.path);
        if web.live {
            let (url, scope) = (url_of(root), scope.name());
            self.live = format!("{}/api/v1/watch{url}?scope={scope}", self.base);
        }
        self
    }
}

/// Returns `true` if the client may see what users see.
fn is_known(web: &Web, viewer: &Viewer) -> bool {
    web.authentication.is_open() || viewer.means != Means::Open
}

/// Returns `true` if the explorer has a page. One that does not ask the servers has no page about
/// them, and one without logs has none about the past.
fn has_page(web: &Web, url: &str) -> bool {
    match url {
        ENSEMBLE => web.ensemble().is_ok(),
        HISTORY => web.history().is_ok(),
        _ => true,
    }
}

fn connection_of(health: &ConnectionHealth) -> String {
    let state = health.state.name().replace('_', " ");
    let mut text = format!("{state} for {}", duration(health.lasted));
    if let Some(server) = &health.server {
        text.push_str(&format!(", served by {}", visible(server)));
    }
    if let Some(session) = &health.session {
        text.push_str(&format!(", session {}, timeout {}", session.id, duration(session.timeout)));
    }
    text
}

/// Renders a page with another status than 200.
pub(super) fn render_as(status: StatusCode, page: &impl Template) -> Response {
    let mut response = render(page);
    *response.status_mut() = status;
    response
}

/// Renders a page.
pub(super) fn render(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(why) => {
            error!(%why, "a page of the web explorer cannot be rendered");
            let detail = "The page cannot be rendered.";
            Problem::internal("Internal error", detail).into_response()
        }
    }
}
