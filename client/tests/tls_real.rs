//! TLS to Apache ZooKeeper, with certificates of our own.
#![expect(clippy::unwrap_used, reason = "all of it is for tests")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::certificates::{Authority, Identity};
use crate::common::{id, open, real_time, start};
use tokio::net::TcpStream;
use zk_curator_client::tls::{TlsConnector, TlsConnectorBuilder, TlsError, TlsErrorKind};
use zk_curator_client::{
    Acl, Connector, CreateMode, DisconnectedPolicy, Error, ErrorCode, EventType, Permissions,
    SessionState, Transport, ZooKeeper, ZooKeeperBuilder,
};
use zk_curator_real::{self as real, RealZooKeeper, RealZooKeeperBuilder, TempDir};
use zk_curator_testing::wait;

const HERE: &str = "127.0.0.1";

/// A server with a TLS port in addition to the plain one.
struct Secure {
    server: RealZooKeeper,
    ca: Authority,
    port: u16,
    _directory: TempDir,
}

impl Secure {
    /// Starts a server with a certificate for `hosts`; `client_auth` is ZooKeeper's setting.
    /// Returns `None` without Java.
    async fn start(test: &str, hosts: &[&str], client_auth: &str) -> Option<Self> {
        if !real::runs(test, RealZooKeeper::available()) {
            return None;
        }
        let ca = Authority::new("zk-curator test CA");
        let directory = TempDir::new(&format!("zk-curator-tls-{test}")).unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let keys = file("server.pem", &ca.server(hosts).pem());
        let trusted = file("ca.pem", &ca.pem);
        let port = real::free_port().unwrap();
        let builder = secure(&keys, &trusted, port).setting("ssl.clientAuth", client_auth);
        let server = real::or_skip_with(test, builder).await?;
        // The server counts as started when it serves the plain port, which it opens first.
        wait::until(async || TcpStream::connect((HERE, port)).await.is_ok()).await;
        Some(Self { server, ca, port, _directory: directory })
    }

    fn trusting(&self) -> TlsConnectorBuilder {
        TlsConnector::builder().ca_pem(self.ca.pem.clone())
    }

    fn client(&self, tls: TlsConnectorBuilder) -> ZooKeeperBuilder {
        ZooKeeper::builder(format!("{HERE}:{}", self.port))
            .connector(Arc::new(tls.build().unwrap()))
    }

    async fn refusal(&self, tls: TlsConnectorBuilder) -> TlsErrorKind {
        refusal(self.port, tls).await
    }
}

