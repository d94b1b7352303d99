//! The I/O loop, against peers that the test controls.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::{create, history, is_connected, open, real_time, simulated, until};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::Instant;
use zk_curator_client::{
    Connector, CreateMode, Error, SessionState, Transport, ZooKeeper, ZooKeeperBuilder,
};
use zk_curator_proto::records::{
    ConnectResponse, DataResponse, EventType, ReplyHeader, RequestHeader, Stat, WatcherEvent,
};
use zk_curator_proto::{
    Decoder, Encoder, ErrorCode, OpCode, Record, Response, XID_AUTH, XID_NOTIFICATION, frame,
};

/// Passes the other ends of its connections to the test.
#[derive(Debug)]
struct Stage {
    buffer: usize,
    peers: Mutex<mpsc::UnboundedSender<DuplexStream>>,
}

#[async_trait::async_trait]
impl Connector for Stage {
    async fn connect(&self, _: &str, _: u16) -> io::Result<Box<dyn Transport>> {
        let (client, server) = tokio::io::duplex(self.buffer);
        let peers = self.peers.lock().expect("no panic");
        peers.send(server).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(Box::new(client))
    }
}

struct Peers(mpsc::UnboundedReceiver<DuplexStream>);

struct Peer {
    stream: DuplexStream,
    read: BytesMut,
}

/// Returns a client and its peers, through connections that buffer `buffer` bytes in each
/// direction.
fn stage(buffer: usize) -> (ZooKeeperBuilder, Peers) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let stage = Stage { buffer, peers: Mutex::new(sender) };
    (ZooKeeper::builder("stage").connector(Arc::new(stage)).seed(7), Peers(receiver))
}

impl Peers {
    /// Returns the next connection, before its handshake.
    async fn accept(&mut self) -> Peer {
        Peer { stream: self.0.recv().await.expect("a connection"), read: BytesMut::new() }
    }

    /// Returns the next connection, after a handshake that grants `timeout`.
    async fn serve(&mut self, timeout: i32) -> Peer {
        let mut peer = self.accept().await;
        peer.frame().await;
        peer.write(&granted(timeout)).await.expect("a client that reads");
        peer
    }
}

impl Peer {
    async fn frame(&mut self) -> Bytes {
        loop {
            if let Some(frame) = frame::take(&mut self.read, usize::MAX).expect("a frame") {
                return frame;
            }
            assert_ne!(
                self.stream.read_buf(&mut self.read).await.expect("bytes"),
                0,
                "closed by the client"
            );
        }
    }

    async fn request(&mut self) -> (i32, OpCode) {
        let mut frame = Decoder::new(self.frame().await);
        let RequestHeader { xid, opcode } = Record::decode(&mut frame, "header").expect("a header");
        (xid, opcode.try_into().expect("an opcode"))
    }

    async fn send(&mut self, fill: impl FnOnce(&mut Encoder)) {
        self.write(&framed(fill)).await.expect("a client that reads");
    }

