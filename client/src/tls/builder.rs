use std::path::PathBuf;

use tokio_rustls::rustls::pki_types::ServerName;

use super::certificates::{Certificates, Pem};
use super::{TlsConfigError, TlsConnector};

/// Settings of a [`TlsConnector`].
#[derive(Debug, Default)]
#[must_use]
pub struct TlsConnectorBuilder {
    certificates: Certificates,
    server_name: Option<String>,
}

impl TlsConnector {
    /// Returns a builder. At least one CA is required.
    pub fn builder() -> TlsConnectorBuilder {
        TlsConnectorBuilder::default()
    }
}

impl TlsConnectorBuilder {
    /// Adds a file with the certificates, in PEM, of one or more CAs that may issue the servers'
    /// certificates. To trust the CAs that the machine trusts, name the machine's file, such as
    /// `/etc/ssl/certs/ca-certificates.crt`.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificates.cas.push(Pem::File(path.into()));
        self
    }

    /// Does the same as [`TlsConnectorBuilder::ca_file`], with the PEM text.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.cas.push(Pem::Bytes(pem.into()));
        self
    }

    /// Sets the files with the certificate of this client and its key, in PEM. The first contains
    /// the client's own certificate and then those of intermediate CAs, the second the key (PKCS
    /// #8, PKCS #1 or SEC 1). One file may contain both. Default: none.
    pub fn client_certificate_file(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.certificates.identity = Some((Pem::File(certificate.into()), Pem::File(key.into())));
        self
    }

    /// Does the same as [`TlsConnectorBuilder::client_certificate_file`], with the PEM texts.
    pub fn client_certificate_pem(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.identity = Some((Pem::Bytes(certificate.into()), Pem::Bytes(key.into())));
        self
    }

    /// Sets the name or address that the certificate of every server must be for. Default: the host
    /// of the connect string.
    ///
    /// Use it for servers that share one certificate, or whose certificates do not contain the
    /// names in the connect string.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// **Dangerous.** Accepts a certificate of a known CA for any host. Then every owner of *any*
    /// certificate of that CA, for example each of your clients, can impersonate a server. Default:
    /// the certificate must be for the host.
    ///
    /// Prefer [`TlsConnectorBuilder::server_name`] where it is possible.
    pub const fn danger_accept_any_host_name(mut self) -> Self {
        self.certificates.accepts_any_host = true;
        self
    }

    /// Reads the files and checks their contents; it blocks during that. The connector [reads them
    /// again](super#when-certificates-change) for every connection.
    ///
    /// # Errors
    /// A [`TlsConfigError`].
    pub fn build(self) -> Result<TlsConnector, TlsConfigError> {
        let server_name = self
            .server_name
            .map(|name| {
                ServerName::try_from(name.clone())
                    .map_err(|_| TlsConfigError::InvalidServerName(name))
            })
            .transpose()?;
        TlsConnector::new(self.certificates, server_name)
    }
}
