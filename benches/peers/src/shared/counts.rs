//! Observations of the workloads of locks and queues.

use std::cell::Cell;
use std::time::Instant;

use super::measure::{Outcome, Result, Samples};

/// Counts the holders within the process.
#[derive(Default)]
pub(crate) struct Inside {
    now: Cell<usize>,
    pub(crate) most: Cell<usize>,
    pub(crate) acquired: Cell<usize>,
}

impl Inside {
    pub(crate) fn enter(&self) {
        self.now.set(self.now.get() + 1);
        self.most.set(self.most.get().max(self.now.get()));
        self.acquired.set(self.acquired.get() + 1);
    }

    pub(crate) fn leave(&self) {
        self.now.set(self.now.get() - 1);
    }

    pub(crate) fn any(&self) -> bool {
        self.now.get() > 0
    }

    pub(crate) fn check(&self) -> String {
        format!("max_holders={} acquired={}", self.most.get(), self.acquired.get())
    }
}

/// The locks that the tasks of a process share.
pub(crate) const LOCKS: usize = 1000;

/// The lock of an operation: splitmix64, the same numbers in every client.
pub(crate) fn lock_of(operation: usize) -> usize {
    let mixed = (operation as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    usize::try_from((mixed ^ (mixed >> 31)) % LOCKS as u64).unwrap_or(0)
}

/// Priorities of items in turn.
const PRIORITIES: usize = 10;

pub(crate) fn item(number: usize, length: usize) -> Vec<u8> {
    format!("{number:<length$}").into_bytes()
}

pub(crate) fn number_of(item: &[u8]) -> Result<usize> {
    Ok(std::str::from_utf8(item)?.trim_end().parse()?)
}

pub(crate) fn priority(number: usize) -> i32 {
    i32::try_from(number % PRIORITIES).unwrap_or(0)
}

/// Which items came, in which order.
pub(crate) struct Taken {
    seen: Vec<bool>,
    count: usize,
    distinct: usize,
    last: Option<(i32, usize)>,
    in_order: bool,
    latencies: Samples,
    before: Instant,
}

impl Taken {
    pub(crate) fn of(operations: usize) -> Self {
        Self {
            seen: vec![false; operations],
            count: 0,
            distinct: 0,
            last: None,
            in_order: true,
            latencies: Samples::new(),
            before: Instant::now(),
        }
    }

    /// An item has come; with priorities, those go first.
    pub(crate) fn take(&mut self, item: &[u8], priorities: bool) -> Result<()> {
        let now = Instant::now();
        self.latencies.push(now - self.before);
        self.before = now;
        let number = number_of(item)?;
        let place = (if priorities { priority(number) } else { 0 }, number);
        self.in_order &= self.last < Some(place);
        self.last = Some(place);
        self.count += 1;
        if let Some(seen) = self.seen.get_mut(number) {
            self.distinct += usize::from(!std::mem::replace(seen, true));
        }
        Ok(())
    }

    pub(crate) fn outcome(self) -> Outcome {
        let order = if self.in_order { "ok" } else { "wrong" };
        let check = format!("items={} distinct={} order={order}", self.count, self.distinct);
        Outcome { operations: self.count, latencies: self.latencies, check }
    }
}
