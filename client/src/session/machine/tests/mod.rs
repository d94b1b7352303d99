//! The machine, with every input and output byte checked by hand.

mod attempts;
mod ending;
mod hostile;
mod limits;
mod liveness;
mod requests;
mod sasl;
mod sessions;
mod watches;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_core::Stream;
use tokio::sync::oneshot;
use tokio::time::Instant;
use zk_curator_proto::records::{
    AuthPacket, ConnectRequest, ConnectResponse, EventType, ExistsRequest, GetChildrenRequest,
    GetDataRequest, ReplyHeader, RequestHeader, WatcherEvent,
};
use zk_curator_proto::{
    Decoder, Encoder, ErrorCode, OpCode, Record, Request, Response, XID_AUTH, XID_NOTIFICATION,
    XID_PING, XID_SET_WATCHES, frame,
};

use super::{SessionEffect, SessionMachine};
use crate::config::ZooKeeperBuilder;
use crate::session::WatchEffect;
use crate::session::{
    ExpiredBy, RequestBatch, RequestQueue, ResponseTicket, SessionCommand, SessionState,
    SessionStates, StateHub, WatchPlan,
};
use crate::watch::{EventSink, FiredWatch, WatchEnded, WatchOutcome};
use crate::{
    ConnectString, DisconnectedPolicy, Error, HostPort, SessionId, SessionInfo, ZooKeeper,
};

/// The requested and granted session timeout of these tests.
const TIMEOUT: Duration = Duration::from_secs(9);
const PATIENCE: Duration = Duration::from_secs(4);
const SESSION: i64 = 0x17;
const PASSWORD: &[u8; 16] = b"sixteen  letters";

type Watch = oneshot::Receiver<WatchOutcome>;

/// A machine whose driver is the test.
struct Rig {
    machine: SessionMachine,
    states: SessionStates,
    now: Instant,
    queue: Arc<RequestQueue>,
    /// The host of the last attempt to connect.
    host: HostPort,
}

/// A request that the machine has sent.
#[derive(Debug, PartialEq)]
struct Sent {
    xid: i32,
    request: Request,
}

impl Rig {
    fn new() -> Self {
        Self::with("h:1", |builder| builder)
    }

    fn with(
        connect_string: &str,
        configure: impl FnOnce(ZooKeeperBuilder) -> ZooKeeperBuilder,
    ) -> Self {
        let builder = ZooKeeper::builder(connect_string)
            .session_timeout(TIMEOUT)
            .disconnected(DisconnectedPolicy::Wait(PATIENCE))
            .seed(1);
        let target: ConnectString = connect_string.parse().unwrap();
        let hub = Arc::new(StateHub::new(Arc::new(crate::NeverSuspended)));
        let states = hub.subscribe();
        let now = Instant::now();
        let queue = Arc::new(RequestQueue::new(&target.chroot, usize::MAX, 100_000, usize::MAX));
        let machine =
            SessionMachine::new(&configure(builder), &target, hub, Arc::clone(&queue), now);
        let host = target.hosts[0].clone();
        let mut rig = Self { machine, states, now, queue, host };
        assert_eq!(rig.states(), [SessionState::Connecting]);
        rig
    }

    /// Returns a machine whose session a server serves.
    fn connected() -> Self {
        let mut rig = Self::new();
        rig.connect();
        rig.states();
        rig
    }

