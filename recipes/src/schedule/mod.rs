//! Work that runs once per period, in one of many processes.
//!
//! # Layout
//! ```text
//! /cron/cleanup                            container, made on first use
//!   ├─ 2026-11-22T13:00:00Z                persistent: a claimed slot, named for its start in UTC; data: the claim, its member, and
//!   │                                      whether it runs, is done or has failed, or is given up; as many are kept as `keep` says
//!   ├─ 2026-11-22T14:00:00Z
//!   │    └─ runner                         ephemeral: the member that runs it, if slots run at least once
//!   ├─ _c_<uuid>-clock                     ephemeral: a member, to compare its clock with that of the servers
//!   └─ _r_<uuid>                           ephemeral: the receipt of a member, if slots run at least once
//! ```
//! Other children are left alone.
//!
//! # Protocol
//! A slot runs at most once unless [`at_least_once`](OncePer::at_least_once) is set.
//!
//! 1. A member writes its own node, and compares the time of that write by the clock of the servers
//!    with its own clock: at the start, ahead of a slot if the last comparison is older than 30 s,
//!    and when its clock was set. A member whose clock is off by more than the
//!    [tolerance](OncePer::tolerance) waits and compares again.
//! 2. When a slot begins, every member creates its node, with data that contain a new GUID. One
//!    create succeeds. After a lost reply the data say whose node it is.
//! 3. The winner lists the recorded slots. If the number of newer recorded slots is the number of
//!    kept slots, this slot may already have run and been deleted: the winner deletes it again
//!    without running it. No other claim is ever undone.
//! 4. The winner runs the body, and deletes old slots while it runs.
//! 5. The winner writes the end of the run into the slot, at the version that its claim made.
//!
//! At least once, the steps that differ:
//!
//! * 2: the slot and its runner are created in one [certain](zk_curator::certain) transaction. A
//!   member that is refused waits until the runner is gone, and reads the slot.
//! * 5: the same transaction checks the runner, writes the slot at the version of the claim, and
//!   deletes the runner.
//! * 6: a slot that has no runner and is not done is taken over after the pause of the
//!   [policy](OncePer::at_least_once): one transaction writes the slot, at the version that was
//!   read before the pause, and creates the runner. One member succeeds. If the policy or the
//!   [limit](OncePer::max_attempts) allows no other run, one transaction creates and deletes the
//!   runner, and records that the slot [has failed permanently](SlotState::GaveUp).
//! * 7: a member that starts, or has left slots out because it was late, reads all recorded slots,
//!   and waits for the unfinished ones too.
//!
//! Requests for a slot, counted at a server:
//!
//! | | at most once | at least once |
//! |---|---|---|
//! | claim: winner and losers | 1 | 1 |
//! | winner, until the body begins | 1 more | 2 more |
//! | winner, after that | 1, and 1 to read old slots and 1 to delete each of them | the same |
//! | losers, until the slot is done | none | 2, and 1 notification |
//! | comparison of clocks, in advance | 1 each, at most every 30 s | the same |
//!
//! # Guarantees
//! * At most once: a slot has one winner, whatever clocks say, whatever replies are lost and
//!   whenever sessions end. Its body begins at most once, and continues when the session is lost.
//!   If its process dies, the slot is not run again.
//! * At least once: as long as members run, a slot that was claimed is run until its body succeeds
//!   once, or as often as the policy and the limit allow. The number of runs is kept in the slot,
//!   so it survives every process. A slot that has failed permanently is reported once, by
//!   [`background_errors`](zk_curator::CuratorFramework::background_errors) with `BodyFailed` and
//!   the path of the slot, of the member that has recorded it. Two bodies of one slot overlap only
//!   while the earlier one does not know that its session is over: use [`Slot::fenced`] or the
//!   [fencing token](Slot::fencing_token).
//! * A member whose slot was taken over can not record an end for it.
//! * In one member, one body runs at a time.
//!
//! # Assumptions
//! * Members of one path have the same schedule, [`keep`](OncePer::keep), mode, policy and limit. A
//!   slot keeps the mode of its first claim.
//! * Only members write here. A slot that is deleted by hand may run again.
//! * Clocks decide when a slot runs, and which slots are missed. They never affect the number of
//!   runs of a slot.
//! * Unfinished slots that run at least once are deleted when as many newer unfinished ones are
//!   recorded as are kept. That is reported as if they had failed permanently.
//!
//! # Connection loss
//! * SUSPENDED: bodies continue. No slot is claimed.
//! * LOST: with at most one run, bodies continue. At least once, the body is dropped, and another
//!   member takes the slot over.
//! * RECONNECTED: the member claims a slot that began in between if its period is not over, and
//!   earlier ones as set with [`on_missed`](OncePer::on_missed).
//!
//! # Cancel safety
//! Dropping the future of [`run`](OncePer::run) drops the body and deletes the ephemeral nodes of
//! the member in the background. A slot that was claimed and has not come to its body is not run,
//! unless slots run at least once.
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
//! use std::time::Duration;
//! use zk_curator_recipes::Shutdown;
//! use zk_curator_recipes::schedule::{OncePer, Schedule, Slot, SlotState};
//!
//! let every_second = Schedule::every(Duration::from_secs(1));
//! let cleanup = OncePer::new(&zk, "/cron/cleanup", every_second).id("worker-1");
//!
//! let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
//! let body = |slot: Slot| {
//!     let tell = tell.clone();
//!     async move { tell.send(slot.name().to_owned()).map_err(|_| "nobody listens") }
//! };
//! // Until a slot has run.
//! let mut first = None;
//! let stop = Shutdown::new();
//! let told = async {
//!     first = told.recv().await;
//!     stop.begin();
//! };
//! let (ran, ()) = tokio::join!(cleanup.run(body).until(stop.clone()), told);
//! ran?;
//!
//! let slots = cleanup.slots().await?;
//! assert_eq!(Some(&slots[0].name), first.as_ref());
//! assert_eq!((slots[0].claimed_by.as_str(), &slots[0].state), ("worker-1", &SlotState::Done));
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod again;
mod claim;
mod clock;
mod error;
mod member;
mod once_per;
pub(crate) mod plan;
pub(crate) mod record;
mod site;
mod slot;
mod timing;

pub use error::Error;
pub use once_per::OncePer;
pub use plan::{OnMissed, Schedule};
pub use slot::{Slot, SlotInfo, SlotState};
