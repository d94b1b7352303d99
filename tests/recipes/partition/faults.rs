//! Lost replies, sessions that end, nodes that are deleted, outages.

use std::pin::pin;

use zk_curator::{Acl, ConnectionState, ConnectionStatus, ErrorKind, Permissions};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::wait::{self, idle, past, settled, spend};
use zk_curator_testing::{RuleRequest, TestCluster, Verdict};
use zk_curator_tests::{
    assert_matches, builder_for, connected, expire, rule_if, session_id, simulated, simulated_on,
    simulated_with, start, stopped_by, until_state,
};

use super::*;

/// Every request about the set is lost once, on the way there or back.
#[test]
fn every_part_comes_to_its_owner_whatever_is_lost() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for nth in 0.. {
                let stage = Stage::new().await;
                let lost = stage.server.rule(move |request| {
                    let is_ours = request.paths().any(|path| path.starts_with("/shards"));
                    if is_ours { verdict } else { Verdict::Pass }
                });
                let lost = lost.after(nth).times(1);
                let one = stage.join("a", 2, SECOND / 10).await;
                stage.until(&["a"], 2).await;
                let two = stage.join("b", 2, SECOND / 10).await;
                stage.until(&["a", "b"], 2).await;
                one.stop().await;
                stage.until(&["b"], 2).await;
                two.stop().await;
                let probe = stage.server.probe();
                let left = probe.paths().into_iter().filter(|path| !probe.is_container(path));
                let left: Vec<_> = left.collect();
                assert!(left.is_empty(), "{verdict:?} {nth}: {left:?}");
                if lost.hits() == 0 {
                    assert!(nth > 30, "only {nth} requests");
                    break;
                }
            }
        }
    });
}

/// In kazoo, the partitioner has failed then, permanently.
#[test]
fn a_member_comes_back_after_its_session() {
    simulated_on(Stage::new, async |stage| {
        let one = stage.join("a", 20, SECOND).await;
        let _two = stage.join("b", 20, SECOND).await;
        let before = stage.until(&["a", "b"], 20).await;
        for _ in 0..3 {
            let begun = stage.begun();
            expire(&stage.server, &one.zk).await;
            past(SECOND + SETTLED).await;
            // It is back before its leave counts: the parts of the other member stay.
            assert_eq!(stage.owners(), before);
            let own = before.values().filter(|owner| *owner == "a").count();
            assert_eq!(stage.begun(), begun + own);
        }
    });
}

#[test]
fn parts_are_kept_while_the_connection_is_suspended() {
    simulated_on(Stage::new, async |stage| {
        let one = stage.join("a", 10, SECOND).await;
        let before = stage.until(&["a"], 10).await;
        stage.server.hold();
        until_state(&one.zk, ConnectionState::Suspended).await;
        assert_eq!(stage.owners(), before);
        stage.server.release();
        idle(SETTLED).await;
        assert_eq!((stage.owners(), stage.begun()), (before, 10));
    });
}

#[test]
fn bodies_can_stop_when_the_connection_is_suspended() {
    simulated_on(Stage::new, async |stage| {
        let zk = connected(&stage.server).await;
        let set = partitioner(&zk, "a", 10).stop_when_suspended();
        let _one = stage.run(&zk, set, "a", SECOND);
        let before = stage.until(&["a"], 10).await;
        stage.server.hold();
        until_state(&zk, ConnectionState::Suspended).await;
        settled().await;
        assert!(stage.owners().is_empty());
        stage.server.release();
        past(SETTLED).await;
        assert_eq!((stage.owners(), stage.begun()), (before, 20));
    });
}

