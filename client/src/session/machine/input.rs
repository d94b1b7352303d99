//! Input bytes: the handshake, responses and watch events.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use zk_curator_proto::frame::Frames;
use zk_curator_proto::records::{
    ConnectResponse, EventType, MultiResult, ReplyHeader, WatcherEvent,
};
use zk_curator_proto::{
    DecodeError, Decoder, ErrorCode, OpCode, Record, Request, Response, XID_AUTH, XID_NOTIFICATION,
    XID_PING, XID_SET_WATCHES,
};

use super::{
    GrantedSession, LONGEST_UNASKED, MOST_REARM_REFUSALS, Queued, RequestInFlight, SentRequest,
    SessionMachine, SessionPhase,
};
use crate::path::visible;
use crate::session::{ExpiredBy, RequestSubmission, SessionState, WatchEffect, WatchPlan};
use crate::watch::{AskedWatch, FiredWatch, WatchKind};
use crate::{Error, SessionCredentials, SessionId, SessionInfo, WatchedEvent};

/// The response of a TLS server to a client without TLS: the type of a record, and the version.
const TLS_ALERT: [u8; 2] = [0x15, 3];

/// The response of an HTTP server to a client that does not speak HTTP.
const HTTP: &[u8] = b"HTTP";

/// The header of a response.
const REPLY_HEADER: usize = 16;

/// The length prefix of a frame, and the header of a response.
const ANSWER_HEAD: usize = 4 + REPLY_HEADER;

/// The longest response that is skipped. A longer one is not from a ZooKeeper server, or would take
/// longer than a session.
const LONGEST_SKIPPED: usize = 1 << 30;

/// Returns the transaction after which a request to re-arm watches asks for missed changes.
const fn rearmed_from(request: &Request) -> Option<i64> {
    match request {
        Request::SetWatches(watches) => Some(watches.relative_zxid),
        Request::SetWatches2(watches) => Some(watches.relative_zxid),
        _ => None,
    }
}

/// The part of a response after its header.
enum ResponseBody<'a> {
    Read(&'a mut Decoder),
    /// Over the limit, and skipped. The length is that of the whole response.
    Skipped {
        length: usize,
    },
}

impl SessionMachine {
    /// Handles received bytes: takes all complete frames.
    pub(in crate::session) fn on_read(&mut self, buf: &mut BytesMut, now: Instant) {
        loop {
            self.skip(buf);
            let result = match Frames::take(buf, self.max_response) {
                Ok(frames) => self.on_frames(frames, now),
                Err(DecodeError::FrameTooLong { length, .. })
                    if self.phase == SessionPhase::Connected && length <= LONGEST_SKIPPED =>
                {
                    self.on_large_response(length, buf, now)
                }
                Err(error) => Err(error),
            };
            match result {
                // An invalid frame is found when the frames before it are handled.
                Ok(true) => {}
                // All responses that have arrived are taken first.
                Ok(false) if self.has_moved => {
                    return self.disconnect(now, "the session has moved to another server");
                }
                Ok(false) => return,
                Err(_)
                    if matches!(self.phase, SessionPhase::Handshaking { .. })
                        && buf.starts_with(&TLS_ALERT) =>
                {
                    return self.disconnect(now, "the server speaks TLS on this port");
                }
                Err(_)
                    if matches!(self.phase, SessionPhase::Handshaking { .. })
                        && buf.starts_with(HTTP) =>
                {
                    return self.disconnect(now, "the server speaks HTTP on this port");
                }
                Err(error) => {
                    warn!(%error, "malformed frame");
                    return self.disconnect(now, "the server sent a malformed frame");
                }
            }
        }
    }

    /// Takes complete frames. Returns `true` if there may be more: there were some, and the
    /// connection is still the same.
    fn on_frames(&mut self, mut frames: Frames, now: Instant) -> Result<bool, DecodeError> {
        let mut any = false;
        while let Some(input) = frames.next_frame() {
            any = true;
            match self.phase {
                SessionPhase::Waiting { .. }
                | SessionPhase::Connecting { .. }
                | SessionPhase::Ended(_) => {
                    return Ok(false);
                }
                SessionPhase::Asking { .. } | SessionPhase::Preparing { .. } => {
                    self.disconnect(now, "the server sent data before the client");
                    return Ok(false);
                }
                SessionPhase::Handshaking { sent_at, deadline } => {
                    self.on_handshake(input, sent_at, deadline, now)?;
                }
                SessionPhase::Authenticating { .. } | SessionPhase::Proving { .. } => {
                    self.on_sasl(input, now)?;
                }
                SessionPhase::Rejecting { .. } => {
                    self.not_resumed(now);
                    return Ok(false);
                }
                SessionPhase::Connected => self.on_message(input, now)?,
            }
        }
        Ok(any)
    }

