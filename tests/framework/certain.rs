//! Transactions with a receipt: applied once, or not at all, whatever is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zk_curator::ErrorKind::{
    Closed, ConnectionLoss, InvalidArgument, InvalidPath, NoAuth, NoChildrenForEphemerals, NoNode,
    OperationTimeout, OwnershipLost, SessionExpired, TooLarge, TransactionFailed, Withdrawn,
};
use zk_curator::certain::{Applied, CommitProof, Receipt};
use zk_curator::internal::withdrawn_by;
use zk_curator::schema::SchemaSet;
use zk_curator::{
    Acl, ConnectionState, CreateMode, CuratorFramework, Error, ErrorCode, OpResult, Permissions,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::spend;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    SESSION_TIMEOUT, always, builder, closes_clean, connected, expire, impatient, in_memory, once,
    pairs, rule_if, server, simulated_each_on, simulated_on, start, until, until_state,
};

/// A server and a framework with a counter, and a receipt below it.
async fn counter() -> (TestServer, CuratorFramework, Receipt) {
    let (server, zk) = in_memory().await;
    let receipt = count_from_zero(&zk).await;
    (server, zk, receipt)
}

async fn count_from_zero(zk: &CuratorFramework) -> Receipt {
    zk.create("/counter").data("0").await.unwrap();
    Receipt::new(zk, "/counter")
}

/// Adds one, in a write that is not idempotent.
async fn increment(zk: &CuratorFramework, receipt: &Receipt) -> Result<Applied, Error> {
    let next = count(zk).await + 1;
    zk.transaction().set_data("/counter", next.to_string()).certain(receipt).await
}

async fn count(zk: &CuratorFramework) -> u64 {
    let data = zk.get_data("/counter").synced().await.unwrap();
    std::str::from_utf8(&data).unwrap().parse().unwrap()
}

/// Returns the number of writes of the counter.
fn writes(server: &TestServer) -> i32 {
    server.probe().stat("/counter").unwrap().version
}

fn receipts(server: &TestServer) -> Vec<String> {
    let probe = server.probe();
    probe.children("/counter").into_iter().map(|name| format!("/counter/{name}")).collect()
}

/// Something that happens to the requests of a kind.
const LOSSES: [Verdict; 4] = [
    Verdict::LoseReply,
    Verdict::LoseRequest,
    Verdict::Disconnect,
    Verdict::Refuse(ErrorCode::OperationTimeout),
];

#[test]
fn a_hundred_increments_count_a_hundred_whatever_is_lost() {
    let cases = pairs(LOSSES, [1, 2, 3]);
    simulated_each_on(cases, counter, async |(verdict, every), (server, zk, receipt)| {
        // The numbers of transactions, and of reads of the receipt.
        let seen = AtomicU64::new(0);
        let lossy = server.rule(move |request| {
            let counts = request.is(OpCode::Multi) || request.matches("/counter/_r_*");
            let number = seen.fetch_add(u64::from(counts), Ordering::Relaxed);
            let hit = counts && number % 7 < every;
            if hit { verdict } else { Verdict::Pass }
        });
        for n in 0..100 {
            assert_eq!(count(&zk).await, n, "{verdict:?}");
            increment(&zk, &receipt).await.unwrap();
        }
        assert!(lossy.hits() > 14, "{verdict:?}: {}", lossy.hits());
        drop(lossy);
        assert_eq!((count(&zk).await, writes(&server)), (100, 100), "{verdict:?}");
    });
}

#[test]
fn a_lost_reply_is_proven_by_the_receipt() {
    simulated_on(counter, async |(server, zk, receipt)| {
        for first in [true, false] {
            let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
            let applied = increment(&zk, &receipt).await.unwrap();
            assert_eq!((lost.hits(), applied.results()), (1, None), "{first}");
            assert_eq!(server.probe().stat("/counter").unwrap().mzxid, applied.zxid());
        }
        let applied = increment(&zk, &receipt).await.unwrap();
        let stat = server.probe().stat("/counter").unwrap();
        assert_eq!((stat.mzxid, stat.version), (applied.zxid(), 3));
        assert_eq!(applied.results(), Some(&[OpResult::DataSet(stat)][..]));
    });
}

