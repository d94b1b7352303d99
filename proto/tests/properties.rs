//! Properties for every input: no decoder panics, invalid lengths are refused, and values survive
//! the wire.

use bytes::{BufMut, Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zk_curator_proto::records::{
    Acl, AclResponse, AddWatchRequest, AuthPacket, CheckVersionRequest, Children2Response,
    ClientInfo, ConnectRequest, ConnectResponse, Create2Response, CreateMode, CreateRequest,
    CreateTtlRequest, DataResponse, DeleteRequest, EventType, ExistsRequest, GetAclRequest,
    GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest, GetEphemeralsRequest, MultiOp,
    MultiResult, Permissions, ReadOp, ReadResult, ReconfigRequest, ReplyHeader, RequestHeader,
    SaslToken, SetAclRequest, SetDataRequest, SetWatches, SetWatches2, Stat, SyncRequest,
    WatcherEvent, WatchesRequest,
};
use zk_curator_proto::{
    DecodeError, Decoder, Encoder, ErrorCode, OpCode, Record, Request, Response, frame,
};

/// Returns the wire form of a value, alone in its frame.
fn encoded(fill: impl FnOnce(&mut Encoder)) -> Bytes {
    let mut out = Encoder::new();
    fill(&mut out);
    out.finish()
}

/// Asserts that a record is read back as it was written, with no byte left.
fn round_trip<T: Record + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = encoded(|out| value.encode(out));
    assert!(bytes.len() >= T::MIN_SIZE, "{value:?} takes fewer bytes than the least");
    let mut input = Decoder::new(bytes);
    assert_eq!(T::decode(&mut input, "value").as_ref(), Ok(value));
    assert_eq!(input.remaining(), 0);
}

/// Shows that an expression has returned, which means that it did not panic.
fn returns<T>(_: T) {}

fn text() -> impl Strategy<Value = String> + Clone {
    "\\PC{0,12}"
}

fn data() -> impl Strategy<Value = Option<Bytes>> {
    option::of(vec(any::<u8>(), 0..20).prop_map(Bytes::from))
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..5)
}

fn acl() -> impl Strategy<Value = Acl> {
    (any::<i32>(), text(), text())
        .prop_map(|(bits, scheme, id)| Acl::new(Permissions::from_bits(bits), scheme, id))
}

prop_compose! {
    fn stat()(longs in any::<[i64; 6]>(), ints in any::<[i32; 5]>()) -> Stat {
        let [czxid, mzxid, ctime, mtime, ephemeral_owner, pzxid] = longs;
        let [version, cversion, aversion, data_length, num_children] = ints;
        Stat {
            czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral_owner, data_length,
            num_children, pzxid,
        }
    }
}

prop_compose! {
    fn create()(path in text(), data in data(), acl in vec(acl(), 0..4), flags in any::<i32>()) -> CreateRequest {
        CreateRequest { path, data, acl, flags }
    }
}

prop_compose! {
    fn create_ttl()(create in create(), ttl in any::<i64>()) -> CreateTtlRequest {
        let CreateRequest { path, data, acl, flags } = create;
        CreateTtlRequest { path, data, acl, flags, ttl }
    }
}

prop_compose! {
    fn delete()(path in text(), version in any::<i32>()) -> DeleteRequest {
        DeleteRequest { path, version }
    }
}

prop_compose! {
    fn set_data()(path in text(), data in data(), version in any::<i32>()) -> SetDataRequest {
        SetDataRequest { path, data, version }
    }
}

prop_compose! {
    fn set_watches()(
        relative_zxid in any::<i64>(),
        lists in (paths(), paths(), paths(), paths(), paths()),
    ) -> SetWatches2 {
        let (data_watches, exist_watches, child_watches, persistent_watches, persistent_recursive_watches) =
            lists;
        SetWatches2 {
            relative_zxid, data_watches, exist_watches, child_watches, persistent_watches,
            persistent_recursive_watches,
        }
    }
}

prop_compose! {
    fn created()(path in text(), stat in stat()) -> Create2Response {
        Create2Response { path, stat }
    }
}

