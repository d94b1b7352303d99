use std::fmt;

use crate::member::Role;
use crate::probe::Probe;
use crate::state::State;

/// A snapshot of what the members of an ensemble know.
#[derive(Debug, Clone)]
pub struct ClusterProbe {
    members: Vec<MemberProbe>,
    leader: Option<usize>,
    epoch: i64,
    zxid: i64,
    latest: usize,
}

/// What one member knows.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct MemberProbe {
    /// What it is to the others.
    pub role: MemberRole,
    /// How many committed transactions it has not applied, though it could have.
    pub behind: u64,
    /// Nodes and watches as it knows them. Sessions are known to the ensemble: their ephemeral nodes are those in the
    /// tree of this member.
    pub probe: Probe,
}

/// What a member is to the others.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberRole {
    /// There are no others.
    Standalone,
    /// It leads.
    Leader,
    /// It follows the leader.
    Follower,
    /// It has no quorum, and serves reads.
    ReadOnly,
    /// It has no quorum, and refuses clients.
    Looking,
    /// It does not run.
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
        let len = state.log.len();
        let member = |at: usize| {
            let member = &state.members[at];
            let role = match member.role {
                _ if !member.up => MemberRole::Stopped,
                _ if member.read_only => MemberRole::ReadOnly,
                Role::Standalone => MemberRole::Standalone,
                Role::Leader => MemberRole::Leader,
                Role::Follower => MemberRole::Follower,
                Role::Looking => MemberRole::Looking,
            };
            MemberProbe { role, behind: len.saturating_sub(member.applied), probe: Probe::of(state, at) }
        };
        Self {
            members: (0..state.members.len()).map(member).collect(),
            leader: state.quorum.leader,
            epoch: state.quorum.epoch,
            zxid: state.zxid,
            latest: state.latest(),
        }
    }

    /// The members, in their order.
    #[must_use]
    pub fn members(&self) -> &[MemberProbe] {
        &self.members
    }

    /// What a member knows.
    ///
    /// # Panics
    /// When there is no such member.
    #[must_use]
    pub fn member(&self, member: usize) -> &Probe {
        &self.members[member].probe
    }

    /// What is committed, as the leader knows it, or else the member that has applied most.
    #[must_use]
    pub fn latest(&self) -> &Probe {
        self.member(self.latest)
    }

    /// The member that leads, if any.
    #[must_use]
    pub const fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// How many leaders there have been: the upper half of zxids.
    #[must_use]
    pub const fn epoch(&self) -> i64 {
        self.epoch
    }

    /// The last transaction that was committed.
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
