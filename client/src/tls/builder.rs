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
    /// Begins to configure TLS. At least a CA is needed.
    pub fn builder() -> TlsConnectorBuilder {
        TlsConnectorBuilder::default()
    }
}

impl TlsConnectorBuilder {
    /// Adds a file with the certificates, in PEM, of one or more CAs that may issue the servers' certificates. To trust
    /// whom the machine trusts, name the file in which it keeps these, such as `/etc/ssl/certs/ca-certificates.crt`.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificates.cas.push(Pem::File(path.into()));
        self
    }

    /// [`TlsConnectorBuilder::ca_file`], with the PEM itself.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.cas.push(Pem::Bytes(pem.into()));
        self
    }

    /// Files with the certificate of this client, first its own and then those of intermediate CAs, and with its key
    /// (PKCS #8, PKCS #1 or SEC 1), in PEM. It may be one file. Default: none.
    pub fn client_certificate_file(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.certificates.identity = Some((Pem::File(certificate.into()), Pem::File(key.into())));
        self
    }

    /// [`TlsConnectorBuilder::client_certificate_file`], with the PEM itself.
    pub fn client_certificate_pem(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.identity = Some((Pem::Bytes(certificate.into()), Pem::Bytes(key.into())));
        self
    }

    /// The name, or the address, that every server's certificate must be for. Default: the host of the connect string
    /// that is connected to.
    ///
    /// For servers that share one certificate, or are reached through names that theirs do not have.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// **Dangerous.** Takes a certificate from a known CA whatever host it is for: whoever has *any* certificate of
    /// that CA, each of your clients for example, can pose as the server. Default: the certificate must be for the host.
    ///
    /// [`TlsConnectorBuilder::server_name`] is the better way where it is possible.
    pub const fn danger_accept_any_host_name(mut self) -> Self {
        self.certificates.accepts_any_host = true;
        self
    }

    /// Reads the files and checks what is in them. It blocks while it reads. The connector
    /// [reads them again](super#when-certificates-change) for every connection.
    ///
    /// # Errors
    /// A [`TlsConfigError`].
    pub fn build(self) -> Result<TlsConnector, TlsConfigError> {
        let server_name = self
            .server_name
            .map(|name| {
                ServerName::try_from(name.clone()).map_err(|_| TlsConfigError::InvalidServerName(name))
            })
            .transpose()?;
        TlsConnector::new(self.certificates, server_name)
    }
}
