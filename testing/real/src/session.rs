//! A small client with one request at a time over a blocking socket.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a helper of tests")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_curator_proto::records::{
    Acl, ConnectRequest, ConnectResponse, CreateRequest, GetDataRequest, ReplyHeader,
    RequestHeader, SyncRequest,
};
use zk_curator_proto::{
    DEFAULT_MAX_FRAME, Decoder, Encoder, ErrorCode, Record, Request, Response, frame,
};

/// A session for tests that must not depend on the client. It is abandoned on drop, and expires.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    xid: i32,
}

impl Session {
    /// Opens a session. It panics, as all of its functions, if the server does not respond as
    /// expected.
    #[must_use]
    pub fn open(addr: SocketAddr, timeout_ms: i32) -> Self {
        Self::negotiate(addr, timeout_ms).0
    }

    /// Returns the session and the timeout that the server granted, in milliseconds.
    #[must_use]
    pub fn negotiate(addr: SocketAddr, timeout_ms: i32) -> (Self, i32) {
        Self::on(TcpStream::connect(addr).unwrap(), timeout_ms).unwrap()
    }

    fn on(stream: TcpStream, timeout_ms: i32) -> io::Result<(Self, i32)> {
        let mut session = Self { stream, xid: 0 };
        let password = Some(Bytes::from_static(&[0; 16]));
        let connect = ConnectRequest { timeout: timeout_ms, password, ..Default::default() };
        let answer = session.exchange(|body| connect.encode(body))?;
        let answer = ConnectResponse::decode(&mut Decoder::new(answer), "connect");
        Ok((session, answer.map_err(io::Error::other)?.timeout))
    }

    /// Creates a persistent node.
    pub fn create(&mut self, path: &str, data: &'static [u8]) {
        let data = Some(Bytes::from_static(data));
        let body = CreateRequest { path: path.into(), data, acl: Acl::open_unsafe(), flags: 0 };
        assert_eq!(self.call_or_panic(&Request::Create(body)), Ok(Response::Path(path.into())));
    }

    /// Returns the data of a node, or `None` if it does not exist.
    pub fn get_data(&mut self, path: &str) -> Option<Bytes> {
        match self
            .call_or_panic(&Request::GetData(GetDataRequest { path: path.into(), watch: false }))
        {
            Ok(Response::Data(answer)) => answer.data,
            Err(ErrorCode::NoNode) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Closes the session.
    pub fn close(mut self) {
        assert_eq!(self.call_or_panic(&Request::CloseSession), Ok(Response::Empty));
    }

    fn call_or_panic(&mut self, request: &Request) -> Result<Response, ErrorCode> {
        self.call(request).unwrap()
    }

    fn call(&mut self, request: &Request) -> io::Result<Result<Response, ErrorCode>> {
        self.xid += 1;
        let header = RequestHeader { xid: self.xid, opcode: request.opcode().code() };
        let answer = self.exchange(|body| {
            header.encode(body);
            request.encode_body(body);
        })?;
        let mut body = Decoder::new(answer);
        let header = ReplyHeader::decode(&mut body, "reply").map_err(io::Error::other)?;
        assert_eq!(header.xid, self.xid);
        Ok(match ErrorCode::from_code(header.err) {
            Some(code) => Err(code),
            None => {
                Ok(Response::decode_body(request.opcode(), &mut body).map_err(io::Error::other)?)
            }
        })
    }

    fn exchange(&mut self, fill: impl FnOnce(&mut Encoder)) -> io::Result<Bytes> {
        let mut out = BytesMut::new();
        frame::put(&mut out, fill);
        self.stream.write_all(&out)?;
        let mut buf = BytesMut::new();
        loop {
            let taken = frame::take(&mut buf, DEFAULT_MAX_FRAME).map_err(io::Error::other)?;
            if let Some(frame) = taken {
                return Ok(frame);
            }
            let mut chunk = [0; 4096];
            let read = self.stream.read(&mut chunk)?;
            if read == 0 {
                return Err(io::Error::other("the server closed the connection"));
            }
            buf.extend_from_slice(&chunk[..read]);
        }
    }
}

/// Waits until a server has applied all that its leader has committed before. `timeout` limits each
/// step.
pub(super) fn sync(addr: SocketAddr, timeout: Duration) -> io::Result<()> {
    let stream = TcpStream::connect_timeout(&addr, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    let (mut session, _) = Session::on(stream, 1)?;
    for request in [Request::Sync(SyncRequest { path: "/".into() }), Request::CloseSession] {
        session.call(&request)?.map_err(|code| io::Error::other(code.to_string()))?;
    }
    Ok(())
}
