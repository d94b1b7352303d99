//! Operations on ZooKeeper as a library: the health of an ensemble, backups, copies, searches, and
//! who holds a lock. The program `zkc` is a command line over this crate.
//!
//! | module | for |
//! |---|---|
//! | [`ensemble`] | the servers: members, roles, sessions, rates, health, [findings](ensemble::doctor), [rolling restarts](ensemble::rolling) |
//! | [`transfer`] | [backups](transfer::Backup), [restores](transfer::Restore), [copies](transfer::Copying), exports, differences |
//! | [`tree`] | walks over subtrees: searches by name and by content, sizes, and quotas |
//! | [`history`] | the past, from the files of a server: authors of deletions, earlier trees, [undelete](history::Undelete) |
//! | [`holders`] | who holds a lock or another recipe, who waits, and [why](fn@holders::why) |
//! | [`quota`] | the quotas of subtrees, as servers store them |
//! | [`acl`], [`data`], [`node`], [`past`], [`path`], [`pattern`], [`text`], [`files`] | the helpers that these share |
//!
//! # Guarantees
//! * Only [`Restore`](transfer::Restore) and [`Copying`](transfer::Copying) change nodes. Nothing
//!   changes a server or resets one of its counters, except that a
//!   [rolling restart](ensemble::rolling) restarts servers by the means of the caller.
//! * Nothing is left out silently: nodes that cannot be read, and servers that do not respond, are
//!   named in the results.
//! * Data are read in bounded batches, so memory does not depend on their size. The exceptions are
//!   an [export](transfer::ExportedTree) and a replayed [tree](history::Tree), which are in memory
//!   as a whole.
//! * No function prints, reads standard input, or ends the process.
//!
//! # Cancel safety
//! Every future may be dropped at any point. A dropped backup leaves no file. A dropped restore,
//! copy or move is applied up to a transaction, and can be repeated. A dropped rolling restart
//! drops the restart of one server at most.
//!
//! # Errors
//! [`Error`], or the [`Error`](zk_curator::Error) of the framework where only requests can fail.
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! # zk.create("/config").data("x").await?;
//! # let file = std::env::temp_dir().join(format!("zk-curator-ops-{}.zkb", std::process::id()));
//! use zk_curator_ops::ensemble::EnsembleProbe;
//! use zk_curator_ops::{ensemble, holders, transfer};
//!
//! let report = ensemble::doctor::examine(&EnsembleProbe::of(&zk)).await?;
//! assert!(!report.has_errors());
//!
//! let summary = transfer::Backup::new("/config").write(&zk, &file).await?;
//! assert_eq!(summary.trailer.nodes(), 1);
//!
//! let locks = holders::why(&zk, "/config").await?;
//! assert!(locks.finding.holders.is_empty());
//! # std::fs::remove_file(&file)?;
//! # Ok(()) }
//! ```
//!
//! # Features
//! | feature | adds |
//! |---|---|
//! | `serde` | `Serialize` for the plain values, such as the responses of servers and findings |

pub mod acl;
pub mod data;
pub mod ensemble;
mod error;
pub mod files;
pub mod history;
pub mod holders;
pub mod node;
pub mod past;
pub mod path;
pub mod pattern;
mod progress;
pub mod quota;
pub mod text;
pub mod transfer;
pub mod tree;

pub use error::Error;
pub use progress::Progress;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
