//! How the members of an ensemble agree: who leads, who follows, and who applies what when.
//!
//! What is agreed on is at once: there are no votes and no proposals under way. A transaction is committed when
//! the leader takes it, because a majority has it in its log by then; whether a member has applied it is another
//! matter. What that means is in `docs/decisions/cluster.md`.

use std::time::Duration;

use crate::journal::Fault;
use crate::log::{Action, Entry, Kept};
use crate::member::{Lag, Member, MemberId, Role};
use crate::state::State;

/// The port on which the members of an ensemble would vote.
pub(crate) const ELECTION_PORT: u16 = 3888;
/// The port on which they would follow.
pub(crate) const QUORUM_PORT: u16 = 2888;

/// How many entries are kept for a member that does not follow. One that has missed more gets a copy of the tree.
const KEPT_FOR_ABSENT: u64 = 10_000;

/// Who leads.
#[derive(Debug, Default)]
pub(crate) struct Quorum {
    pub(crate) leader: Option<MemberId>,
    /// How many leaders there have been; the upper half of zxids.
    pub(crate) epoch: i64,
    /// How many reasons to lag there have been.
    pub(crate) lags: u64,
}

impl State {
    /// Changes something about a member, and lets the ensemble come to terms with it.
    pub(super) fn settle_with(&mut self, at: MemberId, change: impl FnOnce(&mut Member)) {
        change(&mut self.members[at]);
        self.settle();
    }

    /// Elects a leader if there is none and can be one; gives everybody its role. Whoever changes its role, or follows
    /// another leader than before, ends its connections, as Apache ZooKeeper does.
    pub(super) fn settle(&mut self) {
        if self.is_alone() {
            return;
        }
        let majority = self.majority();
        if self.quorum.leader.is_some_and(|leader| !majority.contains(&leader)) {
            self.quorum.leader = None;
            self.sessions.suspend_global();
        }
        if self.quorum.leader.is_none()
            && let Some(leader) = self.best_of(&majority)
        {
            self.elect(leader, &majority);
            return;
        }
        self.assume_roles(&majority);
        self.catch_up_all();
    }

    /// Begins: all members start together, and no client is there yet.
    pub(crate) fn assemble(&mut self) {
        let membership = self.membership();
        let alone = self.is_alone();
        for member in &mut self.members {
            member.up = true;
            if !alone {
                member.tree.set_membership(&membership);
            }
        }
        self.settle();
    }

    /// Cuts the links between sets of members; those in none are a set too.
    pub(crate) fn split(&mut self, sides: &[Vec<MemberId>]) {
        for (at, member) in self.members.iter_mut().enumerate() {
            member.side = sides.iter().position(|side| side.contains(&at)).unwrap_or(sides.len());
        }
        self.settle();
    }

    /// Makes another member the leader: this one, or the best one. Returns it.
    pub(crate) fn change_leader(&mut self, to: Option<MemberId>) -> Option<MemberId> {
        let mut majority = self.majority();
        let leader = self.quorum.leader?;
        majority.retain(|at| *at != leader);
        let next = match to {
            Some(to) => majority.contains(&to).then_some(to),
            None => self.best_of(&majority),
        }?;
        majority.push(leader);
        self.record(Some(next), Fault::ChangeLeader);
        self.elect(next, &majority);
        Some(next)
    }

    /// Gives a member a reason to lag, for so many milliseconds after each commit or until further notice.
    pub(crate) fn begin_lag(&mut self, at: MemberId, delay: Option<u64>) -> u64 {
        self.quorum.lags += 1;
        let number = self.quorum.lags;
        self.members[at].lags.push(Lag { number, delay });
        self.record(Some(at), Fault::Lag(delay.map(Duration::from_millis)));
        number
    }

    /// Takes a reason to lag away.
    pub(crate) fn end_lag(&mut self, at: MemberId, number: u64) {
        self.members[at].lags.retain(|lag| lag.number != number);
        self.record(Some(at), Fault::LagEnd);
        self.catch_up_all();
    }

