//! Followed data: the returned states, their cost, and the effects of outages, lagging servers and
//! dropped futures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::timeout;
use zk_curator::compression::{CompressionFailure, CompressionProvider};
use zk_curator::retry::RetryNTimes;
use zk_curator::schema::{Allowance, Schema, SchemaSet};
use zk_curator::watch::DataWatch;
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind, Stat};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::wait::spend;
use zk_curator_testing::{Direction, MemoryConnector, Probe, TestCluster, Verdict};
use zk_curator_tests::{
    SESSION_TIMEOUT, builder, builder_for, closes_clean, cut_off, expire, once, poll_then_drop,
    session_id, simulated, simulated_drops, simulated_each_on, simulated_on, simulated_with, start,
    two_in_memory, until, until_state,
};

/// The next emitted state, as text.
async fn next(watch: &mut DataWatch) -> Option<String> {
    let next = timeout(Duration::from_secs(3600), watch.next()).await;
    text(next.unwrap_or_else(|_| panic!("nothing happens: {watch:?}")).unwrap())
}

fn text(state: Option<(Bytes, Stat)>) -> Option<String> {
    state.map(|(data, _)| String::from_utf8(data.to_vec()).unwrap())
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

async fn nothing_is_told(watch: &mut DataWatch) {
    let told = timeout(SESSION_TIMEOUT, watch.next()).await;
    assert!(told.is_err(), "{told:?}");
}

fn requests(probe: &Probe) -> u64 {
    probe.total_requests() - probe.requests(OpCode::Ping)
}

#[test]
fn the_present_state_and_every_difference_are_returned() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let mut watch = zk.watch_data("/a");
        assert_eq!(watch.path(), "/a");
        assert_eq!(next(&mut watch).await, None);
        let (told, created) =
            tokio::join!(next(&mut watch), other.create("/a").data("1").into_future());
        assert_eq!((told, created.is_ok()), (some("1"), true));
        other.set_data("/a", "2").await.unwrap();
        assert_eq!(next(&mut watch).await, some("2"));
        // Equal data that are written again.
        other.set_data("/a", "2").await.unwrap();
        assert_eq!(next(&mut watch).await, some("2"));
        nothing_is_told(&mut watch).await;
        // A state that is replaced before a call is skipped.
        other.set_data("/a", "3").await.unwrap();
        other.set_data("/a", "4").await.unwrap();
        assert_eq!(next(&mut watch).await, some("4"));
        other.delete("/a").await.unwrap();
        assert_eq!(next(&mut watch).await, None);
        // Children are no data.
        other.create("/a").data("4").await.unwrap();
        assert_eq!(next(&mut watch).await, some("4"));
        other.create("/a/b").await.unwrap();
        nothing_is_told(&mut watch).await;
        // Another node with the same data and the same version.
        other.delete("/a").deleting_children().await.unwrap();
        other.create("/a").data("4").await.unwrap();
        assert_eq!(next(&mut watch).await, some("4"));
    });
}

#[test]
fn a_change_costs_one_request() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut watch = zk.watch_data("/a");
        let mut before = requests(&server.probe());
        let mut cost = async |watch: &mut DataWatch, own: u64| {
            next(watch).await;
            let now = requests(&server.probe());
            now - std::mem::replace(&mut before, now) - own
        };
        // Nothing is sent before it is polled.
        assert!(server.probe().watches().is_empty());
        assert_eq!(
            cost(&mut watch, 0).await,
            2,
            "getData, and exists for a node that is not there"
        );
        other.create("/a").await.unwrap();
        assert_eq!(cost(&mut watch, 1).await, 1, "a creation");
        other.set_data("/a", "1").await.unwrap();
        assert_eq!(cost(&mut watch, 1).await, 1, "a write");
        other.delete("/a").await.unwrap();
        assert_eq!(cost(&mut watch, 1).await, 1, "a deletion");
        other.create("/a").await.unwrap();
        other.set_data("/a", "1").await.unwrap();
        other.delete("/a").await.unwrap();
        other.create("/a").data("2").await.unwrap();
        assert_eq!(cost(&mut watch, 4).await, 1, "several changes");
        let mut present = zk.watch_data("/a");
        assert_eq!(cost(&mut present, 0).await, 1, "a node that is there");
        // One watch on the server for both, which goes with the last of them.
        assert_eq!(server.probe().watches().len(), 1);
        drop(watch);
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().watches().len(), 1);
        drop(present);
        until(&server, |probe| probe.watches().is_empty()).await;
    });
}

