//! TLS servers, for tests of clients with TLS (feature `tls`).

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The TLS configuration of a server: its certificate, and the client certificates it accepts; see
/// [`TestServerBuilder::tls`].
///
/// [`TestServerBuilder::tls`]: crate::TestServerBuilder::tls
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
}

/// The error of configuring TLS.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be configured with {what}")]
pub struct ServerTlsError {
    what: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl ServerTls {
    /// Creates a configuration from the certificate of the server, followed by those of
    /// intermediate CAs, and its key, both in PEM, possibly in one text. Offers TLS 1.2 and 1.3,
    /// and requests no client certificate.
    ///
    /// # Errors
    /// [`ServerTlsError`] if they cannot be read or do not match.
    pub fn from_pem(
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> Result<Self, ServerTlsError> {
        Self::new(certificate.as_ref(), key.as_ref(), None)
    }

    /// As [`ServerTls::from_pem`], but requires client certificates issued by one of these CAs
    /// (`ssl.clientAuth=need`).
    ///
    /// # Errors
    /// [`ServerTlsError`] if they cannot be read or do not match.
    pub fn from_pem_with_client_ca(
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
        client_ca: impl AsRef<[u8]>,
    ) -> Result<Self, ServerTlsError> {
        Self::new(certificate.as_ref(), key.as_ref(), Some(client_ca.as_ref()))
    }

    pub(crate) async fn accept(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        tokio_rustls::TlsAcceptor::from(self.config).accept(stream).await
    }

    fn new(
        certificate: &[u8],
        key: &[u8],
        client_ca: Option<&[u8]>,
    ) -> Result<Self, ServerTlsError> {
        // The process may have no default provider, or one that another crate chose.
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(wrong("its versions"))?;
        let config = match client_ca {
            None => config.with_no_client_auth(),
            Some(client_ca) => {
                let mut roots = RootCertStore::empty();
                for ca in certificates(client_ca).map_err(wrong("the CA of the clients"))? {
                    roots.add(ca).map_err(wrong("the CA of the clients"))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
                config.with_client_cert_verifier(verifier.map_err(wrong("the CA of the clients"))?)
            }
        };
        let chain = certificates(certificate).map_err(wrong("the certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(wrong("the key"))?;
        let config =
            config.with_single_cert(chain, key).map_err(wrong("the certificate and the key"))?;
        Ok(Self { config: config.into() })
    }
}

/// Takes any other configuration. Requires the same version of rustls as this crate.
impl From<Arc<ServerConfig>> for ServerTls {
    fn from(config: Arc<ServerConfig>) -> Self {
        Self { config }
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

fn wrong<E: Into<Box<dyn Error + Send + Sync>>>(
    what: &'static str,
) -> impl Fn(E) -> ServerTlsError {
    move |source| ServerTlsError { what, source: source.into() }
}

/// Returns all certificates; at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Box<dyn Error + Send + Sync>> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() { Err("there is no certificate in the PEM".into()) } else { Ok(found) }
}
