//! The embedded server responds as Apache ZooKeeper does, byte for byte. Zxids are compared
//! relative to the first one, and times are not compared.
//!
//! Skipped where Apache ZooKeeper is missing, see [`zk_curator_real`].
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use crate::common::{RawClient, auth, create, create_body, delete, new_session, set_data};
use bytes::{BufMut, Bytes, BytesMut};
use zk_curator_client::{Connector, TcpConnector};
use zk_curator_proto::records::{
    Acl, CheckVersionRequest, ConnectRequest, CreateMode, CreateRequest, CreateTtlRequest,
    DeleteRequest, EventType, ExistsRequest, GetChildrenRequest, GetDataRequest, MultiOp,
    MultiResult, ReconfigRequest, ReplyHeader, SetDataRequest, SetWatches, SetWatches2, Stat,
    SyncRequest, WatcherEvent,
};
use zk_curator_proto::{
    Decoder, Encoder, OpCode, Record, Request, Response, XID_AUTH, XID_NOTIFICATION, XID_PING,
    XID_SET_WATCHES,
};
use zk_curator_real as real;
use zk_curator_real::RealZooKeeper;
use zk_curator_testing::TestServer;

/// The node below which all requests work.
const ROOT: &str = "/zk-curator-parity";

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn responses_are_those_of_apache_zookeeper() {
    let Some(zookeeper) = real::or_skip("responses_are_those_of_apache_zookeeper").await else {
        return;
    };
    let real = zookeeper.connect_string();
    let version = zookeeper.version().await.unwrap();
    let embedded = TestServer::builder().version(version).start().await.unwrap();
    for (name, steps) in scenarios() {
        let expected = transcript(&real, &steps).await;
        let found = transcript(&embedded.connect_string(), &steps).await;
        for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert_eq!(expected, found, "step {number} of {name}");
        }
        assert_eq!(expected.len(), found.len());
        println!("{name}: {} steps agree", found.len());
    }
    let expected = handshakes(&real).await;
    assert_eq!(expected, handshakes(&embedded.connect_string()).await);
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_server_alone_does_not_implement_reconfiguration() {
    let name = "a_server_alone_does_not_implement_reconfiguration";
    let reconfig =
        [step(&Request::Reconfig(ReconfigRequest { version: -1, ..ReconfigRequest::default() }))];
    for enabled in [false, true] {
        let server = RealZooKeeper::builder().setting("reconfigEnabled", enabled);
        let Some(zookeeper) = real::or_skip_with(name, server).await else { return };
        let version = zookeeper.version().await.unwrap();
        let server = TestServer::builder().version(version).reconfig_enabled(enabled);
        let embedded = server.start().await.unwrap();
        let expected = transcript(&zookeeper.connect_string(), &reconfig).await;
        assert_eq!(transcript(&embedded.connect_string(), &reconfig).await, expected, "{enabled}");
    }
}

/// A request as bytes, because some requests are malformed.
#[derive(Debug)]
struct Step {
    opcode: i32,
    body: Bytes,
    label: String,
}

fn step(request: &Request) -> Step {
    let mut out = Encoder::new();
    request.encode_body(&mut out);
    Step { opcode: request.opcode().code(), body: out.finish(), label: format!("{request:?}") }
}

fn raw(opcode: i32, body: &[u8]) -> Step {
    Step {
        opcode,
        body: Bytes::copy_from_slice(body),
        label: format!("opcode {opcode} with {body:?}"),
    }
}

fn in_root(path: &str) -> String {
    format!("{ROOT}{path}")
}

fn scenarios() -> Vec<(&'static str, Vec<Step>)> {
    vec![
        ("create", creates()),
        ("read and write", reads_and_writes()),
        ("multi", multis()),
        ("watches", watches()),
        ("bad requests", bad_requests()),
        ("auth", vec![step(&auth("digest", b"u:p")), step(&auth("kerberos", b"x"))]),
        ("identities", identities()),
        ("unknown opcode", vec![raw(9999, b"")]),
        (
            "close",
            vec![
                step(&create(&in_root("/e"), CreateMode::Ephemeral)),
                step(&Request::CloseSession),
            ],
        ),
    ]
}

fn body(path: &str, flags: i32) -> CreateRequest {
    CreateRequest { flags, ..create_body(&in_root(path), CreateMode::Persistent) }
}

