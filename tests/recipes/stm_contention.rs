//! Transactions over many nodes: locks, other writers, and nodes outside a space.

use std::cell::Cell;
use std::time::Duration;

use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::counter::PromotedToLock;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_recipes::stm::{Error, Stm, Tx};
use zk_curator_testing::TestServer;
use zk_curator_tests::{assert_matches, connected, join_all, simulated_on, two_in_memory};

use crate::cache_cost::distant;
use crate::stm::{A, B, SPACE, accounts, stored, transfer, value};

#[test]
fn fenced_transaction_ends_with_the_ownership() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let stm = accounts(&zk).await;
        let guard = InterProcessMutex::new(&zk, "/locks/acc").acquire().await.unwrap();
        let fenced = || stm.transaction().fenced_by(guard.ownership());
        fenced().run(|tx| transfer(tx, 1)).await.unwrap();
        other.delete(guard.path()).await.unwrap();
        let error = fenced().run(|tx| transfer(tx, 1)).await.unwrap_err();
        let Error::Framework(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), ErrorKind::OwnershipLost);
        assert_eq!(stored(&zk, B).await, 1);
    });
}

#[test]
fn lock_is_taken_after_the_retries_and_again_if_lost() {
    const LOCK: &str = "/locks/acc";
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let stm = accounts(&zk).await;
        let holders = Cell::new(Vec::new());
        let body = |tx: Tx| {
            let (other, holders, server) = (&other, &holders, &server);
            async move {
                let a = value(&tx, A).await?;
                let mut all = holders.take();
                let nodes: Vec<_> =
                    server.probe().children(LOCK).into_iter().map(str::to_owned).collect();
                all.push(nodes.len());
                holders.set(all.clone());
                match all.len() {
                    1 | 2 => drop(other.set_data(A, (a + 1).to_string()).await?),
                    3 => other.delete(format!("{LOCK}/{}", nodes[0])).await?,
                    _ => {}
                }
                tx.put(A, &(a + 1))
            }
        };
        let lock = PromotedToLock::new(LOCK, Duration::from_secs(5));
        let done = stm.transaction().retries(1).then_lock(lock.clone()).run(body).await.unwrap();
        assert_eq!((done.attempts, holders.take()), (4, vec![0, 0, 1, 1]));
        assert_eq!(stored(&zk, A).await, 103);
        // Another client has the lock.
        let _guard = InterProcessMutex::new(&other, LOCK).acquire().await.unwrap();
        let body = |tx: Tx| {
            let other = &other;
            async move {
                let a = value(&tx, A).await?;
                other.set_data(A, (a + 1).to_string()).await?;
                tx.put(A, &0)
            }
        };
        let result = stm.transaction().retries(0).then_lock(lock).run(body).await;
        assert_matches!(result, Err(Error::LockTimeout { path }) if path == LOCK);
    });
}

#[test]
fn without_a_space_absence_must_be_asserted() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        zk.create("/x").data("1").await.unwrap();
        let stm = Stm::loose(&zk);
        let result = stm.atomically(|tx| async move { tx.get("/none").await }).await;
        assert_matches!(result, Err(Error::Unprotected { path }) if path == "/none");
        let result = stm.atomically(|tx| async move { tx.children("/x").await }).await;
        assert_matches!(result, Err(Error::Unprotected { .. }));
        let result = stm.atomically(|tx| async move { tx.delete("/none") }).await;
        assert_matches!(result, Err(Error::Unprotected { .. }));
        let runs = Cell::new(0);
        let body = |tx: Tx| {
            runs.set(runs.get() + 1);
            let (other, runs) = (&other, &runs);
            async move {
                tx.assert_absent("/none")?;
                let _seen = tx.get("/none").await?;
                let x = value(&tx, "/x").await?;
                if runs.get() == 1 {
                    other.create("/none").await?;
                }
                tx.put("/x", &(x + 1))
            }
        };
        let result = stm.atomically(body).await;
        assert_matches!(result, Err(Error::Exists { .. } | Error::Conflict { .. }));
        assert_eq!(stored(&zk, "/x").await, 1);
        zk.delete("/none").await.unwrap();
        assert_eq!(stm.atomically(body).await.unwrap().attempts, 1);
        assert_eq!((stored(&zk, "/x").await, zk.exists("/none").await.unwrap()), (2, None));
    });
}

/// The documented limit of transactions without a space.
#[test]
fn without_a_space_a_recreated_node_passes_for_the_old_one() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        zk.create("/x").data("1").await.unwrap();
        let body = |tx: Tx| {
            let other = &other;
            async move {
                let x = value(&tx, "/x").await?;
                other.delete("/x").await?;
                other.create("/x").data("50").await?;
                tx.put("/x", &(x + 1))
            }
        };
        assert_eq!(Stm::loose(&zk).atomically(body).await.unwrap().attempts, 1);
        assert_eq!(stored(&zk, "/x").await, 2);
    });
}

#[test]
fn eight_writers_of_one_node_need_few_attempts() {
    const WRITERS: usize = 8;
    const EACH: usize = 50;
    simulated_on(TestServer::in_memory, async |server| {
        let mut clients = Vec::new();
        for _ in 0..WRITERS {
            clients.push(distant(&server).await);
        }
        accounts(&clients[0]).await;
        let write = |zk: &CuratorFramework| {
            let stm = Stm::space(zk, SPACE);
            async move {
                let mut attempts = Vec::new();
                for _ in 0..EACH {
                    let add = |tx: Tx| async move {
                        let a = value(&tx, A).await?;
                        tx.put(A, &(a + 1))
                    };
                    let done = stm.transaction().prefetch([A]).run(add).await.unwrap();
                    attempts.push(done.attempts);
                }
                attempts
            }
        };
        let attempts = join_all(clients.iter().map(write)).await;
        let mut attempts: Vec<_> = attempts.into_iter().flatten().collect();
        attempts.sort_unstable();
        let mean = f64::from(attempts.iter().sum::<u32>()) / attempts.len() as f64;
        let p99 = attempts[attempts.len() * 99 / 100];
        println!("attempts: mean {mean:.2}, p99 {p99}, most {:?}", attempts.last());
        assert_eq!(stored(&clients[0], A).await, 100 + (WRITERS * EACH) as i64);
        assert!(mean <= 3.0 && p99 <= 20, "mean {mean}, p99 {p99}");
        let one = connected(&server).await;
        assert_eq!(Stm::space(&one, SPACE).audit().await.unwrap(), []);
    });
}
