//! The delays and limits of redelivery.

use std::time::Duration;

use zk_curator::CuratorFramework;

use crate::random::fraction;

/// The most deliveries of an item, or attempts at a job, by default.
pub(in crate::queue) const MOST_DELIVERIES: u32 = 20;
/// The most items that are held back at a time; while there are as many, no other is taken.
pub(in crate::queue) const MOST_HELD: usize = 64;

/// The delays for which a consumer holds back an item that it has failed with, under its claim.
#[derive(Debug, Clone, Copy)]
pub(in crate::queue) struct RedeliveryBackoff {
    pub(in crate::queue) first: Duration,
    pub(in crate::queue) longest: Duration,
}

impl Default for RedeliveryBackoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), longest: Duration::from_secs(30) }
    }
}

impl RedeliveryBackoff {
    /// The delay after a delivery, from 1: twice as long after each, and of that between a half and
    /// all, by chance.
    pub(in crate::queue) fn after(self, delivery: u32, zk: &CuratorFramework) -> Duration {
        let factor = 1u32.checked_shl(delivery.saturating_sub(1)).unwrap_or(u32::MAX);
        let most = self.first.saturating_mul(factor).min(self.longest);
        most / 2 + (most / 2).mul_f64(fraction(zk))
    }
}