    /// Lets time pass, as the driver does: every timer is served when it is due.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(timer) = self.machine.next_timer().filter(|timer| *timer <= end) {
            self.now = self.now.max(timer);
            self.machine.on_timer(self.now);
            self.machine.deliver();
        }
        self.now = end;
    }

    /// Returns the time until the next timer.
    fn next_timer(&self) -> Duration {
        self.machine.next_timer().expect("a timer") - self.now
    }

    fn effects(&mut self) -> Vec<SessionEffect> {
        std::iter::from_fn(|| self.machine.next_effect()).collect()
    }

    fn states(&mut self) -> Vec<SessionState> {
        let mut seen = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(state)) = Pin::new(&mut self.states).poll_next(&mut context) {
            seen.push(state);
        }
        seen
    }

    /// Lets time pass until the machine wants a connection.
    fn until_connect(&mut self) {
        for _ in 0..100 {
            self.effects();
            if let Some(attempt) = self.machine.attempts.last() {
                self.host = attempt.host.clone();
                return;
            }
            self.pass(self.next_timer());
        }
        panic!("the machine does not try to connect");
    }

    /// Opens a connection and returns the connect request.
    fn open(&mut self) -> ConnectRequest {
        self.until_connect();
        self.connected_to();
        self.connect_request()
    }

    /// Returns the connect request, which was sent on an open connection.
    fn connect_request(&mut self) -> ConnectRequest {
        let body =
            frame::take(self.machine.output(), usize::MAX).unwrap().expect("a connect request");
        let mut body = Decoder::new(body);
        let request = ConnectRequest::decode(&mut body, "connect request").unwrap();
        assert_eq!(body.remaining(), 0);
        request
    }

    /// Opens the connection that was requested last.
    fn connected_to(&mut self) {
        self.machine.on_connected(&self.host, self.now);
    }

    fn connect(&mut self) -> ConnectRequest {
        let request = self.open();
        self.accept(TIMEOUT);
        request
    }

    /// Grants the session.
    fn accept(&mut self, timeout: Duration) {
        let timeout = i32::try_from(timeout.as_millis()).unwrap();
        self.answer_handshake(timeout, SESSION);
    }

    fn answer_handshake(&mut self, timeout: i32, session_id: i64) {
        let password = Some(Bytes::from_static(PASSWORD));
        self.receive(|body| {
            ConnectResponse { timeout, session_id, password, ..ConnectResponse::default() }
                .encode(body);
        });
    }

    /// Fails an attempt to connect.
    fn cut_attempt(&mut self) {
        self.machine.on_attempt_failed(
            &self.host,
            io::ErrorKind::ConnectionRefused.into(),
            self.now,
        );
        self.machine.deliver();
    }

    fn cut(&mut self) {
        self.machine.on_io_error(self.now, io::ErrorKind::ConnectionReset.into());
        self.machine.deliver();
        assert!(self.effects().contains(&SessionEffect::Disconnect));
    }

    /// Returns the frames that were sent since the last call.
    fn sent(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(body) = frame::take(self.machine.output(), usize::MAX).unwrap() {
            let mut body = Decoder::new(body);
            let RequestHeader { xid, opcode } = Record::decode(&mut body, "header").unwrap();
            let opcode = OpCode::try_from(opcode).unwrap();
            let request = Request::decode_body(opcode, &mut body).unwrap();
            assert_eq!(body.remaining(), 0);
            sent.push(Sent { xid, request });
        }
        assert!(!self.machine.output().has_remaining());
        sent
    }

    fn sent_opcodes(&mut self) -> Vec<OpCode> {
        self.sent().iter().map(|sent| sent.request.opcode()).collect()
    }

    /// Delivers a frame.
    fn receive(&mut self, fill: impl FnOnce(&mut Encoder)) {
        let mut buf = BytesMut::new();
        frame::put(&mut buf, fill);
        self.receive_bytes(buf);
    }

    fn receive_bytes(&mut self, mut buf: BytesMut) {
        self.machine.on_read(&mut buf, self.now);
        self.machine.deliver();
    }

    fn reply(&mut self, xid: i32, zxid: i64, result: Result<Response, ErrorCode>) {
        self.receive(|out| {
            ReplyHeader { xid, zxid, err: result.as_ref().err().map_or(0, |code| code.code()) }
                .encode(out);
            if let Ok(response) = result {
                response.encode_body(out);
            }
        });
    }

    fn reply_ok(&mut self, xid: i32) {
        self.reply(xid, 0, Ok(Response::Empty));
    }

    fn event(&mut self, event_type: EventType, path: &str) {
        self.receive(|out| {
            ReplyHeader { xid: XID_NOTIFICATION, zxid: -1, err: 0 }.encode(out);
            WatcherEvent { event_type: event_type as i32, state: 3, path: path.into() }.encode(out);
        });
    }

    fn request(&mut self, request: Request) -> Answer {
        self.submit(request, None)
    }

    fn submit(&mut self, request: Request, watch: Option<WatchEffect>) -> Answer {
        let watch = watch.map(Box::new);
        let fill = |body: &mut Encoder| request.encode_body(body);
        let ticket = self.queue.submit(request.opcode(), watch, false, fill).expect("a place");
        self.take();
        Answer(ticket)
    }

    fn command(&mut self, command: SessionCommand) {
        self.queue.send(command).unwrap();
        self.take();
    }

    /// Lets the machine take the submitted commands.
    fn take(&mut self) {
        let mut batch = RequestBatch::default();
        assert!(self.queue.take(&mut batch));
        self.machine.on_batch(&mut batch, self.now);
        self.machine.deliver();
    }

    /// Drops the last handle.
    fn on_last_handle_dropped(&mut self) {
        self.machine.on_close(None, false, self.now);
        self.machine.deliver();
    }

    fn last_failure(&self) -> String {
        self.machine.states.failure().expect("a failure").to_string()
    }

    fn get(&mut self, path: &str) -> Answer {
        self.request(Request::GetData(GetDataRequest { path: path.into(), watch: false }))
    }

    fn delete(&mut self, path: &str) -> Answer {
        let path = path.into();
        self.request(Request::Delete(zk_curator_proto::records::DeleteRequest {
            path,
            version: -1,
        }))
    }

    fn watched(&mut self, plan: WatchPlan, path: &str) -> (Answer, Watch) {
        let (sender, watch) = oneshot::channel();
        let (owned, watched) = (path.to_owned(), true);
        let request = match plan {
            WatchPlan::Data => Request::GetData(GetDataRequest { path: owned, watch: watched }),
            WatchPlan::Child => {
                Request::GetChildren2(GetChildrenRequest { path: owned, watch: watched })
            }
            WatchPlan::Exists => Request::Exists(ExistsRequest { path: owned, watch: watched }),
            WatchPlan::Persistent(_) => panic!("not a read"),
        };
        (
            self.submit(
                request,
                Some(WatchEffect::Arm(plan, path.into(), EventSink::Once(sender))),
            ),
            watch,
        )
    }

    fn add_auth(&mut self, scheme: &str) -> Answer {
        let packet = Box::new(packet(scheme));
        let ticket = self.queue.ask(|reply| SessionCommand::AddAuth { packet, reply }).unwrap();
        self.take();
        Answer(ticket)
    }

    fn close(&mut self) -> oneshot::Receiver<Result<(), Error>> {
        let (done, closed) = oneshot::channel();
        self.command(SessionCommand::Close { done });
        closed
    }

    /// Asserts that only `Done` is left, and that no timer is set.
    fn assert_ended(&mut self) {
        let effects = self.effects();
        assert_eq!(effects.last(), Some(&SessionEffect::Done), "{effects:?}");
        assert_eq!(self.machine.next_timer(), None);
    }

    fn assert_disconnected(&mut self) {
        assert_eq!(self.states(), [SessionState::Disconnected]);
        assert_eq!(self.effects(), [SessionEffect::Disconnect]);
    }
}

