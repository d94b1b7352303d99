//! Servers that speak TLS, and others. Used next to `certificates`.

#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "every test binary uses another part of it, and all of it is for tests"
)]

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use zk_curator_testing::TestServer;

use crate::certificates::{Authority, Identity};

/// Returns the address of a listener whose connections `serve` handles, one after another or
/// concurrently.
pub(crate) async fn listen<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream));
        }
    });
    addr
}

/// Returns the configuration of a server that speaks TLS as `identity`, and requires client
/// certificates of `client_ca`.
pub(crate) fn config(
    identity: &Identity,
    client_ca: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .unwrap();
    let config = match client_ca {
        None => config.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()).unwrap();
            config.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .build()
                    .unwrap(),
            )
        }
    };
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    Arc::new(config.with_single_cert(vec![certificate], key).unwrap())
}

/// Returns a server that speaks only TLS, and its address.
pub(crate) async fn serve(config: Arc<ServerConfig>) -> (TestServer, SocketAddr) {
    let server = TestServer::builder().tcp(false).tls(0, config.into()).start().await.unwrap();
    let addr = server.tls_addr().unwrap();
    (server, addr)
}
