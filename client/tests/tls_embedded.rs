//! TLS with the embedded server.
#![expect(clippy::unwrap_used, reason = "all of it is for tests")]

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::certificates::{Authority, Identity};
use crate::common::REAL_LIMIT;
use crate::tls_peers::{config, listen, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use zk_curator_client::tls::{TlsConnector, TlsConnectorBuilder, TlsError, TlsErrorKind};
use zk_curator_client::{
    Acl, Connector, CreateMode, DisconnectedPolicy, Error, EventType, SessionState, Transport,
    ZooKeeper,
};
use zk_curator_real::TempDir;
use zk_curator_testing::{TestServer, wait};

const HERE: &str = "127.0.0.1";

/// Limits the time of a test.
async fn within<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(REAL_LIMIT, test).await.expect("the test takes too long")
}

fn trusting(ca: &Authority) -> TlsConnectorBuilder {
    TlsConnector::builder().ca_pem(ca.pem.clone())
}

fn client(addr: SocketAddr, tls: TlsConnectorBuilder) -> ZooKeeper {
    ZooKeeper::builder(addr.to_string())
        .connector(Arc::new(tls.build().unwrap()))
        .connect()
        .unwrap()
}

async fn connect(addr: SocketAddr, tls: TlsConnectorBuilder) -> io::Result<Box<dyn Transport>> {
    tls.build().unwrap().connect(HERE, addr.port()).await
}

/// Returns the error of a connection that must fail.
async fn refusal(addr: SocketAddr, tls: TlsConnectorBuilder) -> TlsErrorKind {
    let Err(error) = connect(addr, tls).await else { panic!("connected") };
    let error = TlsError::of(&error).unwrap_or_else(|| panic!("{error}"));
    assert_eq!((error.host(), error.port()), (HERE, addr.port()));
    assert!(error.to_string().contains(HERE), "{error}");
    error.kind().clone()
}

