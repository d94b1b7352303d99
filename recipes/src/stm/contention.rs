//! The conflicts of a transaction, and the pauses after them.

use std::collections::BTreeMap;
use std::time::Duration;

/// The pauses after a conflict.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause grows fourfold after this number of conflicts.
const MET_BY_FEW: u32 = 10;

/// The conflicts of a transaction. Pure.
#[derive(Debug)]
pub(super) struct Contention {
    met: u32,
    paths: BTreeMap<String, u32>,
    pause: Duration,
}

impl Contention {
    pub(super) const fn new() -> Self {
        Self { met: 0, paths: BTreeMap::new(), pause: FIRST_PAUSE }
    }

    /// Records a conflict. Returns the number of conflicts.
    pub(super) fn note(&mut self, path: String) -> u32 {
        *self.paths.entry(path).or_default() += 1;
        self.met = self.met.saturating_add(1);
        self.met
    }

    /// Returns the path with the most conflicts.
    pub(super) fn hottest(&self) -> Option<&str> {
        let hottest = self.paths.iter().max_by_key(|(_, met)| **met);
        hottest.map(|(path, _)| path.as_str())
    }

    /// Returns the pause before the next attempt: decorrelated jitter between the duration of a
    /// commit and three times the previous pause. `fraction` is a random number from 0 to 1.
    pub(super) fn pause(&mut self, flight: Duration, fraction: f64) -> Duration {
        let longest = if self.met < MET_BY_FEW { LONGEST_PAUSE } else { LONGEST_PAUSE * 4 };
        let least = FIRST_PAUSE.max(flight.min(LONGEST_PAUSE));
        let most = (self.pause.max(least) * 3).min(longest);
        self.pause = least + most.saturating_sub(least).mul_f64(fraction);
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let mut few = Contention::new();
        let pauses: Vec<_> = (0..6).map(|_| few.pause(Duration::ZERO, 1.0)).collect();
        assert!(pauses.is_sorted());
        assert_eq!((pauses[0], pauses[5]), (FIRST_PAUSE * 3, LONGEST_PAUSE));
        let mut many = Contention::new();
        for _ in 0..20 {
            many.note("/a".to_owned());
        }
        let pauses: Vec<_> = (0..8).map(|_| many.pause(Duration::MAX, 1.0)).collect();
        assert_eq!(pauses[7], LONGEST_PAUSE * 4);
        assert_eq!(Contention::new().pause(Duration::ZERO, 0.0), FIRST_PAUSE);
    }

    #[test]
    fn hottest_path_has_the_most_conflicts() {
        let mut met = Contention::new();
        assert_eq!(met.hottest(), None);
        for path in ["/a", "/b", "/b", "/c"] {
            met.note(path.to_owned());
        }
        assert_eq!(met.hottest(), Some("/b"));
    }
}
