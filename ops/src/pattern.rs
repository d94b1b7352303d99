//! Patterns of names and of paths.
//!
//! ```
//! use zk_curator_ops::pattern::{NamePattern, PathPattern};
//!
//! let name: NamePattern = "lock-*".parse()?;
//! assert!(name.is_match("lock-0000000001"));
//! let path: PathPattern = "/config/*".parse()?;
//! assert!(path.is_match("/config/a") && !path.is_match("/config/a/b"));
//! let anywhere: PathPattern = "*.json".parse()?;
//! assert!(anywhere.is_match("/config/a.json"));
//! # Ok::<(), zk_curator_ops::pattern::PatternError>(())
//! ```

use std::str::FromStr;

use globset::{Glob, GlobBuilder, GlobMatcher};

/// A pattern that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct PatternError(globset::Error);

/// A pattern for the name of a node: `*`, `?`, `[a-z]` and `{a,b}`.
#[derive(Debug, Clone)]
pub struct NamePattern(GlobMatcher);

impl NamePattern {
    /// Returns `true` if the pattern matches the whole name.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

impl FromStr for NamePattern {
    type Err = PatternError;

    fn from_str(pattern: &str) -> Result<Self, PatternError> {
        Glob::new(pattern).map(|glob| Self(glob.compile_matcher())).map_err(PatternError)
    }
}

/// A pattern for paths, as [`NamePattern`] for names. `*` stays within a name, and `**` does not. A
/// pattern without a slash at the start matches at any depth.
#[derive(Debug, Clone)]
pub struct PathPattern(GlobMatcher);

impl PathPattern {
    /// Returns `true` if the pattern matches the whole path.
    #[must_use]
    pub fn is_match(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

impl FromStr for PathPattern {
    type Err = PatternError;

    fn from_str(pattern: &str) -> Result<Self, PatternError> {
        let anchored =
            if pattern.starts_with('/') { pattern.to_owned() } else { format!("/**/{pattern}") };
        let glob = GlobBuilder::new(&anchored).literal_separator(true).build();
        glob.map(|glob| Self(glob.compile_matcher())).map_err(PatternError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_paths() {
        for (pattern, path, matches) in [
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/**", "/a/b/c", true),
            ("*.json", "/a/b.json", true),
            ("*.json", "/b.json", true),
            ("b", "/a/bc", false),
        ] {
            let parsed: PathPattern = pattern.parse().expect(pattern);
            assert_eq!(parsed.is_match(path), matches, "{pattern} {path}");
        }
        assert!("[".parse::<PathPattern>().is_err() && "[".parse::<NamePattern>().is_err());
    }
}
