//! Replays frames of Apache ZooKeeper's own client and server: see `testdata/README.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bytes::Bytes;
use zk_curator_proto::records::{
    Acl, AuthPacket, CheckVersionRequest, Children2Response, ConnectRequest, ConnectResponse,
    Create2Response, CreateMode, CreateRequest, CreateTtlRequest, DataResponse, DeleteRequest,
    EventType, ExistsRequest, GetChildrenRequest, GetDataRequest, KeeperState, MultiOp,
    MultiResult, PASSWORD_LEN, ReplyHeader, RequestHeader, SetDataRequest, SetWatches, SetWatches2,
    Stat, SyncRequest, WatcherEvent,
};
use zk_curator_proto::{
    DecodeError, Decoder, Encoder, ErrorCode, OpCode, Record, Request, Response, XID_AUTH,
    XID_NOTIFICATION, XID_PING,
};

const FRAMES: &str = include_str!("../testdata/frames-3.8.txt");

/// Opcodes that the capture does not contain: Java's client has no call for the first, and the
/// server was not configured for the others.
const NOT_CAPTURED: &[OpCode] = &[OpCode::CheckWatches, OpCode::Reconfig, OpCode::Sasl];

/// A decoded frame.
#[derive(Debug, PartialEq)]
enum Message {
    Connect(ConnectRequest),
    Connected(ConnectResponse),
    Request(RequestHeader, Request),
    Reply(ReplyHeader, OpCode, Response),
    Failure(ReplyHeader, OpCode, ErrorCode),
    Event(ReplyHeader, WatcherEvent),
}

impl Message {
    fn encode(&self) -> Bytes {
        let mut out = Encoder::new();
        match self {
            Self::Connect(body) => body.encode(&mut out),
            Self::Connected(body) => body.encode(&mut out),
            Self::Request(header, body) => {
                header.encode(&mut out);
                body.encode_body(&mut out);
            }
            Self::Reply(header, _, body) => {
                header.encode(&mut out);
                body.encode_body(&mut out);
            }
            Self::Failure(header, ..) => header.encode(&mut out),
            Self::Event(header, body) => {
                header.encode(&mut out);
                body.encode(&mut out);
            }
        }
        out.finish()
    }
}

/// The known state of a connection while its frames are read.
#[derive(Default)]
struct Connection {
    client_connected: bool,
    server_connected: bool,
    /// Unanswered requests by xid, in order: special xids are used repeatedly.
    asked: HashMap<i32, VecDeque<OpCode>>,
}

impl Connection {
    fn by_client(&mut self, input: &mut Decoder) -> Result<Message, DecodeError> {
        if !std::mem::replace(&mut self.client_connected, true) {
            return Ok(Message::Connect(Record::decode(input, "connect")?));
        }
        let header = RequestHeader::decode(input, "header")?;
        let opcode = OpCode::try_from(header.opcode)?;
        self.asked.entry(header.xid).or_default().push_back(opcode);
        let body = Request::decode_body(opcode, input);
        Ok(Message::Request(header, body?))
    }

    fn by_server(&mut self, input: &mut Decoder) -> Result<Message, DecodeError> {
        if !std::mem::replace(&mut self.server_connected, true) {
            return Ok(Message::Connected(Record::decode(input, "connect")?));
        }
        let header = ReplyHeader::decode(input, "header")?;
        if header.xid == XID_NOTIFICATION {
            return Ok(Message::Event(header, Record::decode(input, "event")?));
        }
        let asked = self.asked.get_mut(&header.xid).and_then(VecDeque::pop_front);
        let opcode = asked.expect("every reply has a request of its xid");
        if let Some(code) = ErrorCode::from_code(header.err) {
            return Ok(Message::Failure(header, opcode, code));
        }
        let body = Response::decode_body(opcode, input);
        Ok(Message::Reply(header, opcode, body?))
    }
}

