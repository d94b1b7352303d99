//! Findings about an ensemble: faults, risks, and how to remove them.
//!
//! Servers report how long writes to the disk take, and how large their logs and snapshots are.
//! They report neither the free space of a disk nor which directories share one.
//! `jute.maxbuffer` and `autopurge.purgeInterval` are known only with an admin server; otherwise
//! the default of `jute.maxbuffer` is assumed, and the other is not judged.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_ops::ensemble::{EnsembleProbe, doctor};
//!
//! let report = doctor::examine(&EnsembleProbe::of(&zk)).await?;
//! for finding in &report.findings {
//!     println!("{}: {}; {}", finding.subject, finding.text, finding.advice);
//! }
//! let of_nodes = doctor::examine_tree(&zk, "/", report.max_packet).await?;
//! assert!(!of_nodes.has_errors() && of_nodes.unreadable.is_empty());
//! # Ok(()) }
//! ```

mod disks;
mod examine;
mod finding;
mod judge;
mod locks;

pub(super) use disks::max_packet;
pub use examine::{DoctorReport, DoctorTreeReport, WORDS, examine, examine_reports, examine_tree};
pub use finding::{DoctorFinding, FindingSeverity};
pub(super) use judge::servers;
