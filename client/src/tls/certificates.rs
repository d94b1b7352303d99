use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use super::verify::AnyHostVerifier;

/// The certificates to use, and their locations.
#[derive(Debug, Default)]
pub(super) struct Certificates {
    pub(super) cas: Vec<Pem>,
    pub(super) identity: Option<(Pem, Pem)>,
    pub(super) accepts_any_host: bool,
}

pub(super) enum Pem {
    Bytes(Vec<u8>),
    File(PathBuf),
}

type PemText<'a> = Cow<'a, [u8]>;

/// An item of a PEM file.
#[derive(Hash)]
pub(super) struct Material<'a> {
    cas: Vec<PemText<'a>>,
    identity: Option<(PemText<'a>, PemText<'a>)>,
}

/// The reason why TLS could not be configured.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    /// No CA was given. There is no default, because the servers' certificates rarely come from a
    /// public CA.
    #[error("no CA certificate was given")]
    NoCa,
    /// A file cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The text is not PEM.
    #[error("{what} is not valid PEM")]
    InvalidPem {
        /// The setting with this text.
        what: TlsInput,
        /// The error.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The PEM text does not contain the required item.
    #[error("{what} is not in the PEM that was given for it")]
    Missing {
        /// The setting that requires it.
        what: TlsInput,
    },
    /// The certificate of a CA is not valid.
    #[error("a CA certificate is not valid")]
    InvalidCa {
        /// The error.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The key of the client is encrypted, which is not supported. `openssl pkey` decrypts it.
    #[error("the client key is encrypted; decrypt it first, for example with openssl pkey")]
    EncryptedKey,
    /// The client's certificate and key do not match, or their kind is not supported.
    #[error("the client certificate cannot be used with the client key")]
    InvalidIdentity {
        /// The error.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The expected name of the servers' certificates is neither a host name nor an address.
    #[error("{0:?} is not a name that a certificate can have")]
    InvalidServerName(String),
}

/// A setting of the [`TlsConnectorBuilder`](super::TlsConnectorBuilder).
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

impl Certificates {
    pub(super) const fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Returns `true` if there are files, whose contents can change.
    pub(super) fn has_files(&self) -> bool {
        let mut identity = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.cas.iter().any(Pem::is_file) || identity.any(Pem::is_file)
    }

    /// Reads the files.
    pub(super) fn read(&self) -> Result<Material<'_>, TlsConfigError> {
        Ok(Material {
            cas: self.cas.iter().map(Pem::read).collect::<Result<_, _>>()?,
            identity: match &self.identity {
                Some((certificate, key)) => Some((certificate.read()?, key.read()?)),
                None => None,
            },
        })
    }

    pub(super) fn config(&self, material: &Material<'_>) -> Result<ClientConfig, TlsConfigError> {
        let roots = roots(&material.cas)?;
        let config = tls12_or_later();
        let config = if self.accepts_any_host {
            let algorithms = config.crypto_provider().signature_verification_algorithms;
            let verifier = AnyHostVerifier { roots, algorithms };
            config.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        } else {
            config.with_root_certificates(roots)
        };
        match &material.identity {
            None => Ok(config.with_no_client_auth()),
            Some((chain, key)) => {
                let chain = certificates(chain, TlsInput::ClientCertificate)?;
                config
                    .with_client_auth_cert(chain, private_key(key)?)
                    .map_err(|error| TlsConfigError::InvalidIdentity { source: error.into() })
            }
        }
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
    // Not the provider of the process: there may be none, or another crate may have chosen it.
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("invariant: the provider has cipher suites for both versions")
}

fn roots(cas: &[PemText<'_>]) -> Result<RootCertStore, TlsConfigError> {
    if cas.is_empty() {
        return Err(TlsConfigError::NoCa);
    }
    let mut roots = RootCertStore::empty();
    for pem in cas {
        for certificate in certificates(pem, TlsInput::Ca)? {
            roots
                .add(certificate)
                .map_err(|error| TlsConfigError::InvalidCa { source: error.into() })?;
        }
    }
    Ok(roots)
}

impl Pem {
    const fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    fn read(&self) -> Result<PemText<'_>, TlsConfigError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.into()),
            Self::File(path) => fs::read(path)
                .map(Into::into)
                .map_err(|source| TlsConfigError::Read { path: path.clone(), source }),
        }
    }
}

/// Returns all certificates; there must be at least one.
fn certificates(
    pem: &[u8],
    what: TlsInput,
) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid_pem(what, error))?;
    if certificates.is_empty() { Err(TlsConfigError::Missing { what }) } else { Ok(certificates) }
}

/// Returns the first private key.
fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        // PKCS #8, and OpenSSL's older format.
        if contains(pem, b"BEGIN ENCRYPTED PRIVATE KEY") || contains(pem, b"Proc-Type: 4,ENCRYPTED")
        {
            TlsConfigError::EncryptedKey
        } else {
            invalid_pem(TlsInput::ClientKey, error)
        }
    })
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