fn ttl(path: &str, flags: i32, ttl: i64) -> Request {
    let CreateRequest { path, data, acl, flags } = body(path, flags);
    Request::CreateTtl(CreateTtlRequest { path, data, acl, flags, ttl })
}

fn exists(path: &str, watch: bool) -> Step {
    step(&Request::Exists(ExistsRequest { path: path.into(), watch }))
}

fn get(path: &str, watch: bool) -> Step {
    step(&Request::GetData(GetDataRequest { path: path.into(), watch }))
}

fn children(path: &str, watch: bool) -> Step {
    step(&Request::GetChildren2(GetChildrenRequest { path: path.into(), watch }))
}

/// Returns identities in the order in which the server lists them, which is that of a hash table.
fn identities() -> Vec<Step> {
    let mut steps = vec![step(&Request::WhoAmI)];
    for credentials in [
        &b"a:b"[..],
        b"alice:1",
        b"bob:2",
        b"x:y",
        b"y:z",
        b"z:0",
        b"user1:passwd1",
        b"user2:passwd2",
    ] {
        steps.push(step(&auth("digest", credentials)));
        steps.push(step(&Request::WhoAmI));
    }
    steps
}

#[expect(clippy::too_many_lines, reason = "one story")]
fn creates() -> Vec<Step> {
    let mut steps = Vec::new();
    for (path, flags) in [
        ("/p", 0),
        ("/p", 0),
        ("/e", 1),
        ("/e/c", 0),
        ("/e/c-", 3),
        ("/s-", 2),
        ("/es-", 3),
        ("/c", 4),
        ("/t", 5),
        ("/t-", 6),
        ("/x", 7),
        ("/x", -1),
        ("/p/", 2),
        ("/p/", 0),
        ("/p/.", 0),
        ("/p/..", 0),
        ("/p/a..b", 0),
        ("/p//x", 0),
        ("/p/\u{1}", 0),
        ("/p/\u{85}", 0),
        ("/p/\u{e000}", 0),
        ("/p/\u{f8ff}", 0),
        ("/p/\u{f900}", 0),
        ("/p/\u{ffef}", 0),
        ("/p/\u{fff0}", 0),
        ("/p/\u{1f980}", 0),
        ("/p/ä", 0),
        ("/p/ ", 0),
        ("/none/x", 0),
        ("/none/", 0),
        ("/none/.", 0),
        ("/p/\0", 0),
    ] {
        steps.push(step(&Request::Create(body(path, flags))));
        steps.push(step(&Request::Create2(body(path, flags))));
        steps.push(children(ROOT, false));
    }
    for flags in [0, 1, 2, 3, 4, 5, 7] {
        steps.push(step(&Request::CreateContainer(body("/container-", flags))));
        steps.push(exists(&in_root("/container-"), false));
        steps.push(step(&delete(&in_root("/container-"))));
    }
    for (flags, millis) in
        [(5, 1000), (6, 1000), (5, 0), (5, -1), (5, 1 << 40), (6, (1 << 40) - 1), (0, 1000), (4, 5)]
    {
        steps.push(step(&ttl("/ttl-", flags, millis)));
        steps.push(exists(&in_root("/ttl-"), false));
    }
    let no_acl = |path: &str| Request::Create(CreateRequest { acl: Vec::new(), ..body(path, 0) });
    let no_slash = CreateRequest { path: "no-slash".into(), ..body("", 0) };
    let empty = CreateRequest { path: String::new(), ..body("", 0) };
    let null = CreateRequest { data: None, ..body("/null", 0) };
    let read_only = CreateRequest { acl: Acl::read_unsafe(), ..body("/acl", 0) };
    steps.extend([
        step(&no_acl("/n")),
        step(&no_acl("/none/n")),
        step(&Request::Create(no_slash)),
        step(&Request::Create(empty)),
        step(&create("/", CreateMode::Persistent)),
        step(&Request::Create2(null)),
        get(&in_root("/null"), false),
        step(&Request::Create2(read_only)),
        exists(ROOT, false),
    ]);
    steps
}

