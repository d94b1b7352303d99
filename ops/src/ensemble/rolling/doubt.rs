//! The reasons why no further server is restarted.

use std::fmt;

use crate::ensemble::notes::{DISPLACED, member_names};
use crate::ensemble::probe::ProbedServer;
use crate::ensemble::trouble::ProbeTrouble;
use crate::ensemble::words::ServerMode;

/// A reason why no server may be restarted now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum RollingDoubt {
    /// The configuration of the ensemble is not known, and so its quorum is not.
    MembersUnknown,
    /// A server without an ensemble.
    Standalone,
    /// The number of voting members, which are no majority without one of them.
    TooFewVoters(usize),
    /// A quorum of groups or weights, which is not a majority of the members.
    Weighted,
    /// A server of the connect string that is not in the configuration.
    NotAMember(ProbedServer),
    /// Servers that should be restarted, by id, and are not in the configuration.
    NoSuchMember(Vec<u64>),
    /// Members, by id, whose client addresses are not known.
    NoAddress(Vec<u64>),
    /// Members, by id, whose client addresses other servers have.
    Displaced(Vec<u64>),
    /// The members, or the kinds of some, are not those of the start.
    MembersChanged,
    /// The server does not serve, or its state is not known.
    NotServing {
        /// The server.
        server: ProbedServer,
        /// The reason.
        trouble: ProbeTrouble,
    },
    /// The server does not report its id.
    NoId(ProbedServer),
    /// The server reports the id of another member.
    OtherMember {
        /// The server, with its id in the configuration.
        server: ProbedServer,
        /// The id that it reports.
        id: u64,
    },
    /// The role is not one of the configured kind of member, or is not known.
    WrongRole {
        /// The server.
        server: ProbedServer,
        /// The role that it reports.
        mode: Option<ServerMode>,
    },
    /// The server does not report its last transaction.
    NoZxid(ProbedServer),
    /// The server lacks transactions that another one had one observation earlier.
    Behind(ProbedServer),
    /// No server leads.
    NoLeader,
    /// The number of servers that lead.
    Leaders(usize),
    /// The leader lacks transactions that a leader had before.
    WentBack {
        /// The last transaction of a leader before.
        before: i64,
        /// The last transaction of the leader.
        now: i64,
    },
    /// The restarted server lacks transactions that it had before.
    OlderData(ProbedServer),
    /// Nothing shows that the server has restarted.
    NotRestarted(ProbedServer),
    /// The server does not report how long it has had its role.
    NoUptime(ProbedServer),
    /// The ensemble was in order at the end of the time, but not long enough.
    Unsettled,
    /// An error that the [doctor](crate::ensemble::doctor) has found.
    Doctor {
        /// The server, or `ensemble`.
        subject: String,
        /// A sentence about the subject, without it.
        text: String,
    },
}

impl RollingDoubt {
    /// Returns `true` if waiting does not help.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Standalone
                | Self::TooFewVoters(_)
                | Self::Weighted
                | Self::NotAMember(_)
                | Self::NoSuchMember(_)
                | Self::NoAddress(_)
                | Self::Displaced(_)
                | Self::MembersChanged
                | Self::OtherMember { .. }
                | Self::WentBack { .. }
                | Self::OlderData(_)
                | Self::NoUptime(_)
        )
    }
}

impl fmt::Display for RollingDoubt {
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
            Self::NoSuchMember(ids) => {
                write!(f, "{}: not in the configuration of the ensemble", member_names(ids))
            }
            Self::NoAddress(ids) => {
                write!(f, "{}: no client address: name it in the connect string", member_names(ids))
            }
            Self::Displaced(ids) => write!(f, "{}: {DISPLACED}", member_names(ids)),
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
            Self::Behind(server) => write!(f, "{server} is behind the other servers"),
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
