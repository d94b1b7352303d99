//! The messages between the processes of the clients and the watching process: lines of JSON
//! through pipes.

use std::io::{self, Write};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use zk_curator_sim::Event;
use zk_curator_sim::history::{HoldMode, Name, UseOutcome};

/// A line from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Told {
    /// An event to record.
    Event { at: Duration, event: Event },
    /// The client did not run between these two times.
    Stall { from: Duration, to: Duration },
    /// The client uses a resource outside ZooKeeper, and waits for the response.
    Use { call: u64, resource: Name, mode: HoldMode, token: i64 },
    /// The client cannot continue.
    Failed { broken: String },
}

/// A line to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Heard {
    /// The result of a use of a resource.
    Used { call: u64, outcome: UseOutcome },
    /// There will be no more faults.
    FaultsOver,
}

/// A clock that all processes on a machine share: CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    origin: Duration,
}

impl Clock {
    /// Starts a clock at zero.
    pub(super) fn start() -> Self {
        Self { origin: monotonic() }
    }

    /// Creates a clock with the same zero in another process.
    pub(super) const fn with_origin(origin: Duration) -> Self {
        Self { origin }
    }

    pub(super) const fn origin(self) -> Duration {
        self.origin
    }

    pub(super) fn now(self) -> Duration {
        monotonic().saturating_sub(self.origin)
    }
}

fn monotonic() -> Duration {
    // The time of this clock is never negative.
    clock_gettime(ClockId::Monotonic).try_into().unwrap_or_default()
}

/// Writes one line without buffering, so a SIGKILL cannot lose it.
pub(super) fn tell(line: &Told) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
