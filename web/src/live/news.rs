//! The news of a watched path.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::show::millis;

/// The freshness of a watched path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The watch is being added for the first time.
    Starting,
    /// Every change is reported.
    Fresh,
    /// Changes may have been missed.
    Stale { since: Instant },
    /// The servers have no such watches (before ZooKeeper 3.6), or refuse them.
    Unsupported,
}

/// The state of a watched path. A viewer gets the newest one, and may miss those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct News {
    /// The number of changes so far, several at a time counted as one.
    pub(crate) generation: u64,
    pub(crate) freshness: Freshness,
    /// `true` if nothing follows.
    pub(crate) is_over: bool,
}

impl News {
    pub(crate) const fn first() -> Self {
        Self { generation: 0, freshness: Freshness::Starting, is_over: false }
    }

    /// Returns the form for the script: `{"generation":7,"state":"stale","stale_ms":12000}`.
    pub(crate) fn json(&self) -> Value {
        let (state, stale) = match self.freshness {
            Freshness::Starting => ("starting", None),
            Freshness::Fresh => ("fresh", None),
            Freshness::Stale { since } => ("stale", Some(since.elapsed())),
            Freshness::Unsupported => ("unsupported", None),
        };
        json!({ "generation": self.generation, "state": state, "stale_ms": stale.map(millis) })
    }
}
