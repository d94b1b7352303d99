//! The kind, the owner and the order of nodes, by their stats and names.
//!
//! ```
//! use zk_curator_ops::node;
//!
//! assert_eq!(node::sequence("lock-0000000012"), Some(12));
//! assert_eq!(node::hex(47), "0x2f");
//! assert_eq!(node::parse_id("0x2f"), Ok(47));
//! ```

use std::cmp::Ordering;
use std::num::ParseIntError;

use zk_curator::{Error, ErrorKind, SessionId, Stat};

/// The response to a check of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no fourth answer")]
pub enum NodeSnapshot {
    /// It does not exist.
    Missing,
    /// It exists. Servers since ZooKeeper 3.10 show its metadata only to clients that may read it.
    Hidden,
    /// It exists, with this metadata.
    Present(Stat),
}

impl NodeSnapshot {
    /// Interprets the response to `exists`.
    ///
    /// # Errors
    /// The error of the request, except `NoAuth`.
    pub fn of(answer: Result<Option<Stat>, Error>) -> Result<Self, Error> {
        match answer {
            Ok(Some(stat)) => Ok(Self::Present(stat)),
            Ok(None) => Ok(Self::Missing),
            Err(error) if error.kind() == ErrorKind::NoAuth => Ok(Self::Hidden),
            Err(error) => Err(error),
        }
    }
}

/// Returns `ephemeral` or `persistent`. Servers do not tell containers and nodes with a time to
/// live from others.
#[must_use]
pub const fn kind(stat: &Stat) -> &'static str {
    if stat.is_ephemeral() { "ephemeral" } else { "persistent" }
}

/// Returns the session that owns an ephemeral node.
#[must_use]
pub fn session(stat: &Stat) -> Option<SessionId> {
    stat.is_ephemeral().then(|| SessionId::new(stat.ephemeral_owner))
}

/// Returns the session that owns an ephemeral node, as text.
#[must_use]
pub fn owner(stat: &Stat) -> Option<String> {
    session(stat).map(|session| session.to_string())
}

/// Returns a transaction or session in hexadecimal: in JSON a string, because numbers there are
/// exact only up to 2^53.
#[must_use]
pub fn hex(id: i64) -> String {
    format!("{:#x}", id.cast_unsigned())
}

/// Parses a fencing token, a transaction or a session: hexadecimal with `0x`, or decimal.
///
/// # Errors
/// The text is neither, or has more than 64 bits.
pub fn parse_id(text: &str) -> Result<i64, ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map(u64::cast_signed),
        None => text.parse(),
    }
}

/// Compares paths name by name, so that a node comes before the nodes below it: sequential names by
/// their numbers, all others by name.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    let keys = |path: &str| -> Vec<(Option<i64>, String)> {
        path.split('/').map(|name| (sequence(name), name.to_owned())).collect()
    };
    keys(a).cmp(&keys(b))
}

/// Returns the number of the next sequential child. The version of the children counts creates and
/// deletes, so it is twice the number of creates without the children that exist. It is negative
/// after 2^30 creates, and for new nodes of the servers.
#[must_use]
pub(crate) fn next_sequence(stat: &Stat) -> i64 {
    i64::from(stat.cversion.wrapping_add(stat.num_children).cast_unsigned() / 2)
}

/// Returns the sequence number at the end of a name.
#[must_use]
pub fn sequence(name: &str) -> Option<i64> {
    const DIGITS: usize = 10;
    let start = name.len().checked_sub(DIGITS)?;
    let digits = name.get(start..).filter(|end| end.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
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

    #[test]
    fn the_next_number_is_half_the_version_of_the_children() {
        for (cversion, num_children, next) in [
            (0, 0, 0),
            (-1, 1, 0),
            (6, 2, 4),
            (i32::MAX, 1, 1 << 30),
            (i32::MIN + 2, 0, (1 << 30) + 1),
            (-2, 0, i64::from(i32::MAX)),
        ] {
            let stat = Stat { cversion, num_children, ..Stat::default() };
            assert_eq!(next_sequence(&stat), next, "{cversion} with {num_children} children");
        }
    }

    #[test]
    fn ids_are_decimal_or_hexadecimal() {
        assert_eq!(parse_id("0x2f"), Ok(47));
        assert_eq!(parse_id("47"), Ok(47));
        assert_eq!(parse_id("0xffffffffffffffff"), Ok(-1));
        assert!(parse_id("2f").is_err());
    }
}
