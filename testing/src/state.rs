//! [`State`]: everything behind the one lock of a server or an ensemble: the members, and what they share: the
//! sessions, the order of transactions, the faults. No I/O and no waiting.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use zk_curator_proto::records::{ConnectRequest, ConnectResponse, DeleteRequest, MultiOp, PASSWORD_LEN};
use zk_curator_proto::{ErrorCode, Request, Response};

use crate::SequenceOverflow;
use crate::access::Identity;
use crate::builder::Config;
use crate::clock::{Clock, millis};
use crate::journal::{Fault, Journal};
use crate::log::{Action, Entry, Handshake, Log, Origin, Reply};
use crate::member::{Member, MemberId};
use crate::outbox::Outbox;
use crate::quorum::Quorum;
use crate::rule::{RuleRequest, Verdict};
use crate::session::{Place, Sessions};
use crate::snapshot::Snapshot;
use crate::watch::ConnectionId;
use crate::writes::Writes;

/// Everything a server knows, or the servers of an ensemble.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) config: Arc<Config>,
    pub(super) clock: Arc<Clock>,
    pub(super) sessions: Sessions,
    pub(super) journal: Journal,
    pub(super) members: Vec<Member>,
    pub(super) log: Log,
    /// What was written, where that is kept.
    pub(crate) writes: Writes,
    pub(super) quorum: Quorum,
    /// The last transaction that was committed.
    pub(super) zxid: i64,
    /// Whether something is due that those who wait for the next deadline do not know of.
    pub(super) has_new_deadline: bool,
    /// Since when all members are held, on the clock of sessions.
    held_since: Option<u64>,
}

impl State {
    /// One server, or an ensemble of so many, with what was kept of another.
    pub(crate) fn new(config: Config, members: usize, snapshot: Option<Snapshot>) -> Self {
        let mut state = Self::empty(config, members);
        if let Some(Snapshot { zxid, tree, sessions }) = snapshot {
            let (tick, now) = (millis(state.config.tick_time), state.clock.now());
            let tree = tree.configured(&state.config);
            state.zxid = zxid;
            state.quorum.epoch = zxid >> 32;
            state.sessions = Sessions::restored(tick, state.config.seed, sessions, now);
            for member in &mut state.members {
                (member.tree, member.zxid) = (tree.clone(), zxid);
            }
            if !state.is_alone() || state.members[0].read_only {
                state.sessions.suspend_global();
            }
        }
        state
    }

    /// What servers start with that were never there.
    fn empty(config: Config, members: usize) -> Self {
        let clock = Arc::new(Clock::new(config.wall_clock));
        let config = Arc::new(config);
        Self {
            sessions: Sessions::new(millis(config.tick_time), config.seed),
            journal: Journal::default(),
            members: (0..members).map(|_| Member::new(&config, &clock, members == 1)).collect(),
            log: Log::default(),
            writes: Writes::default(),
            quorum: Quorum::default(),
            zxid: 0,
            has_new_deadline: false,
            held_since: None,
            config,
            clock,
        }
    }

