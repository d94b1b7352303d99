//! The head of the pages about a node.

use crate::paths::{child_of, name_of, url_of};
use crate::show::visible;
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
        }
    }
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
        Self { children: children.to_string(), ..Self::of_view(web, path, view) }
    }

    /// Returns the head of a page that does not know the number of children.
    pub(super) fn of_view(web: &Web, path: &str, view: View) -> Self {
        let url = url_of(path);
        let link = |url: &str| format!("{}{}{url}", web.base, view.address());
        let mut crumbs = vec![Crumb {
            // A namespace has a root of its own.
            name: visible(&web.zk.server_path("/")).into_owned(),
            url: link(""),
            is_current: path == "/",
        }];
        let mut above = "/".to_owned();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            above = child_of(&above, name);
            crumbs.push(Crumb {
                name: visible(name).into_owned(),
                url: link(&url_of(&above)),
                is_current: above == path,
            });
        }
        let heading =
            if path == "/" { "/".to_owned() } else { visible(name_of(path)).into_owned() };
        Self {
            crumbs,
            heading,
            children: String::new(),
            tree_url: format!("{}/tree{url}", web.base),
            node_url: format!("{}/node{url}", web.base),
            why_url: format!("{}/why{url}", web.base),
            recipes_url: format!("{}/recipes{url}", web.base),
            services_url: format!("{}/services{url}", web.base),
            search_url: format!("{}/search{url}", web.base),
            view,
        }
    }

    /// Returns `true` if the page is this view: for the template.
    pub(super) fn shows(&self, view: &str) -> bool {
        self.view.address().trim_start_matches('/') == view
    }
}
