//! Transactions over many nodes: what they protect, and what they cost.

use std::cell::Cell;

use tokio::time::Instant;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_recipes::stm::{Error, IntrusionKind, Stm, Tx, snapshot_of};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::settled;
use zk_curator_tests::{
    assert_matches, recorded, session_id, simulated_each_on, simulated_on, simulated_with,
    two_in_memory,
};

use crate::cache_cost::distant;

pub(crate) const SPACE: &str = "/acc";
pub(crate) const A: &str = "/acc/a";
pub(crate) const B: &str = "/acc/b";

/// A space with two accounts.
pub(crate) async fn accounts(zk: &CuratorFramework) -> Stm {
    let stm = Stm::space(zk, SPACE);
    let put = stm.atomically(|tx| async move {
        tx.put(A, &100)?;
        tx.put(B, &0)
    });
    put.await.unwrap();
    stm
}

pub(crate) async fn value(tx: &Tx, path: &str) -> Result<i64, Error> {
    Ok(tx.get_typed(path).await?.unwrap_or(0))
}

pub(crate) async fn transfer(tx: Tx, amount: i64) -> Result<(), Error> {
    let (a, b) = (value(&tx, A).await?, value(&tx, B).await?);
    tx.put(A, &(a - amount))?;
    tx.put(B, &(b + amount))
}

pub(crate) async fn stored(zk: &CuratorFramework, path: &str) -> i64 {
    zk.typed().get(path).await.unwrap().value
}

#[test]
fn prefetched_transfer_takes_two_requests_and_round_trips() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = distant(&server).await;
        let stm = accounts(&zk).await;
        let (rule, requests) = recorded(&server);
        let began = Instant::now();
        let done = stm.transaction().prefetch([A, B]).run(|tx| transfer(tx, 10)).await.unwrap();
        let took = began.elapsed();
        drop(rule);
        let sent = requests.lock().unwrap()[&session_id(&zk).get()].clone();
        assert_eq!(sent, [OpCode::MultiRead, OpCode::Multi]);
        // One way takes 1 ms.
        assert_eq!(took.as_millis(), 4);
        assert_eq!(done.attempts, 1);
        let stat = zk.exists(B).await.unwrap().unwrap();
        assert_eq!(done.zxid, Some(stat.mzxid));
        assert_eq!((stored(&zk, A).await, stored(&zk, B).await), (90, 10));
    });
}

#[test]
fn reads_without_prefetch_take_one_request_each() {
    simulated_with(async |server, zk| {
        let stm = accounts(&zk).await;
        let (_rule, requests) = recorded(&server);
        stm.atomically(|tx| transfer(tx, 10)).await.unwrap();
        let read_only = stm.atomically(|tx| async move { tx.get_all([A, B]).await });
        let read = read_only.await.unwrap();
        assert_eq!((read.value.len(), read.zxid), (2, None));
        let confirmed = stm.transaction().linearizable().run(|tx| async move { tx.get(A).await });
        assert_eq!(confirmed.await.unwrap().zxid, None);
        let sent = requests.lock().unwrap()[&session_id(&zk).get()].clone();
        let (read, commit) = (OpCode::MultiRead, OpCode::Multi);
        // The confirmed read is sent behind a transaction of one check.
        assert_eq!(sent, [read, read, commit, read, commit, read]);
    });
}

#[test]
fn body_never_sees_two_states() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let (stm, theirs) = (accounts(&zk).await, Stm::space(&other, SPACE));
        let (runs, seen) = (Cell::new(0), Cell::new(Vec::new()));
        let (_rule, requests) = recorded(&server);
        let body = |tx: Tx| {
            runs.set(runs.get() + 1);
            let (theirs, runs, seen) = (&theirs, &runs, &seen);
            async move {
                let a = value(&tx, A).await?;
                if runs.get() == 1 {
                    theirs.atomically(|tx| transfer(tx, 30)).await.unwrap();
                }
                let b = value(&tx, B).await;
                let mut all = seen.take();
                all.push((a, b.as_ref().ok().copied()));
                seen.set(all);
                // The body hides the error of a read. It is not committed anyway.
                drop(tx.put(A, &(a + b.unwrap_or(0))));
                Ok(())
            }
        };
        let done = stm.atomically(body).await.unwrap();
        assert_eq!(done.attempts, 2);
        assert_eq!(seen.take(), [(100, None), (70, Some(30))]);
        assert_eq!(stored(&zk, A).await, 100);
        let sent = requests.lock().unwrap()[&session_id(&zk).get()].clone();
        let reads = sent.iter().filter(|opcode| **opcode == OpCode::MultiRead).count();
        // The first read, the second one, and everything again. The second attempt needs none.
        assert_eq!(reads, 3, "{sent:?}");
    });
}