/// The cost: one more operation in the same request, two more in the first one.
#[test]
fn a_certain_transaction_is_one_request() {
    simulated_on(counter, async |(server, zk, receipt)| {
        let before = server.probe().total_requests();
        for n in 0..10 {
            zk.transaction().set_data_if("/counter", "x", n).certain(&receipt).await.unwrap();
        }
        let probe = server.probe();
        assert_eq!((probe.total_requests() - before, probe.requests(OpCode::Multi)), (10, 10));
        let [path] = &receipts(&server)[..] else { panic!("one receipt\n{probe}") };
        assert_eq!(probe.data(path).unwrap(), "10");
        // A lost response costs two more, in one round trip.
        let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
        zk.transaction().set_data("/counter", "y").certain(&receipt).await.unwrap();
        let after = server.probe();
        assert_eq!((lost.hits(), after.requests(OpCode::Multi)), (1, 12));
        assert_eq!(after.requests(OpCode::GetData) - probe.requests(OpCode::GetData), 1);
    });
}

#[test]
fn transactions_of_one_receipt_are_applied_in_call_order() {
    simulated_on(counter, async |(server, zk, receipt)| {
        // The second one is sent again, and the others still come after it.
        let lost = once(&server, OpCode::Multi, Verdict::LoseRequest).after(1);
        let mut tasks = Vec::new();
        for n in 0..5 {
            let mode = CreateMode::PersistentSequential;
            let create = zk.transaction().create_with_mode("/counter/n-", n.to_string(), mode);
            tasks.push(tokio::spawn(create.certain(&receipt).into_future()));
            tokio::task::yield_now().await;
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let probe = server.probe();
        let names = probe.children("/counter").into_iter().filter(|name| name.starts_with("n-"));
        let data: Vec<_> =
            names.map(|name| probe.data(&format!("/counter/{name}")).unwrap()).collect();
        assert_eq!(data, ["0", "1", "2", "3", "4"]);
        assert_eq!(lost.hits(), 1);
    });
}

#[test]
fn a_receipt_deleted_between_transactions_is_replaced() {
    simulated_on(counter, async |(server, zk, receipt)| {
        let operator = connected(&server).await;
        for n in 1..4 {
            increment(&zk, &receipt).await.unwrap();
            operator.delete(receipts(&server)[0].as_str()).await.unwrap();
            // Also when the response to the next one is lost.
            let lost = once(&server, OpCode::Multi, Verdict::LoseReply).after(1);
            increment(&zk, &receipt).await.unwrap();
            drop(lost);
            assert_eq!(
                (count(&zk).await, writes(&server), receipts(&server).len()),
                (2 * n, 2 * n as i32, 1)
            );
        }
    });
}

#[test]
fn a_write_based_on_a_replaced_node_is_refused() {
    simulated_on(counter, async |(server, zk, receipt)| {
        let before = zk.transaction().certain(&receipt).await.unwrap();
        let write = |data: &'static str, proof: &CommitProof| {
            zk.transaction().set_data_if("/counter", data, 0).certain(&receipt).while_there(proof)
        };
        let other = connected(&server).await;
        other.delete("/counter").deleting_children().await.unwrap();
        other.create("/counter").data("7").await.unwrap();
        for _ in 0..2 {
            let refused = write("1", before.proof()).await.unwrap_err();
            assert_eq!(refused.kind(), NoNode);
            assert!(
                refused.path().starts_with("/counter/_r_") && !refused.may_have_applied(),
                "{refused}"
            );
        }
        assert_eq!((count(&zk).await, writes(&server)), (7, 0));
        let now = zk.transaction().certain(&receipt).await.unwrap();
        assert_ne!(now.proof(), before.proof());
        let written = write("8", now.proof()).await.unwrap();
        assert_eq!((count(&zk).await, written.proof()), (8, now.proof()));
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Lost).await;
        let refused = write("1", now.proof()).await.unwrap_err();
        assert_eq!((refused.kind(), count(&zk).await), (NoNode, 8));
    });
}