    /// Drops the received part of the body of a response over the limit.
    fn skip(&mut self, buf: &mut BytesMut) {
        let arrived = self.skipping.min(buf.len());
        buf.advance(arrived);
        self.skipping -= arrived;
    }

    /// Handles a response over the limit at the front of `buf`: takes its header, once that has
    /// arrived, and skips its body. Returns `true` if there may be more frames.
    ///
    /// Only the response to a caller's request may be that long. The client's own requests need
    /// their responses, and an event that is lost would leave a watch waiting.
    fn on_large_response(
        &mut self,
        length: usize,
        buf: &BytesMut,
        now: Instant,
    ) -> Result<bool, DecodeError> {
        let Some(head) = buf.first_chunk::<ANSWER_HEAD>() else { return Ok(false) };
        let header =
            ReplyHeader::decode(&mut Decoder::new(Bytes::copy_from_slice(&head[4..])), "header")?;
        if self.in_flight.front().is_none_or(|request| request.xid != header.xid) {
            return Err(DecodeError::FrameTooLong { length, limit: self.max_response });
        }
        self.skipping = length + 4;
        self.take_response(header, ResponseBody::Skipped { length }, now);
        // After a disconnect nothing must be skipped on the next connection: `skipping` is zero
        // then.
        Ok(self.phase == SessionPhase::Connected)
    }

    fn on_handshake(
        &mut self,
        input: &mut Decoder,
        sent_at: Instant,
        deadline: Instant,
        now: Instant,
    ) -> Result<(), DecodeError> {
        // The header of a response instead of a connect response, which is longer.
        if input.remaining() == REPLY_HEADER {
            let header = ReplyHeader::decode(input, "header")?;
            let why = match ErrorCode::from_code(header.err) {
                Some(code) => format!("the server refuses the session: {code}"),
                None => "the server responded to the handshake as to a request".to_owned(),
            };
            self.lose(now, self.failure(now, io::Error::other(why)));
            return Ok(());
        }
        let response = ConnectResponse::decode(input, "connect response")?;
        let Some(timeout) = u64::try_from(response.timeout).ok().filter(|millis| *millis > 0)
        else {
            if self.farewell.is_some() {
                self.end_farewell(&Ok(()));
            } else if self.session.is_some() && !response.read_only {
                info!("the server says that the session has expired");
                self.end(SessionState::Expired(ExpiredBy::Server));
            } else {
                self.disconnect(now, "the server refuses to open a session");
            }
            return Ok(());
        };
        let id = SessionId::new(response.session_id);
        // A client asks for a new session with the id zero, so a session with this id could not be
        // resumed.
        if id.get() == 0 {
            self.disconnect(now, "the server responded with a session without an id");
            return Ok(());
        }
        if let Some(session) = &self.session
            && session.info.id != id
        {
            warn!(session = %session.info.id, other = %id, "the server has opened another session");
            self.reach.read_only = response.read_only;
            self.phase = SessionPhase::Rejecting { deadline };
            let xid = self.next_xid();
            self.put_request(xid, &Request::CloseSession, now);
            return Ok(());
        }
        let info = SessionInfo::new(id, Duration::from_millis(timeout));
        if self.session.is_none() && info.timeout > self.requested_timeout.max(LONGEST_UNASKED) {
            warn!(session = %id, timeout, "the server grants a longer session timeout than requested");
        }
        let password = response.password.unwrap_or_default();
        if self.session.is_none() {
            // Nothing was lost before there was a session.
            self.times.lost_at = now;
        }
        self.states.granted(SessionCredentials::new(id, password.clone(), 0));
        self.session = Some(GrantedSession { info, password });
        self.demand = None;
        self.reach.read_only = response.read_only;
        self.reach.of_ensemble |= !response.read_only;
        self.heard(sent_at);
        self.times.last_response = now;
        debug!(session = %id, timeout, "the server accepts the session");
        match self.sasl.first.take() {
            Some(token) => self.send_sasl(token, deadline, now),
            None => self.serve(now),
        }
        Ok(())
    }

    /// Handles a server that has opened another session instead of resuming ours, after that
    /// session was ended or its connection was lost. It does not know our session, as a server that
    /// says so. A read-only server never knows the sessions of the ensemble.
    pub(super) fn not_resumed(&mut self, now: Instant) {
        if self.farewell.is_some() {
            self.end_farewell(&Ok(()));
        } else if self.reach.read_only {
            self.disconnect(now, "the server opened another session");
        } else {
            info!("the server has opened another session: this one has expired");
            self.end(SessionState::Expired(ExpiredBy::Server));
        }
    }

