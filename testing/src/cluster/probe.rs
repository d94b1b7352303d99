//! [`ClusterProbe`]: a printable snapshot of an ensemble, for assertions.

use std::fmt;

use crate::ensemble::State;
use crate::quorum::Role;
use crate::server::Probe;

/// A snapshot of the members of an ensemble.
#[derive(Debug, Clone)]
pub struct ClusterProbe {
    members: Vec<MemberProbe>,
    leader: Option<usize>,
    epoch: i64,
    zxid: i64,
    latest: usize,
}

/// One member in a [`ClusterProbe`].
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct MemberProbe {
    /// The role of the member.
    pub role: MemberRole,
    /// Committed transactions that the member has not applied.
    pub behind: u64,
    /// Nodes and watches of the member. Sessions are those of the ensemble, with their ephemeral
    /// nodes in the tree of this member.
    pub probe: Probe,
}

/// The role of a member.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberRole {
    /// A single server.
    Standalone,
    /// The leader.
    Leader,
    /// A follower of the leader.
    Follower,
    /// The member has no quorum, and serves reads.
    ReadOnly,
    /// The member has no quorum, and refuses clients.
    Looking,
    /// The member does not run.
    Stopped,
}

impl fmt::Display for MemberRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standalone => "standalone",
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::ReadOnly => "read-only",
            Self::Looking => "looking",
            Self::Stopped => "stopped",
        })
    }
}

impl ClusterProbe {
    pub(super) fn of(state: &State) -> Self {
        let quorum = state.quorum();
        let member = |at: usize| {
            let role = match quorum.role(at) {
                _ if !quorum.is_up(at) => MemberRole::Stopped,
                _ if quorum.is_read_only(at) => MemberRole::ReadOnly,
                Role::Standalone => MemberRole::Standalone,
                Role::Leader => MemberRole::Leader,
                Role::Follower => MemberRole::Follower,
                Role::Looking => MemberRole::Looking,
            };
            MemberProbe { role, behind: quorum.behind(at), probe: Probe::of(state, at) }
        };
        Self {
            members: (0..state.members().len()).map(member).collect(),
            leader: quorum.leader(),
            epoch: quorum.epoch(),
            zxid: quorum.zxid(),
            latest: quorum.latest(),
        }
    }

    /// Returns the members, in order.
    #[must_use]
    pub fn members(&self) -> &[MemberProbe] {
        &self.members
    }

    /// Returns the probe of a member.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn member(&self, member: usize) -> &Probe {
        &self.members[member].probe
    }

    /// Returns the probe of the leader, or else of the member that has applied most.
    #[must_use]
    pub fn latest(&self) -> &Probe {
        self.member(self.latest)
    }

    /// Returns the leader, if any.
    #[must_use]
    pub const fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// Returns the number of leaders so far: the upper half of zxids.
    #[must_use]
    pub const fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Returns the zxid of the last committed transaction.
    #[must_use]
    pub const fn zxid(&self) -> i64 {
        self.zxid
    }
}

impl fmt::Display for ClusterProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "epoch {} zxid {:#x}", self.epoch, self.zxid)?;
        for (at, MemberProbe { role, behind, probe }) in self.members.iter().enumerate() {
            write!(f, "zk{} {role}, {behind} behind, {probe}", at + 1)?;
        }
        Ok(())
    }
}