#[test]
fn a_receipt_written_by_another_client_is_replaced() {
    simulated_on(counter, async |(server, zk, receipt)| {
        increment(&zk, &receipt).await.unwrap();
        let foreign = receipts(&server).remove(0);
        connected(&server).await.set_data(foreign.as_str(), "2").version(1).await.unwrap();
        // It has the next number, which is then no proof of the next but one.
        zk.transaction().certain(&receipt).await.unwrap();
        increment(&zk, &receipt).await.unwrap();
        assert_eq!(count(&zk).await, 2);
        connected(&server).await.set_data(receipts(&server)[0].as_str(), "?").await.unwrap();
        increment(&zk, &receipt).await.unwrap();
        assert_eq!((count(&zk).await, writes(&server)), (3, 3));
        until(&server, |probe| !probe.exists(&foreign) && probe.children("/counter").len() == 1)
            .await;
    });
}

/// The receipt is deleted after the response was lost and before it is read: the outcome is
/// unknown, and nothing is repeated.
#[test]
fn a_receipt_deleted_by_hand_is_unknown_and_not_twice() {
    let cases = [Verdict::LoseReply, Verdict::LoseRequest];
    simulated_each_on(cases, counter, async |verdict, (server, zk, receipt)| {
        let operator = connected(&server).await;
        increment(&zk, &receipt).await.unwrap();
        let lost = once(&server, OpCode::Multi, verdict);
        let look = rule_if(
            &server,
            |request| request.is(OpCode::Multi) && !request.is_about("/counter"),
            Verdict::Delay(Duration::from_secs(1)),
        );
        let (zk, own) = (zk.clone(), receipt.clone());
        let task = tokio::spawn(async move { increment(&zk, &own).await });
        lost.fired().await;
        look.fired().await;
        operator.delete(receipts(&server)[0].as_str()).await.unwrap();
        let error = task.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ConnectionLoss, true), "{error}");
        let applied = i32::from(verdict == Verdict::LoseReply);
        assert_eq!(writes(&server), 1 + applied);
        increment(&operator, &Receipt::new(&operator, "/counter")).await.unwrap();
        assert_eq!(writes(&server), 2 + applied);
    });
}

#[test]
fn a_session_that_ends_first_leaves_the_outcome_unknown() {
    let cases = [(Verdict::LoseReply, 1), (Verdict::LoseRequest, 0)];
    simulated_each_on(cases, counter, async |(verdict, applied), (server, zk, receipt)| {
        increment(&zk, &receipt).await.unwrap();
        let lost = once(&server, OpCode::Multi, verdict);
        let own = receipt.clone();
        let task = tokio::spawn({
            let zk = zk.clone();
            async move { increment(&zk, &own).await }
        });
        lost.fired().await;
        server.stop().await;
        until_state(&zk, ConnectionState::Lost).await;
        let error = task.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (SessionExpired, true));
        server.restart().await.unwrap();
        zk.wait_connected().await.unwrap();
        assert_eq!(writes(&server), 1 + applied);
        // The next session has a receipt of its own.
        increment(&zk, &receipt).await.unwrap();
        assert_eq!(writes(&server), 2 + applied);
        until(&server, |probe| probe.children("/counter").len() == 1).await;
    });
}

#[test]
fn an_outage_shorter_than_the_session_is_waited_out() {
    // Without retries: reading the receipt does not count as one.
    let cases = [Verdict::LoseReply, Verdict::LoseRequest];
    simulated_each_on(cases, impatient, async |verdict, (server, zk)| {
        let receipt = count_from_zero(&zk).await;
        let lost = once(&server, OpCode::Multi, verdict);
        let began = Instant::now();
        let own = receipt.clone();
        let task = tokio::spawn({
            let zk = zk.clone();
            async move { increment(&zk, &own).await }
        });
        lost.fired().await;
        server.partition();
        spend(SESSION_TIMEOUT * 7 / 10).await;
        server.heal();
        let result = task.await.unwrap();
        assert!(began.elapsed() >= SESSION_TIMEOUT * 7 / 10);
        match verdict {
            Verdict::LoseReply => assert_eq!(result.unwrap().results(), None),
            // It is known not to have been applied, and is not repeated.
            _ => {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ConnectionLoss);
                assert!(!error.may_have_applied(), "{error}");
                assert_eq!(writes(&server), 0);
            }
        }
    });
}