#[test]
fn change_of_an_unrelated_node_is_no_conflict() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let stm = accounts(&zk).await;
        let body = |tx: Tx| {
            let other = &other;
            async move {
                let a = value(&tx, A).await?;
                // Only data: the other client need not use transactions.
                other.set_data(B, "7").await?;
                let b = value(&tx, B).await?;
                tx.put(A, &(a + b))
            }
        };
        assert_eq!(stm.atomically(body).await.unwrap().attempts, 1);
        assert_eq!(stored(&zk, A).await, 107);
    });
}

#[test]
fn recreated_node_is_not_the_one_that_was_read() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let (stm, theirs) = (accounts(&zk).await, Stm::space(&other, SPACE));
        let runs = Cell::new(0);
        let body = |tx: Tx| {
            runs.set(runs.get() + 1);
            let (theirs, runs) = (&theirs, &runs);
            async move {
                let a = value(&tx, A).await?;
                if runs.get() == 1 {
                    let again = |tx: Tx| async move {
                        tx.delete(A)?;
                        tx.create(A, &7)
                    };
                    theirs.atomically(again).await.unwrap();
                }
                tx.put(B, &a)
            }
        };
        assert_eq!(stm.atomically(body).await.unwrap().attempts, 2);
        assert_eq!(stored(&zk, B).await, 7);
        assert_eq!(zk.exists(A).await.unwrap().unwrap().version, 0);
    });
}

#[test]
fn phantoms_are_conflicts_in_a_space() {
    #[derive(Clone, Copy)]
    enum Look {
        Children,
        Absent,
    }
    simulated_each_on(
        [Look::Children, Look::Absent],
        two_in_memory,
        async |look, (_server, zk, other)| {
            let (stm, theirs) = (accounts(&zk).await, Stm::space(&other, SPACE));
            let runs = Cell::new(0);
            let body = |tx: Tx| {
                runs.set(runs.get() + 1);
                let (theirs, runs) = (&theirs, &runs);
                async move {
                    let found = match look {
                        Look::Children => tx.children(SPACE).await?.unwrap().len(),
                        Look::Absent => usize::from(tx.exists("/acc/new").await?),
                    };
                    if runs.get() == 1 {
                        theirs.atomically(|tx| async move { tx.create("/acc/new", "") }).await?;
                    }
                    tx.put(B, &found)
                }
            };
            assert_eq!(stm.atomically(body).await.unwrap().attempts, 2);
            assert_eq!(stored(&zk, B).await, if matches!(look, Look::Children) { 3 } else { 1 });
        },
    );
}

