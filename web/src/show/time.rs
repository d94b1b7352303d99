//! Times relative to now, with the absolute time.

use std::time::Duration;

pub(crate) use zk_curator_ops::text::now_ms;
use zk_curator_ops::text::rfc3339;

/// A time of a node, by the clock of the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct When {
    /// The time relative to now, such as `3 min ago`.
    pub(crate) ago: String,
    /// The time in UTC, such as `2026-11-30 14:17:17 UTC`.
    pub(crate) absolute: String,
    /// The time in RFC 3339; empty if it has no such form.
    pub(crate) rfc3339: String,
}

/// Returns the texts for a time in milliseconds since 1970. `now` is by the clock of this host.
pub(crate) fn when(ms: i64, now: i64) -> When {
    let rfc3339 = rfc3339(ms).unwrap_or_default();
    if ms == 0 || rfc3339.is_empty() {
        // The nodes that every server has were created at the time 0.
        let absolute = if ms == 0 { "not recorded".to_owned() } else { format!("{ms} ms") };
        return When { ago: absolute.clone(), absolute, rfc3339: String::new() };
    }
    let absolute = format!("{} UTC", rfc3339.replace('T', " ").trim_end_matches('Z'));
    When { ago: ago(now.saturating_sub(ms)), absolute, rfc3339 }
}

fn ago(ms: i64) -> String {
    let past = Duration::from_millis(ms.unsigned_abs());
    if past < Duration::from_secs(1) {
        "now".to_owned()
    } else if ms < 0 {
        // The clocks of the leader and of this host differ.
        format!("in {}", duration(past))
    } else {
        format!("{} ago", duration(past))
    }
}

/// Returns a duration in its largest unit: `12 s`, `3 min`, `5 h`, `40 d`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns a duration in milliseconds, for programs.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_and_absolute() {
        let now = 1_764_512_237_000;
        for (before, ago) in [
            (0, "now"),
            (59_000, "59 s ago"),
            (180_000, "3 min ago"),
            (7_200_000, "2 h ago"),
            (40 * 86_400_000, "40 d ago"),
            (-5_000, "in 5 s"),
        ] {
            assert_eq!(when(now - before, now).ago, ago);
        }
        let shown = when(now, now);
        assert_eq!(shown.absolute, "2025-11-30 14:17:17 UTC");
        assert_eq!(shown.rfc3339, "2025-11-30T14:17:17Z");
    }

    #[test]
    fn odd_times_have_no_date() {
        assert_eq!(when(0, 5).ago, "not recorded");
        assert_eq!(when(-1, 5).absolute, "-1 ms");
        assert_eq!(when(i64::MAX, 5).rfc3339, "");
    }
}