    /// What is to be kept: what the members have agreed on.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let Member { zxid, tree, .. } = &self.members[self.latest()];
        Snapshot { zxid: *zxid, tree: tree.clone(), sessions: self.sessions.saved() }
    }

    /// Whether this is one server and no ensemble.
    pub(super) const fn is_alone(&self) -> bool {
        self.members.len() == 1
    }

    /// Registers a connection before its handshake; `None` when its address has too many.
    pub(crate) fn open(
        &mut self,
        at: MemberId,
        outbox: Arc<Outbox>,
        peer: SocketAddr,
    ) -> Option<ConnectionId> {
        self.members[at].open(outbox, peer)
    }

    /// Whether a connection has a session.
    pub(crate) fn has_session(&self, at: MemberId, id: ConnectionId) -> bool {
        self.members[at].connections.get(&id).is_some_and(|connection| connection.session.is_some())
    }

    /// Forgets a connection and its watches. Its session lives on.
    pub(crate) fn detach(&mut self, at: MemberId, id: ConnectionId) -> Option<Arc<Outbox>> {
        let connection = self.members[at].detach(id)?;
        if let Some(session) = connection.session {
            self.sessions.detach(session, Place { member: at, connection: id });
        }
        Some(connection.outbox)
    }

    /// Ends a connection at once.
    pub(crate) fn cut(&mut self, at: MemberId, id: ConnectionId) {
        if let Some(outbox) = self.detach(at, id) {
            outbox.cut();
        }
    }

    /// Ends a connection when what is queued for it has been sent.
    pub(crate) fn seal(&mut self, at: MemberId, id: ConnectionId) {
        if let Some(outbox) = self.detach(at, id) {
            outbox.seal();
        }
    }

    /// Ends every connection of a member at once.
    pub(crate) fn cut_all(&mut self, at: MemberId) {
        for id in self.members[at].connections.keys().copied().collect::<Vec<_>>() {
            self.cut(at, id);
        }
    }

    /// The handshake. Returns the session, or `None` when the connection was ended.
    ///
    /// `legacy` clients sent no read-only flag and get none.
    pub(crate) fn connect(
        &mut self,
        at: MemberId,
        id: ConnectionId,
        request: &ConnectRequest,
        legacy: bool,
    ) -> Option<i64> {
        let member = &mut self.members[at];
        member.count_received(id);
        let read_only = member.read_only;
        if let Some(reason) = self.reason_to_refuse(at, request) {
            tracing::info!(seen = request.last_zxid_seen, last = self.members[at].zxid, "refused: {reason}");
            self.cut(at, id);
            return None;
        }
        let asked = u64::try_from(request.timeout).unwrap_or(0);
        let (shortest, longest) = self.config.session_timeouts();
        let timeout = asked.max(millis(shortest)).min(millis(longest));
        let (here, now) = (Place { member: at, connection: id }, self.clock.now());
        let opens = request.session_id == 0;
        let session = if opens {
            Some(self.sessions.create(here, timeout, read_only, now))
        } else {
            // Another member does not hear of the move: its connection ends when it is used.
            let before = self.sessions.get(request.session_id).and_then(|session| session.connection);
            if let Some(before) = before.filter(|before| before.member == at) {
                self.cut(at, before.connection);
            }
            let password = request.password.as_deref().unwrap_or_default();
            let lives = self.knows(at, request.session_id)
                && self.sessions.reattach(request.session_id, password, here, timeout, now);
            lives.then_some(request.session_id)
        };
        let response = ConnectResponse {
            protocol_version: 0,
            timeout: session.map_or(0, |_| i32::try_from(timeout).unwrap_or(i32::MAX)),
            session_id: session.unwrap_or(0),
            password: session
                .and_then(|session| self.sessions.password(session))
                .or_else(|| Some(Bytes::from_static(&[0; PASSWORD_LEN]))),
            read_only,
        };
        let connection = self.members[at].connections.get_mut(&id)?;
        connection.session = session;
        let reply = Reply::Handshake(Box::new(Handshake { response, legacy }));
        let origin = Origin { member: at, connection: id, reply };
        match session {
            // A session of a read-only server is known to no other one, and takes no transaction.
            Some(session) if opens && !read_only => {
                self.commit(session, [].into(), Action::OpenSession, Some(origin));
            }
            Some(_) => self.members[at].reply(&origin, Ok(&Response::Empty)),
            None => {
                tracing::info!(session = format_args!("{:#x}", request.session_id), "no such session");
                self.members[at].reply(&origin, Ok(&Response::Empty));
                self.seal(at, id);
            }
        }
        session
    }

    fn reason_to_refuse(&self, at: MemberId, request: &ConnectRequest) -> Option<&'static str> {
        let member = &self.members[at];
        if !member.serves() {
            return Some("the server has no quorum");
        }
        if member.read_only && !request.read_only {
            return Some("the server is read-only and the client is not content with that");
        }
        if request.last_zxid_seen > member.zxid {
            return Some("the client is ahead");
        }
        let is_global = || self.sessions.get(request.session_id).is_some_and(|session| !session.local);
        (member.read_only && is_global()).then_some("the session cannot go on at a read-only server")
    }

    /// Whether a session can be attached to a member. One of a read-only server is known to that one alone.
    fn knows(&self, at: MemberId, session: i64) -> bool {
        self.sessions.get(session).is_some_and(|found| {
            !found.local || (self.members[at].read_only && Sessions::home(session) == at)
        })
    }

    /// Ends a session as if its timeout had passed; whether it lived. An ensemble without a leader cannot.
    pub(crate) fn expire(&mut self, session: i64) -> bool {
        let lives = |session: &crate::session::Session| session.local || self.can_commit();
        if !self.sessions.get(session).is_some_and(lives) {
            return false;
        }
        tracing::info!(session = format_args!("{session:#x}"), "session expired");
        self.end_session(session, None);
        true
    }

    /// Ends every session whose timeout has passed.
    pub(crate) fn expire_overdue(&mut self) -> bool {
        let overdue = self.sessions.overdue(self.clock.now());
        for session in &overdue {
            self.expire(*session);
        }
        !overdue.is_empty()
    }

    /// The transaction that ends a session. A local one needs none. Its connections hear nothing of its last
    /// changes, but for the one that asked for it.
    pub(super) fn end_session(&mut self, session: i64, origin: Option<Origin>) {
        let ended = self.sessions.remove(session);
        let is_local = ended.as_ref().is_some_and(|session| session.local);
        if let Some(place) = ended.and_then(|session| session.connection)
            && origin.is_none()
            && (is_local || self.is_alone())
        {
            self.seal(place.member, place.connection);
        }
        if !is_local {
            self.commit(session, [].into(), Action::CloseSession, origin);
        } else if let Some(origin) = origin {
            self.members[origin.member].reply(&origin, Ok(&Response::Empty));
            self.seal(origin.member, origin.connection);
        }
    }

    /// Adds a transaction to the order. Each member applies it when it may, and then answers whoever waits.
    pub(super) fn commit(
        &mut self,
        session: i64,
        identities: Arc<[Identity]>,
        action: Action,
        origin: Option<Origin>,
    ) {
        let takes_number = !matches!(action, Action::SetSequence { .. } | Action::Lead);
        self.zxid += i64::from(takes_number);
        let (zxid, time) = (self.zxid, self.clock.time());
        let entry = Entry { zxid, time, session, identities, action, origin };
        if self.is_alone() {
            return self.apply(0, entry);
        }
        if let Some(origin) = &entry.origin {
            self.members[origin.member].wait_for_transaction(origin.connection);
        }
        self.replicate(entry);
    }

    /// Applies a transaction at a member.
    pub(super) fn apply(&mut self, at: MemberId, mut entry: Entry) {
        let origin = entry.origin.take().filter(|origin| origin.member == at);
        let closes = matches!(entry.action, Action::CloseSession);
        if closes && !self.is_alone() {
            let asked = origin.as_ref().map(|origin| origin.connection);
            for id in self.members[at].connections_of(entry.session) {
                if Some(id) != asked {
                    self.seal(at, id);
                }
            }
        }
        let (zxid, session) = (entry.zxid, entry.session);
        let response = self.members[at].apply(entry);
        let changes = std::mem::take(&mut self.members[at].changes);
        self.writes.add(zxid, session, closes, changes);
        let Some(origin) = origin else {
            return;
        };
        if response == Err(ErrorCode::SessionMoved) {
            self.seal(at, origin.connection);
            return;
        }
        self.members[at].reply(&origin, response.as_ref().map_err(|code| *code));
        if closes {
            self.seal(at, origin.connection);
        } else if !self.is_alone() {
            self.members[at].go_on(origin.connection);
        }
    }

    /// Removes containers and nodes with a time to live that are due; returns their paths.
    pub(crate) fn reap(&mut self) -> Vec<String> {
        let due = self.reapable();
        for path in &due {
            self.commit(0, [].into(), Action::Reap(Arc::clone(path)), None);
        }
        due.iter().map(ToString::to_string).collect()
    }

    /// Whether [`State::reap`] has anything to do.
    pub(crate) fn has_reapable(&self) -> bool {
        !self.reapable().is_empty()
    }

    fn reapable(&self) -> Vec<Arc<str>> {
        let never_used = self.config.max_never_used_interval.map_or(0, |time| millis(time).cast_signed());
        let writer = self.writer().filter(|at| !self.members[*at].read_only);
        writer.map_or_else(Vec::new, |at| self.members[at].tree.reapable(self.clock.time(), never_used))
    }

    /// Deletes a node and what is below it, whatever their ACLs and versions; returns the transactions that had created
    /// them.
    pub(crate) fn remove(&mut self, path: &str) -> Result<Vec<i64>, ErrorCode> {
        let writer = self.writer().filter(|at| !self.members[*at].read_only).ok_or(ErrorCode::NotReadOnly)?;
        let tree = &self.members[writer].tree;
        let node = tree.get(path).filter(|_| path != "/").ok_or(ErrorCode::NoNode)?;
        let below: Vec<_> = node.walk(path).map(|(path, node)| (path, node.stat().czxid)).collect();
        let superuser = Identity { scheme: "super".to_owned(), id: String::new() };
        // A node comes before those below it.
        for (path, _) in below.iter().rev() {
            let delete = MultiOp::Delete(DeleteRequest { path: path.clone(), version: -1 });
            self.commit(0, [superuser.clone()].into(), Action::Write(delete), None);
        }
        self.record(None, Fault::Remove { path: path.to_owned() });
        Ok(below.into_iter().map(|(_, czxid)| czxid).collect())
    }

    /// Makes `next` the number of the next sequential child of `path`.
    pub(crate) fn set_sequence(&mut self, path: &str, next: i32) -> Result<(), ErrorCode> {
        let writer = self.writer().ok_or(ErrorCode::NotReadOnly)?;
        if self.members[writer].tree.get(path).is_none() {
            return Err(ErrorCode::NoNode);
        }
        self.commit(0, [].into(), Action::SetSequence { path: path.to_owned(), next }, None);
        self.record(None, Fault::SetSequence { path: path.to_owned(), next });
        Ok(())
    }

    pub(crate) fn set_sequence_overflow(&mut self, overflow: SequenceOverflow) {
        for member in &mut self.members {
            member.tree.set_sequence_overflow(overflow);
        }
    }

    pub(crate) fn container_check_interval(&self) -> Duration {
        self.config.container_check_interval
    }

    /// Moves the clock of sessions and the wall clock, and does what is due.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.record(None, Fault::Advance(by));
        self.clock.advance(by);
        self.do_overdue();
        self.reap();
    }

    /// What the clock has come to: sessions to expire, transactions to apply.
    pub(crate) fn do_overdue(&mut self) {
        self.expire_overdue();
        self.catch_up_all();
    }

    /// One member does nothing from now on. The others do without it.
    pub(crate) fn hold(&mut self, at: MemberId) {
        if self.is_alone() {
            return self.hold_all();
        }
        self.record(Some(at), Fault::Hold);
        self.settle_with(at, |member| member.held = true);
    }

    /// One member goes on.
    pub(crate) fn release(&mut self, at: MemberId) {
        if self.is_alone() {
            return self.release_all();
        }
        self.record(Some(at), Fault::Release);
        self.settle_with(at, |member| member.held = false);
    }

    /// Stops the clock of sessions. Nobody notices.
    pub(crate) fn hold_all(&mut self) {
        self.record(None, Fault::Hold);
        let now = self.clock.now();
        self.held_since.get_or_insert(now);
        for member in &mut self.members {
            member.held = true;
        }
    }

    /// Lets the clock of sessions go on from where it stood.
    pub(crate) fn release_all(&mut self) {
        self.record(None, Fault::Release);
        if let Some(since) = self.held_since.take() {
            self.sessions.postpone(self.clock.now() - since);
        }
        for member in &mut self.members {
            member.held = false;
        }
        self.settle();
    }

    /// A member has stopped.
    pub(crate) fn stopped(&mut self, at: MemberId) {
        self.settle_with(at, |member| member.up = false);
    }

    /// A member has started. A server alone gives every session its whole timeout again.
    pub(crate) fn started(&mut self, at: MemberId) {
        if self.is_alone() {
            let now = self.clock.now();
            self.sessions.renew(self.members[0].read_only, now);
            self.held_since = self.held_since.map(|_| now);
        }
        self.settle_with(at, |member| member.up = true);
    }

    /// Notes a fault, of one member or of all.
    pub(crate) fn record(&mut self, member: Option<MemberId>, fault: Fault) {
        let at = Duration::from_millis(self.clock.now());
        self.journal.add(at, member.filter(|_| !self.is_alone()), fault);
    }

    /// Notes what a rule has decided, if it is a fault.
    pub(crate) fn record_verdict(&mut self, at: MemberId, session: i64, request: &Request, verdict: Verdict) {
        if verdict != Verdict::Pass {
            let path = RuleRequest::new(session, request).path().map(str::to_owned);
            let session = self.number_of(session);
            self.record(Some(at), Fault::Rule { verdict, session, opcode: request.opcode(), path });
        }
    }

    /// The number of a session; zero of one that does not live.
    pub(crate) fn number_of(&self, session: i64) -> u64 {
        self.sessions.get(session).map_or(0, |session| session.number)
    }

    /// Loses or finds the quorum: a server that does ends every connection.
    pub(crate) fn set_read_only(&mut self, at: MemberId, read_only: bool) {
        if self.members[at].is_apart == read_only {
            return;
        }
        self.record(Some(at), Fault::ReadOnly(read_only));
        if !self.is_alone() {
            self.settle_with(at, |member| member.is_apart = read_only);
            return;
        }
        self.members[at].is_apart = read_only;
        self.members[at].read_only = read_only;
        self.cut_all(at);
        if read_only {
            self.sessions.suspend_global();
        } else {
            self.end_local_sessions(at);
            self.started(at);
        }
    }

    /// The sessions of a server end with its read-only mode.
    pub(super) fn end_local_sessions(&mut self, at: MemberId) {
        for session in self.sessions.ids(true) {
            if Sessions::home(session) == at {
                self.sessions.remove(session);
            }
        }
    }

    /// When there is something to do next unless something happens.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let next = self.sessions.next_deadline().into_iter().chain(self.next_to_apply()).min()?;
        Some(self.clock.instant(next))
    }
}
