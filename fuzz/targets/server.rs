//! Tests a server whose connections send anything. The server must never panic, its memory must
//! stay bounded, a healthy session must get correct responses, and nothing of the other sessions
//! may be left at the end.
//!
//! The input is a script of steps of four connections. The byte before each step selects the
//! connection and the kind of the step.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{advance, timeout};
use zk_curator_client::{Connector, Transport};
use zk_curator_proto::records::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, ConnectRequest,
    CreateMode, CreateRequest, CreateTtlRequest, DeleteRequest, EventType, ExistsRequest,
    GetAclRequest, GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest,
    GetEphemeralsRequest, MultiOp, ReadOp, RequestHeader, SaslToken, SetAclRequest, SetDataRequest,
    SetWatches2, SyncRequest, WatcherType, WatchesRequest,
};
use zk_curator_proto::{Record, Request, Response, frame};
use zk_curator_testing::{TestServer, WatchKind};

use crate::common::{RawClient, auth, new_session};

/// The paths that the hostile connections use. The last two belong to the healthy session.
const PATHS: [&str; 16] = [
    "/",
    "",
    "/a",
    "/a/b",
    "/a/b/c",
    "/a/",
    "/s-",
    "/a/s-",
    "/zookeeper",
    "/zookeeper/quota",
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
    "not absolute",
    "/healthy",
    "/healthy/node",
];

/// The step that lets time pass.
const ADVANCE: u8 = 1;

/// The time for which a write may block. After it, the connection is dropped.
const PATIENCE: Duration = Duration::from_millis(10);

/// Runs a script.
pub(crate) fn run(script: &[u8]) {
    static HOOK: Once = Once::new();
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    // Tokio catches panics of tasks, so a hook counts the server's panics.
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            print(panic);
        }));
    });
    let before = crate::ALLOCATOR.allocated();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(attack(script));
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "a task has panicked");
    let kept = crate::ALLOCATOR.allocated().saturating_sub(before);
    assert!(kept < 1 << 20, "{kept} bytes are still there");
}

async fn attack(script: &[u8]) {
    let server = TestServer::builder().tcp(false).start().await.expect("no fault");
    let mut healthy = Healthy::new(&server).await;
    let mut attackers: [Attacker; 4] = Default::default();
    let mut script = Script { left: script };
    let mut steps = 0;
    while let Some(kind) = script.next() {
        let attacker = &mut attackers[usize::from(kind >> 6)];
        attacker.step(&server, kind & 0x3f, &mut script).await;
        steps += 1;
        // Before its own session expires when time has passed.
        if steps % 8 == 0 || kind & 0x3f == ADVANCE {
            healthy.check().await;
        }
    }
    healthy.check().await;
    drop(attackers);
    // The time of the longest granted timeout, and one more tick.
    for _ in 0..9 {
        advance(Duration::from_secs(5)).await;
        healthy.check().await;
    }
    let probe = server.probe();
    let sessions: Vec<_> = probe.sessions().iter().map(|session| session.id).collect();
    assert_eq!(sessions, [healthy.client.id()], "sessions continue without their clients: {probe}");
    let ephemeral = |path: &String| probe.stat(path).is_some_and(|stat| stat.ephemeral_owner != 0);
    assert!(!probe.paths().iter().any(ephemeral), "nodes of sessions that are over: {probe}");
    let watches: Vec<_> =
        probe.watches().iter().map(|watch| (watch.path.as_str(), watch.kind)).collect();
    assert_eq!(watches, [("/healthy/node", WatchKind::Persistent)], "{probe}");
}

/// A session with its own node, which it writes, reads and watches.
struct Healthy {
    client: RawClient,
    written: u8,
}

impl Healthy {
    async fn new(server: &TestServer) -> Self {
        let mut client = RawClient::with_timeout(server, 30_000).await;
        client.call(auth("digest", b"healthy:secret")).await.expect("no fault");
        for path in ["/healthy", "/healthy/node"] {
            let (path, data) = (path.to_owned(), Some(Bytes::new()));
            let body = CreateRequest { path, data, acl: Acl::creator_all(), flags: 0 };
            client.call(Request::Create(body)).await.expect("no fault");
        }
        let body =
            AddWatchRequest { path: "/healthy/node".into(), mode: AddWatchMode::Persistent.code() };
        client.call(Request::AddWatch(body)).await.expect("no fault");
        Self { client, written: 0 }
    }

