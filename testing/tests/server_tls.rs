//! Servers with TLS. The tests of the client cover how clients check certificates.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use crate::certificates::{Authority, Identity, pem};
use crate::common::{LONG, RawClient, new_session, refuses};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_curator_client::Connector;
use zk_curator_client::tls::TlsConnector;
use zk_curator_proto::records::CreateMode;
use zk_curator_testing::{ServerTls, TestCluster, TestServer};

const HERE: &str = "127.0.0.1";

fn server_tls(ca: &Authority) -> ServerTls {
    let Identity { certificate, key } = ca.server(&[HERE]);
    ServerTls::from_pem(certificate, key).unwrap()
}

async fn client(addr: SocketAddr, ca: &Authority) -> RawClient {
    let tls = TlsConnector::builder().ca_pem(ca.pem.clone()).build().unwrap();
    let stream = tls.connect(HERE, addr.port()).await.unwrap();
    RawClient::open(stream, new_session()).await.expect("a session")
}

#[tokio::test]
async fn a_server_serves_with_and_without_tls_over_restarts() {
    let ca = Authority::new("ca");
    let server = TestServer::builder().tls(0, server_tls(&ca)).start().await.unwrap();
    let (addr, plain) = (server.tls_addr().unwrap(), server.addr().unwrap());
    assert_eq!(server.tls_connect_string(), Some(addr.to_string()));
    for _ in 0..2 {
        let mut zk = client(addr, &ca).await;
        zk.create("/e", CreateMode::Ephemeral).await.unwrap();
        let mut other = RawClient::over_tcp(&plain.to_string()).await;
        assert_eq!(other.exists("/e", false).await.unwrap().ephemeral_owner, zk.id());
        server.expire(zk.id()).await;
        zk.closed().await;
        server.stop().await;
        refuses(addr).await;
        server.restart().await.unwrap();
        assert_eq!((server.tls_addr(), server.addr()), (Some(addr), Some(plain)));
    }
    let mut stream = TcpStream::connect(plain).await.unwrap();
    stream.write_all(b"conf").await.unwrap();
    let mut conf = String::new();
    stream.read_to_string(&mut conf).await.unwrap();
    assert!(
        conf.contains(&format!("clientPort={}\nsecureClientPort={}\n", plain.port(), addr.port())),
        "{conf}"
    );
}

#[tokio::test]
async fn members_of_a_cluster_have_ports_of_their_own() {
    let ca = Authority::new("ca");
    let settings = TestServer::builder().tcp(false).tls(0, server_tls(&ca));
    let cluster = TestCluster::builder(3).settings(settings).tcp(false).start().await.unwrap();
    let mut sessions = Vec::new();
    for server in cluster.members() {
        assert_eq!(server.addr(), None);
        sessions.push(client(server.tls_addr().unwrap(), &ca).await.id());
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 3);
}

#[tokio::test]
async fn a_client_that_never_says_hello_is_closed_in_time() {
    let ca = Authority::new("ca");
    let builder = TestServer::builder().tcp(false).session_within(Duration::from_millis(50));
    let server = builder.tls(0, server_tls(&ca)).start().await.unwrap();
    let mut silent = TcpStream::connect(server.tls_addr().unwrap()).await.unwrap();
    let end = tokio::time::timeout(LONG, silent.read(&mut [0; 1])).await.expect("an end in time");
    assert_eq!(end.unwrap_or(0), 0);
}

#[tokio::test]
async fn unusable_settings_are_reported() {
    let (ca, other) = (Authority::new("ca"), Authority::new("other"));
    let Identity { certificate, key } = ca.server(&[HERE]);
    let foreign = other.server(&[HERE]).key;
    for (certificate, key, client_ca, part) in [
        ("", &key, None, "the certificate"),
        (&*pem("CERTIFICATE", b"nothing"), &key, None, "the certificate and the key"),
        (&*certificate, &foreign, None, "the certificate and the key"),
        (&*certificate, &certificate, None, "the key"),
        (&*certificate, &key, Some(""), "the CA of the clients"),
        (&*certificate, &key, Some(&*key), "the CA of the clients"),
    ] {
        let tls = match client_ca {
            None => ServerTls::from_pem(certificate, key),
            Some(client_ca) => ServerTls::from_pem_with_client_ca(certificate, key, client_ca),
        };
        let error = tls.unwrap_err();
        assert_eq!(error.to_string(), format!("TLS cannot be configured with {part}"));
        assert!(error.source().is_some());
    }
    let tls = ServerTls::from_pem_with_client_ca(&certificate, &key, &other.pem).unwrap();
    assert_eq!(format!("{tls:?}"), "ServerTls { .. }");
}
