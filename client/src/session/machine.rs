use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use zk_curator_proto::records::{
    ConnectRequest, ConnectResponse, EventType, PASSWORD_LEN, ReplyHeader, RequestHeader, WatcherEvent,
};
use zk_curator_proto::{
    DecodeError, Decoder, Encoder, ErrorCode, OpCode, Record, Request, Response, XID_AUTH, XID_NOTIFICATION,
    XID_PING, XID_SET_WATCHES, frame,
};

use super::auth::AuthBook;
use super::hosts::HostRing;
use super::{Command, ExpiredBy, SessionState, Submission, WatchPlan};
use crate::config::ZooKeeperBuilder;
use crate::watch::{Registry, WatchEnded, WatchKind};
use crate::{ConnectString, DisconnectedPolicy, Error, HostPort, SessionId, SessionInfo};

/// A ping is never later than this, however long the session timeout.
const LONGEST_PING_INTERVAL: Duration = Duration::from_secs(10);

/// What the driver has to do, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Open a connection; then [`Machine::on_connected`] or [`Machine::on_io_error`].
    Connect(HostPort),
    /// Drop the connection, or the attempt, and what was read from it.
    Disconnect,
    /// Publish a state.
    State(SessionState),
    /// Stop.
    Done,
}

/// The session as data: bytes, commands and time in; bytes, answers, effects and the next timer out.
///
/// It has no clock, no task and no socket of its own. Every method takes the time; the driver performs
/// [`Machine::next_effect`], writes [`Machine::output`], and calls [`Machine::on_timer`] at
/// [`Machine::next_timer`].
#[derive(Debug)]
pub(crate) struct Machine {
    disconnected: DisconnectedPolicy,
    requested_timeout: Duration,
    close_timeout: Duration,
    max_answer: usize,
    chroot: String,
    hosts: HostRing,

    phase: Phase,
    session: Option<Session>,
    last_zxid: i64,
    last_xid: i32,
    /// Waiting for a connection, with their deadlines, which never decrease.
    queued: VecDeque<(Instant, Submission)>,
    /// Sent, in the order in which the server answers.
    in_flight: VecDeque<InFlight>,
    pings: VecDeque<Instant>,
    rearming: usize,
    auth: AuthBook,
    watches: Registry,
    closing: Option<Closing>,

    out: BytesMut,
    effects: VecDeque<Effect>,
    last_sent: Instant,
    last_heard: Instant,
    /// When the last request that was answered had been sent: the server has seen the session at this time
    /// or later.
    seen_alive: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Between two attempts.
    Waiting { until: Instant },
    /// The driver opens a connection.
    Connecting { deadline: Instant },
    /// The connect request was sent.
    Handshaking { sent_at: Instant, deadline: Instant },
    /// A server serves the session.
    Connected,
    /// Over.
    Ended(SessionState),
}

#[derive(Debug, Clone)]
struct Session {
    info: SessionInfo,
    password: Bytes,
}

#[derive(Debug)]
struct InFlight {
    xid: i32,
    sent_at: Instant,
    /// `None` for the request that closes the session.
    submission: Option<Submission>,
}