#[test]
fn an_unsent_transaction_is_sent_in_the_next_session() {
    simulated_on(counter, async |(server, zk, receipt)| {
        increment(&zk, &receipt).await.unwrap();
        expire(&server, &zk).await;
        increment(&zk, &receipt).await.unwrap();
        assert_eq!((writes(&server), zk.status().session_epoch), (2, 2));
        assert_eq!(receipts(&server).len(), 1);
    });
}

#[test]
fn a_deadline_ends_the_wait_and_the_next_transaction_goes_on() {
    simulated_on(counter, async |(server, zk, receipt)| {
        for known in [false, true] {
            let before = writes(&server);
            let held = once(&server, OpCode::Multi, Verdict::Delay(Duration::from_secs(2)));
            let transaction =
                zk.transaction().set_data("/counter", "1").deadline(Duration::from_secs(1));
            let waiting =
                zk.transaction().set_data("/counter", "2").deadline(Duration::from_millis(500));
            let (late, never) = tokio::join!(
                transaction.certain(&receipt).into_future(),
                waiting.certain(&receipt).into_future()
            );
            let (late, never) = (late.unwrap_err(), never.unwrap_err());
            assert_eq!((late.kind(), late.may_have_applied()), (OperationTimeout, true), "{known}");
            assert_eq!((never.kind(), never.may_have_applied()), (OperationTimeout, false));
            held.fired().await;
            zk.transaction().set_data("/counter", "3").certain(&receipt).await.unwrap();
            assert_eq!(writes(&server), before + 2);
            until(&server, |probe| probe.children("/counter").len() == 1).await;
        }
    });
}

#[test]
fn indexes_count_the_operations_of_the_caller() {
    simulated_on(counter, async |(server, zk, receipt)| {
        let node = zk.create("/owned").mode(CreateMode::Ephemeral).owned().await.unwrap();
        for _ in 0..2 {
            let fenced = node.ownership().fenced().check("/counter", None).delete("/none");
            let error = fenced.certain(&receipt).await.unwrap_err();
            let failed = TransactionFailed { index: 1, code: ErrorCode::NoNode };
            assert_eq!(
                (error.kind(), error.path(), error.may_have_applied()),
                (failed, "/none", false)
            );
            let applied = node.ownership().fenced().create("/counter/x", "").delete("/counter/x");
            let applied = applied.certain(&receipt).await.unwrap();
            assert_eq!(applied.results().unwrap().len(), 2);
        }
        connected(&server).await.delete("/owned").await.unwrap();
        let lost = node
            .ownership()
            .fenced()
            .set_data("/counter", "x")
            .certain(&receipt)
            .await
            .unwrap_err();
        assert_eq!((lost.kind(), lost.path()), (OwnershipLost, "/owned"));
        assert!(node.ownership().is_over() && writes(&server) == 0);
    });
}

#[test]
fn a_lost_response_is_proven_after_the_guard_is_gone() {
    simulated_on(counter, async |(server, zk, receipt)| {
        let node = zk.create("/owned").mode(CreateMode::Ephemeral).owned().await.unwrap();
        let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
        let fenced = node.ownership().fenced().set_data("/counter", "1").certain(&receipt);
        let task = tokio::spawn(fenced.into_future());
        lost.fired().await;
        drop(node);
        assert_eq!(task.await.unwrap().unwrap().results(), None);
    });
}

#[test]
fn a_receipt_is_protocol_data_of_the_provider() {
    simulated_on(server, async |server| {
        let acl = vec![Acl::new(Permissions::ALL, "world", "anyone")];
        let zk = builder(&server)
            .namespace("ns")
            .enable_compression()
            .acl_provider(acl.clone())
            .schema_set(SchemaSet::new([]).unwrap().closed());
        // Nothing but receipts may be written through this one.
        let zk = start(zk).await;
        connected(&server).await.create("/ns/p").creating_parents().await.unwrap();
        let receipt = Receipt::new(&zk, "/p");
        let applied = zk.transaction().certain(&receipt).await.unwrap();
        assert_eq!(applied.results(), Some(&[][..]));
        let probe = server.probe();
        let name = probe.children("/ns/p")[0];
        let path = format!("/ns/p/{name}");
        assert!(name.starts_with("_r_"), "{name}");
        assert_eq!((probe.data(&path).unwrap(), probe.acl(&path)), ("1".into(), &acl[..]));
        assert_eq!(probe.stat(&path).unwrap().mzxid, applied.zxid());
        assert_eq!(zk.inspect().owned[0].path, path);
    });
}

