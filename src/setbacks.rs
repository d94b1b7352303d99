use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::framework::CuratorFramework;

/// The pause after the first failure. It doubles with each one.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(30);

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
    /// since a success.
    pub fn report(&mut self, zk: &CuratorFramework, error: &Error) {
        if self.note(error) {
            zk.report_background_error(error.clone());
        }
    }

    /// Returns `true` if the reason is new.
    fn note(&mut self, error: &Error) -> bool {
        self.count = self.count.saturating_add(1);
        let is_new = !self.reasons.contains(&error.kind());
        if is_new {
            self.reasons.push(error.kind());
        }
        is_new
    }

    /// Returns the pause before the next attempt: a random time between half and all of 500 ms,
    /// doubled with each failure up to 30 s.
    #[must_use]
    pub fn pause(&self, zk: &CuratorFramework) -> Duration {
        let doubled = self.count.saturating_sub(1).min(16);
        let half = FIRST.saturating_mul(1 << doubled).min(LONGEST) / 2;
        half + zk.jitter(half)
    }

    /// Notes a success.
    pub fn over(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_new_once_and_pauses_grow_until_a_success() {
        let zk = CuratorFramework::builder().connect_string("127.0.0.1:1").build().unwrap();
        let error = |kind| Error::new(kind, "create", "/a");
        let mut setbacks = Setbacks::default();
        for round in 0..2 {
            assert!(setbacks.note(&error(ErrorKind::NoAuth)), "{round}");
            for count in 0..100_u32 {
                let longest = FIRST.saturating_mul(1 << count.min(16)).min(LONGEST);
                let pause = setbacks.pause(&zk);
                assert!((longest / 2..=longest).contains(&pause), "{count}: {pause:?}");
                assert!(!setbacks.note(&error(ErrorKind::NoAuth)));
            }
            assert!(setbacks.note(&error(ErrorKind::TooLarge)));
            assert!(!setbacks.note(&error(ErrorKind::NoAuth)));
            setbacks.over();
        }
    }
}