    /// Makes a member the leader of a majority.
    pub(super) fn elect(&mut self, leader: MemberId, majority: &[MemberId]) {
        self.quorum.leader = Some(leader);
        self.quorum.epoch += 1;
        tracing::info!(leader = leader + 1, epoch = self.quorum.epoch, "elected");
        self.assume_roles(majority);
        self.catch_up_at_once(leader);
        let now = self.clock.now();
        self.sessions.renew(false, now);
        self.zxid = self.quorum.epoch << 32;
        self.commit(0, [].into(), Action::Lead, None);
    }

    /// The members that have links to each other and are more than half of all; none when there are no such.
    pub(super) fn majority(&self) -> Vec<MemberId> {
        let takes_part = |member: &Member| member.up && !member.held && !member.is_apart;
        let of_side = |side: usize| -> Vec<MemberId> {
            let there = |at: &MemberId| takes_part(&self.members[*at]) && self.members[*at].side == side;
            (0..self.members.len()).filter(there).collect()
        };
        let mut sides = (0..self.members.len()).map(|at| of_side(self.members[at].side));
        sides.find(|side| side.len() * 2 > self.members.len()).unwrap_or_default()
    }

    /// Who wins an election: who has the longest log; of those one that does not lag, then the one with the
    /// highest number.
    pub(super) fn best_of(&self, members: &[MemberId]) -> Option<MemberId> {
        let rank = |at: &MemberId| (self.members[*at].logged, self.members[*at].lags.is_empty(), *at);
        members.iter().copied().max_by_key(rank)
    }

    fn assume_roles(&mut self, majority: &[MemberId]) {
        for at in 0..self.members.len() {
            // One that is held does not notice.
            if !self.members[at].held {
                self.assume_role(at, majority.contains(&at));
            }
        }
    }

    fn assume_role(&mut self, at: MemberId, is_among_majority: bool) {
        let takes_part = is_among_majority && self.quorum.leader.is_some();
        let (role, epoch) = match self.quorum.leader {
            _ if !takes_part => (Role::Looking, 0),
            Some(leader) if leader == at => (Role::Leader, self.quorum.epoch),
            _ => (Role::Follower, self.quorum.epoch),
        };
        let member = &mut self.members[at];
        let read_only = member.up && !takes_part && (self.config.read_only || member.is_apart);
        if (member.role, member.epoch, member.read_only) == (role, epoch, read_only) {
            return;
        }
        let was_read_only = std::mem::replace(&mut member.read_only, read_only);
        (member.role, member.epoch) = (role, epoch);
        if was_read_only {
            self.end_local_sessions(at);
        }
        self.cut_all(at);
        if takes_part {
            self.join(at);
        }
    }

    /// Gets the log of the majority, or a copy of its tree when it has missed too much.
    fn join(&mut self, at: MemberId) {
        let len = self.log.len();
        let is_forgotten = self.members[at].applied < len && self.log.get(self.members[at].applied).is_none();
        if is_forgotten {
            let Member { tree, zxid, applied, .. } = &self.members[self.latest()];
            let (tree, zxid, applied) = (tree.clone(), *zxid, *applied);
            let member = &mut self.members[at];
            (member.tree, member.zxid, member.applied) = (tree, zxid, applied);
        }
        self.members[at].logged = len;
    }

    /// The leader, or else the member that has applied most.
    pub(crate) fn latest(&self) -> MemberId {
        let most = || (0..self.members.len()).max_by_key(|at| self.members[*at].applied);
        self.quorum.leader.or_else(most).unwrap_or(0)
    }

    /// Whether transactions can be committed.
    pub(super) const fn can_commit(&self) -> bool {
        self.is_alone() || self.quorum.leader.is_some()
    }

    /// Whose tree decides about writes.
    pub(super) fn writer(&self) -> Option<MemberId> {
        if self.is_alone() { Some(0) } else { self.quorum.leader }
    }

