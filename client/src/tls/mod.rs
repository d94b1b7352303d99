//! TLS to the servers, by rustls (feature `tls`).
//!
//! # Configuring ZooKeeper
//! TLS has a port of its own and needs the network layer that is made with Netty. In `zoo.cfg` (ZooKeeper 3.8):
//!
//! ```text
//! secureClientPort=2281
//! serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
//! ssl.keyStore.location=/etc/zookeeper/server.pem
//! ssl.keyStore.type=PEM
//! ssl.trustStore.location=/etc/zookeeper/ca.pem
//! ssl.trustStore.type=PEM
//! ssl.clientAuth=need
//! authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
//! ```
//!
//! `server.pem` holds the server's key (PKCS #8: `BEGIN PRIVATE KEY`) and its certificate with every certificate up to,
//! but without, the CA. The names under which clients reach the server must be among the certificate's *subject
//! alternative names*, as `DNS:` or, for an address, `IP:`; a common name does not count here, unlike with Java's client.
//!
//! `ssl.clientAuth=need`, the default, wants a [client certificate](TlsConnectorBuilder::client_certificate_file) too.
//! Its owner is then known to ACLs by the scheme `x509` and its distinguished name, such as `CN=worker`, given the last
//! line. With `ssl.clientAuth=none` neither is needed.
//!
//! # Example
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use zk_curator_client::{ZooKeeper, tls::TlsConnector};
//!
//! let tls = TlsConnector::builder()
//!     .ca_file("/etc/orders/zookeeper-ca.pem")
//!     .client_certificate_file("/etc/orders/client.pem", "/etc/orders/client-key.pem")
//!     .build()?;
//! let zk = ZooKeeper::builder("zk1:2281,zk2:2281").connector(Arc::new(tls)).connect()?;
//! # Ok(()) }
//! ```
//!
//! # When certificates change
//! Files are read again for every connection. So put the new files in place of the old ones, each in one step (`mv`), and
//! the next connection is made with them; the present one lives on. Files that are missing, not valid, or do not fit
//! together do no harm: the client goes on with those it had, and says so at the level `warn`. For a CA that changes, name
//! the old and the new one for a while, in one file or two. What was given as PEM, and not as a file, stays as it is.
//!
//! # When it fails
//! A handshake that fails is one failed attempt to connect: the client goes on with the next server. It says why at the
//! level `warn`, and in [`ZooKeeper::last_failure`](crate::ZooKeeper::last_failure), in which [`TlsError::of`] finds the
//! [`TlsErrorKind`].

mod builder;
mod certificates;
mod error;
mod transport;
mod verify;

use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::connector::{Connector, Transport, open_tcp};

pub use builder::TlsConnectorBuilder;
use certificates::Certificates;
pub use certificates::{TlsConfigError, TlsInput};
pub use error::{TlsError, TlsErrorKind};
use transport::TlsTransport;

/// TLS 1.2 or 1.3 over TCP, as [`TcpConnector`](crate::TcpConnector) opens it.
///
/// The certificate of the server must come from a CA that was given, and be for the host of the connect string. What
/// bounds an attempt to connect bounds the handshake as well. When the client lets go of a connection, the server is
/// told (`close_notify`), unless the network takes no more.
#[derive(Debug, Clone)]
pub struct TlsConnector {
    keys: Arc<Keys>,
    /// Instead of the host that is connected to.
    server_name: Option<ServerName<'static>>,
}

/// Where the certificates are, and what was made of those that were read last.
struct Keys {
    certificates: Certificates,
    /// With random keys, so that nobody can choose what looks unchanged.
    hasher: RandomState,
    loaded: Mutex<Loaded>,
}

#[derive(Clone)]
struct Loaded {
    /// Of what was read, which is not kept: there are secrets in it.
    fingerprint: u64,
    tls: tokio_rustls::TlsConnector,
}

impl TlsConnector {
    fn new(
        certificates: Certificates,
        server_name: Option<ServerName<'static>>,
    ) -> Result<Self, TlsConfigError> {
        let hasher = RandomState::new();
        let loaded = {
            let material = certificates.read()?;
            let tls = Arc::new(certificates.config(&material)?).into();
            Mutex::new(Loaded { fingerprint: hasher.hash_one(&material), tls })
        };
        Ok(Self { keys: Arc::new(Keys { certificates, hasher, loaded }), server_name })
    }

    /// With what the files hold now.
    async fn present(&self) -> tokio_rustls::TlsConnector {
        if self.keys.certificates.has_files() {
            let keys = Arc::clone(&self.keys);
            refreshed(tokio::task::spawn_blocking(move || keys.refresh())).await;
        }
        self.keys.loaded().tls.clone()
    }
}

/// Waits until the files are read.
async fn refreshed(reading: JoinHandle<()>) {
    if let Err(error) = reading.await {
        tracing::warn!(%error, "certificates could not be read; going on with those from before");
    }
}

impl Keys {
    /// Reads the files again. What cannot be used is left: it may be half of a change.
    fn refresh(&self) {
        if let Err(error) = self.reload() {
            let cause = error.source().map(tracing::field::display);
            tracing::warn!(%error, cause, "changed certificates cannot be used; going on with those from before");
        }
    }

    fn reload(&self) -> Result<(), TlsConfigError> {
        let material = self.certificates.read()?;
        let fingerprint = self.hasher.hash_one(&material);
        // What is the same is kept: it remembers sessions of TLS, which are quicker to resume.
        if self.loaded().fingerprint != fingerprint {
            let tls = Arc::new(self.certificates.config(&material)?).into();
            *self.loaded() = Loaded { fingerprint, tls };
            tracing::info!("certificates have changed");
        }
        Ok(())
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        // Replaced as a whole: whole, whatever panicked.
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("checks_host", &!self.certificates.accepts_any_host)
            .field("has_certificate", &self.certificates.has_identity())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Connector for TlsConnector {
    fn is_encrypted(&self) -> bool {
        true
    }

    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(|error| {
                TlsError::new(host, port, TlsErrorKind::InvalidServerName, error).into_io()
            })?,
        };
        let peer: Arc<str> = host.into();
        let tcp = open_tcp(host, port).await?;
        match self.present().await.connect(name, tcp).await {
            Ok(stream) => Ok(Box::new(TlsTransport::new(stream, peer, port))),
            Err(error) => {
                let error = TlsError::of_handshake(host, port, error);
                if let Some(error) = TlsError::of(&error) {
                    tracing::warn!(host, port, kind = %error.kind(), "TLS handshake failed");
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// Keeps the warnings.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<String>>);

    impl Visit for Warnings {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0.lock().unwrap().push_str(&format!(" {field}={value:?}"));
        }
    }

    impl Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::WARN
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[tokio::test]
    async fn a_reload_that_panics_is_a_warning() {
        let warnings = Warnings::default();
        let _subscribed = tracing::subscriber::set_default(warnings.clone());
        refreshed(tokio::task::spawn_blocking(|| {})).await;
        assert_eq!(*warnings.0.lock().unwrap(), "");
        refreshed(tokio::task::spawn_blocking(|| panic!("as the test wants it"))).await;
        let told = warnings.0.lock().unwrap().clone();
        assert!(told.contains("going on with those from before"), "{told}");
        assert!(told.contains("panicked"), "{told}");
    }
}
