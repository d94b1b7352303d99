//! The watches of a server: `wchs`, `wchc`, `wchp`.

/// The response to `wchs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WatchSummary {
    /// The connections with watches.
    pub connections: u64,
    /// The watched paths.
    pub paths: u64,
    /// The watches of all connections.
    pub watches: u64,
}

impl WatchSummary {
    /// Parses the response; `None` if it is not one to `wchs`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
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
pub type WatchLists = Vec<(String, Vec<String>)>;

/// Parses the response to `wchp`, whose headings are paths, or to `wchc`, whose headings are
/// sessions.
#[must_use]
pub fn lists(text: &str) -> WatchLists {
    let mut lists = WatchLists::new();
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
