//! Nodes that live as long as a guard, how their owner learns of the loss, and fencing by them.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::{
    ConnectionState, CreateMode, CuratorFramework, ErrorCode, ErrorKind, EventType, OwnedNode,
    Ownership,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{past, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, always, always_of, assert_clean_after_close, builder,
    closes_clean, connected, cut_off, expire, in_memory, once, pairs, simulated, simulated_each,
    simulated_each_on, simulated_on, simulated_with, start, two_in_memory, until,
};

async fn ephemeral(zk: &CuratorFramework) -> OwnedNode {
    zk.create("/n").mode(CreateMode::Ephemeral).owned().await.expect("a node")
}

/// A task that waits for the loss, once it watches the node.
async fn waits_for_loss(server: &TestServer, ownership: &Ownership) -> tokio::task::JoinHandle<()> {
    let (ownership, path) = (ownership.clone(), ownership.path().to_owned());
    let waiting = tokio::spawn(async move { ownership.lost().await });
    until(server, |probe| probe.watches().iter().any(|watch| watch.path == path)).await;
    waiting
}

#[test]
fn an_owned_node_knows_its_path_stat_and_token() {
    simulated_with(async |server, zk| {
        let first = ephemeral(&zk).await;
        assert_eq!((first.path(), first.name()), ("/n", "n"));
        assert_eq!(Some(*first.stat()), server.probe().stat("/n"));
        assert_eq!(first.ownership().fencing_token().get(), first.stat().czxid);
        assert_eq!(first.ownership().session_epoch(), 1);
        assert!(first.is_ours() && !first.ownership().is_session_lost());
        let token = first.ownership().fencing_token();
        first.delete().await.unwrap();
        let second = ephemeral(&zk).await;
        assert!(second.ownership().fencing_token() > token, "tokens grow");
        second.delete().await.unwrap();
    });
}

#[test]
fn an_owned_ephemeral_node_survives_a_lost_response() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let lost = once(&server, OpCode::Create2, verdict);
        let create = zk.create("/n").mode(CreateMode::Ephemeral).data("one");
        let node = create.idempotent().owned().await.expect("a node");
        lost.fired().await;
        assert_eq!(Some(*node.stat()), server.probe().stat("/n"));
        node.delete().await.unwrap();
        assert!(!server.probe().exists("/n"));
    });
}

/// Both have the same session and data, but the transaction belongs to one of them.
#[test]
fn an_equal_node_of_another_caller_is_not_taken_for_ours() {
    let cases = pairs([None, Some(Verdict::LoseReply), Some(Verdict::LoseRequest)], [true, false]);
    simulated_each(cases, async |(lost, guarded), server, zk| {
        let create = || zk.create("/n").mode(CreateMode::Ephemeral).data("one");
        let theirs = if guarded { Some(create().owned().await.unwrap()) } else { None };
        if !guarded {
            create().await.unwrap();
        }
        let lose = lost.map(|lost| once(&server, OpCode::Create2, lost));
        let taken = create().idempotent().owned().await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::NodeExists, "{guarded}");
        if let Some(lose) = lose {
            lose.fired().await;
        }
        drop(theirs);
    });
}

/// Both creates are in flight at the same time, and the response to the refused create is lost.
#[test]
fn a_node_created_concurrently_is_not_mistaken_for_ours() {
    simulated_each([true, false], async |guarded, server, zk| {
        let create = || zk.create("/n").mode(CreateMode::Ephemeral).data("one");
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply).after(1);
        let theirs = async {
            match guarded {
                true => create().owned().await.map(Some),
                false => create().await.map(|_| None),
            }
        };
        let (theirs, ours) = tokio::join!(theirs, create().idempotent().owned().into_future());
        lost.fired().await;
        assert_eq!(ours.unwrap_err().kind(), ErrorKind::NodeExists, "{guarded}");
        assert!(server.probe().exists("/n"));
        drop(theirs.unwrap());
    });
}

