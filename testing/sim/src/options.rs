//! The settings of clients and servers in a run: a list of [`Setting`]s, drawn from the seed as the
//! faults are.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use zk_curator::compression::{CompressionFailure, CompressionProvider};
use zk_curator::{Acl, CuratorFramework, CuratorFrameworkBuilder};

use super::seed;

/// The deadlines to draw from.
const DEADLINES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(300), Duration::from_secs(2)];

/// A setting that differs from the defaults of a framework, or of the servers. Clients are counted
/// from zero.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// All clients work below this path, which is their
    /// [`namespace`](CuratorFrameworkBuilder::namespace) unless another setting says otherwise.
    Below(String),
    /// The path that a client works below is the chroot of its connect string.
    Chroot {
        /// The number of the client.
        client: u32,
    },
    /// The first part of the path that a client works below is the chroot of its connect string,
    /// and the rest its namespace.
    ChrootAndNamespace {
        /// The number of the client.
        client: u32,
    },
    /// All clients compress what they write.
    Compressed,
    /// All clients have an identity, and only they have access to the nodes that they create.
    Private,
    /// Every operation of a client has a [deadline](CuratorFrameworkBuilder::operation_deadline),
    /// retries included.
    Deadline {
        /// The number of the client.
        client: u32,
        /// The deadline.
        after: Duration,
    },
    /// Every operation through the handles that a client works with has a
    /// [deadline](CuratorFramework::with_deadline), retries included. Other operations of its
    /// frameworks have none.
    HandleDeadline {
        /// The number of the client.
        client: u32,
        /// The deadline.
        after: Duration,
    },
    /// The ids that clients [choose](crate::Client::id) are a few, which are used repeatedly.
    FewIds,
    /// Servers without a quorum are read-only.
    ReadOnlyServers,
    /// The servers do not support persistent watches, like servers before 3.6.
    NoLastingWatches,
    /// A client accepts a read-only server.
    ReadOnlyClient {
        /// The number of the client.
        client: u32,
    },
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(path) => write!(f, "everything is below {path}"),
            Self::Chroot { client } => write!(f, "c{client} has this path as its chroot"),
            Self::ChrootAndNamespace { client } => {
                write!(f, "c{client} has a chroot and a namespace")
            }
            Self::Compressed => f.write_str("all compress what they write"),
            Self::Private => f.write_str("only the clients have access to the created nodes"),
            Self::Deadline { client, after } => {
                write!(f, "operations of c{client} end after {after:?}")
            }
            Self::HandleDeadline { client, after } => {
                write!(f, "operations of the handles of c{client} end after {after:?}")
            }
            Self::FewIds => f.write_str("ids are used repeatedly"),
            Self::ReadOnlyServers => f.write_str("servers without a quorum are read-only"),
            Self::NoLastingWatches => f.write_str("servers know no persistent watches"),
            Self::ReadOnlyClient { client } => {
                write!(f, "c{client} accepts a read-only server")
            }
        }
    }
}

/// Draws the settings of a run. Their order does not change when some are left out. About a seventh
/// of the runs have none.
pub(super) fn draw(seed: u64, clients: u32) -> Vec<Setting> {
    let mut settings = draw_layout(seed, clients);
    settings.extend(draw_deadlines(seed, clients));
    if seed::rng(seed, "ids", 0).bool() {
        settings.push(Setting::FewIds);
    }
    if seed::rng(seed, "watches", 0).u8(..6) == 0 {
        settings.push(Setting::NoLastingWatches);
    }
    settings
}

/// Draws the settings of paths, data and read-only servers. Half of the runs have none.
fn draw_layout(seed: u64, clients: u32) -> Vec<Setting> {
    let mut rng = seed::rng(seed, "settings", 0);
    let mut settings = Vec::new();
    if rng.bool() {
        return settings;
    }
    if rng.bool() {
        settings.push(Setting::Below(["/tenant", "/tenants/a"][rng.usize(..2)].to_owned()));
        settings.extend((0..clients).filter_map(|client| match rng.u8(..3) {
            0 => Some(Setting::Chroot { client }),
            1 => Some(Setting::ChrootAndNamespace { client }),
            _ => None,
        }));
    }
    if rng.u8(..3) == 0 {
        settings.push(Setting::Compressed);
    }
    if rng.u8(..3) == 0 {
        settings.push(Setting::Private);
    }
    if rng.bool() {
        settings.push(Setting::ReadOnlyServers);
        settings.extend(
            (0..clients).filter(|_| rng.bool()).map(|client| Setting::ReadOnlyClient { client }),
        );
    }
    settings
}

