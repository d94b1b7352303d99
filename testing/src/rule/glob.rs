//! Path patterns.

/// Returns `true` if `path` matches: `*` matches any characters except slashes, `?` matches one,
/// and a component `**` matches any number of components, including none.
#[must_use]
pub fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<_> = pattern.split('/').collect();
    let path: Vec<_> = path.split('/').collect();
    components(&pattern, &path)
}

/// Goes back only to the last `**`, as [`characters`] does to the last star.
fn components(pattern: &[&str], path: &[&str]) -> bool {
    let (mut p, mut c) = (0, 0);
    let mut stars = None;
    while c < path.len() {
        match pattern.get(p) {
            Some(&"**") => {
                stars = Some((p, c));
                p += 1;
            }
            Some(first) if characters(first.as_bytes(), path[c].as_bytes()) => {
                p += 1;
                c += 1;
            }
            _ => {
                let Some((at, from)) = stars else { return false };
                stars = Some((at, from + 1));
                (p, c) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|component| *component == "**")
}

/// Goes back only to the last star: the text before it has already matched.
fn characters(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            // A character may have several bytes. The bytes after the first belong to it.
            Some(b'?') => {
                p += 1;
                t += 1;
                while text.get(t).is_some_and(|byte| byte & 0xc0 == 0x80) {
                    t += 1;
                }
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        for (pattern, path, expected) in [
            ("/a", "/a", true),
            ("/a", "/a/b", false),
            ("/a", "/ab", false),
            ("/*", "/a", true),
            ("/*", "/a/b", false),
            ("/*/lock-*", "/locks/lock-0000000001", true),
            ("/*/lock-*", "/locks/_c_1-lock-0000000001", false),
            ("/*/*lock-*1", "/locks/_c_1-lock-0000000001", true),
            ("/a*b*c", "/abxbxc", true),
            ("/a*b*c", "/abxbx", false),
            ("/?", "/ä", true),
            ("/?", "/ab", false),
            ("/**", "/", true),
            ("/**", "/a/b/c", true),
            ("/a/**", "/a", true),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/ab", false),
            ("/**/c", "/c", true),
            ("/**/c", "/a/b/c", true),
            ("/a/**/c/*", "/a/x/y/c/d", true),
            ("/a/**/c/*", "/a/x/y/c", false),
            ("/**/b/**/d", "/a/b/c/b/c/d", true),
            ("/**/b/**/b/**/d", "/a/b/c/b/d", true),
            ("/**/b/**/b/**/d", "/a/b/c/d", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
        // A search that tries every division of the path among the patterns would not end.
        assert!(!matches(&format!("{}/b", "/**/a".repeat(40)), &"/a".repeat(200)));
    }
}