/// The task of a member may get to run only after the connection is back.
#[test]
fn bodies_stop_after_a_suspension_that_is_over() {
    simulated_on(Stage::new, async |stage| {
        let zk = connected(&stage.server).await;
        let set = partitioner(&zk, "a", 3).stop_when_suspended();
        let board = &stage.board;
        let body = |part: Partition| async move {
            let _at_work = AtWork::begin(board, "a", &part);
            part.lost().await;
            Ok::<_, String>(())
        };
        let mut run = pin!(set.run(body));
        for begun in [3, 6] {
            let owned = wait::until(async || stage.begun() >= begun && stage.owners().len() == 3);
            tokio::select! {
                ended = &mut run => panic!("{ended:?}"),
                () = owned => {}
            }
            // Nobody polls the member.
            let before = zk.status().epoch;
            stage.server.disconnect(session_id(&zk).get());
            let is_back =
                |status: &ConnectionStatus| status.epoch > before && status.state.is_connected();
            zk.states().until(is_back).await.unwrap();
        }
    });
}

/// The others take its parts when the session is over, and not before its bodies were dropped.
#[test]
fn parts_are_lost_before_another_member_gets_them() {
    simulated(async {
        let cluster = TestCluster::in_memory(3).await;
        let stage = Stage { server: server().await, board: Arc::default() };
        let mut members = Vec::new();
        for (place, id) in [(1, "a"), (2, "b")] {
            let member = cluster.member(place);
            let connect = builder_for(&member.connect_string());
            let zk = start(connect.connector(Arc::new(member.connector()))).await;
            members.push(stage.run(&zk, partitioner(&zk, id, 20), id, SECOND));
        }
        stage.until(&["a", "b"], 20).await;
        past(SETTLED).await;
        let before = stage.owners();
        cluster.kill(1).await;
        stage.until(&["b"], 20).await;
        cluster.restart(1).await.unwrap();
        idle(2 * SETTLED).await;
        assert_eq!(stage.owners(), before);
    });
}

#[test]
fn a_member_whose_nodes_are_deleted_makes_new_ones() {
    simulated_on(Stage::new, async |stage| {
        let one = stage.join("a", 3, SECOND).await;
        let _two = stage.join("b", 3, SECOND).await;
        let before = stage.until(&["a", "b"], 3).await;
        let begun = stage.begun();
        // In kazoo, a member without its party node raises a ValueError.
        one.zk.delete(format!("{PATH}/members/a")).await.unwrap();
        idle(SETTLED).await;
        assert_eq!((stage.owners(), stage.begun()), (before.clone(), begun));
        let lock = format!("{PATH}/parts/s0");
        let node = stage.server.probe().children(&lock)[0].to_owned();
        one.zk.delete(format!("{lock}/{node}")).await.unwrap();
        past(SETTLED).await;
        assert_eq!((stage.owners(), stage.begun()), (before, begun + 1));
    });
}

/// Changes that come while locks are acquired are not lost (kazoo's issue 259), nor those of an
/// outage (257).
#[test]
fn changes_at_any_moment_lead_to_the_last_assignment() {
    simulated(async {
        for millis in (0..6000).step_by(250) {
            let stage = Stage::new().await;
            let first = stage.join("a", 12, SECOND / 2).await;
            spend(Duration::from_millis(millis)).await;
            let second = stage.join("b", 12, SECOND / 2).await;
            spend(Duration::from_millis(millis / 2)).await;
            stage.server.disconnect_all();
            let _third = stage.join("c", 12, SECOND / 2).await;
            spend(Duration::from_millis(millis / 3)).await;
            second.stop().await;
            past(2 * SETTLED).await;
            let after = stage.until(&["a", "c"], 12).await;
            let view = partitioner(&first.zk, "a", 12).view().await.unwrap();
            for (part, owner) in after {
                assert_eq!(view.parts[&part].assigned_to, Some(owner), "after {millis} ms");
            }
        }
    });
}