    async fn reply(&mut self, xid: i32, result: Result<Response, ErrorCode>) {
        self.send(|out| {
            ReplyHeader { xid, zxid: 1, err: result.as_ref().err().map_or(0, |code| code.code()) }
                .encode(out);
            if let Ok(response) = result {
                response.encode_body(out);
            }
        })
        .await;
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads until the client closes the connection.
    async fn closed(mut self) {
        while self.stream.read_buf(&mut self.read).await.is_ok_and(|read| read > 0) {}
    }
}

fn framed(fill: impl FnOnce(&mut Encoder)) -> BytesMut {
    let mut out = BytesMut::new();
    frame::put(&mut out, fill);
    out
}

fn granted(timeout: i32) -> BytesMut {
    let password = Some(Bytes::from_static(&[7; 16]));
    let response =
        ConnectResponse { timeout, session_id: 1, password, ..ConnectResponse::default() };
    framed(|out| response.encode(out))
}

fn event() -> BytesMut {
    framed(|out| {
        ReplyHeader { xid: XID_NOTIFICATION, zxid: -1, err: 0 }.encode(out);
        WatcherEvent { event_type: EventType::NodeCreated as i32, state: 3, path: "/noise".into() }
            .encode(out);
    })
}

#[test]
fn responses_may_come_in_any_pieces() {
    simulated(async {
        for (buffer, length) in [(1, 2000), (7, 70_000), (4096, 3 << 20)] {
            let (builder, mut peers) = stage(buffer);
            let zk = builder.connect().unwrap();
            let mut peer = peers.serve(9000).await;
            let (first, second) = (zk.get_data("/a"), zk.get_data("/b"));
            for xid in 1..=2 {
                assert_eq!(peer.request().await, (xid, OpCode::GetData));
            }
            let data = Bytes::from(vec![7; length]);
            let answer = async {
                for xid in 1..=2 {
                    let body = DataResponse { data: Some(data.clone()), stat: Stat::default() };
                    peer.reply(xid, Ok(Response::Data(body))).await;
                }
            };
            let ((), first, second) = tokio::join!(answer, first, second);
            assert!(first.unwrap().data == data && second.unwrap().data == data);
        }
    });
}

#[test]
fn many_requests_leave_in_one_write() {
    simulated(async {
        let (builder, mut peers) = stage(1 << 20);
        let zk = builder.connect().unwrap();
        let mut peer = peers.serve(9000).await;
        zk.connected().await.unwrap();
        let _requests: Vec<_> = (0..200).map(|_| zk.exists("/a")).collect();
        let mut chunk = BytesMut::with_capacity(1 << 20);
        peer.stream.read_buf(&mut chunk).await.unwrap();
        let mut requests = 0;
        while frame::take(&mut chunk, 1 << 20).unwrap().is_some() {
            requests += 1;
        }
        assert_eq!(requests, 200);
    });
}

#[test]
fn the_last_response_is_read_although_writes_fail() {
    simulated(async {
        let (builder, mut peers) = stage(4096);
        let zk = builder.connect().unwrap();
        let mut peer = peers.serve(9000).await;
        let auth = zk.add_auth("digest", b"x");
        let large = zk.create("/a", &[0; 100_000], &open(), CreateMode::Persistent);
        assert_eq!(peer.request().await, (XID_AUTH, OpCode::Auth));
        // The client is in the middle of a write when the server refuses the credentials and closes
        // the connection.
        peer.reply(XID_AUTH, Err(ErrorCode::AuthFailed)).await;
        drop(peer);
        assert_eq!(auth.await, Err(Error::AuthFailed { sent: false }));
        assert_eq!(large.await, Err(Error::AuthFailed { sent: true }));
        assert_eq!(zk.state(), SessionState::AuthFailed);
    });
}

#[test]
fn a_talkative_server_starves_neither_requests_nor_timers() {
    real_time(async {
        let (builder, mut peers) = stage(1 << 20);
        let start = Instant::now();
        let zk = builder.connect().unwrap();
        let mut states = zk.states();
        let peer = peers.serve(900).await;
        until(&mut states, is_connected).await;
        let request = zk.exists("/a");
        let noise = event().repeat(1000);
        let (talk, sent) = (peer.stream, tokio::sync::oneshot::channel());
        let (mut hear, mut talk) = tokio::io::split(talk);
        let talking = tokio::spawn(async move { while talk.write_all(&noise).await.is_ok() {} });
        tokio::spawn(async move {
            let mut one = [0; 20];
            drop(hear.read_exact(&mut one).await);
            sent.0.send(()).expect("a waiter");
            drop(tokio::io::copy(&mut hear, &mut tokio::io::sink()).await);
        });
        sent.1.await.unwrap();
        // It receives no response, whatever else it receives.
        assert_eq!(request.await, Err(Error::ConnectionLoss { sent: true }));
        assert!(start.elapsed() >= Duration::from_millis(600), "{:?}", start.elapsed());
        talking.await.unwrap();
    });
}

/// A connection from which there is always more to read, and that accepts all writes.
#[derive(Debug)]
struct Noisy;

struct Noise {
    handshake: Bytes,
    noise: BytesMut,
    /// Makes reads consume the task's budget: a task must not read forever without a pause.
    budget: tokio::io::Repeat,
}

#[async_trait::async_trait]
impl Connector for Noisy {
    async fn connect(&self, _: &str, _: u16) -> io::Result<Box<dyn Transport>> {
        let noise = event().repeat(100)[..].into();
        Ok(Box::new(Noise {
            handshake: granted(30_000).freeze(),
            noise,
            budget: tokio::io::repeat(0),
        }))
    }
}

impl AsyncRead for Noise {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut byte = [0];
        std::task::ready!(Pin::new(&mut self.budget).poll_read(cx, &mut ReadBuf::new(&mut byte)))?;
        if self.handshake.is_empty() {
            // Only whole frames are read.
            assert!(buf.remaining() >= self.noise.len());
            buf.put_slice(&self.noise);
        } else {
            buf.put_slice(&std::mem::take(&mut self.handshake));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Noise {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn the_last_drop_is_noticed_while_there_is_more_to_read() {
    real_time(async {
        let builder = ZooKeeper::builder("noise").connector(Arc::new(Noisy));
        let zk = builder.close_timeout(Duration::from_millis(100)).connect().unwrap();
        let mut states = zk.states();
        until(&mut states, is_connected).await;
        drop(zk);
        assert_eq!(history(states).await, [SessionState::Closed]);
    });
}

#[test]
fn a_server_that_reads_nothing_stops_no_other_work() {
    simulated(async {
        let (builder, mut peers) = stage(1024);
        let zk = builder.connect().unwrap();
        let mut peer = peers.serve(9000).await;
        // More than the connection buffers: the write never completes. Responses still arrive.
        let (first, _large) =
            (zk.exists("/a"), zk.create("/b", &[0; 500_000], &open(), CreateMode::Persistent));
        assert_eq!(peer.request().await, (1, OpCode::Exists));
        peer.reply(1, Err(ErrorCode::NoNode)).await;
        assert_eq!(first.await, Ok(None));
        let start = Instant::now();
        assert!(matches!(zk.close().await, Err(Error::ConnectionLoss { .. })));
        assert!(start.elapsed() <= Duration::from_secs(5));
        peer.closed().await;
    });
}

#[test]
fn garbage_ends_the_connection_and_the_client_tries_again() {
    simulated(async {
        let (builder, mut peers) = stage(1 << 20);
        let zk = builder.connect().unwrap();
        // Not a ZooKeeper server; an announced length of 2 GiB; an end in the middle of a frame.
        for garbage in
            [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0x7f, 0xff, 0xff, 0xff], &[0, 0, 0, 9, 1]]
        {
            let mut peer = peers.accept().await;
            peer.frame().await;
            peer.write(garbage).await.unwrap();
            if garbage.len() == 5 {
                peer.stream.shutdown().await.unwrap();
            }
            peer.closed().await;
        }
        let mut peer = peers.serve(9000).await;
        let request = zk.exists("/a");
        assert_eq!(peer.request().await, (1, OpCode::Exists));
        peer.write(&[0xff; 8]).await.unwrap();
        assert_eq!(request.await, Err(Error::ConnectionLoss { sent: true }));
        peer.closed().await;

        let mut peer = peers.serve(9000).await;
        let created = create(&zk, "/a");
        let (created, ()) = tokio::join!(created, async {
            let (xid, opcode) = peer.request().await;
            assert_eq!((xid, opcode), (2, OpCode::Create2));
            peer.reply(xid, Ok(Response::Empty)).await;
        });
        // The response ends before its required fields.
        assert!(matches!(created, Err(Error::Malformed(_))), "{created:?}");
        assert!(is_connected(zk.state()));
    });
}

#[test]
fn a_runtime_that_ends_early_leaves_no_caller_waiting() {
    let (builder, _peers) = stage(1024);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let zk = runtime.block_on(async { builder.connect().unwrap() });
    let (before, states) = (zk.exists("/a"), zk.states());
    drop(runtime);
    simulated(async {
        assert_eq!(before.await, Err(Error::Closed { sent: true }));
        assert_eq!(history(states).await.last(), Some(&SessionState::Closed));
        assert_eq!(zk.exists("/a").await, Err(Error::Closed { sent: false }));
        assert_eq!(zk.close().await, Ok(()));
    });
}
