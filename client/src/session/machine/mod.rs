//! The session as a pure state machine.

mod authenticate;
mod end;
mod input;
mod parts;
mod sasl;
#[cfg(test)]
mod tests;
mod timing;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator_proto::records::{
    AddWatchMode, AuthPacket, ConnectRequest, PASSWORD_LEN, WatchesRequest,
};
use zk_curator_proto::{Encoder, OpCode, Record, Request, XID_AUTH, frame};

use self::parts::{
    ConnectAttempt, Demand, FAR, Farewell, GrantedSession, Queued, Reach, RequestInFlight,
    SentRequest, SessionClosing, SessionPhase, Times, after,
};
use super::auth::AuthBook;
use super::hosts::{Contact, HostRing};
use super::request_queue::length_of;
use super::{
    QueuedAnswers, ReplySlot, RequestBatch, RequestQueue, RequestSubmission, SessionCommand,
    StateHub, WatchEffect,
};
use crate::config::ZooKeeperBuilder;
use crate::connector::ConnectionFailure;
use crate::watch::{AskedWatch, Upkeep, WatchRegistry};
use crate::{
    ConnectString, Credentials, DisconnectedPolicy, Error, HostPort, SessionInfo, WatchedEvent,
};

/// If a server grants more than this and more than was requested, its silence is judged by the
/// longer of these two. Otherwise a server that grants weeks could be silent for weeks.
const LONGEST_UNASKED: Duration = Duration::from_secs(60);

/// The number of consecutive connections that may refuse to re-arm one-shot watches before the
/// watches end.
const MOST_REARM_REFUSALS: u32 = 3;

/// The time after which the next host is tried while an attempt to connect is pending, as RFC 8305
/// recommends.
const STAGGER: Duration = Duration::from_millis(250);

/// A driver that wakes up late by this fraction of the session timeout is noticed: it cannot have
/// sent its pings in time.
const LATE: u32 = 6;

/// The effects that the driver performs, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionEffect {
    /// Open a connection, in parallel to others, and then call [`SessionMachine::on_connected`] or
    /// [`SessionMachine::on_attempt_failed`]. The first connection that is open ends the other
    /// attempts.
    Connect(HostPort),
    /// Abandon the attempt to connect to this host.
    Abandon(HostPort),
    /// Request credentials for the open connection from the provider, and then call
    /// [`SessionMachine::on_credentials`].
    Ask,
    /// Perform [`SessionMachine::take_work`], a step of SASL that may block, and then call
    /// [`SessionMachine::on_worked`].
    Prove,
    /// Ask a server, on a separate connection, if it is writable, and then call
    /// [`SessionMachine::on_looked`].
    Look(HostPort),
    /// Drop the connection, or all attempts, and the bytes that were read from it.
    Disconnect,
    /// Stop.
    Done,
}

/// The session as data. Its input is bytes, commands and the time; its output is bytes, responses,
/// states, effects and the next timer.
///
/// It has no clock, no task and no socket of its own. Every method takes the time. The driver
/// performs [`SessionMachine::next_effect`], writes [`SessionMachine::output`], and calls
/// [`SessionMachine::on_timer`] at [`SessionMachine::next_timer`]. A state is published before the
/// results of the requests that fail with it.
#[derive(Debug)]
pub(crate) struct SessionMachine {
    states: Arc<StateHub>,
    queue: Arc<RequestQueue>,
    disconnected: DisconnectedPolicy,
    requested_timeout: Duration,
    /// The part of the session timeout after which a client without a connection gives the session
    /// up.
    expiration_percent: u8,
    slow_request: Duration,
    close_timeout: Duration,
    max_request: usize,
    max_response: usize,
    /// The number of bytes of a response over the limit that are still to come.
    skipping: usize,
    hosts: HostRing,