#[test]
fn a_receipt_that_cannot_be_written_is_an_error_with_its_path() {
    simulated_on(server, async |server| {
        let everything = connected(&server).await;
        everything.create("/counter").data("0").await.unwrap();
        let read_only = vec![Acl::new(Permissions::READ, "world", "anyone")];
        everything.create("/closed").acl(read_only.clone()).await.unwrap();
        everything.create("/ephemeral").mode(CreateMode::Ephemeral).await.unwrap();
        let zk = start(builder(&server).acl_provider(read_only)).await;
        for (parent, kind) in [
            ("/closed", NoAuth),
            ("/none", NoNode),
            ("/ephemeral", NoChildrenForEphemerals),
            // It may be created, and not written.
            ("/counter", NoAuth),
        ] {
            let receipt = Receipt::new(&zk, parent);
            let error = increment(&zk, &receipt).await.unwrap_err();
            assert_eq!((error.kind(), error.may_have_applied()), (kind, false), "{error}");
            assert!(error.path().starts_with(&format!("{parent}/_r_")), "{error}");
        }
        let invalid = increment(&zk, &Receipt::new(&zk, "none")).await.unwrap_err();
        assert_eq!(invalid.kind(), InvalidPath);
        let foreign = increment(&zk, &Receipt::new(&everything, "/counter")).await.unwrap_err();
        assert_eq!(foreign.kind(), InvalidArgument);
        assert_eq!(writes(&server), 0);
    });
}

#[test]
fn a_receipt_that_cannot_be_read_leaves_the_outcome_unknown() {
    simulated_on(server, async |server| {
        let write_only = vec![Acl::new(Permissions::WRITE, "world", "anyone")];
        let zk = start(builder(&server).acl_provider(write_only)).await;
        connected(&server).await.create("/counter").data("0").await.unwrap();
        let receipt = Receipt::new(&zk, "/counter");
        let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
        let error = increment(&zk, &receipt).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ConnectionLoss, true));
        assert_eq!((lost.hits(), writes(&server)), (1, 1));
        increment(&zk, &receipt).await.unwrap();
        assert_eq!(writes(&server), 2);
    });
}

#[test]
fn the_receipt_counts_for_the_size() {
    simulated_on(counter, async |(_server, zk, receipt)| {
        let largest = |zk: &CuratorFramework, length: usize| {
            zk.transaction().set_data("/counter", vec![0; length])
        };
        let (mut fits, mut exceeds) = (0, 2 << 20);
        while exceeds - fits > 1 {
            let length = (fits + exceeds) / 2;
            match largest(&zk, length).check_size() {
                Ok(()) => fits = length,
                Err(_) => exceeds = length,
            }
        }
        let error = largest(&zk, fits).certain(&receipt).check_size().unwrap_err();
        assert_eq!(error.kind(), TooLarge);
        let error = largest(&zk, fits).certain(&receipt).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (TooLarge, false));
        largest(&zk, fits - 200).certain(&receipt).await.unwrap();
    });
}

#[test]
fn a_receipt_goes_with_its_last_clone_and_with_the_session() {
    simulated_on(counter, async |(server, zk, receipt)| {
        increment(&zk, &receipt).await.unwrap();
        let clone = receipt.clone();
        drop(receipt);
        increment(&zk, &clone).await.unwrap();
        drop(clone);
        until(&server, |probe| probe.children("/counter").is_empty()).await;
        let receipt = Receipt::new(&zk, "/counter");
        increment(&zk, &receipt).await.unwrap();
        zk.delete("/counter").quietly().await.unwrap_err();
        zk.close().await.unwrap();
        let error = increment_closed(&zk, &receipt).await;
        assert_eq!((error.kind(), error.may_have_applied()), (Closed, false));
        drop(receipt);
        connected(&server).await.delete("/counter").await.unwrap();
    });
}

