//! Growing numbers of waiters: the memory of each, and the cost of a hand-over.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, LocalSet};
use zk_curator_client::internal::sleep;
use zk_curator_recipes::lock::InterProcessMutex;

use super::stage::{Outcome, Result, Samples, Stage, cpu_time, each};
use crate::common::resident;
use crate::shared::counts::Inside;

/// The sessions of the waiters.
const SESSIONS: usize = 10;
/// The waiters that arrive together.
const AT_ONCE: usize = 32;
/// A process that is idle for this long has no work left.
const QUIET: Duration = Duration::from_millis(500);

/// The first waiters get the lock one after another; the others keep waiting.
#[expect(clippy::too_many_lines, reason = "one story")]
pub(crate) async fn waiters(stage: &mut Stage) -> Result<()> {
    let (path, size, operations) = (stage.below("lock"), stage.size, stage.operations);
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(stage.client().await?);
    }
    let gate = InterProcessMutex::new(&clients[0], &path).acquire().await?;
    let before = resident("self");
    let shared =
        Rc::new((Inside::default(), Cell::new(None::<Instant>), RefCell::new(Samples::new())));
    let done = Rc::new(tokio::sync::Notify::new());
    let mut tasks = JoinSet::new();
    let waiter = |number: usize| {
        let lock = InterProcessMutex::new(&clients[number % SESSIONS], &path);
        let (shared, done) = (Rc::clone(&shared), Rc::clone(&done));
        async move {
            let guard = lock.acquire().await?;
            let acquired = Instant::now();
            let (inside, released, latencies) = &*shared;
            inside.enter();
            if let Some(released) = released.take() {
                latencies.borrow_mut().push(acquired - released);
            }
            inside.leave();
            if inside.acquired.get() == operations {
                // The last holder keeps the lock.
                done.notify_one();
                return Ok(Some(guard));
            }
            released.set(Some(Instant::now()));
            guard.release().await?;
            Result::Ok(None)
        }
    };
    LocalSet::new()
        .run_until(async {
            for number in 0..size {
                tasks.spawn_local(waiter(number));
                // Waiters that arrive together each hold a list of all of them until they have
                // found their place.
                while (number % AT_ONCE == 0 || number + 1 == size)
                    && clients[0]
                        .exists(&path)
                        .await?
                        .is_some_and(|stat| stat.num_children < as_i32(number + 2))
                {
                    tokio::task::yield_now().await;
                }
            }
            // The last waiters still list the others and set their watches.
            let mut busy = cpu_time();
            loop {
                sleep(QUIET).await;
                let now = cpu_time();
                if now - std::mem::replace(&mut busy, now) < QUIET / 50 {
                    break;
                }
            }
            let (bytes, mut gate) = (each(before, size), Some(gate));
            let run = async |_| {
                if let Some(gate) = gate.take() {
                    shared.1.set(Some(Instant::now()));
                    gate.release().await?;
                }
                done.notified().await;
                let operations = shared.0.acquired.get();
                Ok(Outcome { operations, latencies: shared.2.take(), check: shared.0.check() })
            };
            stage.measure(bytes, run).await?;
            tasks.shutdown().await;
            stage.clear().await
        })
        .await
}

fn as_i32(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
