//! The session as a pure state machine.

mod end;
mod input;
mod sasl;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator_proto::records::{AuthPacket, ConnectRequest, PASSWORD_LEN, WatcherType, WatchesRequest};
use zk_curator_proto::{Encoder, OpCode, Record, Request, XID_AUTH, XID_PING, frame};

use super::auth::AuthBook;
use super::hosts::{Contact, HostRing};
use super::{Answers, Batch, Command, Reply, RequestQueue, SessionState, StateHub, Submission, WatchEffect};
use crate::config::ZooKeeperBuilder;
use crate::connector::ConnectionFailure;
use crate::watch::Registry;
use crate::{ConnectString, Credentials, DisconnectedPolicy, Error, HostPort, SessionInfo, WatchedEvent};

/// A ping is never later than this, however long the session timeout.
const LONGEST_PING_INTERVAL: Duration = Duration::from_secs(10);

/// How many attempts to connect there must be time for before the session is lost.
const FEWEST_ATTEMPTS: u32 = 3;

/// How long a client of a read-only server waits before it looks for a writable one, the first time; twice as long
/// after every round over the others.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// The longest such pause.
const LONGEST_LOOK: Duration = Duration::from_secs(60);

/// While there is no session that could be lost meanwhile, an attempt to connect has this long at least, however short
/// the session timeout, and however many the hosts.
const SHORTEST_FIRST_ATTEMPT: Duration = Duration::from_secs(1);
/// A server that grants a longer session timeout than this, and than was asked for, is judged by the longer of these
/// two. Otherwise one that grants weeks could be silent for weeks.
const LONGEST_UNASKED: Duration = Duration::from_secs(60);

/// How many connections in a row may refuse to re-arm one-shot watches before these end.
const MOST_REARM_REFUSALS: u32 = 3;

/// While an attempt to connect is under way, the next host is tried after this time, as RFC 8305 recommends.
const STAGGER: Duration = Duration::from_millis(250);

/// Stands for "never" where a deadline is too far away to be a point in time.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// The effects that the driver performs, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Open a connection, beside others; then [`Machine::on_connected`] or [`Machine::on_attempt_failed`]. The first that is
    /// open ends the other attempts.
    Connect(HostPort),
    /// Give up the attempt to connect to this host.
    Abandon(HostPort),
    /// Ask the provider for the credentials of the open connection; then [`Machine::on_credentials`].
    Ask,
    /// Ask a server, on a connection of its own, whether it is writable; then [`Machine::on_looked`].
    Look(HostPort),
    /// Drop the connection, or all attempts, and what was read from it.
    Disconnect,
    /// Stop.
    Done,
}

/// The session as data: bytes, commands and time in; bytes, answers, states, effects and the next timer out.
///
/// It has no clock, no task and no socket of its own. Every method takes the time; the driver performs
/// [`Machine::next_effect`], writes [`Machine::output`], and calls [`Machine::on_timer`] at
/// [`Machine::next_timer`]. A state is published before the requests that fail with it are answered.
#[derive(Debug)]
pub(crate) struct Machine {
    states: Arc<StateHub>,
    queue: Arc<RequestQueue>,
    disconnected: DisconnectedPolicy,
    requested_timeout: Duration,
    /// After which part of the session timeout without a connection the session is given up.
    expiration_percent: u8,
    slow_request: Duration,
    close_timeout: Duration,
    max_request: usize,
    max_answer: usize,
    /// How many bytes of an answer over the limit are still to come.
    skipping: usize,
    hosts: HostRing,