/// No other client would delete it, as long as the session lives.
#[test]
fn an_abandoned_create_without_a_response_leaves_no_node() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let (server, zk) = in_memory().await;
            let lost = once(&server, OpCode::Create2, verdict);
            let create =
                || zk.create("/n").mode(CreateMode::Ephemeral).data("one").idempotent().owned();
            let mut abandoned = create().into_future();
            // The connection is gone, and the next one is not there yet.
            while lost.hits() == 0 || zk.state().is_connected() {
                assert!(futures_util::poll!(&mut abandoned).is_pending());
                tokio::task::yield_now().await;
            }
            drop(abandoned);
            let node = timeout(SESSION_TIMEOUT, async {
                loop {
                    match create().await {
                        Err(error) if error.kind() == ErrorKind::NodeExists => {
                            until(&server, |probe| !probe.exists("/n")).await;
                        }
                        created => return created.expect("a node"),
                    }
                }
            });
            let node = node.await.expect("the node is deleted");
            // Nothing that is still owed takes this one.
            assert!(zk.wait_until_released().await);
            assert_eq!(Some(*node.stat()), server.probe().stat("/n"));
            drop(node);
            closes_clean(&server, &zk).await;
        }
    });
}

/// Both outcomes are unknown, and there is one node: it belongs to the create that continues.
#[test]
fn the_node_of_an_abandoned_create_is_found_by_one_create() {
    simulated_with(async |server, zk| {
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply).times(2);
        let create =
            || zk.create("/n").mode(CreateMode::Ephemeral).data("one").idempotent().owned();
        let (mut abandoned, mut kept) = (create().into_future(), create().into_future());
        while lost.hits() == 0 || zk.state().is_connected() {
            assert!(futures_util::poll!(&mut abandoned).is_pending());
            assert!(futures_util::poll!(&mut kept).is_pending());
            tokio::task::yield_now().await;
        }
        drop(abandoned);
        let kept = loop {
            match kept.await {
                Err(error) if error.kind() == ErrorKind::NodeExists => {
                    kept = create().into_future();
                }
                created => break created.expect("a node"),
            }
        };
        assert!(zk.wait_until_released().await);
        assert_eq!(Some(*kept.stat()), server.probe().stat("/n"));
        assert!(kept.is_ours());
    });
}

#[test]
fn delete_deletes_and_drop_deletes_and_leak_does_not() {
    simulated_with(async |server, zk| {
        ephemeral(&zk).await.delete().await.unwrap();
        assert!(!server.probe().exists("/n"));
        drop(ephemeral(&zk).await);
        until(&server, |probe| !probe.exists("/n")).await;
        assert_eq!(server.probe().requests(OpCode::Delete), 2);
        let leaked = ephemeral(&zk).await.leak();
        assert_eq!(Some(leaked.stat), server.probe().stat(&leaked.path));
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().requests(OpCode::Delete), 2);
    });
}

#[test]
fn a_dropped_name_is_deleted_before_later_requests() {
    simulated_with(async |server, zk| {
        for mode in [CreateMode::Ephemeral, CreateMode::PersistentSequential] {
            for _ in 0..10 {
                let before = server.probe().total_requests();
                let node = zk.create("/n").mode(mode);
                let node = if mode.is_sequential() { node } else { node.protected() };
                let node = node.owned().await.unwrap();
                let path = node.path().to_owned();
                drop(node);
                // Had the delete not been first, this would fail with NodeExists.
                zk.create(&path).await.unwrap();
                zk.delete(&path).await.unwrap();
                assert_eq!(server.probe().total_requests() - before, 4, "no read comes first");
            }
        }
    });
}

