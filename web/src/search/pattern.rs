//! The pattern of a search, and the comparison of nodes with it. Pure.

use std::fmt;

use bytes::Bytes;
use regex::bytes::{Regex, RegexBuilder};
use zk_curator_ops::pattern::{NamePattern, PatternError};

use crate::paths::name_of;
use crate::show::opened;

/// The maximum length of a pattern in characters.
pub(crate) const LONGEST_PATTERN: usize = 256;
/// The content of compressed data that is compared, in bytes.
pub(crate) const MOST_OPENED: usize = 4 << 20;
/// The beginning of a line that is compared, in bytes.
pub(crate) const LONGEST_LINE: usize = 256 << 10;
/// The memory of a compiled regular expression, in bytes. The time for a line grows with it.
const LARGEST_REGEX: usize = 128 << 10;
/// The cache of a regular expression, in bytes.
const REGEX_CACHE: usize = 1 << 20;
/// The maximum depth of the groups of a regular expression.
const DEEPEST: u32 = 50;
/// The maximum number of characters of a shown line, and of those before the match.
const SHOWN: usize = 200;
const SHOWN_BEFORE: usize = 40;

/// The part of a node that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SearchIn {
    /// The name, with a part of it or a pattern such as `lock-*`.
    #[default]
    Name,
    /// The path, with a regular expression.
    Path,
    /// The lines of the data, with a part of them.
    Text,
    /// The lines of the data, with a regular expression.
    Regex,
}

/// The reason why a search cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SearchPatternError {
    /// There is no pattern.
    #[error("the pattern is empty")]
    Empty,
    /// The pattern is too long.
    #[error("the pattern has more than {LONGEST_PATTERN} characters")]
    TooLong,
    /// The pattern of names is not valid.
    #[error("the pattern of names is not valid: {0}")]
    Glob(String),
    /// The regular expression is not valid.
    #[error("the regular expression is not valid: {0}")]
    Regex(String),
    /// The regular expression needs too much memory.
    #[error("the regular expression is too large: it needs more than 128 KiB")]
    LargeRegex,
}

/// The pattern of a search.
pub(crate) struct SearchPattern(Matcher);

enum Matcher {
    Name(NamePattern),
    Path(Regex),
    Line(Regex),
}

/// A node that is compared: its data if these are searched.
#[derive(Debug, Clone)]
pub(crate) struct SearchCandidate {
    pub(crate) path: String,
    pub(crate) data: Option<Bytes>,
}

/// A node that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchHit {
    pub(crate) path: String,
    /// The part of the first line that matches, if data are searched.
    pub(crate) line: Option<String>,
}

/// The result of the comparison of some nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SearchComparison {
    pub(crate) hits: Vec<SearchHit>,
    /// The number of nodes that were compared: the first ones.
    pub(crate) compared: usize,
    /// The paths of nodes whose content was compared in part: it becomes too large, or has a line
    /// that is too long.
    pub(crate) cut: Vec<String>,
}

impl SearchIn {
    pub(crate) const ALL: [Self; 4] = [Self::Name, Self::Path, Self::Text, Self::Regex];

    /// Returns the name in URLs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Path => "path",
            Self::Text => "text",
            Self::Regex => "regex",
        }
    }

    /// Returns the part of a name; `None` for an unknown one.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// Returns `true` if data are read.
    pub(crate) const fn needs_data(self) -> bool {
        matches!(self, Self::Text | Self::Regex)
    }
}

impl SearchPattern {
    /// Compiles a pattern.
    pub(crate) fn new(part: SearchIn, text: &str) -> Result<Self, SearchPatternError> {
        if text.is_empty() {
            return Err(SearchPatternError::Empty);
        }
        if text.chars().count() > LONGEST_PATTERN {
            return Err(SearchPatternError::TooLong);
        }
        Ok(Self(match part {
            SearchIn::Name => Matcher::Name(glob(text)?),
            SearchIn::Path => Matcher::Path(regex(text)?),
            SearchIn::Text => Matcher::Line(regex(&regex::escape(text))?),
            SearchIn::Regex => Matcher::Line(regex(text)?),
        }))
    }

    /// Compares nodes until `most` of them match, or `goes_on` returns `false`.
    pub(crate) fn compare(
        &self,
        candidates: Vec<SearchCandidate>,
        most: usize,
        goes_on: impl Fn() -> bool,
    ) -> SearchComparison {
        let mut comparison = SearchComparison::default();
        for SearchCandidate { path, data } in candidates {
            if comparison.hits.len() >= most || !goes_on() {
                break;
            }
            let line = match (&self.0, data) {
                (Matcher::Name(pattern), _) => pattern.is_match(name_of(&path)).then_some(None),
                (Matcher::Path(regex), _) => regex.is_match(path.as_bytes()).then_some(None),
                (Matcher::Line(regex), Some(data)) => {
                    let Some((line, is_cut)) = first_line(regex, &data, &goes_on) else { break };
                    comparison.cut.extend(is_cut.then(|| path.clone()));
                    line.map(Some)
                }
                (Matcher::Line(_), None) => None,
            };
            comparison.compared += 1;
            comparison.hits.extend(line.map(|line| SearchHit { path, line }));
        }
        comparison
    }
}

