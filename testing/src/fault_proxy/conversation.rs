//! [`Conversation`]: decides what a client receives, from the bytes of its server and the verdicts
//! about its requests. No I/O and no clock.

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
            // ZooKeeper answers each ping with the same xid.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use zk_curator_proto::{XID_AUTH, XID_SET_WATCHES};

    use super::*;

    const SESSION: i64 = 0x1234;

    fn granted(timeout: i32) -> BytesMut {
        let mut out = BytesMut::new();
        let password = Some(Bytes::from_static(&[7; 16]));
        let response = ConnectResponse {
            timeout,
            session_id: SESSION,
            password,
            ..ConnectResponse::default()
        };
        frame::put(&mut out, |out| response.encode(out));
        out
    }

    fn reply(xid: i32, zxid: i64, body: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| {
            ReplyHeader { xid, zxid, err: 0 }.encode(out);
            body.iter().for_each(|byte| out.bool(*byte > 0));
        });
        out
    }

    fn refusal(xid: i32, zxid: i64, code: ErrorCode) -> BytesMut {
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| ReplyHeader { xid, zxid, err: code.code() }.encode(out));
        out
    }

    fn connected() -> Conversation {
        let mut talk = Conversation::new();
        talk.connect(&ConnectRequest { last_zxid_seen: 5, ..ConnectRequest::default() });
        talk.receive(&mut granted(10_000));
        assert_eq!(talk.session(), Some(SESSION));
        let output = talk.take();
        assert_eq!(output.granted.map(|session| session.id.get()), Some(SESSION));
        assert_eq!(output.bytes, granted(10_000));
        talk
    }

    /// Returns the opcode of a request of the Java client with this xid.
    fn opcode(xid: i32) -> Option<OpCode> {
        Some(match xid {
            XID_PING => OpCode::Ping,
            XID_AUTH => OpCode::Auth,
            XID_SET_WATCHES => OpCode::SetWatches,
            _ => OpCode::Exists,
        })
    }

    fn forward(talk: &mut Conversation, xid: i32) {
        talk.forward(xid, opcode(xid));
    }

    fn lose_reply(talk: &mut Conversation, xid: i32) {
        talk.lose_reply(xid, opcode(xid));
    }

    /// Returns the frames that the client receives, and the end.
    fn receives(talk: &mut Conversation, frames: &[BytesMut]) -> (Vec<u8>, Option<Ended>) {
        for frame in frames {
            talk.receive(&mut frame.clone());
        }
        let output = talk.take();
        (output.bytes.to_vec(), output.ended)
    }

    #[test]
    fn a_refusal_waits_for_earlier_replies() {
        let mut talk = connected();
        talk.refuse(1, ErrorCode::NoAuth);
        assert_eq!(receives(&mut talk, &[]).0, refusal(1, 5, ErrorCode::NoAuth));
        forward(&mut talk, 2);
        talk.refuse(3, ErrorCode::NoNode);
        talk.refuse(4, ErrorCode::NoNode);
        forward(&mut talk, XID_PING);
        talk.refuse(5, ErrorCode::NoAuth);
        assert!(!talk.has_output());
        let event = reply(XID_NOTIFICATION, -1, b"event");
        assert_eq!(receives(&mut talk, std::slice::from_ref(&event)).0, event);
        let mut expected = reply(2, 9, b"body");
        expected.extend(refusal(3, 9, ErrorCode::NoNode));
        expected.extend(refusal(4, 9, ErrorCode::NoNode));
        assert_eq!(receives(&mut talk, &[reply(2, 9, b"body")]).0, expected);
        let mut expected = reply(XID_PING, 9, b"");
        expected.extend(refusal(5, 9, ErrorCode::NoAuth));
        assert_eq!(receives(&mut talk, &[reply(XID_PING, 9, b"")]), (expected.to_vec(), None));
    }

    #[test]
    fn requests_wait_for_room() {
        let mut talk = connected();
        forward(&mut talk, 1);
        for xid in 0..REFUSALS as i32 {
            assert!(talk.has_room());
            talk.refuse(2 + xid, ErrorCode::NoAuth);
        }
        assert!(!talk.has_room());
        talk.receive(&mut reply(1, 9, b""));
        assert!(talk.has_room());
        for xid in 0..(BACKLOG / 20) as i32 {
            talk.refuse(xid, ErrorCode::NoAuth);
        }
        assert!(!talk.has_room());
        talk.take();
        assert!(talk.has_room());
    }

    #[test]
    fn a_refusal_does_not_split_a_reply() {
        let mut talk = connected();
        let mut event = reply(XID_NOTIFICATION, -1, b"a long body");
        let mut second_half = event.split_off(event.len() - 3);
        talk.receive(&mut event);
        talk.refuse(1, ErrorCode::NoAuth);
        assert!(!talk.take().bytes.ends_with(&refusal(1, 5, ErrorCode::NoAuth)));
        talk.receive(&mut second_half);
        assert_eq!(talk.take().bytes[3..], refusal(1, 5, ErrorCode::NoAuth));
    }

    #[test]
    fn a_lost_request_ends_the_connection_after_earlier_replies() {
        let mut talk = connected();
        forward(&mut talk, 1);
        forward(&mut talk, XID_SET_WATCHES);
        talk.lose_request();
        let event = reply(XID_NOTIFICATION, -1, b"event");
        let first = [event.clone(), reply(1, 9, b"")];
        assert_eq!(receives(&mut talk, &first), (first.concat(), None));
        let last = [event.clone(), reply(XID_SET_WATCHES, 9, b"")];
        let all = [&last[..], std::slice::from_ref(&event)].concat();
        assert_eq!(receives(&mut talk, &all), (last.concat(), Some(Ended::RequestLost)));
    }

    #[test]
    fn a_lost_reply_is_dropped_with_its_events() {
        let mut talk = connected();
        forward(&mut talk, XID_PING);
        lose_reply(&mut talk, XID_PING);
        let event = reply(XID_NOTIFICATION, -1, b"event");
        let passes = [event.clone(), reply(XID_PING, 9, b"")];
        let all = [&passes[..], std::slice::from_ref(&event)].concat();
        assert_eq!(receives(&mut talk, &all), (passes.concat(), None));
        let lost = [event.clone(), reply(XID_PING, 10, b"lost"), event];
        assert_eq!(receives(&mut talk, &lost), (Vec::new(), Some(Ended::ReplyLost)));
    }

    #[test]
    fn authentication_overtakes_other_replies() {
        let mut talk = connected();
        forward(&mut talk, 1);
        talk.refuse(2, ErrorCode::NoNode);
        forward(&mut talk, XID_AUTH);
        let auth = reply(XID_AUTH, 0, b"");
        assert_eq!(receives(&mut talk, std::slice::from_ref(&auth)).0, auth);
        let expected = [reply(1, 9, b"a"), refusal(2, 9, ErrorCode::NoNode)].concat();
        assert_eq!(receives(&mut talk, &[reply(1, 9, b"a")]).0, expected);
        forward(&mut talk, 3);
        lose_reply(&mut talk, XID_AUTH);
        assert_eq!(receives(&mut talk, &[auth]), (Vec::new(), None));
        let last = reply(3, 9, b"a");
        let all = [last.clone(), reply(XID_NOTIFICATION, -1, b"late")];
        assert_eq!(receives(&mut talk, &all), (last.to_vec(), Some(Ended::ReplyLost)));
    }

    #[test]
    fn requests_without_a_reply_are_forgotten() {
        let mut talk = connected();
        // The reply to a ping has an xid of its own, and one to -1 looks like an event.
        for _ in 0..10 {
            talk.forward(7, Some(OpCode::Ping));
            talk.forward(XID_NOTIFICATION, Some(OpCode::Exists));
            let replies = [reply(XID_PING, 9, b""), reply(XID_NOTIFICATION, 9, b"body")];
            assert_eq!(receives(&mut talk, &replies).0, replies.concat());
            assert_eq!(talk.pending.len(), 0);
        }
        // A server replies in order, so these have none.
        forward(&mut talk, 1);
        talk.refuse(2, ErrorCode::NoNode);
        forward(&mut talk, 3);
        forward(&mut talk, 4);
        let expected = [refusal(2, 9, ErrorCode::NoNode), reply(4, 10, b"")].concat();
        assert_eq!(receives(&mut talk, &[reply(4, 10, b"")]).0, expected);
        assert_eq!(talk.pending.len(), 0);
    }

    #[test]
    fn memory_for_requests_is_bounded() {
        let mut talk = connected();
        for xid in 1..=REMEMBERED as i32 {
            forward(&mut talk, xid);
            talk.refuse(xid, ErrorCode::NoNode);
        }
        assert!(talk.pending.len() <= REMEMBERED + 1);
        // The refusals in front of the oldest remembered request are sent.
        assert!(!talk.take().bytes.is_empty());
        let replies = [reply(1, 9, b"late"), reply(REMEMBERED as i32, 9, b"last")];
        assert!(receives(&mut talk, &replies).0.starts_with(&replies[0]));
        assert_eq!((talk.pending.len(), talk.refusals), (0, 0));
    }

    #[test]
    fn a_lost_reply_that_looks_like_an_event_ends_the_connection() {
        let mut talk = connected();
        lose_reply(&mut talk, XID_NOTIFICATION);
        let reply = reply(XID_NOTIFICATION, 9, b"body");
        assert_eq!(receives(&mut talk, &[reply]), (Vec::new(), Some(Ended::ReplyLost)));
    }

    #[test]
    fn a_reply_of_any_length_is_not_collected() {
        let mut talk = connected();
        forward(&mut talk, 1);
        let mut head = reply(1, 9, b"");
        head[..PREFIX].copy_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(receives(&mut talk, std::slice::from_ref(&head)).0, head);
        assert_eq!(receives(&mut talk, &[BytesMut::zeroed(1000)]).0, [0; 1000]);
    }

    #[test]
    fn a_session_that_is_not_granted_has_no_credentials() {
        let mut talk = Conversation::new();
        talk.connect(&ConnectRequest::default());
        talk.receive(&mut granted(0));
        assert_eq!(talk.take(), Output { bytes: granted(0).freeze(), granted: None, ended: None });
        assert_eq!(talk.session(), Some(SESSION));
    }

    #[test]
    fn other_protocols_pass() {
        let mut talk = Conversation::new();
        talk.make_opaque();
        assert_eq!(receives(&mut talk, &[b"imok"[..].into()]).0, b"imok");
        let mut talk = Conversation::new();
        assert_eq!(receives(&mut talk, &[b"HTTP/1.1 400"[..].into()]).0, b"HTTP/1.1 400");
        assert!(talk.is_opaque());
        let mut talk = connected();
        let negative = [0xff; 4][..].into();
        assert_eq!(receives(&mut talk, &[negative]), (Vec::new(), Some(Ended::Malformed)));
    }

    #[test]
    fn the_last_bytes_pass_unless_they_may_be_a_lost_reply() {
        let part = &reply(1, 9, b"body")[..10];
        let mut talk = connected();
        forward(&mut talk, 1);
        talk.receive_last(&mut part.into());
        assert_eq!(talk.take().bytes, part);
        let mut talk = connected();
        lose_reply(&mut talk, 1);
        talk.receive_last(&mut part.into());
        assert_eq!(talk.take().bytes, b""[..]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Forward,
        /// A request that the server never replies to.
        Unanswered,
        Refuse,
        Event(usize),
        Reply(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Forward),
            Just(Step::Unanswered),
            Just(Step::Refuse),
            (0..40usize).prop_map(Step::Event),
            (0..40usize).prop_map(Step::Reply),
        ]
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Last {
        Nothing,
        LoseRequest,
        LoseReply,
    }

    proptest! {
        /// The server replies in order, at any time, in any chunks.
        #[test]
        fn replies_come_in_the_order_of_the_requests(
            steps in prop::collection::vec(step(), 0..40),
            last in prop_oneof![Just(Last::Nothing), Just(Last::LoseRequest), Just(Last::LoseReply)],
            chunks in prop::collection::vec(1..30usize, 1..8),
        ) {
            let mut talk = connected();
            let mut chunks = chunks.iter().cycle();
            let (mut wire, mut buf, mut seen) = (BytesMut::new(), BytesMut::new(), BytesMut::new());
            let mut feed = |talk: &mut Conversation, wire: &mut BytesMut, all: bool| {
                let now = if all { wire.len() } else { wire.len().min(*chunks.next().unwrap()) };
                buf.extend_from_slice(&wire.split_to(now));
                talk.receive(&mut buf);
            };
            let (mut next, mut replied, mut forwarded) = (0, 0, Vec::new());
            let (mut events, mut unanswered) = (0, BTreeSet::new());
            for step in &steps {
                match step {
                    Step::Forward => {
                        next += 1;
                        forwarded.push(next);
                        forward(&mut talk, next);
                    }
                    Step::Unanswered => {
                        next += 1;
                        unanswered.insert(next);
                        forward(&mut talk, next);
                    }
                    Step::Refuse => {
                        next += 1;
                        talk.refuse(next, ErrorCode::NoAuth);
                    }
                    Step::Event(length) => {
                        events += 1;
                        wire.extend(reply(XID_NOTIFICATION, -1, &vec![1; *length]));
                    }
                    Step::Reply(length) => {
                        if let Some(xid) = forwarded.get(replied) {
                            replied += 1;
                            wire.extend(reply(*xid, 9, &vec![1; *length]));
                        }
                    }
                }
                feed(&mut talk, &mut wire, false);
                seen.extend_from_slice(&talk.take().bytes);
            }
            // Its reply shows that others have none.
            next += 1;
            forwarded.push(next);
            forward(&mut talk, next);
            match last {
                Last::Nothing => {}
                Last::LoseRequest => talk.lose_request(),
                Last::LoseReply => {
                    forwarded.push(next + 1);
                    lose_reply(&mut talk, next + 1);
                }
            }
            for xid in &forwarded[replied..] {
                wire.extend(reply(*xid, 9, b"rest"));
            }
            feed(&mut talk, &mut wire, true);
            let output = talk.take();
            seen.extend_from_slice(&output.bytes);

            let mut xids = Vec::new();
            while let Some(mut frame) = frame::take(&mut seen, 1000).unwrap().map(Decoder::new) {
                xids.push(ReplyHeader::decode(&mut frame, "header").unwrap().xid);
            }
            prop_assert!(seen.is_empty());
            let replies: Vec<_> = xids.iter().copied().filter(|xid| *xid > 0).collect();
            let answered = (1..=next).filter(|xid| !unanswered.contains(xid)).collect::<Vec<_>>();
            if last == Last::Nothing {
                prop_assert_eq!(xids.len(), answered.len() + events);
            }
            prop_assert_eq!(replies, answered);
            prop_assert!(talk.pending.is_empty());
            let ended = match last {
                Last::Nothing => None,
                Last::LoseRequest => Some(Ended::RequestLost),
                Last::LoseReply => Some(Ended::ReplyLost),
            };
            prop_assert_eq!(output.ended, ended);
        }
    }
}
