//! The growth of queues and lines, from the reads of pages.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::internal::Locked;

/// The maximum number of recipes whose sizes are remembered.
const MOST: usize = 10_000;
/// The maximum length of a path that is remembered, in bytes.
const LONGEST_PATH: usize = 512;
/// The time over which growth is averaged.
const WINDOW: Duration = Duration::from_secs(120);
/// The shortest time between two remembered sizes.
const GAP: Duration = Duration::from_secs(15);
/// The shortest time for which growth is computed.
const SHORTEST: Duration = Duration::from_secs(1);
/// The time after which a size is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(3_600);

/// The sizes of recipes over time.
#[derive(Debug, Default)]
pub(crate) struct Growth(Locked<BTreeMap<String, Sizes>>);

/// The sizes of a recipe, the oldest first.
type Sizes = VecDeque<(Instant, usize)>;

impl Growth {
    /// Notes the sizes of recipes at this moment. Returns the growth of each per minute, in their
    /// order; `None` if it is unknown, as with the first size.
    pub(crate) fn note<'a>(
        &self,
        sizes: impl Iterator<Item = (&'a str, usize)>,
    ) -> Vec<Option<f64>> {
        let now = Instant::now();
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.retain(|_, sizes| {
                sizes.back().is_some_and(|(at, _)| now.duration_since(*at) < FORGOTTEN)
            });
        }
        let mut growth = Vec::new();
        for (path, size) in sizes {
            if let Some(sizes) = known.get_mut(path) {
                growth.push(add(sizes, now, size));
                continue;
            }
            if known.len() < MOST && path.len() <= LONGEST_PATH {
                known.insert(path.to_owned(), [(now, size)].into());
            }
            growth.push(None);
        }
        growth
    }
}

/// Adds a size, and returns the growth per minute since the first size of the window.
fn add(sizes: &mut Sizes, now: Instant, size: usize) -> Option<f64> {
    // The last size before the window is its begin.
    while sizes.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
        sizes.pop_front();
    }
    if sizes.front().is_some_and(|(at, _)| now.duration_since(*at) >= FORGOTTEN) {
        sizes.pop_front();
    }
    let growth = sizes.front().and_then(|(at, before)| per_minute(*before, size, now - *at));
    if sizes.back().is_none_or(|(at, _)| now.duration_since(*at) >= GAP) {
        sizes.push_back((now, size));
    }
    growth
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn per_minute(before: usize, after: usize, passed: Duration) -> Option<f64> {
    (passed >= SHORTEST).then(|| (after as f64 - before as f64) * 60.0 / passed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use zk_curator_testing::{paused, wait};

    use super::*;

    #[test]
    fn growth_needs_two_sizes() {
        paused(async {
            let growth = Growth::default();
            let note = |size| growth.note([("/a", size)].into_iter())[0];
            assert_eq!(note(10), None);
            assert_eq!(note(10), None, "at the same time");
            wait::past(Duration::from_secs(30)).await;
            let rate = note(15).unwrap();
            assert!((9.0..=10.0).contains(&rate), "{rate}");
            wait::past(Duration::from_secs(30)).await;
            let rate = note(5).unwrap();
            assert!((-5.0..=-4.5).contains(&rate), "{rate}");
        });
    }

    #[test]
    fn the_window_moves() {
        paused(async {
            let growth = Growth::default();
            let note = |size| growth.note([("/a", size)].into_iter())[0];
            for size in (0..20).map(|n| n * 10) {
                note(size);
                wait::past(Duration::from_secs(20)).await;
            }
            assert!(growth.0.lock()["/a"].len() <= 10);
            for _ in 0..20 {
                note(190);
                wait::past(Duration::from_secs(20)).await;
            }
            assert_eq!(note(190), Some(0.0));
        });
    }

    #[test]
    fn the_memory_is_bounded() {
        paused(async {
            let growth = Growth::default();
            let paths: Vec<_> = (0..2 * MOST).map(|n| format!("/{n}")).collect();
            growth.note(paths.iter().map(|path| (path.as_str(), 1)));
            assert_eq!(growth.0.lock().len(), MOST);
            growth.note([(&*"x".repeat(LONGEST_PATH + 1), 1)].into_iter());
            assert_eq!(growth.0.lock().len(), MOST);
        });
    }
}