fn multi_op() -> impl Strategy<Value = MultiOp> {
    prop_oneof![
        create().prop_map(MultiOp::Create),
        create().prop_map(MultiOp::Create2),
        create().prop_map(MultiOp::CreateContainer),
        create_ttl().prop_map(MultiOp::CreateTtl),
        delete().prop_map(MultiOp::Delete),
        set_data().prop_map(MultiOp::SetData),
        (text(), any::<i32>())
            .prop_map(|(path, version)| MultiOp::Check(CheckVersionRequest { path, version })),
    ]
}

fn multi_result() -> impl Strategy<Value = MultiResult> {
    prop_oneof![
        text().prop_map(MultiResult::Create),
        created().prop_map(MultiResult::Create2),
        Just(MultiResult::Delete),
        stat().prop_map(MultiResult::SetData),
        Just(MultiResult::Check),
        any::<i32>().prop_map(|code| MultiResult::Error(ErrorCode::from_code(code))),
        proptest::sample::select(ErrorCode::ALL).prop_map(|code| MultiResult::Error(Some(code))),
    ]
}

fn read_op() -> impl Strategy<Value = ReadOp> {
    let read = (text(), any::<bool>());
    prop_oneof![
        read.clone().prop_map(|(path, watch)| ReadOp::GetData(GetDataRequest { path, watch })),
        read.prop_map(|(path, watch)| ReadOp::GetChildren(GetChildrenRequest { path, watch })),
    ]
}

fn read_result() -> impl Strategy<Value = ReadResult> {
    prop_oneof![
        (data(), stat()).prop_map(|(data, stat)| ReadResult::Data(DataResponse { data, stat })),
        paths().prop_map(ReadResult::Children),
        any::<i32>().prop_map(|code| ReadResult::Error(ErrorCode::from_code(code))),
    ]
}

fn watches() -> impl Strategy<Value = WatchesRequest> {
    (text(), any::<i32>()).prop_map(|(path, watcher_type)| WatchesRequest { path, watcher_type })
}

fn request() -> impl Strategy<Value = Request> {
    let read = (text(), any::<bool>());
    prop_oneof![
        Just(Request::Ping),
        Just(Request::CloseSession),
        (text(), data()).prop_map(|(scheme, auth)| Request::Auth(AuthPacket { scheme, auth })),
        create().prop_map(Request::Create),
        create().prop_map(Request::Create2),
        create().prop_map(Request::CreateContainer),
        create_ttl().prop_map(Request::CreateTtl),
        delete().prop_map(Request::Delete),
        read.clone().prop_map(|(path, watch)| Request::Exists(ExistsRequest { path, watch })),
        read.clone().prop_map(|(path, watch)| Request::GetData(GetDataRequest { path, watch })),
        set_data().prop_map(Request::SetData),
        read.clone()
            .prop_map(|(path, watch)| Request::GetChildren(GetChildrenRequest { path, watch })),
        read.prop_map(|(path, watch)| Request::GetChildren2(GetChildrenRequest { path, watch })),
        text().prop_map(|path| Request::Sync(SyncRequest { path })),
        vec(multi_op(), 0..5).prop_map(Request::Multi),
        set_watches().prop_map(|all| {
            let SetWatches2 { relative_zxid, data_watches, exist_watches, child_watches, .. } = all;
            Request::SetWatches(SetWatches {
                relative_zxid,
                data_watches,
                exist_watches,
                child_watches,
            })
        }),
        set_watches().prop_map(Request::SetWatches2),
        vec(read_op(), 0..5).prop_map(Request::MultiRead),
        text().prop_map(|path| Request::GetAcl(GetAclRequest { path })),
        (text(), vec(acl(), 0..4), any::<i32>())
            .prop_map(|(path, acl, version)| Request::SetAcl(SetAclRequest { path, acl, version })),
        (text(), any::<i32>())
            .prop_map(|(path, mode)| Request::AddWatch(AddWatchRequest { path, mode })),
        watches().prop_map(Request::RemoveWatches),
        watches().prop_map(Request::CheckWatches),
        text().prop_map(|prefix| Request::GetEphemerals(GetEphemeralsRequest { prefix })),
        text().prop_map(|path| Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path })),
        Just(Request::WhoAmI),
        (text(), text(), text(), any::<i64>()).prop_map(|(joining, leaving, members, version)| {
            Request::Reconfig(ReconfigRequest { joining, leaving, members, version })
        }),
        data().prop_map(|token| Request::Sasl(SaslToken { token })),
    ]
}

