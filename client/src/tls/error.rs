use std::error::Error as StdError;
use std::io;

use tokio_rustls::rustls::{CertificateError, Error as RustlsError};

use crate::ConnectionFailure;

/// Why a connection with TLS failed. It is inside of the [`io::Error`]; [`TlsError::of`] finds it there.
#[derive(Debug, thiserror::Error)]
#[error("TLS with {host} port {port}: {kind}")]
pub struct TlsError {
    host: Box<str>,
    port: u16,
    kind: TlsErrorKind,
    source: Box<dyn StdError + Send + Sync>,
}

/// The kind of the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsErrorKind {
    /// The certificate was not issued by a CA that was given.
    #[error("the server's certificate is from an unknown CA")]
    UnknownCa,
    /// The certificate is for other hosts.
    #[error("the server's certificate is not for this host")]
    WrongHost {
        /// For which ones, as far as that is known.
        presented: Vec<String>,
    },
    /// The certificate is no longer valid, by the clock of this machine.
    #[error("the server's certificate has expired")]
    Expired,
    /// The certificate is not valid yet, by the clock of this machine.
    #[error("the server's certificate is not valid yet")]
    NotYetValid,
    /// Something else is wrong with the certificate; the source says what.
    #[error("the server's certificate is not acceptable")]
    InvalidCertificate,
    /// The server does not speak TLS: a port for plain ZooKeeper, perhaps.
    #[error("the server does not speak TLS")]
    NotTls,
    /// The server closed the connection during the handshake: perhaps because it does not speak TLS, which is how
    /// plain ZooKeeper takes it, or it wants a certificate, or serves too many handshakes already.
    #[error("the server closed the connection during the handshake; does it speak TLS on this port?")]
    Closed,
    /// The server ended it and said why in an alert, for example that it wants another certificate; see the source.
    ///
    /// With TLS 1.3 it may say so only when the handshake is complete for the client.
    #[error("the server refuses")]
    Refused,
    /// The host of the connect string is not one that a certificate could be for.
    #[error("the host is not a name that a certificate can have")]
    InvalidServerName,
    /// Something else is wrong with what the server says; the source says what.
    #[error("the server breaks the protocol, or has none in common with this client")]
    Protocol,
}

impl TlsError {
    pub(super) fn new(
        host: &str,
        port: u16,
        kind: TlsErrorKind,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { host: host.into(), port, kind, source: source.into() }
    }

    /// The one inside of an error of a [`TlsConnector`](super::TlsConnector), or of a connection it has opened.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        let error = ConnectionFailure::of(error).map_or(error, ConnectionFailure::reason);
        error.get_ref()?.downcast_ref()
    }

    /// The kind of the error.
    #[must_use]
    pub const fn kind(&self) -> &TlsErrorKind {
        &self.kind
    }

    /// The host that was connected to.
    #[must_use]
    pub const fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn into_io(self) -> io::Error {
        let kind = match &self.kind {
            TlsErrorKind::InvalidServerName => io::ErrorKind::InvalidInput,
            TlsErrorKind::Closed => io::ErrorKind::ConnectionAborted,
            TlsErrorKind::Refused => io::ErrorKind::ConnectionRefused,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, self)
    }

    /// For an error during the handshake.
    pub(super) fn of_handshake(host: &str, port: u16, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                Self::new(host, port, TlsErrorKind::Closed, error).into_io()
            }
            _ => Self::of_connection(host, port, error),
        }
    }

    /// For an error after the handshake: not all of them are of TLS.
    pub(super) fn of_connection(host: &str, port: u16, error: io::Error) -> io::Error {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<RustlsError>()).map(kind) {
            Some(kind) => Self::new(host, port, kind, error).into_io(),
            None => error,
        }
    }
}

fn kind(error: &RustlsError) -> TlsErrorKind {
    match error {
        RustlsError::InvalidCertificate(error) => match error {
            CertificateError::UnknownIssuer => TlsErrorKind::UnknownCa,
            CertificateError::NotValidForName => TlsErrorKind::WrongHost { presented: Vec::new() },
            CertificateError::NotValidForNameContext { presented, .. } => {
                TlsErrorKind::WrongHost { presented: presented.clone() }
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsErrorKind::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsErrorKind::NotYetValid
            }
            _ => TlsErrorKind::InvalidCertificate,
        },
        RustlsError::InvalidMessage(_) => TlsErrorKind::NotTls,
        RustlsError::AlertReceived(_) => TlsErrorKind::Refused,
        _ => TlsErrorKind::Protocol,
    }
}
