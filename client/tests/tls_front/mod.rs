//! TLS in front of a server that has none. Beside `certificates`, in the test that uses it.

#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "every test binary uses another part of it, and all of it is for tests"
)]

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use zk_curator_testing::TestServer;

use crate::certificates::{Authority, Identity};

/// A listener that is served by `serve`, one connection after the other or several at once.
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

pub(crate) fn acceptor(
    identity: &Identity,
    client_ca: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions).unwrap();
    let config = match client_ca {
        None => config.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()).unwrap();
            config.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap(),
            )
        }
    };
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    Arc::new(config.with_single_cert(vec![certificate], key).unwrap()).into()
}

/// TLS in front of `server`.
pub(crate) async fn front(server: &TestServer, acceptor: TlsAcceptor) -> SocketAddr {
    front_with(server, Arc::new(Mutex::new(acceptor))).await
}

/// The same with what can be replaced.
pub(crate) async fn front_with(server: &TestServer, acceptor: Arc<Mutex<TlsAcceptor>>) -> SocketAddr {
    let behind = server.addr().unwrap();
    listen(move |stream| {
        let acceptor = acceptor.lock().unwrap().clone();
        async move {
            // A client that refuses the certificate is none of our business, nor is how the connection ends.
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut plain = TcpStream::connect(behind).await.unwrap();
            drop(copy_bidirectional(&mut stream, &mut plain).await);
        }
    })
    .await
}