    async fn check(&mut self) {
        self.written = self.written.wrapping_add(1);
        let (path, data) = ("/healthy/node", Bytes::copy_from_slice(&[self.written]));
        let body = SetDataRequest { path: path.into(), data: Some(data.clone()), version: -1 };
        let answer = self.client.call(Request::SetData(body)).await;
        assert!(matches!(answer, Ok(Response::Stat(_))), "{answer:?}");
        assert_eq!(
            self.client.events.pop_front(),
            Some((EventType::NodeDataChanged, path.to_owned()))
        );
        assert_eq!(self.client.events, [], "events that are not its own");
        assert_eq!(self.client.get_data(path, false).await, Ok(Some(data)));
    }
}

/// A hostile connection.
#[derive(Default)]
struct Attacker {
    stream: Option<Box<dyn Transport>>,
    /// The received part of the response to its handshake.
    answer: BytesMut,
}

impl Attacker {
    async fn step(&mut self, server: &TestServer, kind: u8, script: &mut Script<'_>) {
        match kind {
            0 => self.stream = None,
            ADVANCE => advance(Duration::from_millis(u64::from(script.byte()) * 40)).await,
            2 => self.read(script.byte()).await,
            3 => {
                let bytes = script.bytes();
                self.send(server, bytes).await;
            }
            4 => {
                let mut out = BytesMut::new();
                frame::put_parts(&mut out, &[script.bytes()]);
                self.send(server, &out).await;
            }
            5 => {
                let length = [script.byte(), script.byte(), script.byte(), script.byte()];
                self.send(server, &length).await;
            }
            6 => self.handshake(server, script).await,
            7 => {
                self.stream = None;
                let words =
                    [b"ruok", b"stat", b"mntr", b"dump", b"wchp", b"cons", b"envi", b"conf"];
                let word = words[usize::from(script.byte()) % words.len()];
                self.send(server, word).await;
            }
            _ => {
                if self.stream.is_none() {
                    self.handshake(server, &mut Script { left: &[] }).await;
                }
                let mut out = BytesMut::new();
                let request = request(kind - 8, script);
                let header =
                    RequestHeader { xid: script.byte().into(), opcode: request.opcode().code() };
                frame::put(&mut out, |out| {
                    header.encode(out);
                    request.encode_body(out);
                });
                // Replaces some bytes, most often none.
                for _ in 0..script.byte().saturating_sub(0xf0) {
                    let at = usize::from(script.byte()) % out.len();
                    out[at] = script.byte();
                }
                self.send(server, &out).await;
            }
        }
    }

    async fn handshake(&mut self, server: &TestServer, script: &mut Script<'_>) {
        let flags = script.byte();
        let mut request = ConnectRequest { timeout: i32::from(flags) * 400, ..new_session() };
        if flags & 1 != 0 {
            // Its earlier response: a session to resume, or to take over from itself.
            if let Some(answer) = self.answer.get(12..36) {
                request.session_id = i64::from_be_bytes(answer[..8].try_into().expect("no fault"));
                request.password = Some(Bytes::copy_from_slice(&answer[8..]));
            }
        }
        if flags & 2 != 0 {
            request.read_only = true;
            request.last_zxid_seen = i64::from(script.byte()) - 128;
            request.timeout = i32::MIN;
        }
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| request.encode(out));
        // Another connection, while the earlier one is still open.
        let before = self.stream.take();
        self.answer.clear();
        self.send(server, &out).await;
        self.read(1).await;
        drop(before);
    }

    async fn send(&mut self, server: &TestServer, bytes: &[u8]) {
        if self.stream.is_none() {
            self.stream = server.connector().connect("memory", 2181).await.ok();
        }
        let Some(stream) = &mut self.stream else { return };
        // Most connections never read, so at some point nothing more can be written.
        if !timeout(PATIENCE, stream.write_all(bytes)).await.is_ok_and(|sent| sent.is_ok()) {
            self.stream = None;
        }
    }

    async fn read(&mut self, times: u8) {
        let Some(stream) = &mut self.stream else { return };
        for _ in 0..times {
            let mut chunk = [0; 4096];
            let Ok(Ok(read @ 1..)) = timeout(PATIENCE, stream.read(&mut chunk)).await else {
                return;
            };
            if self.answer.len() < 36 {
                self.answer.extend_from_slice(&chunk[..read]);
            }
        }
    }
}