/// Generates a response, and the opcode of a request to which it may belong.
fn response() -> impl Strategy<Value = (OpCode, Response)> {
    prop_oneof![
        Just((OpCode::Delete, Response::Empty)),
        text().prop_map(|path| (OpCode::Create, Response::Path(path))),
        created().prop_map(|body| (OpCode::Create2, Response::Created(body))),
        stat().prop_map(|stat| (OpCode::Exists, Response::Stat(stat))),
        (data(), stat()).prop_map(|(data, stat)| (
            OpCode::GetData,
            Response::Data(DataResponse { data, stat })
        )),
        paths().prop_map(|names| (OpCode::GetChildren, Response::Children(names))),
        (paths(), stat()).prop_map(|(children, stat)| {
            (OpCode::GetChildren2, Response::Children2(Children2Response { children, stat }))
        }),
        vec(multi_result(), 0..5).prop_map(|results| (OpCode::Multi, Response::Multi(results))),
        vec(read_result(), 0..5)
            .prop_map(|results| (OpCode::MultiRead, Response::ReadResults(results))),
        (vec(acl(), 0..4), stat())
            .prop_map(|(acl, stat)| (OpCode::GetAcl, Response::Acl(AclResponse { acl, stat }))),
        any::<i32>().prop_map(|code| (OpCode::AddWatch, Response::Code(code))),
        any::<i32>().prop_map(|number| (OpCode::GetAllChildrenNumber, Response::Number(number))),
        vec((text(), text()).prop_map(|(scheme, user)| ClientInfo { scheme, user }), 0..4)
            .prop_map(|identities| (OpCode::WhoAmI, Response::Identities(identities))),
        data().prop_map(|token| (OpCode::Sasl, Response::Sasl(SaslToken { token }))),
    ]
}

prop_compose! {
    fn connect_request()(
        protocol_version in any::<i32>(), last_zxid_seen in any::<i64>(), timeout in any::<i32>(),
        session_id in any::<i64>(), password in data(), read_only in any::<bool>(),
    ) -> ConnectRequest {
        ConnectRequest { protocol_version, last_zxid_seen, timeout, session_id, password, read_only }
    }
}

prop_compose! {
    fn connect_response()(
        protocol_version in any::<i32>(), timeout in any::<i32>(), session_id in any::<i64>(),
        password in data(), read_only in any::<bool>(),
    ) -> ConnectResponse {
        ConnectResponse { protocol_version, timeout, session_id, password, read_only }
    }
}

/// Generates bytes that resemble a frame more often than random ones: small numbers, and real
/// frames with a few bytes replaced, cut off or appended.
fn hostile() -> impl Strategy<Value = Bytes> {
    let ints =
        proptest::sample::select(&[-1, 0, 1, 2, 4, 13, 14, 15, 19, 21, i32::MAX, i32::MIN, -2][..]);
    let damaged = (
        prop_oneof![
            request().prop_map(|request| encoded(|out| request.encode_body(out))),
            response().prop_map(|(_, response)| encoded(|out| response.encode_body(out))),
        ],
        vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        vec(any::<u8>(), 0..4),
        option::of(any::<prop::sample::Index>()),
    )
        .prop_map(|(frame, replaced, appended, cut)| {
            let mut frame = frame.to_vec();
            for (at, byte) in replaced {
                if !frame.is_empty() {
                    let at = at.index(frame.len());
                    frame[at] = byte;
                }
            }
            frame.extend(appended);
            if let Some(cut) = cut {
                frame.truncate(cut.index(frame.len() + 1));
            }
            Bytes::from(frame)
        });
    prop_oneof![
        vec(any::<u8>(), 0..200).prop_map(Bytes::from),
        vec(ints, 0..20).prop_map(|ints| ints.into_iter().flat_map(i32::to_be_bytes).collect()),
        damaged,
    ]
}

