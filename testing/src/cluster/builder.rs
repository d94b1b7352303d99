use std::io;
use std::sync::Arc;

use super::TestCluster;
use crate::builder::TestServerBuilder;
use crate::server::TestServer;
use crate::shared::Ensemble;

/// The longest ensemble: session ids have a byte for the server, and its top bit is theirs.
const MOST: usize = 99;

/// Builds a [`TestCluster`]; see [`TestCluster::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct TestClusterBuilder {
    members: usize,
    ports: Vec<u16>,
    settings: TestServerBuilder,
}

impl TestClusterBuilder {
    pub(super) fn new(members: usize) -> Self {
        Self { members, ports: Vec::new(), settings: TestServer::builder() }
    }

    /// The settings of every member; its port is that of the first one, unless [`TestClusterBuilder::ports`] says
    /// otherwise. Default: those of [`TestServer::builder`].
    pub fn settings(mut self, settings: TestServerBuilder) -> Self {
        self.settings = settings;
        self
    }

    /// Whether the members listen on TCP. Default: yes. The in-memory network is always there.
    pub fn tcp(mut self, listen: bool) -> Self {
        self.settings = self.settings.tcp(listen);
        self
    }

    /// The TCP ports of the members, in their order; zero is any free one, and so is one that is not given.
    pub fn ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports = ports.into_iter().collect();
        self
    }

    /// Whether members without a quorum serve reads to clients that are content with that (`readonlymode.enabled`, with
    /// local sessions), as [`TestServer::set_read_only`] describes. Default: no, they refuse all clients.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.settings = self.settings.read_only(read_only);
        self
    }

    /// Starts the members on the current tokio runtime. The last one leads, as of servers that start together.
    ///
    /// # Errors
    /// Those of binding the TCP ports, and [`io::ErrorKind::InvalidInput`] when the number of members is not between
    /// 1 and 99 or there are more ports than members.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start(self) -> io::Result<TestCluster> {
        let Self { members, ports, settings } = self;
        if !(1..=MOST).contains(&members) || ports.len() > members {
            let text = format!("{members} members with {} ports; there can be 1 to {MOST}", ports.len());
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
            open.push(TestServer::listen(&config).await?);
        }
        let ensemble = Arc::new(Ensemble::new(config, members, snapshot));
        let of_member = |(member, open): (_, &Vec<_>)| TestServer::of_ensemble(&ensemble, member, open);
        let servers: Vec<_> = open.iter().enumerate().map(of_member).collect();
        ensemble.update(|state| state.assemble());
        for (server, open) in servers.iter().zip(open) {
            server.run(open);
        }
        Ok(TestCluster { ensemble, members: servers.into() })
    }
}
