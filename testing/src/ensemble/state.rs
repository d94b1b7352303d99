//! [`State`]: everything behind the lock of a server or an ensemble. No I/O and no waiting.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator_proto::{ErrorCode, Response};

use super::journal::{Fault, Journal};
use super::snapshot::Snapshot;
use super::writes::Writes;
use crate::access::Identity;
use crate::clock::{Clock, millis};
use crate::config::Config;
use crate::ids::{ConnectionId, MemberId, Place};
use crate::member::{Member, Outbox};
use crate::quorum::{Action, Entry, Origin, Quorum, Settlement, Shift};
use crate::session::{Session, Sessions};

/// The state of a server or an ensemble: its members, and the shared quorum with the order of
/// transactions, sessions, and record of writes and faults.
///
/// Each part keeps its own invariants. This type keeps the invariants between parts:
/// * the connection of a session exists and has that session;
/// * each member that follows applies every transaction, in order, and the member that received it
///   responds;
/// * after a change of the quorum, connections and sessions match the new roles of members.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) config: Arc<Config>,
    pub(super) clock: Arc<Clock>,
    pub(super) quorum: Quorum,
    pub(super) sessions: Sessions,
    pub(super) members: Vec<Member>,
    journal: Journal,
    /// The changes of nodes, if they are kept.
    writes: Writes,
    /// `true` if the next deadline is earlier than the waiting tasks know.
    has_new_deadline: bool,
    /// The start of the hold of all members, on the clock of sessions.
    pub(super) held_since: Option<u64>,
    /// The milliseconds by which the wall clock of each member is ahead.
    pub(super) wall_ahead: Vec<i64>,
    /// The time at which each member took its role, on the clock of sessions.
    pub(super) in_role_since: Vec<u64>,
}

impl State {
    /// Creates a server, or an ensemble of this many, from a snapshot if there is one.
    pub(crate) fn new(config: Config, members: usize, snapshot: Option<Snapshot>) -> Self {
        let clock = Arc::new(Clock::new(config.wall_clock));
        let config = Arc::new(config);
        let tick = millis(config.tick_time);
        let mut state = Self {
            quorum: Quorum::new(members, config.read_only),
            sessions: Sessions::new(tick, config.seed),
            members: (0..members).map(|_| Member::new(&config, &clock)).collect(),
            journal: Journal::default(),
            writes: Writes::default(),
            has_new_deadline: false,
            held_since: None,
            wall_ahead: vec![0; members],
            in_role_since: vec![0; members],
            config,
            clock,
        };
        if let Some(Snapshot { zxid, tree, sessions }) = snapshot {
            let tree = tree.configured(&state.config);
            state.quorum.go_on_after(zxid);
            state.sessions =
                Sessions::restored(tick, state.config.seed, sessions, state.clock.now());
            for member in &mut state.members {
                member.set_tree(tree.clone(), zxid);
            }
            if !state.is_alone() || state.quorum.is_read_only(0) {
                state.sessions.suspend_global();
            }
        }
        state
    }