    phase: Phase,
    /// The attempts to connect that are under way, in the order in which they began.
    attempts: Vec<Attempt>,
    /// The host of the connection, or of the last one.
    peer: Option<HostPort>,
    session: Option<Session>,
    last_zxid: i64,
    /// Until the first server takes the session, if an earlier session has seen a transaction.
    demand: Option<Demand>,
    last_xid: i32,
    /// Waiting for a connection, by number. Their deadlines never decrease.
    queued: BTreeMap<u64, Queued>,
    last_queued: u64,
    /// Sent, in the order in which the server answers.
    in_flight: VecDeque<InFlight>,
    pings: VecDeque<Instant>,
    /// The requests to re-arm watches that are under way.
    rearming: VecDeque<Request>,
    /// How many connections in a row have refused to re-arm one-shot watches.
    rearm_refusals: u32,
    sasl: sasl::Sasl,
    auth: AuthBook,
    /// Whether a provider is asked for the credentials of every connection.
    asks: bool,
    /// Whether the last credentials that a provider supplied were refused.
    refused_once: bool,
    watches: Registry,
    /// The receivers of all events of nodes, besides the watches.
    events: Option<mpsc::UnboundedSender<WatchedEvent>>,
    closing: Option<Closing>,
    reach: Reach,
    /// The session was given up by our own clock, and a server is to be told.
    farewell: Option<Farewell>,

    out: BytesMut,
    answers: Answers,
    effects: VecDeque<Effect>,
    last_sent: Instant,
    last_answer: Instant,
    /// When the last request that was answered had been sent, at the earliest: the server has seen the
    /// session at this time or later.
    seen_alive: Instant,
    /// When the last connection was lost, or the session granted.
    lost_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Between two attempts.
    Waiting { until: Instant },
    /// The driver opens connections; to the next host at this time.
    Connecting { next: Instant },
    /// A connection is open; the provider is asked for its credentials.
    Asking { deadline: Instant },
    /// The connect request was sent.
    Handshaking { sent_at: Instant, deadline: Instant },
    /// A server has taken the session; the client proves who it is.
    Authenticating { xid: i32, sent_at: Instant, deadline: Instant },
    /// A server serves the session.
    Connected,
    /// Over.
    Ended(SessionState),
}

/// An earlier session has seen this transaction, so servers that have not are not content.
#[derive(Debug)]
struct Demand {
    zxid: i64,
    /// Since when servers were reached and did not take the session.
    refused_since: Option<Instant>,
}

#[derive(Debug)]
struct Attempt {
    host: HostPort,
    /// Until when a server must have taken the session.
    deadline: Instant,
}

#[derive(Debug, Clone)]
struct Session {
    info: SessionInfo,
    password: Bytes,
}

#[derive(Debug)]
struct Queued {
    deadline: Instant,
    submission: Submission,
    body: Box<[u8]>,
}

#[derive(Debug)]
struct InFlight {
    xid: i32,
    sent_at: Instant,
    what: Sent,
    /// The node on the server whose data or children were asked for: answers of any length.
    reads: Option<Box<str>>,
}

#[derive(Debug)]
enum Sent {
    /// A caller waits for the answer.
    Request(Submission),
    /// The end of the session.
    Close,
    /// The removal of watches that nobody waits for: its answer is of no interest.
    Removal,
}