    phase: SessionPhase,
    /// The pending attempts to connect, in the order in which they began.
    attempts: Vec<ConnectAttempt>,
    /// The host of the current connection, or of the last one.
    peer: Option<HostPort>,
    session: Option<GrantedSession>,
    last_zxid: i64,
    /// The transaction that the first server must have, until one has accepted the session.
    demand: Option<Demand>,
    last_xid: i32,
    /// Requests that wait for a connection, by number. Their deadlines never decrease.
    queued: BTreeMap<u64, Queued>,
    last_queued: u64,
    /// Requests that were sent, in the order in which the server responds.
    in_flight: VecDeque<RequestInFlight>,
    pings: VecDeque<Instant>,
    /// The largest request without a response when the server closed the last connection: its kind
    /// and length. `None` after a response to one of this length.
    suspect: Option<(OpCode, usize)>,
    /// The request because of whose length the server probably closes the connection: its xid.
    blamed: Option<i32>,
    /// `true` if the server has refused a request because the session has moved.
    has_moved: bool,
    /// The pending requests to re-arm watches.
    rearming: VecDeque<Request>,
    /// The number of consecutive connections that have refused to re-arm one-shot watches.
    rearm_refusals: u32,
    sasl: sasl::Sasl,
    auth: AuthBook,
    /// `true` if a provider supplies the credentials of every connection.
    asks: bool,
    /// `true` if the last credentials from the provider were refused.
    refused_once: bool,
    watches: WatchRegistry,
    /// The receiver of all node events, in addition to the watches.
    events: Option<mpsc::UnboundedSender<WatchedEvent>>,
    closing: Option<SessionClosing>,
    reach: Reach,
    /// `true` if a failed attempt to connect was logged since the last connection.
    has_told_failure: bool,
    /// The session was ended by the client's own clock, and a server must still end it.
    farewell: Option<Farewell>,

    out: BytesMut,
    answers: QueuedAnswers,
    effects: VecDeque<SessionEffect>,
    times: Times,
}

