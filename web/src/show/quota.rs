//! Quotas, from the nodes below `/zookeeper/quota`.

use std::collections::BTreeMap;

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
    let (limits, stats) = (numbers(limits), numbers(stats));
    let line = |(of, key, hard)| {
        let text = |numbers: &BTreeMap<String, i64>, key: &str, missing: &str| {
            let number = numbers.get(key).filter(|number| **number >= 0);
            number.map_or_else(|| missing.to_owned(), ToString::to_string)
        };
        QuotaLine {
            of,
            used: text(&stats, key, "unknown"),
            limit: text(&limits, key, "none"),
            hard_limit: text(&limits, hard, "none"),
        }
    };
    [("nodes", "count", "countHardLimit"), ("bytes", "bytes", "byteHardLimit")]
        .into_iter()
        .map(line)
        .collect()
}

/// Parses `count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=7`. Other parts are skipped.
fn numbers(data: &[u8]) -> BTreeMap<String, i64> {
    let text = String::from_utf8_lossy(data);
    let part = |part: &str| {
        let (key, number) = part.split_once('=')?;
        Some((key.trim().to_owned(), number.trim_end_matches('=').trim().parse().ok()?))
    };
    text.split([',', ';']).filter_map(part).collect()
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
