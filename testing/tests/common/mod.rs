//! A passive client: the test itself writes and reads every frame.
#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "every test binary uses another part of it, and all of it is for tests"
)]

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zk_curator_client::{Connector, TcpConnector, Transport};
use zk_curator_proto::records::{
    Acl, AuthPacket, ConnectRequest, ConnectResponse, CreateMode, CreateRequest, DeleteRequest,
    EventType, ExistsRequest, GetChildrenRequest, GetDataRequest, MultiOp, MultiResult,
    ReplyHeader, RequestHeader, SetDataRequest, Stat, WatcherEvent,
};
use zk_curator_proto::{
    Decoder, ErrorCode, OpCode, Record, Request, Response, XID_AUTH, XID_NOTIFICATION, XID_PING,
    XID_SET_WATCHES, frame,
};
use zk_curator_testing::TestServer;

/// A timeout that is longer than any wait of a test, on a busy machine too.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A session timeout in real time, in milliseconds: servers of the tests grant it, and clients that
/// send nothing live longer than their test.
pub(crate) const LONG_SESSION: i32 = 40_000;

/// A received message: a watch event, or the response to a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    Event(EventType, String),
    Reply { xid: i32, zxid: i64, result: Result<Response, ErrorCode> },
}

pub(crate) struct RawClient {
    stream: Box<dyn Transport>,
    buf: BytesMut,
    next_xid: i32,
    /// The opcodes of the requests without a response so far, in order.
    pending: VecDeque<OpCode>,
    /// The events that arrived before a response.
    pub(crate) events: VecDeque<(EventType, String)>,
    pub(crate) session: ConnectResponse,
    pub(crate) last_zxid: i64,
}

impl RawClient {
    /// Connects through memory with a timeout of 10 s.
    pub(crate) async fn new(server: &TestServer) -> Self {
        Self::with_timeout(server, 10_000).await
    }

    pub(crate) async fn with_timeout(server: &TestServer, timeout: i32) -> Self {
        Self::handshake(server, ConnectRequest { timeout, ..new_session() })
            .await
            .expect("a session")
    }

    /// Connects to the address of any server over TCP, with a session that does not end by itself.
    pub(crate) async fn over_tcp(address: &str) -> Self {
        Self::over_tcp_for(address, LONG_SESSION).await
    }

    /// Connects to the address of any server over TCP, with a session timeout in milliseconds.
    pub(crate) async fn over_tcp_for(address: &str, timeout: i32) -> Self {
        let (host, port) = address.rsplit_once(':').unwrap();
        let stream = TcpConnector::default().connect(host, port.parse().unwrap()).await.unwrap();
        Self::open(stream, ConnectRequest { timeout, ..new_session() }).await.expect("a session")
    }

    /// Continues the session of another client on a new connection.
    pub(crate) async fn reattach(&self, server: &TestServer) -> Option<Self> {
        Self::handshake(server, self.reattach_request()).await
    }

    pub(crate) fn reattach_request(&self) -> ConnectRequest {
        ConnectRequest {
            last_zxid_seen: self.last_zxid,
            timeout: self.session.timeout,
            session_id: self.session.session_id,
            password: self.session.password.clone(),
            ..ConnectRequest::default()
        }
    }

    /// Returns `None` if the server closes the connection without a response.
    pub(crate) async fn handshake(server: &TestServer, request: ConnectRequest) -> Option<Self> {
        Self::open(server.connector().connect("memory", 2181).await.unwrap(), request).await
    }

