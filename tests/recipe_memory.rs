//! What those who wait take in memory.

mod common;

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use common::{in_memory, simulated, until};
use tokio::task::JoinSet;
use zk_curator_recipes::lock::InterProcessMutex;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const LOCK: &str = "/locks/orders";

/// With the list of all that wait, each of 800 would keep 60 KB.
#[test]
fn a_waiter_keeps_no_list_of_the_others() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let gate = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let waiters = 800;
        let before = ALLOCATOR.allocated();
        let mut waiting = JoinSet::new();
        for _ in 0..waiters {
            let lock = InterProcessMutex::new(&zk, LOCK);
            waiting.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
        }
        until(&server, |probe| probe.children(LOCK).len() == waiters + 1).await;
        // Simulated: all have listed, and wait.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let each = (ALLOCATOR.allocated() - before) / waiters;
        // Task, node and watches, here and at the server.
        assert!(each < 20_000, "{each} bytes for a waiter");
        gate.release().await.unwrap();
        waiting.join_all().await;
    });
}
