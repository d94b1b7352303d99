//! Transactions over many nodes after lost requests and responses, and without a session.

use std::cell::Cell;
use std::time::Duration;

use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::stm::{Error, Stm, Tx};
use zk_curator_testing::{ErrorCode, TestServer, Verdict};
use zk_curator_tests::{
    all_close_clean, always, assert_matches, builder, cluster_of_three, connected,
    cut_at_next_multi, expire, in_memory, join_all, once_on_write_multi, recorded, rule_if,
    session_id, simulated_each_on, simulated_on, simulated_with, start, until,
};

use crate::cache_faults::on_member;

const SPACE: &str = "/acc";
const A: &str = "/acc/a";

async fn add(tx: Tx) -> Result<i64, Error> {
    let a = tx.get_typed::<i64>(A).await?.unwrap_or(0) + 1;
    tx.put(A, &a)?;
    Ok(a)
}

async fn stored(zk: &CuratorFramework) -> i64 {
    zk.typed().get(A).await.unwrap().value
}

#[test]
fn transfers_keep_the_total_under_lost_responses() {
    const ACCOUNTS: usize = 3;
    const TOTAL: i64 = 300;
    let path = |account: usize| format!("{SPACE}/{account}");
    simulated_on(TestServer::in_memory, async |server| {
        let clients = join_all((0..3).map(|_| connected(&server))).await;
        let setup = Stm::space(&clients[0], SPACE);
        let put_all = |tx: Tx| async move {
            (0..ACCOUNTS).try_for_each(|account| tx.put(path(account), &(TOTAL / 3)))
        };
        setup.atomically(put_all).await.unwrap();
        // Every few requests something is lost.
        let lost = Cell::new(0_u32);
        let lost = std::sync::Mutex::new(lost);
        let rule = server.rule(move |request| {
            if request.is(OpCode::Ping) {
                return Verdict::Pass;
            }
            let lost = lost.lock().unwrap();
            lost.set(lost.get() + 1);
            match lost.get() % 17 {
                3 => Verdict::LoseReply,
                11 => Verdict::LoseRequest,
                _ => Verdict::Pass,
            }
        });
        let moved = Cell::new(0);
        let work = |(index, zk): (usize, &CuratorFramework)| {
            let stm = Stm::space(zk, SPACE);
            let moved = &moved;
            async move {
                for round in 0..30 {
                    let (from, to) = ((index + round) % ACCOUNTS, (index + round + 1) % ACCOUNTS);
                    let body = |tx: Tx| async move {
                        let all = tx.get_all((0..ACCOUNTS).map(path)).await?;
                        let number = |data: &Option<bytes::Bytes>| -> i64 {
                            let data = data.as_ref().expect("an account is never deleted");
                            std::str::from_utf8(data).unwrap().parse().unwrap()
                        };
                        let values: Vec<i64> = all.iter().map(number).collect();
                        assert_eq!(values.iter().sum::<i64>(), TOTAL, "{values:?}");
                        tx.put(path(from), &(values[from] - 1))?;
                        tx.put(path(to), &(values[to] + 1))
                    };
                    stm.atomically(body).await.unwrap();
                    moved.set(moved.get() + 1);
                }
            }
        };
        join_all(clients.iter().enumerate().map(work)).await;
        assert!(rule.hits() > 10);
        drop(rule);
        assert_eq!(moved.get(), 90);
        let mut writes = 0;
        for account in 0..ACCOUNTS {
            writes += clients[0].exists(path(account)).await.unwrap().unwrap().version;
        }
        // Each transfer was applied once.
        assert_eq!(writes, 180);
        drop(setup);
        clients[0].delete(SPACE).deleting_children().await.unwrap();
        all_close_clean(&server, &clients).await;
    });
}

