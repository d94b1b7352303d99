//! Growing numbers of waiters, sessions and watches: the memory of each, and the cost of an
//! operation.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::task::{JoinSet, LocalSet};
use zk_curator_client::internal::sleep;
use zk_curator_recipes::lock::InterProcessMutex;

use super::locks::Inside;
use super::stage::{Outcome, Result, Samples, Stage, at_most, cpu_time, each};
use crate::common::resident;

/// The sessions of the waiters.
const SESSIONS: usize = 10;
const IN_FLIGHT: usize = 128;
/// The waiters that arrive together.
const AT_ONCE: usize = 32;
/// A process that is idle for this long has no work left.
const QUIET: Duration = Duration::from_millis(500);

/// The first waiters get the lock one after another; the others keep waiting.
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
                // Waiters that arrive together each hold a list of all of them until they have found
                // their place.
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

pub(crate) async fn sessions(stage: &mut Stage) -> Result<()> {
    let (path, payload) = (stage.below("node"), stage.payload());
    let first = stage.client().await?;
    first.create(&path).data(payload).creating_parents().await?;
    let before = resident("self");
    let clients = stage.contenders().await?;
    let bytes = each(before, clients.len());
    let run = async |operations| {
        let bytes = Cell::new(0);
        let one = async |number: usize| {
            let data = clients[number % clients.len()].get_data(&path).await?;
            bytes.set(bytes.get() + data.len());
            Ok(())
        };
        let latencies = at_most(IN_FLIGHT, operations, one).await?;
        Ok(Outcome { operations, latencies, check: format!("bytes={}", bytes.get()) })
    };
    stage.measure(bytes, run).await?;
    stage.clear().await
}

pub(crate) async fn watches(stage: &mut Stage) -> Result<()> {
    let (watching, writing) = (stage.client().await?, stage.client().await?);
    let (path, payload, size) = (stage.below("nodes"), stage.payload(), stage.size);
    watching.create(&path).creating_parents().await?;
    let node = |number: usize| format!("{path}/{number:08}");
    at_most(IN_FLIGHT, size, async |number| {
        writing.create(node(number)).data(payload.clone()).await?;
        Ok(())
    })
    .await?;
    let before = resident("self");
    let mut watches = Vec::with_capacity(size);
    for first in (0..size).step_by(IN_FLIGHT) {
        let numbers = first..size.min(first + IN_FLIGHT);
        let watched = numbers.map(|number| watching.get_data(node(number)).watched().into_future());
        watches.extend(try_join_all(watched).await?.into_iter().map(|watched| Some(watched.watch)));
    }
    let bytes = each(before, size);
    let run = async |operations| {
        let (mut latencies, mut events) = (Samples::new(), 0);
        // Evenly over all of them.
        for turn in 0..operations {
            let number = turn * size / operations;
            let watch = watches[number].take().ok_or("a watch fires once")?;
            let began = Instant::now();
            writing.set_data(node(number), payload.clone()).await?;
            watch.await?;
            latencies.push(began.elapsed());
            events += 1;
        }
        Ok(Outcome { operations: events, latencies, check: format!("events={events}") })
    };
    stage.measure(bytes, run).await?;
    drop(watches);
    stage.clear().await
}