/// The delete of a shared name is not first, but a create waits for what this framework owes.
#[test]
fn a_name_can_be_had_again_after_the_drop_of_its_guard() {
    simulated_with(async |server, zk| {
        for _ in 0..10 {
            drop(ephemeral(&zk).await);
            zk.create("/n").await.unwrap();
            zk.delete("/n").await.unwrap();
        }
        // The wait is bounded: if the deletion does not end, the create fails.
        let node = ephemeral(&zk).await;
        let stuck = always(&server, OpCode::Delete, Verdict::Refuse(ErrorCode::OperationTimeout));
        drop(node);
        let began = Instant::now();
        let late = zk.create("/n").deadline(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!((late.kind(), began.elapsed()), (ErrorKind::NodeExists, Duration::from_secs(1)));
        assert_eq!(zk.create("/n").await.unwrap_err().kind(), ErrorKind::NodeExists);
        assert_eq!(began.elapsed(), Duration::from_secs(1) + CONNECTION_TIMEOUT);
        drop(stuck);
        zk.create("/n").await.unwrap();
    });
}

/// All ways to own a node with a shared name.
async fn shared_names(zk: &CuratorFramework) -> Vec<OwnedNode> {
    let named = |name: &str, mode| zk.create(format!("/{name}")).mode(mode).data("ours");
    let mut nodes = Vec::new();
    for (n, mode) in [CreateMode::Ephemeral, CreateMode::Persistent].into_iter().enumerate() {
        nodes.push(named(&format!("plain{n}"), mode).owned().await.expect("the name is free"));
        let by_data = named(&format!("data{n}"), mode).protected_by_data().owned().await;
        nodes.push(by_data.expect("the name is free"));
    }
    let same = named("same", CreateMode::Ephemeral).idempotent().owned().await;
    nodes.push(same.expect("the name is free"));
    nodes
}

/// One client deletes the node, and another one creates a node with the same name and data.
async fn replace(zk: &CuratorFramework, path: &str) {
    zk.delete(path).await.expect("the node is there");
    zk.create(path).data("ours").await.expect("the name is free");
}

#[test]
fn a_guard_never_deletes_the_node_of_another_client() {
    simulated_each_on([true, false], two_in_memory, async |dropped, (server, zk, other)| {
        for node in shared_names(&zk).await {
            let path = node.path().to_owned();
            replace(&other, &path).await;
            let theirs = server.probe().stat(&path);
            if dropped {
                let (deletes, looks) = (
                    server.probe().requests(OpCode::Delete),
                    server.probe().requests(OpCode::Exists),
                );
                drop(node);
                until(&server, |probe| probe.requests(OpCode::Exists) > looks).await;
                zk.sync("/").await.unwrap();
                assert_eq!(server.probe().requests(OpCode::Delete), deletes);
            } else {
                assert_eq!(node.delete().await.unwrap_err().kind(), ErrorKind::NoNode);
            }
            assert_eq!(server.probe().stat(&path), theirs, "{path}");
        }
    });
}

/// The read found our node, but the delete finds a node that was written later, so it reads again.
#[test]
fn a_delete_that_meets_another_version_looks_again() {
    simulated(async {
        for dropped in [true, false] {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            for node in shared_names(&zk).await {
                let path = node.path().to_owned();
                let late =
                    always_of(&server, &zk, OpCode::Delete, Verdict::Delay(Duration::from_secs(1)));
                let late = late.times(1);
                let deleted = tokio::spawn(async move {
                    if !dropped {
                        return node.delete().await.unwrap_err().kind() == ErrorKind::NoNode;
                    }
                    drop(node);
                    true
                });
                late.fired().await;
                replace(&other, &path).await;
                let theirs = other.set_data(&path, "theirs").await.unwrap();
                assert!(deleted.await.unwrap());
                let looks = server.probe().requests(OpCode::Exists);
                past(Duration::from_secs(2)).await;
                assert!(!dropped || server.probe().requests(OpCode::Exists) > looks);
                assert_eq!(server.probe().stat(&path), Some(theirs), "{path}");
            }
        }
    });
}

/// Another client has written the node, as a request to revoke a lock does.
#[test]
fn a_node_of_ours_that_others_have_written_is_deleted() {
    simulated_each([true, false], async |dropped, server, zk| {
        for node in shared_names(&zk).await {
            let path = node.path().to_owned();
            connected(&server).await.set_data(&path, "revoke").await.unwrap();
            if dropped {
                drop(node);
            } else {
                node.delete().await.unwrap();
            }
            until(&server, |probe| !probe.exists(&path)).await;
        }
    });
}

#[test]
fn a_guard_that_knows_that_it_is_lost_sends_nothing() {
    simulated_each_on([true, false], two_in_memory, async |dropped, (server, zk, other)| {
        let mut nodes = shared_names(&zk).await;
        nodes.push(zk.create("/p").protected().owned().await.unwrap());
        for (n, node) in nodes.into_iter().enumerate() {
            let path = node.path().to_owned();
            // By a watch, or by a transaction.
            if n % 2 == 0 {
                let waiting = waits_for_loss(&server, node.ownership()).await;
                other.delete(&path).await.unwrap();
                waiting.await.unwrap();
            } else {
                other.delete(&path).await.unwrap();
                let error = node.ownership().fenced().set_data("/", "").commit().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::OwnershipLost);
            }
            assert!(node.ownership().is_over());
            other.create(&path).await.unwrap();
            let before = server.probe().total_requests();
            if dropped {
                drop(node);
            } else {
                assert_eq!(node.delete().await.unwrap_err().kind(), ErrorKind::NoNode);
            }
            zk.sync("/").await.unwrap();
            assert_eq!(server.probe().total_requests() - before, 1, "{path}");
            assert!(zk.inspect().owed.is_empty() && server.probe().exists(&path));
        }
    });
}

