//! The clients and the settings of the comparison.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A client of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::enum_variant_names, reason = "the crate has this name")]
pub(super) enum Client {
    Rust,
    Java,
    Python,
    #[serde(rename = "zookeeper-client")]
    ZookeeperClient,
    #[serde(rename = "zookeeper-async")]
    ZookeeperAsync,
    #[serde(rename = "tokio-zookeeper")]
    TokioZookeeper,
    /// A plain socket of the harness: a lower bound.
    Socket,
}

impl Client {
    pub(super) const ALL: [Self; 6] = [
        Self::Rust,
        Self::Java,
        Self::Python,
        Self::ZookeeperClient,
        Self::ZookeeperAsync,
        Self::TokioZookeeper,
    ];

    /// The frameworks, which most tables compare.
    pub(super) const FRAMEWORKS: [Self; 3] = [Self::Rust, Self::Java, Self::Python];

    /// The Rust clients of other authors.
    pub(super) const RUST_CLIENTS: [Self; 3] =
        [Self::ZookeeperClient, Self::ZookeeperAsync, Self::TokioZookeeper];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Java => "java",
            Self::Python => "python",
            Self::ZookeeperClient => "zookeeper-client",
            Self::ZookeeperAsync => "zookeeper-async",
            Self::TokioZookeeper => "tokio-zookeeper",
            Self::Socket => "socket",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Rust => "zk-curator",
            Self::Java => "Curator",
            Self::Python => "kazoo",
            Self::ZookeeperClient | Self::ZookeeperAsync | Self::TokioZookeeper => self.name(),
            Self::Socket => "a plain socket",
        }
    }
}

impl FromStr for Client {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|client| client.name() == text);
        found.ok_or_else(|| format!("there is no client {text}"))
    }
}

/// The network between clients and server, and the disk of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Setting {
    /// The same machine; the server does not wait for its disk.
    Loopback,
    /// The same machine; every write waits for the disk.
    Fsync,
    /// Every packet is 1 ms on its way, in each direction; the server does not wait for its disk.
    Distant,
}

impl Setting {
    pub(super) const ALL: [Self; 3] = [Self::Loopback, Self::Distant, Self::Fsync];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Fsync => "fsync",
            Self::Distant => "distant",
        }
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|setting| setting.name() == text);
        found.ok_or_else(|| format!("there is no setting {text}"))
    }
}
