//! How the clients of a run are set up: a list of [`Setting`]s, drawn by the seed as the faults are.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use zk_curator::compression::{CompressionFailure, CompressionProvider};
use zk_curator::{Acl, CuratorFramework, CuratorFrameworkBuilder};

use super::seed;

/// Deadlines that are drawn.
const DEADLINES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(300), Duration::from_secs(2)];

/// Something that differs from the defaults of a framework, or of the servers. Clients are counted from zero.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// All clients work below this path, which is their [`namespace`](CuratorFrameworkBuilder::namespace) unless another
    /// setting says otherwise.
    Below(String),
    /// The path that a client works below is the chroot of its connect string.
    Chroot {
        /// Which client.
        client: u32,
    },
    /// The first part of the path that a client works below is the chroot of its connect string, and the rest its namespace.
    ChrootAndNamespace {
        /// Which client.
        client: u32,
    },
    /// All clients compress what they write.
    Compressed,
    /// All clients have an identity, and what they create is for nobody else.
    Private,
    /// Every operation of a client has a [deadline](CuratorFrameworkBuilder::operation_deadline), retries included.
    Deadline {
        /// Which client.
        client: u32,
        /// The deadline.
        after: Duration,
    },
    /// Every operation through the handles that a client works with has a [deadline](CuratorFramework::with_deadline), retries
    /// included; other operations of its frameworks have none.
    HandleDeadline {
        /// Which client.
        client: u32,
        /// The deadline.
        after: Duration,
    },
    /// The ids that clients [choose](crate::Client::id) are a few, used again and again.
    FewIds,
    /// Servers without a quorum are read-only.
    ReadOnlyServers,
    /// The servers know no lasting watches, as those before 3.6.
    NoLastingWatches,
    /// A client is content with a server that is read-only.
    ReadOnlyClient {
        /// Which one.
        client: u32,
    },
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(path) => write!(f, "everything is below {path}"),
            Self::Chroot { client } => write!(f, "c{client} has that as its chroot"),
            Self::ChrootAndNamespace { client } => write!(f, "c{client} has a chroot and a namespace"),
            Self::Compressed => f.write_str("all compress what they write"),
            Self::Private => f.write_str("what is created is for the clients alone"),
            Self::Deadline { client, after } => write!(f, "operations of c{client} end after {after:?}"),
            Self::HandleDeadline { client, after } => {
                write!(f, "operations of the handles of c{client} end after {after:?}")
            }
            Self::FewIds => f.write_str("ids are used again"),
            Self::ReadOnlyServers => f.write_str("servers without a quorum are read-only"),
            Self::NoLastingWatches => f.write_str("servers know no lasting watches"),
            Self::ReadOnlyClient { client } => {
                write!(f, "c{client} is content with a server that is read-only")
            }
        }
    }
}

/// The settings of a run, in an order that does not change when some are left out. About a seventh of the runs
/// have none.
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

/// Half of the runs have none.
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
        settings.extend((0..clients).filter(|_| rng.bool()).map(|client| Setting::ReadOnlyClient { client }));
    }
    settings
}

/// In a third of the runs, for some of the clients: from less than a reconnect takes to nearly a session.
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

/// What the settings make of one client.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manner {
    chroot: String,
    namespace: String,
    compressed: bool,
    private: bool,
    few_ids: bool,
    read_only: bool,
    deadline: Option<Duration>,
    handle_deadline: Option<Duration>,
}

impl Manner {
    /// Of a client with this number.
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

    /// Whether it uses ids again.
    pub(super) const fn has_few_ids(&self) -> bool {
        self.few_ids
    }

    /// Whether its operations have a deadline.
    pub(super) const fn has_deadline(&self) -> bool {
        self.deadline.is_some() || self.handle_deadline.is_some()
    }

    /// The handle to work with, of a framework of this manner.
    pub(super) fn handle(&self, zk: CuratorFramework) -> CuratorFramework {
        match self.handle_deadline {
            Some(deadline) => zk.with_deadline(deadline),
            None => zk,
        }
    }

    /// A framework of this manner, for these servers.
    pub(super) fn apply(&self, builder: CuratorFrameworkBuilder, servers: &str) -> CuratorFrameworkBuilder {
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
            builder = builder.authorization("digest", "clients:secret").acl_provider(Acl::creator_all());
        }
        builder
    }
}

/// The path that everything is below; empty if that is the root.
pub(super) fn below(settings: &[(usize, Setting)]) -> &str {
    let below = settings.iter().find_map(|(_, setting)| match setting {
        Setting::Below(path) => Some(path.as_str()),
        _ => None,
    });
    below.unwrap_or_default()
}

/// Puts a mark in front of data, without which they are refused: what compresses would do no more to find data that only
/// one side compresses.
#[derive(Debug)]
struct Marked;

const MARK: &[u8] = b"\x1fmarked:";

impl CompressionProvider for Marked {
    fn compress(&self, _: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        Ok([MARK, data].concat().into())
    }

    fn decompress(&self, path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        let plain = data.strip_prefix(MARK);
        // What somebody else has put there from the start.
        let plain = plain.or_else(|| data.is_empty().then_some(data));
        plain.map(Bytes::copy_from_slice).ok_or_else(|| format!("{path} is not compressed").into())
    }
}
