//! Nodes that go with a guard, how their owner learns of the loss, and what is fenced by them.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, ErrorCode, ErrorKind, OwnedNode, Ownership};
use zk_curator_proto::OpCode;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, assert_clean_after_close, builder, connected, expire, in_memory,
    once, session_id, simulated, until,
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
fn an_owned_node_knows_who_it_is() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
fn an_owned_ephemeral_node_whose_answer_is_lost_is_found() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let (server, zk) = in_memory().await;
            let lost = once(&server, OpCode::Create2, verdict);
            let create = zk.create("/n").mode(CreateMode::Ephemeral).data("one");
            let node = create.idempotent().owned().await.expect("a node");
            lost.fired().await;
            assert_eq!(Some(*node.stat()), server.probe().stat("/n"));
            node.delete().await.unwrap();
            assert!(!server.probe().exists("/n"));
        }
    });
}

#[test]
fn delete_deletes_and_drop_deletes_and_leak_does_not() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
fn the_drop_of_a_name_of_our_own_is_ahead_of_what_the_session_sends_later() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
                assert_eq!(server.probe().total_requests() - before, 4, "nobody looks first");
            }
        }
    });
}

/// The delete of a shared name is not first, but a create waits for what this framework owes.
#[test]
fn a_name_can_be_had_again_after_the_drop_of_its_guard() {
    simulated(async {
        let (server, zk) = in_memory().await;
        for _ in 0..10 {
            drop(ephemeral(&zk).await);
            zk.create("/n").await.unwrap();
            zk.delete("/n").await.unwrap();
        }
        // Not for ever: when the deletion does not end, the create fails as it would have.
        let node = ephemeral(&zk).await;
        let stuck = server.rule(|request| match request.is(OpCode::Delete) {
            true => Verdict::Refuse(ErrorCode::OperationTimeout),
            false => Verdict::Pass,
        });
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

/// All the ways to own a node of a name that others may create, too.
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

/// Somebody deletes the node, and somebody else creates one of the same name and with the same data.
async fn replace(zk: &CuratorFramework, path: &str) {
    zk.delete(path).await.expect("the node is there");
    zk.create(path).data("ours").await.expect("the name is free");
}

#[test]
fn a_guard_never_deletes_the_node_of_somebody_else() {
    simulated(async {
        for dropped in [true, false] {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            for node in shared_names(&zk).await {
                let path = node.path().to_owned();
                replace(&other, &path).await;
                let theirs = server.probe().stat(&path);
                if dropped {
                    let (deletes, looks) =
                        (server.probe().requests(OpCode::Delete), server.probe().requests(OpCode::Exists));
                    drop(node);
                    until(&server, |probe| probe.requests(OpCode::Exists) > looks).await;
                    zk.sync("/").await.unwrap();
                    assert_eq!(server.probe().requests(OpCode::Delete), deletes);
                } else {
                    assert_eq!(node.delete().await.unwrap_err().kind(), ErrorKind::NoNode);
                }
                assert_eq!(server.probe().stat(&path), theirs, "{path}");
            }
        }
    });
}

/// The look found ours, and the delete finds another one that has been written since: it is looked at again.
#[test]
fn a_delete_that_meets_another_version_looks_again() {
    simulated(async {
        for dropped in [true, false] {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            let ours = session_id(&zk).get();
            for node in shared_names(&zk).await {
                let path = node.path().to_owned();
                let late = server.rule(move |request| {
                    match request.is(OpCode::Delete) && request.session_id() == ours {
                        true => Verdict::Delay(Duration::from_secs(1)),
                        false => Verdict::Pass,
                    }
                });
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
                tokio::time::sleep(Duration::from_secs(2)).await;
                assert!(!dropped || server.probe().requests(OpCode::Exists) > looks);
                assert_eq!(server.probe().stat(&path), Some(theirs), "{path}");
            }
        }
    });
}

/// It has been written by others since it was created, as a request to revoke a lock does.
#[test]
fn a_node_of_ours_that_others_have_written_is_deleted() {
    simulated(async {
        for dropped in [true, false] {
            let (server, zk) = in_memory().await;
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
        }
    });
}

#[test]
fn a_guard_that_knows_that_it_is_lost_sends_nothing() {
    simulated(async {
        for dropped in [true, false] {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
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
        }
    });
}

/// An abandoned create: the answer goes to the janitor, who looks before it deletes.
#[test]
fn an_abandoned_create_does_not_delete_the_node_of_somebody_else() {
    simulated(async {
        for by_data in [false, true] {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            let ours = session_id(&zk).get();
            let late = once(&server, OpCode::Create2, Verdict::Delay(Duration::from_secs(1)));
            let create = zk.create("/n").mode(CreateMode::Ephemeral).data("ours");
            let create = if by_data { create.protected_by_data() } else { create };
            let create = tokio::spawn(create.owned().into_future());
            late.fired().await;
            create.abort();
            let look =
                server.rule(move |request| match request.is(OpCode::Multi) && request.session_id() == ours {
                    true => Verdict::Delay(Duration::from_secs(1)),
                    false => Verdict::Pass,
                });
            look.fired().await;
            replace(&other, "/n").await;
            let theirs = server.probe().stat("/n");
            drop(look);
            until(&server, |probe| probe.requests(OpCode::Exists) > 0).await;
            zk.sync("/").await.unwrap();
            zk.close().await.unwrap();
            assert_eq!(server.probe().stat("/n"), theirs);
        }
    });
}

/// A create whose answer is lost, and that is then given up.
#[test]
fn a_node_that_is_found_and_replaced_is_not_deleted() {
    simulated(async {
        let (server, zk) = zk_curator_tests::impatient().await;
        let other = connected(&server).await;
        let ours = session_id(&zk).get();
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let late =
            server.rule(move |request| match request.is(OpCode::Delete) && request.session_id() == ours {
                true => Verdict::Delay(Duration::from_secs(1)),
                false => Verdict::Pass,
            });
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
fn deleting_what_somebody_else_has_deleted_is_no_node() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = ephemeral(&zk).await;
        connected(&server).await.delete("/n").await.unwrap();
        let error = node.delete().await.unwrap_err();
        assert_eq!((error.kind(), error.operation(), error.path()), (ErrorKind::NoNode, "delete", "/n"));
    });
}

#[test]
fn a_node_of_a_lost_session_is_not_ours_and_not_deleted_under_its_next_owner() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = ephemeral(&zk).await;
        let lost = waits_for_loss(&server, node.ownership()).await;
        expire(&server, &zk).await;
        lost.await.unwrap();
        // And for whoever asks later.
        node.ownership().lost().await;
        assert!(node.ownership().session_lost().is_cancelled());
    });
}