    pub(crate) async fn open(
        mut stream: Box<dyn Transport>,
        request: ConnectRequest,
    ) -> Option<Self> {
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| request.encode(out));
        stream.write_all(&out).await.unwrap();
        let mut client = Self {
            stream,
            buf: BytesMut::new(),
            next_xid: 1,
            pending: VecDeque::new(),
            events: VecDeque::new(),
            session: ConnectResponse::default(),
            last_zxid: request.last_zxid_seen,
        };
        let frame = client.frame().await?;
        client.session = ConnectResponse::decode(&mut Decoder::new(frame), "response").unwrap();
        Some(client)
    }

    pub(crate) fn id(&self) -> i64 {
        self.session.session_id
    }

    /// Writes bytes unchanged.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends a request without reading the response.
    pub(crate) async fn send(&mut self, request: Request) -> i32 {
        let xid = match request {
            Request::Ping => XID_PING,
            Request::Auth(_) => XID_AUTH,
            Request::SetWatches(_) | Request::SetWatches2(_) => XID_SET_WATCHES,
            _ => self.next_xid,
        };
        self.next_xid += 1;
        let opcode = request.opcode();
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| {
            RequestHeader { xid, opcode: opcode.code() }.encode(out);
            request.encode_body(out);
        });
        self.stream.write_all(&out).await.unwrap();
        self.pending.push_back(opcode);
        xid
    }

    /// Sends a request and waits for its response. Keeps the events before it.
    pub(crate) async fn call(&mut self, request: Request) -> Result<Response, ErrorCode> {
        self.send(request).await;
        self.reply().await.expect("a response")
    }

    /// Returns the next response; `None` when the connection ends.
    pub(crate) async fn reply(&mut self) -> Option<Result<Response, ErrorCode>> {
        loop {
            match self.message().await? {
                Message::Event(event, path) => self.events.push_back((event, path)),
                Message::Reply { result, .. } => return Some(result),
            }
        }
    }

    /// Returns the next event. Panics if a response arrives first.
    pub(crate) async fn event(&mut self) -> (EventType, String) {
        if let Some(event) = self.events.pop_front() {
            return event;
        }
        match self.message().await.expect("an event") {
            Message::Event(event, path) => (event, path),
            reply => panic!("a response instead of an event: {reply:?}"),
        }
    }

    /// Returns the next message; `None` when the connection ends.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        let mut input = Decoder::new(self.frame().await?);
        let header = ReplyHeader::decode(&mut input, "header").unwrap();
        if header.xid == XID_NOTIFICATION {
            let event = WatcherEvent::decode(&mut input, "event").unwrap();
            assert_eq!((header.err, event.state), (0, 3));
            return Some(Message::Event(event.event_type.try_into().unwrap(), event.path));
        }
        let opcode = self.pending.pop_front().expect("a response to a request");
        self.last_zxid = self.last_zxid.max(header.zxid);
        let result = match ErrorCode::from_code(header.err) {
            Some(code) => Err(code),
            None => Ok(Response::decode_body(opcode, &mut input).unwrap()),
        };
        assert_eq!(input.remaining(), 0, "trailing bytes in a response to {opcode:?}");
        Some(Message::Reply { xid: header.xid, zxid: header.zxid, result })
    }

    pub(crate) async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = frame::take(&mut self.buf, 1 << 24).unwrap() {
                return Some(frame);
            }
            let read = tokio::time::timeout(LONG, self.stream.read_buf(&mut self.buf))
                .await
                .expect("bytes in time");
            // A connection that is cut with unread bytes is reset.
            if read.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Waits until the server closes the connection. Panics if anything else arrives.
    pub(crate) async fn closed(&mut self) {
        let frame = self.frame().await;
        assert_eq!(frame, None, "the connection is still open");
    }

    pub(crate) async fn create(
        &mut self,
        path: &str,
        mode: CreateMode,
    ) -> Result<String, ErrorCode> {
        match self.call(create(path, mode)).await? {
            Response::Path(path) => Ok(path),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Result<(), ErrorCode> {
        self.call(delete(path)).await.map(|_| ())
    }

    pub(crate) async fn set_data(
        &mut self,
        path: &str,
        data: &'static [u8],
    ) -> Result<Stat, ErrorCode> {
        match self.call(set_data(path, data, -1)).await? {
            Response::Stat(stat) => Ok(stat),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn exists(&mut self, path: &str, watch: bool) -> Result<Stat, ErrorCode> {
        match self.call(Request::Exists(ExistsRequest { path: path.into(), watch })).await? {
            Response::Stat(stat) => Ok(stat),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn get_data(
        &mut self,
        path: &str,
        watch: bool,
    ) -> Result<Option<Bytes>, ErrorCode> {
        match self.call(Request::GetData(GetDataRequest { path: path.into(), watch })).await? {
            Response::Data(body) => Ok(body.data),
            other => panic!("{other:?}"),
        }
    }

    /// Returns sorted names, because the server lists children in no order.
    pub(crate) async fn children(
        &mut self,
        path: &str,
        watch: bool,
    ) -> Result<Vec<String>, ErrorCode> {
        match self
            .call(Request::GetChildren(GetChildrenRequest { path: path.into(), watch }))
            .await?
        {
            Response::Children(mut names) => {
                names.sort_unstable();
                Ok(names)
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn multi(&mut self, ops: Vec<MultiOp>) -> Vec<MultiResult> {
        match self.call(Request::Multi(ops)).await.unwrap() {
            Response::Multi(results) => results,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn ping(&mut self) {
        assert_eq!(self.call(Request::Ping).await, Ok(Response::Empty));
    }
}

/// The request of a session that does not end by itself, however busy the machine is.
pub(crate) fn new_session() -> ConnectRequest {
    ConnectRequest {
        timeout: LONG_SESSION,
        password: Some(Bytes::from_static(&[0; 16])),
        ..ConnectRequest::default()
    }
}

pub(crate) fn create_body(path: &str, mode: CreateMode) -> CreateRequest {
    CreateRequest {
        path: path.into(),
        data: Some(Bytes::from_static(b"data")),
        acl: Acl::open_unsafe(),
        flags: mode.flags(),
    }
}

pub(crate) fn create(path: &str, mode: CreateMode) -> Request {
    Request::Create(create_body(path, mode))
}

pub(crate) fn delete(path: &str) -> Request {
    Request::Delete(DeleteRequest { path: path.into(), version: -1 })
}

pub(crate) fn set_data(path: &str, data: &'static [u8], version: i32) -> Request {
    Request::SetData(SetDataRequest {
        path: path.into(),
        data: Some(Bytes::from_static(data)),
        version,
    })
}

pub(crate) fn auth(scheme: &str, credentials: &'static [u8]) -> Request {
    Request::Auth(AuthPacket { scheme: scheme.into(), auth: Some(Bytes::from_static(credentials)) })
}

/// Waits until nothing listens at the address. A process that another test has just started keeps a
/// copy of the listener until it runs its program.
pub(crate) async fn refuses(addr: std::net::SocketAddr) {
    let refused = async {
        while tokio::net::TcpStream::connect(addr).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, refused).await.expect("connections are refused");
}
