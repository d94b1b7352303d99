//! Nodes as commands show them.

use std::cmp::Ordering;

use serde_json::{Value, json};
use zk_curator::{Error, ErrorKind, SessionId, Stat};

use crate::output::{printable, time};

/// The result of a look at a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NodeSnapshot {
    Missing,
    /// It exists. Servers since ZooKeeper 3.10 show its metadata only to those who may read it.
    Hidden,
    Present(Stat),
}

impl NodeSnapshot {
    /// Turns the answer of `exists` into what it tells.
    pub(crate) fn of(answer: Result<Option<Stat>, Error>) -> Result<Self, Error> {
        match answer {
            Ok(Some(stat)) => Ok(Self::Present(stat)),
            Ok(None) => Ok(Self::Missing),
            Err(error) if error.kind() == ErrorKind::NoAuth => Ok(Self::Hidden),
            Err(error) => Err(error),
        }
    }
}

/// Returns the kind of a node. Servers do not tell containers and nodes with a time to live from
/// others.
pub(crate) const fn kind(stat: &Stat) -> &'static str {
    if stat.is_ephemeral() { "ephemeral" } else { "persistent" }
}

/// Returns the session that owns an ephemeral node.
pub(crate) fn session(stat: &Stat) -> Option<SessionId> {
    stat.is_ephemeral().then(|| SessionId::new(stat.ephemeral_owner))
}

/// Returns the session that owns an ephemeral node, as text.
pub(crate) fn owner(stat: &Stat) -> Option<String> {
    session(stat).map(|session| session.to_string())
}

/// Returns a transaction or session in hexadecimal: in JSON a string, because numbers there are
/// exact only up to 2^53.
pub(crate) fn hex(id: i64) -> String {
    format!("{:#x}", id.cast_unsigned())
}

/// Compares paths name by name, so that a node comes before the nodes below it: sequential names by
/// their numbers, all others by name.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let keys = |path: &str| -> Vec<(Option<i64>, String)> {
        path.split('/').map(|name| (sequence(name), name.to_owned())).collect()
    };
    keys(a).cmp(&keys(b))
}

/// Returns the sequence number at the end of a name.
pub(crate) fn sequence(name: &str) -> Option<i64> {
    const DIGITS: usize = 10;
    let start = name.len().checked_sub(DIGITS)?;
    let digits = name.get(start..).filter(|end| end.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

/// Returns the metadata for programs.
pub(crate) fn stat_value(path: &str, stat: &Stat) -> Value {
    json!({
        "path": path,
        "kind": kind(stat),
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "czxid": hex(stat.czxid),
        "mzxid": hex(stat.mzxid),
        "pzxid": hex(stat.pzxid),
        "ctime": time::rfc3339(stat.ctime),
        "mtime": time::rfc3339(stat.mtime),
        "owner": owner(stat),
        "size": stat.data_length,
        "children": stat.num_children,
    })
}

/// Returns the metadata for people.
pub(crate) fn stat_text(path: &str, stat: &Stat) -> String {
    let when = |ms| time::rfc3339(ms).unwrap_or_else(|| ms.to_string());
    let lines = [
        ("path", printable(path)),
        ("kind", kind(stat).to_owned()),
        ("owner", owner(stat).unwrap_or_else(|| "–".to_owned())),
        ("created", format!("{}  in {}", when(stat.ctime), hex(stat.czxid))),
        ("modified", format!("{}  in {}", when(stat.mtime), hex(stat.mzxid))),
        ("version", stat.version.to_string()),
        ("acl version", stat.aversion.to_string()),
        ("size", stat.data_length.to_string()),
        ("children", format!("{}  last change in {}", stat.num_children, hex(stat.pzxid))),
        ("child changes", stat.cversion.to_string()),
    ];
    lines.iter().map(|(name, value)| format!("{name:<14}{value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_names_are_ordered_by_number() {
        let mut paths = ["/l/_c_9-lock-0000000001", "/l/_c_1-lock-0000000002", "/l/a"];
        paths.sort_by(|a, b| compare(a, b));
        assert_eq!(paths, ["/l/a", "/l/_c_9-lock-0000000001", "/l/_c_1-lock-0000000002"]);
    }

    #[test]
    fn a_sequence_has_ten_digits() {
        assert_eq!(sequence("q-0000000012"), Some(12));
        assert_eq!(sequence("0000000012"), Some(12));
        for name in ["q-12", "é000000001", "q-00000000x2", ""] {
            assert_eq!(sequence(name), None, "{name}");
        }
    }
}
