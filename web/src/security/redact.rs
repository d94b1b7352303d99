//! Nodes whose data are secrets.

use globset::{GlobBuilder, GlobSet};

/// The patterns of paths whose data are not shown, neither on pages nor by the REST interface.
///
/// In a pattern, `*` stands for a part of a name, and `**` for any number of names. Upper and lower
/// case do not differ. Names, stats and ACLs are shown.
#[derive(Debug, Clone)]
pub struct Redaction(GlobSet);

/// A pattern is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern {pattern:?} is not valid: {reason}")]
#[non_exhaustive]
pub struct RedactionError {
    /// The pattern.
    pub pattern: String,
    /// The reason.
    pub reason: String,
}

impl Redaction {
    /// The default patterns.
    pub const DEFAULT: [&str; 2] = ["**/password*", "**/secrets/**"];

    /// Returns the redaction of these patterns, in place of the default ones. Without a pattern,
    /// all data are shown.
    ///
    /// # Errors
    /// The first pattern that is not valid.
    pub fn new<I>(patterns: I) -> Result<Self, RedactionError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut set = GlobSet::builder();
        let invalid = |pattern: &str, why: &globset::Error| RedactionError {
            pattern: pattern.to_owned(),
            reason: why.kind().to_string(),
        };
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let glob =
                GlobBuilder::new(pattern).literal_separator(true).case_insensitive(true).build();
            set.add(glob.map_err(|why| invalid(pattern, &why))?);
        }
        // The set as a whole can only be too large.
        set.build().map(Self).map_err(|why| invalid("", &why))
    }

    /// Returns `true` if the data of a node are hidden.
    pub(crate) fn hides(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

impl Default for Redaction {
    fn default() -> Self {
        Self::new(Self::DEFAULT).expect("invariant: the default patterns are valid")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_by_default() {
        let redaction = Redaction::default();
        for path in
            ["/password", "/app/db/password.txt", "/app/PASSWORD", "/secrets/a", "/a/secrets/b/c"]
        {
            assert!(redaction.hides(path), "{path}");
        }
        for path in ["/", "/secrets", "/app/my-password", "/passwords-are/not-here", "/a"] {
            assert!(!redaction.hides(path), "{path}");
        }
    }

    #[test]
    fn patterns_replace_the_default() {
        let redaction = Redaction::new(["/tokens/*"]).unwrap();
        assert!(redaction.hides("/tokens/a"));
        assert!(!redaction.hides("/tokens/a/b") && !redaction.hides("/password"));
        assert!(!Redaction::new([""; 0]).unwrap().hides("/password"));
        let error = Redaction::new(["/a", "/[b"]).unwrap_err();
        assert_eq!(error.pattern, "/[b");
    }
}
