//! [`Quorum`]: the leader, the roles of members, and the time at which each applies a transaction.

use super::entry::Entry;
use super::log::Log;
use super::peer::{Lag, Peer, Role};
use crate::ids::MemberId;

/// The entries kept for a member that does not follow. A member that has missed more copies the
/// tree.
const KEPT_FOR_ABSENT: u64 = 10_000;

/// The committed state of an ensemble. A single server is a quorum of one, without leader and log.
///
/// Invariants after a change was [settled](Quorum::settle): the leader belongs to a majority of
/// connected members; a member that follows has the epoch of the leader and the whole log; no
/// member has applied entries that it does not have. Only [`Quorum::take_due`] and
/// [`Quorum::take_next`] mark entries as applied, so each member receives each entry once, in
/// order.
#[derive(Debug)]
pub(crate) struct Quorum {
    peers: Vec<Peer>,
    log: Log,
    leader: Option<MemberId>,
    /// The number of leaders so far; the upper half of zxids.
    epoch: i64,
    /// The last committed transaction.
    zxid: i64,
    /// The number of lags so far.
    lags: u64,
    /// `true` if members without a quorum serve reads.
    read_only: bool,
}

/// The consequences of a change of the quorum for members and sessions.
#[derive(Debug, Default)]
pub(crate) struct Settlement {
    /// The leader is gone: sessions do not expire.
    pub(crate) deposed: bool,
    /// The members with a new role, in order. Their connections end.
    pub(crate) shifts: Vec<Shift>,
    /// The new leader, which applies the whole log immediately and commits its leadership.
    pub(crate) elected: Option<MemberId>,
}

/// A member with a new role.
#[derive(Debug)]
pub(crate) struct Shift {
    pub(crate) member: MemberId,
    /// The member leaves read-only mode, and its local sessions end.
    pub(crate) ends_local_sessions: bool,
    /// The member whose tree it copies, because it has missed too many entries.
    pub(crate) copies: Option<MemberId>,
}

impl Quorum {
    /// Creates a quorum of members that do not run yet. With `read_only`, members without a quorum
    /// are read-only, and a single server starts read-only.
    pub(crate) fn new(members: usize, read_only: bool) -> Self {
        let alone = members == 1;
        let role = if alone { Role::Standalone } else { Role::Looking };
        Self {
            peers: (0..members).map(|_| Peer::new(role, alone && read_only)).collect(),
            log: Log::default(),
            leader: None,
            epoch: 0,
            zxid: 0,
            lags: 0,
            read_only,
        }
    }

    /// Continues after a transaction of another server.
    pub(crate) const fn go_on_after(&mut self, zxid: i64) {
        (self.zxid, self.epoch) = (zxid, zxid >> 32);
    }

    /// Returns `true` if this is a single server.
    pub(crate) const fn is_alone(&self) -> bool {
        self.peers.len() == 1
    }

    /// Returns the leader.
    pub(crate) const fn leader(&self) -> Option<MemberId> {
        self.leader
    }

    /// Returns the number of leaders so far.
    pub(crate) const fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Returns the last committed transaction.
    pub(crate) const fn zxid(&self) -> i64 {
        self.zxid
    }

    /// Returns `true` if transactions can be committed.
    pub(crate) const fn can_commit(&self) -> bool {
        self.is_alone() || self.leader.is_some()
    }

    /// Returns the member whose tree decides about writes.
    pub(crate) const fn writer(&self) -> Option<MemberId> {
        if self.is_alone() { Some(0) } else { self.leader }
    }

    /// Returns `true` if a member is the leader.
    pub(crate) fn leads(&self, at: MemberId) -> bool {
        self.leader == Some(at)
    }

    /// Returns the leader, or else the member that has applied most.
    pub(crate) fn latest(&self) -> MemberId {
        let most = || (0..self.peers.len()).max_by_key(|at| self.peers[*at].applied);
        self.leader.or_else(most).unwrap_or(0)
    }

    /// Returns the role of a member.
    pub(crate) fn role(&self, at: MemberId) -> Role {
        self.peers[at].role
    }

    /// Returns `true` if a member runs.
    pub(crate) fn is_up(&self, at: MemberId) -> bool {
        self.peers[at].up
    }

    /// Returns `true` if a member was set to read-only.
    pub(crate) fn is_apart(&self, at: MemberId) -> bool {
        self.peers[at].is_apart
    }

    /// Returns `true` if a member is read-only.
    pub(crate) fn is_read_only(&self, at: MemberId) -> bool {
        self.peers[at].read_only
    }

