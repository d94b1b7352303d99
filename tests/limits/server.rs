//! Memory that clients can make the server keep, in bytes, from the allocator of this process.

use std::time::Duration;

use crate::common::{Message, RawClient, new_session, set_data};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use zk_curator_client::{Connector, Transport};
use zk_curator_proto::records::{
    AddWatchRequest, CreateMode, CreateRequest, GetDataRequest, ReadOp,
};
use zk_curator_proto::{DEFAULT_MAX_FRAME, OpCode, Request, Response};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{past, spend};

use crate::{ALLOCATOR, alone};

const KB: usize = 1 << 10;
const MB: usize = 1 << 20;

/// The buffer of an in-memory connection in each direction, which belongs to the network, not to
/// the server.
const NETWORK: usize = 256 * KB;

/// Counts bytes.
#[derive(Default)]
struct Meter {
    before: usize,
    most: usize,
}

impl Meter {
    fn start(&mut self) {
        (self.before, self.most) = (ALLOCATOR.allocated(), 0);
    }

    /// Returns the number of bytes allocated since the start.
    fn grown(&mut self) -> usize {
        let grown = ALLOCATOR.allocated().saturating_sub(self.before);
        self.most = self.most.max(grown);
        grown
    }
}

async fn connect(server: &TestServer) -> Box<dyn Transport> {
    server.connector().connect("memory", 2181).await.unwrap()
}

/// Lets the server do everything that it can do without other tasks.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// Creates a node with `bytes` bytes.
async fn node(zk: &mut RawClient, path: &str, bytes: usize) {
    let body = crate::common::create_body(path, CreateMode::Persistent);
    let body = CreateRequest { data: Some(vec![7; bytes].into()), ..body };
    zk.call(Request::Create(body)).await.unwrap();
}

fn get_data(path: &str) -> GetDataRequest {
    GetDataRequest { path: path.into(), watch: false }
}

#[test]
fn a_client_that_does_not_read_events_is_disconnected() {
    alone(async {
        const LIMIT: usize = 2 * MB;
        let mut meter = Meter::default();
        let server = TestServer::builder().tcp(false).max_backlog(LIMIT).start().await.unwrap();
        let path = format!("/{}", "n".repeat(1000));
        // Length, header (xid, zxid, error), event (type, state, path).
        let event = 4 + 16 + 8 + 4 + path.len();
        let mut writer = RawClient::new(&server).await;
        node(&mut writer, &path, 10).await;
        let mut deaf = RawClient::new(&server).await;
        deaf.call(Request::AddWatch(AddWatchRequest { path: "/".into(), mode: 1 })).await.unwrap();
        let before = server.probe().notifications();
        meter.start();
        while server.probe().session(deaf.id()).unwrap().connected {
            writer.call(set_data(&path, b"new", -1)).await.unwrap();
            meter.grown();
        }
        let queued = usize::try_from(server.probe().notifications() - before).unwrap() * event;
        assert!(
            (LIMIT..=LIMIT + NETWORK + 2 * event).contains(&queued),
            "{queued} bytes of events"
        );
        // A buffer doubles when it grows, and exists twice during the copy.
        assert!(meter.most < 3 * LIMIT + 2 * NETWORK, "{} bytes at most", meter.most);
        // The session lives on, like all others.
        let heir = deaf.reattach(&server).await.unwrap();
        assert_eq!(heir.id(), deaf.id());
        writer.ping().await;
        drop((deaf, heir));
        settle().await;
        assert!(meter.grown() < 100 * KB, "{} bytes are left", meter.grown());
    });
}

#[test]
fn requests_of_a_client_that_does_not_read_wait() {
    alone(async {
        let mut meter = Meter::default();
        let server = TestServer::in_memory().await;
        let mut zk = RawClient::new(&server).await;
        node(&mut zk, "/large", 900 * KB).await;
        meter.start();
        for _ in 0..200 {
            zk.send(Request::GetData(get_data("/large"))).await;
        }
        settle().await;
        // Two in the queue, one on the way, whose first part the network has.
        let handled = server.probe().requests(OpCode::GetData);
        assert!((1..=4).contains(&handled), "{handled} requests");
        assert!(meter.grown() < 8 * MB, "{} bytes", meter.grown());
        for _ in 0..200 {
            let Some(Message::Reply { result: Ok(Response::Data(body)), .. }) = zk.message().await
            else {
                panic!("no data")
            };
            assert_eq!(body.data.unwrap().len(), 900 * KB);
        }
        settle().await;
        drop(zk);
        settle().await;
        assert!(meter.grown() < 100 * KB, "{} bytes are left", meter.grown());
    });
}

