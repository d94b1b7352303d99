//! The page of a failed request.

use askama::Template;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use super::frame::{Frame, render_as};
use super::head::{View, address};
use crate::paths::{parent_of, path_of};
use crate::problem::{Problem, ProblemKind};
use crate::security::Viewer;
use crate::show::visible;
use crate::state::Web;

/// The pages of nodes that have to exist.
const OF_PRESENT_NODES: [View; 6] =
    [View::Tree, View::Node, View::Why, View::Recipes, View::Services, View::Changes];

#[derive(Template)]
#[template(path = "problem.html", whitespace = "minimize")]
struct ProblemPage {
    frame: Frame,
    title: &'static str,
    detail: String,
    status: String,
    /// `true` if the same request may succeed later.
    is_passing: bool,
    /// The address of the history of a missing node; empty for other problems, and without logs.
    history_url: String,
    /// The address of the page without what is damaged in the history; empty for other problems.
    skip_url: String,
    /// The address of the parent of a missing node; empty for other problems.
    parent_url: String,
}

/// Returns the page of a problem. `viewer` is the client, if the request was admitted, and `url`
/// the address of the request below the base path.
pub(crate) async fn problem_page(
    web: &Web,
    viewer: Option<&Viewer>,
    problem: &Problem,
    url: &Uri,
) -> Response {
    let missing = missing_node(problem, url.path());
    let missing = missing.as_deref();
    let parent = missing.and_then(parent_of).filter(|parent| *parent != "/");
    let page = ProblemPage {
        frame: Frame::new(web, viewer, "").await,
        title: problem.title,
        detail: visible(&problem.detail).into_owned(),
        status: problem.status.as_u16().to_string(),
        is_passing: matches!(
            problem.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        ),
        history_url: missing
            .filter(|_| web.history().is_ok())
            .map(|path| address(web, View::History, path))
            .unwrap_or_default(),
        skip_url: if problem.can_be_skipped { skip_url(web, url) } else { String::new() },
        parent_url: parent.map(|path| address(web, View::Tree, path)).unwrap_or_default(),
    };
    let mut response = render_as(problem.status, &page);
    problem.add_header(&mut response);
    response
}

/// Returns the address of the same page without what is damaged.
fn skip_url(web: &Web, url: &Uri) -> String {
    let fields = url.query().map(|fields| format!("{fields}&")).unwrap_or_default();
    format!("{}{}?{fields}damaged=skip", web.base, url.path())
}

/// Returns the path of the node that the page at an address would show, if that does not exist.
fn missing_node(problem: &Problem, url: &str) -> Option<String> {
    if problem.kind != ProblemKind::NoNode {
        return None;
    }
    let node = OF_PRESENT_NODES.iter().find_map(|view| url.strip_prefix(view.address()))?;
    path_of(node).ok()
}
