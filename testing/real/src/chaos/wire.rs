//! What the processes of the clients and the one that watches them tell each other: lines of JSON through pipes.

use std::io::{self, Write};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use zk_curator_sim::Event;
use zk_curator_sim::history::{Mode, Name};

/// A line from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Told {
    /// Something to be written down.
    Event { at: Duration, event: Event },
    /// It did not run between these two times.
    Stall { from: Duration, to: Duration },
    /// It uses a resource outside of ZooKeeper, and waits for the answer.
    Use { call: u64, resource: Name, mode: Mode, hold: u64, token: i64 },
    /// It cannot go on.
    Failed { broken: String },
}

/// A line to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Heard {
    /// What the resource did.
    Used { call: u64, event: Event },
    /// There will be no more faults.
    FaultsOver,
}

/// A clock that all processes on a machine share: CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    origin: Duration,
}

impl Clock {
    /// Zero is now.
    pub(super) fn start() -> Self {
        Self { origin: monotonic() }
    }

    /// The clock with the same zero, in another process.
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
    // Never negative on this clock.
    clock_gettime(ClockId::Monotonic).try_into().unwrap_or_default()
}

/// Writes one line, at once: what was said before a SIGKILL has been said.
pub(super) fn tell(line: &Told) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
