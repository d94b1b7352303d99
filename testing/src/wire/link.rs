//! [`Link`]: the network between one client and one server in memory.

use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator_client::internal::Locked;
use zk_curator_client::internal::Signal;
use zk_curator_client::internal::bounded;

use super::pipe::Distance;

/// The number of sessions kept per host and member.
const REMEMBERED: usize = 100;

/// The direction of a cut, see [`MemoryConnector::cut`](crate::MemoryConnector::cut).
#[expect(clippy::exhaustive_enums, reason = "bytes go two ways")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Nothing passes.
    Both,
    /// Requests do not reach the server. Replies and events still reach the client.
    ToServer,
    /// Replies and events do not reach the client. Requests still arrive and are applied.
    ToClient,
}

/// The link between a client and a server.
#[derive(Debug, Default)]
pub(crate) struct Link {
    cut: Signal<Option<Direction>>,
    /// The range of one-way latencies in microseconds, and their generator.
    latency: Locked<Option<(RangeInclusive<u64>, fastrand::Rng)>>,
    /// The last sessions opened or resumed over it.
    sessions: Locked<Vec<i64>>,
}

impl Link {
    /// The direction that is cut, if any.
    pub(super) const fn cut(&self) -> &Signal<Option<Direction>> {
        &self.cut
    }

    /// Sets the one-way latency to random values from this range, in microseconds, from a generator
    /// with this seed.
    pub(super) fn set_latency(&self, range: RangeInclusive<u64>, seed: u64) {
        *self.latency.lock() = Some((range, fastrand::Rng::with_seed(seed)));
    }

    /// Returns the last sessions opened or resumed, oldest first.
    pub(super) fn sessions(&self) -> Vec<i64> {
        self.sessions.lock().clone()
    }

    /// Records an opened or resumed session.
    pub(super) fn has_session(&self, session: i64) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|other| *other != session);
        if sessions.len() == REMEMBERED {
            sessions.remove(0);
        }
        sessions.push(session);
    }

    /// Returns the latency of bytes sent now.
    pub(super) fn latency(&self) -> Option<Duration> {
        let mut latency = self.latency.lock();
        let (range, rng) = latency.as_mut()?;
        Some(Duration::from_micros(rng.u64(range.clone())))
    }
}

impl Distance for Link {
    fn arrival(&self) -> Option<Instant> {
        self.latency().map(|latency| Instant::now() + bounded(latency))
    }
}
