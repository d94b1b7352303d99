//! Deletions in the background: by guaranteed deletes, dropped guards and `close`.

use std::time::Duration;

use tokio::time::Instant;
use zk_curator::{ConnectionState, CreateMode, ErrorCode, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    assert_clean_after_close, builder, closes_clean, connected, expire, impatient, once, rule_if,
    simulated_each_on, simulated_on, simulated_with, start, until, until_state,
};

/// CURATOR-106: the outage is long, and the delete was put off by recursion.
#[test]
fn curator_106_a_guaranteed_delete_happens_after_a_long_outage() {
    simulated_on(impatient, async |(server, zk)| {
        zk.create("/p/n").creating_parents().await.unwrap();
        zk.create("/q").await.unwrap();
        server.stop().await;
        let (tree, node) = tokio::join!(
            zk.delete("/p").guaranteed().deleting_children().into_future(),
            zk.delete("/q").guaranteed().into_future(),
        );
        assert_eq!(tree.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        assert_eq!(node.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        spend(Duration::from_secs(6 * 3600)).await;
        assert_eq!(zk.state(), ConnectionState::Lost);
        server.restart().await.unwrap();
        until(&server, |probe| probe.paths().is_empty()).await;
    });
}

/// CURATOR-42: NoNode and NoAuth were retried forever.
#[test]
fn curator_42_a_guaranteed_delete_that_is_refused_ends() {
    let cases = [ErrorCode::NoAuth, ErrorCode::NoNode, ErrorCode::NotEmpty, ErrorCode::BadVersion];
    simulated_each_on(cases, impatient, async |code, (server, zk)| {
        server.stop().await;
        zk.delete("/n").guaranteed().await.unwrap_err();
        let refused = rule_if(&server, move |request| request.is_delete(), Verdict::Refuse(code));
        server.restart().await.unwrap();
        refused.fired().await;
        idle(Duration::from_secs(60)).await;
        assert_eq!(refused.hits(), 1, "{code:?}");
    });
}

/// A server without a quorum refuses every write until it has one again.
#[test]
fn the_janitor_waits_for_a_server_that_writes() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).read_only(true)).await;
        let node = zk.create("/n").owned().await.unwrap();
        let mut errors = zk.background_errors();
        server.stop().await;
        drop(node);
        until_state(&zk, ConnectionState::Lost).await;
        server.set_read_only(true);
        server.restart().await.unwrap();
        until_state(&zk, ConnectionState::ReadOnly).await;
        idle(Duration::from_secs(60)).await;
        assert!(server.probe().exists("/n") && zk.inspect().owed.len() == 1);
        server.set_read_only(false);
        until(&server, |probe| probe.paths().is_empty()).await;
        zk.close().await.unwrap();
        assert!(errors.next().await.is_none());
    });
}

#[test]
fn a_guaranteed_delete_honours_its_version_in_the_background() {
    simulated_on(impatient, async |(server, zk)| {
        zk.create("/n").await.unwrap();
        server.stop().await;
        zk.delete("/n").version(0).guaranteed().await.unwrap_err();
        let held = rule_if(
            &server,
            |request| request.is_delete(),
            Verdict::Refuse(ErrorCode::OperationTimeout),
        );
        server.restart().await.unwrap();
        zk.wait_connected().await.unwrap();
        held.fired().await;
        connected(&server).await.set_data("/n", "new").await.unwrap();
        drop(held);
        let deletes = server.probe().requests(OpCode::Delete);
        until(&server, |probe| probe.requests(OpCode::Delete) > deletes).await;
        assert_eq!(server.probe().data("/n").unwrap(), "new");
    });
}

#[test]
fn an_owned_node_deleted_twice_after_a_lost_response_is_fine() {
    simulated_with(async |server, zk| {
        let node = zk.create("/n").owned().await.unwrap();
        let lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        node.delete().await.unwrap();
        // Before it is sent again, the node is read.
        assert_eq!((lost.hits(), server.probe().requests(OpCode::Delete)), (1, 1));
    });
}

#[test]
fn an_owned_node_that_cannot_be_deleted_now_is_deleted_later() {
    simulated_with(async |server, zk| {
        let node = zk.create("/n").owned().await.unwrap();
        let dropped = zk.create("/m").owned().await.unwrap();
        server.stop().await;
        let error = node.delete().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::ConnectionLoss, "/n"));
        drop(dropped);
        // Neither is ephemeral, so both outlive the session.
        until_state(&zk, ConnectionState::Lost).await;
        server.restart().await.unwrap();
        until(&server, |probe| probe.paths().is_empty()).await;
    });
}

#[test]
fn what_ends_with_a_lost_session_is_not_deleted_in_the_next_one() {
    simulated_with(async |server, zk| {
        let node = zk.create("/n").mode(CreateMode::Ephemeral).owned().await.unwrap();
        server.stop().await;
        drop(node);
        until_state(&zk, ConnectionState::Lost).await;
        server.restart().await.unwrap();
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        idle(Duration::from_secs(5)).await;
        // By now the node of this name might belong to another client.
        assert_eq!(server.probe().requests(OpCode::Delete), 0);
        until(&server, |probe| !probe.exists("/n")).await;
    });
}