/// An abandoned create: the response goes to the janitor, which reads the node before it deletes
/// it.
#[test]
fn an_abandoned_create_spares_another_clients_node() {
    simulated_each_on([false, true], two_in_memory, async |by_data, (server, zk, other)| {
        let late = once(&server, OpCode::Create2, Verdict::Delay(Duration::from_secs(1)));
        let create = zk.create("/n").mode(CreateMode::Ephemeral).data("ours");
        let create = if by_data { create.protected_by_data() } else { create };
        let create = tokio::spawn(create.owned().into_future());
        late.fired().await;
        create.abort();
        let look = always_of(&server, &zk, OpCode::Multi, Verdict::Delay(Duration::from_secs(1)));
        look.fired().await;
        replace(&other, "/n").await;
        let theirs = server.probe().stat("/n");
        drop(look);
        until(&server, |probe| probe.requests(OpCode::Exists) > 0).await;
        zk.sync("/").await.unwrap();
        zk.close().await.unwrap();
        assert_eq!(server.probe().stat("/n"), theirs);
    });
}

/// A create whose response is lost, and that is then given up.
#[test]
fn a_node_that_is_found_and_replaced_is_not_deleted() {
    simulated_on(zk_curator_tests::impatient, async |(server, zk)| {
        let other = connected(&server).await;
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let late = always_of(&server, &zk, OpCode::Delete, Verdict::Delay(Duration::from_secs(1)));
        let late = late.times(1);
        let create = zk.create("/n").mode(CreateMode::Ephemeral).data("ours").protected_by_data();
        assert!(create.owned().await.unwrap_err().may_have_applied());
        lost.fired().await;
        late.fired().await;
        replace(&other, "/n").await;
        let theirs = other.set_data("/n", "theirs").await.unwrap();
        zk.close().await.unwrap();
        assert_eq!(server.probe().stat("/n"), Some(theirs));
    });
}

#[test]
fn deleting_a_node_that_another_client_deleted_is_no_node() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        connected(&server).await.delete("/n").await.unwrap();
        let error = node.delete().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.operation(), error.path()),
            (ErrorKind::NoNode, "delete", "/n")
        );
    });
}

#[test]
fn a_node_of_a_lost_session_is_not_deleted_for_its_next_owner() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        expire(&server, &zk).await;
        zk.states().until(|status| status.session_epoch == 2).await.unwrap();
        assert!(!node.is_ours() && node.ownership().is_session_lost());
        let next = ephemeral(&zk).await;
        drop(node);
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().stat("/n"), Some(*next.stat()));
        next.delete().await.unwrap();
    });
}