#[test]
fn body_sees_its_own_structure() {
    simulated_with(async |_server, zk| {
        let stm = accounts(&zk).await;
        let body = |tx: Tx| async move {
            tx.create("/acc/dir", "d")?;
            assert_matches!(tx.create("/acc/dir", "d"), Err(Error::Exists { .. }));
            tx.create("/acc/dir/x", "1")?;
            tx.create_sequential("/acc/dir/n-", "n")?;
            tx.delete(A)?;
            assert_eq!(tx.children("/acc/dir").await?, Some(vec!["x".to_owned()]));
            assert_eq!(tx.children(SPACE).await?, Some(vec!["b".to_owned(), "dir".to_owned()]));
            assert_eq!((tx.get(A).await?, tx.children(A).await?), (None, None));
            assert_eq!(tx.children("/acc/none").await?, None);
            assert!(tx.exists("/acc/dir/x").await?);
            Ok(())
        };
        let done = stm.atomically(body).await.unwrap();
        assert_eq!(done.created, Some(vec!["/acc/dir/n-0000000001".to_owned()]));
        let nodes = snapshot_of(&zk, [A, "/acc/dir/x", "/acc/dir/n-0000000001"]).await.unwrap();
        assert_eq!(nodes.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
        // The whole tree again.
        let body = |tx: Tx| async move {
            for name in tx.children("/acc/dir").await?.unwrap() {
                tx.delete(format!("/acc/dir/{name}"))?;
            }
            tx.delete("/acc/dir")
        };
        stm.atomically(body).await.unwrap();
        assert_eq!(zk.exists("/acc/dir").await.unwrap(), None);
        assert_eq!(stm.audit().await.unwrap(), []);
    });
}

#[test]
fn mistakes_of_a_body_are_errors_and_write_nothing() {
    simulated_with(async |_server, zk| {
        let stm = accounts(&zk).await;
        let before = zk.exists(SPACE).await.unwrap().unwrap();
        let result = stm.atomically(|tx| async move { tx.put("/other", "") }).await;
        assert_matches!(result, Err(Error::OutsideSpaces { path }) if path == "/other");
        let result = stm.atomically(|tx| async move { tx.create(A, "") }).await;
        assert_matches!(result, Err(Error::Exists { path }) if path == A);
        let result = stm.atomically(|tx| async move { tx.assert_absent(A) }).await;
        assert_matches!(result, Err(Error::Exists { .. }));
        let framework = |result: Result<_, Error>| match result.map(|_| ()) {
            Err(Error::Framework(error)) => error,
            other => panic!("{other:?}"),
        };
        let error = framework(stm.atomically(|tx| async move { tx.put("/acc/x/y", "") }).await);
        assert_eq!((error.code(), error.path()), (Some(zk_curator::ErrorCode::NoNode), "/acc/x/y"));
        let error = framework(stm.atomically(|tx| async move { tx.delete(SPACE) }).await);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error =
            framework(stm.atomically(|tx| async move { tx.put("/acc/_receipts", "") }).await);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let nested = Stm::spaces(&zk, [SPACE, A]);
        let error = framework(nested.atomically(|_| async { Ok(()) }).await);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let undecodable = |tx: Tx| async move {
            tx.put(B, "text")?;
            tx.get_typed::<i64>(B).await?;
            Ok(())
        };
        assert_eq!(framework(stm.atomically(undecodable).await).kind(), ErrorKind::Undecodable);
        let aborted = |tx: Tx| async move {
            tx.put(A, &1)?;
            Err::<(), _>(Error::abort("no money"))
        };
        let error = stm.atomically(aborted).await.unwrap_err();
        assert_matches!(&error, Error::Aborted(reason) if reason.to_string() == "no money");
        assert!(!error.may_have_applied() && !error.is_retryable());
        assert_eq!(stored(&zk, A).await, 100);
        assert_eq!(zk.exists(SPACE).await.unwrap().unwrap(), before);
    });
}

#[test]
fn handle_is_over_with_its_attempt() {
    simulated_with(async |_server, zk| {
        let stm = accounts(&zk).await;
        let tx = stm.atomically(|tx| async move { Ok(tx) }).await.unwrap().value;
        assert_matches!(tx.put(A, &1), Err(Error::Interrupted));
        assert_matches!(tx.get(A).await, Err(Error::Interrupted));
    });
}

#[test]
fn conflict_names_the_path_and_the_write() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let stm = accounts(&zk).await;
        let body = |tx: Tx| {
            let other = &other;
            async move {
                let a = value(&tx, A).await?;
                other.set_data(A, (a + 1).to_string()).await?;
                tx.put(A, &0)
            }
        };
        let error = stm.transaction().retries(2).run(body).await.unwrap_err();
        let last = zk.exists(A).await.unwrap().unwrap();
        assert_eq!(last.version, 3);
        assert!(error.is_retryable());
        let Error::Conflict { path, attempts, mzxid } = error else { panic!("{error:?}") };
        assert_eq!((path.as_str(), attempts, mzxid), (A, 3, Some(last.mzxid)));
    });
}

