//! Events of processes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An event of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lifecycle {
    /// The process has started.
    Started,
    /// The process was stopped: it runs no code, but its connections stay open (SIGSTOP).
    Paused,
    /// The process was resumed (SIGCONT).
    Resumed,
    /// The process was killed (SIGKILL).
    Killed,
    /// The session of the process was expired on the server before its timeout. The process cannot
    /// know yet.
    Expired,
    /// The process has finished its work.
    Finished,
}

names! { Lifecycle:
    Started "started", Paused "paused", Resumed "resumed", Killed "killed", Expired "expired",
    Finished "finished",
}

impl fmt::Display for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("started"),
            Self::Paused => f.write_str("PAUSED"),
            Self::Resumed => f.write_str("RESUMED"),
            Self::Killed => f.write_str("KILLED"),
            Self::Expired => f.write_str("SESSION EXPIRED"),
            Self::Finished => f.write_str("finished"),
        }
    }
}
