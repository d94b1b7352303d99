//! TLS through the framework, in front of the embedded server.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io, process};

use crate::certificates::{Authority, Identity};
use zk_curator::tls::{TlsConnector, TlsError, TlsErrorKind};
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_client::Connector;
use zk_curator_testing::{ServerTls, TestServer};
use zk_curator_tests::{builder_for, real_time};

const HERE: &str = "127.0.0.1";

/// A server that speaks TLS only, and where.
async fn serve(ca: &Authority) -> (TestServer, SocketAddr) {
    let Identity { certificate, key } = ca.server(&[HERE]);
    let tls = ServerTls::from_pem(certificate, key).unwrap();
    let server = TestServer::builder().tcp(false).tls(0, tls).start().await.unwrap();
    let addr = server.tls_addr().unwrap();
    (server, addr)
}

fn framework(addr: SocketAddr, trusted: &Authority, patience: Duration) -> CuratorFramework {
    let tls = TlsConnector::builder().ca_pem(trusted.pem.clone()).build().unwrap();
    let builder =
        builder_for(&addr.to_string()).connection_timeout(patience).connector(Arc::new(tls));
    builder.build().unwrap()
}

// ANCHOR: connect
async fn connect(servers: &str, folder: &Path) -> Result<CuratorFramework, Box<dyn Error>> {
    let tls = TlsConnector::builder()
        .ca_file(folder.join("ca.pem"))
        .client_certificate_file(folder.join("client.pem"), folder.join("client-key.pem"))
        .build()?;
    let zk = CuratorFramework::builder()
        .connect_string(servers) // "zk1:2281,zk2:2281"
        .connector(Arc::new(tls))
        .build()?;
    zk.start().await?;
    Ok(zk)
}
// ANCHOR_END: connect

/// The code of the guide.
#[test]
fn a_framework_presents_the_certificate_of_a_file() {
    real_time(async {
        let (ca, folder) = (Authority::new("ca"), format!("zk-curator-tls-{}", process::id()));
        let (client, folder) = (ca.client("orders"), env::temp_dir().join(folder));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ca.pem"), &ca.pem).unwrap();
        fs::write(folder.join("client.pem"), client.certificate).unwrap();
        fs::write(folder.join("client-key.pem"), client.key).unwrap();
        let Identity { certificate, key } = ca.server(&[HERE]);
        let tls = ServerTls::from_pem_with_client_ca(certificate, key, &ca.pem).unwrap();
        let server = TestServer::builder().tcp(false).tls(0, tls).start().await.unwrap();
        let zk = connect(&server.tls_addr().unwrap().to_string(), &folder).await.unwrap();
        zk.create("/a").await.unwrap();
        zk.close().await.unwrap();
        fs::remove_dir_all(folder).unwrap();
    });
}

/// An ensemble names the client ports without TLS.
#[test]
fn with_tls_the_tracker_does_not_move_to_plain_ports() {
    let tls: Arc<dyn Connector> =
        Arc::new(TlsConnector::builder().ca_pem(Authority::new("ca").pem).build().unwrap());
    let builder = || builder_for("zk1:2281").connector(Arc::clone(&tls));
    let error = builder().ensemble_tracker(true).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("ports of an ensemble are without TLS"), "{error}");
    builder().build().unwrap();
    builder().ensemble_tracker_addresses(|_| None).build().unwrap();
    builder_for("zk1:2181").ensemble_tracker(true).build().unwrap();
}

#[test]
fn a_framework_lives_over_tls() {
    real_time(async {
        let ca = Authority::new("ca");
        let (server, addr) = serve(&ca).await;
        let zk = framework(addr, &ca, Duration::from_secs(30));
        zk.start().await.unwrap();
        zk.create("/a/b").creating_parents().data("over TLS").await.unwrap();
        let (mut states, session) = (zk.states(), zk.session().unwrap().id);
        server.disconnect_all();
        let back = |state| matches!(state, ConnectionState::Reconnected { same_session: true });
        states.until(|status| back(status.state)).await.unwrap();
        assert_eq!(zk.get_data("/a/b").await.unwrap(), "over TLS");
        assert_eq!(zk.session().map(|now| now.id), Some(session));
        zk.close().await.unwrap();
    });
}

#[test]
fn a_certificate_problem_is_the_source_of_every_error() {
    real_time(async {
        let ca = Authority::new("ca");
        let (_server, addr) = serve(&ca).await;
        let zk = framework(addr, &Authority::new("other"), Duration::from_secs(2));
        assert!(zk.last_failure().is_none());
        let started = zk.start().await.unwrap_err();
        let read = zk.get_data("/a").await.unwrap_err();
        for error in [&started, &read] {
            assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
            let failure = error.cause().unwrap().downcast_ref::<io::Error>().unwrap();
            assert_eq!(
                TlsError::of(failure).map(TlsError::kind),
                Some(&TlsErrorKind::UnknownCa),
                "{failure}"
            );
        }
        assert!(!read.may_have_applied());
        assert_eq!(zk.last_failure().unwrap().to_string(), started.cause().unwrap().to_string());
        zk.close().await.unwrap();
    });
}