#[test]
fn transaction_spans_spaces() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let stm = Stm::spaces(&zk, ["/acc", "/log"]);
        let log = Stm::space(&other, "/log");
        let runs = Cell::new(0);
        let body = |tx: Tx| {
            runs.set(runs.get() + 1);
            let (log, runs) = (&log, &runs);
            async move {
                let entries = tx.children("/log").await?.unwrap().len();
                if runs.get() == 1 {
                    log.atomically(|tx| async move { tx.create_sequential("/log/t-", "") }).await?;
                }
                tx.put(A, &entries)?;
                tx.create_sequential("/log/t-", "")
            }
        };
        let done = stm.atomically(body).await.unwrap();
        assert_eq!(stored(&zk, A).await, 1);
        assert_eq!(done.created, Some(vec!["/log/t-0000000002".to_owned()]));
        // A transaction in one of the spaces does not depend on the other one.
        let body = |tx: Tx| {
            let log = &log;
            async move {
                let a = value(&tx, A).await?;
                log.atomically(|tx| async move { tx.create_sequential("/log/t-", "") }).await?;
                tx.put(A, &(a + 1))
            }
        };
        assert_eq!(stm.atomically(body).await.unwrap().attempts, 1);
    });
}

#[test]
fn audit_finds_other_clients() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let stm = accounts(&zk).await;
        other.set_data(A, "1").await.unwrap();
        assert_eq!(stm.audit().await.unwrap(), []);
        let created = other.create("/acc/a/x").await.unwrap();
        let ephemeral = other.create("/acc/e").mode(CreateMode::Ephemeral).await.unwrap();
        let found = stm.audit().await.unwrap();
        let found: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.kind)).collect();
        let changed = |zxid| IntrusionKind::ChildrenChanged { zxid };
        let zxid = async |path| zk.exists(path).await.unwrap().unwrap().czxid;
        let expected = [
            ("/acc/e", IntrusionKind::MayVanish),
            (SPACE, changed(zxid(ephemeral.path.clone()).await)),
            (A, changed(zxid(created.path.clone()).await)),
        ];
        assert_eq!(found, expected);
        assert_eq!(Stm::space(&other, "/none").audit().await.unwrap(), []);
    });
}

#[test]
fn namespace_applies_to_all_paths() {
    simulated_with(async |server, zk| {
        let inside = zk.using_namespace("tenant").unwrap();
        let stm = accounts(&inside).await;
        stm.atomically(|tx| transfer(tx, 5)).await.unwrap();
        assert_eq!(server.probe().data("/tenant/acc/b").unwrap()[..], *b"5");
        assert_eq!(stm.audit().await.unwrap(), []);
    });
}

/// The state that the body has read, in which there is nothing to delete, has to be the present
/// one.
#[test]
fn a_delete_of_a_missing_node_is_checked() {
    simulated_with(async |server, zk| {
        let stm = accounts(&zk).await;
        let (rule, requests) = recorded(&server);
        stm.atomically(|tx| async move { tx.delete("/acc/none") }).await.unwrap();
        stm.atomically(|tx| async move { tx.assert_absent("/acc/none") }).await.unwrap();
        drop(rule);
        let sent = requests.lock().unwrap()[&session_id(&zk).get()].clone();
        assert_eq!(sent, [OpCode::MultiRead, OpCode::Multi, OpCode::MultiRead, OpCode::Multi]);
    });
}

/// A body that has returned has written what it has written.
#[test]
fn a_clone_of_the_attempt_ends_with_the_body() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = distant(&server).await;
        let stm = accounts(&zk).await;
        let late = stm.atomically(|tx| async move {
            let clone = tx.clone();
            let late = tokio::spawn(async move {
                // The commit reads the node that the body writes.
                settled().await;
                clone.put(B, &7)
            });
            tx.put("/acc/c", &1)?;
            Ok(late)
        });
        let late = late.await.unwrap().value.await.unwrap();
        assert_matches!(late, Err(Error::Interrupted));
        assert_eq!(stored(&zk, B).await, 0);
    });
}

