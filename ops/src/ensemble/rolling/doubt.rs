//! The reasons why no further server is restarted.

use std::fmt;
use std::time::Duration;

use super::super::flw::ServerMode;
use super::super::probe::{Server, Trouble};

/// A reason why no server may be restarted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The configuration of the ensemble is not known, and so its quorum is not.
    MembersUnknown,
    /// A server without an ensemble.
    Standalone,
    /// The number of voting members, which are no majority without one of them.
    TooFewVoters(usize),
    /// A quorum of groups or weights, which is not a majority of the members.
    Weighted,
    /// A server of the connect string that is not in the configuration.
    NotAMember(Server),
    /// Members whose client addresses are not known.
    NoAddress(Vec<u64>),
    /// The members are not those of the start.
    MembersChanged,
    NotServing {
        server: Server,
        trouble: Trouble,
    },
    /// The server does not report its id.
    NoId(Server),
    /// The server reports the id of another member.
    OtherMember {
        server: Server,
        id: u64,
    },
    /// The role is not one of the configured kind of member, or is not known.
    WrongRole {
        server: Server,
        mode: Option<ServerMode>,
    },
    /// The server does not report its last transaction.
    NoZxid(Server),
    /// The server lacks transactions that the leader had one observation earlier.
    Behind(Server),
    NoLeader,
    /// The number of servers that lead.
    Leaders(usize),
    /// The leader lacks transactions that a leader had before.
    WentBack {
        before: i64,
        now: i64,
    },
    /// The restarted server lacks transactions that it had before.
    OlderData(Server),
    /// Nothing shows that the server has restarted.
    NotRestarted(Server),
    /// The server does not report how long it has had its role.
    NoUptime(Server),
    /// The ensemble was in order at the end of the time, but not long enough.
    Unsettled,
    /// An error that the doctor has found.
    Doctor {
        subject: String,
        text: String,
    },
}

impl Doubt {
    /// Returns `true` if waiting does not help.
    pub(crate) const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Standalone
                | Self::TooFewVoters(_)
                | Self::Weighted
                | Self::NotAMember(_)
                | Self::NoAddress(_)
                | Self::MembersChanged
                | Self::OtherMember { .. }
                | Self::WentBack { .. }
                | Self::OlderData(_)
                | Self::NoUptime(_)
        )
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MembersUnknown => {
                f.write_str("no server reports the members of the ensemble: the quorum is unknown")
            }
            Self::Standalone => f.write_str("a single server: there is no quorum without it"),
            Self::TooFewVoters(voters) => {
                write!(f, "a quorum needs {voters} of the {voters} voting members")
            }
            Self::Weighted => f.write_str("the quorum has groups or weights, which are not judged"),
            Self::NotAMember(server) => {
                write!(f, "{server} is not in the configuration of the ensemble")
            }
            Self::NoAddress(ids) => {
                let ids: Vec<_> = ids.iter().map(|id| format!("server.{id}")).collect();
                let ids = ids.join(", ");
                write!(f, "{ids}: no client address: name it in the connect string")
            }
            Self::MembersChanged => f.write_str("the members of the ensemble have changed"),
            Self::NotServing { server, trouble } => write!(f, "{server}: {trouble}"),
            Self::NoId(server) => write!(f, "{server} does not report its id (conf)"),
            Self::OtherMember { server, id } => write!(f, "{server} responds as member {id}"),
            Self::WrongRole { server, mode: Some(mode) } => {
                write!(f, "{server} has the role {mode}")
            }
            Self::WrongRole { server, mode: None } => {
                write!(f, "{server} does not report its role")
            }
            Self::NoZxid(server) => write!(f, "{server} does not report its last transaction"),
            Self::Behind(server) => write!(f, "{server} is behind the leader"),
            Self::NoLeader => f.write_str("no server leads"),
            Self::Leaders(leaders) => write!(f, "{leaders} servers lead"),
            Self::WentBack { before, now } => write!(
                f,
                "the leader has the transaction {now:#x} after {before:#x}: \
                 acknowledged writes may be lost"
            ),
            Self::OlderData(server) => write!(f, "{server} came back with older data"),
            Self::NotRestarted(server) => write!(f, "nothing shows that {server} has restarted"),
            Self::NoUptime(server) => {
                write!(f, "{server} does not report how long it has had its role (mntr)")
            }
            Self::Unsettled => f.write_str("the ensemble was not in order for long enough"),
            Self::Doctor { subject, text } => write!(f, "{subject}: {text}"),
        }
    }
}

/// The error of a command that should restart a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RestartError {
    /// The command has failed. The text says how.
    #[error("the command of {server} failed: {why}")]
    Failed {
        /// The server.
        server: Server,
        /// The exit code or the signal.
        why: String,
    },
    /// The command was not started.
    #[error("the command of {server} was not started: {why}")]
    NotStarted {
        /// The server.
        server: Server,
        /// The error of the operating system.
        why: String,
    },
    /// The command was killed at the end of its time.
    #[error("the command of {server} did not end within {within:?}")]
    TimedOut {
        /// The server.
        server: Server,
        /// The time limit.
        within: Duration,
    },
    /// The user has stopped the command.
    #[error("the command of {0} was killed")]
    Killed(Server),
}
