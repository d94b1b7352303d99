//! [`TestServerBuilder`], and the constructors of [`TestServer`].

use std::io;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use super::handle::TestServer;
use crate::config::Config;
use crate::ensemble::Snapshot;
#[cfg(feature = "tls")]
use crate::tls::ServerTls;
use crate::version::{SequenceOverflow, ZooKeeperVersion};

impl TestServer {
    /// Starts a server on a free TCP port of 127.0.0.1, with every setting at its default.
    ///
    /// # Panics
    /// Outside a tokio runtime, or when no port can be bound; [`TestServerBuilder::start`] returns
    /// that error.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start() -> Self {
        match Self::builder().start().await {
            Ok(server) => server,
            Err(error) => panic!("cannot listen on 127.0.0.1: {error}"),
        }
    }

    /// Starts a server that is reached only through [`TestServer::connector`]. Such a server works
    /// under a paused clock. TCP does not, because the clock advances while bytes are in the
    /// kernel.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn in_memory() -> Self {
        match Self::builder().tcp(false).start().await {
            Ok(server) => server,
            Err(error) => panic!("cannot start: {error}"),
        }
    }

    /// Returns a builder with default settings.
    pub const fn builder() -> TestServerBuilder {
        TestServerBuilder::new()
    }
}

/// Builds a [`TestServer`]; see [`TestServer::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct TestServerBuilder {
    config: Config,
    snapshot: Option<Snapshot>,
}

impl TestServerBuilder {
    const fn new() -> Self {
        Self { config: Config::DEFAULT, snapshot: None }
    }

    /// Enables or disables TCP. Default: `true`. The in-memory network is always available.
    pub const fn tcp(mut self, listen: bool) -> Self {
        self.config.tcp = listen;
        self
    }

    /// Sets the TCP address to listen on. Default: 127.0.0.1, reachable from this machine only.
    pub const fn host(mut self, host: IpAddr) -> Self {
        self.config.host = host;
        self
    }

    /// Sets the TCP port. Default: 0, any free port.
    pub const fn port(mut self, port: u16) -> Self {
        self.config.port = port;
        self
    }