/// Nobody has changed anything.
#[test]
fn first_commits_in_a_space_are_no_conflicts() {
    simulated_each_on([false, true], two_in_memory, async |is_made, (_server, zk, other)| {
        if is_made {
            // By an operator, so there is no node for receipts.
            for path in [SPACE, A, B] {
                zk.create(path).data("0").await.unwrap();
            }
        }
        let put = async |zk: &CuratorFramework, path: &'static str| {
            let once = Stm::space(zk, SPACE).transaction().retries(0);
            once.run(|tx| async move { tx.put(path, &1) }).await
        };
        if is_made {
            let (one, two) = tokio::join!(put(&zk, A), put(&other, B));
            assert_eq!((one.unwrap().attempts, two.unwrap().attempts), (1, 1));
        } else {
            assert_eq!(put(&zk, A).await.unwrap().attempts, 1);
        }
        assert_eq!(Stm::space(&zk, SPACE).audit().await.unwrap(), []);
    });
}

#[test]
fn transaction_id_is_known_whatever_is_written() {
    simulated_with(async |_server, zk| {
        zk.create("/receipts").await.unwrap();
        zk.create("/dir").await.unwrap();
        for stm in [Stm::loose(&zk), Stm::loose(&zk).receipts_at("/receipts")] {
            for name in ["a", "b"] {
                zk.create(format!("/dir/{name}")).await.unwrap();
            }
            let delete = stm.atomically(|tx| async move {
                tx.delete("/dir/a")?;
                tx.delete("/dir/b")
            });
            let done = delete.await.unwrap();
            let parent = zk.exists("/dir").await.unwrap().unwrap();
            assert_eq!(done.zxid, Some(parent.pzxid));
        }
    });
}

#[test]
fn fence_protects_a_transaction_without_writes() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        accounts(&zk).await;
        zk.create("/receipts").await.unwrap();
        let spaces = [Stm::space(&zk, SPACE), Stm::loose(&zk)];
        let receipts = Stm::loose(&zk).receipts_at("/receipts");
        for stm in spaces.into_iter().chain([receipts]) {
            let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
            let read = async || {
                let fenced = stm.transaction().fenced_by(guard.ownership());
                fenced.run(|tx| async move { value(&tx, A).await }).await
            };
            let nothing = async || {
                let fenced = stm.transaction().fenced_by(guard.ownership());
                fenced.run(|_| async { Ok(()) }).await
            };
            let done = read().await.unwrap();
            assert!(done.value == 100 && done.zxid.is_some());
            nothing().await.unwrap();
            other.delete(guard.path()).await.unwrap();
            for error in [read().await.unwrap_err(), nothing().await.unwrap_err()] {
                assert_matches!(error, Error::Framework(error)
                    if error.kind() == ErrorKind::OwnershipLost);
            }
        }
    });
}

#[test]
fn without_a_space_a_delete_is_protected_by_an_assertion() {
    simulated_with(async |_server, zk| {
        let stm = Stm::loose(&zk);
        let asserted = |tx: Tx| async move {
            tx.assert_absent("/a")?;
            tx.delete("/a")
        };
        let created = |tx: Tx| async move {
            tx.create("/a", "")?;
            tx.delete("/a")
        };
        stm.atomically(asserted).await.unwrap();
        stm.atomically(created).await.unwrap();
        assert_eq!(zk.exists("/a").await.unwrap(), None);
        zk.create("/a").await.unwrap();
        assert_matches!(stm.atomically(asserted).await, Err(Error::Exists { .. }));
        assert_matches!(stm.atomically(created).await, Err(Error::Exists { .. }));
        // The parent of a node whose absence is asserted has to exist.
        let result = stm.atomically(|tx| async move { tx.assert_absent("/none/a") }).await;
        assert_matches!(result, Err(Error::Framework(error))
            if error.code() == Some(zk_curator::ErrorCode::NoNode));
    });
}
