//! Nodes as commands show them.

use serde_json::{Value, json};
use zk_curator::{SessionId, Stat};
pub(crate) use zk_curator_ops::node::{NodeSnapshot, compare, hex, kind, owner, parse_id};

use crate::output::{printable, time};

/// Parses a session: in hexadecimal, as everything prints it, with or without `0x`.
pub(crate) fn parse_session(text: &str) -> Result<SessionId, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let id =
        u64::from_str_radix(digits, 16).map_err(|_| "not a session: 0x and hexadecimal digits")?;
    Ok(SessionId::new(id.cast_signed()))
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
    fn sessions_are_hexadecimal() {
        assert_eq!(parse_session("0x1f"), Ok(SessionId::new(31)));
        assert_eq!(parse_session("15"), Ok(SessionId::new(21)));
        assert_eq!(parse_session("ffffffffffffffff"), Ok(SessionId::new(-1)));
        assert!(parse_session("0xzz").is_err() && parse_session("").is_err());
    }
}
