//! The pauses between attempts.

use std::time::Duration;

use tokio::time::Instant;
use zk_curator::CuratorFramework;
use zk_curator::internal::sleep_until;

use crate::random::fraction;

/// Pauses that become longer.
#[derive(Debug)]
pub(crate) struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
    /// The end of the present pause.
    until: Option<Instant>,
}

impl Pauses {
    pub(crate) const fn new((first, longest): (Duration, Duration)) -> Self {
        Self { first, longest, next: first, until: None }
    }

    /// Begins the next pause, between half and all of twice the last one, unless one has begun.
    pub(crate) fn begin(&mut self, zk: &CuratorFramework) {
        if self.until.is_none() {
            let pause = self.next;
            self.next = (pause * 2).min(self.longest);
            self.until = Some(Instant::now() + pause.mul_f64(0.5 + fraction(zk) / 2.0));
        }
    }

    /// Returns `true` during a pause.
    pub(crate) const fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Waits for the end of the pause, and ends it; forever if there is none. Cancel safe.
    pub(crate) async fn over(&mut self) {
        until(self.until).await;
        self.until = None;
    }

    /// Ends the pause now.
    pub(crate) const fn end(&mut self) {
        self.until = None;
    }

    /// Begins with the shortest pause again.
    pub(crate) const fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Waits until a time; forever if there is none. Cancel safe.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
