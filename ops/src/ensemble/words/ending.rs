//! The ends of responses, which tell if a response was cut.

use super::FourLetterWord;

impl FourLetterWord {
    /// Returns `true` if the response ends as servers end it, as far as that can be seen. A response
    /// to another word than `conf`, `cons` and `dump` can be cut between two lines.
    ///
    /// `dump` of ZooKeeper 3.4 has no end that is known, so it is never whole.
    pub(crate) fn is_whole(self, response: &str) -> bool {
        let ends_line = response.ends_with('\n');
        let last = response.lines().next_back().unwrap_or_default();
        let has = |start: &str| response.lines().any(|line| line.starts_with(start));
        match self {
            Self::Ruok => response.trim() == "imok",
            Self::Isro => ["rw", "ro", "null"].contains(&response.trim()),
            // Some releases write no newline after the version.
            Self::Conf if has("membership") => last.starts_with("version="),
            // Apache ZooKeeper writes an empty line after the connections.
            Self::Cons if has(" /") => ends_line && last.is_empty(),
            Self::Dump if has("SessionTracker dump") => ends_line && has("Connections dump"),
            Self::Dump => ends_line && has("Sessions with Ephemerals"),
            _ => ends_line,
        }
    }
}
