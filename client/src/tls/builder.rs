use std::error::Error as StdError;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use super::TlsConnector;
use super::verify::AnyHostVerifier;

/// Settings of a [`TlsConnector`].
#[derive(Default)]
#[must_use]
pub struct TlsConnectorBuilder {
    cas: Vec<Pem>,
    identity: Option<(Pem, Pem)>,
    server_name: Option<String>,
    accepts_any_host: bool,
}

enum Pem {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// Why TLS could not be configured.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    /// No CA was given. There is none by default: the servers' certificates rarely come from a public one.
    #[error("no CA certificate was given")]
    NoCa,
    /// A file cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What should be PEM is not.
    #[error("{what} is not valid PEM")]
    InvalidPem {
        /// Whose.
        what: TlsInput,
        /// Why not.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The PEM holds nothing of the kind.
    #[error("{what} is not in the PEM that was given for it")]
    Missing {
        /// Of which kind.
        what: TlsInput,
    },
    /// The certificate of a CA is not valid.
    #[error("a CA certificate is not valid")]
    InvalidCa {
        /// Why not.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The key of the client is encrypted, which this client does not read. `openssl pkey` decrypts it.
    #[error("the client key is encrypted; decrypt it first, for example with openssl pkey")]
    EncryptedKey,
    /// The client's certificate and its key do not fit together, or are of a kind that is not supported.
    #[error("the client certificate cannot be used with the client key")]
    InvalidIdentity {
        /// Why not.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The name that the servers' certificates should have is not a host name or an address.
    #[error("{0:?} is not a name that a certificate can have")]
    InvalidServerName(String),
}

/// What was given to a [`TlsConnectorBuilder`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsInput {
    /// The certificate of a CA.
    Ca,
    /// The certificate of the client.
    ClientCertificate,
    /// The key of the client.
    ClientKey,
}

impl fmt::Display for TlsInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ca => "CA certificate",
            Self::ClientCertificate => "client certificate",
            Self::ClientKey => "client key",
        })
    }
}

impl TlsConnectorBuilder {
    /// Adds a file with the certificates, in PEM, of one or more CAs that may issue the servers' certificates.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.cas.push(Pem::File(path.into()));
        self
    }

    /// [`TlsConnectorBuilder::ca_file`], with the PEM itself.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.cas.push(Pem::Bytes(pem.into()));
        self
    }

    /// Files with the certificate of this client, first its own and then those of intermediate CAs, and with its key
    /// (PKCS #8, PKCS #1 or SEC 1), in PEM. It may be one file. Default: none.
    pub fn client_certificate_file(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.identity = Some((Pem::File(certificate.into()), Pem::File(key.into())));
        self
    }

    /// [`TlsConnectorBuilder::client_certificate_file`], with the PEM itself.
    pub fn client_certificate_pem(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.identity = Some((Pem::Bytes(certificate.into()), Pem::Bytes(key.into())));
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
        self.accepts_any_host = true;
        self
    }

    /// Reads the files, once, and checks what is in them. It blocks while it reads.
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
        let roots = roots(&self.cas)?;
        let config = tls12_or_later();
        let config = if self.accepts_any_host {
            let algorithms = config.crypto_provider().signature_verification_algorithms;
            let verifier = AnyHostVerifier { roots, algorithms };
            config.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        } else {
            config.with_root_certificates(roots)
        };
        let config = match &self.identity {
            None => config.with_no_client_auth(),
            Some((certificates, key)) => {
                let certificates = certificates.certificates(TlsInput::ClientCertificate)?;
                config
                    .with_client_auth_cert(certificates, key.key()?)
                    .map_err(|error| TlsConfigError::InvalidIdentity { source: error.into() })?
            }
        };
        Ok(TlsConnector {
            tls: Arc::new(config).into(),
            server_name,
            checks_host: !self.accepts_any_host,
            has_certificate: self.identity.is_some(),
        })
    }
}

impl fmt::Debug for TlsConnectorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnectorBuilder")
            .field("cas", &self.cas)
            .field("identity", &self.identity)
            .field("server_name", &self.server_name)
            .field("accepts_any_host", &self.accepts_any_host)
            .finish()
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "({} bytes)", bytes.len()),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

fn tls12_or_later() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    // Not the provider of the process: there may be none, or one that another crate has chosen.
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("invariant: the provider has cipher suites for both versions")
}

fn roots(cas: &[Pem]) -> Result<RootCertStore, TlsConfigError> {
    if cas.is_empty() {
        return Err(TlsConfigError::NoCa);
    }
    let mut roots = RootCertStore::empty();
    for ca in cas {
        for certificate in ca.certificates(TlsInput::Ca)? {
            roots.add(certificate).map_err(|error| TlsConfigError::InvalidCa { source: error.into() })?;
        }
    }
    Ok(roots)
}

impl Pem {
    fn read(&self) -> Result<std::borrow::Cow<'_, [u8]>, TlsConfigError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.into()),
            Self::File(path) => fs::read(path)
                .map(Into::into)
                .map_err(|source| TlsConfigError::Read { path: path.clone(), source }),
        }
    }

    /// All of them; at least one.
    fn certificates(&self, what: TlsInput) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
        let certificates = CertificateDer::pem_slice_iter(&self.read()?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| invalid_pem(what, error))?;
        if certificates.is_empty() { Err(TlsConfigError::Missing { what }) } else { Ok(certificates) }
    }

    /// The first one.
    fn key(&self) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
        let pem = self.read()?;
        PrivateKeyDer::from_pem_slice(&pem).map_err(|error| {
            // PKCS #8, and what OpenSSL did before it.
            if contains(&pem, b"BEGIN ENCRYPTED PRIVATE KEY") || contains(&pem, b"Proc-Type: 4,ENCRYPTED") {
                TlsConfigError::EncryptedKey
            } else {
                invalid_pem(TlsInput::ClientKey, error)
            }
        })
    }
}

fn invalid_pem(what: TlsInput, error: pem::Error) -> TlsConfigError {
    match error {
        pem::Error::NoItemsFound => TlsConfigError::Missing { what },
        error => TlsConfigError::InvalidPem { what, source: error.into() },
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