    /// Sets the granularity of session expiry (`tickTime`), in whole milliseconds, at least one. A
    /// session expires at the first tick after its timeout. Default: 10 ms. Apache ZooKeeper's is 2
    /// s.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.config.tick_time = tick.max(Duration::from_millis(1));
        self
    }

    /// Sets the shortest session timeout a client can have (`minSessionTimeout`). Default: two
    /// ticks.
    pub const fn min_session_timeout(mut self, shortest: Duration) -> Self {
        self.config.min_session_timeout = Some(shortest);
        self
    }

    /// Sets the longest session timeout a client can have (`maxSessionTimeout`). Default: 20 ticks,
    /// but at least 40 s, which is 20 of Apache ZooKeeper's ticks.
    pub const fn max_session_timeout(mut self, longest: Duration) -> Self {
        self.config.max_session_timeout = Some(longest);
        self
    }

    /// Sets the longest frame a client may send (`jute.maxbuffer`), in bytes. A longer frame ends
    /// the connection. Default: [`DEFAULT_MAX_FRAME`](zk_curator_proto::DEFAULT_MAX_FRAME).
    pub const fn max_frame(mut self, bytes: usize) -> Self {
        self.config.max_frame = bytes;
        self
    }

    /// Sets the maximum number of bytes queued for a client that does not read. Above 1 MiB the
    /// server stops reading its requests. A client is disconnected when watch events, or one multi
    /// read, exceed this limit. Apache ZooKeeper has no such limit. Default: 16 MiB.
    pub const fn max_backlog(mut self, bytes: usize) -> Self {
        self.config.max_backlog = bytes;
        self
    }

    /// Sets the longest time a connection may have no session
    /// (`zookeeper.nio.sessionlessCnxnTimeout`). After that, a connection without a complete
    /// handshake or four-letter word is closed. Time in [`TestServer::hold`] and
    /// [`TestServer::partition`] does not count. Default: 10 s, as in Apache ZooKeeper.
    pub const fn session_within(mut self, time: Duration) -> Self {
        self.config.session_within = time;
        self
    }

    /// Sets the interval at which empty containers and expired nodes are removed
    /// (`znode.container.checkIntervalMs`). Default: one minute.
    pub const fn container_check_interval(mut self, interval: Duration) -> Self {
        self.config.container_check_interval = interval;
        self
    }

    /// Sets the age at which a container that never had a child is removed too
    /// (`znode.container.maxNeverUsedIntervalMs`). Default: never, as in Apache ZooKeeper 3.9.
    pub const fn max_never_used_interval(mut self, interval: Duration) -> Self {
        self.config.max_never_used_interval = Some(interval);
        self
    }

    /// Sets the start value of the server's wall clock, which then follows tokio's clock. Default:
    /// the time of day. A fixed value gives the same `ctime` and `mtime` in every run of a
    /// simulation.
    pub const fn wall_clock(mut self, start: SystemTime) -> Self {
        self.config.wall_clock = Some(start);
        self
    }

    /// Derives session ids and passwords from `seed`, for the same bytes in every run of a
    /// simulation. Default: random.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.config.seed = Some(seed);
        self
    }

    /// Sets the release of Apache ZooKeeper to behave like. Default: [`ZooKeeperVersion::V3_9`].
    pub const fn version(mut self, version: ZooKeeperVersion) -> Self {
        self.config.version = version;
        self
    }

    /// Sets the behaviour after the sequence number 2^31 - 1. Default:
    /// [`SequenceOverflow::Sticks`].
    pub const fn sequence_overflow(mut self, overflow: SequenceOverflow) -> Self {
        self.config.sequence_overflow = overflow;
        self
    }

    /// Sets the superuser (`superDigest`), as a [`crate::digest`] of name and password. Default:
    /// none.
    pub fn super_digest(mut self, digest: impl Into<String>) -> Self {
        self.config.super_digest = Some(digest.into());
        self
    }

    /// Refuses, or allows, writes over the hard limit of a quota (`enforceQuota`). Default:
    /// `false`, as in Apache ZooKeeper. The counts below `/zookeeper/quota` are kept in either
    /// case.
    pub const fn enforce_quotas(mut self, enforce: bool) -> Self {
        self.config.enforce_quotas = enforce;
        self
    }

    /// Starts the server in read-only mode, see [`TestServer::set_read_only`]. A member of a
    /// [`TestCluster`](crate::TestCluster) is then read-only while it has no quorum. Default:
    /// `false`.
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.config.read_only = read_only;
        self
    }

    /// Enables or disables `reconfig` (`reconfigEnabled`). The server never changes its membership.
    /// If enabled, it responds with `Unimplemented`, as a standalone Apache ZooKeeper does, and
    /// `ReconfigDisabled` otherwise. Default: `false`.
    pub const fn reconfig_enabled(mut self, enabled: bool) -> Self {
        self.config.reconfig_enabled = enabled;
        self
    }

    /// Records changes for [`TestServer::writes`], which takes memory. Default: `false`.
    pub const fn keep_writes(mut self, keep: bool) -> Self {
        self.config.keep_writes = keep;
        self
    }

    /// Sets the maximum number of connections per address (`maxClientCnxns`). Further ones are
    /// closed immediately. Clients in memory all have the address 127.0.0.1. Default: no limit.
    pub const fn max_client_connections(mut self, connections: usize) -> Self {
        self.config.max_client_connections = Some(connections);
        self
    }

    /// Sets the initial nodes and sessions. Sessions start with their full timeout, and clients
    /// with the password resume them. Default: only the nodes that every server has.
    pub fn snapshot(mut self, snapshot: Snapshot) -> Self {
        self.snapshot = Some(snapshot);
        self
    }

    /// Returns the settings, and the initial nodes and sessions.
    pub(crate) fn into_parts(self) -> (Config, Option<Snapshot>) {
        (self.config, self.snapshot)
    }

    /// Also listens with TLS on a separate TCP port (`secureClientPort`); 0 is any free port. With
    /// [`TestServerBuilder::tcp`] off there is no port without TLS. Needs the feature `tls`.
    /// Default: no TLS.
    ///
    /// Client certificates are checked, but are not identities for ACLs: there is no scheme `x509`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, port: u16, tls: ServerTls) -> Self {
        self.config.tls = Some((port, tls));
        self
    }

    /// Starts the server on the current tokio runtime, which needs its time driver, and its I/O
    /// driver for TCP.
    ///
    /// # Errors
    /// Errors of binding the TCP port.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start(self) -> io::Result<TestServer> {
        TestServer::with_config(self.config, self.snapshot).await
    }
}
