//! The state, the metrics and the configuration of a server: `srvr`, `mntr`, `conf`.

use std::collections::BTreeMap;
use std::fmt;

use super::id::id;

/// The role of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerMode {
    Standalone,
    Leader,
    Follower,
    Observer,
    ReadOnly,
    Other(String),
}

impl ServerMode {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "standalone" => Self::Standalone,
            "leader" => Self::Leader,
            "follower" => Self::Follower,
            "observer" => Self::Observer,
            "read-only" => Self::ReadOnly,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Returns `true` if the server orders the writes.
    pub(crate) const fn leads(&self) -> bool {
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

/// The response to `srvr`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Srvr {
    pub(crate) version: Option<String>,
    pub(crate) read_only: bool,
    /// The average latency, in milliseconds, and the greatest.
    pub(crate) latency: Option<(f64, f64)>,
    pub(crate) received: Option<u64>,
    pub(crate) sent: Option<u64>,
    pub(crate) connections: Option<u64>,
    pub(crate) outstanding: Option<u64>,
    pub(crate) zxid: Option<i64>,
    pub(crate) mode: Option<ServerMode>,
    pub(crate) nodes: Option<u64>,
}

impl Srvr {
    /// Parses the response; `None` if it is none to `srvr`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
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
                "Zxid" => srvr.zxid = id(value),
                "Mode" => srvr.mode = Some(ServerMode::parse(value)),
                "Node count" => srvr.nodes = value.parse().ok(),
                _ => {}
            }
        }
        (srvr.version.is_some() || srvr.mode.is_some()).then_some(srvr)
    }

    /// Returns the number of the version, without the build.
    pub(crate) fn release(&self) -> Option<&str> {
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
pub(crate) struct Mntr {
    pub(crate) metrics: BTreeMap<String, String>,
}

impl Mntr {
    /// Parses the response; `None` if it has no metric.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let metric = |line: &str| {
            let (name, value) = line.split_once(|c: char| c.is_ascii_whitespace())?;
            name.starts_with("zk_").then(|| (name.to_owned(), value.trim().to_owned()))
        };
        let metrics: BTreeMap<_, _> = text.lines().filter_map(metric).collect();
        (!metrics.is_empty()).then_some(Self { metrics })
    }

    /// Returns a metric, by its name without the prefix.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.metrics.get(&format!("zk_{name}")).map(String::as_str)
    }

    /// Returns a metric that is a finite number, by its name without the prefix.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Returns a metric that is a count, by its name without the prefix.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

/// The response to `conf`: settings by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Conf {
    pub(crate) settings: BTreeMap<String, String>,
}

impl Conf {
    /// Parses the response; `None` if it has no setting.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let setting = |line: &str| {
            let (name, value) = line.split_once('=')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        let settings: BTreeMap<_, _> = text.lines().filter_map(setting).collect();
        (!settings.is_empty()).then_some(Self { settings })
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.settings.get(name)?.parse().ok()
    }

    /// Returns the id of the server.
    pub(crate) fn server_id(&self) -> Option<u64> {
        self.number("serverId").or_else(|| self.number("server_id"))
    }

    /// Returns the lines of the members, as in `/zookeeper/config`.
    pub(crate) fn membership(&self) -> String {
        let members = self.settings.iter().filter(|(name, _)| name.starts_with("server."));
        members.map(|(name, value)| format!("{name}={value}\n")).collect()
    }
}
