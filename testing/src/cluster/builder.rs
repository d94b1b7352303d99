//! [`TestClusterBuilder`], and the constructors of [`TestCluster`].

use std::io;
use std::sync::Arc;

use super::handle::TestCluster;
use crate::ensemble::{Ensemble, faults};
use crate::server::{TestServer, TestServerBuilder};

/// The largest ensemble: session ids have seven bits for the server.
const MOST: usize = 99;

impl TestCluster {
    /// Starts an ensemble on free TCP ports of 127.0.0.1. A single member is a standalone server.
    ///
    /// # Panics
    /// Outside a tokio runtime, if no port can be bound, or if `members` is not between 1 and 99;
    /// [`TestClusterBuilder::start`] returns errors.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start(members: usize) -> Self {
        match Self::builder(members).start().await {
            Ok(cluster) => cluster,
            Err(error) => panic!("cannot start {members} servers: {error}"),
        }
    }

    /// Starts an ensemble that is reached only through [`TestCluster::connector`], which works
    /// under a paused clock.
    ///
    /// # Panics
    /// Outside a tokio runtime, or if `members` is not between 1 and 99.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn in_memory(members: usize) -> Self {
        match Self::builder(members).tcp(false).start().await {
            Ok(cluster) => cluster,
            Err(error) => panic!("cannot start {members} servers: {error}"),
        }
    }

    /// Returns a builder of an ensemble with this many members.
    pub fn builder(members: usize) -> TestClusterBuilder {
        TestClusterBuilder::new(members)
    }
}

/// Builds a [`TestCluster`]; see [`TestCluster::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct TestClusterBuilder {
    members: usize,
    ports: Vec<u16>,
    settings: TestServerBuilder,
}

impl TestClusterBuilder {
    fn new(members: usize) -> Self {
        Self { members, ports: Vec::new(), settings: TestServer::builder() }
    }

    /// Sets the settings of every member. Their port is that of the first member, unless
    /// [`TestClusterBuilder::ports`] sets others. Default: those of [`TestServer::builder`].
    pub fn settings(mut self, settings: TestServerBuilder) -> Self {
        self.settings = settings;
        self
    }

    /// Enables or disables TCP for the members. Default: `true`. The in-memory network is always
    /// available.
    pub fn tcp(mut self, listen: bool) -> Self {
        self.settings = self.settings.tcp(listen);
        self
    }

    /// Sets the TCP ports of the members, in order. Zero and missing ports are any free port.
    pub fn ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports = ports.into_iter().collect();
        self
    }

    /// Lets members without a quorum serve reads to clients that accept a read-only server
    /// (`readonlymode.enabled`, with local sessions), as [`TestServer::set_read_only`] describes.
    /// Default: `false`, they refuse all clients.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.settings = self.settings.read_only(read_only);
        self
    }

    /// Starts the members on the current tokio runtime. The last member leads.
    ///
    /// # Errors
    /// Errors of binding the TCP ports, and [`io::ErrorKind::InvalidInput`] if the number of
    /// members is not between 1 and 99 or there are more ports than members.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start(self) -> io::Result<TestCluster> {
        self.start_prepared(|_| ()).await.map(|(cluster, ())| cluster)
    }

    /// As [`TestClusterBuilder::start`], but calls `prepare` before the first client can connect,
    /// for example to install rules. Returns its result, too.
    ///
    /// # Errors
    /// As for [`TestClusterBuilder::start`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start_prepared<R>(
        self,
        prepare: impl FnOnce(&TestCluster) -> R,
    ) -> io::Result<(TestCluster, R)> {
        let Self { members, ports, settings } = self;
        if !(1..=MOST).contains(&members) || ports.len() > members {
            let text =
                format!("{members} members with {} ports; there can be 1 to {MOST}", ports.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let (mut config, snapshot) = settings.into_parts();
        let mut open = Vec::new();
        for member in 0..members {
            let given = ports.get(member).copied();
            config.port = given.unwrap_or(if member == 0 { config.port } else { 0 });
            if let (1.., Some((port, _))) = (member, &mut config.tls) {
                *port = 0;
            }
            open.push(TestServer::listen(&config)?);
        }
        let ensemble = Arc::new(Ensemble::new(config, members, snapshot));
        let of_member =
            |(member, open): (_, &Vec<_>)| TestServer::of_ensemble(&ensemble, member, open);
        let servers: Vec<_> = open.iter().enumerate().map(of_member).collect();
        ensemble.update(faults::assemble);
        let cluster = TestCluster::new(ensemble, servers.into());
        let prepared = prepare(&cluster);
        for (server, open) in cluster.members().iter().zip(open) {
            server.run(open);
        }
        Ok((cluster, prepared))
    }
}
