//! The names of nodes as names of files.
//!
//! Every system accepts the names, and they stay different where the case of letters does not
//! count. The way back is the same for all of them: a directory whose name ends with `%+` is a
//! piece of a name, which continues in the directory within, and `%` with two hexadecimal digits is
//! a byte.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::path;

/// The longest name in bytes, without [`CONTINUES`]. Most systems accept 255, and some that encrypt
/// names accept 143.
const LONGEST: usize = 140;
/// The end of a piece of a name. No escape has it.
const CONTINUES: &str = "%+";
/// The names of devices on Windows, also with an ending.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
/// The names of devices that end with a digit, without it.
const PORTS: [&str; 2] = ["com", "lpt"];

/// Returns the places of nodes in a folder. The paths are relative to the root, and have parents
/// before their children.
pub(super) fn places<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Vec<PathBuf> {
    let mut alike: HashMap<(&str, String), usize> = HashMap::new();
    for path in paths.clone() {
        let (parent, name) = path::split(path);
        *alike.entry((parent, safe(name, false).to_ascii_lowercase())).or_default() += 1;
    }
    let mut places: HashMap<&str, PathBuf> = HashMap::new();
    let place = |path: &'a str| {
        let (parent, name) = path::split(path);
        if name.is_empty() {
            return PathBuf::new();
        }
        let plain = safe(name, false);
        let is_alone = alike.get(&(parent, plain.to_ascii_lowercase())).is_none_or(|n| *n == 1);
        let pieces = match is_alone && plain.len() <= LONGEST {
            true => vec![plain],
            // Pieces may be alike, too.
            false => cut(&safe(name, true)),
        };
        let mut place = places.get(parent).cloned().unwrap_or_default();
        place.extend(pieces);
        places.insert(path, place.clone());
        place
    };
    paths.map(place).collect()
}

/// Returns a name that leaves no folder, and begins with no `.` or `_`.
fn safe(name: &str, without_capitals: bool) -> String {
    let mut safe = String::new();
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let port = stem.strip_suffix(|c: char| c.is_ascii_digit());
    let is_device = DEVICES.contains(&&*stem) || port.is_some_and(|port| PORTS.contains(&port));
    let last = name.len().saturating_sub(1);
    for (place, byte) in name.bytes().enumerate() {
        // Systems compare other letters in their own ways.
        let is_special = !matches!(byte, b' '..=b'~')
            || b"<>:\"/\\|?*%".contains(&byte)
            || place == 0 && (is_device || matches!(byte, b'.' | b'_'))
            || place == last && matches!(byte, b'.' | b' ')
            || without_capitals && byte.is_ascii_uppercase();
        if is_special {
            safe.push_str(&format!("%{byte:02x}"));
        } else {
            safe.push(char::from(byte));
        }
    }
    safe
}

/// Cuts a name into pieces. Each but the first begins with an escape, so none is special by itself.
fn cut(name: &str) -> Vec<String> {
    let (mut pieces, mut rest) = (Vec::new(), name.to_owned());
    while rest.len() > LONGEST {
        let escape = rest[..LONGEST].rfind('%').filter(|start| start + 3 > LONGEST);
        let later = rest.split_off(escape.unwrap_or(LONGEST));
        pieces.push(rest + CONTINUES);
        rest = match later.as_bytes() {
            [b'%', ..] | [] => later,
            [first, ..] => format!("%{first:02x}{}", &later[1..]),
        };
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// Returns the path of a node, from the place of its directory.
    fn back(place: &Path) -> String {
        let mut path = String::new();
        let mut continues = false;
        for name in place.iter().map(|name| name.to_str().expect("text")) {
            if !continues {
                path.push('/');
            }
            continues = name.ends_with(CONTINUES);
            path.push_str(name.strip_suffix(CONTINUES).unwrap_or(name));
        }
        let mut bytes = Vec::new();
        let mut rest = path.as_bytes();
        while let Some((first, later)) = rest.split_first() {
            rest = later;
            if *first == b'%' {
                let digits = std::str::from_utf8(&later[..2]).expect("digits");
                bytes.push(u8::from_str_radix(digits, 16).expect("digits"));
                rest = &later[2..];
            } else {
                bytes.push(*first);
            }
        }
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn ordinary_names_stay() {
        let paths = ["", "/locks", "/locks/Orders-0000000007", "/locks/a b", "/com.example.A"];
        let places = places(paths.into_iter());
        let shown: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        let expected = ["", "locks", "locks/Orders-0000000007", "locks/a b", "com.example.A"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn names_that_differ_in_case_lose_their_capitals() {
        let places = places(["", "/a", "/A", "/A/x", "/B", "/Ä", "/ä"].into_iter());
        let shown: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        assert_eq!(shown, ["", "a", "%41", "%41/x", "B", "%c3%84", "%c3%a4"]);
    }

    /// Returns names that collide, are special or are long, more often than others.
    fn name() -> impl Strategy<Value = String> {
        const SPECIAL: &[&str] =
            &["_data", ".", "..", "CON", "nul.txt", "com1", "a.", "a ", "%+", "x%2b", "_"];
        prop_oneof![
            "[aA]{1,3}",
            "[^/\\x00]{1,4}",
            prop::sample::select(SPECIAL).prop_map(str::to_owned),
            "[aA%._ ]{130,150}",
            ("[aA]{139,142}", "[aA._%]{0,300}").prop_map(|(a, b)| a + &b),
        ]
    }

    proptest! {
        #[test]
        fn places_are_reversible_and_differ(
            names in prop::collection::hash_set(name(), 1..8),
            below in name(),
        ) {
            let mut paths = vec![String::new()];
            paths.extend(names.iter().map(|name| format!("/{name}")));
            paths.push(format!("{}/{below}", paths[1]));
            let places = places(paths.iter().map(String::as_str));
            let mut seen = HashSet::new();
            for (path, place) in paths.iter().zip(&places) {
                prop_assert_eq!(&back(place), path);
                for name in place.iter().map(|name| name.to_str().expect("text")) {
                    prop_assert!(name.len() <= 143, "{}", name);
                    prop_assert!(!name.starts_with(['.', '_']) && !name.ends_with(['.', ' ']));
                    prop_assert!(name.bytes().all(|byte| matches!(byte, b' '..=b'~')));
                }
                let folded = place.display().to_string().to_ascii_lowercase();
                prop_assert!(seen.insert(folded), "{:?}", place);
            }
        }
    }
}