fn reads_and_writes() -> Vec<Step> {
    let a = in_root("/a");
    let mut steps = vec![step(&create(&a, CreateMode::Persistent))];
    for version in [1, 0, 0, -1, 2, 5, -2] {
        steps.push(step(&set_data(&a, b"new", version)));
        steps.push(get(&a, false));
    }
    for path in ["", "/", "no-slash", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        steps.push(step(&delete(path)));
    }
    // In reads, the empty path is an alias of the root, whose stat depends on the past of the
    // server.
    steps.push(step(&set_data("", b"", -1)));
    for path in ["no-slash", "/.", "//", "/a\0"] {
        steps.push(step(&set_data(path, b"", -1)));
        steps.push(exists(path, false));
        steps.push(get(path, false));
        steps.push(step(&Request::GetChildren(GetChildrenRequest {
            path: path.into(),
            watch: false,
        })));
    }
    let n = in_root("/a/n-");
    for number in 0..3 {
        steps.push(step(&create(&n, CreateMode::EphemeralSequential)));
        steps.push(exists(&a, false));
        steps.push(step(&delete(&format!("{n}{number:010}"))));
        steps.push(exists(&a, false));
    }
    let null = SetDataRequest { path: a.clone(), data: None, version: -1 };
    steps.extend([
        step(&Request::SetData(null)),
        get(&a, false),
        step(&create(&in_root("/a/b"), CreateMode::Persistent)),
        step(&delete(&a)),
        step(&Request::Delete(DeleteRequest { path: a.clone(), version: 99 })),
        step(&Request::Delete(DeleteRequest { path: in_root("/a/b"), version: 1 })),
        step(&Request::Delete(DeleteRequest { path: in_root("/a/b"), version: 0 })),
        step(&delete(&in_root("/a/b"))),
        step(&delete(&in_root("/none/x"))),
        step(&delete(&in_root("/a/"))),
        children(&a, false),
        children("/zookeeper", false),
        exists("/zookeeper/config", false),
        step(&Request::Sync(SyncRequest { path: "anything".into() })),
        step(&Request::Ping),
    ]);
    steps
}

fn multis() -> Vec<Step> {
    let make = |path: &str, flags| MultiOp::Create(body(path, flags));
    let make2 = |path: &str, flags| MultiOp::Create2(body(path, flags));
    let remove =
        |path: &str, version| MultiOp::Delete(DeleteRequest { path: in_root(path), version });
    let check =
        |path: &str, version| MultiOp::Check(CheckVersionRequest { path: in_root(path), version });
    let set = |path: &str, version| {
        MultiOp::SetData(SetDataRequest {
            path: in_root(path),
            data: Some(Bytes::from_static(b"x")),
            version,
        })
    };
    let multis = [
        vec![],
        vec![make("/m", 0), make2("/m/s-", 2), make("/m/s-", 3), set("/m", 0), check("/m", 1)],
        vec![make("/m/a", 0), make("/m/a", 0), make("/m/b", 0), check("/m", 1)],
        vec![check("/m", 0), make("/m/b", 0)],
        vec![make("/m/s-", 2), remove("/m", -1)],
        vec![make("/m/s-", 2), remove("/m/s-0000000002", 0), make("/m/s-", 2)],
        vec![
            remove("/m/s-0000000000", 0),
            remove("/m/s-0000000001", 0),
            set("/m", -1),
            set("/m", 2),
        ],
        vec![make("/m/e", 1), make("/m/e/c", 0)],
        vec![make("/m/e", 1), remove("/m/e", 0), make("/m/e", 0), make("/m/e/c", 0)],
        vec![set("/m/e", 0), check("/m/e", 0)],
        vec![make("/m/..", 0)],
        vec![make("/m/x", 9), make("/m/y", 0)],
        vec![MultiOp::CreateContainer(body("/m/c", 4)), make("/m/c/x", 0), remove("/m/c/x", -1)],
        vec![MultiOp::Create(CreateRequest { acl: vec![], ..body("/m/n", 0) })],
        vec![check("/none", -1)],
        vec![check("/m", -1), remove("/m/c", 0)],
    ];
    let mut steps = Vec::new();
    for ops in multis {
        steps.push(step(&Request::Multi(ops)));
        steps.push(children(&in_root("/m"), false));
    }
    steps
}

