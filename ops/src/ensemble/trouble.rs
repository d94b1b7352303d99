//! The reasons why a server does not respond to a question.

use std::fmt;

use super::words::WordRefusal;

/// The reason why a question to a server has no response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum ProbeTrouble {
    /// This was not requested.
    NotAsked,
    /// There is no connection, for this reason.
    Unreachable(String),
    /// No response in time.
    Late,
    /// The word is not in the whitelist.
    NotListed,
    /// The server has no quorum, or is not ready yet.
    NotServing,
    /// The server closed the connection without a response, as it does if the address of this
    /// machine has `maxClientCnxns` connections.
    Silent,
    /// The response is longer than 64 MiB.
    TooLong,
    /// The response was not understood.
    Unknown,
}

impl ProbeTrouble {
    /// Returns the trouble in one word, for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotAsked => "not-asked",
            Self::Unreachable(_) => "unreachable",
            Self::Late => "late",
            Self::NotListed => "refused",
            Self::NotServing => "not-serving",
            Self::Silent => "silent",
            Self::TooLong => "too-long",
            Self::Unknown => "unknown",
        }
    }

    /// Returns `true` if the server was not reached at all.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Late)
    }

    /// Returns `true` if no process listens at the address.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Unreachable(why) if why.contains("refused"))
    }
}

impl fmt::Display for ProbeTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("not asked"),
            Self::Unreachable(why) => write!(f, "unreachable: {why}"),
            Self::Late => f.write_str("no response in time"),
            Self::NotListed => f.write_str("refused: not in 4lw.commands.whitelist"),
            Self::NotServing => f.write_str("not serving"),
            Self::Silent => f.write_str(
                "closed the connection without a response: \
                 perhaps this machine has maxClientCnxns connections",
            ),
            Self::TooLong => f.write_str("the response is too long"),
            Self::Unknown => f.write_str("the response was not understood"),
        }
    }
}

impl From<WordRefusal> for ProbeTrouble {
    fn from(refusal: WordRefusal) -> Self {
        match refusal {
            WordRefusal::NotListed => Self::NotListed,
            WordRefusal::NotServing => Self::NotServing,
            WordRefusal::Silent => Self::Silent,
        }
    }
}