#[test]
fn lost_resolves_when_our_own_clock_ends_the_session_and_not_while_it_is_suspended() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
fn lost_resolves_when_somebody_deletes_the_node_and_not_when_its_data_change() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
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
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
        // Deleted and created anew before anybody watches.
        let node = ephemeral(&zk).await;
        other.delete("/n").await.unwrap();
        other.create("/n").await.unwrap();
        node.ownership().lost().await;
        drop(node.leak());

        // And while the connection is cut.
        other.delete("/n").await.unwrap();
        let node = ephemeral(&zk).await;
        let lost = waits_for_loss(&server, node.ownership()).await;
        let id = session_id(&zk).get();
        let away = server.rule(move |request| match request.session_id() == id {
            true => Verdict::Disconnect,
            false => Verdict::Pass,
        });
        server.disconnect(id);
        other.delete("/n").await.unwrap();
        other.create("/n").await.unwrap();
        drop(away);
        lost.await.unwrap();
        drop(node.leak());
    });
}

#[test]
fn lost_survives_an_outage_that_is_longer_than_the_connection_timeout() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let zk = builder(&server).session_timeout(8 * CONNECTION_TIMEOUT).build().unwrap();
        zk.start().await.unwrap();
        let node = ephemeral(&zk).await;
        server.stop().await;
        zk.states().until(|status| status.state == ConnectionState::Suspended).await.unwrap();
        // It begins to look when there is nobody to ask.
        let ownership = node.ownership().clone();
        let lost = tokio::spawn(async move { ownership.lost().await });
        tokio::time::sleep(5 * CONNECTION_TIMEOUT).await;
        server.restart().await.unwrap();
        let status = zk.wait_connected().await.unwrap();
        assert_eq!(status.state, ConnectionState::Reconnected { same_session: true });
        assert!(!lost.is_finished());
        until(&server, |probe| !probe.watches().is_empty()).await;
        connected(&server).await.delete("/n").await.unwrap();
        timeout(Duration::from_secs(1), lost).await.expect("nobody looked again").unwrap();
        drop(node.leak());
    });
}