fn packet(scheme: &str) -> AuthPacket {
    AuthPacket { scheme: scheme.into(), auth: Some(Bytes::from_static(b"secret")) }
}

fn info(timeout: Duration) -> SessionInfo {
    SessionInfo::new(SessionId::new(SESSION), timeout)
}

/// The response to a request.
struct Answer(ResponseTicket);

/// An expected input.
trait Awaited {
    type Value;

    /// Returns the value if it has arrived, or an error if it never will.
    fn look(&mut self) -> Result<Option<Self::Value>, oneshot::error::RecvError>;
}

impl<T> Awaited for oneshot::Receiver<T> {
    type Value = T;

    fn look(&mut self) -> Result<Option<T>, oneshot::error::RecvError> {
        match Pin::new(self).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value.map(Some),
            Poll::Pending => Ok(None),
        }
    }
}

impl Awaited for Answer {
    type Value = Result<Response, Error>;

    fn look(&mut self) -> Result<Option<Self::Value>, oneshot::error::RecvError> {
        match self.0.poll(&Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Ok(Some(answer)),
            Poll::Pending => Ok(None),
        }
    }
}

impl Answer {
    fn try_recv(&mut self) -> Option<Result<Response, Error>> {
        self.look().unwrap()
    }
}

/// Returns the response, which must have arrived.
fn now<A: Awaited>(mut answer: A) -> A::Value {
    answer.look().unwrap().expect("a response")
}

fn is_open(answer: &mut impl Awaited) -> bool {
    matches!(answer.look(), Ok(None))
}