#[test]
fn lost_resolves_when_the_server_expires_the_session() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        let lost = waits_for_loss(&server, node.ownership()).await;
        expire(&server, &zk).await;
        lost.await.unwrap();
        // And for a later call.
        node.ownership().lost().await;
        assert!(node.ownership().is_session_lost());
    });
}

#[test]
fn lost_resolves_when_our_clock_ends_the_session_not_before() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        let lost = waits_for_loss(&server, node.ownership()).await;
        server.partition();
        zk.states().until(|status| status.state == ConnectionState::Suspended).await.unwrap();
        assert!(!lost.is_finished() && node.is_ours());
        let suspended = Instant::now();
        lost.await.unwrap();
        assert!(suspended.elapsed() >= SESSION_TIMEOUT / 4, "{:?}", suspended.elapsed());
        assert!(server.probe().exists("/n"), "before anybody else can have it");
    });
}

#[test]
fn lost_resolves_on_delete_and_not_on_data_change() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let node = ephemeral(&zk).await;
        let lost = waits_for_loss(&server, node.ownership()).await;
        for data in ["1", "2", "3"] {
            other.set_data("/n", data).await.unwrap();
            until(&server, |probe| !probe.watches().is_empty()).await;
        }
        assert!(!lost.is_finished());
        other.delete("/n").await.unwrap();
        lost.await.unwrap();
        assert!(!node.ownership().is_session_lost());
    });
}

#[test]
fn lost_resolves_when_the_node_is_another_one_by_now() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        // Deleted and created again before a watch is set.
        let node = ephemeral(&zk).await;
        other.delete("/n").await.unwrap();
        other.create("/n").await.unwrap();
        node.ownership().lost().await;
        drop(node.leak());

        // And while the connection is cut.
        other.delete("/n").await.unwrap();
        let node = ephemeral(&zk).await;
        let lost = waits_for_loss(&server, node.ownership()).await;
        let away = cut_off(&server, &zk);
        other.delete("/n").await.unwrap();
        other.create("/n").await.unwrap();
        drop(away);
        lost.await.unwrap();
        drop(node.leak());
    });
}

#[test]
fn confirm_asks_for_the_node_and_watches_it() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        let watch = node.ownership().confirm().await.unwrap().unwrap();
        server.remove("/n").unwrap();
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeDeleted);
        assert!(!node.ownership().is_over(), "no request was sent since");
        assert!(node.ownership().confirm().await.unwrap().is_none());
        assert!(node.ownership().is_over());
        let requests = server.probe().total_requests();
        assert!(node.ownership().confirm().await.unwrap().is_none());
        drop(node);
        assert_eq!(server.probe().total_requests(), requests);
    });
}

/// Another client has created a node with its name, or no server responds.
#[test]
fn confirm_claims_only_what_it_knows() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let node = ephemeral(&zk).await;
        let refused = always(&server, OpCode::Exists, Verdict::Refuse(ErrorCode::NoAuth));
        assert_eq!(node.ownership().confirm().await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert!(!node.ownership().is_over());
        drop(refused);
        server.remove("/n").unwrap();
        let theirs = ephemeral(&other).await;
        assert!(node.ownership().confirm().await.unwrap().is_none());
        drop(node);
        zk.close().await.unwrap();
        assert!(server.probe().exists(theirs.path()));
    });
}

#[test]
fn lost_survives_an_outage_beyond_the_connection_timeout() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).session_timeout(8 * CONNECTION_TIMEOUT)).await;
        let node = ephemeral(&zk).await;
        server.stop().await;
        zk.states().until(|status| status.state == ConnectionState::Suspended).await.unwrap();
        // It begins to read when no server can be reached.
        let ownership = node.ownership().clone();
        let lost = tokio::spawn(async move { ownership.lost().await });
        spend(5 * CONNECTION_TIMEOUT).await;
        server.restart().await.unwrap();
        let status = zk.wait_connected().await.unwrap();
        assert_eq!(status.state, ConnectionState::Reconnected { same_session: true });
        assert!(!lost.is_finished());
        until(&server, |probe| !probe.watches().is_empty()).await;
        connected(&server).await.delete("/n").await.unwrap();
        timeout(Duration::from_secs(1), lost).await.expect("no task read the node again").unwrap();
        drop(node.leak());
    });
}

