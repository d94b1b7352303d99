//! The sessions of the ensemble, a page at a time.

use zk_curator::path::ZPath;

use super::head::{View, address};
use super::paging::range;
use crate::api::SESSIONS;
use crate::ensemble::{ListedSession, MOST_PATHS, MOST_SESSIONS, SessionList};
use crate::show::{duration, grouped, visible};
use crate::state::Web;

/// A page of sessions.
pub(super) struct SessionTable {
    pub(super) summary: String,
    pub(super) notice: String,
    pub(super) rows: Vec<SessionRow>,
    pub(super) range: String,
    pub(super) has_pages: bool,
    pub(super) first_url: String,
    pub(super) previous_url: String,
    pub(super) next_url: String,
}

/// A session.
pub(super) struct SessionRow {
    pub(super) id: String,
    pub(super) is_own: bool,
    pub(super) address: String,
    pub(super) server: String,
    pub(super) timeout: String,
    pub(super) silent: String,
    pub(super) last: String,
    pub(super) requests: String,
    pub(super) ephemerals: String,
    pub(super) paths: Vec<SessionPath>,
    /// The number of ephemeral nodes that are not shown, as text; empty for none.
    pub(super) more: String,
}

/// An ephemeral node.
pub(super) struct SessionPath {
    pub(super) path: String,
    /// The address of its page; empty if this explorer cannot show it.
    pub(super) url: String,
}

/// Returns a page of sessions. `None` if they are not known yet.
pub(super) fn session_table(web: &Web, list: Option<&SessionList>, from: usize) -> SessionTable {
    let sessions = list.map(|list| list.sessions.as_slice()).unwrap_or_default();
    let own = web.zk.session().map(|session| session.id.to_string());
    let root = web.zk.server_path("/");
    let row = |session: &ListedSession| SessionRow {
        is_own: own.as_ref() == Some(&session.id),
        ..session_row(web, &root, session)
    };
    let rows: Vec<_> = sessions.iter().skip(from).take(SESSIONS).map(row).collect();
    let next = from.saturating_add(SESSIONS);
    let at = |from: usize| match from {
        0 => format!("{}/ensemble", web.base),
        from => format!("{}/ensemble?from={from}", web.base),
    };
    let is_first = from == 0;
    let has_next = next < sessions.len();
    SessionTable {
        summary: summary(list),
        notice: notice(list),
        range: range(from, rows.len(), sessions.len()),
        rows,
        has_pages: !is_first || has_next,
        first_url: if is_first { String::new() } else { at(0) },
        previous_url: if is_first { String::new() } else { at(from.saturating_sub(SESSIONS)) },
        next_url: if has_next { at(next) } else { String::new() },
    }
}

fn summary(list: Option<&SessionList>) -> String {
    match list.map(|list| (list.total, list.has_all_sessions)) {
        None => "The sessions are not known yet.".to_owned(),
        Some((0, false)) => "No server has reported its sessions.".to_owned(),
        Some((0, true)) => "There are no sessions.".to_owned(),
        Some((total, false)) => {
            format!("{} sessions by their connections. There may be others.", grouped(total))
        }
        Some((1, true)) => "1 session.".to_owned(),
        Some((total, true)) => format!("{} sessions.", grouped(total)),
    }
}

fn notice(list: Option<&SessionList>) -> String {
    let Some(list) = list else { return String::new() };
    let mut sentences = Vec::new();
    if list.total > list.sessions.len() {
        let most = grouped(MOST_SESSIONS);
        sentences.push(format!("Only the first {most} sessions by their ids are shown."));
    }
    if !list.has_all_connections {
        let text = "Some servers have not reported their connections, so clients may be missing.";
        sentences.push(text.to_owned());
    }
    sentences.join(" ")
}

fn session_row(web: &Web, root: &str, session: &ListedSession) -> SessionRow {
    let dash = || "–".to_owned();
    let name = |text: &Option<String>| {
        text.as_deref().map_or_else(dash, |text| visible(text).into_owned())
    };
    let more = session.ephemerals.saturating_sub(session.paths.len());
    SessionRow {
        id: session.id.clone(),
        is_own: false,
        address: name(&session.address),
        server: name(&session.server),
        timeout: session.timeout.map_or_else(dash, duration),
        silent: session.silent.map_or_else(dash, duration),
        last: name(&session.last_operation),
        requests: session.requests.map_or_else(dash, grouped),
        ephemerals: grouped(session.ephemerals),
        paths: session.paths.iter().map(|path| session_path(web, root, path)).collect(),
        more: match more {
            0 => String::new(),
            more => {
                format!("The first {MOST_PATHS} are shown, and {} are not.", grouped(more))
            }
        },
    }
}

/// `path` is that on the servers. With a namespace or a chroot, this explorer shows a part of them.
fn session_path(web: &Web, root: &str, path: &str) -> SessionPath {
    let below = if root == "/" { Some(path) } else { path.strip_prefix(root) };
    let below = below.filter(|below| ZPath::parse(*below).is_ok());
    let url = below.map(|below| address(web, View::Node, below));
    SessionPath { path: visible(path).into_owned(), url: url.unwrap_or_default() }
}