#[test]
fn after_an_outage_a_different_state_is_returned_once() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/a").data("1").await.unwrap();
        let mut watch = zk.watch_data("/a");
        assert_eq!(next(&mut watch).await, some("1"));
        for session_ends in [false, true] {
            // Nothing has changed.
            match session_ends {
                true => expire(&server, &zk).await,
                false => assert!(server.disconnect(session_id(&zk).get())),
            }
            nothing_is_told(&mut watch).await;
            // Two changes, while we are away.
            let us = session_id(&zk).get();
            let away = cut_off(&server, &zk);
            other.set_data("/a", "2").await.unwrap();
            other.set_data("/a", "3").await.unwrap();
            if session_ends {
                assert!(server.expire(us).await);
            }
            drop(away);
            assert_eq!(next(&mut watch).await, some("3"), "{session_ends}");
            nothing_is_told(&mut watch).await;
        }
        // Longer than the retry policy and the session, and while it is waited for.
        server.stop().await;
        let back = async {
            spend(Duration::from_secs(120)).await;
            server.restart().await.unwrap();
            other.wait_connected().await.unwrap();
            other.delete("/a").await.unwrap();
        };
        let (mut told, ()) = tokio::join!(next(&mut watch), back);
        if told.is_some() {
            told = next(&mut watch).await;
        }
        assert_eq!(told, None);
    });
}

#[test]
fn lost_messages_make_no_difference() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for opcode in [OpCode::GetData, OpCode::Exists] {
                for nth in 0..3 {
                    let (server, zk, other) = two_in_memory().await;
                    let us = session_id(&zk).get();
                    let passed = AtomicU32::new(0);
                    let lost = server.rule(move |request| {
                        let is_it = request.session_id() == us && request.is(opcode);
                        let now = is_it && passed.fetch_add(1, Ordering::Relaxed) == nth;
                        if now { verdict } else { Verdict::Pass }
                    });
                    let mut watch = zk.watch_data("/a");
                    assert_eq!(next(&mut watch).await, None);
                    other.create("/a").data("1").await.unwrap();
                    assert_eq!(next(&mut watch).await, some("1"), "{opcode:?} {verdict:?}");
                    other.delete("/a").await.unwrap();
                    assert_eq!(next(&mut watch).await, None);
                    other.create("/a").data("2").await.unwrap();
                    assert_eq!(next(&mut watch).await, some("2"));
                    drop((lost, watch));
                    zk.close().await.unwrap();
                    until(&server, |probe| probe.watches().is_empty()).await;
                }
            }
        }
    });
}

/// The node changes between the read that does not find it and the read that waits for its
/// creation, and vice versa.
#[test]
fn a_node_that_comes_or_goes_between_two_reads_is_seen() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let late = once(&server, OpCode::Exists, Verdict::Delay(Duration::from_secs(1)));
        let mut watch = zk.watch_data("/a");
        let meanwhile = async {
            late.fired().await;
            other.create("/a").data("1").await.unwrap();
        };
        assert_eq!(tokio::join!(next(&mut watch), meanwhile).0, some("1"));
        // The node is deleted, created again before this is noticed, and deleted again before it is
        // read.
        let late = once(&server, OpCode::GetData, Verdict::Delay(Duration::from_secs(1)));
        other.delete("/a").await.unwrap();
        other.create("/a").data("2").await.unwrap();
        let meanwhile = async {
            late.fired().await;
            other.delete("/a").await.unwrap();
        };
        assert_eq!(tokio::join!(next(&mut watch), meanwhile).0, None);
        other.create("/a").data("3").await.unwrap();
        assert_eq!(next(&mut watch).await, some("3"));
    });
}

