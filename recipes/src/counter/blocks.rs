use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_curator::{CuratorFramework, Signal};

use super::error::Error;
use super::handle::DistributedAtomicLong;

/// Numbers that nobody else gets, reserved in blocks (`CachedAtomicLong`). Cheap to clone; clones share their blocks.
///
/// One write reserves a block; the next block is reserved in the background when half of one is used. Numbers of a block that are
/// not used when the process ends are lost: there are gaps, but no number twice. A block whose reservation has an
/// [unknown](Error::Unknown) outcome is such a gap.
///
/// A number is what [`increment`](super::Counter::increment) would return: blocks and increments can share a counter.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::counter::{DistributedAtomicLong, IdBlocks};
///
/// let ids = IdBlocks::new(&DistributedAtomicLong::at(&zk, "/ids/orders"), 1_000);
/// assert_eq!((ids.next().await?, ids.next().await?), (1, 2));
/// assert_eq!(ids.try_next(), Some(3));
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "CachedAtomicLong")]
#[derive(Clone)]
pub struct IdBlocks {
    zk: CuratorFramework,
    counter: DistributedAtomicLong,
    block: i64,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Counts the reservations that have come to an end.
    reservations: Signal<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The block that numbers are taken from, and the one after that.
    present: Option<RangeInclusive<i64>>,
    next: Option<RangeInclusive<i64>>,
    is_reserving: bool,
    /// Why the last reservation has failed.
    failed: Option<Error>,
}

impl State {
    fn take(&mut self) -> Option<i64> {
        if let Some(id) = self.present.as_mut().and_then(Iterator::next) {
            return Some(id);
        }
        self.present = self.next.take();
        self.present.as_mut().and_then(Iterator::next)
    }

    /// Whether the next block is to be reserved.
    fn is_low(&self, block: i64) -> bool {
        let left = self.present.as_ref().map_or(0, |ids| ids.end().saturating_sub(*ids.start()));
        self.next.is_none() && !self.is_reserving && left < (block / 2).max(1)
    }
}

impl IdBlocks {
    /// Numbers of a counter, in blocks of this size, from 1: zero counts as 1. Nothing is sent until the first number is asked
    /// for.
    #[must_use]
    pub fn new(counter: &DistributedAtomicLong, block: u32) -> Self {
        let block = i64::from(block.max(1));
        Self { zk: counter.framework().clone(), counter: counter.clone(), block, shared: Arc::default() }
    }

    /// The next number, if one is at hand.
    #[must_use = "the number is lost otherwise"]
    pub fn try_next(&self) -> Option<i64> {
        let (id, is_low) = {
            let mut state = self.state();
            let id = state.take();
            let is_low = state.is_low(self.block);
            state.is_reserving |= is_low;
            (id, is_low)
        };
        if is_low {
            self.reserve();
        }
        id
    }

    /// The next number; waits for a block if none is at hand.
    ///
    /// # Errors
    /// As [`add`](super::Counter::add), but for [`Error::Unknown`]: the next call tries again.
    ///
    /// # Cancel safety
    /// No number is lost: one that is not returned is taken by the next call.
    pub async fn next(&self) -> Result<i64, Error> {
        loop {
            let seen = self.shared.reservations.look(|reservations| *reservations);
            if let Some(id) = self.try_next() {
                return Ok(id);
            }
            self.shared.reservations.until(|reservations| *reservations != seen).await;
            if let Some(error) = self.state().failed.take() {
                return Err(error);
            }
        }
    }

    /// Reserves a block in the background.
    fn reserve(&self) {
        let (counter, block, shared) = (self.counter.clone(), self.block, Arc::clone(&self.shared));
        self.zk.spawn(async move {
            let reserved = loop {
                match counter.add(block).await {
                    // A gap.
                    Err(Error::Unknown { .. }) => {}
                    reserved => break reserved,
                }
            };
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_reserving = false;
            match reserved {
                Ok(change) => {
                    state.failed = None;
                    state.next = Some(change.pre.saturating_add(1)..=change.post);
                }
                Err(error) => state.failed = Some(error),
            }
            drop(state);
            shared.reservations.modify(|reservations| *reservations += 1);
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
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
