//! Frameworks that are connected to a test server, or to a real ensemble.

use std::env;
use std::sync::Arc;

use zk_curator::{Acl, CuratorFramework, CuratorFrameworkBuilder, Error, ErrorKind};

use crate::cluster::TestCluster;
use crate::server::{HasSession, TestServer};

/// The environment variable of [`TestServer::from_env`].
pub const SERVERS_VARIABLE: &str = "ZK_CURATOR_TEST_SERVERS";

impl TestServer {
    /// Returns a builder of frameworks that are connected to this server: through memory if it does
    /// not listen on TCP, and then each builder is a host of its own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_curator_testing::TestServer;
    ///
    /// let server = TestServer::in_memory().await;
    /// let zk = server.framework().build()?;
    /// zk.start().await?;
    /// zk.create("/a").await?;
    /// assert!(server.probe().exists("/a"));
    /// # Ok(()) }
    /// ```
    pub fn framework(&self) -> CuratorFrameworkBuilder {
        let builder = CuratorFramework::builder().connect_string(self.connect_string());
        match self.addr() {
            Some(_) => builder,
            None => builder.connector(Arc::new(self.connector())),
        }
    }

    /// Returns the ensemble that the environment variable `ZK_CURATOR_TEST_SERVERS` names, such as
    /// `127.0.0.1:2181`. If the variable is empty or not set, starts an embedded server on TCP. So
    /// one test runs on both. It needs real time, and can inject faults only on
    /// [`embedded`](TestEnsemble::embedded) servers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_curator_testing::TestServer;
    ///
    /// let ensemble = TestServer::from_env().await;
    /// let zk = ensemble.framework().build()?;
    /// zk.start().await?;
    /// zk.create("/orders").await?;
    /// zk.close().await?;
    /// ensemble.remove().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// As [`TestServer::start`].
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn from_env() -> TestEnsemble {
        let servers = env::var(SERVERS_VARIABLE).ok().filter(|servers| !servers.trim().is_empty());
        match servers {
            Some(servers) => TestEnsemble::real(&servers),
            None => TestEnsemble { kind: Kind::Embedded(Self::start().await) },
        }
    }
}

impl TestCluster {
    /// Returns a builder of frameworks that are connected to this ensemble, through memory: each
    /// builder is a host of its own.
    pub fn framework(&self) -> CuratorFrameworkBuilder {
        CuratorFramework::builder()
            .connect_string(self.connect_string())
            .connector(Arc::new(self.connector()))
    }
}

impl HasSession for CuratorFramework {
    fn session_id(&self) -> Option<i64> {
        self.session().map(|session| session.id.get())
    }
}

/// The servers of a test: see [`TestServer::from_env`].
#[derive(Debug, Clone)]
pub struct TestEnsemble {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Embedded(TestServer),
    Real {
        servers: String,
        /// The chroot of this test alone.
        chroot: String,
    },
}

impl TestEnsemble {
    /// Returns the real ensemble with this connect string. The test has a chroot of its own in it,
    /// below the chroot of the connect string.
    #[must_use]
    pub fn real(connect_string: &str) -> Self {
        let servers = connect_string.trim().trim_end_matches('/').to_owned();
        let chroot = format!("/zk-curator-test-{:016x}", fastrand::u64(..));
        Self { kind: Kind::Real { servers, chroot } }
    }

    /// Returns a builder of frameworks that are connected to it. On a real ensemble they live in a
    /// chroot with a random name, which the first of them creates.
    pub fn framework(&self) -> CuratorFrameworkBuilder {
        match &self.kind {
            Kind::Embedded(server) => server.framework(),
            Kind::Real { .. } => CuratorFramework::builder()
                .connect_string(self.connect_string())
                .create_chroot(Acl::open_unsafe()),
        }
    }

    /// Returns the connect string, with the chroot.
    #[must_use]
    pub fn connect_string(&self) -> String {
        match &self.kind {
            Kind::Embedded(server) => server.connect_string(),
            Kind::Real { servers, chroot } => format!("{servers}{chroot}"),
        }
    }

    /// Returns the embedded server; `None` if it is a real ensemble.
    #[must_use]
    pub const fn embedded(&self) -> Option<&TestServer> {
        match &self.kind {
            Kind::Embedded(server) => Some(server),
            Kind::Real { .. } => None,
        }
    }

    /// Deletes the chroot on a real ensemble, with all the nodes of the test. A test that panics
    /// does not delete it.
    ///
    /// # Errors
    /// The errors of the framework.
    ///
    /// # Cancel safety
    /// If the future is dropped, some nodes may be deleted.
    pub async fn remove(self) -> Result<(), Error> {
        let Kind::Real { servers, chroot } = self.kind else { return Ok(()) };
        let zk = CuratorFramework::builder().connect_string(servers).build()?;
        zk.start().await?;
        match zk.delete(&chroot).deleting_children().await {
            Err(error) if error.kind() != ErrorKind::NoNode => return Err(error),
            _ => {}
        }
        zk.close().await
    }
}
