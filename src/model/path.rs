//! Templates of paths whose parameters are known when a program is compiled.

use crate::path::{NodeName, PathTemplate, ResolveError, ZPath};

/// The path of some parameters, or the reason why there is none.
#[doc(hidden)]
pub type Resolved = Result<ZPath, ResolveError>;

/// A template of paths whose parameters are types: made by
/// [`path_template!`](crate::path_template).
pub trait TypedPath {
    /// The template as text.
    const PATTERN: &'static str;

    /// Returns the template.
    #[must_use]
    fn template() -> PathTemplate {
        PathTemplate::parse(Self::PATTERN).expect("invariant: checked when it was compiled")
    }
}

/// The parameters of the paths of a template `P`: the tuple of their types. If there is one
/// parameter, its type as well.
pub trait Parameters<P: TypedPath> {
    /// Returns the path.
    ///
    /// # Errors
    /// `Refused` for a value that cannot be the name of a node.
    fn resolve(self) -> Result<ZPath, ResolveError>;
}

/// The parameters of the parents of the paths of a template `P`: those of the path without the
/// last.
pub trait ParentParameters<P: TypedPath> {
    /// Returns the path of the parent.
    ///
    /// # Errors
    /// `Refused` for a value that cannot be the name of a node.
    fn resolve_parent(self) -> Result<ZPath, ResolveError>;
}

/// Resolves a pattern that [`check_pattern`] has accepted.
///
/// # Errors
/// `Refused` for a value that cannot be the name of a node.
#[doc(hidden)]
pub fn resolve(
    pattern: &'static str,
    values: &[(&str, &dyn NodeName)],
) -> Result<ZPath, ResolveError> {
    template(pattern).resolve(values.iter().copied())
}

/// Resolves the parent of a pattern whose last component is a parameter.
///
/// # Errors
/// `Refused` for a value that cannot be the name of a node.
#[doc(hidden)]
pub fn resolve_parent(
    pattern: &'static str,
    values: &[(&str, &dyn NodeName)],
) -> Result<ZPath, ResolveError> {
    let parent = template(pattern).parent();
    parent.expect("invariant: `Model::under` checks this").resolve(values.iter().copied())
}

fn template(pattern: &'static str) -> PathTemplate {
    PathTemplate::parse(pattern).expect("invariant: checked when it was compiled")
}

/// Checks a template and the names of its parameters when a program is compiled.
///
/// # Panics
/// Panics if the pattern is not a template, or has other parameters.
#[doc(hidden)]
pub const fn check_pattern(pattern: &str, parameters: &[&str]) {
    let pattern = pattern.as_bytes();
    assert!(!pattern.is_empty() && pattern[0] == b'/', "the template does not begin with a slash");
    let (mut start, mut next) = (1, 0);
    while start < pattern.len() || (start == pattern.len() && start > 1) {
        let mut end = start;
        while end < pattern.len() && pattern[end] != b'/' {
            assert!(
                is_allowed(pattern, end),
                "the template has a character that ZooKeeper forbids"
            );
            end += 1;
        }
        assert!(end > start, "the template has an empty component");
        let is_dot = pattern[start] == b'.';
        let is_relative =
            is_dot && (end == start + 1 || (end == start + 2 && pattern[end - 1] == b'.'));
        assert!(!is_relative, "the template has a relative component");
        if pattern[start] == b'{' && pattern[end - 1] == b'}' && end - start > 2 {
            assert!(next < parameters.len(), "a parameter of the template has no type");
            assert!(
                is_same(pattern, start + 1, end - 1, parameters[next].as_bytes()),
                "the names of the parameters are not those of the template, in its order"
            );
            let mut place = start + 1;
            while place < end - 1 {
                assert!(
                    pattern[place].is_ascii_alphanumeric() || pattern[place] == b'_',
                    "the name of a parameter has a character other than an ASCII letter, a digit and `_`"
                );
                place += 1;
            }
            let mut before = 0;
            while before < next {
                assert!(
                    !is_same(pattern, start + 1, end - 1, parameters[before].as_bytes()),
                    "two parameters of the template have the same name"
                );
                before += 1;
            }
            next += 1;
        } else {
            let mut place = start;
            while place < end {
                assert!(
                    pattern[place] != b'{' && pattern[place] != b'}',
                    "a parameter of the template is not a whole component"
                );
                place += 1;
            }
        }
        if end == pattern.len() {
            break;
        }
        start = end + 1;
    }
    assert!(next == parameters.len(), "the template lacks a parameter that has a type");
}

