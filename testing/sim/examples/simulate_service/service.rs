//! A service that numbers invoices. Each process campaigns, and the leader issues the numbers.
//!
//! The code does not depend on the simulation: the same functions run in production.
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

use std::error::Error;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::observe::{Attempt, Held, HoldMode, Recorder, UseOutcome};
use zk_curator::{CuratorFramework, Stat};
use zk_curator_recipes::leader::{LeaderLatch, Leadership};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

const ELECTION: &str = "/election";
/// The node with the last issued number.
pub(crate) const INVOICES: &str = "/invoices";

/// Issues numbers while it believes to lead.
pub(crate) async fn careless(zk: CuratorFramework, recorder: impl Recorder) -> Result<(), Failure> {
    let candidate = LeaderLatch::new(&zk, ELECTION).join();
    loop {
        let attempt = Attempt::begin(&recorder, INVOICES, HoldMode::Leader);
        let leadership = candidate.await_leadership().await?;
        let held = attempt.acquired(leadership.fencing_token());
        // ANCHOR: careless
        while !leadership.is_over() {
            let (number, _) = print_next(&zk).await?;
            // Another process may have become the leader.
            let stat = zk.set_data(INVOICES, number.to_string()).await?;
            held.used(written(&stat));
        }
        held.lost();
        // ANCHOR_END: careless
    }
}

/// Issues numbers until it learns that it has lost the leadership. If it learns that too late, the
/// servers refuse its writes.
// ANCHOR: signature
pub(crate) async fn careful(zk: CuratorFramework, recorder: impl Recorder) -> Result<(), Failure> {
    // ANCHOR_END: signature
    let candidate = LeaderLatch::new(&zk, ELECTION).join();
    loop {
        // ANCHOR: attempt
        let attempt = Attempt::begin(&recorder, INVOICES, HoldMode::Leader);
        let leadership = candidate.await_leadership().await?;
        let held = attempt.acquired(leadership.fencing_token());
        tokio::select! {
            biased;
            () = leadership.lost() => held.lost(),
            failed = issue(&zk, &leadership, &held) => {
                // The process is restarted.
                return failed;
            }
        }
        // ANCHOR_END: attempt
    }
}

/// Issues numbers, and returns only with an error.
async fn issue<R: Recorder>(
    zk: &CuratorFramework,
    leadership: &Leadership,
    held: &Held<R>,
) -> Result<(), Failure> {
    loop {
        let (number, stat) = print_next(zk).await?;
        // ANCHOR: fenced
        let write = leadership.fenced().set_data_if(INVOICES, number.to_string(), stat.version);
        // ANCHOR_END: fenced
        if let Some(stat) = write.commit().await?[0].stat() {
            held.used(written(stat));
        }
    }
}

/// Prints the next invoice. Returns its number, and the state of the node that the number comes
/// from.
async fn print_next(zk: &CuratorFramework) -> Result<(u64, Stat), Failure> {
    let (last, stat) = zk.get_data(INVOICES).with_stat().await?;
    let last: u64 = std::str::from_utf8(&last)?.parse().unwrap_or(0);
    sleep(Duration::from_millis(50) + zk.jitter(Duration::from_millis(100))).await;
    Ok((last + 1, stat))
}

/// Describes the use of the node that made this version.
fn written(stat: &Stat) -> UseOutcome {
    UseOutcome::Accepted(stat.version.unsigned_abs().into())
}
