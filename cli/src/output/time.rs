//! Times and sizes for people.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use zk_curator_ops::text::{duration, now_ms, rfc3339, since, size};

use crate::output::Cell;

/// Returns a time in milliseconds since 1970, as ZooKeeper has it: in UTC, to the second, and in
/// RFC 3339 for programs.
pub(crate) fn cell(ms: i64) -> Cell {
    let Some(text) = rfc3339(ms) else { return Cell::from(ms) };
    Cell::new(text.replace('T', " ").trim_end_matches('Z'), text)
}

/// Returns a time, as [`cell`] does.
pub(crate) fn of(time: SystemTime) -> Cell {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    cell(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
