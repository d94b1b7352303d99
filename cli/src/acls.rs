//! Access control lists on the command line: `SCHEME:ID:PERMISSIONS`, as in zkCli.

use zk_curator::{Acl, Permissions};

use crate::exit::Failure;

const LETTERS: [(char, Permissions); 5] = [
    ('c', Permissions::CREATE),
    ('d', Permissions::DELETE),
    ('r', Permissions::READ),
    ('w', Permissions::WRITE),
    ('a', Permissions::ADMIN),
];

/// Parses a list. Names of common lists are understood: `open`, `read` and `creator`.
pub(crate) fn parse(text: &str) -> Result<Vec<Acl>, Failure> {
    match text {
        "open" => Ok(Acl::open_unsafe()),
        "read" => Ok(Acl::read_unsafe()),
        "creator" => Ok(Acl::creator_all()),
        _ => text.split(',').map(entry).collect(),
    }
}

/// Parses an entry. Its id may contain colons, as IPv6 addresses and digests do.
fn entry(text: &str) -> Result<Acl, Failure> {
    let invalid = || {
        Failure::usage(format!("not an ACL: {text}"))
            .hint("write SCHEME:ID:PERMISSIONS, such as world:anyone:cdrwa, or open, read, creator")
    };
    let (rest, letters) = text.rsplit_once(':').ok_or_else(invalid)?;
    let (scheme, id) = rest.split_once(':').ok_or_else(invalid)?;
    let permissions = permissions(letters).ok_or_else(invalid)?;
    if scheme.is_empty() || letters.is_empty() {
        return Err(invalid());
    }
    Ok(Acl::new(permissions, scheme, id))
}

/// Returns an entry as text.
pub(crate) fn text(acl: &Acl) -> String {
    format!("{}:{}:{}", acl.scheme, acl.id, letters(acl.permissions))
}

/// Parses letters; `None` if one of them is no permission.
pub(crate) fn permissions(letters: &str) -> Option<Permissions> {
    let known = |letter| LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, one)| *one);
    letters.chars().try_fold(Permissions::default(), |sum, letter| Some(sum | known(letter)?))
}

/// Returns permissions as letters.
pub(crate) fn letters(permissions: Permissions) -> String {
    let allowed = LETTERS.iter().filter(|(_, one)| permissions.contains(*one));
    allowed.map(|(letter, _)| letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_what_they_were() {
        for list in ["world:anyone:cdrwa", "ip:::1:r,digest:ann:xyz=:rw", "auth::cdrwa"] {
            let parsed = parse(list).expect(list);
            let printed: Vec<_> = parsed.iter().map(text).collect();

            assert_eq!(printed.join(","), list);
        }
    }

    #[test]
    fn an_invalid_entry_is_refused() {
        for list in ["", "world", "world:anyone", "world:anyone:", "world:anyone:x", ":a:r"] {
            assert!(parse(list).is_err(), "{list}");
        }
    }
}
