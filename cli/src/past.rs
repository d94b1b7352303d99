//! Past times on the command line.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// A time in UTC, or the time since then.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TimeOrAge {
    Time(SystemTime),
    Age(Duration),
}

impl FromStr for TimeOrAge {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(age) = humantime::parse_duration(text) {
            return Ok(Self::Age(age));
        }
        humantime::parse_rfc3339_weak(text).map(Self::Time).map_err(|_| {
            "write a time in UTC, such as 2026-11-30T14:02:00Z, or the time since then, such as 10m"
        })
    }
}