#[test]
fn guards_learn_of_a_close_before_the_server_does() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = ephemeral(&zk).await;
        let (lost, mut ends) = (node.ownership().session_lost(), tokio::sync::mpsc::unbounded_channel());
        let seen = lost.clone();
        let _closing = server.rule(move |request| {
            if request.is(OpCode::CloseSession) {
                ends.0.send(seen.is_cancelled()).unwrap();
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
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = ephemeral(&zk).await;
        zk.create("/data").await.unwrap();
        let results =
            node.ownership().fenced().set_data("/data", "1").create("/x", "").commit().await.unwrap();
        assert_eq!(results.len(), 2, "the fence is not among the answers: {results:?}");

        connected(&server).await.delete("/n").await.unwrap();
        let error = node.ownership().fenced().set_data("/data", "2").commit().await.unwrap_err();
        assert_eq!(error.to_string(), "transaction \"/n\": ownership lost");
        assert!(!error.may_have_applied() && !error.is_retryable());
        assert_eq!(server.probe().data("/data").unwrap(), "1");
    });
}

#[test]
fn the_index_and_path_of_a_failed_operation_do_not_count_the_fence() {
    simulated(async {
        let (_server, zk) = in_memory().await;
        let node = ephemeral(&zk).await;
        let failing = node.ownership().fenced().create("/x", "").check("/none", None).commit();
        let error = failing.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TransactionFailed { index: 1, code: ErrorCode::NoNode });
        assert_eq!(error.path(), "/none");
        // The first one of the caller is not the fence.
        let error = node.ownership().fenced().check("/none", None).commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NoNode });
        node.delete().await.unwrap();
    });
}

#[test]
fn a_fenced_transaction_of_a_lost_session_is_not_even_sent() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = ephemeral(&zk).await;
        // Refused without effect, and the session is over before it can be tried again.
        let moved = server.rule(|request| match request.is(OpCode::Multi) {
            true => Verdict::Refuse(ErrorCode::SessionMoved),
            false => Verdict::Pass,
        });
        let moved = moved.times(1);
        let commit = tokio::spawn(node.ownership().fenced().create("/x", "").commit());
        moved.fired().await;
        expire(&server, &zk).await;
        assert_eq!(commit.await.unwrap().unwrap_err().kind(), ErrorKind::OwnershipLost);
        assert!(!server.probe().exists("/x"));
    });
}

#[test]
fn a_fenced_transaction_with_a_lost_answer_may_have_been_applied() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = ephemeral(&zk).await;
        let lost = server.rule(|request| match request.is(OpCode::Multi) {
            true => Verdict::LoseReply,
            false => Verdict::Pass,
        });
        let error = node.ownership().fenced().create("/x", "").commit().await.unwrap_err();
        assert!(error.may_have_applied(), "{error}");
        assert_eq!(lost.hits(), 1, "and is not repeated");
        assert!(server.probe().exists("/x"));
        drop(lost);
        node.delete().await.unwrap();
    });
}
