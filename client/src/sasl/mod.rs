//! SASL as ZooKeeper tunnels it: what a mechanism is to the session, and DIGEST-MD5.
//!
//! The session asks a mechanism for an exchange on every connection, before it re-arms watches and sends requests.
//! The client speaks first, with an empty token.

#[cfg(feature = "sasl")]
mod digest_md5;

use std::fmt::Debug;

use bytes::Bytes;

#[cfg(feature = "sasl")]
pub(crate) use digest_md5::DigestMd5;

/// How a client proves who it is. Its `Debug` shows no secret.
pub(crate) trait SaslMechanism: Debug + Send + Sync {
    /// Begins anew, for a new connection.
    fn start(&self) -> Box<dyn SaslExchange>;
}

/// One proof, on one connection. Its `Debug` shows no secret.
pub(crate) trait SaslExchange: Debug + Send {
    /// Takes what the server says and gives the answer; `None` when both sides have proven themselves.
    ///
    /// Fails with what is wrong with the server's words, none of which it repeats.
    fn step(&mut self, token: &[u8]) -> Result<Option<Bytes>, &'static str>;
}
