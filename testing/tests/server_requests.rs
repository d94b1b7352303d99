//! Requests and responses, through memory and over TCP.

use crate::common::{Message, RawClient, auth, create, create_body, delete, set_data};
use bytes::{BufMut, BytesMut};
use zk_curator_proto::records::{
    Create2Response, CreateMode, MultiOp, MultiResult, RequestHeader, SyncRequest,
};
use zk_curator_proto::{ErrorCode, OpCode, Record, Request, Response, frame};
use zk_curator_testing::{SequenceOverflow, TestServer};

#[tokio::test]
async fn a_node_is_created_read_written_and_deleted() {
    let server = TestServer::start().await;
    let mut zk = RawClient::over_tcp(&server.connect_string()).await;
    assert_eq!(zk.create("/a", CreateMode::Persistent).await, Ok("/a".into()));
    assert_eq!(zk.get_data("/a", false).await, Ok(Some("data".into())));
    let stat = zk.set_data("/a", b"more data").await.unwrap();
    assert_eq!((stat.version, stat.data_length), (1, 9));
    assert_eq!(zk.exists("/a", false).await, Ok(stat));
    assert_eq!(zk.children("/", false).await, Ok(vec!["a".into(), "zookeeper".into()]));
    assert_eq!(zk.delete("/a").await, Ok(()));
    assert_eq!(zk.delete("/a").await, Err(ErrorCode::NoNode));
    assert_eq!(zk.call(Request::CloseSession).await, Ok(Response::Empty));
    zk.closed().await;
    assert_eq!(server.probe().sessions(), []);
    assert_eq!(server.probe().paths(), [""; 0]);
}