/// Draws deadlines for some of the clients, in a third of the runs: from less than a reconnect
/// takes to nearly a session timeout.
fn draw_deadlines(seed: u64, clients: u32) -> Vec<Setting> {
    let mut rng = seed::rng(seed, "deadlines", 0);
    if rng.u8(..3) > 0 {
        return Vec::new();
    }
    let of_client = |client| {
        let after = DEADLINES[rng.usize(..DEADLINES.len())];
        match rng.u8(..4) {
            0 => Some(Setting::Deadline { client, after }),
            1 => Some(Setting::HandleDeadline { client, after }),
            _ => None,
        }
    };
    (0..clients).filter_map(of_client).collect()
}

/// The settings of one client.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientSettings {
    chroot: String,
    namespace: String,
    compressed: bool,
    private: bool,
    few_ids: bool,
    read_only: bool,
    deadline: Option<Duration>,
    handle_deadline: Option<Duration>,
}

impl ClientSettings {
    /// Returns the settings of the client with this number.
    pub(super) fn of(number: u32, settings: &[(usize, Setting)]) -> Self {
        let has = |setting: &Setting| settings.iter().any(|(_, other)| other == setting);
        let below = below(settings);
        let first = below.get(1..).and_then(|rest| rest.find('/')).map_or(below.len(), |at| at + 1);
        let split = match () {
            () if has(&Setting::Chroot { client: number }) => below.len(),
            () if has(&Setting::ChrootAndNamespace { client: number }) => first,
            () => 0,
        };
        let (chroot, namespace) = below.split_at(split);
        Self {
            chroot: chroot.to_owned(),
            namespace: namespace.trim_start_matches('/').to_owned(),
            compressed: has(&Setting::Compressed),
            private: has(&Setting::Private),
            few_ids: has(&Setting::FewIds),
            read_only: has(&Setting::ReadOnlyClient { client: number }),
            deadline: settings.iter().find_map(|(_, setting)| match setting {
                Setting::Deadline { client, after } if *client == number => Some(*after),
                _ => None,
            }),
            handle_deadline: settings.iter().find_map(|(_, setting)| match setting {
                Setting::HandleDeadline { client, after } if *client == number => Some(*after),
                _ => None,
            }),
        }
    }

    /// Returns `true` if the client uses ids repeatedly.
    pub(super) const fn has_few_ids(&self) -> bool {
        self.few_ids
    }

    /// Returns `true` if the operations of the client have a deadline.
    pub(super) const fn has_deadline(&self) -> bool {
        self.deadline.is_some() || self.handle_deadline.is_some()
    }

    /// Returns the handle of a framework that the client should work with.
    pub(super) fn handle(&self, zk: CuratorFramework) -> CuratorFramework {
        match self.handle_deadline {
            Some(deadline) => zk.with_deadline(deadline),
            None => zk,
        }
    }

    /// Applies the settings to the builder of a framework for these servers.
    pub(super) fn apply(
        &self,
        builder: CuratorFrameworkBuilder,
        servers: &str,
    ) -> CuratorFrameworkBuilder {
        let mut builder =
            builder.connect_string(format!("{servers}{}", self.chroot)).read_only(self.read_only);
        if !self.namespace.is_empty() {
            builder = builder.namespace(&self.namespace);
        }
        if let Some(deadline) = self.deadline {
            builder = builder.operation_deadline(deadline);
        }
        if self.compressed {
            builder = builder.compression_provider(Marked).enable_compression();
        }
        if self.private {
            builder =
                builder.authorization("digest", "clients:secret").acl_provider(Acl::creator_all());
        }
        builder
    }
}

/// Returns the path that all nodes are below; empty for the root.
pub(super) fn below(settings: &[(usize, Setting)]) -> &str {
    let below = settings.iter().find_map(|(_, setting)| match setting {
        Setting::Below(path) => Some(path.as_str()),
        _ => None,
    });
    below.unwrap_or_default()
}

/// A compression that puts a mark in front of data, and refuses data without it. A real compression
/// would not find more errors of a client that compresses only one way.
#[derive(Debug)]
struct Marked;

const MARK: &[u8] = b"\x1fmarked:";

impl CompressionProvider for Marked {
    fn compress(&self, _: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        Ok([MARK, data].concat().into())
    }

    fn decompress(&self, path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        let plain = data.strip_prefix(MARK);
        // A node that existed from the start has empty data.
        let plain = plain.or_else(|| data.is_empty().then_some(data));
        plain.map(Bytes::copy_from_slice).ok_or_else(|| format!("{path} is not compressed").into())
    }
}