#[expect(clippy::too_many_lines, reason = "one story")]
fn watches() -> Vec<Step> {
    let (a, b) = (in_root("/a"), in_root("/a/b"));
    let mut steps = vec![get(&a, true), children(&a, true), exists(&a, true)];
    for _ in 0..2 {
        for write in [
            create(&a, CreateMode::Persistent),
            create(&b, CreateMode::Persistent),
            set_data(&b, b"1", -1),
            set_data(&a, b"2", -1),
            delete(&b),
            delete(&a),
        ] {
            steps.extend([
                exists(&a, true),
                children(&a, true),
                get(&b, true),
                children(&b, true),
                children(ROOT, true),
            ]);
            steps.push(step(&write));
        }
    }
    let failed = vec![
        MultiOp::SetData(SetDataRequest { path: ROOT.into(), data: None, version: -1 }),
        MultiOp::Check(CheckVersionRequest { path: a.clone(), version: 0 }),
    ];
    let done = vec![
        MultiOp::Create(body("/a", 0)),
        MultiOp::SetData(SetDataRequest { path: a.clone(), data: None, version: -1 }),
        MultiOp::Delete(DeleteRequest { path: a.clone(), version: -1 }),
    ];
    steps.extend([
        get(ROOT, true),
        exists(&a, true),
        step(&Request::Multi(failed)),
        step(&Request::Multi(done)),
    ]);
    let set_watches = SetWatches {
        relative_zxid: 0,
        data_watches: vec![ROOT.into(), a.clone()],
        exist_watches: vec![ROOT.into(), a.clone()],
        child_watches: vec![ROOT.into(), b.clone()],
    };
    let quiet = SetWatches {
        relative_zxid: i64::MAX,
        data_watches: vec![ROOT.into()],
        exist_watches: vec![a.clone()],
        child_watches: vec![ROOT.into()],
    };
    let persistent = SetWatches2 {
        relative_zxid: i64::MAX,
        persistent_watches: vec![a.clone()],
        persistent_recursive_watches: vec![b.clone()],
        ..SetWatches2::default()
    };
    steps.extend([
        step(&Request::SetWatches(set_watches)),
        step(&Request::SetWatches(quiet)),
        step(&create(&a, CreateMode::Persistent)),
        step(&set_data(ROOT, b"x", -1)),
        step(&Request::SetWatches2(persistent)),
    ]);
    for _ in 0..2 {
        for write in [
            create(&b, CreateMode::Persistent),
            create(&in_root("/a/b/c"), CreateMode::Persistent),
            set_data(&in_root("/a/b/c"), b"x", -1),
            set_data(&b, b"x", -1),
            delete(&in_root("/a/b/c")),
            delete(&b),
        ] {
            steps.push(step(&write));
        }
    }
    steps
}

fn bad_requests() -> Vec<Step> {
    let mut steps = Vec::new();
    for opcode in [
        OpCode::Create,
        OpCode::Delete,
        OpCode::Exists,
        OpCode::GetData,
        OpCode::SetData,
        OpCode::Sync,
    ] {
        steps.push(raw(opcode.code(), b"\0\0\0"));
        steps.push(raw(opcode.code(), b"\0\0\x10\0abc"));
    }
    let unknown_op = [9999_i32.to_be_bytes().as_slice(), &[0], &(-1_i32).to_be_bytes()].concat();
    steps.extend([
        raw(OpCode::Multi.code(), b"\0\0\0"),
        raw(OpCode::Multi.code(), &unknown_op),
        step(&Request::Ping),
    ]);
    steps
}

/// Sends the steps one by one. Returns, for each step, the frames that arrive until its response.
async fn transcript(address: &str, steps: &[Step]) -> Vec<String> {
    clean(address).await;
    let mut zk = RawClient::over_tcp_for(address, 10_000).await;
    zk.create(ROOT, CreateMode::Persistent).await.unwrap();
    let (session, base) = (zk.id(), zk.last_zxid);
    let mut blocks = Vec::new();
    for (index, Step { opcode, body, label }) in steps.iter().enumerate() {
        let xid = match OpCode::try_from(*opcode) {
            Ok(OpCode::Ping) => XID_PING,
            Ok(OpCode::Auth) => XID_AUTH,
            Ok(OpCode::SetWatches | OpCode::SetWatches2) => XID_SET_WATCHES,
            _ => i32::try_from(index).unwrap(),
        };
        let mut out = BytesMut::new();
        out.put_i32(i32::try_from(8 + body.len()).unwrap());
        out.put_i32(xid);
        out.put_i32(*opcode);
        out.put_slice(body);
        zk.write(&out).await;
        let mut block = format!("> {label}");
        loop {
            let Some(frame) = zk.frame().await else {
                block.push_str("\n< closed");
                blocks.push(block);
                return blocks;
            };
            let (answers, message) = describe(frame, *opcode, session, base);
            block.push_str("\n< ");
            block.push_str(&message);
            if answers == xid {
                break;
            }
        }
        blocks.push(block);
    }
    // Expects the end of the connection if the last request asks for it.
    if steps.last().is_some_and(|step| step.opcode != OpCode::Ping.code()) {
        let ended = tokio::time::timeout(std::time::Duration::from_millis(300), zk.frame()).await;
        blocks.push(format!("{ended:?}"));
    }
    blocks
}

