//! Reads of a transaction at the same time, some of which the body stops polling.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::maybe_done;
use futures_util::{StreamExt, poll, stream};
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_proto::OpCode;
use zk_curator_recipes::stm::{Committed, Error, Stm, Tx};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::spend;
use zk_curator_tests::{
    connected, join_all, recorded, session_id, simulated_each_on, simulated_from, simulated_on,
    simulated_with, two_in_memory,
};

use crate::stm::{A, B, SPACE, accounts, stored, transfer, value};

/// A read that waits for another one, which is not polled, waits forever.
async fn ended<T>(run: impl Future<Output = Result<Committed<T>, Error>>) -> Committed<T> {
    timeout(Duration::from_secs(60), run).await.expect("no read waits for another one").unwrap()
}

#[test]
fn read_that_is_not_polled_blocks_no_other() {
    simulated_with(async |server, zk| {
        let stm = accounts(&zk).await;
        let (rule, requests) = recorded(&server);
        let body = |tx: Tx| async move {
            let mut a = pin!(value(&tx, A));
            assert!(poll!(a.as_mut()).is_pending());
            let b = value(&tx, B).await?;
            let a = a.await?;
            tx.put(A, &(a + b + 1))
        };
        assert_eq!(ended(stm.atomically(body)).await.attempts, 1);
        drop(rule);
        assert_eq!(stored(&zk, A).await, 101);
        let sent = requests.lock().unwrap()[&session_id(&zk).get()].clone();
        let (read, commit) = (OpCode::MultiRead, OpCode::Multi);
        assert_eq!(sent[..3], [read, read, commit], "{sent:?}");
    });
}

#[test]
fn body_reads_more_while_reads_are_buffered() {
    simulated_with(async |_server, zk| {
        let stm = Stm::space(&zk, SPACE);
        let put = |tx: Tx| async move { (0..20).try_for_each(|n| tx.put(format!("/acc/{n}"), &1)) };
        stm.atomically(put).await.unwrap();
        let body = |tx: Tx| async move {
            let paths = stream::iter((0..10).map(|n| format!("/acc/{n}")));
            let mut reads = pin!(paths.map(|path| tx.get_typed::<i64>(path)).buffer_unordered(3));
            let (mut total, mut next) = (0, 10);
            while let Some(read) = reads.next().await {
                // The other reads of the buffer are not polled.
                total += read?.unwrap() + value(&tx, &format!("/acc/{next}")).await?;
                next += 1;
            }
            tx.put("/acc/total", &total)?;
            Ok(total)
        };
        assert_eq!(ended(stm.atomically(body)).await.value, 20);
    });
}

/// The response arrives before another client writes, and the body asks for it afterwards.
#[test]
fn late_response_does_not_show_an_earlier_state() {
    simulated_each_on([false, true], two_in_memory, async |has_read, (_server, zk, other)| {
        let (stm, theirs) = (accounts(&zk).await, Stm::space(&other, SPACE));
        let body = |tx: Tx| {
            let theirs = &theirs;
            async move {
                if has_read {
                    tx.get(SPACE).await?;
                }
                let mut a = pin!(value(&tx, A));
                assert!(poll!(a.as_mut()).is_pending());
                theirs.atomically(|tx| transfer(tx, 30)).await.unwrap();
                let b = value(&tx, B).await?;
                Ok((a.await?, b))
            }
        };
        let done = ended(stm.atomically(body)).await;
        assert_eq!((done.value, done.attempts), ((70, 30), 1));
    });
}

