//! [`Conversation`]: decides what a client receives, from the bytes of its server and the verdicts
//! about its requests. No I/O and no clock.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use zk_curator_client::{SessionCredentials, SessionId};
use zk_curator_proto::records::{ConnectRequest, ConnectResponse, ReplyHeader};
use zk_curator_proto::{Decoder, ErrorCode, OpCode, Record, XID_NOTIFICATION, XID_PING, frame};

/// The maximum length of the first frame of a server, in bytes.
const CONNECT: usize = 1024;

/// The length of a frame's prefix, and of the header of a reply, in bytes.
const PREFIX: usize = 4;
const HEADER: usize = 16;

/// The most refusals that wait for earlier replies, and the most bytes that wait for the client.
/// Requests wait above them, as a client may send requests without reading replies.
const REFUSALS: usize = 10_000;
const BACKLOG: usize = 1 << 20;

/// The most requests without a reply that are remembered. The reply to an older one still passes.
const REMEMBERED: usize = 50_000;

/// The replies of one connection.
#[derive(Debug)]
pub(super) struct Conversation {
    state: State,
    /// The session, once the server has named it.
    session: Option<i64>,
    /// The last zxid that the client has seen.
    zxid: i64,
    /// The requests without a reply, in their order.
    pending: VecDeque<Pending>,
    /// The number of refusals in `pending`.
    refusals: usize,
    /// Bytes for the client.
    out: BytesMut,
    granted: Option<SessionCredentials>,
    ended: Option<Ended>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for the connect response.
    Start,
    /// At the beginning of a frame.
    Frames,
    /// Inside a frame, this many bytes before its end.
    Inside { left: usize, passes: bool },
    /// The bytes are not the protocol of ZooKeeper.
    Opaque,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    /// The server replies.
    Forwarded(Expected),
    /// The proxy replies after the requests before it.
    Refused { xid: i32, code: ErrorCode },
    /// The connection ends when the server replies.
    LosesReply(Expected),
    /// The connection ends after the replies to the requests before it.
    End(Ended),
}

/// The reply that a server sends to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Expected {
    xid: i32,
    /// `true` if the reply does not wait for those to earlier requests.
    overtakes: bool,
}

impl Expected {
    /// Returns the reply to a request; without an opcode, to one that was not decoded.
    const fn of(xid: i32, opcode: Option<OpCode>) -> Self {
        match opcode {
            // ZooKeeper responds to each ping with the same xid.
            Some(OpCode::Ping) => Self { xid: XID_PING, overtakes: false },
            Some(OpCode::Auth | OpCode::Sasl) => Self { xid, overtakes: true },
            _ => Self { xid, overtakes: false },
        }
    }
}

/// The reason for the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    RequestLost,
    ReplyLost,
    /// The server has sent a frame with a negative length.
    Malformed,
}

/// The present output of a [`Conversation`], to be taken in this order.
#[derive(Debug, PartialEq)]
pub(super) struct Output {
    pub(super) bytes: Bytes,
    /// The session that the bytes tell the client of.
    pub(super) granted: Option<SessionCredentials>,
    /// The connection ends after the bytes.
    pub(super) ended: Option<Ended>,
}

impl Conversation {
    pub(super) fn new() -> Self {
        Self {
            state: State::Start,
            session: None,
            zxid: 0,
            pending: VecDeque::new(),
            refusals: 0,
            out: BytesMut::new(),
            granted: None,
            ended: None,
        }
    }

    /// Returns the session of the connection, once the server has named it.
    pub(super) const fn session(&self) -> Option<i64> {
        self.session
    }

    /// Returns `true` once bytes were found that are not the protocol of ZooKeeper. They pass
    /// unchanged, and no rule applies.
    pub(super) fn is_opaque(&self) -> bool {
        self.state == State::Opaque
    }

    /// Lets all bytes of the server pass.
    pub(super) fn make_opaque(&mut self) {
        self.state = State::Opaque;
    }

