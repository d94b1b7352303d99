//! Waiting for one state of a node, and for errors to pass.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::ConnectionState;
use zk_curator::ErrorKind::{Closed, InvalidPath, NoNode, NotStarted, ReadOnly, SessionExpired};
use zk_curator_proto::OpCode;
use zk_curator_testing::Probe;
use zk_curator_testing::wait::{idle, spend};
use zk_curator_tests::{
    builder, cancel, cut_off, expire, session_id, simulated_on, simulated_with, start,
    two_in_memory, until, until_state,
};

fn requests(probe: &Probe) -> u64 {
    probe.total_requests() - probe.requests(OpCode::Ping)
}

#[test]
fn a_node_is_waited_for() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let created = async {
            until(&server, |probe| !probe.watches().is_empty()).await;
            other.create("/a").await.unwrap().stat
        };
        let before = requests(&server.probe());
        let (seen, stat) = tokio::join!(zk.wait_exists("/a"), created);
        assert_eq!(seen.unwrap(), stat);
        until(&server, |probe| probe.watches().is_empty()).await;
        // Two looks, the create, and the removal of the watch.
        assert_eq!(requests(&server.probe()) - before, 4);
        assert_eq!(zk.wait_exists("/a").await.unwrap(), stat);
        assert_eq!(zk.wait_exists("a").await.unwrap_err().kind(), InvalidPath);
    });
}

#[test]
fn the_end_of_a_node_is_waited_for() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.wait_gone("/a").await.unwrap();
        until(&server, |probe| probe.watches().is_empty()).await;
        zk.create("/a").await.unwrap();
        let before = requests(&server.probe());
        let deleted = async {
            until(&server, |probe| !probe.watches().is_empty()).await;
            other.set_data("/a", "x").await.unwrap();
            until(&server, |probe| probe.requests(OpCode::Exists) > 2).await;
            other.delete("/a").await.unwrap();
            // It was gone, that is enough.
            other.create("/a").await.unwrap();
        };
        let (gone, ()) = tokio::join!(zk.wait_gone("/a"), deleted);
        gone.unwrap();
        assert_eq!(
            requests(&server.probe()) - before,
            2 + 3,
            "two looks, and the three writes of the other"
        );
        assert!(server.probe().watches().is_empty());
    });
}

/// No event reports it; the transaction that created the other node shows it.
#[test]
fn a_node_that_was_replaced_while_we_were_away_was_gone() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/a").await.unwrap();
        let waiting = tokio::spawn(zk.wait_gone("/a"));
        until(&server, |probe| !probe.watches().is_empty()).await;
        let us = session_id(&zk).get();
        let away = cut_off(&server, &zk);
        other.delete("/a").await.unwrap();
        other.create("/a").await.unwrap();
        assert!(server.expire(us).await);
        drop(away);
        timeout(Duration::from_secs(3600), waiting).await.unwrap().unwrap().unwrap();
    });
}

#[test]
fn data_are_waited_for() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let waiting = tokio::spawn(zk.wait_data("/a", |data| data == "ready"));
        until(&server, |probe| !probe.watches().is_empty()).await;
        other.create("/a").data("begun").await.unwrap();
        expire(&server, &zk).await;
        idle(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        let stat = other.set_data("/a", "ready").await.unwrap();
        let (data, seen) = waiting.await.unwrap().unwrap();
        assert_eq!((&data[..], seen), (&b"ready"[..], stat));
    });
}