/// Returns `true` if a part of the pattern is this name of a parameter.
const fn is_same(pattern: &[u8], start: usize, end: usize, name: &[u8]) -> bool {
    if end - start != name.len() {
        return false;
    }
    let mut place = 0;
    while place < name.len() {
        if pattern[start + place] != name[place] {
            return false;
        }
        place += 1;
    }
    true
}

/// Returns `true` if the character at a place of UTF-8 text is allowed in a path. Knows the ranges
/// by their first bytes.
const fn is_allowed(text: &[u8], place: usize) -> bool {
    match text[place] {
        0..=0x1f | 0x7f => false,
        0xc2 => text[place + 1] > 0x9f,
        // Private use, from U+E000 to U+F8FF.
        0xee => false,
        0xef => {
            let (second, third) = (text[place + 1], text[place + 2]);
            second > 0xa3 && !(second == 0xbf && third >= 0xb0)
        }
        0xf0..=0xff => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    /// The check at compile time and the parser accept the same templates.
    #[test]
    fn the_compiler_and_the_parser_agree() {
        let alphabet = ["/", "{", "}", ".", "a", "\u{e000}"];
        let mut patterns = vec![String::new()];
        let mut last = patterns.clone();
        for _ in 0..6 {
            let longer = |pattern: &String| alphabet.map(|letter| format!("{pattern}{letter}"));
            last = last.iter().flat_map(longer).collect();
            patterns.extend(last.iter().cloned());
        }
        std::panic::set_hook(Box::new(|_| {}));
        for pattern in patterns {
            let parsed = PathTemplate::parse(pattern.clone());
            let names = ["a", "aa", "aaa", "aaaa"];
            let one = names.iter().find(|name| pattern.contains(&format!("{{{name}}}")));
            let names: Vec<&str> = one.into_iter().copied().collect();
            let compiled = catch_unwind(|| check_pattern(&pattern, &names));
            assert_eq!(parsed.is_ok(), compiled.is_ok(), "{pattern:?} {parsed:?}");
        }
        drop(std::panic::take_hook());
    }

    /// Identifiers of Rust that are no names of parameters.
    #[test]
    fn the_compiler_refuses_names_that_the_parser_refuses() {
        std::panic::set_hook(Box::new(|_| {}));
        for name in ["größe", "r#type", "a-b", "名"] {
            let pattern = format!("/a/{{{name}}}");
            assert!(PathTemplate::parse(pattern.clone()).is_err(), "{name}");
            assert!(catch_unwind(|| check_pattern(&pattern, &[name])).is_err(), "{name}");
        }
        drop(std::panic::take_hook());
        check_pattern("/a/{Ab_1}", &["Ab_1"]);
    }

    #[test]
    fn the_compiler_knows_the_forbidden_characters() {
        for code in (0..=0x2_ffff_u32).chain([0x10_ffff]) {
            let Some(letter) = char::from_u32(code) else { continue };
            if matches!(letter, '/' | '{' | '}' | '.') {
                continue;
            }
            let text = format!("/{letter}");
            let allowed = (1..text.len()).all(|place| is_allowed(text.as_bytes(), place));
            assert_eq!(allowed, ZPath::parse(text).is_ok(), "U+{code:04X}");
        }
    }
}