    /// The client opens a session or resumes one.
    pub(super) fn connect(&mut self, request: &ConnectRequest) {
        self.zxid = request.last_zxid_seen;
    }

    /// The server receives the request.
    pub(super) fn forward(&mut self, xid: i32, opcode: Option<OpCode>) {
        let expected = Expected::of(xid, opcode);
        // The reply could not be told from an event.
        if self.is_opaque() || expected.xid == XID_NOTIFICATION {
            return;
        }
        // A refusal must not split a frame.
        if self.state == State::Frames {
            while self.pending.len() >= REMEMBERED && self.forget_first() {}
            self.settle();
        }
        self.pending.push_back(Pending::Forwarded(expected));
    }

    /// The client receives this error in the place of a reply.
    pub(super) fn refuse(&mut self, xid: i32, code: ErrorCode) {
        self.pending.push_back(Pending::Refused { xid, code });
        self.refusals += 1;
        self.settle();
    }

    /// The connection ends after the replies to earlier requests.
    pub(super) fn lose_request(&mut self) {
        self.pending.push_back(Pending::End(Ended::RequestLost));
        self.settle();
    }

    /// The server receives the request. The connection ends in the place of the reply.
    pub(super) fn lose_reply(&mut self, xid: i32, opcode: Option<OpCode>) {
        self.pending.push_back(Pending::LosesReply(Expected::of(xid, opcode)));
    }

    /// Takes bytes of the server off `buf`: all complete frames, and the known parts of others.
    pub(super) fn receive(&mut self, buf: &mut BytesMut) {
        while self.ended.is_none() && !buf.is_empty() && self.receive_part(buf) {}
    }

    /// Takes the rest of the bytes of a server that has ended the connection.
    pub(super) fn receive_last(&mut self, buf: &mut BytesMut) {
        self.receive(buf);
        if self.ended.is_none() && !self.loses_reply() {
            self.out.extend_from_slice(&buf.split());
        }
    }

    /// Returns `false` while requests must wait, because too many replies do.
    pub(super) fn has_room(&self) -> bool {
        self.refusals < REFUSALS && self.out.len() < BACKLOG
    }