#[test]
fn an_error_that_does_not_pass_ends_the_member() {
    simulated_on(Stage::new, async |stage| {
        let refuse = Verdict::Refuse(ErrorCode::NoAuth);
        for path in ["/members", "/parts/s1"] {
            let _rule = stage.server.rule(move |request| {
                let is_it = request.is_create() && request.paths().any(|of| of.contains(path));
                if is_it { refuse } else { Verdict::Pass }
            });
            let member = stage.join("a", 3, SECOND).await;
            let ended = timeout(SETTLED, member.task).await.expect("an end").unwrap();
            assert_matches!(
                ended,
                Err(Error::Framework(error)) if error.kind() == ErrorKind::NoAuth
            );
            assert!(stage.owners().is_empty());
            member.zk.close().await.unwrap();
            assert!(stage.server.probe().sessions().is_empty());
        }
    });
}

#[test]
fn a_member_ends_with_its_framework() {
    simulated_on(Stage::new, async |stage| {
        let member = stage.join("a", 3, SECOND).await;
        stage.until(&["a"], 3).await;
        member.zk.close().await.unwrap();
        let ended = timeout(SETTLED, member.task).await.expect("an end").unwrap();
        assert_matches!(ended, Err(Error::Framework(error)) if error.kind() == ErrorKind::Closed);
        assert!(stage.owners().is_empty());
    });
}

#[test]
fn a_shared_list_is_created_once_whatever_is_lost() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for opcode in [OpCode::Create, OpCode::Create2, OpCode::SetData, OpCode::GetData] {
                let stage = Stage::new().await;
                let zk = connected(&stage.server).await;
                let lost = stage.server.rule(move |request| {
                    let is_list = request.paths().any(|path| path.ends_with("/list"));
                    if request.is(opcode) && is_list { verdict } else { Verdict::Pass }
                });
                let _lost = lost.times(1);
                let set = partitioner(&zk, "a", 3).shared_parts();
                let member = stage.run(&zk, set.clone(), "a", SECOND);
                stage.until(&["a"], 3).await;
                set.set_parts(names(5)).await.unwrap();
                stage.until(&["a"], 5).await;
                member.stop().await;
            }
        }
    });
}

/// The stop comes while the server has not responded to the create of its node.
#[test]
fn stop_while_it_joins_returns_after_its_node_is_deleted() {
    simulated_with(async |server, zk| {
        let node = format!("{PATH}/members/a");
        zk.create(format!("{PATH}/members")).creating_parents().await.unwrap();
        let about = |node: &str| {
            let node = node.to_owned();
            move |request: &RuleRequest<'_>| request.paths().any(|path| path == node)
        };
        let late = rule_if(&server, about(&node), Verdict::Delay(5 * SECOND)).times(1);
        let (set, began) = (partitioner(&zk, "a", 2), Instant::now());
        let body = async |_: Partition| Ok::<_, String>(());
        stopped_by(spend(SECOND), |stop| set.run(body).until(stop)).await.unwrap();
        assert_eq!(late.hits(), 1);
        assert!(began.elapsed() >= 5 * SECOND, "{:?}", began.elapsed());
        assert!(!server.probe().exists(&node));
        // A request that passes is not counted.
        let later = rule_if(&server, about(&node), Verdict::Delay(SECOND));
        idle(SETTLED).await;
        assert_eq!(later.hits(), 0, "{}", server.probe());
    });
}

/// The node counts as a member with default settings: every member that reads the others sees it.
#[test]
fn a_member_that_cannot_be_read_does_not_end_the_others() {
    simulated_on(Stage::new, async |stage| {
        let one = stage.join("a", 10, SECOND).await;
        stage.until(&["a"], 10).await;
        let acl = vec![Acl::new(Permissions::ADMIN, "world", "anyone")];
        one.zk.create(format!("{PATH}/members/z")).acl(acl).await.unwrap();
        let _two = stage.join("b", 10, SECOND).await;
        wait::until(async || stage.loads().len() == 2).await;
        let view = partitioner(&one.zk, "c", 10).view().await.unwrap();
        assert!(view.members.contains_key("z"), "{view:?}");
        // Its parts are worked on again when it is gone.
        one.zk.delete(format!("{PATH}/members/z")).await.unwrap();
        stage.until(&["a", "b"], 10).await;
    });
}
