//! Configuration: values that change together, and that everybody sees together.
//!
//! # Layout
//! ```text
//! /config/orders                    the store: persistent; data `config 1`; its version is the number of updates
//!   ├─ values                       persistent
//!   │    ├─ db.host                 persistent: the value of this key, as it is
//!   │    └─ db.port
//!   └─ history                      persistent
//!        ├─ 0000000041              persistent: what the 41st update has changed: the data before and after
//!        └─ 0000000042              no more than are kept: 10 by default
//! ```
//! Parents of the store are containers, made on first use. Keys are names with dots: `db.host` is below `db`. They are
//! names of nodes, so they have no `/`; and no part of them is empty. A record of the history is text, see its fields in
//! [`Change`].
//!
//! # Protocol
//! 1. An update reads the version of the store from the leader (a `sync` and a read in one flight), and then, in the same session,
//!    the values that it is to replace and the list of records.
//! 2. One transaction writes the store, if it still has that version; the values; a record with a unique id and the data
//!    before and after; and deletes the records that are not kept any more. If it is refused, go to 1.
//! 3. If its answer is lost, go to 1: if there is a record with its id it is done. The version makes it impossible that it is
//!    done twice, or later.
//! 4. A reader reads the store, then the list of keys, then all values. All nodes of a transaction carry the number of it
//!    (the zxid); so if nothing is newer than the store, all of it was true at once. Otherwise it reads the store
//!    again and the records of what has come in between, and does that again.
//! 5. A follower leaves one watch, on the store. When it fires, it reads the store and the records since, and no value.
//!
//! Requests, counted at a server; n is the number of values, k that of keys in an update, u that of updates that a
//! follower has missed:
//!
//! | | requests | flights |
//! |---|---|---|
//! | [`snapshot`](ConfigStore::snapshot) | n + 3 | 3 |
//! | [`commit`](Update::commit) of k keys | k + 4 | 3 |
//! | a follower that begins | n + 2 | 3 |
//! | a follower, after updates | u + 1, and one notification | 2 |
//!
//! A follower of one key pays for the updates of others, too: what changes often and what is followed by many belongs into
//! stores of their own. An update writes the data before and after beside the data themselves, and has to fit into one
//! request, 1 MiB on servers that are not configured otherwise: larger ones are refused with `TooLarge`, unsent.
//!
//! # Guarantees
//! * A [`Snapshot`] is what all values were at its [`Revision`]: no update is seen in part.
//! * What [`snapshot`](ConfigStore::snapshot) returns is not older than any update that had been answered when it was
//!   asked for.
//! * Who [follows](ConfigStore::follow) sees snapshots in their order, never an earlier one again, and ends with the newest.
//! * An update is made exactly once, or not at all, and only if its conditions hold at that moment.
//!
//! # Assumptions
//! Nobody writes to the nodes but by the protocol. A value that is written by hand is not seen by those who follow until the
//! next update; who reads it gets [`Error::Foreign`], until an update sets that value. A store is deleted only while nobody
//! writes to it.
//!
//! # Connection loss
//! * SUSPENDED: those who follow know what they knew. Operations are repeated as the retry policy says.
//! * LOST: the same. Nothing here belongs to a session.
//!
//! # Cancel safety
//! Every future may be dropped at any point. An update is made, or it is not.
//!
//! # Errors
//! [`Error`].
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::config::ConfigStore;
//!
//! let store = ConfigStore::new(&zk, "/config/orders")?;
//! let first = store.update().set("db.host", "10.0.0.7").set("db.port", 5432).commit().await?;
//!
//! let mut database = store.follow_below("db");
//! let now = database.next().await?;
//! assert_eq!(now.get::<String>("db.host")?.as_deref(), Some("10.0.0.7"));
//! assert_eq!(now.get::<u16>("db.port")?, Some(5432));
//!
//! // Both, and only if nobody has moved it meanwhile.
//! let since = now.entry("db.host").map(|entry| entry.revision);
//! store.update().if_revision("db.host", since).set("db.host", "10.0.0.8").set("db.port", 5433).commit().await?;
//! assert_eq!(database.next().await?.get("db.port")?, Some(5433));
//!
//! store.roll_back(first).await?;
//! assert_eq!(store.snapshot().await?.get("db.port")?, Some(5432));
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod follow;
mod history;
mod read;
mod record;
mod snapshot;
mod update;

use zk_curator::CuratorFramework;
use zk_curator::path::ZPath;

pub use follow::ConfigWatch;
pub use history::{Change, ChangedValue};
pub use snapshot::{Entry, Revision, Snapshot};
pub use update::Update;

use self::read::View;
use crate::contender::child;
use crate::value::Failure;

/// The data of the node of a store.
const MAGIC: &str = "config 1";
/// How often something is tried again because others are faster.
const ROUNDS: usize = 50;
/// How many records are kept by default.
const KEPT: u32 = 10;

/// Typed values with revisions, in the nodes of one store. Cheap to clone. See the [module](self).
#[derive(Debug, Clone)]
pub struct ConfigStore {
    zk: CuratorFramework,
    root: ZPath,
    values: String,
    history: String,
    kept: u32,
}

