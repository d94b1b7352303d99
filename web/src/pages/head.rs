//! The head of the pages about a node.

use crate::paths::{child_of, name_of, url_of};
use crate::show::{grouped, visible};
use crate::state::Web;

/// The path, the name and the views of a node.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) crumbs: Vec<Crumb>,
    pub(super) heading: String,
    /// The number of children; empty if it was not read.
    pub(super) children: String,
    pub(super) tree_url: String,
    pub(super) node_url: String,
    pub(super) data_url: String,
    pub(super) changes_url: String,
    /// Empty without a history.
    pub(super) history_url: String,
    pub(super) why_url: String,
    pub(super) recipes_url: String,
    pub(super) services_url: String,
    pub(super) search_url: String,
    pub(super) view: View,
}

/// A page about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Tree,
    Node,
    Why,
    Recipes,
    Services,
    Data,
    Changes,
    History,
}

impl View {
    /// Returns the address of the view of the root.
    pub(super) const fn address(self) -> &'static str {
        match self {
            Self::Tree => "/tree",
            Self::Node => "/node",
            Self::Why => "/why",
            Self::Recipes => "/recipes",
            Self::Services => "/services",
            Self::Data => "/data",
            Self::Changes => "/changes",
            Self::History => "/history",
        }
    }
}

/// Returns the address of a view of a node.
pub(super) fn address(web: &Web, view: View, path: &str) -> String {
    format!("{}{}{}", web.base, view.address(), url_of(path))
}

/// A node on the way from the root.
#[derive(Debug)]
pub(super) struct Crumb {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) is_current: bool,
}

impl Head {
    pub(super) fn new(web: &Web, path: &str, children: i64, is_tree: bool) -> Self {
        let view = if is_tree { View::Tree } else { View::Node };
        Self { children: grouped(children), ..Self::of_view(web, path, view) }
    }

    /// Returns the head of a page that does not know the number of children.
    pub(super) fn of_view(web: &Web, path: &str, view: View) -> Self {
        let mut crumbs = vec![Crumb {
            // A namespace has a root of its own.
            name: visible(&web.zk.server_path("/")).into_owned(),
            url: address(web, view, "/"),
            is_current: path == "/",
        }];
        let mut above = "/".to_owned();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            above = child_of(&above, name);
            crumbs.push(Crumb {
                name: visible(name).into_owned(),
                url: address(web, view, &above),
                is_current: above == path,
            });
        }
        let heading =
            if path == "/" { "/".to_owned() } else { visible(name_of(path)).into_owned() };
        let at = |view: View| address(web, view, path);
        Self {
            crumbs,
            heading,
            children: String::new(),
            tree_url: at(View::Tree),
            node_url: at(View::Node),
            data_url: at(View::Data),
            changes_url: at(View::Changes),
            history_url: web.history().map(|_| at(View::History)).unwrap_or_default(),
            why_url: at(View::Why),
            recipes_url: at(View::Recipes),
            services_url: at(View::Services),
            search_url: format!("{}/search{}", web.base, url_of(path)),
            view,
        }
    }

    /// Returns `true` if the page is this view: for the template.
    pub(super) fn shows(&self, view: &str) -> bool {
        self.view.address().trim_start_matches('/') == view
    }
}