#[test]
fn guards_learn_of_a_close_before_the_server_does() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        let mut ends = tokio::sync::mpsc::unbounded_channel();
        let seen = node.ownership().clone();
        let _closing = server.rule(move |request| {
            if request.is(OpCode::CloseSession) {
                ends.0.send(seen.is_session_lost()).unwrap();
            }
            Verdict::Pass
        });
        zk.close().await.unwrap();
        assert_eq!(ends.1.recv().await, Some(true));
        node.ownership().lost().await;
        assert_clean_after_close(&server);
    });
}

#[test]
fn a_fenced_transaction_is_applied_while_the_node_exists() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        zk.create("/data").await.unwrap();
        let results = node
            .ownership()
            .fenced()
            .set_data("/data", "1")
            .create("/x", "")
            .commit()
            .await
            .unwrap();
        assert_eq!(results.len(), 2, "the fence is not among the results: {results:?}");

        connected(&server).await.delete("/n").await.unwrap();
        let error = node.ownership().fenced().set_data("/data", "2").commit().await.unwrap_err();
        assert_eq!(error.to_string(), "transaction \"/n\": ownership lost");
        assert!(!error.may_have_applied() && !error.is_retryable());
        assert_eq!(server.probe().data("/data").unwrap(), "1");
    });
}

#[test]
fn the_index_of_a_failed_operation_does_not_count_the_fence() {
    simulated_with(async |_server, zk| {
        let node = ephemeral(&zk).await;
        let failing = node.ownership().fenced().create("/x", "").check("/none", None).commit();
        let error = failing.await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::TransactionFailed { index: 1, code: ErrorCode::NoNode }
        );
        assert_eq!(error.path(), "/none");
        // The first one of the caller is not the fence.
        let error = node.ownership().fenced().check("/none", None).commit().await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NoNode }
        );
        node.delete().await.unwrap();
    });
}

#[test]
fn a_fenced_transaction_of_a_lost_session_is_not_even_sent() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        expire(&server, &zk).await;
        zk.states().until(|status| status.session_epoch == 2).await.unwrap();
        // The same path exists again, which must not let the old owner in.
        let _next = ephemeral(&zk).await;
        let error = node.ownership().fenced().create("/x", "").commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OwnershipLost);
        assert_eq!(server.probe().requests(OpCode::Multi), 0);
    });
}

#[test]
fn a_fenced_transaction_does_not_move_to_the_next_session() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        // Refused without effect, and the session is over before it can be tried again.
        let moved = always(&server, OpCode::Multi, Verdict::Refuse(ErrorCode::SessionMoved));
        let moved = moved.times(1);
        let commit = tokio::spawn(node.ownership().fenced().create("/x", "").commit());
        moved.fired().await;
        expire(&server, &zk).await;
        assert_eq!(commit.await.unwrap().unwrap_err().kind(), ErrorKind::OwnershipLost);
        assert!(!server.probe().exists("/x"));
    });
}

#[test]
fn a_fenced_transaction_with_a_lost_response_may_have_applied() {
    simulated_with(async |server, zk| {
        let node = ephemeral(&zk).await;
        let lost = always(&server, OpCode::Multi, Verdict::LoseReply);
        let error = node.ownership().fenced().create("/x", "").commit().await.unwrap_err();
        assert!(error.may_have_applied(), "{error}");
        assert_eq!(lost.hits(), 1, "and is not repeated");
        assert!(server.probe().exists("/x"));
        drop(lost);
        node.delete().await.unwrap();
    });
}