    /// Returns `true` if there is something to take.
    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty() || self.ended.is_some()
    }

    /// Takes what the client receives next.
    pub(super) fn take(&mut self) -> Output {
        let bytes = self.out.split().freeze();
        Output { bytes, granted: self.granted.take(), ended: self.ended }
    }

    /// Returns `false` if more bytes are needed.
    fn receive_part(&mut self, buf: &mut BytesMut) -> bool {
        match self.state {
            State::Opaque => self.out.extend_from_slice(&buf.split()),
            State::Inside { left, passes } => {
                let part = buf.split_to(buf.len().min(left));
                if passes {
                    self.out.extend_from_slice(&part);
                }
                self.state = State::Inside { left: left - part.len(), passes };
                self.end_frame();
            }
            State::Start => return self.first_frame(buf),
            State::Frames => return self.frame(buf),
        }
        true
    }

    fn first_frame(&mut self, buf: &mut BytesMut) -> bool {
        let Some(prefix) = buf.first_chunk::<PREFIX>() else { return false };
        let length = usize::try_from(i32::from_be_bytes(*prefix));
        let Some(length) = length.ok().filter(|length| *length <= CONNECT) else {
            self.make_opaque();
            return true;
        };
        if buf.len() < PREFIX + length {
            return false;
        }
        let body = Bytes::copy_from_slice(&buf[PREFIX..PREFIX + length]);
        match ConnectResponse::decode(&mut Decoder::new(body), "connect response") {
            Ok(response) => self.connected(response),
            Err(_) => self.make_opaque(),
        }
        self.out.extend_from_slice(&buf.split_to(PREFIX + length));
        self.settle();
        true
    }

    fn connected(&mut self, response: ConnectResponse) {
        self.state = State::Frames;
        self.session = Some(response.session_id);
        // The session does not exist otherwise.
        if let Some(password) = response.password.filter(|_| response.timeout > 0) {
            let session = SessionId::new(response.session_id);
            self.granted = Some(SessionCredentials::new(session, password, 0));
        }
    }

    fn frame(&mut self, buf: &mut BytesMut) -> bool {
        let Some(prefix) = buf.first_chunk::<PREFIX>() else { return false };
        let Ok(length) = usize::try_from(i32::from_be_bytes(*prefix)) else {
            self.ended = Some(Ended::Malformed);
            return true;
        };
        let head = length.min(HEADER);
        if buf.len() < PREFIX + head {
            return false;
        }
        let bytes = buf.split_to(PREFIX + head).freeze();
        let header = ReplyHeader::decode(&mut Decoder::new(bytes.slice(PREFIX..)), "reply header");
        // ZooKeeper sends no frame without a header.
        let passes = match header {
            Ok(header) => self.passes(&header),
            Err(_) => !self.loses_reply(),
        };
        if passes {
            self.out.extend_from_slice(&bytes);
        }
        self.state = State::Inside { left: length - head, passes };
        self.end_frame();
        true
    }

    /// Removes the request of a reply. Returns `true` if the client receives the reply or event.
    fn passes(&mut self, header: &ReplyHeader) -> bool {
        let is_event = header.xid == XID_NOTIFICATION;
        let answered = self.pending.iter().position(|pending| match pending {
            Pending::Forwarded(expected) | Pending::LosesReply(expected) => {
                expected.xid == header.xid
            }
            Pending::Refused { .. } | Pending::End(_) => false,
        });
        if let Some(at) = answered {
            let at = self.skip_to(at);
            if let Some(Pending::LosesReply(_)) = self.pending.get(at) {
                self.pending[at] = Pending::End(Ended::ReplyLost);
                return false;
            }
            self.pending.remove(at);
        }
        // The events since the request is the only one without a reply may be its effects.
        if is_event && self.loses_reply() {
            return false;
        }
        self.zxid = self.zxid.max(header.zxid);
        true
    }

    /// Forgets the requests before one that has its reply, unless that overtakes. The server will
    /// not reply to them: it replies in order. Returns the new position of the request.
    fn skip_to(&mut self, at: usize) -> usize {
        let answered = match self.pending[at] {
            Pending::Forwarded(expected) | Pending::LosesReply(expected) => expected,
            Pending::Refused { .. } | Pending::End(_) => return at,
        };
        if answered.overtakes {
            return at;
        }
        (0..at).rev().find(|_| !self.forget_first()).map_or(0, |left| left + 1)
    }

    /// Forgets the first request. Returns `false` if it has to stay, because it ends the
    /// connection.
    fn forget_first(&mut self) -> bool {
        match self.pending.front() {
            Some(Pending::Forwarded(_)) => {}
            Some(Pending::Refused { xid, code }) => self.send_refusal(*xid, *code),
            Some(Pending::LosesReply(_) | Pending::End(_)) | None => return false,
        }
        self.pending.pop_front();
        true
    }

    fn send_refusal(&mut self, xid: i32, code: ErrorCode) {
        let header = ReplyHeader { xid, zxid: self.zxid, err: code.code() };
        frame::put(&mut self.out, |out| header.encode(out));
        self.refusals -= 1;
    }

    /// Returns `true` if the reply that comes next is lost.
    fn loses_reply(&self) -> bool {
        matches!(self.pending.front(), Some(Pending::LosesReply(_)))
    }

    fn end_frame(&mut self) {
        if matches!(self.state, State::Inside { left: 0, .. }) {
            self.state = State::Frames;
            self.settle();
        }
    }

    /// Replies to refused requests whose turn has come. Does nothing inside a frame.
    fn settle(&mut self) {
        while self.state == State::Frames && self.ended.is_none() {
            match self.pending.front() {
                Some(Pending::Refused { xid, code }) => self.send_refusal(*xid, *code),
                Some(Pending::End(ended)) => self.ended = Some(*ended),
                Some(Pending::Forwarded(_) | Pending::LosesReply(_)) | None => return,
            }
            self.pending.pop_front();
        }
    }
}
