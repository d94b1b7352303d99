//! SASL as ZooKeeper transports it: the interface of a mechanism, and the mechanisms.
//!
//! On every connection the session starts an exchange of the mechanism. It obtains the first token
//! before the handshake, and sends it after the handshake. It re-arms watches and sends requests
//! after the exchange.

#[cfg(feature = "sasl")]
mod digest_md5;
#[cfg(any(test, feature = "kerberos"))]
mod gssapi;
#[cfg(feature = "kerberos")]
pub(crate) mod kerberos;

use std::fmt::{self, Debug};
use std::future::Future;
use std::io;
use std::pin::Pin;

use bytes::Bytes;

#[cfg(feature = "sasl")]
pub(crate) use digest_md5::DigestMd5;

/// A mechanism that authenticates a client. Its `Debug` output contains no secret.
pub(crate) trait SaslMechanism: Debug + Send + Sync {
    /// Begins an exchange for a new connection to a server, which the connect string calls `host`.
    fn start(&self, host: &str) -> Box<dyn SaslExchange>;
}

/// An exchange on one connection. Its `Debug` output contains no secret.
pub(crate) trait SaslExchange: Debug + Send {
    /// Returns the first token, before the handshake. Default: an empty one.
    fn begin(&mut self) -> SaslStep {
        SaslStep::Ready(Ok(Some(Bytes::new())))
    }

    /// Takes a token of the server and returns the response.
    fn step(&mut self, token: &[u8]) -> SaslStep;

    /// Returns the failure to report if the server refuses the client.
    fn refused(&self) -> io::Error;
}

/// The response to a token; `None` when both sides are authenticated.
///
/// A failure describes the fault, and contains nothing from the token.
pub(crate) type Stepped = Result<Option<Bytes>, SaslFailure>;

/// A step of an exchange.
#[derive(Debug)]
pub(crate) enum SaslStep {
    /// The step is complete.
    Ready(Stepped),
    /// The step may block, and is performed elsewhere.
    #[cfg_attr(not(any(test, feature = "kerberos")), expect(dead_code, reason = "of Kerberos"))]
    Pending(SaslWork),
}

/// A step that is performed outside the session. Until it is complete, the exchange is part of it.
pub(crate) struct SaslWork {
    /// Performs the step and returns the exchange.
    pub(crate) future: Working,
    /// The failure to report if the step takes too long.
    pub(crate) late: io::Error,
}

pub(crate) type Working = Pin<Box<dyn Future<Output = Worked> + Send>>;

/// The exchange, and the result of its step.
pub(crate) type Worked = (Box<dyn SaslExchange>, Stepped);

impl Debug for SaslWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslWork").finish_non_exhaustive()
    }
}

/// The reason why an exchange failed.
#[derive(Debug)]
pub(crate) struct SaslFailure {
    pub(crate) why: io::Error,
    /// `true` if the server is at fault, or refuses the client: another attempt is no use.
    pub(crate) is_final: bool,
}

impl From<&'static str> for SaslFailure {
    fn from(why: &'static str) -> Self {
        Self { why: io::Error::other(why), is_final: true }
    }
}