async fn increment_closed(zk: &CuratorFramework, receipt: &Receipt) -> Error {
    zk.transaction().set_data("/counter", "x").certain(receipt).await.unwrap_err()
}

#[test]
fn a_close_while_the_outcome_is_unknown_says_so() {
    simulated_on(counter, async |(server, zk, receipt)| {
        let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
        let task = tokio::spawn(
            zk.transaction().set_data("/counter", "1").certain(&receipt).into_future(),
        );
        lost.fired().await;
        server.stop().await;
        let (closed, result) = tokio::join!(zk.close(), task);
        closed.unwrap_err();
        assert!(result.unwrap().unwrap_err().may_have_applied());
        drop(receipt);
        server.restart().await.unwrap();
        until(&server, |probe| probe.sessions().is_empty()).await;
        assert_eq!(server.probe().paths(), ["/counter"]);
        connected(&server).await.delete("/counter").await.unwrap();
    });
}

/// Two clients, and a proof that each has its own.
#[test]
fn two_clients_that_lose_their_responses_both_learn_the_outcome() {
    simulated_on(counter, async |(server, zk, receipt)| {
        let other = connected(&server).await;
        let others = Receipt::new(&other, "/counter");
        for _ in 0..20 {
            let lost = always(&server, OpCode::Multi, Verdict::LoseReply).times(2);
            let add = |zk: CuratorFramework, receipt: Receipt| async move {
                loop {
                    let (data, stat) = zk.get_data("/counter").synced().with_stat().await.unwrap();
                    let next = std::str::from_utf8(&data).unwrap().parse::<u64>().unwrap() + 1;
                    let add =
                        zk.transaction().set_data_if("/counter", next.to_string(), stat.version);
                    match add.certain(&receipt).await {
                        Ok(_) => return next,
                        Err(error) => {
                            assert_eq!(error.code(), Some(ErrorCode::BadVersion), "{error}");
                        }
                    }
                }
            };
            let (ours, theirs) =
                tokio::join!(add(zk.clone(), receipt.clone()), add(other.clone(), others.clone()));
            assert_eq!((ours.abs_diff(theirs), lost.hits()), (1, 2));
        }
        assert_eq!((count(&zk).await, writes(&server)), (40, 40));
        drop((receipt, others));
        other.close().await.unwrap();
        zk.delete("/counter").deleting_children().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_withdrawn_transaction_is_not_applied_unless_it_was_sent() {
    simulated_each_on([false, true], counter, async |is_certain, (server, zk, receipt)| {
        let token = CancellationToken::new();
        let write = |token: &CancellationToken, data: &'static str| {
            let transaction =
                withdrawn_by(zk.transaction().set_data("/counter", data), token.clone());
            let receipt = receipt.clone();
            async move {
                if is_certain {
                    transaction.certain(&receipt).await.map(drop)
                } else {
                    transaction.commit().await.map(drop)
                }
            }
        };
        // It was sent, but can no longer have an effect.
        let late = once(&server, OpCode::Multi, Verdict::Delay(Duration::from_secs(1)));
        let (sent, ()) = tokio::join!(write(&token, "1"), async {
            until(&server, |_| late.hits() == 1).await;
            token.cancel();
        });
        sent.unwrap();
        assert_eq!(write(&token, "2").await.unwrap_err().kind(), Withdrawn);
        // While it waits for a connection.
        let token = CancellationToken::new();
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        let (withdrawn, ()) = tokio::join!(write(&token, "3"), async {
            tokio::task::yield_now().await;
            token.cancel();
        });
        let error = withdrawn.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (Withdrawn, false));
        server.heal();
        until_state(&zk, ConnectionState::Reconnected { same_session: true }).await;
        write(&CancellationToken::new(), "4").await.unwrap();
        assert_eq!((count(&zk).await, writes(&server)), (4, 2));
    });
}