/// Shows that there is a pattern. A compiled one has no short form.
impl fmt::Debug for SearchPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchPattern").finish_non_exhaustive()
    }
}

/// A text without the signs of a pattern may stand anywhere in a name.
fn glob(text: &str) -> Result<NamePattern, SearchPatternError> {
    let is_pattern = text.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let anywhere = if is_pattern { text.to_owned() } else { format!("*{text}*") };
    let pattern: Result<NamePattern, PatternError> = anywhere.parse();
    pattern.map_err(|why| SearchPatternError::Glob(why.to_string()))
}

/// Classes such as `\w` are those of ASCII, so common expressions are small, and fast on data that
/// are not text.
fn regex(text: &str) -> Result<Regex, SearchPatternError> {
    let built = RegexBuilder::new(text)
        .unicode(false)
        .size_limit(LARGEST_REGEX)
        .dfa_size_limit(REGEX_CACHE)
        .nest_limit(DEEPEST)
        .build();
    built.map_err(|why| match why {
        regex::Error::CompiledTooBig(_) => SearchPatternError::LargeRegex,
        why => {
            // The text has the expression, and a line that points to the place.
            let text = why.to_string();
            let reason = text.rsplit("error: ").next().unwrap_or_default().trim();
            SearchPatternError::Regex(reason.replace('\n', " "))
        }
    })
}

