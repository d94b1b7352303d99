//! The head of the pages about a node.

use crate::paths::{child_of, name_of, url_of};
use crate::show::visible;
use crate::state::Web;

/// The path, the name and the views of a node.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) crumbs: Vec<Crumb>,
    pub(super) heading: String,
    /// The number of children.
    pub(super) children: String,
    pub(super) tree_url: String,
    pub(super) node_url: String,
    pub(super) is_tree: bool,
    pub(super) data_url: String,
    pub(super) changes_url: String,
    /// The name of the view: `tree`, `node`, `data` or `changes`.
    pub(super) view: &'static str,
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
        let url = url_of(path);
        let view = if is_tree { "tree" } else { "node" };
        let link = |url: &str| format!("{}/{view}{url}", web.base);
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
            children: children.to_string(),
            tree_url: format!("{}/tree{url}", web.base),
            node_url: format!("{}/node{url}", web.base),
            data_url: format!("{}/data{url}", web.base),
            changes_url: format!("{}/changes{url}", web.base),
            is_tree,
            view,
        }
    }

    /// Makes it the head of another view.
    pub(super) const fn in_view(mut self, view: &'static str) -> Self {
        self.view = view;
        self
    }
}