    /// Returns the committed state.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let latest = &self.members[self.quorum.latest()];
        Snapshot {
            zxid: latest.zxid(),
            tree: latest.tree().clone(),
            sessions: self.sessions.saved(),
        }
    }

    /// Returns `true` if this is a single server.
    pub(crate) const fn is_alone(&self) -> bool {
        self.quorum.is_alone()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) const fn quorum(&self) -> &Quorum {
        &self.quorum
    }

    pub(crate) const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn member(&self, at: MemberId) -> &Member {
        &self.members[at]
    }

    /// Returns the milliseconds for which a member has had its role. As in Apache ZooKeeper, they
    /// begin again with each election.
    pub(crate) fn uptime(&self, at: MemberId) -> u64 {
        self.clock.now().saturating_sub(self.in_role_since[at])
    }

    /// Returns a member, for changes that concern it alone.
    pub(crate) fn member_mut(&mut self, at: MemberId) -> &mut Member {
        &mut self.members[at]
    }

    pub(crate) const fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) const fn writes(&self) -> &Writes {
        &self.writes
    }

    /// Records a fault of one member or of all.
    pub(crate) fn record(&mut self, member: Option<MemberId>, fault: Fault) {
        let at = Duration::from_millis(self.clock.now());
        self.journal.add(at, member.filter(|_| !self.is_alone()), fault);
    }

    // Connections.

    /// Registers a connection before its handshake; `None` if its address has too many.
    pub(crate) fn open(
        &mut self,
        at: MemberId,
        outbox: Arc<Outbox>,
        peer: SocketAddr,
    ) -> Option<ConnectionId> {
        let limit = self.config.max_client_connections;
        self.members[at].connections_mut().open(outbox, peer, limit)
    }

    /// Removes a connection and its watches. The session stays open.
    pub(crate) fn detach(&mut self, place: Place) -> Option<Arc<Outbox>> {
        let connection = self.members[place.member].detach(place.connection)?;
        if let Some(session) = connection.session() {
            self.sessions.detach(session, place);
        }
        Some(Arc::clone(connection.outbox()))
    }

    /// Ends a connection immediately.
    pub(crate) fn cut(&mut self, place: Place) {
        if let Some(outbox) = self.detach(place) {
            outbox.cut();
        }
    }

    /// Ends a connection after its queued frames are sent.
    pub(crate) fn seal(&mut self, place: Place) {
        if let Some(outbox) = self.detach(place) {
            outbox.seal();
        }
    }

    /// Ends every connection of a member immediately.
    pub(crate) fn cut_all(&mut self, at: MemberId) -> usize {
        let connections = self.members[at].connections().ids();
        let number = connections.len();
        for connection in connections {
            self.cut(Place { member: at, connection });
        }
        number
    }

    // Sessions.

    /// Extends the deadline of a session.
    pub(super) fn touch(&mut self, session: i64) {
        self.sessions.touch(session, self.clock.now());
    }

    /// Expires a session; returns `true` if it existed. An ensemble without a leader cannot expire
    /// sessions.
    pub(super) fn expire(&mut self, session: i64) -> bool {
        let lives = |session: &Session| session.is_local() || self.quorum.can_commit();
        if !self.sessions.get(session).is_some_and(lives) {
            return false;
        }
        tracing::info!(session = format_args!("{session:#x}"), "session expired");
        self.end_session(session, None);
        true
    }

    /// Commits the end of a session. A local session needs no transaction. Only the connection that
    /// asked for it receives the last events.
    pub(super) fn end_session(&mut self, session: i64, origin: Option<Origin>) {
        let ended = self.sessions.remove(session);
        let is_local = ended.as_ref().is_some_and(Session::is_local);
        if let Some(place) = ended.as_ref().and_then(Session::connection)
            && origin.is_none()
            && (is_local || self.is_alone())
        {
            self.seal(place);
        }
        if !is_local {
            self.commit(session, [].into(), Action::CloseSession, origin);
        } else if let Some(origin) = origin {
            self.members[origin.place.member].reply(&origin, Ok(&Response::Empty));
            self.seal(origin.place);
        }
    }

    // Transactions.

    /// Commits a transaction. Each member applies it when due; the member that received it
    /// responds.
    pub(super) fn commit(
        &mut self,
        session: i64,
        identities: Arc<[Identity]>,
        action: Action,
        origin: Option<Origin>,
    ) {
        let takes_number = !matches!(
            action,
            Action::SetVersion { .. } | Action::SetSequence { .. } | Action::Lead
        );
        let zxid = if takes_number { self.quorum.next_zxid() } else { self.quorum.zxid() };
        let time = self.wall_time();
        let entry = Entry { zxid, time, session, identities, action, origin };
        if self.is_alone() {
            return self.apply(0, entry);
        }
        if let Some(Origin { place, .. }) = &entry.origin {
            self.members[place.member].wait_for_transaction(place.connection);
        }
        self.quorum.append(entry, self.clock.now());
        self.catch_up_all();
        self.has_new_deadline |= self.quorum.next_due().is_some();
    }

    /// Returns the time by the wall clock of the leader, in milliseconds since the Unix epoch.
    fn wall_time(&self) -> i64 {
        let ahead = self.quorum.writer().map_or(0, |leader| self.wall_ahead[leader]);
        self.clock.time().saturating_add(ahead)
    }

    /// Applies a transaction at a member.
    fn apply(&mut self, at: MemberId, mut entry: Entry) {
        let origin = entry.origin.take().filter(|origin| origin.place.member == at);
        let closes = matches!(entry.action, Action::CloseSession);
        if closes && !self.is_alone() {
            let asked = origin.as_ref().map(|origin| origin.place.connection);
            for connection in self.members[at].connections().of_session(entry.session) {
                if Some(connection) != asked {
                    self.seal(Place { member: at, connection });
                }
            }
        }
        let (zxid, session) = (entry.zxid, entry.session);
        let response = self.members[at].apply(entry);
        let changes = self.members[at].take_changes();
        self.writes.add(zxid, session, closes, changes);
        let Some(origin) = origin else {
            return;
        };
        if response == Err(ErrorCode::SessionMoved) {
            self.seal(origin.place);
            return;
        }
        self.members[at].reply(&origin, response.as_ref().map_err(|code| *code));
        if closes {
            self.seal(origin.place);
        } else if !self.is_alone() {
            self.members[at].go_on(origin.place.connection);
        }
    }

    /// Lets every member apply its due transactions.
    pub(super) fn catch_up_all(&mut self) {
        let now = self.clock.now();
        for at in 0..self.members.len() {
            while let Some(entry) = self.quorum.take_due(at, now) {
                self.apply(at, entry);
            }
        }
        self.quorum.forget_applied();
    }

    /// Lets a member apply all transactions, even if it lags.
    pub(super) fn catch_up_at_once(&mut self, at: MemberId) {
        while let Some(entry) = self.quorum.take_next(at) {
            self.apply(at, entry);
        }
        self.quorum.forget_applied();
    }

    /// Updates the ensemble after a change of the quorum.
    pub(super) fn settle(&mut self) {
        let settlement = self.quorum.settle();
        self.carry_out(settlement);
    }

    /// Applies the consequences of a change of the quorum. A member that changes its role or its
    /// leader ends its connections, as Apache ZooKeeper does.
    pub(super) fn carry_out(&mut self, settlement: Settlement) {
        let Settlement { deposed, shifts, elected } = settlement;
        if deposed {
            self.sessions.suspend_global();
        }
        for Shift { member, ends_local_sessions, copies } in shifts {
            self.in_role_since[member] = self.clock.now();
            if ends_local_sessions {
                self.sessions.remove_local(member);
            }
            self.cut_all(member);
            if let Some(from) = copies {
                let (tree, zxid) = (self.members[from].tree().clone(), self.members[from].zxid());
                self.members[member].set_tree(tree, zxid);
            }
        }
        match elected {
            Some(leader) => {
                self.catch_up_at_once(leader);
                self.sessions.renew(false, self.clock.now());
                self.commit(0, [].into(), Action::Lead, None);
            }
            None => self.catch_up_all(),
        }
    }

    // Time.

    /// Returns the next time at which something is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let next = self.sessions.next_deadline().into_iter().chain(self.quorum.next_due()).min()?;
        Some(self.clock.instant(next))
    }

    /// Returns `true` once after the next deadline has moved forward since the last call of
    /// [`State::next_deadline`].
    pub(crate) const fn take_new_deadline(&mut self) -> bool {
        std::mem::replace(&mut self.has_new_deadline, false)
    }

    /// Expires sessions and applies transactions that are due. No session expires while all members
    /// are suspended, even if a test advances the clock.
    pub(crate) fn do_overdue(&mut self) {
        if self.held_since.is_none() {
            for session in self.sessions.overdue(self.clock.now()) {
                self.expire(session);
            }
        }
        self.catch_up_all();
    }

    /// Removes due containers and nodes with a time to live; returns their paths.
    pub(crate) fn reap(&mut self) -> Vec<String> {
        let due = self.reapable();
        for path in &due {
            self.commit(0, [].into(), Action::Reap(Arc::clone(path)), None);
        }
        due.iter().map(ToString::to_string).collect()
    }

    /// Returns `true` if [`State::reap`] has anything to do.
    pub(crate) fn has_reapable(&self) -> bool {
        !self.reapable().is_empty()
    }

    fn reapable(&self) -> Vec<Arc<str>> {
        let never_used =
            self.config.max_never_used_interval.map_or(0, |time| millis(time).cast_signed());
        let Some(writer) = self.quorum.writer().filter(|at| !self.quorum.is_read_only(*at)) else {
            return Vec::new();
        };
        self.members[writer].tree().reapable(self.wall_time(), never_used)
    }
}