impl SessionMachine {
    pub(crate) fn new(
        config: &ZooKeeperBuilder,
        target: &ConnectString,
        states: Arc<StateHub>,
        queue: Arc<RequestQueue>,
        now: Instant,
    ) -> Self {
        let last_zxid = config
            .resume
            .as_ref()
            .map_or(config.last_zxid_seen, |credentials| credentials.last_zxid);
        states.has_seen(last_zxid);
        Self {
            states,
            queue,
            disconnected: config.disconnected,
            requested_timeout: config.session_timeout,
            expiration_percent: config.expiration_percent,
            close_timeout: config.close_timeout,
            max_request: config.max_frame,
            max_response: config.max_response.map_or_else(
                || config.max_frame.saturating_mul(4),
                |limit| limit.max(config.max_frame),
            ),
            skipping: 0,
            hosts: HostRing::new(target.hosts.clone(), config.seed),
            phase: SessionPhase::Waiting { until: now },
            attempts: Vec::new(),
            peer: None,
            session: config.resume.as_ref().map(|credentials| GrantedSession {
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
            suspect: None,
            blamed: None,
            has_moved: false,
            rearming: VecDeque::new(),
            rearm_refusals: 0,
            sasl: sasl::Sasl::new(config.sasl.clone()),
            auth: AuthBook::default(),
            asks: config.credentials.is_some(),
            refused_once: false,
            watches: WatchRegistry::default(),
            events: config.events.clone(),
            closing: None,
            reach: Reach::new(config, now),
            has_told_failure: false,
            farewell: None,
            slow_request: config.slow_request,
            out: BytesMut::new(),
            answers: QueuedAnswers::default(),
            effects: VecDeque::new(),
            times: Times::new(now),
        }
    }

    /// Returns the next effect, if there is one.
    pub(super) fn next_effect(&mut self) -> Option<SessionEffect> {
        self.effects.pop_front()
    }

    /// Bytes to write; the driver removes what it has written.
    pub(super) const fn output(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// Delivers the responses to the waiting callers: many together, but before anything later is
    /// notified.
    pub(super) fn deliver(&mut self) {
        self.queue.deliver(&mut self.answers);
    }

    /// Tries the next host that is not being tried already, if there is one.
    fn attempt(&mut self, now: Instant) {
        let attempts = &self.attempts;
        let busy = |host: &HostPort| attempts.iter().any(|attempt| attempt.host == *host);
        let Some(host) = self.hosts.attempt(now, busy) else {
            self.phase = SessionPhase::Connecting { next: now + FAR };
            return;
        };
        debug!(%host, "connecting");
        self.attempts
            .push(ConnectAttempt { host: host.clone(), deadline: now + self.attempt_limit() });
        let others = self.attempts.len() < self.hosts.len();
        self.phase = SessionPhase::Connecting { next: now + if others { STAGGER } else { FAR } };
        self.effects.push_back(SessionEffect::Connect(host));
    }

    /// Handles a failed attempt to connect. The next host need not wait for the others.
    pub(super) fn on_attempt_failed(&mut self, host: &HostPort, why: io::Error, now: Instant) {
        let Some(place) = self.attempts.iter().position(|attempt| attempt.host == *host) else {
            return;
        };
        self.attempts.remove(place);
        let why = ConnectionFailure::of_attempt(host, why, self.stalled(now));
        match self.phase {
            SessionPhase::Connecting { next } if !self.attempts.is_empty() => {
                self.attempt_failed(why);
                self.phase =
                    SessionPhase::Connecting { next: next.min(self.hosts.not_before(now)) };
            }
            _ => self.lose(now, why),
        }
    }

    /// Notes a failed attempt to connect. Only the first one of an outage is logged as a warning,
    /// because the others most likely fail for the same reason.
    pub(super) fn attempt_failed(&mut self, why: io::Error) {
        if std::mem::replace(&mut self.has_told_failure, true) {
            debug!(%why, "connection attempt failed");
        } else {
            warn!(%why, "connection attempt failed; retrying until a server responds");
        }
        self.states.failed(why);
    }

    /// Handles an open connection, the first of several attempts: only this one is used.
    pub(super) fn on_connected(&mut self, host: &HostPort, now: Instant) {
        let Some(place) = self.attempts.iter().position(|attempt| attempt.host == *host) else {
            return;
        };
        let ConnectAttempt { host, deadline } = self.attempts.swap_remove(place);
        self.attempts.clear();
        self.hosts.reached(&host);
        self.peer = Some(host);
        if self.asks {
            self.phase = SessionPhase::Asking { deadline };
            self.effects.push_back(SessionEffect::Ask);
        } else {
            self.prepare(deadline, now);
        }
    }

    /// Handles the result of the provider.
    pub(super) fn on_credentials(
        &mut self,
        credentials: Result<Credentials, Box<dyn std::error::Error + Send + Sync>>,
        now: Instant,
    ) {
        let SessionPhase::Asking { deadline } = self.phase else { return };
        match credentials {
            Ok(Credentials { auth, sasl }) => {
                self.auth.provide(auth);
                self.sasl.provide(sasl);
                self.prepare(deadline, now);
            }
            Err(why) => {
                self.lose(now, self.failure(now, io::Error::other(why)));
            }
        }
    }

    /// Returns `true` if a refusal of credentials is not final yet: the provider may have supplied
    /// them just before they were replaced.
    const fn asks_again(&mut self) -> bool {
        let asks_again = self.asks && !self.refused_once;
        self.refused_once = true;
        asks_again
    }

    pub(super) fn handshake(&mut self, deadline: Instant, now: Instant) {
        self.phase = SessionPhase::Handshaking { sent_at: now, deadline };
        self.times.last_sent = now;
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

    /// Handles a connection that failed, or that the server closed.
    pub(super) fn on_io_error(&mut self, now: Instant, why: io::Error) {
        if !matches!(
            self.phase,
            SessionPhase::Waiting { .. } | SessionPhase::Connecting { .. } | SessionPhase::Ended(_)
        ) {
            match self.phase {
                SessionPhase::Handshaking { .. } => self.not_taken(now),
                SessionPhase::Rejecting { .. } => return self.not_resumed(now),
                SessionPhase::Connected => self.blame_largest(&why),
                _ => {}
            }
            self.lose(now, self.failure(now, why));
        }
    }

    /// Handles a server that closed the connection in response to the connect request. A server
    /// does this to refuse a client that has seen more than the server has. After a session timeout
    /// no server is likely to get these data again: they were restored from a backup.
    fn not_taken(&mut self, now: Instant) {
        let Some(demand) = &mut self.demand else { return };
        let (zxid, since) = (demand.zxid, *demand.refused_since.get_or_insert(now));
        if now.saturating_duration_since(since) < self.requested_timeout {
            return;
        }
        warn!(
            zxid = format_args!("{zxid:#x}"),
            "no server has the last transaction that this client has seen: continuing without it, and reads may go back in time"
        );
        self.demand = None;
        self.last_zxid = 0;
        self.states.history_lost(zxid);
    }

    /// Handles the response of a server that was asked if it is writable.
    pub(super) fn on_looked(&mut self, host: &HostPort, writable: bool, now: Instant) {
        if writable && self.phase == SessionPhase::Connected && self.reach.read_only {
            self.hosts.prefer(host);
            self.disconnect(now, "there is a writable server");
        }
    }

    /// Handles the commands of the handles.
    pub(super) fn on_batch(&mut self, batch: &mut RequestBatch, now: Instant) {
        for number in batch.withdrawn.drain(..) {
            if let Some(queued) = self.queued.remove(&number) {
                self.queue.discard(queued.submission.reply);
            }
        }
        self.detach_if_done();
        for command in batch.commands.drain(..) {
            match command {
                SessionCommand::Request { submission, body, has_deadline } => {
                    let body = batch.bodies.as_slice().get(body).unwrap_or_default();
                    self.on_request(submission, body, has_deadline, now);
                }
                SessionCommand::AddAuth { packet, reply } => self.on_auth(*packet, reply, now),
                SessionCommand::ForgetWatch { path } => {
                    let upkeep = self.watches.keep_up(&path, self.last_zxid);
                    self.keep_up(&path, upkeep, now);
                }
                SessionCommand::Close { done } => self.on_close(Some(done), false, now),
                SessionCommand::Detach { done } => self.on_close(Some(done), true, now),
                SessionCommand::ReplaceHosts { hosts } => self.on_hosts(hosts, now),
            }
        }
    }

    fn on_auth(&mut self, packet: AuthPacket, reply: ReplySlot, now: Instant) {
        if let Some(error) = self.refusal() {
            return self.answers.push(reply, Err(error));
        }
        self.auth.add(packet, reply, &mut self.answers);
        if self.phase == SessionPhase::Connected {
            self.send_auth(now);
        }
    }

    fn on_hosts(&mut self, hosts: Vec<HostPort>, now: Instant) {
        let contact = match self.phase {
            SessionPhase::Waiting { .. } | SessionPhase::Ended(_) => Contact::None,
            SessionPhase::Connected => Contact::Connection,
            _ => Contact::Attempt,
        };
        if self.hosts.replace(hosts, contact) {
            self.disconnect(now, "the client moves to another server");
        } else if let SessionPhase::Connecting { next } = self.phase {
            let (kept, left) = std::mem::take(&mut self.attempts)
                .into_iter()
                .partition(|attempt| self.hosts.contains(&attempt.host));
            self.attempts = kept;
            self.effects.extend(
                left.into_iter()
                    .map(|attempt: ConnectAttempt| SessionEffect::Abandon(attempt.host)),
            );
            let next = if self.attempts.is_empty() { now } else { next.min(now + STAGGER) };
            self.phase = SessionPhase::Connecting { next };
        } else if let SessionPhase::Waiting { until } = self.phase {
            self.phase = SessionPhase::Waiting { until: until.min(self.hosts.not_before(now)) };
        }
    }

    fn on_request(
        &mut self,
        submission: RequestSubmission,
        body: &[u8],
        has_deadline: bool,
        now: Instant,
    ) {
        if let Some(error) = self.refusal() {
            return self.answers.push(submission.reply, Err(error));
        }
        match (self.phase, self.disconnected) {
            (SessionPhase::Connected, _) if has_deadline => {
                self.send_if_awaited(submission, body, now);
            }
            (SessionPhase::Connected, _) => self.send(submission, body, now),
            (_, DisconnectedPolicy::FailFast) => {
                self.answers.push(submission.reply, Err(Error::NotConnected));
            }
            (_, DisconnectedPolicy::Wait(patience)) => {
                let (deadline, number) = (after(now, patience), self.last_queued + 1);
                let RequestSubmission { opcode, reply, watch } = submission;
                if let Some(reply) = self.queue.mark_queued(reply, number) {
                    let submission = RequestSubmission { opcode, reply, watch };
                    self.queued.insert(number, Queued { deadline, submission, body: body.into() });
                    self.last_queued = number;
                }
            }
        }
    }

    /// Returns the error with which new requests are refused, if they are.
    fn refusal(&self) -> Option<Error> {
        match self.phase {
            SessionPhase::Ended(state) => state.end(),
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
        self.push_in_flight(xid, SentRequest::Close, now);
    }

    /// Has the server remove unused watches, and re-arm the watches that others have replaced.
    pub(super) fn keep_up(&mut self, path: &str, upkeep: Upkeep, now: Instant) {
        if self.phase != SessionPhase::Connected || self.closing.is_some() {
            return;
        }
        if let Some(watcher_type) = upkeep.remove {
            let xid = self.next_xid();
            let body = WatchesRequest { path: path.to_owned(), watcher_type: watcher_type.code() };
            self.put_request(xid, &Request::RemoveWatches(body), now);
            self.push_in_flight(xid, SentRequest::Removal, now);
        }
        for request in upkeep.arm {
            let xid = self.next_xid();
            self.put_request(xid, &request, now);
            self.push_in_flight(xid, SentRequest::Repair(Box::new(request)), now);
        }
    }

    fn push_in_flight(&mut self, xid: i32, what: SentRequest, now: Instant) {
        self.in_flight.push_back(RequestInFlight {
            xid,
            sent_at: now,
            what,
            length: 0,
            reads: None,
            asked: AskedWatch::AsIs,
        });
    }

    /// Sends a request unless its caller no longer waits. In that case it is never sent.
    fn send_if_awaited(&mut self, submission: RequestSubmission, body: &[u8], now: Instant) {
        let RequestSubmission { opcode, reply, watch } = submission;
        if let Some(reply) = self.queue.mark_sent(reply) {
            self.send(RequestSubmission { opcode, reply, watch }, body, now);
        }
    }

    fn send(&mut self, submission: RequestSubmission, body: &[u8], now: Instant) {
        let xid = self.next_xid();
        let asked = match submission.watch.as_deref() {
            Some(WatchEffect::Arm(plan, path, _)) => self.watches.expect(path, plan.kind()),
            _ => AskedWatch::AsIs,
        };
        // The last field of the body selects the watch.
        match (asked, body) {
            (AskedWatch::AsIs, body) => self.put_frame(xid, submission.opcode, body, now),
            (AskedWatch::WithoutWatch, [rest @ .., _]) => {
                let body = [rest, &[0]].concat();
                self.put_frame(xid, submission.opcode, &body, now);
            }
            (_, body) => {
                let rest = body.len().saturating_sub(size_of::<i32>());
                let mode = AddWatchMode::PersistentRecursive.code().to_be_bytes();
                let body = [body.get(..rest).unwrap_or_default(), &mode].concat();
                self.put_frame(xid, submission.opcode, &body, now);
            }
        }
        let reads = node_read(submission.opcode, body);
        let what = SentRequest::Request(submission);
        let length = length_of(body.len());
        self.in_flight.push_back(RequestInFlight { xid, sent_at: now, what, length, reads, asked });
    }

    fn put_request(&mut self, xid: i32, request: &Request, now: Instant) {
        let mut body = Encoder::new();
        request.encode_body(&mut body);
        self.put_frame(xid, request.opcode(), body.as_slice(), now);
    }

    fn put_frame(&mut self, xid: i32, opcode: OpCode, body: &[u8], now: Instant) {
        frame::put_parts(&mut self.out, &[&xid.to_be_bytes(), &opcode.code().to_be_bytes(), body]);
        self.times.last_sent = now;
    }

    /// Positive, because negative ones are reserved.
    const fn next_xid(&mut self) -> i32 {
        self.last_xid = if self.last_xid == i32::MAX { 1 } else { self.last_xid + 1 };
        self.last_xid
    }
}

/// Returns the node whose data or children a request reads.
fn node_read(opcode: OpCode, body: &[u8]) -> Option<Box<str>> {
    if !matches!(opcode, OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2) {
        return None;
    }
    let (length, path) = body.split_first_chunk::<4>()?;
    let path = path.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    std::str::from_utf8(path).ok().map(Box::from)
}