#[derive(Debug)]
struct Closing {
    deadline: Instant,
    sent: bool,
    acknowledged: bool,
    waiters: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl Machine {
    pub(crate) fn new(config: &ZooKeeperBuilder, target: &ConnectString, now: Instant) -> Self {
        Self {
            disconnected: config.disconnected,
            requested_timeout: config.session_timeout,
            close_timeout: config.close_timeout,
            max_answer: config.max_frame.saturating_mul(4),
            chroot: target.chroot.clone(),
            hosts: HostRing::new(target.hosts.clone(), config.seed),
            phase: Phase::Waiting { until: now },
            session: None,
            last_zxid: 0,
            last_xid: 0,
            queued: VecDeque::new(),
            in_flight: VecDeque::new(),
            pings: VecDeque::new(),
            rearming: 0,
            auth: AuthBook::default(),
            watches: Registry::default(),
            closing: None,
            out: BytesMut::new(),
            effects: VecDeque::new(),
            last_sent: now,
            last_heard: now,
            seen_alive: now,
        }
    }

    /// What to do next, if anything.
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
            Phase::Connecting { deadline } | Phase::Handshaking { deadline, .. } => Some(deadline),
            Phase::Connected => {
                Some((self.last_sent + self.ping_interval()).min(self.last_heard + self.silence_limit()))
            }
            Phase::Ended(_) => return None,
        };
        let queued = self.queued.front().map(|(deadline, _)| *deadline);
        let closing = self.closing.as_ref().map(|closing| closing.deadline);
        [phase, queued, closing, self.expires_at()].into_iter().flatten().min()
    }

    /// Time has passed.
    pub(super) fn on_timer(&mut self, now: Instant) {
        if self.closing.as_ref().is_some_and(|closing| closing.deadline <= now) {
            return self.end(SessionState::Closed);
        }
        if self.expires_at().is_some_and(|deadline| deadline <= now) {
            warn!("no server answered for the session timeout");
            return self.end(SessionState::Expired(ExpiredBy::Clock));
        }
        while self.queued.front().is_some_and(|(deadline, _)| *deadline <= now) {
            if let Some((_, submission)) = self.queued.pop_front() {
                submission.finish(Err(Error::NotConnected));
            }
        }
        match self.phase {
            Phase::Waiting { until } if until <= now => {
                let host = self.hosts.attempt(now);
                let hosts = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
                self.phase = Phase::Connecting { deadline: now + self.timeout() / hosts };
                debug!(%host, "connecting");
                self.effects.push_back(Effect::Connect(host));
            }
            Phase::Connecting { deadline } | Phase::Handshaking { deadline, .. } if deadline <= now => {
                self.disconnect(now, "no answer to the connection attempt");
            }
            Phase::Connected if self.last_heard + self.silence_limit() <= now => {
                self.disconnect(now, "the server is silent");
            }
            Phase::Connected if self.last_sent + self.ping_interval() <= now => {
                self.pings.push_back(now);
                self.put_request(XID_PING, &Request::Ping, now);
            }
            _ => {}
        }
    }

    /// The connection that was asked for is open.
    pub(super) fn on_connected(&mut self, now: Instant) {
        let Phase::Connecting { deadline } = self.phase else {
            return;
        };
        self.phase = Phase::Handshaking { sent_at: now, deadline };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout: i32::try_from(self.requested_timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: self.session.as_ref().map_or(0, |session| session.info.id.get()),
            password: Some(match &self.session {
                Some(session) => session.password.clone(),
                None => Bytes::from_static(&[0; PASSWORD_LEN]),
            }),
            read_only: false,
        };
        frame::put(&mut self.out, |body| request.encode(body));
    }

    /// The connection failed, was closed by the server, or could not be opened.
    pub(super) fn on_io_error(&mut self, now: Instant, why: &str) {
        if !matches!(self.phase, Phase::Waiting { .. } | Phase::Ended(_)) {
            self.disconnect(now, why);
        }
    }

    /// Bytes have arrived. Takes all complete frames.
    pub(super) fn on_read(&mut self, buf: &mut BytesMut, now: Instant) {
        self.last_heard = now;
        loop {
            let result = match (frame::take(buf, self.max_answer), self.phase) {
                (Ok(None), _) | (_, Phase::Waiting { .. } | Phase::Connecting { .. } | Phase::Ended(_)) => {
                    return;
                }
                (Ok(Some(body)), Phase::Handshaking { sent_at, .. }) => self.on_handshake(body, sent_at, now),
                (Ok(Some(body)), Phase::Connected) => self.on_answer(body, now),
                (Err(error), _) => Err(error),
            };
            if let Err(error) = result {
                warn!(%error, "malformed frame");
                return self.disconnect(now, "the server sent a malformed frame");
            }
        }
    }

    /// A handle asks for something.
    pub(super) fn on_command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Request(submission) => self.on_request(submission, now),
            Command::AddAuth { packet, reply } => {
                if let Some(error) = self.refusal() {
                    // A failure means that the caller no longer waits.
                    drop(reply.send(Err(error)));
                    return;
                }
                self.auth.add(packet, reply);
                if self.phase == Phase::Connected {
                    self.send_auth(now);
                }
            }
            Command::ForgetWatch { path } => self.watches.forget(&path),
            Command::Close { done } => self.on_close(Some(done), now),
        }
    }

    /// The last handle is gone, or [`Command::Close`].
    pub(super) fn on_close(&mut self, done: Option<oneshot::Sender<Result<(), Error>>>, now: Instant) {
        if let Phase::Ended(_) = self.phase {
            if let Some(done) = done {
                // A failure means that the caller no longer waits.
                drop(done.send(Ok(())));
            }
            return;
        }
        if let Some(closing) = &mut self.closing {
            closing.waiters.extend(done);
            return;
        }
        self.closing = Some(Closing {
            deadline: now + self.close_timeout,
            sent: false,
            acknowledged: false,
            waiters: done.into_iter().collect(),
        });
        if self.phase == Phase::Connected {
            self.send_close(now);
        } else if self.session.is_none() {
            // There is nothing that a server could be told.
            self.end(SessionState::Closed);
        }
    }

    fn on_request(&mut self, submission: Submission, now: Instant) {
        if let Some(error) = self.refusal() {
            return submission.finish(Err(error));
        }
        match (self.phase, self.disconnected) {
            (Phase::Connected, _) => self.send(submission, now),
            (_, DisconnectedPolicy::FailFast) => submission.finish(Err(Error::NotConnected)),
            (_, DisconnectedPolicy::Wait(patience)) => self.queued.push_back((now + patience, submission)),
        }
    }

    /// Why new requests are refused, if they are.
    fn refusal(&self) -> Option<Error> {
        match self.phase {
            Phase::Ended(state) => state.end(),
            _ if self.closing.is_some() => Some(Error::Closed { sent: false }),
            _ => None,
        }
    }

    fn on_handshake(&mut self, body: Bytes, sent_at: Instant, now: Instant) -> Result<(), DecodeError> {
        let response = ConnectResponse::decode(&mut Decoder::new(body), "connect response")?;
        let Some(timeout) = u64::try_from(response.timeout).ok().filter(|millis| *millis > 0) else {
            if self.session.is_some() {
                info!("the server says that the session has expired");
                self.end(SessionState::Expired(ExpiredBy::Server));
            } else {
                self.disconnect(now, "the server refuses to open a session");
            }
            return Ok(());
        };
        let id = SessionId::new(response.session_id);
        if self.session.as_ref().is_some_and(|session| session.info.id != id) {
            self.disconnect(now, "the server answered with another session");
            return Ok(());
        }
        let info = SessionInfo::new(id, Duration::from_millis(timeout));
        self.session = Some(Session { info, password: response.password.unwrap_or_default() });
        self.seen_alive = sent_at;
        self.hosts.succeeded();
        self.phase = Phase::Connected;
        debug!(session = %id, timeout, "connected");
        self.effects.push_back(Effect::State(SessionState::Connected(info)));

        // The order matters: identities first, for the watches may need them, and watches before requests,
        // for an event must not come after an answer that already shows the change.
        self.auth.reset();
        self.send_auth(now);
        let chunks = self.watches.rearm(self.last_zxid);
        self.rearming = chunks.len();
        for chunk in chunks {
            self.put_request(XID_SET_WATCHES, &Request::SetWatches(chunk), now);
        }
        for (_, submission) in std::mem::take(&mut self.queued) {
            // A caller that no longer waits does not want it sent, and it never was.
            if !submission.reply.is_closed() {
                self.send(submission, now);
            }
        }
        if self.closing.is_some() {
            self.send_close(now);
        }
        Ok(())
    }

    fn on_answer(&mut self, body: Bytes, now: Instant) -> Result<(), DecodeError> {
        let mut input = Decoder::new(body);
        let header = ReplyHeader::decode(&mut input, "header")?;
        let error = ErrorCode::from_code(header.err);
        match header.xid {
            XID_NOTIFICATION => return self.on_event(&mut input),
            XID_PING => {
                if let Some(sent_at) = self.pings.pop_front() {
                    self.seen_alive = self.seen_alive.max(sent_at);
                }
            }
            XID_AUTH => match error {
                Some(_) => self.end(SessionState::AuthFailed),
                None if self.auth.accepted() => {}
                None => self.disconnect(now, "the server answered an authentication that was not asked for"),
            },
            XID_SET_WATCHES => match (error, self.rearming.checked_sub(1)) {
                (None, Some(left)) => self.rearming = left,
                _ => self.disconnect(now, "the server did not re-arm the watches"),
            },
            xid => {
                if self.in_flight.front().map(|request| request.xid) != Some(xid) {
                    self.disconnect(now, "the server answered out of order");
                    return Ok(());
                }
                if header.zxid > 0 {
                    self.last_zxid = header.zxid;
                }
                if let Some(request) = self.in_flight.pop_front() {
                    self.on_reply(request, error, &mut input);
                }
            }
        }
        Ok(())
    }

    fn on_reply(&mut self, request: InFlight, error: Option<ErrorCode>, input: &mut Decoder) {
        self.seen_alive = self.seen_alive.max(request.sent_at);
        let Some(mut submission) = request.submission else {
            if let Some(closing) = &mut self.closing {
                closing.acknowledged = true;
            }
            return self.end(SessionState::Closed);
        };
        if error == Some(ErrorCode::SessionExpired) {
            // This one was not applied; what follows it on the connection nobody knows.
            submission.finish(Err(Error::SessionExpired { sent: false }));
            return self.end(SessionState::Expired(ExpiredBy::Server));
        }
        if let Some((plan, path, sender)) = submission.watch.take() {
            let kind = match (plan, error) {
                (WatchPlan::Data | WatchPlan::Exists, None) => Some(WatchKind::Data),
                (WatchPlan::Child, None) => Some(WatchKind::Child),
                (WatchPlan::Exists, Some(ErrorCode::NoNode)) => Some(WatchKind::Exist),
                _ => None,
            };
            if let Some(kind) = kind {
                self.watches.arm(kind, path, sender);
            }
        }
        let result = match error {
            Some(code) => Err(Error::Refused(code)),
            None => Response::decode_body(submission.opcode, input).map_err(Error::Malformed),
        };
        submission.finish(result);
    }

    fn on_event(&mut self, input: &mut Decoder) -> Result<(), DecodeError> {
        let event = WatcherEvent::decode(input, "event")?;
        let event_type = EventType::try_from(event.event_type)?;
        let visible = match event.path.strip_prefix(&self.chroot) {
            Some("") if !self.chroot.is_empty() => "/",
            Some(visible) => visible,
            None => &event.path,
        };
        self.watches.fire(event_type, &event.path, visible);
        Ok(())
    }

    fn disconnect(&mut self, now: Instant, why: &str) {
        let was_connected = self.phase == Phase::Connected;
        if was_connected {
            info!(why, "connection lost");
        } else {
            debug!(why, "connection attempt failed");
        }
        self.forget_connection(&Error::ConnectionLoss { sent: true });
        if was_connected {
            self.effects.push_back(Effect::State(SessionState::Disconnected));
        }
        if self.disconnected == DisconnectedPolicy::FailFast {
            for (_, submission) in std::mem::take(&mut self.queued) {
                submission.finish(Err(Error::NotConnected));
            }
        }
        self.phase = Phase::Waiting { until: self.hosts.not_before(now) };
    }

    fn forget_connection(&mut self, unanswered: &Error) {
        self.out.clear();
        self.pings.clear();
        self.rearming = 0;
        self.auth.reset();
        self.effects.push_back(Effect::Disconnect);
        for submission in
            std::mem::take(&mut self.in_flight).into_iter().filter_map(|request| request.submission)
        {
            submission.finish(Err(unanswered.clone()));
        }
    }

    /// The end of the session and of this client. A client that is closing ends closed, whatever happens;
    /// `close` failed if its deadline passed, or our own clock ended the session, before a server knew.
    fn end(&mut self, mut state: SessionState) {
        if let Some(closing) = self.closing.take() {
            let result = match (state, self.session.is_some()) {
                (SessionState::Closed, true) if !closing.acknowledged => {
                    Err(Error::ConnectionLoss { sent: closing.sent })
                }
                (SessionState::Expired(ExpiredBy::Clock), _) => {
                    Err(Error::ConnectionLoss { sent: closing.sent })
                }
                _ => Ok(()),
            };
            for waiter in closing.waiters {
                // A failure means that the caller no longer waits.
                drop(waiter.send(result.clone()));
            }
            state = SessionState::Closed;
        }
        let (unanswered, unsent) = match state {
            SessionState::Expired(_) => {
                (Error::SessionExpired { sent: true }, Error::SessionExpired { sent: false })
            }
            SessionState::AuthFailed => (Error::AuthFailed { sent: true }, Error::AuthFailed { sent: false }),
            _ => (Error::Closed { sent: true }, Error::Closed { sent: false }),
        };
        self.forget_connection(&unanswered);
        for (_, submission) in std::mem::take(&mut self.queued) {
            submission.finish(Err(unsent.clone()));
        }
        self.auth.end(&unsent);
        self.watches.end(if state == SessionState::Closed {
            WatchEnded::Closed
        } else {
            WatchEnded::SessionLost
        });
        self.phase = Phase::Ended(state);
        self.effects.push_back(Effect::State(state));
        self.effects.push_back(Effect::Done);
    }

    fn send_auth(&mut self, now: Instant) {
        for request in self.auth.unsent() {
            self.put_request(XID_AUTH, &request, now);
        }
    }

    fn send_close(&mut self, now: Instant) {
        if let Some(closing) = &mut self.closing {
            closing.sent = true;
        }
        let xid = self.next_xid();
        self.put_request(xid, &Request::CloseSession, now);
        self.in_flight.push_back(InFlight { xid, sent_at: now, submission: None });
    }

    fn send(&mut self, mut submission: Submission, now: Instant) {
        let xid = self.next_xid();
        let body = std::mem::take(&mut submission.body);
        self.put_frame(xid, submission.opcode, &body, now);
        self.in_flight.push_back(InFlight { xid, sent_at: now, submission: Some(submission) });
    }

    fn put_request(&mut self, xid: i32, request: &Request, now: Instant) {
        let mut body = Encoder::new();
        request.encode_body(&mut body);
        self.put_frame(xid, request.opcode(), &body.finish(), now);
    }

    fn put_frame(&mut self, xid: i32, opcode: OpCode, body: &[u8], now: Instant) {
        let mut header = Encoder::with_capacity(8);
        RequestHeader { xid, opcode: opcode.code() }.encode(&mut header);
        frame::put_parts(&mut self.out, &[&header.finish(), body]);
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
            (_, Phase::Connected | Phase::Ended(_)) | (None, _) => None,
            (Some(session), _) => Some(self.seen_alive + session.info.timeout),
        }
    }

    fn timeout(&self) -> Duration {
        self.session.as_ref().map_or(self.requested_timeout, |session| session.info.timeout)
    }

    fn ping_interval(&self) -> Duration {
        (self.timeout() / 3).min(LONGEST_PING_INTERVAL)
    }

    fn silence_limit(&self) -> Duration {
        self.timeout() * 2 / 3
    }
}