#[test]
fn a_multi_read_response_is_limited_by_the_backlog() {
    alone(async {
        let mut meter = Meter::default();
        let server = TestServer::in_memory().await;
        let mut zk = RawClient::new(&server).await;
        node(&mut zk, "/large", MB / 2).await;
        let many = |reads| Request::MultiRead(vec![ReadOp::GetData(get_data("/large")); reads]);
        let Ok(Response::ReadResults(results)) = zk.call(many(31)).await else {
            panic!("no response")
        };
        assert_eq!(results.len(), 31);
        drop(results);
        meter.start();
        zk.send(many(33)).await;
        zk.closed().await;
        let mut zk = zk.reattach(&server).await.unwrap();
        // As much as a request can ask for.
        zk.send(many(40_000)).await;
        zk.closed().await;
        assert!(meter.grown() < 4 * MB, "{} bytes", meter.grown());
    });
}

#[test]
fn a_sessionless_connection_is_cheap_and_closed_in_time() {
    alone(async {
        const CONNECTIONS: usize = 1000;
        let mut meter = Meter::default();
        let server = TestServer::in_memory().await;
        meter.start();
        let mut silent = Vec::with_capacity(CONNECTIONS);
        for n in 0..CONNECTIONS {
            let mut stream = connect(&server).await;
            // Nothing, or a part of a word, or of the length, or of a frame as long as they may be.
            let part = [&b""[..], b"ruo", b"\0\0", b"\0\x0f\xff\xff\0\0\0\0\0\0\0\0"][n % 4];
            stream.write_all(part).await.unwrap();
            silent.push(stream);
        }
        settle().await;
        let each = meter.grown() / CONNECTIONS;
        assert!(each < 12 * KB, "{each} bytes each");
        let start = Instant::now();
        for mut stream in silent {
            assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
        }
        let after = start.elapsed();
        assert!(
            (Duration::from_secs(10)..Duration::from_millis(10_010)).contains(&after),
            "{after:?}"
        );
        settle().await;
        assert!(meter.grown() < 100 * KB, "{} bytes are left", meter.grown());
    });
}

#[test]
fn a_frame_that_never_ends_costs_no_more_than_the_longest() {
    alone(async {
        let mut meter = Meter::default();
        let server = TestServer::in_memory().await;
        let mut zk = RawClient::new(&server).await;
        meter.start();
        zk.write(&i32::try_from(DEFAULT_MAX_FRAME).unwrap().to_be_bytes()).await;
        // Nothing is allocated for the announced length.
        settle().await;
        assert!(meter.grown() < 100 * KB, "{} bytes", meter.grown());
        for _ in 0..DEFAULT_MAX_FRAME / (32 * KB) {
            zk.write(&[0; 32 * KB]).await;
            settle().await;
            meter.grown();
        }
        assert!(meter.most < 3 * DEFAULT_MAX_FRAME + 2 * NETWORK, "{} bytes at most", meter.most);
        // The session of a silent client expires.
        zk.closed().await;
        settle().await;
        assert!(meter.grown() < 100 * KB, "{} bytes are left", meter.grown());
    });
}

#[test]
fn a_client_that_does_not_read_cannot_keep_an_ended_connection() {
    alone(async {
        let mut meter = Meter::default();
        let server = TestServer::in_memory().await;
        let mut zk = RawClient::new(&server).await;
        node(&mut zk, "/large", 900 * KB).await;
        meter.start();
        zk.send(Request::GetData(get_data("/large"))).await;
        settle().await;
        assert!(server.expire(zk.id()).await);
        past(Duration::from_secs(11)).await;
        // Only the network's buffers are left of it.
        assert!(meter.grown() < NETWORK + 100 * KB, "{} bytes are left", meter.grown());
    });
}

#[test]
fn time_in_which_the_server_cannot_hear_does_not_count() {
    alone(async {
        let server = TestServer::in_memory().await;
        for blocked in [TestServer::hold, TestServer::partition] {
            let stream = connect(&server).await;
            blocked(&server);
            let (client, ()) = tokio::join!(RawClient::open(stream, new_session()), async {
                spend(Duration::from_secs(15)).await;
                server.release();
                server.heal();
            });
            client.expect("a session").ping().await;
        }
    });
}

#[test]
fn the_time_without_a_session_is_a_setting() {
    alone(async {
        let short = Duration::from_millis(500);
        let server = TestServer::builder().tcp(false).session_within(short).start().await.unwrap();
        let mut zk = RawClient::new(&server).await;
        let mut stream = connect(&server).await;
        let start = Instant::now();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
        assert!((short..short + Duration::from_millis(10)).contains(&start.elapsed()));
        zk.ping().await;
    });
}
