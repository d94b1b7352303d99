//! The state, the metrics and the configuration of a server: `srvr`, `mntr`, `conf`.

use std::collections::BTreeMap;
use std::fmt;

use crate::node::parse_id;

/// The role of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum ServerMode {
    /// The only server, without an ensemble.
    Standalone,
    /// It orders the writes of an ensemble.
    Leader,
    /// It follows the leader, and votes.
    Follower,
    /// It follows the leader without a vote.
    Observer,
    /// It has no quorum, and only serves reads.
    ReadOnly,
    /// A role that is not known here, in the words of the server.
    Other(String),
}

impl ServerMode {
    /// Parses the role as `srvr` and `mntr` write it.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "standalone" => Self::Standalone,
            "leader" => Self::Leader,
            "follower" => Self::Follower,
            "observer" => Self::Observer,
            "read-only" => Self::ReadOnly,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Returns `true` if the server orders the writes: a leader, or a standalone server.
    #[must_use]
    pub const fn leads(&self) -> bool {
        matches!(self, Self::Leader | Self::Standalone)
    }
}

impl fmt::Display for ServerMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standalone => "standalone",
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::ReadOnly => "read-only",
            Self::Other(other) => other,
        })
    }
}

/// The response to `srvr`. A value is `None` if the server does not report it.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SrvrResponse {
    /// The version, with the build.
    pub version: Option<String>,
    /// `true` in read-only mode.
    pub read_only: bool,
    /// The average latency since the start of the server, in milliseconds, and the greatest.
    pub latency: Option<(f64, f64)>,
    /// The requests received since the start.
    pub received: Option<u64>,
    /// The responses and events sent since the start.
    pub sent: Option<u64>,
    /// The number of connections.
    pub connections: Option<u64>,
    /// The number of requests without a response.
    pub outstanding: Option<u64>,
    /// The last transaction that the server has applied.
    pub zxid: Option<i64>,
    /// The role.
    pub mode: Option<ServerMode>,
    /// The number of nodes.
    pub nodes: Option<u64>,
}

impl SrvrResponse {
    /// Parses the response; `None` if it has neither a version nor a role.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut srvr = Self::default();
        for line in text.lines() {
            if line.starts_with("READ-ONLY mode") {
                srvr.read_only = true;
            }
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key.trim() {
                "Zookeeper version" | "ClickHouse Keeper version" => {
                    srvr.version = Some(value.to_owned());
                }
                "Latency min/avg/max" => srvr.latency = latency(value),
                "Received" => srvr.received = value.parse().ok(),
                "Sent" => srvr.sent = value.parse().ok(),
                "Connections" => srvr.connections = value.parse().ok(),
                "Outstanding" => srvr.outstanding = value.parse().ok(),
                "Zxid" => srvr.zxid = parse_id(value).ok(),
                "Mode" => srvr.mode = Some(ServerMode::parse(value)),
                "Node count" => srvr.nodes = value.parse().ok(),
                _ => {}
            }
        }
        (srvr.version.is_some() || srvr.mode.is_some()).then_some(srvr)
    }

    /// Returns the number of the version, without the build.
    #[must_use]
    pub fn release(&self) -> Option<&str> {
        self.version.as_deref().map(release)
    }
}

/// Returns the number at the start of a version: `3.9.3` of `3.9.3-abc, built on …`.
pub(crate) fn release(version: &str) -> &str {
    version.split(['-', ',', ' ']).next().unwrap_or(version)
}

/// Returns the average and the greatest of `min/avg/max`.
fn latency(text: &str) -> Option<(f64, f64)> {
    let mut numbers = text.split('/').skip(1).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The response to `mntr`: metrics by name, with the prefix `zk_`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MntrResponse {
    /// The metrics, as the server writes them.
    pub metrics: BTreeMap<String, String>,
}

impl MntrResponse {
    /// Parses the response; `None` if it has no metric.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let metric = |line: &str| {
            let (name, value) = line.split_once(|c: char| c.is_ascii_whitespace())?;
            name.starts_with("zk_").then(|| (name.to_owned(), value.trim().to_owned()))
        };
        let metrics: BTreeMap<_, _> = text.lines().filter_map(metric).collect();
        (!metrics.is_empty()).then_some(Self { metrics })
    }

    /// Returns a metric, by its name without the prefix.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.metrics.get(&format!("zk_{name}")).map(String::as_str)
    }

    /// Returns a metric that is a finite number, by its name without the prefix.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Returns a metric that is a count, by its name without the prefix.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

/// The response to `conf`: settings by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ConfResponse {
    /// The settings, as the server writes them.
    pub settings: BTreeMap<String, String>,
}

impl ConfResponse {
    /// Parses the response; `None` if it has no setting.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let setting = |line: &str| {
            let (name, value) = line.split_once('=')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        let settings: BTreeMap<_, _> = text.lines().filter_map(setting).collect();
        (!settings.is_empty()).then_some(Self { settings })
    }

    /// Returns a setting that is a whole number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.settings.get(name)?.parse().ok()
    }

    /// Returns the id of the server.
    #[must_use]
    pub fn server_id(&self) -> Option<u64> {
        self.number("serverId").or_else(|| self.number("server_id"))
    }

    /// Returns the lines of the members, as in `/zookeeper/config`.
    #[must_use]
    pub fn membership(&self) -> String {
        let members = self.settings.iter().filter(|(name, _)| name.starts_with("server."));
        members.map(|(name, value)| format!("{name}={value}\n")).collect()
    }
}
