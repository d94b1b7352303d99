//! The client against Apache ZooKeeper.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::{
    Network, create, history, id, is_connected, open, real_time, start, suite, until,
};
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Instant;
use zk_curator_client::{
    Acl, Connector, CreateMode, Error, ErrorCode, EventType, ExpiredBy, SessionState, TcpConnector,
    Transport, WatchEnded, ZooKeeper, ZooKeeperBuilder,
};
use zk_curator_proto::records::{ConnectRequest, ConnectResponse, RequestHeader};
use zk_curator_proto::{Decoder, OpCode, Record, frame};
use zk_curator_real::{self as real, Chroot, RealZooKeeper};

fn builder(server: &RealZooKeeper) -> ZooKeeperBuilder {
    ZooKeeper::builder(server.connect_string()).session_timeout(Duration::from_secs(20))
}

/// A client of a server that other tests use, too.
fn in_chroot(chroot: &Chroot) -> ZooKeeperBuilder {
    ZooKeeper::builder(chroot.connect_string()).session_timeout(Duration::from_secs(20))
}

/// Suspends or resumes the server.
fn signal(server: &RealZooKeeper, signal: &str) {
    let command = format!("kill -{signal} {}", server.process_id().expect("a server that runs"));
    let status = std::process::Command::new("sh").args(["-c", &command]).status().expect("a shell");
    assert!(status.success());
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn session_watches_and_identities_survive_a_killed_server() {
    real_time(async {
        let name = "session_watches_and_identities_survive_a_killed_server";
        let Some(mut server) = real::or_skip(name).await else { return };
        let network = Network::tcp();
        let zk = start(builder(&server).connector(network.connector())).await;
        let session = id(&zk);
        zk.add_auth("digest", b"user:secret").await.unwrap();
        zk.create("/mine", b"", &Acl::creator_all(), CreateMode::Persistent).await.unwrap();
        zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        for path in ["/changed", "/later"] {
            create(&zk, path).await.unwrap();
        }
        let (_, changed) = zk.get_data_watched("/changed").await.unwrap();
        let (_, created) = zk.exists_watched("/created").await.unwrap();
        let (_, later) = zk.get_children_watched("/later").await.unwrap();
        // Watches on this node are refused without the identity.
        let (_, mine) = zk.get_data_watched("/mine").await.unwrap();

        let mut states = zk.states();
        network.down();
        server.kill().await.unwrap();
        until(&mut states, |state| state == SessionState::Disconnected).await;
        let waiting = zk.set_data("/mine", b"2", None);
        server.restart().await.unwrap();
        let other = start(builder(&server)).await;
        assert_eq!(other.get_data("/mine").await, Err(Error::Refused(ErrorCode::NoAuth)));
        other.set_data("/changed", b"2", None).await.unwrap();
        create(&other, "/created").await.unwrap();
        network.up();

        assert_eq!(changed.await.unwrap().event_type, EventType::NodeDataChanged);
        assert_eq!(created.await.unwrap().event_type, EventType::NodeCreated);
        waiting.await.unwrap();
        assert_eq!(mine.await.unwrap().event_type, EventType::NodeDataChanged);
        create(&other, "/later/x").await.unwrap();
        assert_eq!(later.await.unwrap().event_type, EventType::NodeChildrenChanged);
        assert_eq!(id(&zk), session);

        let (_, ended) = other.exists_watched("/e").await.unwrap();
        drop(zk);
        assert_eq!(ended.await.unwrap().event_type, EventType::NodeDeleted);
        other.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn two_thousand_watches_on_long_paths_survive_a_killed_server() {
    real_time(async {
        let name = "two_thousand_watches_on_long_paths_survive_a_killed_server";
        let Some(mut server) = real::or_skip(name).await else { return };
        let zk = start(builder(&server)).await;
        let other = start(builder(&server)).await;
        suite::two_thousand_watches_on_long_paths_survive(&zk, &other, async |zk| {
            let mut states = zk.states();
            server.restart().await.unwrap();
            until(&mut states, |state| state == SessionState::Disconnected).await;
            until(&mut states, is_connected).await;
            zk.sync("/").await.unwrap();
            assert!(server.four_letter_word("wchs").await.unwrap().contains("Total watches:2000"));
        })
        .await;
        other.close().await.unwrap();
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_suspended_server_is_connection_loss_and_the_session_lives() {
    real_time(async {
        let name = "a_suspended_server_is_connection_loss_and_the_session_lives";
        let Some(server) = real::or_skip(name).await else { return };
        let timeout = Duration::from_secs(6);
        let zk = start(builder(&server).session_timeout(timeout)).await;
        let session = id(&zk);
        signal(&server, "STOP");
        let error = create(&zk, "/a").await.unwrap_err();
        signal(&server, "CONT");
        assert_eq!(error, Error::ConnectionLoss { sent: true });
        // The server may still apply the request, now or after those of the new connection. Or it
        // never reads it: it closes the old connection of a session that is resumed.
        create(&zk, "/b").await.unwrap();
        assert_eq!(id(&zk), session);
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_session_ends_at_its_timeout_when_the_server_stays_away() {
    real_time(async {
        let name = "the_session_ends_at_its_timeout_when_the_server_stays_away";
        let Some(mut server) = real::or_skip(name).await else { return };
        let timeout = Duration::from_secs(4);
        let network = Network::tcp();
        let zk =
            start(builder(&server).session_timeout(timeout).connector(network.connector())).await;
        let (_, watch) = zk.exists_watched("/a").await.unwrap();
        let before = Instant::now();
        zk.sync("/").await.unwrap();
        server.kill().await.unwrap();
        let states = history(zk.states()).await;
        assert_eq!(states.last(), Some(&SessionState::Expired(ExpiredBy::Clock)));
        assert!(before.elapsed() >= timeout, "{:?}", before.elapsed());
        assert_eq!(watch.await, Err(WatchEnded::SessionLost));
        assert!(network.attempts() < 15, "{} attempts", network.attempts());
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_session_that_the_server_ended_is_expired() {
    real_time(async {
        let name = "a_session_that_the_server_ended_is_expired";
        let Some(server) = real::chroot_or_skip(name).await else { return };
        let tap = Tap::default();
        let network = Network::new(tap.clone());
        let zk = start(in_chroot(&server).connector(network.connector())).await;
        zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        let states = zk.states();
        // Otherwise the client would resume the session before it is closed.
        network.down();
        tap.close_session(server.addr()).await;
        network.up();
        let states = history(states).await;
        assert_eq!(
            states[1..],
            [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Server)],
            "{states:?}"
        );
        assert_eq!(create(&zk, "/a").await, Err(Error::SessionExpired { sent: false }));
        let other = start(in_chroot(&server)).await;
        assert_eq!(other.exists("/e").await.unwrap(), None);
        other.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn refused_credentials_end_the_client() {
    real_time(async {
        let name = "refused_credentials_end_the_client";
        let Some(server) = real::chroot_or_skip(name).await else { return };
        let zk = start(in_chroot(&server)).await;
        // The client writes all the time.
        let writes: Vec<_> = (0..100).map(|_| zk.sync("/")).collect();
        assert_eq!(zk.add_auth("nobody-knows", b"x").await, Err(Error::AuthFailed { sent: false }));
        assert_eq!(zk.state(), SessionState::AuthFailed);
        drop(writes);
    });
}

/// TCP with a buffer from which the server's first bytes can be read again.
#[derive(Debug, Clone, Default)]
struct Tap {
    read: Arc<Mutex<Vec<u8>>>,
}

struct Tapped {
    inner: Box<dyn Transport>,
    read: Arc<Mutex<Vec<u8>>>,
}

impl Tap {
    /// Resumes the session, which requires its password, and closes it.
    async fn close_session(&self, server: SocketAddr) {
        let mut read = BytesMut::from(&self.read.lock().expect("no panic")[..]);
        let body = frame::take(&mut read, usize::MAX).expect("a frame").expect("all of it");
        let session =
            ConnectResponse::decode(&mut Decoder::new(body), "response").expect("a response");
        let request = ConnectRequest {
            timeout: session.timeout,
            session_id: session.session_id,
            password: session.password,
            ..ConnectRequest::default()
        };
        let mut stream = tokio::net::TcpStream::connect(server).await.expect("a server");
        let mut out = BytesMut::new();
        frame::put(&mut out, |out| request.encode(out));
        frame::put(&mut out, |out| {
            RequestHeader { xid: 1, opcode: OpCode::CloseSession.code() }.encode(out);
        });
        stream.write_all(&out).await.expect("a server");
        stream.read_to_end(&mut Vec::new()).await.expect("a server");
    }
}

#[async_trait::async_trait]
impl Connector for Tap {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let inner = TcpConnector::default().connect(host, port).await?;
        Ok(Box::new(Tapped { inner, read: Arc::clone(&self.read) }))
    }
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.read.lock().expect("no panic").extend_from_slice(&buf.filled()[before..]);
        result
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