/// A line of the capture: the text, its bytes, their meaning, and the number of unread bytes.
type Frame = (&'static str, Bytes, Message, usize);

fn frames() -> Vec<Frame> {
    let mut connections: BTreeMap<&str, Connection> = BTreeMap::new();
    let mut frames = Vec::new();
    for line in FRAMES.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [direction, connection, hex] = fields[..] else { panic!("not a frame: {line}") };
        let bytes = from_hex(hex);
        let mut input = Decoder::new(bytes.clone());
        let connection = connections.entry(connection).or_default();
        let message = match direction {
            ">" => connection.by_client(&mut input),
            "<" => connection.by_server(&mut input),
            other => panic!("no direction: {other}"),
        };
        let message = message.unwrap_or_else(|error| panic!("{error}: {line}"));
        frames.push((line, bytes, message, input.remaining()));
    }
    frames
}

fn messages() -> Vec<Message> {
    frames().into_iter().map(|(_, _, message, _)| message).collect()
}

fn from_hex(hex: &str) -> Bytes {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("a hexadecimal byte"))
        .collect()
}

#[test]
fn every_frame_is_read_fully_and_written_back_unchanged() {
    let frames = frames();
    assert!(!frames.is_empty());
    for (line, bytes, message, rest) in frames {
        assert_eq!(rest, 0, "{line}\n{message:?}");
        assert_eq!(message.encode(), bytes, "{line}\n{message:?}");
    }
}