fn secure(keys: &Path, trusted: &Path, port: u16) -> RealZooKeeperBuilder {
    RealZooKeeper::builder()
        .setting("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
        .setting("secureClientPort", port)
        .setting("secureClientPortAddress", HERE)
        .setting("ssl.keyStore.location", keys.display())
        .setting("ssl.keyStore.type", "PEM")
        .setting("ssl.trustStore.location", trusted.display())
        .setting("ssl.trustStore.type", "PEM")
        .setting("authProvider.x509", "org.apache.zookeeper.server.auth.X509AuthenticationProvider")
}

async fn connect(port: u16, tls: TlsConnectorBuilder) -> io::Result<Box<dyn Transport>> {
    tls.build().unwrap().connect(HERE, port).await
}

/// Returns the error of a connection that must fail.
async fn refusal(port: u16, tls: TlsConnectorBuilder) -> TlsErrorKind {
    let Err(error) = connect(port, tls).await else { panic!("connected") };
    TlsError::of(&error).unwrap_or_else(|| panic!("{error}")).kind().clone()
}

fn identified(tls: TlsConnectorBuilder, identity: Identity) -> TlsConnectorBuilder {
    tls.client_certificate_pem(identity.certificate, identity.key)
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn sessions_live_over_tls_and_survive_a_restart() {
    real_time(async {
        let test = "sessions_live_over_tls_and_survive_a_restart";
        let Some(mut secure) = Secure::start(test, &[HERE], "none").await else { return };
        let zk =
            start(secure.client(secure.trusting()).session_timeout(Duration::from_secs(20))).await;
        let session = id(&zk);
        let large = vec![7; 1_000_000];
        zk.create("/a", &large, &open(), CreateMode::Persistent).await.unwrap();
        let answers: Vec<_> = (0..20).map(|_| zk.get_data("/a")).collect();
        for answer in answers {
            assert_eq!(answer.await.unwrap().data, large);
        }
        let (_, watch) = zk.exists_watched("/b").await.unwrap();

        let mut states = zk.states();
        secure.server.kill().await.unwrap();
        while states.next().await != Some(SessionState::Disconnected) {}
        secure.server.restart().await.unwrap();
        zk.create("/b", b"", &open(), CreateMode::Persistent).await.unwrap();
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeCreated);
        assert_eq!(id(&zk), session);
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_certificate_of_the_client_is_its_identity() {
    real_time(async {
        let test = "the_certificate_of_the_client_is_its_identity";
        let Some(secure) = Secure::start(test, &[HERE], "need").await else { return };
        let worker = || identified(secure.trusting(), secure.ca.client("worker"));
        let other = identified(secure.trusting(), secure.ca.client("other"));
        let zk = start(secure.client(worker())).await;
        let mine = [Acl::new(Permissions::ALL, "x509", "CN=worker")];
        zk.create("/mine", b"", &mine, CreateMode::Persistent).await.unwrap();

        let other = start(secure.client(other)).await;
        assert_eq!(other.get_data("/mine").await, Err(Error::Refused(ErrorCode::NoAuth)));
        let plain = start(ZooKeeper::builder(secure.server.connect_string())).await;
        assert_eq!(plain.get_data("/mine").await, Err(Error::Refused(ErrorCode::NoAuth)));
        // Another connection, with another certificate of the same name.
        let again = start(secure.client(worker())).await;
        again.get_data("/mine").await.unwrap();

        // Without a certificate, and with a certificate of another CA.
        let stranger = identified(secure.trusting(), Authority::new("other CA").client("worker"));
        for tls in [secure.trusting(), stranger] {
            let zk = secure
                .client(tls)
                .disconnected(DisconnectedPolicy::Wait(Duration::from_secs(1)))
                .connect()
                .unwrap();
            assert_eq!(zk.get_data("/mine").await, Err(Error::NotConnected));
            let failure = zk.last_failure().unwrap();
            assert_eq!(
                TlsError::of(&failure).map(TlsError::kind),
                Some(&TlsErrorKind::Refused),
                "{failure}"
            );
        }
        for zk in [zk, other, plain, again] {
            zk.close().await.unwrap();
        }
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn certificates_that_do_not_fit_are_refused() {
    real_time(async {
        let test = "certificates_that_do_not_fit_are_refused";
        let Some(secure) = Secure::start(test, &["zk.example"], "none").await else { return };
        let stranger = Authority::new("other CA");
        let unknown = TlsConnector::builder().ca_pem(stranger.pem.clone());
        assert_eq!(secure.refusal(unknown).await, TlsErrorKind::UnknownCa);
        let kind = secure.refusal(secure.trusting()).await;
        assert!(matches!(kind, TlsErrorKind::WrongHost { .. }), "{kind}");

        let zk = secure
            .client(secure.trusting())
            .disconnected(DisconnectedPolicy::Wait(Duration::from_secs(1)))
            .connect()
            .unwrap();
        assert_eq!(zk.exists("/").await, Err(Error::NotConnected));
        assert_eq!(zk.state(), SessionState::Connecting);

        let (named, any) = (
            secure.trusting().server_name("zk.example"),
            secure.trusting().danger_accept_any_host_name(),
        );
        for tls in [named, any] {
            let zk = start(secure.client(tls)).await;
            assert!(zk.exists("/").await.unwrap().is_some());
            zk.close().await.unwrap();
        }
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_wrong_port_is_an_error_and_no_hang() {
    real_time(async {
        let test = "the_wrong_port_is_an_error_and_no_hang";
        let Some(secure) = Secure::start(test, &[HERE], "none").await else { return };
        let plain_port = secure.server.addr().port();
        assert_eq!(refusal(plain_port, secure.trusting()).await, TlsErrorKind::Closed);

        let patience = DisconnectedPolicy::Wait(Duration::from_secs(1));
        let plain_client = ZooKeeper::builder(format!("{HERE}:{}", secure.port));
        let zk = plain_client.disconnected(patience).connect().unwrap();
        assert_eq!(zk.exists("/").await, Err(Error::NotConnected));
        assert!(zk.last_failure().is_some());
        zk.close().await.unwrap();
    });
}

/// The classic network layer of ZooKeeper, without Netty.
#[test]
#[ignore = "slow: scripts/test-all"]
fn a_server_without_tls_is_an_error_and_no_hang() {
    real_time(async {
        let test = "a_server_without_tls_is_an_error_and_no_hang";
        let Some(server) = real::chroot_or_skip(test).await else { return };
        let tls = TlsConnector::builder().ca_pem(Authority::new("ca").pem);
        assert_eq!(refusal(server.addr().port(), tls).await, TlsErrorKind::Closed);
    });
}
