use std::time::Duration;

use super::shared::Core;
use crate::error::{Error, ErrorKind};

/// The pause after the first failure. It doubles with each one.
pub(crate) const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);

/// The failures of a background task that repair themselves at best when somebody repairs
/// something, such as `NoAuth`. It tries again and again, ever more slowly, and reports each reason
/// once.
#[derive(Debug, Default)]
pub struct Setbacks {
    reasons: Vec<ErrorKind>,
    count: u32,
}

impl Setbacks {
    /// Notes a failure, and reports it in the background if it is the first one for this reason
    /// since a success: `true` then.
    pub(crate) fn report_of(&mut self, core: &Core, error: &Error) -> bool {
        let is_new = self.note(error);
        if is_new {
            core.report_background_error(error.clone());
        }
        is_new
    }

    /// Returns `true` if the reason is new.
    pub(crate) fn note(&mut self, error: &Error) -> bool {
        self.count = self.count.saturating_add(1);
        let is_new = !self.reasons.contains(&error.kind());
        if is_new {
            self.reasons.push(error.kind());
        }
        is_new
    }

    /// Returns the pause before the next attempt: a random time between half and all of 500 ms,
    /// doubled with each failure up to 30 s. Zero without a failure.
    pub(crate) fn pause_of(&self, core: &Core) -> Duration {
        let Some(earlier) = self.count.checked_sub(1) else { return Duration::ZERO };
        let doubled = earlier.min(16);
        let half = FIRST.saturating_mul(1 << doubled).min(LONGEST) / 2;
        half + core.random.time(half)
    }

    /// Notes a success.
    pub fn over(&mut self) {
        *self = Self::default();
    }
}