#[test]
fn lost_response_is_found_out_and_the_body_not_run_again() {
    for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
        simulated_with(async |server, zk| {
            let stm = Stm::space(&zk, SPACE);
            stm.atomically(add).await.unwrap();
            let runs = Cell::new(0);
            let _rule = once_on_write_multi(&server, verdict);
            let body = |tx: Tx| {
                runs.set(runs.get() + 1);
                async move {
                    tx.create_sequential("/acc/n-", "")?;
                    add(tx).await
                }
            };
            let done = stm.atomically(body).await.unwrap();
            assert_eq!((done.value, runs.get(), stored(&zk).await), (2, 1, 2));
            // The name was in the lost response.
            assert_eq!(done.created.is_some(), verdict == Verdict::LoseRequest);
            let stat = zk.exists(A).await.unwrap().unwrap();
            assert_eq!(done.zxid, Some(stat.mzxid));
        });
    }
}

#[test]
fn outcome_is_unknown_only_if_the_session_ends() {
    simulated_each_on(
        [Verdict::LoseReply, Verdict::LoseRequest],
        in_memory,
        async |verdict, (server, zk)| {
            let stm = Stm::space(&zk, SPACE);
            stm.atomically(add).await.unwrap();
            let runs = Cell::new(0);
            let cut = cut_at_next_multi(&server, &zk, verdict);
            let body = |tx: Tx| {
                runs.set(runs.get() + 1);
                add(tx)
            };
            let (result, ()) = tokio::join!(stm.atomically(body), async {
                until(&server, |_| cut.hits() > 0).await;
                expire(&server, &zk).await;
                drop(cut);
            });
            let error = result.unwrap_err();
            assert_matches!(&error, Error::Unknown { why } if why.may_have_applied());
            assert!(error.may_have_applied() && !error.is_retryable());
            assert_eq!(runs.get(), 1);
            let applied = verdict == Verdict::LoseReply;
            assert_eq!(stored(&zk).await, 1 + i64::from(applied));
            // The next one has a receipt in the new session.
            assert_eq!(stm.atomically(add).await.unwrap().value, 2 + i64::from(applied));
        },
    );
}

#[test]
fn without_a_space_receipts_are_opt_in() {
    for receipts in [false, true] {
        simulated_with(async |server, zk| {
            zk.create(SPACE).await.unwrap();
            zk.create(A).data("1").await.unwrap();
            zk.create("/receipts").await.unwrap();
            let stm = Stm::loose(&zk);
            let stm = if receipts { stm.receipts_at("/receipts") } else { stm };
            let _rule = once_on_write_multi(&server, Verdict::LoseReply);
            let result = stm.atomically(add).await;
            if receipts {
                assert_eq!(result.unwrap().value, 2);
            } else {
                assert_matches!(result, Err(Error::Unknown { .. }));
            }
            assert_eq!(stored(&zk).await, 2);
        });
    }
}

#[test]
fn missing_roots_and_receipts_are_created_whatever_is_lost() {
    // The number of the request that is lost.
    simulated_each_on(0..12, in_memory, async |nth, (server, zk)| {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let seen = std::sync::atomic::AtomicU32::new(0);
            let rule = server.rule(move |request| {
                if request.is(OpCode::Ping) {
                    return Verdict::Pass;
                }
                let number = seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if number == nth { verdict } else { Verdict::Pass }
            });
            let stm = Stm::space(&zk, SPACE);
            assert_eq!(stm.atomically(add).await.unwrap().value, 1, "{nth} {verdict:?}");
            drop(rule);
            assert_eq!(stm.audit().await.unwrap(), []);
            drop(stm);
            zk.wait_until_released().await;
            zk.delete(SPACE).deleting_children().await.unwrap();
        }
    });
}

#[test]
fn deleted_receipts_are_created_again() {
    simulated_with(async |server, zk| {
        let stm = Stm::space(&zk, SPACE);
        stm.atomically(add).await.unwrap();
        connected(&server).await.delete("/acc/_receipts").deleting_children().await.unwrap();
        assert_eq!(stm.atomically(add).await.unwrap().value, 2);
        assert!(server.probe().exists("/acc/_receipts"));
        assert_eq!(stm.audit().await.unwrap(), []);
    });
}

