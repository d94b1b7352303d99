//! A simulated service: processes number invoices under a lock, while servers, network and
//! processes fail.
//!
//! `cargo run --release -p zk-curator-sim --example simulate`. The page
//! `docs/book/src/testing/simulation.md` explains it.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator::observe::{Attempt, HoldMode, UseOutcome};
use zk_curator_recipes::lock::{InterProcessMutex, MutexGuard};
use zk_curator_sim::checkers::Exclusion;
use zk_curator_sim::{Client, Failure, RunStats, Sim};

/// The service under test: the next number is the last one plus one. With `fenced`, its writes are
/// fenced.
async fn issue(
    zk: &CuratorFramework,
    held: &MutexGuard,
    fenced: bool,
) -> Result<u64, Box<dyn Error + Send + Sync>> {
    // ANCHOR: issue
    let last = String::from_utf8(zk.get_data("/invoices").await?.to_vec())?;
    let number = last.parse().unwrap_or(0) + 1;
    // Prints the invoice.
    sleep(Duration::from_millis(30)).await;
    if fenced {
        held.fenced().set_data("/invoices", number.to_string()).commit().await?;
    } else {
        zk.set_data("/invoices", number.to_string()).await?;
    }
    Ok(number)
    // ANCHOR_END: issue
}

/// The work of each process, with the records for the checker.
async fn process(client: Client, fenced: bool) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let lock = InterProcessMutex::new(&zk, "/locks/invoices");
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(200))).await;
        let attempt = Attempt::begin(&client, "invoices", HoldMode::Exclusive);
        let Some(Ok(guard)) = client.maybe_cancel(lock.acquire()).await else { continue };
        // Declared after the guard, so that it is dropped before the guard.
        let held = attempt.acquired(guard.fencing_token());
        let mut work = pin!(issue(&zk, &guard, fenced));
        let issued = tokio::select! {
            biased;
            issued = &mut work => issued,
            () = guard.lost() => {
                held.lost();
                // This service ignores the loss of the lock.
                work.await
            }
        };
        if let Ok(number) = issued {
            held.used(UseOutcome::Accepted(number));
        }
    }
    Ok(())
}

// ANCHOR: sim
fn sim(seed: u64, fenced: bool) -> Sim {
    Sim::seed(seed)
        .servers(3)
        .clients(4)
        .rounds(8)
        .nodes(["/invoices"])
        .workload(move |client| process(client, fenced))
        .checker(Exclusion::mutual())
}
// ANCHOR_END: sim

fn main() {
    let mut stats = RunStats::default();
    for seed in 0..200 {
        let outcome = sim(seed, true).run();
        assert_eq!(outcome.violation, None, "seed {seed}:\n{}", outcome.history);
        stats.add(&outcome.stats);
    }
    println!("with fenced writes no violation was found:\n{stats}\n");

    let found = (0..1000).find_map(|seed| sim(seed, false).shrink());
    let Some(found) = found else { return println!("without them, no violation was found either") };
    println!("without them, the smallest failing run is {}:", found.sim.arguments());
    for (_, fault) in &found.outcome.faults {
        println!("  {fault}");
    }
    print!("{}", found.outcome.history);
    if let Some(violation) = found.outcome.violation {
        println!("{violation}");
    }
}
