//! Recognises recipes by their nodes: who holds a lock and who waits, which session they belong to,
//! and likely problems.
//!
//! It needs only the permission to read, and changes nothing. It recognises the layouts of this
//! crate, of Apache Curator, of kazoo and of ZooKeeper's own recipes.
//!
//! # Layout
//! A recipe is recognised by the names of its children, by its data, or by its directories:
//!
//! | recipe | nodes |
//! |---|---|
//! | mutex, `LeaderSelector`, kazoo's `Lock` and `Election` | `lock-N`, `<hex>__lock__N` |
//! | read/write lock | `__READ__N`, `__WRIT__N`; kazoo `__rlock__N`, `__lock__N`; revocable `read-N`, `write-N` |
//! | semaphore | `locks` and `leases`; kazoo `<hex>`, and the limit as data |
//! | kazoo's `NonBlockingLease` | `lease_holder` |
//! | `LeaderLatch`, our `Election` | `latch-N`, `election-N` |
//! | double barrier | `ready`; `member-N`, `<uuid>`, kazoo `<hex>` |
//! | barrier | a node that never had children, empty or with an address: a guess |
//! | Curator's queues | `queue-…N`, `qn-N`; the same, ephemeral, below a lock path |
//! | kazoo's queues | `entry-PPP-N`; `entries` and `taken` |
//! | our queues and jobs | `items`; `pending`, `executing` and `all` |
//! | two-phase commit, configuration, schedule | their data |
//! | counter with ids | `_o` |
//! | migration set | `meta-N` |
//! | `GroupMember` | only ephemeral children: a guess |
//! | kazoo's `Party`, `ShallowParty`, `SetPartitioner` | `<hex>__party__`, `<hex>-name`, `party` and `locks` |
//! | our `SetPartitioner` | `members`, with their data, and `parts` |
//! | service of Curator's discovery | JSON with the fields of an instance |
//!
//! `N` is a sequence number. The names may begin with the prefix of a protected create,
//! `_c_<uuid>-`.
//!
//! # Protocol
//! 1. [`inspect`] reads a node, the nodes above it, and then the nodes below it, level by level.
//!    [`find`] does the same for a whole subtree, and [`glance`] in two round trips.
//! 2. [`recognise`], pure, chooses the layout, and sorts the children into holders, waiters, other
//!    parts of the recipe, and nodes that do not belong to it.
//! 3. [`verdicts`], pure, judges a [`Finding`] with the known facts about [`Sessions`].
//! 4. [`deadlocks`], pure, searches several findings for sessions that wait for each other.
//!
//! # Guarantees
//! * The order of the contenders and the holders are computed by the functions that the recipes
//!   themselves use.
//! * No name and no data cause a failure. Each child is reported once.
//!
//! # Assumptions
//! The nodes are not read at one moment, and the connected server may lag. A lock that is passed on
//! quickly may appear free. An empty lock leaves no trace, so it is
//! [unknown](RecipeKind::Unknown). Locks with a [name of their
//! own](crate::lock::InterProcessMutex::lock_name) are not recognised.
//!
//! # Connection loss
//! The reads are repeated according to the retry policy.
//!
//! # Cancel safety
//! Nothing is changed.
//!
//! # Errors
//! Those of the framework.
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::inspect::{RecipeKind, Sessions, deadlocks, find, inspect, verdicts};
//! use zk_curator_recipes::lock::InterProcessMutex;
//!
//! let guard = InterProcessMutex::new(&zk, "/locks/orders").label("worker-1").acquire().await?;
//!
//! let finding = inspect(&zk, "/locks/orders").await?;
//! assert_eq!(finding.kind, RecipeKind::Mutex);
//! assert_eq!(finding.holders[0].label_str(), "worker-1");
//! assert_eq!(finding.holders[0].token(), Some(guard.fencing_token()));
//!
//! let mut sessions = Sessions::new();
//! sessions.own(zk.session().expect("connected").id);
//! for verdict in verdicts(&finding, &sessions) {
//!     println!("{verdict}"); // held by this process: worker-1 (_c_…-lock-0000000000), session 0x1…
//! }
//!
//! let found = find(&zk, "/locks", 10_000).await?;
//! assert!(found.is_complete && deadlocks(&found.findings).cycles.is_empty());
//! # drop(guard);
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod deadlock;
mod details;
mod draft;
mod finding;
mod layout;
mod node;
mod read;
mod recognise;
mod session;
#[cfg(test)]
mod tests;
mod verdict;
mod within;

pub use deadlock::{Cycle, Deadlocks, Victim, Wait, deadlocks};
pub use details::Details;
pub use finding::{Contender, Finding, Library, RecipeKind, Role};
pub use node::Node;
pub use read::{Found, find, find_within, glance, inspect};
pub use recognise::{recognise, recognise_all};
pub use session::{Connection, KnownSession, Sessions};
pub use verdict::{Owner, Verdict, verdicts};
pub use within::within_mark;
