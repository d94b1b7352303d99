//! The help page.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::frame::{Frame, render};
use crate::ensemble::{MOST_PATHS, MOST_SESSIONS};
use crate::history::MOST_LISTED;
use crate::journal::{MOST_CHANGES, MOST_KNOWN, MOST_VALUE};
use crate::reads::{LONGEST_LABEL, MOST_INSTANCES, MOST_NODES, PAGE, SORTABLE};
use crate::show::{MOST_SHOWN, grouped, size, size_of};
use crate::state::Web;
use crate::transfer::MOST_COMPARED;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "help.html", whitespace = "minimize")]
struct HelpPage {
    frame: Frame,
    has_history: bool,
    limits: Vec<String>,
}

/// `GET /help`
pub(crate) async fn help(State(web): State<Arc<Web>>, visit: Visit) -> Response {
    let mut limits = vec![
        format!("A page has at most {PAGE} children, and fewer if their names are long."),
        format!(
            "Children are sorted by time, size or number of children up to {} of them. \
             Above that they are sorted by name.",
            grouped(SORTABLE)
        ),
        format!(
            "A page shows the first {} of a value. A download has all of it.",
            size_of(MOST_SHOWN)
        ),
        format!(
            "Recipes are searched in at most {} nodes, and fewer if their data are \
             large. A page says if nodes are missing.",
            grouped(MOST_NODES)
        ),
        format!("A label is cut after {LONGEST_LABEL} bytes."),
        format!("At most {} instances of services are read.", grouped(MOST_INSTANCES)),
        format!(
            "The page of the ensemble shows {} sessions, with {MOST_PATHS} ephemeral \
             nodes of each.",
            grouped(MOST_SESSIONS)
        ),
        format!(
            "A user runs one search at a time. It ends after {} results, {} nodes, {} of data or \
             {} s.",
            grouped(web.search_limits.hits),
            grouped(web.search_limits.nodes),
            size(web.search_limits.bytes),
            web.search_limits.time.as_secs()
        ),
        format!(
            "A request has at most {}, the jute.maxbuffer of the servers.",
            size_of(web.max_body)
        ),
        format!(
            "An uploaded file has at most {}. Trees of at most {} nodes are compared.",
            size(web.uploads.most_bytes()),
            grouped(MOST_COMPARED)
        ),
        format!(
            "The newest {MOST_CHANGES} changes below a node are kept, the first {} of a value, and \
             the old values of up to {} nodes.",
            size_of(MOST_VALUE),
            grouped(MOST_KNOWN)
        ),
    ];
    let of_history = history_limit(&web);
    let has_history = of_history.is_some();
    limits.extend(of_history);
    render(&HelpPage {
        frame: Frame::new(&web, Some(&visit.viewer), "/help").await,
        has_history,
        limits,
    })
}

fn history_limit(web: &Web) -> Option<String> {
    let limits = web.history().ok()?.limits();
    Some(format!(
        "A page of the history lists the newest {MOST_LISTED} changes. It reads at most {} in {} \
         s, with {} of memory.",
        size(limits.bytes),
        limits.time.as_secs(),
        size_of(limits.memory)
    ))
}