/// Returns a request as a client would send it.
#[expect(clippy::too_many_lines, reason = "one story")]
fn request(kind: u8, script: &mut Script<'_>) -> Request {
    let path = script.path();
    let watch = script.flag();
    let acl = Acl::open_unsafe();
    let data = || Some(Bytes::from_static(b"count=1,bytes=10=;byteHardLimit=3"));
    match kind {
        0 => Request::Ping,
        1 => Request::CloseSession,
        2 => auth(["digest", "ip", "super", "x509"][usize::from(script.byte()) % 4], b"a:b"),
        3 => {
            Request::Create2(CreateRequest { path, data: None, acl: Acl::creator_all(), flags: 0 })
        }
        4 => Request::CreateContainer(CreateRequest { path, data: data(), acl, flags: 4 }),
        5 => {
            let ttl = i64::from(script.byte()) - 1;
            Request::CreateTtl(CreateTtlRequest { path, data: data(), acl, flags: 5, ttl })
        }
        6 => Request::Delete(DeleteRequest { path, version: i32::from(script.byte()) - 1 }),
        7 => Request::Exists(ExistsRequest { path, watch }),
        8 => Request::GetData(GetDataRequest { path, watch }),
        9 => Request::SetData(SetDataRequest { path, data: data(), version: -1 }),
        10 => Request::GetChildren(GetChildrenRequest { path, watch }),
        11 => Request::GetChildren2(GetChildrenRequest { path, watch }),
        12 => Request::Sync(SyncRequest { path }),
        13 => Request::Multi((0..script.byte() % 8).map(|_| operation(script)).collect()),
        14 => {
            let read = |path: String| {
                [
                    ReadOp::GetData(GetDataRequest { path: path.clone(), watch }),
                    ReadOp::GetChildren(GetChildrenRequest { path, watch }),
                ]
            };
            Request::MultiRead((0..script.byte() % 8).flat_map(|_| read(script.path())).collect())
        }
        15 => Request::GetAcl(GetAclRequest { path }),
        16 => Request::SetAcl(SetAclRequest { path, acl: Acl::creator_all(), version: -1 }),
        17 => Request::AddWatch(AddWatchRequest { path, mode: i32::from(watch) }),
        18 => {
            let watcher_type = i32::from(script.byte() % 6);
            Request::RemoveWatches(WatchesRequest { path, watcher_type })
        }
        19 => Request::CheckWatches(WatchesRequest { path, watcher_type: WatcherType::Any.code() }),
        20 => Request::GetEphemerals(GetEphemeralsRequest { prefix: path }),
        21 => Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path }),
        22 => Request::WhoAmI,
        23 => Request::Sasl(SaslToken { token: data() }),
        24 => {
            let mut some = || (0..script.byte() % 4).map(|_| script.path()).collect();
            Request::SetWatches2(SetWatches2 {
                relative_zxid: 2,
                data_watches: some(),
                exist_watches: some(),
                child_watches: some(),
                persistent_watches: some(),
                persistent_recursive_watches: some(),
            })
        }
        25 => {
            let auth = Some(Bytes::copy_from_slice(script.bytes()));
            Request::Auth(AuthPacket { scheme: "digest".into(), auth })
        }
        _ => {
            let modes =
                [CreateMode::Persistent, CreateMode::Ephemeral, CreateMode::EphemeralSequential];
            let flags = modes[usize::from(kind) % modes.len()].flags();
            Request::Create(CreateRequest { path, data: data(), acl, flags })
        }
    }
}

fn operation(script: &mut Script<'_>) -> MultiOp {
    let (path, acl, data) = (script.path(), Acl::open_unsafe(), Some(Bytes::from_static(b"d")));
    match script.byte() % 6 {
        0 => {
            MultiOp::Create(CreateRequest { path, data, acl, flags: i32::from(script.byte() % 8) })
        }
        1 => MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, flags: 6, ttl: 1 }),
        2 => MultiOp::Delete(DeleteRequest { path, version: -1 }),
        3 => MultiOp::SetData(SetDataRequest { path, data, version: -1 }),
        4 => MultiOp::Check(CheckVersionRequest { path, version: i32::from(script.byte()) - 1 }),
        _ => MultiOp::CreateContainer(CreateRequest { path, data, acl, flags: 4 }),
    }
}

/// The bytes that control the run; zeros after the end.
struct Script<'a> {
    left: &'a [u8],
}

impl Script<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, left) = self.left.split_first()?;
        self.left = left;
        Some(*first)
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    fn bytes(&mut self) -> &[u8] {
        let length = usize::from(self.byte()).min(self.left.len());
        let (bytes, left) = self.left.split_at(length);
        self.left = left;
        bytes
    }

    fn path(&mut self) -> String {
        PATHS[usize::from(self.byte()) % PATHS.len()].to_owned()
    }
}
