//! Quotas in words.

use zk_curator_ops::quota;

use super::count::grouped;

/// A limit of a subtree, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuotaLine {
    /// `nodes` or `bytes`.
    pub(crate) of: &'static str,
    /// The present number; `unknown` if the server does not say.
    pub(crate) used: String,
    /// The limit above which servers log a warning; `none` without one.
    pub(crate) limit: String,
    /// The limit above which servers with `enforceQuota` refuse writes; `none` without one.
    pub(crate) hard_limit: String,
}

/// Returns the lines of a quota, from the data of `zookeeper_limits` and `zookeeper_stats`.
pub(crate) fn quota_lines(limits: &[u8], stats: &[u8]) -> Vec<QuotaLine> {
    let text =
        |number: Option<i64>, missing: &str| number.map_or_else(|| missing.to_owned(), grouped);
    let shown = |line: quota::QuotaLine| QuotaLine {
        of: line.of,
        used: text(line.used, "unknown"),
        limit: text(line.limit, "none"),
        hard_limit: text(line.hard_limit, "none"),
    };
    quota::lines(limits, stats).into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_use_are_shown() {
        let lines = quota_lines(b"count=5,bytes=-1=;countHardLimit=7", b"count=3,bytes=120");
        assert_eq!((&*lines[0].used, &*lines[0].limit, &*lines[0].hard_limit), ("3", "5", "7"));
        assert_eq!(
            (&*lines[1].used, &*lines[1].limit, &*lines[1].hard_limit),
            ("120", "none", "none")
        );
        assert_eq!(quota_lines(b"\xff=x", b"")[0].used, "unknown");
    }
}
