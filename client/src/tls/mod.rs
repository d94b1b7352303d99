//! TLS connections to the servers, with rustls (feature `tls`).
//!
//! # Configuring ZooKeeper
//! TLS has a separate port and requires the Netty network layer. In `zoo.cfg` (ZooKeeper 3.8):
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
//! `server.pem` contains the server's key (PKCS #8: `BEGIN PRIVATE KEY`), its certificate, and
//! every certificate up to the CA, without the CA itself. The *subject alternative names* of the
//! certificate must contain the names under which clients reach the server, as `DNS:`, or as `IP:`
//! for an address. Unlike Java's client, this client ignores the common name.
//!
//! `ssl.clientAuth=need`, the default, also requires a [client
//! certificate](TlsConnectorBuilder::client_certificate_file). With the last line, ACLs know its
//! owner by the scheme `x509` and its distinguished name, such as `CN=worker`. With
//! `ssl.clientAuth=none` neither is needed.
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
//! The files are read again for every connection. So replace the old files by the new ones, each in
//! one step (`mv`). The next connection uses the new files; the current connection stays open.
//! Files that are missing, not valid or do not match do no harm: the client keeps the last valid
//! ones, and logs this at the level `warn`. To change the CA, name both the old and the new one for
//! a while, in one file or two. PEM texts that were given directly do not change.
//!
//! # When a handshake fails
//! A failed handshake is a failed attempt to connect: the client continues with the next server. It
//! logs the reason at the level `warn`. [`ZooKeeper::last_failure`](crate::ZooKeeper::last_failure)
//! also has it: [`TlsError::of`] finds the [`TlsErrorKind`] there.

mod builder;
mod certificates;
mod error;
mod transport;
mod verify;

use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::connector::{Connector, Transport, open_tcp};

use crate::locked::{Locked, LockedGuard};
pub use builder::TlsConnectorBuilder;
use certificates::Certificates;
pub use certificates::{TlsConfigError, TlsInput};
pub use error::{TlsError, TlsErrorKind};
use transport::TlsTransport;

/// A connector for TLS 1.2 or 1.3 over TCP, which [`TcpConnector`](crate::TcpConnector) opens.
///
/// The certificate of the server must come from one of the given CAs, and be for the host of the
/// connect string. The time limit of an attempt to connect includes the handshake. When the client
/// drops a connection, it notifies the server (`close_notify`), unless the network accepts no more
/// bytes.
#[derive(Debug, Clone)]
pub struct TlsConnector {
    keys: Arc<TlsKeys>,
    /// The name to check instead of the host of the connect string.
    server_name: Option<ServerName<'static>>,
}

/// The settings of the certificates, and the configuration made from the files that were read last.
struct TlsKeys {
    certificates: Certificates,
    /// Keyed at random, so that an attacker cannot produce a file that looks unchanged.
    hasher: RandomState,
    loaded: Locked<LoadedTls>,
}

#[derive(Clone)]
struct LoadedTls {
    /// The fingerprint of the file contents. The contents are not kept, because they include
    /// secrets.
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
            Locked::new(LoadedTls { fingerprint: hasher.hash_one(&material), tls })
        };
        Ok(Self { keys: Arc::new(TlsKeys { certificates, hasher, loaded }), server_name })
    }

    /// Returns the connector for the current contents of the files.
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
        tracing::warn!(%error, "certificates could not be read; keeping the previous ones");
    }
}

impl TlsKeys {
    /// Reads the files again. Invalid contents are ignored: the change may not be complete.
    fn refresh(&self) {
        if let Err(error) = self.reload() {
            let cause = error.source().map(tracing::field::display);
            tracing::warn!(%error, cause, "changed certificates cannot be used; keeping the previous ones");
        }
    }

    fn reload(&self) -> Result<(), TlsConfigError> {
        let material = self.certificates.read()?;
        let fingerprint = self.hasher.hash_one(&material);
        // Unchanged material is kept: it remembers TLS sessions, which are quicker to resume.
        if self.loaded().fingerprint != fingerprint {
            let tls = Arc::new(self.certificates.config(&material)?).into();
            *self.loaded() = LoadedTls { fingerprint, tls };
            tracing::info!("certificates have changed");
        }
        Ok(())
    }

    fn loaded(&self) -> LockedGuard<'_, LoadedTls> {
        self.loaded.lock()
    }
}

impl fmt::Debug for TlsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsKeys")
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

    /// Collects the warnings.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Locked<String>>);

    impl Visit for Warnings {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0.lock().push_str(&format!(" {field}={value:?}"));
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
        assert_eq!(*warnings.0.lock(), "");
        refreshed(tokio::task::spawn_blocking(|| panic!("as the test wants it"))).await;
        let told = warnings.0.lock().clone();
        assert!(told.contains("keeping the previous ones"), "{told}");
        assert!(told.contains("panicked"), "{told}");
    }
}
