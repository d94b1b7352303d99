//! [`Config`]: the settings of a server.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use zk_curator_proto::DEFAULT_MAX_FRAME;

use crate::tls::ServerTls;
use crate::version::{SequenceOverflow, ZooKeeperVersion};

/// The longest session timeout unless set: that of Apache ZooKeeper's default configuration.
const LONGEST: Duration = Duration::from_secs(40);

/// The settings of a server; [`TestServerBuilder`](crate::TestServerBuilder) documents each.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) tcp: bool,
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    /// The port with TLS, and its configuration.
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

    /// Returns the shortest and the longest session timeout.
    pub(crate) fn session_timeouts(&self) -> (Duration, Duration) {
        let shortest = self.min_session_timeout.unwrap_or_else(|| self.tick_time.saturating_mul(2));
        let longest = self
            .max_session_timeout
            .unwrap_or_else(|| LONGEST.max(self.tick_time.saturating_mul(20)));
        (shortest, longest)
    }
}
