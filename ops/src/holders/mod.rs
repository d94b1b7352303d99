//! The clients that hold a lock or another recipe, those that wait, and the reasons.
//!
//! [`inspect`](zk_curator_recipes::inspect) recognises the recipe by its nodes. This module joins
//! it with the sessions that the servers know: their clients, and the time until they end.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_ops::holders;
//! use zk_curator_recipes::lock::InterProcessMutex;
//!
//! let guard = InterProcessMutex::new(&zk, "/locks/orders").label("worker-1").acquire().await?;
//!
//! let report = holders::why(&zk, "/locks/orders").await?;
//! let holder = &report.finding.holders[0];
//! assert_eq!(holder.label_str(), "worker-1");
//! assert!(report.facts.describe(holder.session).state.starts_with("connected"));
//! for sentence in report.verdicts() {
//!     println!("{sentence}");
//! }
//! # guard.release().await?;
//! # Ok(()) }
//! ```

mod contenders;
mod deletion;
mod facts;
mod items;
mod next;
mod why;
mod words;

pub use contenders::{LOCKS, LOCKS_AND_ELECTIONS, LockClient, contenders, deaf, persistent};
pub use deletion::{DeletionObstacle, deletion_obstacles, deletion_permission};
pub use facts::{SessionFacts, SessionWords};
pub use items::{QueuedItemState, QueuedItems};
pub use next::{NextStep, next_steps};
pub use why::{WhyReport, why, why_with};
pub use words::{PARTIAL, contender_value, kind_words, obstacle_line};
