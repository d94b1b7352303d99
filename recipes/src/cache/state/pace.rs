//! Limits the number of bytes that are requested at a time. Pure.
//!
//! The size of a node is unknown before it is read. The nodes of one parent are read in random
//! order, so the nodes that were read are a sample of the others. The size of an unread node is
//! estimated from above: the mean of the sample, twice the error of that mean, and the chance that
//! the sample has missed large nodes (one in `n + 1` after `n` nodes) times the largest size that
//! servers accept. The sum of the estimates of all reads in flight is bounded.

use std::collections::BTreeMap;

/// The largest data of a node that servers accept by default (`jute.maxbuffer`), in bytes.
const LARGEST: f64 = 1024.0 * 1024.0;
/// The maximum number of unread nodes of one parent in flight, per node of the parent that was
/// read, plus one.
const AHEAD: usize = 8;

/// The sizes of the nodes of a group that were read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sizes {
    count: u32,
    sum: f64,
    squares: f64,
}

impl Sizes {
    pub(crate) fn add(&mut self, size: usize) {
        let size = as_float(size);
        self.count = self.count.saturating_add(1);
        self.sum += size;
        self.squares += size * size;
    }

    /// Returns the mean, and twice its error; 0 if none was read.
    fn mean(&self) -> (f64, f64) {
        if self.count == 0 {
            return (0.0, 0.0);
        }
        let count = f64::from(self.count);
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        (mean, 2.0 * (variance / count).sqrt())
    }
}

/// The nodes at one depth.
#[derive(Debug, Clone, Copy, Default)]
struct PaceLevel {
    sizes: Sizes,
    /// The number of parents some of whose children were read.
    groups: u32,
}

/// A node that was unknown when it was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unread {
    /// The path of its parent; empty for the root.
    pub(crate) parent: Box<str>,
    pub(crate) depth: usize,
}

/// The reads under way, and the known sizes at each depth.
#[derive(Debug)]
pub(crate) struct ReadPace {
    /// The maximum number of bytes in flight.
    most: usize,
    bytes: usize,
    /// Each with its bytes, and with its node if that was unknown.
    flights: BTreeMap<u64, (usize, Option<Unread>)>,
    /// The number of unread nodes under way, by their parents.
    groups: BTreeMap<Box<str>, usize>,
    levels: Vec<PaceLevel>,
}

impl ReadPace {
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            most,
            bytes: 0,
            flights: BTreeMap::new(),
            groups: BTreeMap::new(),
            levels: Vec::new(),
        }
    }

    /// Returns the estimated size of an unread node: the expected and the worst-case one.
    pub(crate) fn estimate(&self, of_group: &Sizes, depth: usize) -> (usize, usize) {
        let level = self.levels.get(depth).copied().unwrap_or_default();
        let others = level.groups.saturating_sub(u32::from(of_group.count > 0));
        let (likely, error) = if of_group.count > 0 { of_group } else { &level.sizes }.mean();
        // Nodes of an unread group, or of a kind that is rare in all groups.
        let in_group = 1.0 / ((f64::from(others) + 1.0) * (f64::from(of_group.count) + 1.0));
        let in_level = 1.0 / (f64::from(level.sizes.count) + 1.0);
        (as_size(likely), as_size(likely + error + LARGEST * in_group.max(in_level)))
    }

    /// Returns `true` if `bytes` more bytes may be requested; a single read always may.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.flights.is_empty() || self.bytes.saturating_add(bytes) <= self.most
    }

    /// Returns `true` if another unread node of a parent may be requested.
    pub(crate) fn has_room_in(&self, parent: &str, of_group: &Sizes) -> bool {
        let read = usize::try_from(of_group.count).unwrap_or(usize::MAX);
        let under_way = self.groups.get(parent).copied().unwrap_or(0);
        under_way < read.saturating_add(1).saturating_mul(AHEAD)
    }

    /// A read is sent.
    pub(crate) fn sent(&mut self, id: u64, bytes: usize, unread: Option<Unread>) {
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some(unread) = &unread {
            *self.groups.entry(unread.parent.clone()).or_default() += 1;
        }
        self.flights.insert(id, (bytes, unread));
    }

    /// Ends a read. Returns the node if it was unknown before.
    pub(crate) fn landed(&mut self, id: u64) -> Option<Unread> {
        let (bytes, unread) = self.flights.remove(&id)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        let unread = unread?;
        if let Some(count) = self.groups.get_mut(&unread.parent) {
            *count -= 1;
            if *count == 0 {
                self.groups.remove(&unread.parent);
            }
        }
        Some(unread)
    }

    /// Nothing is under way.
    pub(crate) fn forget_sent(&mut self) {
        self.bytes = 0;
        self.flights.clear();
        self.groups.clear();
    }

    /// An unread node was read.
    pub(crate) fn read(&mut self, depth: usize, size: usize, of_group: Option<&mut Sizes>) {
        if self.levels.len() <= depth {
            self.levels.resize(depth + 1, PaceLevel::default());
        }
        let Some(level) = self.levels.get_mut(depth) else { return };
        level.sizes.add(size);
        if let Some(of_group) = of_group {
            level.groups = level.groups.saturating_add(u32::from(of_group.count == 0));
            of_group.add(size);
        }
    }
}

/// The order in which unread nodes are read: random, and the same in every run.
pub(crate) fn rank(name: &str) -> u64 {
    // FNV-1a, and a final mix: names often differ in their last characters only.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
const fn as_float(size: usize) -> f64 {
    size as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, which is not negative"
)]
const fn as_size(size: f64) -> usize {
    size as usize
}
