//! Tests a whole client with servers that send anything. The client must never panic, every request
//! must have one result, the client must end in time, and its memory must stay bounded.
//!
//! The input is a script of servers, one after another: each of the following bytes selects the
//! next message.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_curator_client::{
    Acl, AddWatchMode, Connector, CreateMode, DisconnectedPolicy, Op, Read, Transport, WatcherType,
    ZooKeeper,
};
use zk_curator_proto::records::{ConnectResponse, ReplyHeader, WatcherEvent};
use zk_curator_proto::{
    Encoder, Record, XID_AUTH, XID_NOTIFICATION, XID_PING, XID_SET_WATCHES, frame,
};

/// The time limit of the client, in simulated time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The largest response that the client reads, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

#[derive(Debug)]
struct Script {
    /// The rest of the script.
    left: Mutex<(Bytes, u32)>,
}

/// A connection to the script. It sends the next messages, and discards everything that it
/// receives.
struct Line {
    script: Arc<Script>,
    handshaken: bool,
    out: BytesMut,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

#[derive(Debug)]
struct ToScript(Arc<Script>);

#[async_trait::async_trait]
impl Connector for ToScript {
    async fn connect(&self, _: &str, _: u16) -> io::Result<Box<dyn Transport>> {
        if self.0.left.lock().expect("no panic").0.is_empty() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let script = Arc::clone(&self.0);
        Ok(Box::new(Line { script, handshaken: false, out: BytesMut::new(), pause: None }))
    }
}

impl Line {
    /// Sends a message. Returns `false` if the connection ends here.
    #[expect(clippy::disallowed_methods, reason = "a pause of the script")]
    fn next(&mut self) -> bool {
        let mut guard = self.script.left.lock().expect("no panic");
        let (left, xid) = &mut *guard;
        if left.is_empty() {
            return false;
        }
        let kind = left.get_u8();
        let out = &mut self.out;
        // Most scripts begin with a valid handshake, because the messages after it are more
        // interesting.
        if !self.handshaken && kind < 0xe0 {
            self.handshaken = true;
            let timeout = if kind == 0xdf { 0 } else { 1000 + i32::from(kind) * 10 };
            let password = Some(Bytes::from_static(&[7; 16]));
            let response =
                ConnectResponse { timeout, session_id: 1, password, ..ConnectResponse::default() };
            frame::put(out, |body| response.encode(body));
            return true;
        }
        self.handshaken = true;
        let length = usize::from(kind >> 3).min(left.len());
        let said = left.split_to(length);
        let mut reply = |xid: i32| {
            let err = if kind & 0x80 == 0 { 0 } else { -100 - i32::from(kind & 0x1f) };
            let mut header = Encoder::new();
            ReplyHeader { xid, zxid: i64::from(kind), err }.encode(&mut header);
            frame::put_parts(out, &[&header.finish(), &said]);
        };
        match kind & 7 {
            1 if kind & 0x40 != 0 => {
                *xid += 1;
                let header = ReplyHeader { xid: *xid as i32, zxid: 1, err: 0 };
                frame::put(out, |body| {
                    header.encode(body);
                    body.buffer(Some(&vec![kind; MAX_ANSWER]));
                });
            }
            0 | 1 => {
                *xid += 1;
                reply(*xid as i32);
            }
            2 => reply([XID_PING, XID_AUTH, XID_SET_WATCHES, 0][usize::from(kind >> 3) % 4]),
            3 => frame::put(out, |body| {
                ReplyHeader { xid: XID_NOTIFICATION, zxid: -1, err: 0 }.encode(body);
                let path = ["/a", "/a/b", "/", ""][usize::from(kind >> 3) % 4].to_owned();
                WatcherEvent { event_type: i32::from(kind >> 5), state: 3, path }.encode(body);
            }),
            4 => frame::put_parts(out, &[&said]),
            5 => out.extend_from_slice(&said),
            6 => {
                self.pause =
                    Some(Box::pin(tokio::time::sleep(Duration::from_millis(40 << (kind >> 4)))));
            }
            _ => return false,
        }
        true
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        while self.out.is_empty() && self.pause.is_none() {
            if !self.next() {
                return Poll::Ready(Ok(()));
            }
        }
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let length = self.out.len().min(buf.remaining());
        buf.put_slice(&self.out.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Line {
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

pub(crate) fn run(input: &[u8]) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let script = Arc::new(Script { left: Mutex::new((Bytes::copy_from_slice(input), 0)) });
        let zk = ZooKeeper::builder("script/chroot")
            .connector(Arc::new(ToScript(script)))
            .session_timeout(Duration::from_secs(5))
            .disconnected(DisconnectedPolicy::Wait(Duration::from_secs(2)))
            .max_frame(MAX_ANSWER)
            .max_response(MAX_ANSWER)
            .seed(7)
            .connect()
            .expect("valid settings");
        let talk = async {
            for _ in 0..2 {
                let acl = Acl::open_unsafe();
                let auth = zk.add_auth("digest", b"a:b");
                let data = zk.get_data_watched("/a");
                let exists = zk.exists_watched("/a/b");
                let children = zk.get_children_watched("/a");
                let persistent = zk.add_watch("/a", AddWatchMode::PersistentRecursive);
                let created = zk.create("/a/b", b"", &acl, CreateMode::EphemeralSequential);
                let multi = zk.multi(&[Op::Delete { path: "/a".into(), version: None.into() }]);
                let reads = zk.multi_read(&[Read::Data("/a".into()), Read::Children("/a".into())]);
                let removed = zk.remove_watches("/a", WatcherType::Any);
                let others =
                    (zk.get_acl("/a"), zk.who_am_i(), zk.get_ephemerals("/"), zk.get_config());
                let data = data.await;
                drop((exists.await, children.await));
                let persistent = persistent.await;
                drop((created.await, multi.await, reads.await, removed.await));
                drop((others.0.await, others.1.await, others.2.await, others.3.await));
                drop((data, persistent, auth));
            }
            drop(zk.close().await);
            let mut states = zk.states();
            while states.next().await.is_some() {}
        };
        tokio::time::timeout(PATIENCE, talk).await.expect("a request got no response");
    });
}
