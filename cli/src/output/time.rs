//! Times and sizes for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) use zk_curator_ops::text::{
    duration, millis, now_ms, rfc3339, rfc3339_millis as exact, since, size,
};

use crate::output::Cell;

/// Returns a time in milliseconds since 1970, as ZooKeeper has it: in UTC, to the second, and in
/// RFC 3339 for programs.
pub(crate) fn cell(ms: i64) -> Cell {
    let Some(text) = rfc3339(ms) else { return Cell::from(ms) };
    Cell::new(text.replace('T', " ").trim_end_matches('Z'), text)
}

/// Returns a duration: in words, and in milliseconds for programs.
pub(crate) fn span(span: Duration) -> Cell {
    Cell::new(duration(span), millis(span))
}

/// Returns a time, as [`cell`] does.
pub(crate) fn of(time: SystemTime) -> Cell {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    cell(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