#[tokio::test]
async fn tcp_and_memory_reach_the_same_server() {
    let server = TestServer::start().await;
    let mut tcp = RawClient::over_tcp(&server.connect_string()).await;
    let mut memory = RawClient::new(&server).await;
    tcp.create("/a", CreateMode::Persistent).await.unwrap();
    assert!(memory.exists("/a", false).await.is_ok());
    assert_eq!(server.probe().connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_of_a_connection_complete_in_order() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    let mut xids = Vec::new();
    for _ in 0..500 {
        xids.push(zk.send(create("/a/n-", CreateMode::EphemeralSequential)).await);
        xids.push(zk.send(Request::Ping).await);
    }
    let mut last_zxid = 0;
    for (index, sent) in xids.into_iter().enumerate() {
        let Some(Message::Reply { xid, zxid, result }) = zk.message().await else {
            panic!("no response")
        };
        assert_eq!(xid, sent);
        assert!(zxid >= last_zxid);
        last_zxid = zxid;
        if index % 2 == 0 {
            assert_eq!(result, Ok(Response::Path(format!("/a/n-{:010}", index / 2))));
        }
    }
    assert_eq!(server.probe().requests(OpCode::Create), 501);
    assert_eq!(server.probe().requests(OpCode::Ping), 500);
    assert_eq!(server.probe().total_requests(), 1001);
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_takes_a_zxid_and_a_read_does_not() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let before = server.probe().zxid();
    assert_eq!(zk.exists("/a", false).await, Err(ErrorCode::NoNode));
    assert_eq!(server.probe().zxid(), before);
    assert_eq!(zk.delete("/a").await, Err(ErrorCode::NoNode));
    assert_eq!(server.probe().zxid(), before + 1);
    assert_eq!(zk.last_zxid, before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_multi_is_one_transaction() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let zxid = server.probe().zxid() + 1;
    let results = zk
        .multi(vec![
            MultiOp::Create(create_body("/a", CreateMode::Persistent)),
            MultiOp::Create(create_body("/a/n-", CreateMode::EphemeralSequential)),
            MultiOp::Create2(create_body("/a/n-", CreateMode::EphemeralSequential)),
        ])
        .await;
    let probe = server.probe();
    let path = "/a/n-0000000001".to_owned();
    let stat = probe.stat(&path).unwrap();
    let expected = [
        MultiResult::Create("/a".into()),
        MultiResult::Create("/a/n-0000000000".into()),
        MultiResult::Create2(Create2Response { path, stat }),
    ];
    assert_eq!(results, expected);
    assert!(probe.paths().iter().all(|path| probe.stat(path).unwrap().czxid == zxid), "{probe}");
    assert_eq!(probe.zxid(), zxid);
}

#[tokio::test(start_paused = true)]
async fn a_failed_multi_has_a_result_per_operation_and_no_error() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let results = zk
        .multi(vec![
            MultiOp::Create(create_body("/a", CreateMode::Persistent)),
            MultiOp::Create(create_body("/a", CreateMode::Persistent)),
            MultiOp::Create(create_body("/b", CreateMode::Persistent)),
        ])
        .await;
    assert_eq!(
        results,
        [
            MultiResult::Error(None),
            MultiResult::Error(Some(ErrorCode::NodeExists)),
            MultiResult::Error(Some(ErrorCode::RuntimeInconsistency)),
        ]
    );
    assert_eq!(server.probe().paths(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn sync_returns_its_path() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let sync = Request::Sync(SyncRequest { path: "/no/such".into() });
    assert_eq!(zk.call(sync).await, Ok(Response::Path("/no/such".into())));
}

#[tokio::test(start_paused = true)]
async fn null_data_are_not_empty_data() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let mut body = create_body("/null", CreateMode::Persistent);
    body.data = None;
    zk.call(Request::Create(body)).await.unwrap();
    zk.create("/empty", CreateMode::Persistent).await.unwrap();
    zk.call(set_data("/empty", b"", -1)).await.unwrap();
    assert_eq!(zk.get_data("/null", false).await, Ok(None));
    assert_eq!(zk.get_data("/empty", false).await, Ok(Some("".into())));
}

#[tokio::test(start_paused = true)]
async fn identities_are_recorded_without_passwords() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    assert_eq!(zk.call(auth("digest", b"alice:secret")).await, Ok(Response::Empty));
    assert_eq!(zk.call(auth("digest", b"alice:secret")).await, Ok(Response::Empty));
    let probe = server.probe();
    assert_eq!(probe.session(zk.id()).unwrap().identities, ["digest:alice"]);
    assert!(!probe.to_string().contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_auth_scheme_ends_the_connection() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    assert_eq!(zk.call(auth("kerberos", b"x")).await, Err(ErrorCode::AuthFailed));
    zk.closed().await;
    assert!(!server.probe().session(zk.id()).unwrap().connected);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_opcode_gets_an_error_and_ends_the_connection() {
    let server = TestServer::in_memory().await;
    for opcode in [OpCode::Check.code(), 9999] {
        let mut zk = RawClient::new(&server).await;
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| RequestHeader { xid: 5, opcode }.encode(out));
        zk.write(&out).await;
        let reply = zk.frame().await.unwrap();
        assert_eq!(reply[..4], 5_i32.to_be_bytes());
        assert_eq!(reply[12..], ErrorCode::Unimplemented.code().to_be_bytes());
        zk.closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_body_is_an_error_and_the_connection_stays() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    for opcode in [OpCode::Create, OpCode::GetData, OpCode::Multi] {
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| {
            RequestHeader { xid: 5, opcode: opcode.code() }.encode(out);
            out.i32(1_000_000);
        });
        zk.write(&out).await;
        let reply = zk.frame().await.unwrap();
        assert_eq!(reply[12..], ErrorCode::MarshallingError.code().to_be_bytes());
    }
    zk.ping().await;
}

#[tokio::test]
async fn malformed_frames_end_their_connection_only() {
    let server = TestServer::builder().max_frame(1000).start().await.unwrap();
    let mut good = RawClient::new(&server).await;
    let garbage: [&[u8]; 5] = [
        &1001_i32.to_be_bytes(),
        &(-1_i32).to_be_bytes(),
        &i32::MAX.to_be_bytes(),
        &[0, 0, 0, 0],
        &[0, 0, 0, 4, 0, 0, 0, 1],
    ];
    for bytes in garbage {
        for before_handshake in [true, false] {
            let mut zk = RawClient::over_tcp(&server.connect_string()).await;
            if before_handshake {
                let connector = zk_curator_client::TcpConnector::default();
                let port = server.addr().unwrap().port();
                let mut stream =
                    zk_curator_client::Connector::connect(&connector, "127.0.0.1", port)
                        .await
                        .unwrap();
                tokio::io::AsyncWriteExt::write_all(&mut stream, bytes).await.unwrap();
                let mut rest = Vec::new();
                // The connection ends, with or without a reset.
                let ended = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await;
                assert_eq!(ended.unwrap_or(0), 0);
            } else {
                zk.write(bytes).await;
                zk.closed().await;
            }
        }
    }
    good.ping().await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_of_the_largest_size_passes() {
    let server = TestServer::builder().tcp(false).max_frame(1000).start().await.unwrap();
    let mut zk = RawClient::new(&server).await;
    let mut out = BytesMut::new();
    out.put_i32(1000);
    out.put_i32(-2);
    out.put_i32(OpCode::Ping.code());
    out.put_bytes(0, 992);
    zk.write(&out).await;
    assert!(zk.frame().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_parent_never_repeats_a_sequence_number() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    zk.create("/a/x-", CreateMode::PersistentSequential).await.unwrap();
    zk.create("/a/plain", CreateMode::Persistent).await.unwrap();
    zk.call(delete("/a/x-0000000000")).await.unwrap();
    assert_eq!(
        zk.create("/a/y-", CreateMode::PersistentSequential).await,
        Ok("/a/y-0000000002".into())
    );
    server.set_sequence("/a", i32::MAX).unwrap();
    assert_eq!(
        zk.create("/a/z-", CreateMode::PersistentSequential).await,
        Ok("/a/z-2147483647".into())
    );
    assert_eq!(
        zk.create("/a/z-", CreateMode::PersistentSequential).await,
        Err(ErrorCode::NodeExists)
    );
    server.set_sequence_overflow(SequenceOverflow::WrapsAround);
    server.set_sequence("/a", i32::MIN).unwrap();
    assert_eq!(
        zk.create("/a/z-", CreateMode::PersistentSequential).await,
        Ok("/a/z--2147483648".into())
    );
    assert_eq!(
        zk.create("/a/z-", CreateMode::PersistentSequential).await,
        Ok("/a/z--2147483647".into())
    );
    server.set_sequence("/a", -1).unwrap();
    assert_eq!(
        zk.create("/a/z-", CreateMode::PersistentSequential).await,
        Ok("/a/z--000000001".into())
    );
    assert_eq!(server.set_sequence("/none", 0), Err(ErrorCode::NoNode));
}