#[test]
fn waits_survive_an_outage() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/here").await.unwrap();
        let waiting = (
            tokio::spawn(zk.wait_exists("/a")),
            tokio::spawn(zk.wait_gone("/here")),
            tokio::spawn(zk.wait_data("/a", |data| data == "x")),
        );
        until(&server, |probe| probe.watches().len() == 2).await;
        server.stop().await;
        until_state(&zk, ConnectionState::Lost).await;
        spend(Duration::from_secs(120)).await;
        server.restart().await.unwrap();
        other.wait_connected().await.unwrap();
        other.create("/a").data("x").await.unwrap();
        other.delete("/here").await.unwrap();
        waiting.0.await.unwrap().unwrap();
        waiting.1.await.unwrap().unwrap();
        waiting.2.await.unwrap().unwrap();
        until(&server, |probe| probe.watches().is_empty()).await;
        let waiting = tokio::spawn(zk.wait_exists("/b"));
        until(&server, |probe| !probe.watches().is_empty()).await;
        zk.close().await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), Closed);
    });
}

#[test]
fn a_dropped_wait_leaves_no_watch() {
    simulated_with(async |server, zk| {
        zk.create("/here").await.unwrap();
        cancel::each_step(async |step| {
            let gone = cancel::poll_then_drop(zk.wait_gone("/here"), step).await.is_some();
            let exists = cancel::poll_then_drop(zk.wait_exists("/a"), step).await.is_some();
            let data = cancel::poll_then_drop(zk.wait_data("/a", |_| true), step).await.is_some();
            assert!(!(gone || exists || data));
            until(&server, |probe| probe.watches().is_empty()).await;
            step == 4
        })
        .await;
    });
}

#[test]
fn an_error_that_passes_is_ridden_out() {
    simulated_with(async |server, zk| {
        // Nothing is sent without a connection, and never in a loop without a pause.
        server.partition();
        let lost = zk.exists("/").await.unwrap_err();
        assert!(lost.is_transient());
        assert!(
            timeout(Duration::from_secs(60), zk.wait_for_recovery(lost.clone())).await.is_err()
        );
        server.heal();
        zk.wait_for_recovery(lost.clone()).await.unwrap();
        let begun = Instant::now();
        zk.wait_for_recovery(lost.clone()).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_millis(100));

        let missing = zk.get_data("/none").await.unwrap_err();
        assert!(!missing.is_transient());
        assert_eq!(zk.wait_for_recovery(missing).await.unwrap_err().kind(), NoNode);
        let bound = zk.bound_to_session().unwrap();
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        let over = bound.exists("/").await.unwrap_err();
        assert_eq!(over.kind(), SessionExpired);
        zk.wait_for_recovery(over.clone()).await.unwrap();
        assert_eq!(bound.wait_for_recovery(over).await.unwrap_err().kind(), SessionExpired);

        // A framework that was not started does not start by itself.
        let late = builder(&server).build().unwrap();
        let not_started = late.watch_data("/none").next().await.unwrap_err();
        assert_eq!(not_started.kind(), NotStarted);
        assert_eq!(late.wait_for_recovery(not_started).await.unwrap_err().kind(), NotStarted);
    });
}

/// The connection of a closing framework still exists, and must not be polled in a loop.
#[test]
fn closed_does_not_pass_while_connected() {
    simulated_on(two_in_memory, async |(_server, zk, closed)| {
        closed.close().await.unwrap();
        let error = closed.exists("/").await.unwrap_err();
        assert_eq!(error.kind(), Closed);
        assert_eq!(zk.wait_for_recovery(error).await.unwrap_err().kind(), Closed);
    });
}

/// A write that a read-only server refuses has to wait for another one.
#[test]
fn a_read_only_server_is_waited_for() {
    simulated_with(async |server, _| {
        let zk = start(builder(&server).read_only(true)).await;
        server.set_read_only(true);
        until_state(&zk, ConnectionState::ReadOnly).await;
        let refused = zk.create("/a").await.unwrap_err();
        assert_eq!(refused.kind(), ReadOnly);
        assert!(
            timeout(Duration::from_secs(60), zk.wait_for_recovery(refused.clone())).await.is_err()
        );
        server.set_read_only(false);
        zk.wait_for_recovery(refused).await.unwrap();
        zk.create("/a").await.unwrap();
    });
}
