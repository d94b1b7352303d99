//! Credentials that change over time: [`CredentialsProvider`].

use std::error::Error;
use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use zk_curator_proto::records::AuthPacket;

use crate::sasl::SaslMechanism;

/// Supplies the credentials of every connection, for tokens that rotate.
///
/// ```
/// use zk_curator_client::{Credentials, CredentialsProvider};
///
/// #[derive(Debug)]
/// struct TokenFile(std::path::PathBuf);
///
/// #[async_trait::async_trait]
/// impl CredentialsProvider for TokenFile {
///     async fn credentials(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
///         let token = std::fs::read(&self.0)?;
///         Ok(Credentials::default().authorization("token", token))
///     }
/// }
/// ```
#[async_trait]
pub trait CredentialsProvider: Debug + Send + Sync + 'static {
    /// Returns the credentials for a connection that has just been opened. The session handshake
    /// waits for them.
    ///
    /// The call has the rest of the time for one attempt to connect; then it is dropped, and the
    /// connection with it. That time is at least a third of `DisconnectedPolicy::Wait` or of the
    /// session timeout, whichever is shorter, and at most the latter. Apache ZooKeeper itself
    /// closes a connection without a handshake after 10 s. So put a slow source behind a cache that
    /// is renewed in the background.
    ///
    /// # Errors
    /// Any error: the connection counts as failed, with this error as
    /// [`ZooKeeper::last_failure`](crate::ZooKeeper::last_failure), and the next one is opened
    /// after the usual pause.
    async fn credentials(&self) -> Result<Credentials, Box<dyn Error + Send + Sync>>;
}

/// The credentials of one connection.
#[derive(Clone, Default)]
#[must_use]
pub struct Credentials {
    pub(crate) auth: Vec<AuthPacket>,
    pub(crate) sasl: Option<Arc<dyn SaslMechanism>>,
}

impl Credentials {
    /// Adds an identity, like [`ZooKeeper::add_auth`](crate::ZooKeeper::add_auth). It is sent
    /// before those of `add_auth`.
    pub fn authorization(mut self, scheme: impl Into<String>, auth: impl Into<Bytes>) -> Self {
        self.auth.push(AuthPacket { scheme: scheme.into(), auth: Some(auth.into()) });
        self
    }

    /// Authenticates with SASL DIGEST-MD5, instead of
    /// [`ZooKeeperBuilder::sasl_digest_md5`](crate::ZooKeeperBuilder::sasl_digest_md5).
    #[cfg(feature = "sasl")]
    pub fn sasl_digest_md5(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.sasl = Some(Arc::new(crate::sasl::DigestMd5::new(user.into(), password.into())));
        self
    }

    /// Authenticates with Kerberos, instead of
    /// [`ZooKeeperBuilder::sasl_kerberos`](crate::ZooKeeperBuilder::sasl_kerberos). Clone the same
    /// [`Kerberos`](crate::kerberos::Kerberos) for every connection, so that a KDC that is silent
    /// blocks one thread only.
    #[cfg(feature = "kerberos")]
    pub fn sasl_kerberos(mut self, kerberos: crate::kerberos::Kerberos) -> Self {
        self.sasl = Some(Arc::new(kerberos));
        self
    }
}

impl Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schemes: Vec<_> = self.auth.iter().map(|packet| &packet.scheme).collect();
        f.debug_struct("Credentials")
            .field("auth", &schemes)
            .field("sasl", &self.sasl.is_some())
            .finish()
    }
}
