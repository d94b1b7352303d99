//! The pages to which a user returns after signing in.

use crate::paths::path_of;

/// The page for all other addresses.
const START: &str = "/tree";

/// The addresses of all pages, as the routes name them.
#[derive(Debug, Clone)]
pub(crate) struct Destinations {
    /// The pages of nodes: the path of a node may follow.
    of_nodes: Vec<&'static str>,
    others: Vec<&'static str>,
}

impl Destinations {
    pub(crate) fn new(
        of_nodes: impl IntoIterator<Item = &'static str>,
        others: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        Self { of_nodes: of_nodes.into_iter().collect(), others: others.into_iter().collect() }
    }

    /// Returns the address if it is that of a page, with any query, and otherwise the address of
    /// the start. A link of another site may have chosen the address.
    pub(crate) fn of<'a>(&self, address: &'a str) -> &'a str {
        // Browsers skip control characters, and take a backslash for a slash.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
        let path = address.split_once('?').map_or(address, |(path, _)| path);
        let is_plain = address.bytes().all(is_plain);
        if is_plain && self.has_page(path) { address } else { START }
    }

    /// A path of a node has neither `..` nor an empty name, so a browser does not resolve it to
    /// another address.
    fn has_page(&self, path: &str) -> bool {
        let mut nodes = self.of_nodes.iter().filter_map(|start| path.strip_prefix(start));
        self.others.contains(&path) || nodes.any(|node| path_of(node).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_pages() {
        let pages = Destinations::new(["/tree", "/search"], ["/help"]);
        for address in [
            "/tree",
            "/tree/",
            "/tree/a%20b?from=200",
            "/tree/a%5Cb",
            "/search/a?for=x%26y&in=text",
            "/search?for=//evil.com",
            "/help",
            "/help?x",
        ] {
            assert_eq!(pages.of(address), address);
        }
        for address in [
            "",
            "/",
            "//evil.com",
            "/\\evil.com",
            "https://evil.com",
            "/tree\\evil",
            "/tree//evil.com",
            "/tree/../login",
            "/tree/%2e%2E/login",
            "/tree/a%2fb",
            "/tree/a%00",
            "/treehouse",
            "/tree/a\r\nb",
            "/tree?a\tb",
            "/tree/ü",
            "/help/a",
            "/login",
            "/logout",
            "/api/v1/node/a",
            "/static/style.css",
            "tree",
        ] {
            assert_eq!(pages.of(address), "/tree", "{address:?}");
        }
    }
}
