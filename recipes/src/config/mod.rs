//! Configuration: values that change together, and that all clients see together.
//!
//! # Layout
//! ```text
//! /config/orders                    the store: persistent; data `config 1`; its version is the number of updates
//!   ├─ values                       persistent
//!   │    ├─ db.host                 persistent: the value of this key, as it is
//!   │    └─ db.port
//!   └─ history                      persistent
//!        ├─ 0000000041              persistent: the changes of the 41st update: the data before and after
//!        └─ 0000000042              no more than are kept: 10 by default
//! ```
//! Parents of the store are containers, made on first use. Keys are names with dots: `db.host` is
//! below `db`. They are names of nodes, so they have no `/`; and no part of them is empty. A record
//! of the history is text, see its fields in [`Change`].
//!
//! # Protocol
//! 1. An update reads the version of the store from the leader (a `sync` and a read in one round
//!    trip), and then, in the same session, the values that it is to replace and the list of
//!    records.
//! 2. One transaction writes the store, if it still has that version, the values, and a record with
//!    a unique id and the data before and after. It also deletes the records that are no longer
//!    kept. If it is refused, go to 1.
//! 3. If its response is lost, go to 1: if there is a record with its id it is done. The version
//!    makes it impossible that it is done twice, or later.
//! 4. A reader reads the store, then the list of keys, then all values. All nodes of a transaction
//!    have its number (the zxid). So if no value is newer than the store, all of them belong to one
//!    revision. Otherwise it reads the store again and the records in between, and does that again.
//! 5. A follower leaves one watch, on the store. When it fires, it reads the store and the records
//!    since, and no value.
//!
//! Requests, counted at a server. n is the number of values, k the number of keys in an update, u
//! the number of updates that a follower has missed:
//!
//! | | requests | round trips |
//! |---|---|---|
//! | [`snapshot`](ConfigStore::snapshot) | n + 3 | 3 |
//! | [`commit`](Update::commit) of k keys | k + 4 | 3 |
//! | a follower that begins | n + 2 | 3 |
//! | a follower, after updates | u + 1, and one notification | 2 |
//!
//! A follower of one key also pays for updates of other keys. Keep values that change often, or
//! that many clients follow, in stores of their own. An update writes the data before and after in
//! addition to the data, and has to fit into one request, 1 MiB on servers that are not configured
//! otherwise: larger ones are refused with `TooLarge`, unsent.
//!
//! # Guarantees
//! * A [`Snapshot`] is what all values were at its [`Revision`]: no update is seen in part.
//! * What [`snapshot`](ConfigStore::snapshot) returns is not older than any update that had
//!   returned before the call.
//! * A [follower](ConfigStore::follow) sees snapshots in their order, never an earlier one again,
//!   and ends with the newest.
//! * An update is made exactly once, or not at all, and only if its conditions hold at that moment.
//!
//! # Assumptions
//! Clients write to the nodes only by this protocol. A value that is written by hand is not seen by
//! followers until the next update; a reader gets [`Error::Foreign`], until an update sets that
//! value. A store is deleted only while no client writes to it.
//!
//! # Connection loss
//! * SUSPENDED: followers keep their last snapshot. Operations are repeated as the retry policy
//!   says.
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
//! let store = ConfigStore::new(&zk, "/config/orders");
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

mod error;
mod follow;
mod history;
mod read;
mod receive;
mod record;
mod revision;
mod snapshot;
mod store;
mod update;

pub use error::Error;
pub use follow::ConfigWatch;
pub use history::Change;
pub use receive::ConfigValue;
pub use record::ChangedValue;
pub use revision::Revision;
pub use snapshot::{ConfigEntry, Snapshot};
pub use store::ConfigStore;
pub(crate) use store::MAGIC;
pub use update::Update;