#[test]
fn the_capture_holds_every_opcode_event_and_the_usual_errors() {
    let (mut requests, mut replies, mut errors) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut events = BTreeSet::new();
    for message in messages() {
        match message {
            Message::Request(_, body) => _ = requests.insert(body.opcode().code()),
            Message::Reply(_, opcode, _) => _ = replies.insert(opcode.code()),
            Message::Failure(_, _, code) => _ = errors.insert(code.code()),
            Message::Event(_, event) => _ = events.insert(event.event_type),
            Message::Connect(_) | Message::Connected(_) => {}
        }
    }
    let with_body: BTreeSet<i32> = OpCode::ALL
        .iter()
        .filter(|opcode| {
            if NOT_CAPTURED.contains(opcode) {
                return false;
            }
            let body = Request::decode_body(**opcode, &mut Decoder::new(Bytes::new()));
            !matches!(body, Err(DecodeError::InvalidValue { what: "opcode", .. }))
        })
        .map(|opcode| opcode.code())
        .collect();
    assert_eq!(requests, with_body);
    assert_eq!(replies, with_body);
    assert_eq!(events, (1..=4).collect());
    for code in [
        ErrorCode::NoNode,
        ErrorCode::NodeExists,
        ErrorCode::BadVersion,
        ErrorCode::NotEmpty,
        ErrorCode::NoAuth,
        ErrorCode::NoChildrenForEphemerals,
        ErrorCode::InvalidAcl,
        ErrorCode::AuthFailed,
    ] {
        assert!(errors.contains(&code.code()), "{code}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn captured_requests_decode_to_their_meaning() {
    let said: Vec<(i32, Request)> = messages()
        .into_iter()
        .filter_map(|message| match message {
            Message::Request(header, body) => Some((header.xid, body)),
            _ => None,
        })
        .collect();
    let data = Some(Bytes::from_static(b"data"));
    let create = |path: &str, mode: CreateMode| CreateRequest {
        path: path.into(),
        data: data.clone(),
        acl: Acl::open_unsafe(),
        flags: mode.flags(),
    };
    let create_ttl = |path: &str, mode: CreateMode| CreateTtlRequest {
        path: path.into(),
        data: data.clone(),
        acl: Acl::open_unsafe(),
        flags: mode.flags(),
        ttl: 600_000,
    };
    let read_only = CreateRequest {
        data: None,
        acl: Acl::read_unsafe(),
        ..create("/null", CreateMode::Persistent)
    };
    let private = Some(Bytes::from_static(b"mine"));
    let private = CreateRequest {
        data: private,
        acl: Acl::creator_all(),
        ..create("/private", CreateMode::Persistent)
    };
    let empty =
        CreateRequest { data: Some(Bytes::new()), ..create("/empty", CreateMode::Persistent) };
    let set = |path: &str, data: Option<&'static str>, version| SetDataRequest {
        path: path.into(),
        data: data.map(Bytes::from),
        version,
    };
    let delete = |path: &str, version| DeleteRequest { path: path.into(), version };
    let auth =
        AuthPacket { scheme: "digest".into(), auth: Some(Bytes::from_static(b"user:password")) };
    let children = |watch| GetChildrenRequest { path: "/w".into(), watch };
    let check =
        |path: &str, version| MultiOp::Check(CheckVersionRequest { path: path.into(), version });
    let sequential =
        CreateRequest { data: None, ..create("/m/es-", CreateMode::EphemeralSequential) };

    for expected in [
        Request::Auth(auth),
        Request::Create(create("/p", CreateMode::Persistent)),
        Request::Create(read_only),
        Request::Create(empty),
        Request::Create(private),
        Request::Create(create("/e", CreateMode::Ephemeral)),
        Request::Create(create("/p/s-", CreateMode::PersistentSequential)),
        Request::Create(create("/p/es-", CreateMode::EphemeralSequential)),
        Request::CreateContainer(create("/c", CreateMode::Container)),
        Request::CreateTtl(create_ttl("/t", CreateMode::PersistentWithTtl)),
        Request::CreateTtl(create_ttl("/p/t-", CreateMode::PersistentSequentialWithTtl)),
        Request::Create2(create("/p2", CreateMode::Persistent)),
        Request::Exists(ExistsRequest { path: "/absent".into(), watch: false }),
        Request::Exists(ExistsRequest { path: "/w".into(), watch: true }),
        Request::GetData(GetDataRequest { path: "/w".into(), watch: true }),
        Request::SetData(set("/p", Some("changed"), 0)),
        Request::SetData(set("/p", None, -1)),
        Request::GetChildren(children(true)),
        Request::GetChildren2(children(true)),
        Request::Sync(SyncRequest { path: "/p".into() }),
        Request::Delete(delete("/p2", 7)),
        Request::Multi(vec![
            check("/p", -1),
            MultiOp::Create(create("/m", CreateMode::Persistent)),
            MultiOp::Create(sequential),
            MultiOp::CreateContainer(create("/m/c", CreateMode::Container)),
            MultiOp::CreateTtl(create_ttl("/m/t", CreateMode::PersistentWithTtl)),
            MultiOp::SetData(set("/m", Some("changed"), 0)),
            MultiOp::Delete(delete("/m/c", 0)),
        ]),
        Request::Ping,
        Request::CloseSession,
    ] {
        assert!(said.iter().any(|(_, request)| *request == expected), "{expected:?}");
    }

    for (xid, request) in said {
        let special = match request {
            Request::Ping => Some(XID_PING),
            Request::Auth(_) => Some(XID_AUTH),
            // Also `setWatches`: the Java client reserves -8 for it, but numbers it like any other
            // request.
            _ => None,
        };
        assert!(special.map_or(xid > 0, |special| xid == special), "{xid} {request:?}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn captured_responses_decode_to_their_meaning() {
    let answers: Vec<Response> = messages()
        .into_iter()
        .filter_map(|message| match message {
            Message::Reply(_, _, body) => Some(body),
            _ => None,
        })
        .collect();
    let has =
        |what: &str, test: &dyn Fn(&Response) -> bool| assert!(answers.iter().any(test), "{what}");
    has("a path with a sequence number", &|answer| {
        *answer == Response::Path("/p/s-0000000000".into())
    });
    has("a path beyond ASCII", &|answer| *answer == Response::Path("/é中".into()));
    has("the stat of a new node", &|answer| match answer {
        Response::Created(Create2Response { path, stat }) => {
            path == "/p2"
                && stat.czxid == stat.mzxid
                && (stat.version, stat.data_length, stat.ephemeral_owner) == (0, 4, 0)
        }
        _ => false,
    });
    has(
        "the owner of an ephemeral node",
        &|answer| matches!(answer, Response::Created(Create2Response { path, stat }) if path == "/e2" && stat.ephemeral_owner != 0),
    );
    has(
        "no owner of a container",
        &|answer| matches!(answer, Response::Created(Create2Response { path, stat }) if path == "/c2" && stat.ephemeral_owner == 0),
    );
    has(
        "no data",
        &|answer| matches!(answer, Response::Data(DataResponse { data: None, stat }) if stat.data_length == 0),
    );
    has(
        "empty data",
        &|answer| matches!(answer, Response::Data(DataResponse { data: Some(data), .. }) if data.is_empty()),
    );
    has("a changed stat", &|answer| {
        matches!(answer, Response::Stat(Stat { version: 2, data_length: 0, .. }))
    });
    has("no children", &|answer| *answer == Response::Children(Vec::new()));
    has("children and stat", &|answer| match answer {
        Response::Children2(Children2Response { children, stat }) => {
            children.iter().any(|name| name == "zookeeper")
                && stat.num_children as usize == children.len()
        }
        _ => false,
    });
    has("a successful multi", &|answer| match answer {
        Response::Multi(results) => matches!(
            &results[..],
            [
                MultiResult::Check,
                MultiResult::Create(plain),
                MultiResult::Create(sequential),
                MultiResult::Create2(Create2Response { path: container, .. }),
                MultiResult::Create2(Create2Response { path: ttl, .. }),
                MultiResult::SetData(Stat { version: 1, .. }),
                MultiResult::Delete,
            ] if plain == "/m" && sequential == "/m/es-0000000000" && container == "/m/c" && ttl == "/m/t"
        ),
        _ => false,
    });
    has("a failed multi", &|answer| {
        *answer
            == Response::Multi(vec![
                MultiResult::Error(None),
                MultiResult::Error(None),
                MultiResult::Error(Some(ErrorCode::BadVersion)),
                MultiResult::Error(Some(ErrorCode::RuntimeInconsistency)),
            ])
    });
}

#[test]
fn a_reconnect_resumes_session_identity_and_watches() {
    let messages = messages();
    let connects: Vec<&ConnectRequest> = messages
        .iter()
        .filter_map(|message| if let Message::Connect(body) = message { Some(body) } else { None })
        .collect();
    let connected: Vec<&ConnectResponse> = messages
        .iter()
        .filter_map(
            |message| if let Message::Connected(body) = message { Some(body) } else { None },
        )
        .collect();
    // One session over three connections, a session that fails to authenticate and returns, and a
    // session that never existed.
    let [new, again, third, .., expired] = &connects[..] else { panic!("{connects:?}") };
    assert_eq!((new.session_id, new.last_zxid_seen, new.timeout), (0, 0, 4000));
    assert_eq!(new.password.as_deref(), Some(&[0; PASSWORD_LEN][..]));
    assert!(connects.iter().any(|connect| connect.read_only));
    for (request, answer) in [(again, connected[1]), (third, connected[2])] {
        assert_eq!(
            (request.session_id, &request.password),
            (connected[0].session_id, &connected[0].password)
        );
        assert_eq!(
            (answer.session_id, &answer.password),
            (connected[0].session_id, &connected[0].password)
        );
        assert!(request.last_zxid_seen > 0);
        assert_eq!(answer.timeout, 4000);
    }
    assert_eq!(expired.session_id, 0x1234_5678_90ab_cdef);
    let refused = connected.last().expect("a response on the last connection");
    assert_eq!((refused.timeout, refused.session_id), (0, 0));

    let paths =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    assert!(messages.iter().any(|message| matches!(message,
        Message::Request(_, Request::SetWatches(SetWatches { data_watches, exist_watches, child_watches, .. }))
            if sorted(data_watches) == paths(&["/r1/data", "/r1/quiet"])
                && *exist_watches == paths(&["/r1/absent"])
                && sorted(child_watches) == paths(&["/r1/data"]))));
    assert!(messages.iter().any(|message| matches!(message,
        Message::Request(_, Request::SetWatches2(SetWatches2 { persistent_watches, persistent_recursive_watches, .. }))
            if *persistent_watches == paths(&["/r1"])
                && *persistent_recursive_watches == paths(&["/r1/quiet"]))));

    let changed = WatcherEvent {
        event_type: EventType::NodeDataChanged as i32,
        state: KeeperState::SyncConnected.code(),
        path: "/r1/data".into(),
    };
    let events: Vec<_> = messages
        .iter()
        .filter_map(|message| {
            if let Message::Event(header, body) = message { Some((header, body)) } else { None }
        })
        .collect();
    assert!(events.iter().any(|(_, event)| **event == changed));
    assert!(events.iter().all(|(header, _)| (header.zxid, header.err) == (-1, 0)), "{events:?}");
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}
