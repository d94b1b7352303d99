//! The orders for the process that watches `zkc`, in the pipe between them.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use super::machine::Orders;

/// A clock that is the same in all processes. Where the system has one, it counts the time for
/// which the machine was suspended, as the servers do.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

/// The length of a message. The kernel does not split such a short write to a pipe.
pub(super) const LENGTH: usize = 16;

/// A time that never comes.
const NEVER: u64 = u64::MAX;

/// A message to the process that watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderMessage {
    /// Times of the common clock, in nanoseconds.
    Orders { terminate: Option<u64>, kill: Option<u64> },
    /// The command has ended, or was killed.
    Farewell,
}

impl OrderMessage {
    pub(super) fn of(orders: Orders) -> Self {
        let (here, common) = (Instant::now(), now());
        let time = |at: Instant| {
            let left = u64::try_from(at.saturating_duration_since(here).as_nanos());
            common.saturating_add(left.unwrap_or(NEVER)).min(NEVER - 1)
        };
        Self::Orders { terminate: orders.terminate.map(time), kill: orders.kill.map(time) }
    }

    pub(super) fn encode(self) -> [u8; LENGTH] {
        let (terminate, kill) = match self {
            Self::Orders { terminate, kill } => (terminate.unwrap_or(NEVER), kill.unwrap_or(NEVER)),
            Self::Farewell => (0, 0),
        };
        let mut message = [0; LENGTH];
        message[..8].copy_from_slice(&terminate.to_ne_bytes());
        message[8..].copy_from_slice(&kill.to_ne_bytes());
        message
    }

    pub(super) fn decode(message: [u8; LENGTH]) -> Self {
        let (first, second) = message.split_at(8);
        let time = |bytes: &[u8]| bytes.try_into().map_or(NEVER, u64::from_ne_bytes);
        match (time(first), time(second)) {
            (0, 0) => Self::Farewell,
            (terminate, kill) => {
                let some = |time| (time != NEVER).then_some(time);
                Self::Orders { terminate: some(terminate), kill: some(kill) }
            }
        }
    }
}

/// Returns the time of the common clock, in nanoseconds.
pub(super) fn now() -> u64 {
    // Every system has the clock. Without it, there are no orders that come due.
    let time = clock_gettime(CLOCK).map_or(Duration::ZERO, Duration::from);
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_they_were() {
        let orders = |terminate, kill| OrderMessage::Orders { terminate, kill };
        let now = now();
        for message in [
            OrderMessage::Farewell,
            orders(None, None),
            orders(Some(now), Some(now + 1)),
            orders(None, Some(1)),
        ] {
            assert_eq!(OrderMessage::decode(message.encode()), message);
        }
    }

    #[test]
    fn a_time_that_has_passed_is_due() {
        let here = Instant::now();
        let orders = Orders { terminate: None, kill: here.checked_sub(Duration::from_millis(1)) };
        let OrderMessage::Orders { kill: Some(kill), .. } = OrderMessage::of(orders) else {
            panic!("orders")
        };
        assert!(kill <= now());
    }
}