#[tokio::test]
async fn a_session_lives_over_every_version() {
    within(async {
        let ca = Authority::new("ca");
        for version in [&TLS12, &TLS13] {
            let (server, addr) = serve(config(&ca.server(&[HERE]), None, &[version])).await;
            let zk = client(addr, trusting(&ca));
            let session = zk.connected().await.unwrap();
            let large = vec![7; 900_000];
            zk.create("/a", &large, &Acl::open_unsafe(), CreateMode::Persistent).await.unwrap();
            let answers: Vec<_> = (0..100).map(|_| zk.get_data("/a")).collect();
            for answer in answers {
                assert_eq!(answer.await.unwrap().data, large);
            }
            let (_, watch) = zk.exists_watched("/b").await.unwrap();
            let mut states = zk.states();
            server.disconnect_all();
            while states.next().await != Some(SessionState::Disconnected) {}
            zk.create("/b", b"", &Acl::open_unsafe(), CreateMode::Persistent).await.unwrap();
            assert_eq!(watch.await.unwrap().event_type, EventType::NodeCreated);
            assert_eq!(zk.session().map(|now| now.id), Some(session.id));
            zk.close().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn errors_of_wrong_certificates_differ() {
    within(async {
        let ca = Authority::new("ca");
        let (server, addr) = serve(config(&ca.server(&["zk.example"]), None, &[&TLS13])).await;
        let present =
            |identity: Identity| server.set_tls(config(&identity, None, &[&TLS13]).into());
        match refusal(addr, trusting(&ca)).await {
            TlsErrorKind::WrongHost { presented } => {
                assert!(presented.iter().any(|name| name.contains("zk.example")), "{presented:?}");
            }
            other => panic!("{other}"),
        }
        connect(addr, trusting(&ca).server_name("zk.example")).await.unwrap();
        connect(addr, trusting(&ca).danger_accept_any_host_name()).await.unwrap();

        present(ca.expired(&[HERE]));
        assert_eq!(refusal(addr, trusting(&ca)).await, TlsErrorKind::Expired);
        assert_eq!(
            refusal(addr, trusting(&ca).danger_accept_any_host_name()).await,
            TlsErrorKind::Expired
        );
        present(ca.early(&[HERE]));
        assert_eq!(refusal(addr, trusting(&ca)).await, TlsErrorKind::NotYetValid);

        present(ca.server(&[HERE]));
        let other = Authority::new("other");
        assert_eq!(refusal(addr, trusting(&other)).await, TlsErrorKind::UnknownCa);
        let dangerous = trusting(&other).danger_accept_any_host_name();
        assert_eq!(refusal(addr, dangerous).await, TlsErrorKind::UnknownCa);
        // A CA of the same name with another key: the signature is invalid.
        let namesake = Authority::new("ca");
        assert_eq!(refusal(addr, trusting(&namesake)).await, TlsErrorKind::InvalidCertificate);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_it_or_says_so() {
    within(async {
        let (ca, clients) = (Authority::new("ca"), Authority::new("clients"));
        for version in [&TLS12, &TLS13] {
            let (_server, addr) =
                serve(config(&ca.server(&[HERE]), Some(&clients), &[version])).await;
            let worker = clients.client("worker");
            let zk =
                client(addr, trusting(&ca).client_certificate_pem(worker.certificate, worker.key));
            zk.connected().await.unwrap();
            zk.close().await.unwrap();

            let zk = client(addr, trusting(&ca));
            let failure = wait::until_some(async || zk.last_failure()).await;
            let kind = TlsError::of(&failure).map(TlsError::kind);
            assert_eq!(kind, Some(&TlsErrorKind::Refused), "{failure}");
        }
    })
    .await;
}

/// Waits until the connection is lost and another one is open.
async fn reconnect(server: &TestServer, zk: &ZooKeeper) {
    let mut states = zk.states();
    server.disconnect_all();
    while states.next().await != Some(SessionState::Disconnected) {}
    while !matches!(states.next().await.unwrap(), SessionState::Connected(_)) {}
}

#[tokio::test]
async fn replaced_certificates_are_used_from_the_next_connection_on() {
    within(async {
        let directory = TempDir::new("zk-curator-rotated").unwrap();
        let file = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(file(name), text).unwrap();
        // Everything is replaced: the CA of the server and the CA of the clients.
        let generation = || {
            let (ca, clients) = (Authority::new("ca"), Authority::new("clients"));
            let config = config(&ca.server(&[HERE]), Some(&clients), &[&TLS13]);
            (ca, clients.client("worker"), config)
        };
        let (ca, worker, old) = generation();
        write("ca.pem", &ca.pem);
        write("worker.pem", &worker.certificate);
        write("worker.key", &worker.key);
        let (server, addr) = serve(old).await;
        let tls = TlsConnector::builder()
            .ca_file(file("ca.pem"))
            .client_certificate_file(file("worker.pem"), file("worker.key"));
        let zk = client(addr, tls);
        let session = zk.connected().await.unwrap();

        let (ca, worker, new) = generation();
        server.set_tls(new.into());
        write("ca.pem", &ca.pem);
        write("worker.pem", &worker.certificate);
        // Half of a change has no effect, and this server refuses the old files.
        let mut states = zk.states();
        server.disconnect_all();
        while states.next().await != Some(SessionState::Disconnected) {}
        let failure = wait::until_some(async || {
            let failure = zk.last_failure()?;
            TlsError::of(&failure).map(|error| error.kind().clone())
        })
        .await;
        assert!(
            matches!(failure, TlsErrorKind::UnknownCa | TlsErrorKind::InvalidCertificate),
            "{failure}"
        );
        write("worker.key", &worker.key);
        while !matches!(states.next().await.unwrap(), SessionState::Connected(_)) {}
        assert_eq!(zk.session().map(|now| now.id), Some(session.id));

        // Invalid files and missing files do no harm.
        write("worker.key", &ca.client("other").key);
        reconnect(&server, &zk).await;
        write("ca.pem", "");
        reconnect(&server, &zk).await;
        std::fs::remove_dir_all(directory.path()).unwrap();
        reconnect(&server, &zk).await;
        assert_eq!(zk.session().map(|now| now.id), Some(session.id));
        zk.close().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn errors_of_servers_without_tls_differ() {
    within(async {
        let ca = Authority::new("ca");
        let http = listen(async |mut stream: TcpStream| {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        });
        assert_eq!(refusal(http.await, trusting(&ca)).await, TlsErrorKind::NotTls);
        let closing = listen(async |mut stream: TcpStream| drop(stream.read_u8().await));
        assert_eq!(refusal(closing.await, trusting(&ca)).await, TlsErrorKind::Closed);
        let server = TestServer::start().await;
        let addr = server.addr().unwrap();
        assert_eq!(refusal(addr, trusting(&ca)).await, TlsErrorKind::Closed);

        let zk = ZooKeeper::builder(addr.to_string())
            .connector(Arc::new(trusting(&ca).build().unwrap()))
            .disconnected(DisconnectedPolicy::Wait(Duration::from_millis(300)))
            .connect()
            .unwrap();
        assert_eq!(zk.exists("/").await, Err(Error::NotConnected));
        assert_eq!(zk.state(), SessionState::Connecting);
        let failure = zk.last_failure().unwrap();
        assert_eq!(TlsError::of(&failure).map(TlsError::kind), Some(&TlsErrorKind::Closed));
    })
    .await;
}

#[tokio::test]
async fn error_of_a_client_without_tls_says_that_the_server_has_it() {
    within(async {
        let ca = Authority::new("ca");
        let (_server, addr) = serve(config(&ca.server(&[HERE]), None, &[&TLS12, &TLS13])).await;
        let zk = ZooKeeper::builder(addr.to_string())
            .disconnected(DisconnectedPolicy::Wait(Duration::from_millis(300)))
            .connect()
            .unwrap();
        assert_eq!(zk.exists("/").await, Err(Error::NotConnected));
        let failure = zk.last_failure().unwrap().to_string();
        assert!(failure.ends_with(": the server speaks TLS on this port"), "{failure}");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_never_responds_costs_one_attempt() {
    within(async {
        let ca = Authority::new("ca");
        let silent = listen(async |stream: TcpStream| {
            std::future::pending::<()>().await;
            drop(stream);
        })
        .await;
        let (_server, good) = serve(config(&ca.server(&[HERE]), None, &[&TLS13])).await;
        // Whichever address is tried first, both have a second.
        for seed in 0..4 {
            let zk = ZooKeeper::builder(format!("{silent},{good}"))
                .seed(seed)
                .session_timeout(Duration::from_millis(1000))
                .connector(Arc::new(trusting(&ca).build().unwrap()))
                .connect()
                .unwrap();
            zk.connected().await.unwrap();
            if let Some(failure) = zk.last_failure() {
                assert_eq!(failure.to_string(), "no response to the connection attempt");
            }
            zk.close().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn the_end_is_announced() {
    within(async {
        let ca = Authority::new("ca");
        let acceptor = TlsAcceptor::from(config(&ca.server(&[HERE]), None, &[&TLS13]));
        let (ends, mut ended) = mpsc::unbounded_channel();
        let addr = listen(move |stream| {
            let (acceptor, ends) = (acceptor.clone(), ends.clone());
            async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let mut read = Vec::new();
                // Without close_notify it fails with `UnexpectedEof`.
                let end = stream.read_to_end(&mut read).await.map(|_| read);
                ends.send(end).unwrap();
            }
        })
        .await;
        let mut transport = connect(addr, trusting(&ca)).await.unwrap();
        transport.write_all(b"last words").await.unwrap();
        drop(transport);
        assert_eq!(ended.recv().await.unwrap().unwrap(), b"last words");
    })
    .await;
}