#[test]
fn a_failed_owned_delete_says_that_it_may_have_been_applied() {
    simulated_with(async |server, zk| {
        let node = zk.create("/n").owned().await.unwrap();
        let lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        let delete = tokio::spawn(node.delete());
        lost.fired().await;
        server.stop().await;
        assert!(delete.await.unwrap().unwrap_err().may_have_applied());
    });
}

#[test]
fn close_performs_pending_cleanup() {
    simulated_with(async |server, zk| {
        for n in 0..100 {
            drop(zk.create(format!("/n{n}")).owned().await.unwrap());
        }
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn close_performs_pending_cleanup_in_a_new_session() {
    simulated_with(async |server, zk| {
        let node = zk.create("/n").owned().await.unwrap();
        // The drop meets a session that has just ended, and close comes before the next has begun.
        let mut states = zk.states();
        expire(&server, &zk).await;
        states.until(|status| status.state == ConnectionState::Suspended).await.unwrap();
        drop(node);
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn close_gives_up_on_pending_cleanup_at_its_timeout() {
    simulated_on(TestServer::in_memory, async |server| {
        let close_timeout = Duration::from_secs(2);
        let zk = start(builder(&server).close_timeout(close_timeout)).await;
        let node = zk.create("/n").owned().await.unwrap();
        server.partition();
        drop(node);
        let began = Instant::now();
        assert_eq!(zk.close().await.unwrap_err().kind(), ErrorKind::LeftBehind);
        assert_eq!(began.elapsed(), close_timeout);
    });
}

#[test]
fn guards_may_be_dropped_after_the_close() {
    simulated_with(async |server, zk| {
        let node = zk.create("/n").mode(CreateMode::Ephemeral).owned().await.unwrap();
        let create = tokio::spawn(
            zk.create("/m").mode(CreateMode::Ephemeral).protected().owned().into_future(),
        );
        closes_clean(&server, &zk).await;
        drop(node);
        drop(create.await.unwrap());
        assert_clean_after_close(&server);
    });
}

/// A node with a shared name is found by its data, and never confused with the node of another
/// client.
#[test]
fn a_node_protected_by_its_data_is_created_and_deleted_once() {
    simulated_with(async |server, zk| {
        let create =
            || zk.create("/n").mode(CreateMode::Ephemeral).data("mine").protected_by_data().owned();
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let first = create().await.unwrap();
        assert_eq!((lost.hits(), first.path()), (1, "/n"));
        let refused = zk.create("/n").data("other").protected_by_data().owned().await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NodeExists);
        for empty in
            [zk.create("/m").protected_by_data(), zk.create("/m").data("").protected_by_data()]
        {
            assert_eq!(empty.await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }

        first.delete().await.unwrap();

        // The node is deleted, the response is lost, and another client creates it again.
        let other = connected(&server).await;
        for dropped in [false, true] {
            let node = create().await.unwrap();
            let lost = once(&server, OpCode::Delete, Verdict::LoseReply);
            let again = async {
                lost.fired().await;
                other.create("/n").data("theirs").await.unwrap();
            };
            if dropped {
                drop(node);
                again.await;
                until(&server, |probe| probe.exists("/n")).await;
            } else {
                let (deleted, ()) = tokio::join!(node.delete(), again);
                deleted.unwrap();
            }
            zk.sync("/").await.unwrap();
            idle(Duration::from_secs(10)).await;
            assert_eq!(zk.get_data("/n").await.unwrap(), "theirs");
            other.delete("/n").await.unwrap();
        }
    });
}

/// A protected create whose response is lost, below a parent that cannot be listed.
#[test]
fn a_parent_that_is_too_large_to_list_is_reported_once() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).max_frame(2000).max_response(4000)).await;
        zk.create("/q").await.unwrap();
        for n in 0..200 {
            zk.create(format!("/q/a-name-of-some-length-{n:05}")).await.unwrap();
        }
        let mut errors = zk.background_errors();
        let epoch = zk.status().epoch;
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let create = zk.create("/q/n-").mode(CreateMode::PersistentSequential).protected().owned();
        let error = create.await.unwrap_err();
        assert!(error.may_have_applied(), "{error}");
        assert_eq!(lost.hits(), 1);
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::ResponseTooLarge);
        let listings = server.probe().requests(OpCode::GetChildren2);
        idle(Duration::from_secs(3600)).await;
        assert_eq!(server.probe().requests(OpCode::GetChildren2), listings);
        // Suspended and reconnected, for the response that was lost.
        assert_eq!(zk.status().epoch, epoch + 2);
    });
}

#[test]
fn what_was_dropped_is_gone_when_it_is_released() {
    simulated_with(async |server, zk| {
        let keep = zk.create("/kept").mode(CreateMode::Ephemeral).owned().await.unwrap();
        for round in 0..3 {
            let path = format!("/dropped-{round}");
            drop(zk.create(&path).mode(CreateMode::Ephemeral).owned().await.unwrap());
            if round == 1 {
                // Also when its reply is lost.
                let lost = once(&server, OpCode::Delete, Verdict::LoseReply);
                assert!(zk.wait_until_released().await);
                assert_eq!(lost.hits(), 1);
            }
            assert!(zk.wait_until_released().await);
            assert_eq!(server.probe().paths(), ["/kept"]);
        }
        drop(keep);
        server.partition();
        // No server can be reached, so the node ends with the session.
        assert!(zk.wait_until_released().await);
        assert_eq!(zk.state(), ConnectionState::Lost);
        server.heal();
    });
}
