//! TLS of the server.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::server::TlsStream;

use crate::exit::CommandFailure;
use crate::private;

/// The certificate of the server, and its key.
#[derive(Clone)]
pub(crate) struct ServerTls(TlsAcceptor);

impl ServerTls {
    /// Reads the files, in PEM. Only the owner may read the one of the key.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self, CommandFailure> {
        private::check(key)?;
        let invalid = |path: &Path, error: &dyn fmt::Display| {
            CommandFailure::usage(format!("{}: {error}", path.display()))
        };
        let text = |path: &Path| std::fs::read(path).map_err(|error| invalid(path, &error));
        let (chain_text, key_text) = (text(certificate)?, text(key)?);
        let chain = CertificateDer::pem_slice_iter(&chain_text).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| invalid(certificate, &error))?;
        if chain.is_empty() {
            return Err(invalid(certificate, &"no certificate"));
        }
        let key_der = PrivateKeyDer::from_pem_slice(&key_text);
        let key_der = key_der.map_err(|error| invalid(key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| CommandFailure::usage(format!("TLS: {error}")))?
            .with_no_client_auth();
        let mut config = config.with_single_cert(chain, key_der).map_err(|error| {
            invalid(certificate, &error).hint("the key has to be that of the first certificate")
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}