proptest! {
    #[test]
    fn no_decoder_panics_and_accepted_input_round_trips(bytes in hostile()) {
        for opcode in OpCode::ALL {
            let request = Request::decode_body(*opcode, &mut Decoder::new(bytes.clone()));
            if let Ok(request) = request {
                prop_assert_eq!(request.opcode(), *opcode);
                let again = encoded(|out| request.encode_body(out));
                prop_assert_eq!(Request::decode_body(*opcode, &mut Decoder::new(again)), Ok(request));
            }
            let response = Response::decode_body(*opcode, &mut Decoder::new(bytes.clone()));
            if let Ok(response) = response {
                let again = encoded(|out| response.encode_body(out));
                prop_assert_eq!(Response::decode_body(*opcode, &mut Decoder::new(again)), Ok(response));
            }
        }
        let input = || Decoder::new(bytes.clone());
        returns(ConnectRequest::decode(&mut input(), "connect"));
        returns(ConnectResponse::decode(&mut input(), "connect"));
        returns(RequestHeader::decode(&mut input(), "header"));
        returns(ReplyHeader::decode(&mut input(), "header"));
        returns(WatcherEvent::decode(&mut input(), "event"));
    }

    #[test]
    fn numbers_without_meaning_are_errors_or_kept(value: i32) {
        returns(EventType::try_from(value));
        returns(CreateMode::try_from(value).map(|mode| assert_eq!(mode.flags(), value)));
        returns(OpCode::try_from(value).map(|opcode| assert_eq!(opcode.code(), value)));
        prop_assert_eq!(ErrorCode::from_code(value).map_or(0, ErrorCode::code), value);
    }

    #[test]
    fn framing_never_panics_and_takes_nothing_over_the_limit(
        stream in vec(any::<u8>(), 0..100),
        limit in 0_usize..100,
    ) {
        let mut buf = BytesMut::from(&stream[..]);
        let mut taken = 0;
        while let Ok(Some(frame)) = frame::take(&mut buf, limit) {
            prop_assert!(frame.len() <= limit);
            prop_assert_eq!(&stream[taken + 4..taken + 4 + frame.len()], &frame[..]);
            taken += 4 + frame.len();
        }
        prop_assert_eq!(&buf[..], &stream[taken..]);
    }

    #[test]
    fn frames_survive_any_cut_of_the_stream(
        frames in vec(vec(any::<u8>(), 0..30).prop_map(Bytes::from), 0..6),
        pieces in vec(1_usize..40, 1..10),
    ) {
        let mut wire = BytesMut::new();
        for frame in &frames {
            frame::put_parts(&mut wire, &[frame]);
        }
        let (mut buf, mut taken, mut pieces) = (BytesMut::new(), Vec::new(), pieces.into_iter().cycle());
        while !wire.is_empty() {
            let piece = pieces.next().unwrap_or(1).min(wire.len());
            buf.put(wire.split_to(piece));
            while let Some(frame) = frame::take(&mut buf, 30)? {
                taken.push(frame);
            }
        }
        prop_assert_eq!(taken, frames);
    }

    #[test]
    fn requests_survive_the_wire(request in request()) {
        let mut input = Decoder::new(encoded(|out| request.encode_body(out)));
        prop_assert_eq!(Request::decode_body(request.opcode(), &mut input), Ok(request));
        prop_assert_eq!(input.remaining(), 0);
    }

    #[test]
    fn responses_survive_the_wire((opcode, response) in response()) {
        let mut input = Decoder::new(encoded(|out| response.encode_body(out)));
        prop_assert_eq!(Response::decode_body(opcode, &mut input), Ok(response));
        prop_assert_eq!(input.remaining(), 0);
    }

    #[test]
    fn headers_and_handshakes_survive_the_wire(
        connect in connect_request(), connected in connect_response(),
        xid: i32, opcode: i32, zxid: i64, err: i32, event_type: i32, state: i32, path in text(),
    ) {
        round_trip(&connect);
        round_trip(&connected);
        round_trip(&RequestHeader { xid, opcode });
        round_trip(&ReplyHeader { xid, zxid, err });
        round_trip(&WatcherEvent { event_type, state, path });
    }

    #[test]
    fn handshakes_of_old_peers_have_no_flag(connect in connect_request(), connected in connect_response()) {
        let bytes = encoded(|out| connect.encode(out));
        let old = ConnectRequest::decode(&mut Decoder::new(bytes.slice(..bytes.len() - 1)), "connect");
        prop_assert_eq!(old, Ok(ConnectRequest { read_only: false, ..connect }));
        let bytes = encoded(|out| connected.encode(out));
        let old = ConnectResponse::decode(&mut Decoder::new(bytes.slice(..bytes.len() - 1)), "connect");
        prop_assert_eq!(old, Ok(ConnectResponse { read_only: false, ..connected }));
    }

    /// Every proper prefix of a request with a body is an error, never a shorter request.
    #[test]
    fn a_request_cut_short_is_refused(request in request(), cut: prop::sample::Index) {
        let bytes = encoded(|out| request.encode_body(out));
        prop_assume!(!bytes.is_empty());
        let cut = bytes.slice(..cut.index(bytes.len()));
        let answer = Request::decode_body(request.opcode(), &mut Decoder::new(cut));
        prop_assert!(matches!(answer, Err(DecodeError::Truncated { .. })), "{:?}", answer);
    }
}

