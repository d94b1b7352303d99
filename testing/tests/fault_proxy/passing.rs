//! Bytes that the proxy does not understand pass, and rules do not see them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_curator_proto::records::{CreateMode, CreateRequest, RequestHeader};
use zk_curator_proto::{ErrorCode, Record, Request, Response, frame};
use zk_curator_testing::wait::spend;
use zk_curator_testing::{FaultProxy, Flow, TestServer, Verdict};

use super::{address, client, create_a, on_create, proxied, put};
use crate::common::{LONG, RawClient, create_body, new_session};

#[tokio::test]
async fn four_letter_words_pass() {
    let (_server, proxy) = proxied().await;
    let _rule = proxy.rule(|_| Verdict::Disconnect);
    for (word, starts) in [("ruok", "imok"), ("srvr", "Zookeeper version"), ("isro", "rw")] {
        let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
        stream.write_all(word.as_bytes()).await.unwrap();
        // As `nc` does.
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(LONG, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with(starts), "{word}: {answer}");
    }
    assert_eq!(proxy.traffic().opcodes(), []);
}

/// The first bytes of a client that speaks TLS, and any after them.
#[tokio::test]
async fn other_protocols_pass_and_network_faults_apply() {
    let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(&[echo.local_addr().unwrap()]).await.unwrap();
    let _rule = proxy.rule(|_| Verdict::Disconnect);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = echo.accept().await {
            let (mut reader, mut writer) = stream.split();
            tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        }
    });
    let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
    let mut hello = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    hello.resize(200_000, 7);
    let (mut reader, mut writer) = stream.split();
    let mut echoed = vec![0; hello.len()];
    let (written, read) = tokio::join!(writer.write_all(&hello), reader.read_exact(&mut echoed));
    assert_eq!((written.is_ok(), read.unwrap()), (true, hello.len()));
    assert!(echoed == hello);
    proxy.replies(Flow::Stalled);
    stream.write_all(b"more").await.unwrap();
    proxy.cut();
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn requests_that_cannot_be_decoded_pass() {
    let (server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    let rule = proxy.rule(|_| Verdict::Disconnect);
    let mut out = BytesMut::new();
    let create = zk_curator_proto::OpCode::Create.code();
    frame::put(&mut out, |out| {
        RequestHeader { xid: 1, opcode: create }.encode(out);
        out.i32(1_000_000);
    });
    frame::put(&mut out, |out| RequestHeader { xid: 2, opcode: 4711 }.encode(out));
    zk.write(&out).await;
    let mut errors = Vec::new();
    while let Some(frame) = zk.frame().await {
        let mut input = zk_curator_proto::Decoder::new(frame);
        let header = zk_curator_proto::records::ReplyHeader::decode(&mut input, "header").unwrap();
        errors.push((header.xid, ErrorCode::from_code(header.err)));
    }
    let expected = [(1, Some(ErrorCode::MarshallingError)), (2, Some(ErrorCode::Unimplemented))];
    assert_eq!(errors, expected);
    assert_eq!((rule.hits(), proxy.traffic().unknown_requests()), (0, 2));
    assert_eq!(server.probe().paths(), [""; 0]);
}

#[tokio::test]
async fn requests_above_the_limit_pass() {
    let server = TestServer::start().await;
    let builder = FaultProxy::builder().server(server.connect_string()).frame_limit(0);
    let proxy = builder.start().await.unwrap();
    let mut zk = client(&proxy).await;
    let rule = proxy.rule(on_create(Verdict::Refuse(ErrorCode::NoAuth)));
    assert_eq!(zk.call(create_a()).await, Err(ErrorCode::NoAuth));
    let large = |length: usize| {
        let data = Some(Bytes::from(vec![7; length]));
        Request::Create(CreateRequest { data, ..create_body("/a", CreateMode::Persistent) })
    };
    assert_eq!(zk.call(large(500)).await, Err(ErrorCode::NoAuth));
    for request in [large(500_000), create_a()] {
        zk.send(request).await;
    }
    assert_eq!(zk.reply().await, Some(Ok(Response::Path("/a".into()))));
    assert_eq!(zk.reply().await, Some(Err(ErrorCode::NoAuth)));
    assert_eq!(rule.hits(), 3);
    assert_eq!(server.probe().data("/a").map(|data| data.len()), Some(500_000));
    // Replies have no limit.
    assert_eq!(zk.get_data("/a", false).await.unwrap().map(|data| data.len()), Some(500_000));
}

#[tokio::test]
async fn frames_that_wait_are_counted_and_pass_later() {
    let (server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    proxy.requests(Flow::Stalled);
    zk.send(create_a()).await;
    zk.send(Request::Ping).await;
    tokio::time::timeout(LONG, proxy.received(3)).await.unwrap();
    assert_eq!(proxy.counts().requests, 1);
    assert!(!server.probe().exists("/a"));
    proxy.requests(Flow::Open);
    assert!(zk.reply().await.unwrap().is_ok() && zk.reply().await.unwrap().is_ok());
    assert_eq!(proxy.counts().requests, 3);
}

#[tokio::test]
async fn host_names_are_resolved_for_each_connection() {
    let server = TestServer::start().await;
    let port = server.addr().unwrap().port();
    let listen = ([0, 0, 0, 0], 0).into();
    let builder = FaultProxy::builder().server_at(listen, format!("localhost:{port}"));
    let proxy = builder.server("no-such-host.invalid:2181").start().await.unwrap();
    assert!(address(&proxy).ip().is_unspecified());
    let both = proxy.connect_string();
    let (first, second) = both.split_once(',').unwrap();
    assert!(first.starts_with("127.0.0.1:"), "{first}");
    let mut zk = RawClient::over_tcp(first).await;
    zk.ping().await;
    let mut unreachable = TcpStream::connect(second).await.unwrap();
    assert_eq!(unreachable.read(&mut [0; 8]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_client_that_gives_up_in_a_stalled_network_is_forgotten() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(&[listener.local_addr().unwrap()]).await.unwrap();
    proxy.requests(Flow::Stalled);
    let mut bytes = BytesMut::new();
    frame::put(&mut bytes, |out| new_session().encode(out));
    let handshake = bytes.len();
    put(&mut bytes, 1, &create_a());
    // Nothing, a part of the handshake, and the handshake with a part of a request.
    for (length, frames) in [(0, 0), (10, 0), (handshake + 9, 1)] {
        let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let received = proxy.counts().received;
        stream.write_all(&bytes[..length]).await.unwrap();
        tokio::time::timeout(LONG, proxy.received(received + frames)).await.unwrap();
        drop(stream);
        let end = tokio::time::timeout(LONG, server.read(&mut [0; 8])).await.unwrap();
        assert_eq!(end.unwrap_or(0), 0, "{length}");
    }
    assert_eq!((proxy.counts().requests, proxy.counts().connections), (0, 3));
    // A client that waits is served.
    let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    tokio::time::timeout(LONG, proxy.received(3)).await.unwrap();
    proxy.requests(Flow::Open);
    let mut found = vec![0; handshake];
    tokio::time::timeout(LONG, server.read_exact(&mut found)).await.unwrap().unwrap();
    assert_eq!(found, bytes[..handshake]);
}

#[tokio::test]
async fn connections_above_the_limit_are_closed() {
    let server = TestServer::start().await;
    let builder = FaultProxy::builder().server(server.connect_string()).connection_limit(2);
    let proxy = builder.start().await.unwrap();
    let mut zks = vec![client(&proxy).await, client(&proxy).await];
    let mut third = TcpStream::connect(address(&proxy)).await.unwrap();
    assert_eq!(third.read(&mut [0; 8]).await.unwrap_or(0), 0);
    for zk in &mut zks {
        zk.ping().await;
    }
    drop(zks.pop());
    let again = async {
        loop {
            let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
            let written = stream.write_all(b"ruok").await;
            let mut answer = String::new();
            if written.is_ok()
                && stream.read_to_string(&mut answer).await.is_ok_and(|_| answer == "imok")
            {
                break;
            }
        }
    };
    tokio::time::timeout(LONG, again).await.unwrap();
}

#[tokio::test]
async fn a_client_that_closes_its_half_gets_a_late_reply() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(&[listener.local_addr().unwrap()]).await.unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut question = String::new();
        stream.read_to_string(&mut question).await.unwrap();
        // A slow server.
        spend(Duration::from_millis(1200)).await;
        stream.write_all(question.as_bytes()).await.unwrap();
    });
    let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.0").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(LONG, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, "GET / HTTP/1.0");
}
