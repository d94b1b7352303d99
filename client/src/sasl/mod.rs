//! SASL as ZooKeeper transports it: the interface of a mechanism, and DIGEST-MD5.
//!
//! On every connection the session starts an exchange of the mechanism, before it re-arms watches
//! and sends requests. The client sends the first token, which is empty.

#[cfg(feature = "sasl")]
mod digest_md5;

use std::fmt::Debug;

use bytes::Bytes;

#[cfg(feature = "sasl")]
pub(crate) use digest_md5::DigestMd5;

/// A mechanism that authenticates a client. Its `Debug` output contains no secret.
pub(crate) trait SaslMechanism: Debug + Send + Sync {
    /// Begins an exchange for a new connection.
    fn start(&self) -> Box<dyn SaslExchange>;
}

/// An exchange on one connection. Its `Debug` output contains no secret.
pub(crate) trait SaslExchange: Debug + Send {
    /// Takes a token of the server and returns the response; `None` when both sides are
    /// authenticated.
    ///
    /// Fails with a description of the fault, which contains nothing from the token.
    fn step(&mut self, token: &[u8]) -> Result<Option<Bytes>, &'static str>;
}
