use std::collections::VecDeque;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use zk_curator::internal::{Locked, LockedGuard, Signal, sleep};
use zk_curator::{CuratorFramework, Error as ZkError};

use super::error::Error;
use super::handle::DistributedAtomicLong;

/// The first and the longest pause after a reservation whose outcome is unknown.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Unique numbers, reserved in blocks (`CachedAtomicLong`). Cheap to clone; clones share their
/// blocks.
///
/// One write reserves a block, or as many numbers as are waited for if those are more; the next
/// block is reserved in the background when half of one is used. Numbers of a block that are not
/// used when the process ends are lost: there are gaps, but no number twice. A block whose
/// reservation has an [unknown](Error::Unknown) outcome is a gap of this kind, and the next one is
/// reserved after a pause of 10 ms, which doubles up to a second.
///
/// A number is what [`increment`](super::Counter::increment) would return: blocks and increments
/// can share a counter.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::counter::{DistributedAtomicLong, IdBlocks};
///
/// let ids = IdBlocks::new(&DistributedAtomicLong::new(&zk, "/ids/orders"), 1_000);
/// assert_eq!((ids.next().await?, ids.next().await?), (1, 2));
/// assert_eq!(ids.try_next(), Some(3));
/// assert_eq!(ids.take(2).await?, [4, 5]);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "CachedAtomicLong")]
#[derive(Clone)]
pub struct IdBlocks {
    zk: CuratorFramework,
    counter: DistributedAtomicLong,
    block: u64,
    shared: Arc<BlocksShared>,
}

#[derive(Debug, Default)]
struct BlocksShared {
    state: Locked<BlockState>,
    /// The number of reservations that have come to an end.
    ended: Signal<u64>,
}

impl BlocksShared {
    fn state(&self) -> LockedGuard<'_, BlockState> {
        self.state.lock()
    }
}

#[derive(Debug, Default)]
struct BlockState {
    /// The numbers at hand. Those of the first block are returned first.
    blocks: VecDeque<RangeInclusive<i64>>,
    /// The numbers that are waited for.
    wanted: u64,
    is_reserving: bool,
    /// Why the last reservation has failed, if it has.
    failed: Option<Error>,
}

impl BlockState {
    fn at_hand(&self) -> u64 {
        self.blocks.iter().map(|ids| ids.end().abs_diff(*ids.start()).saturating_add(1)).sum()
    }

    fn next(&mut self) -> Option<i64> {
        let ids = self.blocks.front_mut()?;
        let id = ids.next();
        if ids.is_empty() {
            self.blocks.pop_front();
        }
        id
    }

    /// Takes this many numbers, if they are at hand.
    fn take(&mut self, count: u64) -> Option<Vec<i64>> {
        if self.at_hand() < count {
            return None;
        }
        (0..count).map(|_| self.next()).collect()
    }

    /// Begins a reservation if few numbers are left. Returns the number of numbers to reserve.
    fn reserve(&mut self, block: u64) -> Option<u64> {
        let (at_hand, wanted) = (self.at_hand(), self.wanted);
        let is_low = at_hand < wanted.saturating_add((block / 2).max(1));
        if self.is_reserving || !is_low {
            return None;
        }
        self.is_reserving = true;
        Some(block.max(wanted.saturating_sub(at_hand)))
    }
}

impl IdBlocks {
    /// Numbers of a counter, in blocks of this size, from 1: zero counts as 1. Nothing is sent
    /// until the first number is asked for.
    #[must_use]
    pub fn new(counter: &DistributedAtomicLong, block: u32) -> Self {
        let (zk, block) = (counter.framework().clone(), u64::from(block.max(1)));
        Self { zk, counter: counter.clone(), block, shared: Arc::default() }
    }

    /// The next number, if one is at hand. Otherwise, and when few are left, a block is reserved in
    /// the background. It may be called from a thread without a runtime; the framework must have
    /// been started then, or nothing is reserved.
    #[must_use = "the number is lost otherwise"]
    pub fn try_next(&self) -> Option<i64> {
        let id = self.shared.state().next();
        self.reserve_if_low();
        id
    }