/// Describes a frame completely: the description is encoded again and compared.
fn describe(frame: Bytes, opcode: i32, session: i64, base: i64) -> (i32, String) {
    let mut input = Decoder::new(frame.clone());
    let mut header = ReplyHeader::decode(&mut input, "header").unwrap();
    let mut again = Encoder::new();
    header.encode(&mut again);
    let relative = |zxid: i64| if zxid > 0 { zxid - base } else { zxid };
    header.zxid = relative(header.zxid);
    let comparable = |stat: &mut Stat| {
        for zxid in [&mut stat.czxid, &mut stat.mzxid, &mut stat.pzxid] {
            *zxid = relative(*zxid);
        }
        (stat.ctime, stat.mtime) = (0, 0);
        if stat.ephemeral_owner == session {
            stat.ephemeral_owner = 1;
        }
    };
    let text = if header.xid == XID_NOTIFICATION {
        let event = WatcherEvent::decode(&mut input, "event").unwrap();
        event.encode(&mut again);
        format!("{:?} {event:?}", EventType::try_from(event.event_type).unwrap())
    } else if header.err != 0 {
        String::new()
    } else {
        let opcode = OpCode::try_from(opcode).unwrap();
        let mut response = Response::decode_body(opcode, &mut input).unwrap();
        response.encode_body(&mut again);
        match &mut response {
            Response::Stat(stat) => comparable(stat),
            Response::Created(body) => comparable(&mut body.stat),
            Response::Data(body) => comparable(&mut body.stat),
            Response::Children2(body) => {
                comparable(&mut body.stat);
                body.children.sort_unstable();
            }
            Response::Children(names) => names.sort_unstable(),
            Response::Multi(results) => {
                for result in results {
                    match result {
                        MultiResult::Create2(body) => comparable(&mut body.stat),
                        MultiResult::SetData(stat) => comparable(stat),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        format!("{response:?}")
    };
    assert_eq!(again.finish(), frame, "{text}");
    (header.xid, format!("{header:?} {text}"))
}

/// Runs handshakes that end in a response, a refusal or the end of the connection.
async fn handshakes(address: &str) -> Vec<String> {
    let zk = RawClient::over_tcp_for(address, 10_000).await;
    let good = zk.reattach_request();
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut outcomes = Vec::new();
    for request in [
        ConnectRequest { password: new_session().password, ..good.clone() },
        ConnectRequest { session_id: 1, ..good.clone() },
        ConnectRequest { last_zxid_seen: i64::MAX, ..good.clone() },
        ConnectRequest { last_zxid_seen: i64::MAX, timeout: 10_000, ..new_session() },
        ConnectRequest { timeout: 12_345, ..good },
    ] {
        let label = format!("{:?} {}", request.timeout, request.last_zxid_seen == i64::MAX);
        let stream = TcpConnector::default().connect(host, port.parse().unwrap()).await.unwrap();
        let outcome = match RawClient::open(stream, request).await {
            None => "closed".to_owned(),
            Some(mut client) => {
                let session = &client.session;
                let same = session.session_id == zk.id() && session.password == zk.session.password;
                let answer = format!("timeout {} same {same}", session.timeout);
                if session.timeout == 0 {
                    assert_eq!(
                        (session.session_id, &session.password),
                        (0, &new_session().password)
                    );
                    client.closed().await;
                } else {
                    client.ping().await;
                }
                answer
            }
        };
        outcomes.push(format!("{label}: {outcome}"));
    }
    outcomes
}

/// Deletes the nodes of an earlier run.
async fn clean(address: &str) {
    let mut zk = RawClient::over_tcp_for(address, 10_000).await;
    let mut left = vec![ROOT.to_owned()];
    while let Some(path) = left.last().cloned() {
        match zk.children(&path, false).await {
            Ok(names) if !names.is_empty() => {
                left.extend(names.iter().map(|name| format!("{path}/{name}")));
            }
            Ok(_) => {
                zk.delete(&path).await.unwrap();
                left.pop();
            }
            Err(_) => {
                left.pop();
            }
        }
    }
    zk.call(Request::CloseSession).await.unwrap();
}
