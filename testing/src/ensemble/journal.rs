//! [`Journal`]: the injected faults, in order.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use zk_curator_proto::OpCode;

use crate::rule::Verdict;

/// The number of faults kept; older ones are dropped.
const CAPACITY: usize = 10_000;

/// An injected fault.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A rule fired.
    Rule {
        /// The verdict; never [`Verdict::Pass`].
        verdict: Verdict,
        /// The number of the session, from 1 in the order in which the server opened them, because
        /// ids differ between runs.
        session: u64,
        /// The opcode of the request.
        opcode: OpCode,
        /// The path, or that of the first operation of a multi.
        path: Option<String>,
    },
    /// [`TestServer::expire`](crate::TestServer::expire) ended a session.
    Expire {
        /// The number of the session, as in [`Fault::Rule`].
        session: u64,
    },
    /// [`TestServer::disconnect`](crate::TestServer::disconnect) cut the connection of a session.
    Disconnect {
        /// The number of the session, as in [`Fault::Rule`].
        session: u64,
    },
    /// [`TestServer::disconnect_all`](crate::TestServer::disconnect_all).
    DisconnectAll,
    /// [`TestServer::hold`](crate::TestServer::hold).
    Hold,
    /// [`TestServer::release`](crate::TestServer::release).
    Release,
    /// [`TestServer::partition`](crate::TestServer::partition).
    Partition,
    /// [`TestServer::heal`](crate::TestServer::heal) or
    /// [`TestCluster::heal`](crate::TestCluster::heal).
    Heal,
    /// [`TestServer::stop`](crate::TestServer::stop).
    Stop,
    /// [`TestServer::restart`](crate::TestServer::restart).
    Restart,
    /// [`TestServer::set_read_only`](crate::TestServer::set_read_only).
    ReadOnly(bool),
    /// [`TestCluster::partition`](crate::TestCluster::partition), with the sets of members.
    Split(Vec<Vec<usize>>),
    /// [`TestCluster::lag`](crate::TestCluster::lag) or [`lag_by`](crate::TestCluster::lag_by),
    /// with the delay.
    Lag(Option<Duration>),
    /// A [`LagGuard`](crate::LagGuard) was dropped.
    LagEnd,
    /// [`TestCluster::change_leader`](crate::TestCluster::change_leader) or
    /// [`make_leader`](crate::TestCluster::make_leader), in favour of this member.
    ChangeLeader,
    /// [`TestServer::advance`](crate::TestServer::advance).
    Advance(Duration),
    /// [`TestServer::shift_wall_clock`](crate::TestServer::shift_wall_clock), with the
    /// milliseconds.
    ShiftWallClock(i64),
    /// [`TestServer::remove`](crate::TestServer::remove).
    Remove {
        /// The node.
        path: String,
    },
    /// [`TestServer::set_version`](crate::TestServer::set_version).
    SetVersion {
        /// The node.
        path: String,
        /// The version of its data.
        version: i32,
    },
    /// [`TestServer::set_sequence`](crate::TestServer::set_sequence).
    SetSequence {
        /// The parent.
        path: String,
        /// The next number.
        next: i32,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { verdict, session, opcode, path } => {
                write!(f, "{verdict:?} of {opcode:?}")?;
                if let Some(path) = path {
                    write!(f, " {path}")?;
                }
                write!(f, " in session {session}")
            }
            Self::Expire { session } => write!(f, "session {session} expired"),
            Self::Disconnect { session } => write!(f, "session {session} disconnected"),
            Self::DisconnectAll => f.write_str("all disconnected"),
            Self::Hold => f.write_str("held"),
            Self::Release => f.write_str("released"),
            Self::Partition => f.write_str("partitioned"),
            Self::Heal => f.write_str("healed"),
            Self::Stop => f.write_str("stopped"),
            Self::Restart => f.write_str("restarted"),
            Self::ReadOnly(true) => f.write_str("read-only"),
            Self::ReadOnly(false) => f.write_str("no longer read-only"),
            Self::Split(sides) if sides.is_empty() => f.write_str("split no more"),
            Self::Split(sides) => write!(f, "split into {sides:?} and the rest"),
            Self::Lag(None) => f.write_str("lags"),
            Self::Lag(Some(delay)) => write!(f, "lags by {delay:?}"),
            Self::LagEnd => f.write_str("lags no longer"),
            Self::ChangeLeader => f.write_str("made the leader"),
            Self::Advance(by) => write!(f, "advanced by {by:?}"),
            Self::ShiftWallClock(by) => write!(f, "wall clock shifted by {by} ms"),
            Self::Remove { path } => write!(f, "{path} was removed"),
            Self::SetVersion { path, version } => write!(f, "version of {path} is {version}"),
            Self::SetSequence { path, next } => write!(f, "next child of {path} is {next}"),
        }
    }
}

/// An injected fault with its time and place.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// The time since the server was created, in whole milliseconds of tokio's clock.
    pub at: Duration,
    /// The affected member of an ensemble, from zero; `None` for all members and for a single
    /// server.
    pub member: Option<usize>,
    /// The fault.
    pub fault: Fault,
}

/// The faults that were injected into a server, in order; see
/// [`TestServer::journal`](crate::TestServer::journal).
///
/// It names sessions by number, so that under a paused clock two runs of the same test have the
/// same journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    entries: VecDeque<JournalEntry>,
    forgotten: u64,
}

impl Journal {
    pub(crate) fn add(&mut self, at: Duration, member: Option<usize>, fault: Fault) {
        tracing::debug!(%fault, ?member, "injected");
        if self.entries.len() == CAPACITY {
            self.entries.pop_front();
            self.forgotten += 1;
        }
        self.entries.push_back(JournalEntry { at, member, fault });
    }

    /// Returns the last 10,000 faults, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &JournalEntry> {
        self.entries.iter()
    }

    /// Returns the number of faults dropped before those.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.forgotten > 0 {
            writeln!(f, "({} more before)", self.forgotten)?;
        }
        for JournalEntry { at, member, fault } in &self.entries {
            write!(f, "{:>8} ms ", at.as_millis())?;
            if let Some(member) = member {
                write!(f, "zk{}: ", member + 1)?;
            }
            writeln!(f, "{fault}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forgets_the_oldest() {
        let mut journal = Journal::default();
        for number in 0..CAPACITY as u64 + 2 {
            journal.add(Duration::from_millis(number), None, Fault::Hold);
        }
        assert_eq!((journal.entries().len(), journal.forgotten()), (CAPACITY, 2));
        assert_eq!(journal.to_string().lines().nth(1), Some("       2 ms held"));
    }
}
