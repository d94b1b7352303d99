//! Transactions over many nodes, dropped at every point: applied or not, and nothing stays behind.

use std::cell::Cell;
use std::time::Duration;

use zk_curator_recipes::counter::PromotedToLock;
use zk_curator_recipes::stm::{Error, Stm, Tx};
use zk_curator_tests::{closes_clean, poll_then_drop, simulated_steps_on, two_in_memory};

const SPACE: &str = "/acc";
const A: &str = "/acc/a";
const B: &str = "/acc/b";

async fn transfer(tx: Tx) -> Result<(), Error> {
    let a: i64 = tx.get_typed(A).await?.unwrap_or(0);
    let b: i64 = tx.get_typed(B).await?.unwrap_or(0);
    tx.create_sequential("/acc/log-", "")?;
    tx.put(A, &(a - 1))?;
    tx.put(B, &(b + 1))
}

#[test]
fn transaction_is_applied_or_not_wherever_it_is_dropped() {
    let mut applied = [0, 0];
    for exists in [true, false] {
        simulated_steps_on(0, two_in_memory, async |step, (server, zk, other)| {
            let theirs = Stm::space(&other, SPACE);
            if exists {
                theirs.atomically(|tx| async move { tx.put(A, &0) }).await.unwrap();
            }
            let ours = Stm::space(&zk, SPACE);
            let done = poll_then_drop(ours.atomically(transfer), step).await.is_some();
            drop(ours);
            zk.close().await.unwrap();
            let read = theirs.atomically(|tx| async move {
                let a: i64 = tx.get_typed(A).await?.unwrap_or(0);
                let b: i64 = tx.get_typed(B).await?.unwrap_or(0);
                let names = tx.children(SPACE).await?.unwrap_or_default();
                let logged = names.iter().filter(|name| name.starts_with("log-")).count();
                Ok((a, b, logged as i64))
            });
            let (a, b, logged) = read.await.unwrap().value;
            assert_eq!((a, b), (-logged, logged), "step {step}");
            assert!(!done || logged == 1);
            applied[usize::from(logged == 1)] += 1;
            // Other clients continue.
            theirs.atomically(transfer).await.unwrap();
            assert_eq!(theirs.audit().await.unwrap(), []);
            drop(theirs);
            other.wait_until_released().await;
            assert!(server.probe().children("/acc/_receipts").is_empty());
            other.delete(SPACE).deleting_children().await.unwrap();
            closes_clean(&server, &other).await;
            done
        });
    }
    assert!(applied[0] > 6 && applied[1] > 2, "{applied:?}");
}

#[test]
fn lock_is_released_wherever_the_transaction_is_dropped() {
    simulated_steps_on(10, two_in_memory, async |step, (server, zk, other)| {
        let stm = Stm::space(&zk, SPACE);
        stm.atomically(|tx| async move { tx.put(A, &0) }).await.unwrap();
        let runs = Cell::new(0);
        let body = |tx: Tx| {
            runs.set(runs.get() + 1);
            let (other, runs) = (&other, &runs);
            async move {
                let a: i64 = tx.get_typed(A).await?.unwrap_or(0);
                if runs.get() == 1 {
                    other.set_data(A, "7").await?;
                }
                tx.put(A, &(a + 1))
            }
        };
        let lock = PromotedToLock::new("/locks/acc", Duration::from_secs(5));
        let run = stm.transaction().retries(0).then_lock(lock).run(body);
        let done = poll_then_drop(run, step).await.is_some();
        drop(stm);
        zk.close().await.unwrap();
        assert!(server.probe().children("/locks/acc").is_empty(), "step {step}");
        let a: i64 = other.typed().get(A).await.unwrap().value;
        assert!([0, 7, 8].contains(&a) && (!done || a == 8), "step {step}: {a}");
        other.delete(SPACE).deleting_children().await.unwrap();
        closes_clean(&server, &other).await;
        done
    });
}