    /// Returns `true` if a member responds to clients.
    pub(crate) fn serves(&self, at: MemberId) -> bool {
        self.peers[at].role != Role::Looking || self.peers[at].read_only
    }

    /// Returns the number of entries that a member has not applied.
    pub(crate) fn behind(&self, at: MemberId) -> u64 {
        self.log.len().saturating_sub(self.peers[at].applied)
    }

    /// Returns the numbers of followers that have applied everything, and that have not.
    pub(crate) fn follower_counts(&self) -> (usize, usize) {
        let followers = (0..self.peers.len()).filter(|at| self.follows(*at) && !self.leads(*at));
        let (synced, lagging): (Vec<_>, Vec<_>) = followers.partition(|at| self.behind(*at) == 0);
        (synced.len(), lagging.len())
    }

    /// Marks a member as running or stopped. Call [`Quorum::settle`] after this, and after the next
    /// four functions.
    pub(crate) fn set_up(&mut self, at: MemberId, up: bool) {
        self.peers[at].up = up;
    }

    /// Suspends or resumes a member.
    pub(crate) fn set_held(&mut self, at: MemberId, held: bool) {
        self.peers[at].held = held;
    }

    /// Suspends or resumes all members.
    pub(crate) fn set_all_held(&mut self, held: bool) {
        for peer in &mut self.peers {
            peer.held = held;
        }
    }

    /// Sets a member to read-only, or ends that. A single server changes immediately.
    pub(crate) fn set_apart(&mut self, at: MemberId, is_apart: bool) {
        let alone = self.is_alone();
        let peer = &mut self.peers[at];
        peer.is_apart = is_apart;
        peer.read_only = if alone { is_apart } else { peer.read_only };
    }

    /// Cuts the links between sets of members. Members in no set form one more set.
    pub(crate) fn split(&mut self, sides: &[Vec<MemberId>]) {
        for (at, peer) in self.peers.iter_mut().enumerate() {
            peer.side = sides.iter().position(|side| side.contains(&at)).unwrap_or(sides.len());
        }
    }

    /// Makes a member lag, by this many milliseconds or until the lag ends. Returns the number of
    /// the lag.
    pub(crate) fn begin_lag(&mut self, at: MemberId, delay: Option<u64>) -> u64 {
        self.lags += 1;
        self.peers[at].lags.push(Lag { number: self.lags, delay });
        self.lags
    }

    /// Ends a lag.
    pub(crate) fn end_lag(&mut self, at: MemberId, number: u64) {
        self.peers[at].lags.retain(|lag| lag.number != number);
    }

    /// Elects a leader if there is none and a majority exists, and assigns roles.
    pub(crate) fn settle(&mut self) -> Settlement {
        if self.is_alone() {
            return Settlement::default();
        }
        let majority = self.majority();
        let deposed = self.leader.is_some_and(|leader| !majority.contains(&leader));
        if deposed {
            self.leader = None;
        }
        if self.leader.is_none()
            && let Some(leader) = self.best_of(&majority)
        {
            return Settlement { deposed, ..self.elect(leader) };
        }
        Settlement { deposed, shifts: self.assume_roles(&majority), elected: None }
    }

    /// Returns the member that can replace the leader: the given one, or the winner of an election.
    pub(crate) fn successor(&self, to: Option<MemberId>) -> Option<MemberId> {
        let leader = self.leader?;
        let mut majority = self.majority();
        majority.retain(|at| *at != leader);
        match to {
            Some(to) => majority.contains(&to).then_some(to),
            None => self.best_of(&majority),
        }
    }

    /// Makes a member of the majority its leader.
    pub(crate) fn elect(&mut self, leader: MemberId) -> Settlement {
        self.leader = Some(leader);
        self.epoch += 1;
        self.zxid = self.epoch << 32;
        tracing::info!(leader = leader + 1, epoch = self.epoch, "elected");
        let shifts = self.assume_roles(&self.majority());
        Settlement { deposed: false, shifts, elected: Some(leader) }
    }

    /// Returns the connected members that are more than half of all; empty if there is no majority.
    fn majority(&self) -> Vec<MemberId> {
        let of_side = |side: usize| -> Vec<MemberId> {
            let there =
                |at: &MemberId| self.peers[*at].takes_part() && self.peers[*at].side == side;
            (0..self.peers.len()).filter(there).collect()
        };
        let mut sides = self.peers.iter().map(|peer| of_side(peer.side));
        sides.find(|side| side.len() * 2 > self.peers.len()).unwrap_or_default()
    }

