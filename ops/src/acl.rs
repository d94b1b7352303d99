//! Access control lists as text: `SCHEME:ID:PERMISSIONS`, as in zkCli. Ids may contain commas, as
//! the names of X.509 do: a backslash precedes them.
//!
//! ```
//! use zk_curator::Permissions;
//! use zk_curator_ops::acl;
//!
//! let list = acl::parse("world:anyone:r,digest:ann:hash=:cdrwa")?;
//! assert_eq!(list[0].permissions, Permissions::READ);
//! assert_eq!(acl::text(&list[1]), "digest:ann:hash=:cdrwa");
//! # Ok::<(), zk_curator_ops::Error>(())
//! ```

use zk_curator::{Acl, Permissions};

use crate::error::Error;

const LETTERS: [(char, Permissions); 5] = [
    ('c', Permissions::CREATE),
    ('d', Permissions::DELETE),
    ('r', Permissions::READ),
    ('w', Permissions::WRITE),
    ('a', Permissions::ADMIN),
];

/// Parses a list. Names of common lists are understood: `open`, `read` and `creator`.
///
/// # Errors
/// [`InvalidAcl`](Error::InvalidAcl) with the entry that is not valid.
pub fn parse(text: &str) -> Result<Vec<Acl>, Error> {
    match text {
        "open" => Ok(Acl::open_unsafe()),
        "read" => Ok(Acl::read_unsafe()),
        "creator" => Ok(Acl::creator_all()),
        _ => split(text).iter().map(|text| entry(text)).collect(),
    }
}

/// Splits a list at its commas. A backslash before a comma or a backslash takes its meaning away.
fn split(text: &str) -> Vec<String> {
    let (mut entries, mut entry) = (Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ',' => entries.push(std::mem::take(&mut entry)),
            '\\' => entry.push(chars.next_if(|next| matches!(next, ',' | '\\')).unwrap_or(c)),
            _ => entry.push(c),
        }
    }
    entries.push(entry);
    entries
}

/// Parses an entry. Its id may contain colons, as IPv6 addresses and digests do.
fn entry(text: &str) -> Result<Acl, Error> {
    let invalid = || Error::InvalidAcl { text: text.to_owned() };
    let (rest, letters) = text.rsplit_once(':').ok_or_else(invalid)?;
    let (scheme, id) = rest.split_once(':').ok_or_else(invalid)?;
    let permissions = permissions(letters).ok_or_else(invalid)?;
    if scheme.is_empty() || letters.is_empty() {
        return Err(invalid());
    }
    Ok(Acl::new(permissions, scheme, id))
}

/// Returns an entry as text, as [`parse`] reads it.
#[must_use]
pub fn text(acl: &Acl) -> String {
    let id = acl.id.replace('\\', r"\\").replace(',', r"\,");
    format!("{}:{id}:{}", acl.scheme, letters(acl.permissions))
}

/// Parses letters; `None` if one of them is not `c`, `d`, `r`, `w` or `a`.
#[must_use]
pub fn permissions(letters: &str) -> Option<Permissions> {
    let known = |letter| LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, one)| *one);
    letters.chars().try_fold(Permissions::default(), |sum, letter| Some(sum | known(letter)?))
}

/// Returns permissions as letters.
#[must_use]
pub fn letters(permissions: Permissions) -> String {
    let allowed = LETTERS.iter().filter(|(_, one)| permissions.contains(*one));
    allowed.map(|(letter, _)| letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_what_they_were() {
        for list in [
            "world:anyone:cdrwa",
            "ip:::1:r,digest:ann:xyz=:rw",
            "auth::cdrwa",
            r"x509:CN=ann\,O=a\\\, b:cdrwa,world:anyone:r",
        ] {
            let parsed = parse(list).expect(list);
            let printed: Vec<_> = parsed.iter().map(text).collect();

            assert_eq!(printed.join(","), list);
        }
    }

    #[test]
    fn an_id_has_commas_and_backslashes() {
        let parsed = parse(r"x509:CN=ann\,O=a\\\, b\n:r,world:anyone:r").expect("a list");
        let ids: Vec<_> = parsed.iter().map(|acl| acl.id.as_str()).collect();
        assert_eq!(ids, [r"CN=ann,O=a\, b\n", "anyone"]);
        assert!(parse("x509:CN=ann,O=a:r").is_err());
    }

    #[test]
    fn an_invalid_entry_is_refused() {
        for list in ["", "world", "world:anyone", "world:anyone:", "world:anyone:x", ":a:r"] {
            assert!(parse(list).is_err(), "{list}");
        }
    }
}