#[test]
fn body_continues_in_the_next_session() {
    simulated_with(async |server, zk| {
        let stm = Stm::space(&zk, SPACE);
        stm.atomically(add).await.unwrap();
        let body = |tx: Tx| {
            let (server, zk) = (&server, &zk);
            async move {
                let a = tx.get_typed::<i64>(A).await?.unwrap();
                expire(server, zk).await;
                tx.put("/acc/b", &a)
            }
        };
        assert_eq!(stm.atomically(body).await.unwrap().attempts, 1);
        assert!(server.probe().exists("/acc/b"));
    });
}

#[test]
fn server_without_multi_read_is_unsupported() {
    simulated_with(async |server, zk| {
        let _rule = always(&server, OpCode::MultiRead, Verdict::Refuse(ErrorCode::Unimplemented));
        let error = Stm::space(&zk, SPACE).atomically(add).await.unwrap_err();
        let Error::Framework(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn delayed_commit_is_in_conflict_with_a_faster_one() {
    simulated_with(async |server, zk| {
        let (stm, fast) = (Stm::space(&zk, SPACE), connected(&server).await);
        stm.atomically(add).await.unwrap();
        let victim = session_id(&zk).get();
        let is_commit = move |request: &zk_curator_testing::RuleRequest<'_>| {
            request.session_id() == victim && request.is(OpCode::Multi)
        };
        let late = rule_if(&server, is_commit, Verdict::Delay(Duration::from_secs(1))).times(1);
        let (slow, fast) = tokio::join!(stm.atomically(add), async {
            until(&server, |_| late.hits() > 0).await;
            Stm::space(&fast, SPACE).atomically(add).await
        });
        assert_eq!(fast.unwrap().value, 2);
        let slow = slow.unwrap();
        assert_eq!((slow.value, slow.attempts), (3, 2));
    });
}

/// How a body uses a node that was deleted, while its server still shows it.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    Create,
    AssertAbsent,
    Abort,
    Undecodable,
    LooseDelete,
    LooseRead,
}

#[test]
fn server_that_lags_refuses_no_transaction() {
    let all = [
        Refusal::Create,
        Refusal::AssertAbsent,
        Refusal::Abort,
        Refusal::Undecodable,
        Refusal::LooseDelete,
        Refusal::LooseRead,
    ];
    simulated_each_on(all, cluster_of_three, async |refusal, cluster| {
        let leader = cluster.leader().unwrap();
        let follower = (leader + 1) % 3;
        let (zk, other) = (on_member(&cluster, follower).await, on_member(&cluster, leader).await);
        let theirs = Stm::space(&other, SPACE);
        let is_loose = matches!(refusal, Refusal::LooseDelete | Refusal::LooseRead);
        let put = |tx: Tx| async move {
            tx.put("/acc/b", "")?;
            if is_loose { Ok(()) } else { tx.put(A, "text") }
        };
        theirs.atomically(put).await.unwrap();
        zk.sync("/").await.unwrap();
        let _late = cluster.lag_by(follower, Duration::from_secs(1));
        let change = |tx: Tx| async move {
            match refusal {
                Refusal::Undecodable | Refusal::LooseDelete | Refusal::LooseRead => tx.put(A, &1),
                _ => tx.delete(A),
            }
        };
        theirs.atomically(change).await.unwrap();
        let stm = if is_loose { Stm::loose(&zk) } else { Stm::space(&zk, SPACE) };
        let body = |tx: Tx| async move {
            match refusal {
                Refusal::Create => tx.create(A, ""),
                Refusal::AssertAbsent => tx.assert_absent(A),
                Refusal::Abort if tx.exists(A).await? => Err(Error::abort("it is there")),
                Refusal::Abort => tx.put("/acc/c", ""),
                Refusal::Undecodable => tx.get_typed::<i64>(A).await.map(drop),
                Refusal::LooseDelete => tx.delete(A),
                Refusal::LooseRead => tx.get(A).await.map(drop),
            }
        };
        assert_eq!(stm.atomically(body).await.unwrap().attempts, 2, "{refusal:?}");
    });
}

#[test]
fn refusal_takes_one_more_round_trip() {
    simulated_with(async |server, zk| {
        let stm = Stm::space(&zk, SPACE);
        stm.atomically(add).await.unwrap();
        let (rule, requests) = recorded(&server);
        let exists = stm.atomically(|tx| async move { tx.create(A, "") }).await;
        assert_matches!(exists, Err(Error::Exists { .. }));
        // It has read nothing.
        let aborted = stm.atomically(|_| async { Err::<(), _>(Error::abort("no")) }).await;
        assert_matches!(aborted, Err(Error::Aborted(_)));
        drop(rule);
        let sent = requests.lock().unwrap()[&session_id(&zk).get()].clone();
        // The transaction has one check, and its response comes from a quorum.
        assert_eq!(sent, [OpCode::MultiRead, OpCode::Multi, OpCode::MultiRead]);
    });
}

/// The receipts are in the first space, which the transaction does not use.
#[test]
fn first_transaction_may_use_a_space_without_the_receipts() {
    const LOG: &str = "/log/a";
    // The number of the request that is lost, or none.
    simulated_each_on(0..12, in_memory, async |nth, (server, zk)| {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let seen = std::sync::atomic::AtomicU32::new(0);
            let rule = server.rule(move |request| {
                if request.is(OpCode::Ping) {
                    return Verdict::Pass;
                }
                let number = seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if number == nth { verdict } else { Verdict::Pass }
            });
            let stm = Stm::spaces(&zk, [SPACE, "/log"]);
            let done = stm.atomically(|tx| async move { tx.put(LOG, &1) }).await.unwrap();
            assert_eq!(done.attempts, 1, "{nth} {verdict:?}");
            drop(rule);
            assert_eq!(zk.typed::<i64>().get(LOG).await.unwrap().stat.version, 0);
            assert_eq!(stm.audit().await.unwrap(), []);
            drop(stm);
            zk.wait_until_released().await;
            for root in [SPACE, "/log"] {
                zk.delete(root).deleting_children().await.unwrap();
            }
        }
    });
}

/// Everything that the attempt has read is larger than a response may be.
#[test]
fn conflict_of_an_attempt_with_many_data_is_repeated() {
    simulated_with(async |server, other| {
        let zk = start(builder(&server).max_frame(8_000).max_response(8_000)).await;
        let paths: Vec<String> = (0..5).map(|n| format!("/acc/{n}")).collect();
        let stm = Stm::space(&zk, SPACE);
        for path in &paths {
            stm.atomically(|tx| async move { tx.put(path, &vec![b'x'; 3_000]) }).await.unwrap();
        }
        let runs = Cell::new(0);
        let body = |tx: Tx| {
            runs.set(runs.get() + 1);
            let (paths, other, runs) = (&paths, &other, &runs);
            async move {
                for path in paths {
                    assert!(tx.get(path).await?.is_some());
                }
                if runs.get() == 1 {
                    other.set_data(paths[0].as_str(), "y").await?;
                }
                tx.put(A, &runs.get())
            }
        };
        let (_rule, requests) = recorded(&server);
        assert_eq!(stm.atomically(body).await.unwrap().attempts, 2);
        let sent = requests.lock().unwrap()[&session_id(&zk).get()].clone();
        let reads = sent.iter().filter(|opcode| **opcode == OpCode::MultiRead).count();
        // In both attempts one request for each node, and in between one for all of them.
        assert_eq!(reads, 6 + 1 + 6, "{sent:?}");
    });
}

/// Nodes of 3,000 bytes, of which two fit into a response, and one of 9,000 that no response holds.
async fn large_nodes(server: &TestServer, other: &CuratorFramework) -> CuratorFramework {
    let large = Stm::space(other, SPACE);
    let put = |tx: Tx| async move {
        (0..5).try_for_each(|n| tx.put(format!("/acc/{n}"), &vec![b'x'; 3_000]))?;
        tx.put("/acc/large", &vec![b'x'; 9_000])
    };
    large.atomically(put).await.unwrap();
    start(builder(server).max_frame(8_000).max_response(8_000)).await
}

async fn read_each(tx: &Tx) -> Result<(), Error> {
    for n in 0..5 {
        assert!(tx.get(format!("/acc/{n}")).await?.is_some());
    }
    Ok(())
}

#[test]
fn abort_after_many_data_has_its_reason() {
    simulated_each_on([false, true], in_memory, async |is_loose, (server, other)| {
        let zk = large_nodes(&server, &other).await;
        let stm = if is_loose { Stm::loose(&zk) } else { Stm::space(&zk, SPACE) };
        let runs = Cell::new(0);
        let changed = Cell::new("");
        let body = |tx: Tx| {
            runs.set(runs.get() + 1);
            let (other, changed) = (&other, changed.take());
            async move {
                tx.assert_absent("/acc/none")?;
                assert_eq!(tx.get("/acc/none").await?, None);
                read_each(&tx).await?;
                match changed {
                    "" => {}
                    "/acc/none" => drop(other.create(changed).data(vec![b'x'; 9_000]).await?),
                    path => drop(other.set_data(path, "y").await?),
                }
                Err::<(), _>(Error::abort("enough"))
            }
        };
        let prefetched = || stm.transaction().prefetch((0..5).map(|n| format!("/acc/{n}")));
        let error = prefetched().run(body).await.unwrap_err();
        assert_eq!(error.to_string(), "the body has aborted the transaction: enough");
        assert_eq!(runs.take(), 1);
        // A reason that is over does not end the transaction.
        changed.set("/acc/3");
        assert_matches!(prefetched().run(body).await, Err(Error::Aborted(_)));
        assert_eq!(runs.take(), 2);
        if is_loose {
            changed.set("/acc/none");
            let result = prefetched().run(body).await;
            assert_matches!(result, Err(Error::Exists { .. }) | Err(Error::Framework(_)));
        }
    });
}

#[test]
fn unread_nodes_of_any_size_are_written_together() {
    simulated_each_on([false, true], in_memory, async |is_loose, (server, other)| {
        let zk = large_nodes(&server, &other).await;
        let stm = if is_loose { Stm::loose(&zk) } else { Stm::space(&zk, SPACE) };
        let body = |tx: Tx| async move {
            assert!(tx.get("/acc/0").await?.is_some());
            (1..4).try_for_each(|n| tx.put(format!("/acc/{n}"), &n))?;
            tx.delete("/acc/4")?;
            tx.put("/acc/large", "small")?;
            tx.put("/acc/new", "")
        };
        assert_eq!(stm.atomically(body).await.unwrap().attempts, 1);
        let probe = server.probe();
        assert_eq!(probe.data("/acc/large").unwrap(), "small");
        assert_eq!(probe.data("/acc/3").unwrap(), "3");
        assert!(!probe.exists("/acc/4") && probe.exists("/acc/new"));
        // The root proves the structure of the space that the versions were read in.
        if !is_loose {
            assert_eq!(stm.audit().await.unwrap(), []);
        }
        // A create of one of them is refused, whatever its size.
        other.set_data("/acc/large", vec![b'x'; 9_000]).await.unwrap();
        let create = |tx: Tx| async move {
            (0..2).try_for_each(|n| tx.put(format!("/acc/{n}"), &n))?;
            tx.create("/acc/large", "")
        };
        let refused = stm.atomically(create).await;
        assert_matches!(refused, Err(Error::Exists { path }) if path == "/acc/large");
    });
}
