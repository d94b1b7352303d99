//! The settings of a server.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use zk_curator_proto::DEFAULT_MAX_FRAME;

use crate::tls::ServerTls;
use crate::{SequenceOverflow, Snapshot, TestServer, ZooKeeperVersion};

/// The longest session timeout unless set: that of Apache ZooKeeper's default configuration.
const LONGEST: Duration = Duration::from_secs(40);

#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) tcp: bool,
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    /// The port with TLS, and who the server is there.
    pub(crate) tls: Option<(u16, ServerTls)>,
    pub(crate) tick_time: Duration,
    pub(crate) min_session_timeout: Option<Duration>,
    pub(crate) max_session_timeout: Option<Duration>,
    pub(crate) max_frame: usize,
    pub(crate) max_backlog: usize,
    pub(crate) session_within: Duration,
    pub(crate) container_check_interval: Duration,
    pub(crate) max_never_used_interval: Option<Duration>,
    pub(crate) wall_clock: Option<SystemTime>,
    pub(crate) seed: Option<u64>,
    pub(crate) version: ZooKeeperVersion,
    pub(crate) sequence_overflow: SequenceOverflow,
    pub(crate) super_digest: Option<String>,
    pub(crate) enforce_quotas: bool,
    pub(crate) read_only: bool,
    pub(crate) reconfig_enabled: bool,
    pub(crate) keep_writes: bool,
    pub(crate) max_client_connections: Option<usize>,
}

impl Config {
    pub(crate) const DEFAULT: Self = Self {
        tcp: true,
        host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 0,
        tls: None,
        tick_time: Duration::from_millis(10),
        min_session_timeout: None,
        max_session_timeout: None,
        max_frame: DEFAULT_MAX_FRAME,
        max_backlog: 16 << 20,
        session_within: Duration::from_secs(10),
        container_check_interval: Duration::from_secs(60),
        max_never_used_interval: None,
        wall_clock: None,
        seed: None,
        version: ZooKeeperVersion::V3_9,
        sequence_overflow: SequenceOverflow::Sticks,
        super_digest: None,
        enforce_quotas: false,
        read_only: false,
        reconfig_enabled: false,
        keep_writes: false,
        max_client_connections: None,
    };

    /// The shortest and the longest session timeout.
    pub(crate) fn session_timeouts(&self) -> (Duration, Duration) {
        let shortest = self.min_session_timeout.unwrap_or(self.tick_time * 2);
        let longest = self.max_session_timeout.unwrap_or_else(|| LONGEST.max(self.tick_time * 20));
        (shortest, longest)
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
    pub(crate) const fn new() -> Self {
        Self { config: Config::DEFAULT, snapshot: None }
    }

    /// Whether to listen on TCP. Default: yes. The in-memory network is always there.
    pub const fn tcp(mut self, listen: bool) -> Self {
        self.config.tcp = listen;
        self
    }

    /// The address to listen on, for TCP. Default: 127.0.0.1, which only this machine reaches.
    pub const fn host(mut self, host: IpAddr) -> Self {
        self.config.host = host;
        self
    }

    /// The TCP port. Default: 0, any free one.
    pub const fn port(mut self, port: u16) -> Self {
        self.config.port = port;
        self
    }

    /// The granularity of session expiry (`tickTime`), in whole milliseconds, at least one. A session
    /// expires at the first tick after its timeout. Default: 10 ms; Apache ZooKeeper's is 2 s.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.config.tick_time = tick.max(Duration::from_millis(1));
        self
    }

    /// The shortest session timeout a client can have (`minSessionTimeout`). Default: two ticks.
    pub const fn min_session_timeout(mut self, shortest: Duration) -> Self {
        self.config.min_session_timeout = Some(shortest);
        self
    }

    /// The longest session timeout a client can have (`maxSessionTimeout`). Default: 20 ticks, but at least
    /// 40 s, which is 20 of Apache ZooKeeper's ticks.
    pub const fn max_session_timeout(mut self, longest: Duration) -> Self {
        self.config.max_session_timeout = Some(longest);
        self
    }

    /// The longest frame a client may send (`jute.maxbuffer`), in bytes. A longer one ends the connection.
    /// Default: [`DEFAULT_MAX_FRAME`].
    pub const fn max_frame(mut self, bytes: usize) -> Self {
        self.config.max_frame = bytes;
        self
    }

    /// How many bytes may wait in the server for a client that does not read. Above 1 MiB its requests wait, too; when
    /// watch events go beyond this limit, it is disconnected. So is a client that asks for more in one multi read.
    /// Apache ZooKeeper has no such limit. Default: 16 MiB.
    pub const fn max_backlog(mut self, bytes: usize) -> Self {
        self.config.max_backlog = bytes;
        self
    }

