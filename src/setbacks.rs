use std::time::Duration;

use crate::core::Setbacks;
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;

impl Setbacks {
    /// Notes a failure, and reports it in the background if it is the first one for this reason
    /// since a success: `true` then.
    pub fn report(&mut self, zk: &CuratorFramework, error: &Error) -> bool {
        self.report_of(zk.core(), error)
    }

    /// Notes the end of a cleanup that a later one repeats. A failure counts unless it is transient,
    /// or the framework is closed.
    pub fn cleaned<T>(&mut self, zk: &CuratorFramework, result: &Result<T>) {
        match result {
            Ok(_) => self.over(),
            Err(error) if error.is_transient() || error.kind() == ErrorKind::Closed => {}
            Err(error) => {
                self.report(zk, error);
            }
        }
    }

    /// Returns the pause before the next attempt: a random time between half and all of 500 ms,
    /// doubled with each failure up to 30 s. Zero without a failure.
    #[must_use]
    pub fn pause(&self, zk: &CuratorFramework) -> Duration {
        self.pause_of(zk.core())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{FIRST_SETBACK, LONGEST_SETBACK};

    #[test]
    fn reasons_are_new_once_and_pauses_grow_until_a_success() {
        let zk = CuratorFramework::builder().connect_string("127.0.0.1:1").build().unwrap();
        let error = |kind| Error::new(kind, "create", "/a");
        let mut setbacks = Setbacks::default();
        for round in 0..2 {
            assert_eq!(setbacks.pause(&zk), Duration::ZERO);
            assert!(setbacks.note(&error(ErrorKind::NoAuth)), "{round}");
            for count in 0..100_u32 {
                let longest = FIRST_SETBACK.saturating_mul(1 << count.min(16)).min(LONGEST_SETBACK);
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