    /// Whether a member is the leader.
    pub(super) fn leads(&self, at: MemberId) -> bool {
        self.quorum.leader == Some(at)
    }

    /// Whether a member gets what is committed.
    fn follows(&self, at: MemberId) -> bool {
        let member = &self.members[at];
        let has_leader = matches!(member.role, Role::Leader | Role::Follower);
        has_leader && !member.held && member.epoch == self.quorum.epoch && self.quorum.leader.is_some()
    }

    /// Adds a transaction to the log; everybody applies it who may.
    pub(super) fn replicate(&mut self, entry: Entry) {
        self.log.push(entry, self.clock.now());
        for at in 0..self.members.len() {
            if self.follows(at) {
                self.members[at].logged = self.log.len();
            }
        }
        self.catch_up_all();
        self.has_new_deadline |= self.next_to_apply().is_some();
    }

    /// Lets every member apply what it may.
    pub(super) fn catch_up_all(&mut self) {
        if self.is_alone() {
            return;
        }
        let now = self.clock.now();
        for at in 0..self.members.len() {
            while self.follows(at)
                && let Some(kept) = self.log.get(self.members[at].applied)
                && self.due(at, kept).is_some_and(|due| due <= now)
            {
                self.apply_next(at);
            }
        }
        self.forget_applied();
    }

    /// Lets a member apply all there is, however it lags.
    pub(super) fn catch_up_at_once(&mut self, at: MemberId) {
        while self.follows(at) && self.members[at].applied < self.log.len() {
            self.apply_next(at);
        }
        self.forget_applied();
    }

    fn apply_next(&mut self, at: MemberId) {
        let Some(Kept { entry, .. }) = self.log.get(self.members[at].applied) else {
            return;
        };
        let entry = entry.clone();
        self.members[at].applied += 1;
        self.apply(at, entry);
    }

    fn forget_applied(&mut self) {
        let len = self.log.len();
        let needs = |at: MemberId| {
            let applied = self.members[at].applied;
            if self.follows(at) || self.members[at].held {
                applied
            } else {
                applied.max(len.saturating_sub(KEPT_FOR_ABSENT))
            }
        };
        let needed = (0..self.members.len()).map(needs).min();
        self.log.forget(needed.unwrap_or(len));
    }

    /// When a member may apply an entry; `None` while it lags for an unknown time. A leader never lags.
    fn due(&self, at: MemberId, kept: &Kept) -> Option<u64> {
        if self.leads(at) {
            return Some(kept.at);
        }
        let lags = &self.members[at].lags;
        lags.iter().try_fold(kept.at, |due, lag| Some(due.max(kept.at.saturating_add(lag.delay?))))
    }

    /// When the next member applies an entry that it has and may not apply yet.
    pub(super) fn next_to_apply(&self) -> Option<u64> {
        let lagging = (0..self.members.len()).filter(|at| self.follows(*at));
        lagging.filter_map(|at| self.due(at, self.log.get(self.members[at].applied)?)).min()
    }

    /// How many followers have applied everything, and how many have not.
    pub(super) fn quorum_sizes(&self) -> (usize, usize) {
        let followers = (0..self.members.len()).filter(|at| self.follows(*at) && !self.leads(*at));
        let (synced, lagging): (Vec<_>, Vec<_>) =
            followers.partition(|at| self.members[*at].applied == self.log.len());
        (synced.len(), lagging.len())
    }

    /// The members as `/zookeeper/config` and `conf` list them.
    pub(super) fn membership(&self) -> String {
        let line = |(at, member): (MemberId, &Member)| {
            let (id, port) = (at + 1, member.port.unwrap_or(2181));
            let host = if member.port.is_some() { "127.0.0.1".to_owned() } else { format!("zk{id}") };
            format!("server.{id}={host}:{QUORUM_PORT}:{ELECTION_PORT}:participant;{host}:{port}\n")
        };
        let lines: String = self.members.iter().enumerate().map(line).collect();
        format!("{lines}version=0")
    }
}