#[test]
fn what_cannot_pass_is_returned_and_the_next_call_tries_again() {
    simulated_with(async |server, zk| {
        let invalid = zk.watch_data("no-slash").next().await.unwrap_err();
        assert_eq!((invalid.kind(), invalid.operation()), (ErrorKind::InvalidPath, "watch_data"));
        zk.create("/a").data("1").await.unwrap();
        let mut watch = zk.watch_data("/a");
        let refused = once(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::NoAuth));
        let error = watch.next().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NoAuth, "/a"));
        drop(refused);
        assert_eq!(next(&mut watch).await, some("1"));

        let bound = zk.bound_to_session().unwrap();
        let mut in_session = bound.watch_data("/a");
        assert_eq!(next(&mut in_session).await, some("1"));
        expire(&server, &zk).await;
        assert_eq!(in_session.next().await.unwrap_err().kind(), ErrorKind::SessionExpired);
        zk.wait_connected().await.unwrap();
        assert_eq!(in_session.next().await.unwrap_err().kind(), ErrorKind::SessionExpired);

        let stream = watch.into_stream();
        futures_util::pin_mut!(stream);
        let (end, closed) = tokio::join!(stream.next(), zk.close());
        closed.unwrap();
        assert_eq!(end.unwrap().unwrap_err().kind(), ErrorKind::Closed);
        assert!(stream.next().await.is_none());
        assert_eq!(zk.watch_data("/a").next().await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

/// Reverses the bytes.
#[derive(Debug)]
struct Backwards;

impl CompressionProvider for Backwards {
    fn compress(&self, _path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        Ok(data.iter().rev().copied().collect())
    }

    fn decompress(&self, path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        if data == b"?" { Err("not reversed".into()) } else { self.compress(path, data) }
    }
}

#[test]
fn what_the_handle_says_applies_to_every_read() {
    simulated_with(async |server, plain| {
        let secret = Schema::exact("secret", "/secret").watched(Allowance::Cannot);
        let zk = start(
            builder(&server)
                .namespace("app")
                .compression_provider(Backwards)
                .enable_compression()
                .schema_set(SchemaSet::new([secret]).unwrap())
                .retry(RetryNTimes::new(0, Duration::ZERO)),
        )
        .await;
        plain.create("/app/a").creating_parents().data("abc").await.unwrap();
        let mut watch = zk.watch_data("/a");
        assert_eq!(next(&mut watch).await, some("cba"));
        assert_eq!(next(&mut zk.uncompressed().watch_data("/a")).await, some("abc"));
        let forbidden = zk.watch_data("/secret").next().await.unwrap_err();
        assert_eq!(forbidden.kind(), ErrorKind::SchemaViolation);
        // The error is returned once, and the next state is still returned.
        plain.set_data("/app/a", "?").await.unwrap();
        assert_eq!(watch.next().await.unwrap_err().kind(), ErrorKind::Undecodable);
        nothing_is_told(&mut watch).await;
        plain.set_data("/app/a", "12").await.unwrap();
        assert_eq!(next(&mut watch).await, some("21"));
        // A deadline that passes, of a handle that tries nothing again: waited for nevertheless.
        let mut hasty = zk.with_deadline(Duration::from_secs(1)).watch_data("/a");
        let slow = once(&server, OpCode::GetData, Verdict::Delay(Duration::from_secs(2)));
        assert_eq!(next(&mut hasty).await, some("21"));
        assert_eq!(slow.hits(), 1);
    });
}

/// Every future is dropped at every step, on the way to each of these states.
#[test]
fn a_dropped_future_loses_no_state() {
    let states = [some("1"), None, some("2")];
    for target in 0..states.len() {
        simulated_drops(
            3,
            async || {
                let (server, zk, other) = two_in_memory().await;
                let mut watch = zk.watch_data("/a");
                assert_eq!(next(&mut watch).await, None);
                for (number, state) in states[..=target].iter().enumerate() {
                    match state {
                        Some(data) => {
                            drop(other.create("/a").data(data.clone()).await.unwrap());
                        }
                        None => other.delete("/a").await.unwrap(),
                    }
                    if number < target {
                        assert_eq!(next(&mut watch).await, *state);
                    }
                }
                (server, zk, tokio::sync::Mutex::new(watch))
            },
            async |(_, _, watch)| next(&mut *watch.lock().await).await,
            async |(server, zk, watch), told| {
                let mut watch = watch.into_inner();
                match told {
                    Some(told) => assert_eq!(told, states[target]),
                    None => assert_eq!(next(&mut watch).await, states[target]),
                }
                assert!(poll_then_drop(watch.next(), 2).await.is_none());
                drop(watch);
                until(&server, |probe| probe.watches().is_empty()).await;
                zk.close().await.unwrap();
            },
        );
    }
}

#[test]
fn nothing_is_left_after_close() {
    simulated_with(async |server, zk| {
        let mut watch = zk.watch_data("/a");
        assert_eq!(next(&mut watch).await, None);
        closes_clean(&server, &zk).await;
        assert_eq!(watch.next().await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

/// Three servers, of which the first is read-only without the others, and a client that accepts
/// this.
async fn apart() -> (TestCluster, MemoryConnector, CuratorFramework) {
    let cluster = TestCluster::builder(3).tcp(false).read_only(true).start().await.unwrap();
    let host = cluster.connector();
    let zk =
        builder_for(&cluster.connect_string()).connector(Arc::new(host.clone())).read_only(true);
    let zk = zk.seed(7).build().unwrap();
    host.cut(0, Direction::Both);
    zk.start().await.unwrap();
    (cluster, host, zk)
}

/// A server has missed the last change, and gets the next session because no other server is
/// available for longer than the history is required. It shows an older state, which is not
/// returned.
#[test]
fn an_older_state_of_a_lagging_server_is_never_returned() {
    simulated_each_on([false, true], apart, async |deleted, (cluster, host, zk)| {
        zk.create("/a").data("old").await.unwrap();
        cluster.until(|probe| probe.member(0).exists("/a")).await;
        let mut watch = zk.watch_data("/a");
        assert_eq!(next(&mut watch).await, some("old"));
        cluster.partition(&[&[0]]);
        match deleted {
            true => zk.delete("/a").await.unwrap(),
            false => drop(zk.set_data("/a", "new").await.unwrap()),
        }
        assert_eq!(next(&mut watch).await, (!deleted).then(|| "new".to_owned()));
        (1..3).for_each(|member| host.cut(member, Direction::Both));
        until_state(&zk, ConnectionState::Lost).await;
        host.mend(0);
        until_state(&zk, ConnectionState::ReadOnly).await;
        assert_eq!(zk.get_data("/a").await.unwrap(), "old", "it does not lag");
        let told = timeout(SESSION_TIMEOUT * 3, watch.next()).await;
        assert!(told.is_err(), "{told:?}");
        // Not even when the others are back, until there is a new change.
        (1..3).for_each(|member| host.mend(member));
        cluster.heal();
        let told = timeout(SESSION_TIMEOUT * 3, watch.next()).await;
        assert!(told.is_err(), "{told:?}");
        zk.wait_connected().await.unwrap();
        match deleted {
            true => drop(zk.create("/a").data("newest").await.unwrap()),
            false => drop(zk.set_data("/a", "newest").await.unwrap()),
        }
        assert_eq!(next(&mut watch).await, some("newest"));
    });
}