/// Returns the first line of data that matches, and `true` if a part was not compared. `None` if
/// the comparison was stopped.
fn first_line(
    regex: &Regex,
    data: &[u8],
    goes_on: &impl Fn() -> bool,
) -> Option<(Option<String>, bool)> {
    let gzip = opened(data, MOST_OPENED);
    let mut is_cut = gzip.as_ref().is_some_and(|gzip| !gzip.is_complete);
    let plain = gzip.as_ref().map_or(data, |gzip| gzip.content.as_slice());
    for line in plain.split(|byte| *byte == b'\n') {
        if !goes_on() {
            return None;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let compared = &line[..line.len().min(LONGEST_LINE)];
        if let Some(found) = regex.find(compared) {
            return Some((Some(shown(compared, found.start())), is_cut));
        }
        is_cut |= compared.len() < line.len();
    }
    Some((None, is_cut))
}

/// Returns the part of a line around the place of the match.
fn shown(line: &[u8], place: usize) -> String {
    let before = String::from_utf8_lossy(&line[..place]);
    let before: Vec<char> = before.chars().collect();
    let near = &before[before.len().saturating_sub(SHOWN_BEFORE)..];
    let after = String::from_utf8_lossy(&line[place..]);
    let mut rest = after.chars();
    let mut shown: String =
        if near.len() < before.len() { "…".to_owned() } else { String::new() };
    shown.extend(near);
    shown.extend(rest.by_ref().take(SHOWN - near.len()));
    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zk_curator::compression::{CompressionProvider, GzipCompressionProvider};

    use super::*;

    fn pattern(part: SearchIn, text: &str) -> SearchPattern {
        SearchPattern::new(part, text).unwrap()
    }

    fn candidate(path: &str, data: Option<&[u8]>) -> SearchCandidate {
        SearchCandidate { path: path.to_owned(), data: data.map(Bytes::copy_from_slice) }
    }

    fn is_match(part: SearchIn, text: &str, path: &str) -> bool {
        let found = pattern(part, text).compare(vec![candidate(path, None)], 9, || true);
        assert_eq!(found.compared, 1);
        found.hits == [SearchHit { path: path.to_owned(), line: None }]
    }

    fn line(part: SearchIn, text: &str, data: &[u8]) -> Option<String> {
        let found = pattern(part, text).compare(vec![candidate("/a", Some(data))], 9, || true);
        found.hits.into_iter().next().and_then(|hit| hit.line)
    }

    #[test]
    fn names_match_by_part_or_pattern() {
        for (part, text, path, matches) in [
            (SearchIn::Name, "ock", "/a/lock-1", true),
            (SearchIn::Name, "a", "/a/lock-1", false),
            (SearchIn::Name, "lock-?", "/a/lock-1", true),
            (SearchIn::Name, "lock", "/a/LOCK", false),
            (SearchIn::Name, "{a,b}-[0-9]", "/x/b-7", true),
            (SearchIn::Name, "*", "/", true),
            (SearchIn::Path, "^/a/.*-[0-9]+$", "/a/b/lock-17", true),
            (SearchIn::Path, "^a", "/a", false),
        ] {
            assert_eq!(is_match(part, text, path), matches, "{text} {path}");
        }
    }

    #[test]
    fn lines_match_by_text_or_expression() {
        let data = b"host: zk1\r\nport: 2181\n";
        assert_eq!(line(SearchIn::Text, "port", data).as_deref(), Some("port: 2181"));
        assert_eq!(line(SearchIn::Text, "p.rt", data), None);
        assert_eq!(line(SearchIn::Regex, "p.rt", data).as_deref(), Some("port: 2181"));
        assert_eq!(line(SearchIn::Regex, "zk1$", data).as_deref(), Some("host: zk1"));
        let long = format!("{}ü needle {}", "x".repeat(500), "y".repeat(500));
        let shown = line(SearchIn::Text, "needle", long.as_bytes()).unwrap();
        assert!(shown.starts_with("…xxx") && shown.ends_with("yyy…"), "{shown}");
        assert!(shown.contains("ü needle") && shown.chars().count() == SHOWN + 2, "{shown}");
        assert_eq!(line(SearchIn::Text, "a", b"\xffa\xff").as_deref(), Some("\u{fffd}a\u{fffd}"));
    }

    #[test]
    fn compressed_data_are_compared_as_plain() {
        let gzip = GzipCompressionProvider::new();
        let stored = gzip.compress("/a", b"needle").unwrap();
        assert_eq!(line(SearchIn::Text, "needle", &stored).as_deref(), Some("needle"));
        let zeros = gzip.compress("/a", &vec![b'0'; MOST_OPENED + 1]).unwrap();
        let all = vec![candidate("/big", Some(&zeros)), candidate("/small", Some(&stored))];
        let found = pattern(SearchIn::Text, "needle").compare(all, 9, || true);
        assert_eq!((found.cut, found.hits.len()), (vec!["/big".to_owned()], 1));
        let long = [&b"x".repeat(LONGEST_LINE)[..], b"needle\nneedle"].concat();
        let all = vec![candidate("/long", Some(&long[..long.len() - 7]))];
        let found = pattern(SearchIn::Text, "needle").compare(all, 9, || true);
        assert_eq!((found.cut, found.hits.len()), (vec!["/long".to_owned()], 0));
        assert_eq!(line(SearchIn::Text, "needle", &long).as_deref(), Some("needle"));
    }

    #[test]
    fn a_comparison_can_be_stopped() {
        let all = || (0..10).map(|n| candidate(&format!("/n{n}"), None)).collect::<Vec<_>>();
        let names = pattern(SearchIn::Name, "n");
        let found = names.compare(all(), 3, || true);
        assert_eq!((found.hits.len(), found.compared), (3, 3));
        assert_eq!(names.compare(all(), 3, || false), SearchComparison::default());
    }

    #[test]
    fn hostile_patterns_are_refused() {
        let refused = |part, text: &str| SearchPattern::new(part, text).unwrap_err();
        assert_eq!(refused(SearchIn::Name, ""), SearchPatternError::Empty);
        assert_eq!(refused(SearchIn::Text, &"x".repeat(257)), SearchPatternError::TooLong);
        for text in [r"\w{9999}", "((a{99}){99}){99}", r"(\w{1,99}){99}"] {
            assert_eq!(refused(SearchIn::Regex, text), SearchPatternError::LargeRegex, "{text}");
        }
        for text in ["(", "[", "a{2,1}", "\\", "[äöü]", &"(".repeat(200)] {
            let error = refused(SearchIn::Path, text);
            assert!(matches!(error, SearchPatternError::Regex(_)), "{text} {error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
        let nested = format!("{}a{}", "(".repeat(100), ")".repeat(100));
        assert!(SearchPattern::new(SearchIn::Regex, &nested).is_err());
        assert!(matches!(refused(SearchIn::Name, "["), SearchPatternError::Glob(_)));
        // Common expressions are small enough.
        let common = [r"\w+@\w+\.\w{2,3}", r"^\d{1,3}(\.\d{1,3}){3}:\d+$", "(?i)ä+", "(?u)[äöü]+"];
        for text in common {
            assert!(SearchPattern::new(SearchIn::Regex, text).is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_panics(
            text in "[*?{},\\[\\]!^\\\\a-cé-ü()|+$.-]{0,40}",
            data in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            for part in SearchIn::ALL {
                if let Ok(pattern) = SearchPattern::new(part, &text) {
                    let all = vec![candidate("/a/bé", Some(&data))];
                    prop_assert_eq!(pattern.compare(all, 9, || true).compared, 1);
                }
            }
        }
    }
}
