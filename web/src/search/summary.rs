//! The summary of a search: its extent, and everything that it has not compared. Pure.

use super::pattern::{LONGEST_LINE, MOST_OPENED, SearchIn};
use crate::show::{grouped, size, size_of, visible};

/// The maximum number of paths of a kind that are named.
pub(crate) const MOST_NAMED: usize = 20;

/// The reason why a search has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum SearchEnd {
    /// Everything was searched, except what the summary names.
    #[default]
    Complete,
    /// The limit of nodes.
    Nodes,
    /// The limit of bytes.
    Bytes,
    /// The limit of time.
    Time,
    /// The limit of results.
    Hits,
    /// A request has failed, for this reason.
    Failed(String),
}

impl SearchEnd {
    /// Returns the reason in one word, for programs.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Nodes => "nodes",
            Self::Bytes => "bytes",
            Self::Time => "time",
            Self::Hits => "results",
            Self::Failed(_) => "failed",
        }
    }
}

/// Paths, of which the first ones are named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NamedPaths {
    pub(crate) first: Vec<String>,
    /// The number of all of them.
    pub(crate) total: usize,
}

impl NamedPaths {
    /// Adds a path, with a reason if there is one.
    pub(crate) fn add(&mut self, path: &str) {
        if self.first.len() < MOST_NAMED {
            self.first.push(path.to_owned());
        }
        self.total += 1;
    }

    fn sentence(&self, what: &str) -> Option<String> {
        let shown: Vec<_> = self.first.iter().map(|path| visible(path)).collect();
        let noun = if self.total == 1 { "node" } else { "nodes" };
        let more = if self.total > self.first.len() { ", and more" } else { "" };
        let paths = shown.join(", ");
        (self.total > 0).then(|| format!("{what}: {} {noun}: {paths}{more}.", grouped(self.total)))
    }
}

/// The extent of a search, and everything that it has not compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SearchSummary {
    pub(crate) part: SearchIn,
    pub(crate) end: SearchEnd,
    /// The number of nodes that were found, whether they match or not.
    pub(crate) nodes: usize,
    /// The number of nodes that were compared.
    pub(crate) compared: usize,
    /// The bytes of the data that were read.
    pub(crate) bytes: u64,
    pub(crate) hits: usize,
    /// The nodes whose names or data were not compared.
    pub(crate) left: NamedPaths,
    /// The nodes whose children were not listed. Nothing below them was searched.
    pub(crate) unlisted: NamedPaths,
    /// The nodes of which only some children were visited.
    pub(crate) partly_listed: NamedPaths,
    /// The nodes whose data are hidden by the settings.
    pub(crate) redacted: NamedPaths,
    /// The nodes that could not be read, or whose children could not be listed.
    pub(crate) unreadable: NamedPaths,
    /// The nodes whose content was compared in part.
    pub(crate) cut: NamedPaths,
}

impl SearchSummary {
    pub(crate) fn new(part: SearchIn) -> Self {
        Self { part, ..Self::default() }
    }

    /// Returns `true` if a part of the subtree was not searched because of a limit or a failure.
    pub(crate) const fn is_truncated(&self) -> bool {
        !matches!(self.end, SearchEnd::Complete)
    }

    /// Returns a sentence about the extent of the search.
    pub(crate) fn headline(&self) -> String {
        let hits = match self.hits {
            0 => "Nothing matches".to_owned(),
            1 => "1 node matches".to_owned(),
            hits => format!("{} nodes match", grouped(hits)),
        };
        let (compared, nodes) = (grouped(self.compared), grouped(self.nodes));
        if self.part.needs_data() {
            let bytes = size(self.bytes);
            return format!("{hits}. Compared the data of {compared} of {nodes} nodes, {bytes}.");
        }
        format!("{hits}. Compared {compared} of {nodes} nodes.")
    }

    /// Returns a sentence about the limit that has ended the search; empty if it is complete.
    pub(crate) fn reason(&self) -> String {
        let limit = match &self.end {
            SearchEnd::Complete => return String::new(),
            SearchEnd::Nodes => "nodes",
            SearchEnd::Bytes => "bytes",
            SearchEnd::Time => "time",
            SearchEnd::Hits => "results",
            SearchEnd::Failed(why) => return format!("The search has failed: {}.", visible(why)),
        };
        format!("The search has ended early, at its limit of {limit}.")
    }

    /// Returns sentences about everything that was not searched.
    pub(crate) fn gaps(&self) -> Vec<String> {
        let opened = size_of(MOST_OPENED);
        let line = size_of(LONGEST_LINE);
        let cut = format!(
            "Compared in part, up to {opened} of decompressed content and {line} of a line"
        );
        [
            self.left.sentence("Found, and not compared"),
            self.unlisted.sentence("Found, and nothing below was searched"),
            self.partly_listed.sentence("More children than were visited"),
            self.redacted.sentence("Data hidden by the settings, and never searched"),
            self.unreadable.sentence("Not readable"),
            self.cut.sentence(&cut),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_everything_that_was_not_searched() {
        let mut summary = SearchSummary::new(SearchIn::Text);
        assert_eq!(summary.headline(), "Nothing matches. Compared the data of 0 of 0 nodes, 0 B.");
        assert_eq!((summary.reason(), summary.gaps()), (String::new(), Vec::<String>::new()));
        for n in 0..22 {
            summary.left.add(&format!("/n{n}"));
        }
        summary.unlisted.add("/a\u{202e}");
        summary.end = SearchEnd::Bytes;
        assert!(summary.is_truncated());
        assert_eq!(summary.reason(), "The search has ended early, at its limit of bytes.");
        let gaps = summary.gaps();
        assert!(gaps[0].starts_with("Found, and not compared: 22 nodes: /n0, /n1, "), "{gaps:?}");
        assert!(gaps[0].ends_with("/n19, and more."), "{}", gaps[0]);
        assert!(gaps[1].ends_with("searched: 1 node: /a⟨U+202E⟩."), "{}", gaps[1]);
        summary.part = SearchIn::Name;
        summary.hits = 1;
        assert_eq!(summary.headline(), "1 node matches. Compared 0 of 0 nodes.");
    }
}