    /// Begins normal service: the server has accepted the session and the credentials.
    pub(super) fn serve(&mut self, now: Instant) {
        let Some(session) = &self.session else { return };
        let info = session.info;
        self.phase = SessionPhase::Connected;
        if self.farewell.is_some() {
            return self.send_close(now);
        }
        debug!(session = %info.id, read_only = self.reach.read_only, "connected");
        self.has_told_failure = false;
        if let Some(server) = self.peer.clone() {
            self.states.served_by(server);
        }
        self.reach.deadline = None;
        if self.reach.read_only {
            self.reach.looks = 0;
            self.reach.look_at = now;
            self.states.publish(SessionState::ConnectedReadOnly(info));
        } else {
            self.states.publish(SessionState::Connected(info));
        }

        // The order matters. Identities come first, because the watches may need them. Watches come
        // before requests, because an event must not come after a response that already shows the
        // change.
        self.send_auth(now);
        let chunks = self.watches.rearm(self.last_zxid, self.max_request);
        for chunk in chunks {
            self.put_request(XID_SET_WATCHES, &chunk, now);
            self.rearming.push_back(chunk);
        }
        for Queued { submission, body, .. } in std::mem::take(&mut self.queued).into_values() {
            self.send_if_awaited(submission, &body, now);
        }
        if self.closing.is_some() {
            self.send_close(now);
        }
    }

    fn on_message(&mut self, input: &mut Decoder, now: Instant) -> Result<(), DecodeError> {
        let header = ReplyHeader::decode(input, "header")?;
        if header.xid == XID_NOTIFICATION {
            return self.on_event(header.zxid, input, now);
        }
        self.take_response(header, ResponseBody::Read(input), now);
        Ok(())
    }

    fn take_response(&mut self, header: ReplyHeader, body: ResponseBody<'_>, now: Instant) {
        match self.on_response(header, body, now) {
            Ok(()) => {
                // Only responses prove that the server receives our requests. Events do not: a
                // network that is cut in one direction lets them through while the server counts
                // down to the end of the session.
                self.times.last_response = now;
                self.hosts.succeeded(now);
            }
            Err(why) => self.disconnect(now, why),
        }
    }