/// The response of the read that was sent first is added last, and both responses came before the
/// client learned of the write between them.
#[test]
fn asserted_absence_shows_no_state_with_an_older_read() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        for path in ["/a", "/b"] {
            other.create(path).data("1").await.unwrap();
        }
        // The client knows the last transaction before the attempt.
        assert!(zk.exists("/b").synced().await.unwrap().is_some());
        let body = |tx: Tx| {
            let other = &other;
            async move {
                tx.assert_absent("/b")?;
                let mut a = pin!(maybe_done(tx.get_typed::<i64>("/a")));
                assert!(poll!(a.as_mut()).is_pending());
                let swap = other.transaction().set_data("/a", "2").delete("/b");
                if other.exists("/b").await?.is_some() {
                    swap.await?;
                }
                let b = tx.get("/b").await?;
                a.as_mut().await;
                let a = a.take_output().unwrap()?;
                assert_ne!((a, &b), (Some(1), &None), "a state that never existed");
                Ok((a, b))
            }
        };
        let done = ended(Stm::loose(&zk).atomically(body)).await;
        assert_eq!((done.value, done.attempts), ((Some(2), None), 1));
    });
}

/// Both of them read everything again, each without the node of the other.
#[test]
fn two_reads_that_come_too_late_keep_each_other() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let (stm, theirs) = (accounts(&zk).await, Stm::space(&other, SPACE));
        let body = |tx: Tx| {
            let theirs = &theirs;
            async move {
                tx.get(SPACE).await?;
                theirs.atomically(|tx| transfer(tx, 30)).await.unwrap();
                let (a, b) = tokio::join!(value(&tx, A), value(&tx, B));
                let (a, b) = (a?, b?);
                tx.put(A, &(a + b))?;
                Ok((a, b))
            }
        };
        let done = ended(stm.atomically(body)).await;
        assert_eq!((done.value, done.attempts), ((70, 30), 1));
        assert_eq!(stored(&zk, A).await, 100);
    });
}

/// Polls reads in any order, and some of them not for a while.
#[test]
fn concurrent_reads_show_one_state() {
    const ACCOUNTS: usize = 5;
    let path = |account: usize| format!("{SPACE}/{account}");
    for seed in 0..20 {
        simulated_from(seed, async move {
            let server = TestServer::in_memory().await;
            let clients = join_all((0..3).map(|_| connected(&server))).await;
            let put = |tx: Tx| async move {
                (0..ACCOUNTS).try_for_each(|account| tx.put(path(account), &20))
            };
            Stm::space(&clients[0], SPACE).atomically(put).await.unwrap();
            let runs = Cell::new(seed * 1_000);
            let work = async |zk: &CuratorFramework| {
                let stm = Stm::space(zk, SPACE);
                for _ in 0..20 {
                    let body = |tx: Tx| {
                        runs.set(runs.get() + 1);
                        let mut random = fastrand::Rng::with_seed(runs.get());
                        async move {
                            type Read<'t> = Pin<Box<dyn Future<Output = Result<i64, Error>> + 't>>;
                            let mut order: Vec<usize> = (0..ACCOUNTS).collect();
                            random.shuffle(&mut order);
                            let mut reads: Vec<(usize, Read<'_>)> = Vec::new();
                            for account in order {
                                let tx = tx.clone();
                                let read = async move { value(&tx, &path(account)).await };
                                let mut read: Read<'_> = Box::pin(read);
                                if random.bool() && poll!(&mut read).is_ready() {
                                    continue;
                                }
                                if random.bool() {
                                    spend(Duration::from_micros(random.u64(0..500))).await;
                                }
                                reads.push((account, read));
                            }
                            random.shuffle(&mut reads);
                            let mut values = vec![None; ACCOUNTS];
                            for (account, read) in reads {
                                values[account] = Some(read.await?);
                            }
                            for (account, value) in values.iter_mut().enumerate() {
                                if value.is_none() {
                                    *value = Some(crate::stm::value(&tx, &path(account)).await?);
                                }
                            }
                            let values: Vec<i64> = values.into_iter().flatten().collect();
                            assert_eq!(values.iter().sum::<i64>(), 100, "{values:?}");
                            let (from, to) = (random.usize(0..ACCOUNTS), random.usize(0..ACCOUNTS));
                            if from != to {
                                tx.put(path(from), &(values[from] - 1))?;
                                tx.put(path(to), &(values[to] + 1))?;
                            }
                            Ok(())
                        }
                    };
                    ended(stm.transaction().retries(u32::MAX).run(body)).await;
                }
            };
            join_all(clients.iter().map(work)).await;
        });
    }
}
