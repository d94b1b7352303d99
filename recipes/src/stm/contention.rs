//! The nodes with which a transaction was in conflict.

use std::collections::BTreeMap;

/// The conflicts of a transaction, by the nodes that others have written. Pure.
#[derive(Debug, Default)]
pub(super) struct ConflictPaths {
    paths: BTreeMap<String, u32>,
}

impl ConflictPaths {
    pub(super) fn note(&mut self, path: String) {
        *self.paths.entry(path).or_default() += 1;
    }

    /// Returns the path with the most conflicts.
    pub(super) fn hottest(&self) -> Option<&str> {
        let hottest = self.paths.iter().max_by_key(|(_, met)| **met);
        hottest.map(|(path, _)| path.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hottest_path_has_the_most_conflicts() {
        let mut met = ConflictPaths::default();
        assert_eq!(met.hottest(), None);
        for path in ["/a", "/b", "/b", "/c"] {
            met.note(path.to_owned());
        }
        assert_eq!(met.hottest(), Some("/b"));
    }
}
