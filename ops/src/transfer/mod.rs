//! Moves nodes: into and out of backup files, and within an ensemble.
//!
//! Pure: `record` is a node as a file has it, `format` reads and writes files, `plan` decides about
//! each node, `settle` knows which nodes have to be read again, and `names` has the names of files.
//! The others connect these with files and servers.
//!
//! # Format
//! A backup file has a line of JSON for each node, compressed with gzip unless it is
//! [plain](Backup::plain). The first line is the [header](BackupHeader), and the last one the
//! [trailer](BackupTrailer) with the number of nodes and the SHA-256 of all that precedes it.
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! # zk.create("/config/a").creating_parents().data("x").await?;
//! # let file = std::env::temp_dir().join(format!("zk-curator-ops-transfer-{}.zkb", std::process::id()));
//! use zk_curator_ops::Progress;
//! use zk_curator_ops::transfer::{Backup, DiffScope, DiffTree, Restore, differences};
//!
//! let summary = Backup::new("/config").write(&zk, &file).await?;
//! assert_eq!(summary.trailer.nodes(), 2);
//!
//! let restore = Restore::new(&file).root("/copy").open(&zk).await?;
//! let plan = restore.plan(Progress::none()).await?;
//! assert_eq!((plan.counts.create, plan.is_atomic()), (2, true));
//! restore.apply(&plan, Progress::none()).await?;
//!
//! let (before, _) = DiffTree::of_file(&file, DiffScope::new())?;
//! let after = DiffTree::of_servers(&zk, "/copy", DiffScope::new()).await?;
//! assert!(differences(&before, &after).is_empty());
//! # std::fs::remove_file(&file)?;
//! # Ok(()) }
//! ```

mod apply;
mod backup;
mod contenders;
mod copy;
pub(crate) mod damage;
mod diff;
mod export;
pub(crate) mod file;
pub(crate) mod format;
mod left_out;
mod names;
mod plan;
mod planned;
pub(crate) mod record;
mod restore;
mod restore_plan;
mod settle;
pub(crate) mod source;

pub use backup::{Backup, BackupSummary};
pub use copy::{CopyPlan, Copying};
pub use damage::BackupDamage;
pub use diff::{DiffScope, DiffTree, NodeDifference, differences};
pub use export::ExportedTree;
pub use file::BackupReader;
pub use format::{BackupConsistency, BackupHeader, BackupTrailer};
pub use plan::{
    AclPolicy, EphemeralsMode, OnExisting, OnLowCounter, SequenceHazard, TransferCounts,
};
pub use planned::PlannedChange;
pub use record::{RecordKind, TransferRecord};
pub use restore::{Restore, RestoreRun};
pub use restore_plan::RestorePlan;
