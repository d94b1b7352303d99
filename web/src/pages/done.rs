//! The sentence about a change, on the page after its form.
//!
//! The redirect carries it in the query, with a code under the key of this process. So the server
//! keeps nothing, and a link from elsewhere shows no sentence.

use axum::response::{IntoResponse, Redirect, Response};
use zk_curator::Stat;

use super::head::{View, address};
use crate::fields::query;
use crate::paths::child_of;
use crate::security::{Keys, Viewer};
use crate::show::{grouped, visible};
use crate::state::Web;
use crate::visit::Visit;

/// The fields of the query. The script removes them from the address of the page.
const WHAT: &str = "done";
const OF: &str = "of";
const CODE: &str = "code";

/// A change that a form has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DoneChange {
    /// The zxid of the creation.
    Created(i64),
    /// The zxid of the write.
    Saved(i64),
    /// The name of the deleted child.
    Deleted(String),
    /// The number of changed nodes.
    Restored(u64),
}

impl DoneChange {
    /// Redirects the browser to a page that shows the sentence.
    pub(super) fn redirect(&self, web: &Web, viewer: &Viewer, view: View, path: &str) -> Response {
        let (what, of) = (self.name(), self.detail());
        let code = code(&web.keys, viewer, view, path, what, &of);
        let fields = [(WHAT, what), (OF, &*of), (CODE, &*code)];
        let url = format!("{}{}", address(web, view, path), query(&fields));
        Redirect::to(&url).into_response()
    }

    /// Reads the change of a query.
    fn of(what: &str, of: &str) -> Option<Self> {
        match what {
            "created" => Some(Self::Created(of.parse().ok()?)),
            "saved" => Some(Self::Saved(of.parse().ok()?)),
            "deleted" => Some(Self::Deleted(of.to_owned())),
            "restored" => Some(Self::Restored(of.parse().ok()?)),
            _ => None,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Created(_) => "created",
            Self::Saved(_) => "saved",
            Self::Deleted(_) => "deleted",
            Self::Restored(_) => "restored",
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Created(zxid) | Self::Saved(zxid) => zxid.to_string(),
            Self::Deleted(name) => name.clone(),
            Self::Restored(nodes) => nodes.to_string(),
        }
    }

    /// Returns the sentence on the page of a node with this stat.
    fn sentence(&self, path: &str, stat: &Stat) -> String {
        match self {
            Self::Created(zxid) if stat.mzxid == *zxid => "Created.".to_owned(),
            Self::Created(_) => "Created. The node has changed since.".to_owned(),
            Self::Saved(zxid) if stat.mzxid == *zxid => format!("Saved: version {}.", stat.version),
            Self::Saved(_) => "Saved. The node has changed again since.".to_owned(),
            Self::Deleted(name) => format!("Deleted: {}.", visible(&child_of(path, name))),
            Self::Restored(1) => "Restored: 1 node changed.".to_owned(),
            Self::Restored(nodes) => format!("Restored: {} nodes changed.", grouped(nodes)),
        }
    }
}

/// Returns the sentence of the query of a page; empty without one, or if the browser has not made
/// this change.
pub(super) fn done_sentence(
    web: &Web,
    visit: &Visit,
    view: View,
    path: &str,
    stat: &Stat,
) -> String {
    let field = |name: &str| visit.query.get(name).unwrap_or_default();
    let (what, of) = (field(WHAT), field(OF));
    let Some(done) = DoneChange::of(what, of) else { return String::new() };
    let expected = code(&web.keys, &visit.viewer, view, path, what, of);
    if !web.keys.are_equal(field(CODE), &expected) {
        return String::new();
    }
    done.sentence(path, stat)
}

/// Returns the code that binds a change to its browser and its page. Neither a token nor a path
/// contains a zero byte.
fn code(keys: &Keys, viewer: &Viewer, view: View, path: &str, what: &str, of: &str) -> String {
    let parts = [viewer.csrf.as_str(), view.address(), path, what, of];
    keys.token("done", parts.join("\0").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_survive_a_query() {
        for done in [
            DoneChange::Created(-7),
            DoneChange::Saved(i64::MAX),
            DoneChange::Deleted("a&b".to_owned()),
            DoneChange::Restored(0),
        ] {
            assert_eq!(DoneChange::of(done.name(), &done.detail()), Some(done));
        }
        for (what, of) in [("", ""), ("saved", ""), ("saved", "x"), ("restored", "-1")] {
            assert_eq!(DoneChange::of(what, of), None, "{what} {of}");
        }
    }
}