impl ConfigStore {
    /// The store at a path. Nothing is sent: it is made by its first update.
    ///
    /// # Errors
    /// `InvalidPath`.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Result<Self, zk_curator::Error> {
        let root = ZPath::for_operation("config", path)?;
        let (values, history) = (child(&root, "values"), child(&root, "history"));
        Ok(Self { zk: zk.uncompressed(), root, values, history, kept: KEPT })
    }

    /// How many updates the history keeps, from 1. Default: 10. Every update removes what is too old by the setting of the
    /// process that makes it, up to 100 records at a time; so all who write should agree. Zero is refused by the [commit](Update::commit).
    #[must_use]
    pub fn kept(mut self, updates: u32) -> Self {
        self.kept = updates;
        self
    }

    /// The path of the store.
    #[must_use]
    pub fn path(&self) -> &str {
        self.root.as_str()
    }

    /// All values, as the leader knows them. A store that does not exist has none.
    ///
    /// # Errors
    /// * [`Error::NotAStore`], [`Error::Foreign`].
    /// * [`Error::Busy`] when fifty times in a row more updates were made while it read than the history keeps.
    /// * [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        let view = self.present().await?;
        Ok(self.snapshot_of(view))
    }

    /// Changes that are made together: nothing is sent until they are [committed](Update::commit).
    pub fn update(&self) -> Update {
        Update::new(self.clone())
    }

    /// Follows all values, beginning with those that there are. The store need not exist.
    pub fn follow(&self) -> ConfigWatch {
        ConfigWatch::new(self.clone(), None)
    }

    /// Follows one key and those below it: `db`, `db.host`, but not `dbs`. The snapshots have no others. A key that is not
    /// valid is refused by the first [`next`](ConfigWatch::next).
    pub fn follow_below(&self, key: impl Into<String>) -> ConfigWatch {
        ConfigWatch::new(self.clone(), Some(key.into()))
    }

    fn snapshot_of(&self, view: View) -> Snapshot {
        let revision = view.root.map_or(Revision::NONE, |root| root.revision);
        Snapshot { path: self.values.clone(), revision, entries: view.entries }
    }

    fn value_path(&self, key: &str) -> String {
        format!("{}/{key}", self.values)
    }

    fn record_path(&self, version: i32) -> String {
        format!("{}/{version:010}", self.history)
    }

    fn check_key(&self, key: &str) -> Result<(), Error> {
        let is_name = !key.contains('/') && ZPath::for_operation("update", self.value_path(key)).is_ok();
        if is_name && key.split('.').all(|part| !part.is_empty()) {
            Ok(())
        } else {
            Err(Error::InvalidKey { path: self.path().to_owned(), key: key.to_owned() })
        }
    }
}

/// Why something could not be read or changed.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A value is not the one that an update was to replace. Nothing was changed.
    #[error("{path} was to have {}, and has {}", revision(expected), revision(found))]
    Conflict {
        /// The path of the value.
        path: String,
        /// What was expected; `None` for no value.
        expected: Option<Revision>,
        /// What there is.
        found: Option<Revision>,
    },
    /// The store is not as an update has expected it. Nothing was changed.
    #[error("{path} was to have revision {expected}, and has {found}")]
    Changed {
        /// The path of the store.
        path: String,
        /// What was expected.
        expected: Revision,
        /// What there is.
        found: Revision,
    },
    /// A setting is zero that has to be one at least.
    #[error("{path}: {setting} cannot be 0")]
    Zero {
        /// The path of the store.
        path: String,
        /// The name of the setting.
        setting: &'static str,
    },
    /// An update without changes.
    #[error("nothing is to be changed in {path}")]
    NoChanges {
        /// The path of the store.
        path: String,
    },
    /// It cannot be the name of a node, or has an empty part.
    #[error("{key:?} is no key for {path}")]
    InvalidKey {
        /// The path of the store.
        path: String,
        /// The key.
        key: String,
    },
    /// Others have written faster, many times in a row. Nothing was changed.
    #[error("{path} changes too fast")]
    Busy {
        /// The path of the store.
        path: String,
    },
    /// A revision that is not in the history, or not any more.
    #[error("{path} keeps no revision {revision}")]
    NotKept {
        /// The path of the store.
        path: String,
        /// The revision.
        revision: Revision,
    },
    /// There is something else at the path of the store.
    #[error("{path} is no store")]
    NotAStore {
        /// The path.
        path: String,
    },
    /// A value was written by hand, not by an update.
    #[error("{path} was not written by an update")]
    Foreign {
        /// The path of the value.
        path: String,
    },
    /// A value is not of the type that was asked for.
    #[error("{path} is no value of this type")]
    Undecodable {
        /// The path of the value.
        path: String,
        /// Why.
        source: Failure,
    },
    /// A value that was to be set cannot be written.
    #[error("{path} cannot be set to this value")]
    Unencodable {
        /// The path of the value.
        path: String,
        /// Why.
        source: Failure,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

fn revision(of: &Option<Revision>) -> String {
    of.map_or_else(|| "no value".to_owned(), |revision| format!("revision {revision}"))
}

impl Error {
    /// Whether the update may have been made although it failed here.
    #[must_use]
    pub const fn may_have_applied(&self) -> bool {
        matches!(self, Self::Framework(error) if error.may_have_applied())
    }
}