/// A count that its frame cannot contain is refused by its size alone: the error names all the
/// bytes that it would need, so nothing was allocated or read for it.
#[test]
fn a_hostile_count_is_refused_before_anything_is_allocated() {
    let hostile = |prefix: &[u8]| {
        let mut frame = prefix.to_vec();
        frame.extend(i32::MAX.to_be_bytes());
        frame.resize(20, 0);
        Bytes::from(frame)
    };
    let most = i32::MAX as usize;
    let zxid = [0; 8];
    let empty_path_null_data = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    for (opcode, prefix, needed) in [
        (OpCode::Create, &empty_path_null_data[..], most * Acl::MIN_SIZE), // entries
        (OpCode::CreateTtl, &empty_path_null_data[..], most * Acl::MIN_SIZE),
        (OpCode::SetWatches, &zxid[..], most * 4), // paths
        (OpCode::SetWatches2, &zxid[..], most * 4),
        (OpCode::GetData, &[][..], most),     // bytes of a path
        (OpCode::SetData, &[0; 4][..], most), // bytes of data
        (OpCode::Auth, &[0; 4][..], most),
    ] {
        let answer = Request::decode_body(opcode, &mut Decoder::new(hostile(prefix)));
        let remaining = 20 - prefix.len() - 4;
        assert!(
            matches!(answer, Err(DecodeError::Truncated { needed: n, remaining: r, .. }) if n == needed && r == remaining),
            "{opcode:?}: {answer:?}"
        );
    }
    for opcode in [OpCode::GetChildren, OpCode::GetChildren2] {
        let answer = Response::decode_body(opcode, &mut Decoder::new(hostile(&[])));
        assert!(
            matches!(answer, Err(DecodeError::Truncated { needed, remaining: 16, .. }) if needed == most * 4),
            "{opcode:?}: {answer:?}"
        );
    }
}

#[test]
fn a_negative_length_other_than_null_is_refused() {
    let frame = || Decoder::new(Bytes::from_static(&[0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0]));
    let refused = |error: Option<DecodeError>| {
        matches!(error, Some(DecodeError::NegativeLength { length: -2, .. }))
    };
    assert!(refused(frame().string("text").err()));
    assert!(refused(frame().buffer("data").err()));
    assert!(refused(frame().vector::<String>("names").err()));
}