/// The kind of the present server, and the deadline for finding one.
#[derive(Debug)]
struct Reach {
    /// Whether a read-only server will do.
    read_only_allowed: bool,
    /// Whether the present server is one.
    read_only: bool,
    /// Whether the session is known to the ensemble, and not only to a read-only server.
    of_ensemble: bool,
    /// When to look for a writable server next, and how often that was done.
    look_at: Instant,
    looks: u32,
    /// Until when the first server must be reached.
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct Farewell {
    deadline: Instant,
    waiters: Vec<oneshot::Sender<Result<(), Error>>>,
}

#[derive(Debug)]
struct Closing {
    /// Whether the session is to live on.
    detach: bool,
    deadline: Instant,
    sent: bool,
    acknowledged: bool,
    waiters: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl Machine {
    pub(crate) fn new(
        config: &ZooKeeperBuilder,
        target: &ConnectString,
        states: Arc<StateHub>,
        queue: Arc<RequestQueue>,
        now: Instant,
    ) -> Self {
        let last_zxid =
            config.resume.as_ref().map_or(config.last_zxid_seen, |credentials| credentials.last_zxid);
        states.has_seen(last_zxid);
        Self {
            states,
            queue,
            disconnected: config.disconnected,
            requested_timeout: config.session_timeout,
            expiration_percent: config.expiration_percent,
            close_timeout: config.close_timeout,
            max_request: config.max_frame,
            max_answer: config
                .max_answer
                .map_or_else(|| config.max_frame.saturating_mul(4), |limit| limit.max(config.max_frame)),
            skipping: 0,
            hosts: HostRing::new(target.hosts.clone(), config.seed),
            phase: Phase::Waiting { until: now },
            attempts: Vec::new(),
            peer: None,
            session: config.resume.as_ref().map(|credentials| Session {
                info: SessionInfo::new(credentials.id, config.session_timeout),
                password: credentials.password.clone(),
            }),
            last_zxid,
            demand: (config.resume.is_none() && config.last_zxid_seen > 0)
                .then_some(Demand { zxid: config.last_zxid_seen, refused_since: None }),
            last_xid: 0,
            queued: BTreeMap::new(),
            last_queued: 0,
            in_flight: VecDeque::new(),
            pings: VecDeque::new(),
            rearming: VecDeque::new(),
            rearm_refusals: 0,
            sasl: sasl::Sasl::new(config.sasl.clone()),
            auth: AuthBook::default(),
            asks: config.credentials.is_some(),
            refused_once: false,
            watches: Registry::default(),
            events: config.events.clone(),
            closing: None,
            reach: Reach {
                read_only_allowed: config.read_only,
                read_only: false,
                of_ensemble: config.resume.is_some(),
                look_at: now,
                looks: 0,
                deadline: config.connect_deadline.map(|deadline| after(now, deadline)),
            },
            farewell: None,
            slow_request: config.slow_request,
            out: BytesMut::new(),
            answers: Answers::default(),
            effects: VecDeque::new(),
            last_sent: now,
            last_answer: now,
            seen_alive: now,
            lost_at: now,
        }
    }

    /// Returns the next effect, if there is one.
    pub(super) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Bytes to write; the driver removes what it has written.
    pub(super) const fn output(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// When [`Machine::on_timer`] is due.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Waiting { until } => Some(until),
            Phase::Connecting { next } => {
                self.attempts.iter().map(|attempt| attempt.deadline).chain([next]).min()
            }
            Phase::Asking { deadline }
            | Phase::Handshaking { deadline, .. }
            | Phase::Authenticating { deadline, .. } => Some(deadline),
            Phase::Connected => Some((self.last_sent + self.ping_interval()).min(self.silent_at())),
            Phase::Ended(_) => return None,
        };
        let queued = self.queued.first_key_value().map(|(_, queued)| queued.deadline);
        let closing = self.closing.as_ref().map(|closing| closing.deadline);
        let farewell = self.farewell.as_ref().map(|farewell| farewell.deadline);
        let look = (self.phase == Phase::Connected && self.reach.read_only).then_some(self.reach.look_at);
        [phase, queued, closing, farewell, look, self.reach.deadline, self.expires_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Brings the answers to those who wait for them: many at once, but before anything is told that came later.
    pub(super) fn deliver(&mut self) {
        self.queue.deliver(&mut self.answers);
    }

    /// Time has passed.
    pub(super) fn on_timer(&mut self, now: Instant) {
        if self.closing.as_ref().is_some_and(|closing| closing.deadline <= now) {
            return self.end(SessionState::Closed);
        }
        if self.farewell.as_ref().is_some_and(|farewell| farewell.deadline <= now) {
            return self.end_farewell(&Err(Error::ConnectionLoss { sent: false }));
        }
        if self.reach.deadline.is_some_and(|deadline| deadline <= now) {
            return self.end(SessionState::Unreachable);
        }
        if self.expires_at().is_some_and(|deadline| deadline <= now) {
            warn!("no server answered for the session timeout");
            return self.expire_by_clock(now);
        }
        while let Some(queued) = self.queued.first_entry().filter(|queued| queued.get().deadline <= now) {
            self.answers.push(queued.remove().submission.reply, Err(Error::NotConnected));
        }
        self.detach_if_done();
        match self.phase {
            Phase::Waiting { until } if until <= now => self.attempt(now),
            Phase::Connecting { next } => {
                while let Some(late) = self.attempts.iter().find(|attempt| attempt.deadline <= now) {
                    let host = late.host.clone();
                    self.effects.push_back(Effect::Abandon(host.clone()));
                    self.on_attempt_failed(&host, io::ErrorKind::TimedOut.into(), now);
                }
                if next <= now && matches!(self.phase, Phase::Connecting { .. }) {
                    self.attempt(now);
                }
            }
            Phase::Asking { deadline } if deadline <= now => {
                self.disconnect(now, "the credentials provider did not answer in time");
            }
            Phase::Handshaking { deadline, .. } | Phase::Authenticating { deadline, .. }
                if deadline <= now =>
            {
                self.disconnect(now, "no answer to the connection attempt");
            }
            Phase::Connected if self.silent_at() <= now => {
                self.disconnect(now, "the server is silent");
            }
            Phase::Connected if self.reach.read_only && self.reach.look_at <= now => {
                let host = self.hosts.other(self.reach.looks);
                self.reach.looks = self.reach.looks.saturating_add(1);
                let others = u32::try_from(self.hosts.len().saturating_sub(1)).unwrap_or(u32::MAX).max(1);
                let round = self.reach.looks / others;
                let pause = FIRST_LOOK.saturating_mul(1 << round.min(16)).min(LONGEST_LOOK);
                self.reach.look_at = now + pause;
                self.effects.push_back(Effect::Look(host));
            }
            Phase::Connected if self.last_sent + self.ping_interval() <= now => {
                self.pings.push_back(now);
                self.put_request(XID_PING, &Request::Ping, now);
            }
            _ => {}
        }
    }

    /// Tries the next host, if there is one that is not tried already.
    fn attempt(&mut self, now: Instant) {
        let attempts = &self.attempts;
        let busy = |host: &HostPort| attempts.iter().any(|attempt| attempt.host == *host);
        let Some(host) = self.hosts.attempt(now, busy) else {
            self.phase = Phase::Connecting { next: now + FAR };
            return;
        };
        debug!(%host, "connecting");
        self.attempts.push(Attempt { host: host.clone(), deadline: now + self.attempt_limit() });
        let others = self.attempts.len() < self.hosts.len();
        self.phase = Phase::Connecting { next: now + if others { STAGGER } else { FAR } };
        self.effects.push_back(Effect::Connect(host));
    }

    /// A connection could not be opened. The next host need not wait for the others.
    pub(super) fn on_attempt_failed(&mut self, host: &HostPort, why: io::Error, now: Instant) {
        let Some(place) = self.attempts.iter().position(|attempt| attempt.host == *host) else { return };
        self.attempts.remove(place);
        let why = ConnectionFailure::of_attempt(host, why);
        match self.phase {
            Phase::Connecting { next } if !self.attempts.is_empty() => {
                debug!(%why, "connection attempt failed");
                self.states.failed(why);
                self.phase = Phase::Connecting { next: next.min(self.hosts.not_before(now)) };
            }
            _ => self.lose(now, why),
        }
    }

    /// A connection is open, the first of those that were asked for: only this one is used.
    pub(super) fn on_connected(&mut self, host: &HostPort, now: Instant) {
        let Some(place) = self.attempts.iter().position(|attempt| attempt.host == *host) else { return };
        let Attempt { host, deadline } = self.attempts.swap_remove(place);
        self.attempts.clear();
        self.hosts.reached(&host);
        self.peer = Some(host);
        if self.asks {
            self.phase = Phase::Asking { deadline };
            self.effects.push_back(Effect::Ask);
        } else {
            self.handshake(deadline, now);
        }
    }

    /// The provider has answered.
    pub(super) fn on_credentials(
        &mut self,
        credentials: Result<Credentials, Box<dyn std::error::Error + Send + Sync>>,
        now: Instant,
    ) {
        let Phase::Asking { deadline } = self.phase else { return };
        match credentials {
            Ok(Credentials { auth, sasl }) => {
                self.auth.provide(auth);
                self.sasl.provide(sasl);
                self.handshake(deadline, now);
            }
            Err(why) => {
                self.lose(now, ConnectionFailure::of_connection(self.peer.as_ref(), io::Error::other(why)));
            }
        }
    }

    /// Whether a refusal of credentials is not final yet: a provider may have supplied them just before they were replaced.
    const fn asks_again(&mut self) -> bool {
        let asks_again = self.asks && !self.refused_once;
        self.refused_once = true;
        asks_again
    }

    fn handshake(&mut self, deadline: Instant, now: Instant) {
        self.phase = Phase::Handshaking { sent_at: now, deadline };
        self.last_sent = now;
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout: i32::try_from(self.requested_timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: self.session.as_ref().map_or(0, |session| session.info.id.get()),
            password: Some(match &self.session {
                Some(session) => session.password.clone(),
                None => Bytes::from_static(&[0; PASSWORD_LEN]),
            }),
            read_only: self.reach.read_only_allowed,
        };
        frame::put(&mut self.out, |body| request.encode(body));
    }

    /// The connection failed, or was closed by the server.
    pub(super) fn on_io_error(&mut self, now: Instant, why: io::Error) {
        if !matches!(self.phase, Phase::Waiting { .. } | Phase::Connecting { .. } | Phase::Ended(_)) {
            if matches!(self.phase, Phase::Handshaking { .. }) {
                self.not_taken(now);
            }
            self.lose(now, ConnectionFailure::of_connection(self.peer.as_ref(), why));
        }
    }

    /// A server closed the connection in answer to the connect request. That is how one refuses a client that has seen more
    /// than it has. After a session timeout no server is likely to have it ever again: the data were restored from a backup.
    fn not_taken(&mut self, now: Instant) {
        let Some(demand) = &mut self.demand else { return };
        let (zxid, since) = (demand.zxid, *demand.refused_since.get_or_insert(now));
        if now.saturating_duration_since(since) < self.requested_timeout {
            return;
        }
        warn!(
            zxid = format_args!("{zxid:#x}"),
            "no server has the last transaction that this client has seen: goes on without it, and reads may go back in time"
        );
        self.demand = None;
        self.last_zxid = 0;
        self.states.history_lost(zxid);
    }

    /// A server has said whether it is writable.
    pub(super) fn on_looked(&mut self, host: &HostPort, writable: bool, now: Instant) {
        if writable && self.phase == Phase::Connected && self.reach.read_only {
            self.hosts.prefer(host);
            self.disconnect(now, "there is a writable server");
        }
    }

    /// Handles ask for something.
    pub(super) fn on_batch(&mut self, batch: &mut Batch, now: Instant) {
        for number in batch.withdrawn.drain(..) {
            if let Some(queued) = self.queued.remove(&number) {
                self.queue.discard(queued.submission.reply);
            }
        }
        self.detach_if_done();
        for command in batch.commands.drain(..) {
            match command {
                Command::Request { submission, body, hurried } => {
                    let body = batch.bodies.as_slice().get(body).unwrap_or_default();
                    self.on_request(submission, body, hurried, now);
                }
                Command::AddAuth { packet, reply } => self.on_auth(*packet, reply, now),
                Command::ForgetWatch { path } => {
                    let remove = self.watches.forget(&path);
                    self.remove_watches(&path, remove, now);
                }
                Command::Close { done } => self.on_close(Some(done), false, now),
                Command::Detach { done } => self.on_close(Some(done), true, now),
                Command::ReplaceHosts { hosts } => self.on_hosts(hosts, now),
            }
        }
    }

    fn on_auth(&mut self, packet: AuthPacket, reply: Reply, now: Instant) {
        if let Some(error) = self.refusal() {
            return self.answers.push(reply, Err(error));
        }
        self.auth.add(packet, reply, &mut self.answers);
        if self.phase == Phase::Connected {
            self.send_auth(now);
        }
    }

    fn on_hosts(&mut self, hosts: Vec<HostPort>, now: Instant) {
        let contact = match self.phase {
            Phase::Waiting { .. } | Phase::Ended(_) => Contact::None,
            Phase::Connected => Contact::Connection,
            _ => Contact::Attempt,
        };
        if self.hosts.replace(hosts, contact) {
            self.disconnect(now, "the client moves to another server");
        } else if let Phase::Connecting { next } = self.phase {
            let (kept, left) = std::mem::take(&mut self.attempts)
                .into_iter()
                .partition(|attempt| self.hosts.contains(&attempt.host));
            self.attempts = kept;
            self.effects.extend(left.into_iter().map(|attempt: Attempt| Effect::Abandon(attempt.host)));
            let next = if self.attempts.is_empty() { now } else { next.min(now + STAGGER) };
            self.phase = Phase::Connecting { next };
        } else if let Phase::Waiting { until } = self.phase {
            self.phase = Phase::Waiting { until: until.min(self.hosts.not_before(now)) };
        }
    }

    fn on_request(&mut self, submission: Submission, body: &[u8], hurried: bool, now: Instant) {
        if let Some(error) = self.refusal() {
            return self.answers.push(submission.reply, Err(error));
        }
        match (self.phase, self.disconnected) {
            (Phase::Connected, _) if hurried => self.send_if_awaited(submission, body, now),
            (Phase::Connected, _) => self.send(submission, body, now),
            (_, DisconnectedPolicy::FailFast) => {
                self.answers.push(submission.reply, Err(Error::NotConnected));
            }
            (_, DisconnectedPolicy::Wait(patience)) => {
                let (deadline, number) = (after(now, patience), self.last_queued + 1);
                let Submission { opcode, reply, watch } = submission;
                if let Some(reply) = self.queue.mark_queued(reply, number) {
                    let submission = Submission { opcode, reply, watch };
                    self.queued.insert(number, Queued { deadline, submission, body: body.into() });
                    self.last_queued = number;
                }
            }
        }
    }

    /// Why new requests are refused, if they are.
    fn refusal(&self) -> Option<Error> {
        match self.phase {
            Phase::Ended(state) => state.end(),
            _ if self.farewell.is_some() => Some(Error::SessionExpired { sent: false }),
            _ if self.closing.is_some() => Some(Error::Closed { sent: false }),
            _ => None,
        }
    }

    fn send_auth(&mut self, now: Instant) {
        for request in self.auth.unsent() {
            self.put_request(XID_AUTH, &request, now);
        }
    }

    fn send_close(&mut self, now: Instant) {
        if let Some(closing) = &mut self.closing {
            if closing.detach {
                return self.detach_if_done();
            }
            closing.sent = true;
        }
        let xid = self.next_xid();
        self.put_request(xid, &Request::CloseSession, now);
        self.in_flight.push_back(InFlight { xid, sent_at: now, what: Sent::Close, reads: None });
    }

    /// Tells the server of watches that nobody waits for any more.
    fn remove_watches(&mut self, path: &str, watcher_type: Option<WatcherType>, now: Instant) {
        if let (Phase::Connected, Some(watcher_type), None) = (self.phase, watcher_type, &self.closing) {
            let xid = self.next_xid();
            let body = WatchesRequest { path: path.to_owned(), watcher_type: watcher_type.code() };
            self.put_request(xid, &Request::RemoveWatches(body), now);
            self.in_flight.push_back(InFlight { xid, sent_at: now, what: Sent::Removal, reads: None });
        }
    }

    /// A caller that no longer waits does not want it sent, and it never was.
    fn send_if_awaited(&mut self, submission: Submission, body: &[u8], now: Instant) {
        let Submission { opcode, reply, watch } = submission;
        if let Some(reply) = self.queue.mark_sent(reply) {
            self.send(Submission { opcode, reply, watch }, body, now);
        }
    }

    fn send(&mut self, submission: Submission, body: &[u8], now: Instant) {
        let xid = self.next_xid();
        self.put_frame(xid, submission.opcode, body, now);
        if let Some(WatchEffect::Arm(_, path, _)) = submission.watch.as_deref() {
            self.watches.expect(path);
        }
        let reads = node_read(submission.opcode, body);
        self.in_flight.push_back(InFlight { xid, sent_at: now, what: Sent::Request(submission), reads });
    }

    fn put_request(&mut self, xid: i32, request: &Request, now: Instant) {
        let mut body = Encoder::new();
        request.encode_body(&mut body);
        self.put_frame(xid, request.opcode(), body.as_slice(), now);
    }

    fn put_frame(&mut self, xid: i32, opcode: OpCode, body: &[u8], now: Instant) {
        frame::put_parts(&mut self.out, &[&xid.to_be_bytes(), &opcode.code().to_be_bytes(), body]);
        self.last_sent = now;
    }

    /// Positive, because the negative ones are reserved.
    const fn next_xid(&mut self) -> i32 {
        self.last_xid = if self.last_xid == i32::MAX { 1 } else { self.last_xid + 1 };
        self.last_xid
    }

    /// When the session must be taken for dead: only without a connection, and never before the server does.
    fn expires_at(&self) -> Option<Instant> {
        match (&self.session, self.phase) {
            (_, Phase::Ended(_)) | (None, _) => None,
            _ if self.farewell.is_some() => None,
            (Some(_), _) if self.is_kept_alive() => None,
            (Some(session), _) => Some(self.certain_until(session)),
        }
    }

    /// Whether there is a connection that keeps the session alive. That to a read-only server does not: it does not tell the
    /// ensemble that we live.
    fn is_kept_alive(&self) -> bool {
        self.phase == Phase::Connected && !(self.reach.read_only && self.reach.of_ensemble)
    }

    /// Until when the server cannot have ended the session without being asked to, and we do not give it up either.
    fn certain_until(&self, session: &Session) -> Instant {
        let timeout = session.info.timeout;
        let expires = self.seen_alive + timeout;
        if self.expiration_percent >= 100 || self.is_kept_alive() {
            return expires;
        }
        expires.min(self.lost_at + timeout.mul_f64(f64::from(self.expiration_percent) / 100.0))
    }

    /// Tells those who judge the session by themselves until when it is certain.
    fn publish_validity(&self) {
        if self.farewell.is_none() && !matches!(self.phase, Phase::Ended(_)) {
            self.states.valid_until(self.session.as_ref().map(|session| self.certain_until(session)));
        }
    }

    fn timeout(&self) -> Duration {
        self.session.as_ref().map_or(self.requested_timeout, |session| session.info.timeout)
    }

    /// The session timeout as far as a server is judged by it. How long the session lives is for the servers to say.
    fn judged_timeout(&self) -> Duration {
        self.timeout().min(self.requested_timeout.max(LONGEST_UNASKED))
    }

    /// How long an attempt to connect may take. A single server that takes a connection and then says nothing, as one
    /// that is just starting may, must not cost the session.
    fn attempt_limit(&self) -> Duration {
        let attempts = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(FEWEST_ATTEMPTS);
        let share = self.judged_timeout() / attempts;
        let share = match self.disconnected {
            // Requests that wait for a connection get to see more than one server. Servers that all need longer get it: twice as
            // long after every round.
            DisconnectedPolicy::Wait(patience) => {
                let first = (patience / attempts).max(SHORTEST_FIRST_ATTEMPT);
                share.min(first.saturating_mul(1 << self.hosts.failed_rounds().min(16)))
            }
            DisconnectedPolicy::FailFast => share,
        };
        if self.session.is_none() { share.max(SHORTEST_FIRST_ATTEMPT) } else { share }
    }

    fn ping_interval(&self) -> Duration {
        (self.judged_timeout() / 3).min(LONGEST_PING_INTERVAL)
    }

    /// When a connection without further answers is given up. An answer that was long on its way shows that the server
    /// heard us when we asked, no later: from then on it counts, and ends the session without a word that reaches us.
    /// Another connection, which has no backlog, may still save it. A read-only server keeps no session alive in any case.
    fn silent_at(&self) -> Instant {
        let silent = self.last_answer + self.silence_limit();
        if self.reach.read_only { silent } else { silent.min(self.seen_alive + self.timeout() / 6 * 5) }
    }

    fn silence_limit(&self) -> Duration {
        self.judged_timeout() * 2 / 3
    }
}

/// The node whose data or children a request asks for.
fn node_read(opcode: OpCode, body: &[u8]) -> Option<Box<str>> {
    if !matches!(opcode, OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2) {
        return None;
    }
    let (length, path) = body.split_first_chunk::<4>()?;
    let path = path.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    std::str::from_utf8(path).ok().map(Box::from)
}

/// `now + delay`, or the far future.
fn after(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay).unwrap_or_else(|| now + FAR)
}
