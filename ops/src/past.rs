//! Past times as people write them.
//!
//! ```
//! use zk_curator_ops::past::TimeOrAge;
//!
//! let time: TimeOrAge = "1970-01-01T00:00:02Z".parse()?;
//! assert_eq!(time.ms_since_1970(), Ok(2_000));
//! assert!("10m".parse::<TimeOrAge>().is_ok() && "14:02".parse::<TimeOrAge>().is_err());
//! # Ok::<(), zk_curator_ops::past::PastError>(())
//! ```

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::text::now_ms;

/// A time in UTC, or the time since then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "people write a past time in one of two ways")]
pub enum TimeOrAge {
    /// A time, such as `2026-11-30T14:02:00Z`.
    Time(SystemTime),
    /// The time since then, such as `10m`.
    Age(Duration),
}

/// The reason why a text is not a past time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PastError {
    /// It is neither a time nor a duration.
    #[error(
        "write a time in UTC, such as 2026-11-30T14:02:00Z, or the time since then, such as 10m"
    )]
    Form,
    /// It is before 1970, or too far away.
    #[error("the time is before 1970, or too far away")]
    Range,
}

impl TimeOrAge {
    /// Returns the time in milliseconds since 1970. An age is subtracted from the present time.
    ///
    /// # Errors
    /// [`PastError::Range`].
    pub fn ms_since_1970(self) -> Result<i64, PastError> {
        match self {
            Self::Age(age) => {
                let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                Ok(now_ms().saturating_sub(age))
            }
            Self::Time(time) => {
                let since = time.duration_since(UNIX_EPOCH).map_err(|_| PastError::Range)?;
                i64::try_from(since.as_millis()).map_err(|_| PastError::Range)
            }
        }
    }
}

impl FromStr for TimeOrAge {
    type Err = PastError;

    fn from_str(text: &str) -> Result<Self, PastError> {
        if let Ok(age) = humantime::parse_duration(text) {
            return Ok(Self::Age(age));
        }
        humantime::parse_rfc3339_weak(text).map(Self::Time).map_err(|_| PastError::Form)
    }
}