    /// How long a connection may be without a session: one that sends nothing, or never the whole of a handshake or
    /// of a four-letter word, is closed then (`zookeeper.nio.sessionlessCnxnTimeout`). The time of
    /// [`TestServer::hold`] and [`TestServer::partition`] is not held against it. Default: 10 s, as in Apache ZooKeeper.
    pub const fn session_within(mut self, time: Duration) -> Self {
        self.config.session_within = time;
        self
    }

    /// How often empty containers and outlived nodes are removed (`znode.container.checkIntervalMs`).
    /// Default: one minute.
    pub const fn container_check_interval(mut self, interval: Duration) -> Self {
        self.config.container_check_interval = interval;
        self
    }

    /// After which time a container that never had a child is removed too
    /// (`znode.container.maxNeverUsedIntervalMs`). Default: never, as in Apache ZooKeeper 3.9.
    pub const fn max_never_used_interval(mut self, interval: Duration) -> Self {
        self.config.max_never_used_interval = Some(interval);
        self
    }

    /// What the server's wall clock shows when it starts; from then on it follows tokio's clock. Default: the
    /// time of day. Fix it to have the same `ctime` and `mtime` in every run of a simulation.
    pub const fn wall_clock(mut self, start: SystemTime) -> Self {
        self.config.wall_clock = Some(start);
        self
    }

    /// Makes the ids and passwords of sessions a function of `seed`, for the same bytes in every run of a simulation.
    /// Default: they are random.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.config.seed = Some(seed);
        self
    }

    /// Which Apache ZooKeeper the server behaves like. Default: [`ZooKeeperVersion::V3_9`].
    pub const fn version(mut self, version: ZooKeeperVersion) -> Self {
        self.config.version = version;
        self
    }

    /// What follows the sequence number 2^31 - 1. Default: [`SequenceOverflow::Sticks`].
    pub const fn sequence_overflow(mut self, overflow: SequenceOverflow) -> Self {
        self.config.sequence_overflow = overflow;
        self
    }

    /// Who may do everything (`superDigest`): a [`crate::digest`] of its name and password. Default: nobody.
    pub fn super_digest(mut self, digest: impl Into<String>) -> Self {
        self.config.super_digest = Some(digest.into());
        self
    }

    /// Whether writes over the hard limit of a quota are refused (`enforceQuota`). Default: no, as on Apache
    /// ZooKeeper; the counts below `/zookeeper/quota` are kept in either case.
    pub const fn enforce_quotas(mut self, enforce: bool) -> Self {
        self.config.enforce_quotas = enforce;
        self
    }

    /// Whether the server is read-only when it starts, see [`TestServer::set_read_only`]; of a member of a
    /// [`TestCluster`](crate::TestCluster), whether it is while it has no quorum. Default: no.
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.config.read_only = read_only;
        self
    }

    /// Whether `reconfig` is enabled (`reconfigEnabled`). This server changes no membership: it answers
    /// `Unimplemented` then, as Apache ZooKeeper does when it stands alone; otherwise `ReconfigDisabled`. Default: no,
    /// as there.
    pub const fn reconfig_enabled(mut self, enabled: bool) -> Self {
        self.config.reconfig_enabled = enabled;
        self
    }

    /// Whether [`TestServer::writes`] remembers what was done to which nodes, which takes memory. Default: no.
    pub const fn keep_writes(mut self, keep: bool) -> Self {
        self.config.keep_writes = keep;
        self
    }

    /// How many connections one address may have (`maxClientCnxns`); one more is closed at once. Clients in
    /// memory all have the address 127.0.0.1. Default: no limit.
    pub const fn max_client_connections(mut self, connections: usize) -> Self {
        self.config.max_client_connections = Some(connections);
        self
    }

    /// What the server has when it starts. Sessions have their whole timeout from then on, and clients that have the
    /// password take them up again. Default: nothing but the nodes of every server.
    pub fn snapshot(mut self, snapshot: Snapshot) -> Self {
        self.snapshot = Some(snapshot);
        self
    }

    pub(crate) fn into_parts(self) -> (Config, Option<Snapshot>) {
        (self.config, self.snapshot)
    }

    /// Listens with TLS, too, on a TCP port of its own as Apache ZooKeeper does (`secureClientPort`); 0 is any free one.
    /// With [`TestServerBuilder::tcp`] off there is no port without TLS. Needs the feature `tls`. Default: no TLS.
    ///
    /// Certificates of clients are checked, but not known to ACLs: there is no scheme `x509`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, port: u16, tls: ServerTls) -> Self {
        self.config.tls = Some((port, tls));
        self
    }

    /// Starts the server on the current tokio runtime, which needs its time driver, and its I/O driver for TCP.
    ///
    /// # Errors
    /// Those of binding the TCP port.
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
