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

/// Which certificates to take, and where they are.
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

type Text<'a> = Cow<'a, [u8]>;

/// An item of a PEM file.
#[derive(Hash)]
pub(super) struct Material<'a> {
    cas: Vec<Text<'a>>,
    identity: Option<(Text<'a>, Text<'a>)>,
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
    /// The text is not PEM.
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

/// The settings of a [`TlsConnectorBuilder`](super::TlsConnectorBuilder).
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

    /// Whether there is anything that can change.
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
    // Not the provider of the process: there may be none, or one that another crate has chosen.
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("invariant: the provider has cipher suites for both versions")
}

fn roots(cas: &[Text<'_>]) -> Result<RootCertStore, TlsConfigError> {
    if cas.is_empty() {
        return Err(TlsConfigError::NoCa);
    }
    let mut roots = RootCertStore::empty();
    for pem in cas {
        for certificate in certificates(pem, TlsInput::Ca)? {
            roots.add(certificate).map_err(|error| TlsConfigError::InvalidCa { source: error.into() })?;
        }
    }
    Ok(roots)
}

impl Pem {
    const fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    fn read(&self) -> Result<Text<'_>, TlsConfigError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.into()),
            Self::File(path) => fs::read(path)
                .map(Into::into)
                .map_err(|source| TlsConfigError::Read { path: path.clone(), source }),
        }
    }
}

/// All of them; at least one.
fn certificates(pem: &[u8], what: TlsInput) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid_pem(what, error))?;
    if certificates.is_empty() { Err(TlsConfigError::Missing { what }) } else { Ok(certificates) }
}

/// The first one.
fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        // PKCS #8, and what OpenSSL did before it.
        if contains(pem, b"BEGIN ENCRYPTED PRIVATE KEY") || contains(pem, b"Proc-Type: 4,ENCRYPTED") {
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