    /// Handles a response. Fails with the fault of a response that was not requested.
    fn on_response(
        &mut self,
        header: ReplyHeader,
        body: ResponseBody<'_>,
        now: Instant,
    ) -> Result<(), &'static str> {
        let error = ErrorCode::from_code(header.err);
        match header.xid {
            XID_PING => {
                let sent_at = self
                    .pings
                    .pop_front()
                    .ok_or("the server responded to a ping that was not sent")?;
                self.heard(sent_at);
                // Responses to pings come in order like any other. A read-only server may be ahead
                // of the ensemble by transactions that were never committed; a client that has read
                // nothing there has not seen them.
                if self.rearming.is_empty() && !self.reach.read_only {
                    self.has_seen(header.zxid);
                }
            }
            XID_AUTH => match (self.auth.is_outstanding(), error) {
                (false, _) => {
                    return Err("the server responded to an authentication that was not sent");
                }
                (true, None) => {
                    self.auth.accepted(&mut self.answers);
                    self.refused_once &= self.auth.is_outstanding();
                }
                (true, Some(_)) if self.asks_again() => {
                    return Err("the server refuses the credentials");
                }
                (true, Some(_)) => self.end(SessionState::AuthFailed),
            },
            XID_SET_WATCHES => self.on_rearmed(header.zxid, error, now)?,
            xid => {
                let request = match self.in_flight.front() {
                    Some(request) if request.xid == xid => self.in_flight.pop_front(),
                    _ => None,
                };
                let request = request.ok_or("the server responded out of order")?;
                self.has_seen(header.zxid);
                self.on_reply(request, header.zxid, error, body, now);
            }
        }
        Ok(())
    }

    /// Handles the response to a request that re-arms watches on a new connection.
    fn on_rearmed(
        &mut self,
        zxid: i64,
        error: Option<ErrorCode>,
        now: Instant,
    ) -> Result<(), &'static str> {
        // The zxid is not taken before the last chunk. If the connection is lost before the
        // next chunks are re-armed, these must ask for changes from the old zxid again.
        let chunk = self.rearming.pop_front();
        // The server applies no transaction between this header and the re-arming, and the
        // earlier chunks were not re-armed later.
        let unchanged = zxid > 0 && chunk.as_ref().and_then(rearmed_from) == Some(zxid);
        match (error, chunk) {
            (None, Some(_)) => {}
            // These codes concern the session, and not the watches.
            (Some(ErrorCode::SessionExpired | ErrorCode::UnknownSession), _) | (_, None) => {
                return Err("the server did not re-arm the watches");
            }
            // The code is temporary, so another connection succeeds. A repetition on this
            // connection would come after requests whose responses show changes that the
            // watches must report first.
            (Some(code), _) if code.is_passing() => {
                return Err("the server did not re-arm the watches yet");
            }
            // It may be only this server, or temporary.
            (Some(_), Some(Request::SetWatches(_)))
                if self.rearm_refusals < MOST_REARM_REFUSALS =>
            {
                self.rearm_refusals += 1;
                return Err("the server did not re-arm the watches");
            }
            (Some(code), Some(refused)) => {
                warn!(%code, "the server does not re-arm watches: they end");
                self.watches.refused(&refused, code);
            }
        }
        if self.rearming.is_empty() {
            self.rearm_refusals = 0;
            // The zxid is updated before the watches are notified, so the state that they
            // compare with next is not older. They were notified before that they were
            // disarmed.
            if !self.reach.read_only {
                self.has_seen(zxid);
            }
            for (path, upkeep) in self.watches.rearmed(unchanged) {
                self.keep_up(&path, upkeep, now);
            }
        }
        Ok(())
    }

    fn on_reply(
        &mut self,
        request: RequestInFlight,
        zxid: i64,
        error: Option<ErrorCode>,
        body: ResponseBody<'_>,
        now: Instant,
    ) {
        self.heard(request.sent_at);
        if self.suspect.is_some_and(|(_, length)| length <= request.length) {
            self.suspect = None;
        }
        let took = now.saturating_duration_since(request.sent_at);
        if took >= self.slow_request
            && let SentRequest::Request(RequestSubmission { opcode, .. }) = &request.what
        {
            info!(?opcode, ?took, "slow request");
        }
        let RequestSubmission { opcode, reply, watch } = match request.what {
            SentRequest::Request(submission) => submission,
            SentRequest::Removal => return self.detach_if_done(),
            SentRequest::Repair(repair) => return self.on_repaired(&repair, error, zxid, now),
            SentRequest::Close => return self.on_close_answered(error, now),
        };
        // A standalone server responds `UnknownSession` for a session that has just ended.
        if let Some(ErrorCode::SessionExpired | ErrorCode::UnknownSession) = error {
            // This request was not applied. The outcome of the requests after it on this connection
            // is unknown.
            self.answers.push(reply, Err(Error::SessionExpired { sent: false }));
            return self.end(SessionState::Expired(ExpiredBy::Server));
        }
        let error = match watch {
            Some(watch) => self.on_watch_answered(*watch, error, request.asked, now),
            None => error,
        };
        let result = self.decoded(opcode, request.reads.as_deref(), error, body);
        // Servers before 3.6 say so only in the response to a transaction, and keep the connection.
        // They would refuse all others, too, until the session is resumed on a new connection.
        self.has_moved |= match &result {
            Err(error) => error.code() == Some(ErrorCode::SessionMoved),
            Ok(Response::Multi(results)) => {
                results.contains(&MultiResult::Error(Some(ErrorCode::SessionMoved)))
            }
            Ok(_) => false,
        };
        self.answers.push(reply, result);
        self.detach_if_done();
    }

    /// Handles the response to a request that re-arms watches which others have replaced.
    fn on_repaired(&mut self, repair: &Request, error: Option<ErrorCode>, zxid: i64, now: Instant) {
        // As for a request to re-arm watches: the next connection arms all of them.
        if error.is_some_and(ErrorCode::is_passing) {
            return self.disconnect(now, "the server did not re-arm the watches yet");
        }
        if let Some(why) = error {
            warn!(%why, "the server does not arm watches again: they end");
            self.watches.not_repaired(repair, why);
        } else {
            for (path, upkeep) in self.watches.repaired(repair, zxid) {
                self.keep_up(&path, upkeep, now);
            }
        }
        self.detach_if_done();
    }

    fn on_close_answered(&mut self, error: Option<ErrorCode>, now: Instant) {
        // A read-only server cannot end a session of the ensemble, whatever it responds.
        let is_told = matches!(error, None | Some(ErrorCode::SessionExpired))
            && !(self.reach.read_only && self.reach.of_ensemble);
        match (&self.farewell, is_told) {
            (Some(_), true) => self.end_farewell(&Ok(())),
            (Some(_), false) => self.disconnect(now, "the server did not end the session"),
            (None, _) => {
                if let Some(closing) = &mut self.closing {
                    closing.acknowledged = is_told;
                }
                self.end(SessionState::Closed);
            }
        }
    }

    /// Handles the effect of a response on the watches. Returns the error that is left for the
    /// caller.
    fn on_watch_answered(
        &mut self,
        watch: WatchEffect,
        error: Option<ErrorCode>,
        asked: AskedWatch,
        now: Instant,
    ) -> Option<ErrorCode> {
        match watch {
            WatchEffect::Arm(plan, path, sink) => {
                let kind = match (plan, error) {
                    (WatchPlan::Data | WatchPlan::Exists, None) => Some(WatchKind::Data),
                    (WatchPlan::Child, None) => Some(WatchKind::Child),
                    (WatchPlan::Exists, Some(ErrorCode::NoNode)) => Some(WatchKind::Exist),
                    (WatchPlan::Persistent(kind), None) => Some(kind),
                    _ => None,
                };
                let armed = kind.map(|kind| (kind, sink));
                let upkeep = self.watches.answered(&path, armed, asked, self.last_zxid);
                self.keep_up(&path, upkeep, now);
                error
            }
            WatchEffect::Remove(watcher_type, path)
                if error.is_none()
                    || (error == Some(ErrorCode::NoWatcher)
                        && self.watches.has_some_of(&path, watcher_type)) =>
            {
                // As with events: a client that learns of the end finds the responses that came
                // before it.
                self.deliver();
                let upkeep = self.watches.removed(&path, watcher_type, self.last_zxid);
                self.keep_up(&path, upkeep, now);
                None
            }
            WatchEffect::Remove(..) => error,
        }
    }

    /// Returns the result for the caller; `reads` is the node that was read.
    fn decoded(
        &self,
        opcode: OpCode,
        reads: Option<&str>,
        error: Option<ErrorCode>,
        body: ResponseBody<'_>,
    ) -> Result<Response, Error> {
        match (error, body) {
            (Some(ErrorCode::Unimplemented), _) => Err(Error::Unimplemented { request: opcode }),
            (Some(code), _) => Err(Error::Refused(code)),
            (None, ResponseBody::Read(input)) => {
                Response::decode_body(opcode, input).map_err(Error::Malformed)
            }
            (None, ResponseBody::Skipped { length }) => {
                let path = reads.map_or("", |path| visible(&self.queue.chroot, path)).to_owned();
                warn!(?opcode, path, length, limit = self.max_response, "response over the limit");
                Err(Error::ResponseTooLarge { path, length, limit: self.max_response })
            }
        }
    }

    /// Takes the last transaction of the server from a response. The server sends the events of a
    /// transaction before the responses that show it, so all these events have been delivered. The
    /// zxid of an event is not taken: other events of the same transaction may still be on the way.
    fn has_seen(&mut self, zxid: i64) {
        self.last_zxid = self.last_zxid.max(zxid);
        self.states.has_seen(self.last_zxid);
    }

    /// Notes that the session was alive when the request of this response arrived, which is no
    /// earlier than when it was sent. The response of a read-only server proves nothing, because
    /// that server does not notify the ensemble.
    pub(super) fn heard(&mut self, sent_at: Instant) {
        if !(self.reach.read_only && self.reach.of_ensemble) {
            self.times.seen_alive = self.times.seen_alive.max(sent_at);
            self.publish_validity();
        }
    }

    pub(super) fn on_event(
        &mut self,
        zxid: i64,
        input: &mut Decoder,
        now: Instant,
    ) -> Result<(), DecodeError> {
        let event = WatcherEvent::decode(input, "event")?;
        let event_type = EventType::try_from(event.event_type)?;
        let visible = visible(&self.queue.chroot, &event.path);
        // A receiver of the event finds the responses that came before it.
        self.deliver();
        // Servers before 3.9 send -1.
        let zxid = Some(zxid).filter(|zxid| *zxid > 0);
        if let Some(events) = self.events.as_ref().filter(|_| event_type != EventType::None) {
            // A failure means that there is no reader any more.
            drop(events.send(WatchedEvent::new(event_type, visible.to_owned()).with_zxid(zxid)));
        }
        let upkeep = self.watches.fire(
            FiredWatch { event_type, zxid },
            &event.path,
            visible,
            self.last_zxid,
        );
        self.keep_up(&event.path, upkeep, now);
        Ok(())
    }
}
