use std::error::Error as StdError;
use std::io;

use tokio_rustls::rustls::{CertificateError, Error as RustlsError};

use crate::ConnectionFailure;

/// The reason why a TLS connection failed. It is inside the [`io::Error`]; [`TlsError::of`] finds
/// it there.
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
    /// The certificate was not issued by one of the given CAs.
    #[error("the server's certificate is from an unknown CA")]
    UnknownCa,
    /// The certificate is for other hosts.
    #[error("the server's certificate is not for this host")]
    WrongHost {
        /// The hosts of the certificate, as far as they are known.
        presented: Vec<String>,
    },
    /// The certificate is no longer valid, by the clock of this machine.
    #[error("the server's certificate has expired")]
    Expired,
    /// The certificate is not valid yet, by the clock of this machine.
    #[error("the server's certificate is not valid yet")]
    NotYetValid,
    /// Another fault of the certificate; see the source.
    #[error("the server's certificate is not acceptable")]
    InvalidCertificate,
    /// The server does not speak TLS. It may be the port for plain ZooKeeper.
    #[error("the server does not speak TLS")]
    NotTls,
    /// The server closed the connection during the handshake. Plain ZooKeeper does this when it
    /// receives TLS. A TLS server does it if it requires a certificate, or has too many handshakes
    /// in progress.
    #[error(
        "the server closed the connection during the handshake; does it speak TLS on this port?"
    )]
    Closed,
    /// The server ended the connection with an alert that says why, for example that it requires
    /// another certificate; see the source.
    ///
    /// With TLS 1.3 the alert may arrive after the client has completed the handshake.
    #[error("the server refused the connection")]
    Refused,
    /// The host of the connect string is not a name that a certificate can have.
    #[error("the host is not a name that a certificate can have")]
    InvalidServerName,
    /// Another fault in the messages of the server; see the source.
    #[error(
        "the server violates the TLS protocol, or has no version or cipher in common with this client"
    )]
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

    /// Returns the `TlsError` inside an error of a [`TlsConnector`](super::TlsConnector), or of a
    /// connection that it opened.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        let error = ConnectionFailure::of(error).map_or(error, ConnectionFailure::reason);
        error.get_ref()?.downcast_ref()
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> &TlsErrorKind {
        &self.kind
    }

    /// Returns the host of the connection.
    #[must_use]
    pub const fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port of the connection.
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

    /// Wraps an error during the handshake.
    pub(super) fn of_handshake(host: &str, port: u16, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => {
                Self::new(host, port, TlsErrorKind::Closed, error).into_io()
            }
            _ => Self::of_connection(host, port, error),
        }
    }

    /// Wraps an error after the handshake. Not all of these are TLS errors.
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
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                TlsErrorKind::Expired
            }
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
