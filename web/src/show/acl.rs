//! Access control lists in words.

use zk_curator::{Acl, Permissions};

use super::text::visible;

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AclLine {
    /// The identity, such as `world:anyone`.
    pub(crate) identity: String,
    /// The permissions, such as `read, write`.
    pub(crate) permissions: String,
}

const NAMES: [(Permissions, &str); 5] = [
    (Permissions::READ, "read"),
    (Permissions::WRITE, "write"),
    (Permissions::CREATE, "create"),
    (Permissions::DELETE, "delete"),
    (Permissions::ADMIN, "admin"),
];

/// Returns the lines of a list. The hash of a password in an identity of the scheme `digest` is
/// left out: a weak password can be guessed from it.
pub(crate) fn acl_lines(acl: &[Acl]) -> Vec<AclLine> {
    let line = |entry: &Acl| {
        let id = match entry.scheme.as_str() {
            "digest" => entry.id.split(':').next().unwrap_or_default(),
            _ => entry.id.as_str(),
        };
        let identity = if id.is_empty() {
            visible(&entry.scheme).into_owned()
        } else {
            format!("{}:{}", visible(&entry.scheme), visible(id))
        };
        AclLine { identity, permissions: words(entry.permissions) }
    };
    acl.iter().map(line).collect()
}

fn words(permissions: Permissions) -> String {
    if permissions == Permissions::ALL {
        return "all".to_owned();
    }
    let held = NAMES.iter().filter(|(one, _)| permissions.contains(*one)).map(|(_, name)| *name);
    let words: Vec<_> = held.collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_passwords_are_left_out() {
        let acl = [
            Acl::new(Permissions::ALL, "digest", "ann:kJh+s3cret="),
            Acl::new(Permissions::READ | Permissions::WRITE, "ip", "10.0.0.0/8"),
            Acl::new(Permissions::from_bits(0), "world", "anyone"),
        ];
        let lines = acl_lines(&acl);
        let shown: Vec<_> =
            lines.iter().map(|line| (&*line.identity, &*line.permissions)).collect();
        assert_eq!(
            shown,
            [("digest:ann", "all"), ("ip:10.0.0.0/8", "read, write"), ("world:anyone", "none")]
        );
    }
}