    /// The next number; waits for a block if none is at hand.
    ///
    /// # Errors
    /// As [`add`](super::Counter::add), except [`Error::Unknown`]: every caller that waits for a
    /// reservation gets its error. The next call tries again.
    ///
    /// # Cancel safety
    /// No number is lost: a number that is not returned is taken by the next call.
    pub async fn next(&self) -> Result<i64, Error> {
        if let Some(id) = self.try_next() {
            return Ok(id);
        }
        let taken = self.take(1).await?;
        // One was asked for.
        taken.first().copied().ok_or_else(|| self.closed())
    }

    /// The next `count` numbers, in ascending order; waits for blocks if fewer are at hand. They
    /// need not be consecutive: other callers may get numbers in between. Zero returns none, and
    /// sends nothing.
    ///
    /// # Errors
    /// As [`next`](Self::next); no number is taken then. [`Error::Overflow`] if the counter has no
    /// room for `count` numbers.
    ///
    /// # Cancel safety
    /// No number is lost: numbers that are not returned are taken by the next calls.
    pub async fn take(&self, count: u32) -> Result<Vec<i64>, Error> {
        let count = u64::from(count);
        if count == 0 {
            return Ok(Vec::new());
        }
        let wanted = WantedBlock::new(&self.shared, count);
        loop {
            let seen = self.shared.ended.look(|ended| *ended);
            if let Some(ids) = wanted.take() {
                drop(wanted);
                self.reserve_if_low();
                return Ok(ids);
            }
            self.reserve_if_low();
            self.shared.ended.until(|ended| *ended != seen).await;
            let state = self.shared.state();
            if let Some(error) = state.failed.clone().filter(|_| state.at_hand() < count) {
                return Err(error);
            }
        }
    }

    /// Reserves numbers in the background if few are at hand.
    fn reserve_if_low(&self) {
        if !self.zk.can_spawn() {
            return;
        }
        let Some(count) = self.shared.state().reserve(self.block) else { return };
        let (shared, counter) = (Arc::clone(&self.shared), self.counter.clone());
        let path = self.counter.path().to_owned();
        let reserve = async move {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let mut pause = FIRST_PAUSE;
            let reserved = loop {
                match counter.add(count).await {
                    // A gap.
                    Err(Error::Unknown { .. }) => {
                        sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                    reserved => break reserved,
                }
            };
            reserved.map(|change| change.pre.saturating_add(1)..=change.post)
        };
        self.zk.spawn_then(reserve, move |end| {
            let reserved = end.unwrap_or_else(|why| Err(why.of_operation("ids", path).into()));
            shared.reserved(reserved);
        });
    }

    fn closed(&self) -> Error {
        ZkError::closed("ids", self.counter.path()).into()
    }
}

/// The numbers that a caller waits for, until it has them or gives up.
struct WantedBlock<'a> {
    shared: &'a BlocksShared,
    count: u64,
}

impl<'a> WantedBlock<'a> {
    fn new(shared: &'a BlocksShared, count: u64) -> Self {
        let mut state = shared.state();
        state.wanted = state.wanted.saturating_add(count);
        Self { shared, count }
    }

    fn take(&self) -> Option<Vec<i64>> {
        self.shared.state().take(self.count)
    }
}

impl Drop for WantedBlock<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.wanted = state.wanted.saturating_sub(self.count);
    }
}

impl BlocksShared {
    /// A reservation has ended.
    fn reserved(&self, result: Result<RangeInclusive<i64>, Error>) {
        let mut state = self.state();
        state.is_reserving = false;
        state.failed = match result {
            Ok(ids) => {
                state.blocks.push_back(ids);
                None
            }
            Err(error) => Some(error),
        };
        drop(state);
        self.ended.modify(|ended| *ended += 1);
    }
}

impl fmt::Debug for IdBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdBlocks")
            .field("counter", &self.counter)
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}
