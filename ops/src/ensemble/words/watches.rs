//! The watches of a server: `wchs`, `wchc`, `wchp`.

/// The response to `wchs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WatchSummary {
    pub(crate) connections: u64,
    pub(crate) paths: u64,
    pub(crate) watches: u64,
}

impl WatchSummary {
    /// Parses the response; `None` if it is none to `wchs`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (connections, rest) = lines.next()?.split_once(" connections watching ")?;
        let paths = rest.split(' ').next()?;
        let watches = lines.next()?.strip_prefix("Total watches:")?;
        Some(Self {
            connections: connections.trim().parse().ok()?,
            paths: paths.parse().ok()?,
            watches: watches.trim().parse().ok()?,
        })
    }
}

/// Headings, each with the indented lines below it.
pub(crate) type Lists = Vec<(String, Vec<String>)>;

/// Parses the response to `wchp`, whose headings are paths, or to `wchc`, whose headings are
/// sessions.
pub(crate) fn lists(text: &str) -> Lists {
    let mut lists = Lists::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with(['\t', ' ']) {
            if let Some((_, items)) = lists.last_mut() {
                items.push(line.trim_start().to_owned());
            }
        } else {
            lists.push((line.to_owned(), Vec::new()));
        }
    }
    lists
}