    /// Returns the winner of an election: the longest log wins, then a member that does not lag,
    /// then the highest number.
    fn best_of(&self, members: &[MemberId]) -> Option<MemberId> {
        let rank = |at: &MemberId| (self.peers[*at].logged, self.peers[*at].lags.is_empty(), *at);
        members.iter().copied().max_by_key(rank)
    }

    fn assume_roles(&mut self, majority: &[MemberId]) -> Vec<Shift> {
        // A held member does not notice.
        let awake = (0..self.peers.len()).filter(|at| !self.peers[*at].held).collect::<Vec<_>>();
        awake.into_iter().filter_map(|at| self.assume_role(at, majority.contains(&at))).collect()
    }

    fn assume_role(&mut self, at: MemberId, is_among_majority: bool) -> Option<Shift> {
        let takes_part = is_among_majority && self.leader.is_some();
        let (role, epoch) = match self.leader {
            _ if !takes_part => (Role::Looking, 0),
            Some(leader) if leader == at => (Role::Leader, self.epoch),
            _ => (Role::Follower, self.epoch),
        };
        let peer = &mut self.peers[at];
        let read_only = peer.up && !takes_part && (self.read_only || peer.is_apart);
        if (peer.role, peer.epoch, peer.read_only) == (role, epoch, read_only) {
            return None;
        }
        let ends_local_sessions = std::mem::replace(&mut peer.read_only, read_only);
        (peer.role, peer.epoch) = (role, epoch);
        let copies = if takes_part { self.join(at) } else { None };
        Some(Shift { member: at, ends_local_sessions, copies })
    }

    /// Gives a member the log of the majority. Returns the member to copy the tree from, if it has
    /// missed too many entries.
    fn join(&mut self, at: MemberId) -> Option<MemberId> {
        let (len, latest) = (self.log.len(), self.latest());
        let applied = self.peers[at].applied;
        let is_forgotten = applied < len && self.log.get(applied).is_none();
        if is_forgotten {
            self.peers[at].applied = self.peers[latest].applied;
        }
        self.peers[at].logged = len;
        is_forgotten.then_some(latest)
    }

    /// Returns `true` if a member receives committed transactions.
    fn follows(&self, at: MemberId) -> bool {
        let peer = &self.peers[at];
        let has_leader = matches!(peer.role, Role::Leader | Role::Follower);
        has_leader && !peer.held && peer.epoch == self.epoch && self.leader.is_some()
    }

    /// Returns the zxid of the next transaction.
    pub(crate) const fn next_zxid(&mut self) -> i64 {
        self.zxid += 1;
        self.zxid
    }

    /// Appends a transaction to the log of all members that follow, at this time on the clock of
    /// sessions.
    pub(crate) fn append(&mut self, entry: Entry, now: u64) {
        self.log.push(entry, now);
        for at in 0..self.peers.len() {
            if self.follows(at) {
                self.peers[at].logged = self.log.len();
            }
        }
    }

    /// Takes the next entry of a member, if it is due.
    pub(crate) fn take_due(&mut self, at: MemberId, now: u64) -> Option<Entry> {
        self.next_due_of(at).filter(|due| *due <= now)?;
        self.take_next(at)
    }

    /// Takes the next entry of a member, even if the member lags.
    pub(crate) fn take_next(&mut self, at: MemberId) -> Option<Entry> {
        if !self.follows(at) {
            return None;
        }
        let entry = self.log.get(self.peers[at].applied)?.entry.clone();
        self.peers[at].applied += 1;
        Some(entry)
    }

    /// Drops entries that no member needs.
    pub(crate) fn forget_applied(&mut self) {
        let len = self.log.len();
        let needs = |at: MemberId| {
            let applied = self.peers[at].applied;
            if self.follows(at) || self.peers[at].held {
                applied
            } else {
                applied.max(len.saturating_sub(KEPT_FOR_ABSENT))
            }
        };
        let needed = (0..self.peers.len()).map(needs).min();
        self.log.forget(needed.unwrap_or(len));
    }

    /// Returns the time at which the next entry of any member is due.
    pub(crate) fn next_due(&self) -> Option<u64> {
        (0..self.peers.len()).filter_map(|at| self.next_due_of(at)).min()
    }

    /// Returns the time at which the next entry of a member is due; `None` during a lag without
    /// end. A leader never lags.
    fn next_due_of(&self, at: MemberId) -> Option<u64> {
        if !self.follows(at) {
            return None;
        }
        let peer = &self.peers[at];
        let committed = self.log.get(peer.applied)?.at;
        if self.leads(at) { Some(committed) } else { peer.due(committed) }
    }
}
