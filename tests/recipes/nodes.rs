//! [`PersistentNode`] and [`PersistentTtlNode`]: what keeps them, and Curator's bugs with them.

use std::pin::pin;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::time::timeout;
use zk_curator::CreateMode::{
    self, Container, Ephemeral, EphemeralSequential, Persistent, PersistentSequential,
};
use zk_curator::retry::RetryNTimes;
use zk_curator::{Acl, ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::group::GroupMember;
use zk_curator_recipes::health::{Health, HealthWatch};
use zk_curator_recipes::name::NameService;
use zk_curator_recipes::node::{PersistentNode, PersistentTtlNode};
use zk_curator_testing::wait::{idle, past};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    builder, closes_clean, connected, cut_off, expire, in_memory, once, pairs, rule_if, session_id,
    simulated, simulated_each, simulated_on, simulated_with, start, two_in_memory, until,
    until_state,
};

const NODE: &str = "/services/worker";
const HOUR: Duration = Duration::from_secs(3600);
const MODES: [CreateMode; 4] = [Ephemeral, EphemeralSequential, Persistent, PersistentSequential];

async fn started(zk: &CuratorFramework, mode: CreateMode) -> PersistentNode {
    let node = PersistentNode::builder(zk, NODE, mode).protected().data("one").start();
    node.created().await.unwrap();
    node
}

/// The node exists and is ours, with these data.
async fn until_ours(server: &TestServer, zk: &CuratorFramework, path: &str, data: &str) {
    until(server, |probe| {
        let is_ours =
            |owner| owner == 0 || Some(owner) == zk.session().map(|session| session.id.get());
        probe.data(path).is_some_and(|present| present == data)
            && is_ours(probe.stat(path).unwrap().ephemeral_owner)
    })
    .await;
}

#[test]
fn a_node_comes_back_at_its_path_with_its_data() {
    simulated_each(MODES, async |mode, server, zk| {
        let node = started(&zk, mode).await;
        let path = node.path().unwrap();
        assert!(path.starts_with("/services/_c_"), "{path}");
        assert!(server.probe().is_container("/services"));
        assert!(node.is_present());
        node.set_data("two").await.unwrap();
        assert_eq!(server.probe().data(&path).unwrap(), "two");
        for _ in 0..3 {
            let other = connected(&server).await;
            other.delete(path.as_str()).await.unwrap();
            until_ours(&server, &zk, &path, "two").await;
            expire(&server, &zk).await;
            until_ours(&server, &zk, &path, "two").await;
            other.close().await.unwrap();
        }
        // Curator: with another prefix, without the number, or twice (CURATOR-483, CURATOR-190).
        assert_eq!(server.probe().children("/services").len(), 1);
        assert_eq!(node.created().await.unwrap(), path);
        node.close().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn the_parent_and_the_nodes_beside_it_stay_when_it_is_closed() {
    simulated_each(MODES, async |mode, server, zk| {
        zk.create("/services").await.unwrap();
        zk.create("/services/worker-2").await.unwrap();
        // CURATOR-506.
        started(&zk, mode).await.close().await.unwrap();
        drop(started(&zk, mode).await);
        until(&server, |probe| probe.children("/services") == ["worker-2"]).await;
    });
}

/// CURATOR-297: a create in flight outlives the close.
#[test]
fn a_node_that_is_closed_at_once_is_not_created_later() {
    simulated_each(pairs(MODES, 0..12), async |(mode, polls), server, zk| {
        let node = PersistentNode::builder(&zk, NODE, mode).protected().start();
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        if polls % 2 == 0 {
            node.close().await.unwrap();
        } else {
            drop(node);
        }
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn data_set_without_a_session_go_to_the_next_node() {
    simulated_with(async |server, zk| {
        let node = started(&zk, Ephemeral).await;
        let path = node.path().unwrap();
        server.stop().await;
        let set = node.set_data("two");
        let back = async {
            until_state(&zk, ConnectionState::Lost).await;
            assert!(!node.is_present());
            server.restart().await.unwrap();
        };
        let (set, ()) = tokio::join!(set, back);
        set.unwrap();
        until_ours(&server, &zk, &path, "two").await;
        assert_eq!(node.data(), "two");
        assert_eq!(node.created().await.unwrap(), path);
    });
}

#[test]
fn an_ephemeral_node_of_another_session_is_awaited_untouched() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let theirs = PersistentNode::builder(&other, NODE, Ephemeral).data("theirs").start();
        theirs.created().await.unwrap();
        let ours = PersistentNode::builder(&zk, NODE, Ephemeral).data("ours").start();
        until(&server, |probe| {
            probe.watches().iter().filter(|watch| watch.path == NODE).count() == 2
        })
        .await;
        assert!(!ours.is_present());
        // A client that never owned it does not delete it, either.
        drop(ours);
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().data(NODE).unwrap(), "theirs");

        let ours = PersistentNode::builder(&zk, NODE, Ephemeral).data("ours").start();
        theirs.close().await.unwrap();
        ours.created().await.unwrap();
        assert_eq!(server.probe().data(NODE).unwrap(), "ours");
        assert_eq!(server.probe().stat(NODE).unwrap().ephemeral_owner, session_id(&zk).get());
    });
}

#[test]
fn a_persistent_node_is_adopted() {
    simulated_each([Persistent, Container], async |kind, server, zk| {
        zk.create(NODE).mode(kind).creating_parents_as_containers().data("theirs").await.unwrap();
        let node = PersistentNode::builder(&zk, NODE, Persistent).data("ours").start();
        node.created().await.unwrap();
        until_ours(&server, &zk, NODE, "ours").await;
        drop(node);
        closes_clean(&server, &zk).await;
    });
}

/// Another client must not read the data of before once the node counts as created.
#[test]
fn an_adopted_node_has_our_data_when_it_is_created() {
    simulated_each(0..30, async |_, server, zk| {
        zk.create(NODE).creating_parents().data("theirs").await.unwrap();
        let slow = once(&server, OpCode::SetData, Verdict::Delay(Duration::from_secs(1)));
        let node = PersistentNode::builder(&zk, NODE, Persistent).data("ours").start();
        node.created().await.unwrap();
        slow.fired().await;
        assert_eq!(server.probe().data(NODE).unwrap(), "ours");
    });
}

#[test]
fn a_node_whose_data_are_refused_is_not_adopted() {
    simulated_with(async |server, zk| {
        let acl = Acl::read_unsafe();
        zk.create(NODE).creating_parents().data("theirs").acl(acl).await.unwrap();
        let node = PersistentNode::builder(&zk, NODE, Persistent).data("ours").start();
        assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert!(!node.is_present());
        // Nor is it deleted.
        node.close().await.unwrap();
        zk.close().await.unwrap();
        assert_eq!(server.probe().data(NODE).unwrap(), "theirs");
    });
}

/// The transaction that contains it begins with a check, which the error does not show.
#[test]
fn refused_data_are_an_error_of_set_data() {
    simulated_each([Ephemeral, Persistent], async |mode, server, zk| {
        let node = PersistentNode::builder(&zk, NODE, mode).data("one").start();
        let path = node.created().await.unwrap();
        zk.set_acl(&path, Acl::read_unsafe()).await.unwrap();
        let error = node.set_data("two").await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NoAuth, "set_data"), "{error}");
        assert_eq!(error.path(), NODE);
        assert_eq!(server.probe().data(NODE).unwrap(), "one");
        // A later attempt that succeeds makes it good.
        let operator = connected(&server).await;
        operator.delete(&path).await.unwrap();
        until_ours(&server, &zk, NODE, "two").await;
        node.set_data("three").await.unwrap();
        assert_eq!(node.created().await.unwrap(), NODE);
    });
}

#[test]
fn a_node_replaced_during_an_outage_is_not_taken_for_ours() {
    simulated_with(async |server, zk| {
        let node = PersistentNode::builder(&zk, NODE, Persistent).data("ours").start();
        node.created().await.unwrap();
        until(&server, |probe| probe.watches().len() == 1).await;
        let operator = connected(&server).await;
        let away = cut_off(&server, &zk);
        operator.delete(NODE).await.unwrap();
        operator.create(NODE).data("theirs").await.unwrap();
        drop(away);
        until_ours(&server, &zk, NODE, "ours").await;
    });
}

/// CURATOR-268, CURATOR-584: NodeExists and NoNode of the node that was ours, after a lost
/// response.
#[test]
fn every_lost_response_is_resolved() {
    simulated(async {
        for mode in MODES {
            for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
                for opcode in [
                    OpCode::Create2,
                    OpCode::Exists,
                    OpCode::SetData,
                    OpCode::Multi,
                    OpCode::Delete,
                ] {
                    let (server, zk) = in_memory().await;
                    let lost = once(&server, opcode, verdict);
                    let node = started(&zk, mode).await;
                    let path = node.path().unwrap();
                    node.set_data("two").await.unwrap();
                    until_ours(&server, &zk, &path, "two").await;
                    assert_eq!(
                        server.probe().children("/services").len(),
                        1,
                        "{mode:?} {opcode:?} {verdict:?}"
                    );
                    node.close().await.unwrap();
                    drop(lost);
                    closes_clean(&server, &zk).await;
                }
            }
        }
    });
}

#[test]
fn an_unprotected_node_is_ours_after_a_lost_create_response() {
    simulated_with(async |server, zk| {
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply).after(1);
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).data("one").start();
        node.created().await.unwrap();
        lost.fired().await;
        let stat = server.probe().stat(NODE).unwrap();
        assert_eq!(stat.ephemeral_owner, session_id(&zk).get());
        drop(node);
        until(&server, |probe| !probe.exists(NODE)).await;
    });
}

/// Ownership is by node: a session has many callers.
#[test]
fn an_ephemeral_node_of_its_own_session_is_waited_for() {
    let cases = pairs([true, false], ["theirs", "ours"]);
    simulated_each(cases, async |(guarded, data), server, zk| {
        let create = zk.create(NODE).creating_parents().mode(Ephemeral).data(data);
        let guard = if guarded { Some(create.owned().await.unwrap()) } else { None };
        if !guarded {
            zk.create(NODE).creating_parents().mode(Ephemeral).data(data).await.unwrap();
        }
        let theirs = server.probe().stat(NODE).unwrap();
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).data("ours").start();
        assert!(timeout(HOUR, node.created()).await.is_err(), "{guarded} {data}");
        assert!(!node.is_present());
        assert!(matches!(node.health().next().await, Some(Health::Waiting)));
        assert_eq!(server.probe().stat(NODE), Some(theirs), "{guarded} {data}");
        match guard {
            Some(guard) => {
                assert!(!guard.ownership().is_over());
                guard.delete().await.unwrap();
            }
            None => zk.delete(NODE).await.unwrap(),
        }
        node.created().await.unwrap();
        until_ours(&server, &zk, NODE, "ours").await;
    });
}

/// The create gets no response, and the policy of the framework gives up: the next attempt finds
/// the node.
#[test]
fn a_node_is_recognised_after_its_create_failed_unanswered() {
    simulated_on(zk_curator_tests::server, async |server| {
        let zk = start(builder(&server).retry(RetryNTimes::new(0, Duration::ZERO))).await;
        zk.create("/services").await.unwrap();
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).data("one").start();
        lost.fired().await;
        let first = server.probe().stat(NODE).unwrap();
        // Writes by another client change nothing.
        let other = connected(&server).await;
        other.set_data(NODE, "written").await.unwrap();
        timeout(HOUR, node.created()).await.unwrap().unwrap();
        assert_eq!(server.probe().stat(NODE).unwrap().czxid, first.czxid);
        node.close().await.unwrap();
        assert!(!server.probe().exists(NODE));
    });
}

/// The next create would not recognise the node by other data, and wait for it forever.
#[test]
fn data_set_while_the_create_is_in_doubt_are_written() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).retry(RetryNTimes::new(0, Duration::ZERO))).await;
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply).times(1);
        let node = PersistentNode::builder(&zk, "/node", Ephemeral).data("one").start();
        lost.fired().await;
        node.set_data("two").await.unwrap();
        until_ours(&server, &zk, "/node", "two").await;
        node.close().await.unwrap();
    });
}

/// Its create got no response, and the session lives on.
#[test]
fn a_node_closed_while_its_create_is_in_doubt_is_deleted() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).retry(RetryNTimes::new(0, Duration::ZERO))).await;
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply).times(1);
        let node = PersistentNode::builder(&zk, "/node", Ephemeral).data("one").start();
        lost.fired().await;
        node.close().await.unwrap();
        let next = PersistentNode::builder(&zk, "/node", Ephemeral).data("two").start();
        next.created().await.unwrap();
        until_ours(&server, &zk, "/node", "two").await;
        next.close().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn data_are_not_written_into_a_node_in_its_place() {
    simulated_each([Ephemeral, Persistent], async |theirs, server, zk| {
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).data("ours").start();
        node.created().await.unwrap();
        let operator = connected(&server).await;
        // Neither the watch nor a read has a response before the write is wanted.
        let away = cut_off(&server, &zk);
        operator.delete(NODE).await.unwrap();
        operator.create(NODE).mode(theirs).data("theirs").await.unwrap();
        let set = node.set_data("two");
        let back = async {
            tokio::task::yield_now().await;
            drop(away);
        };
        let (set, ()) = tokio::join!(timeout(Duration::from_secs(5), set), back);
        match theirs {
            // It waits for the end of the session.
            Ephemeral => assert!(set.is_err()),
            _ => assert_eq!(set.unwrap().unwrap_err().kind(), ErrorKind::NodeExists),
        }
        assert_eq!(server.probe().data(NODE).unwrap(), "theirs");
        assert_eq!(server.probe().stat(NODE).unwrap().version, 0);
    });
}

/// A service that hands over its session keeps the nodes that it has left.
#[test]
fn a_node_in_a_session_that_was_taken_up_is_replaced() {
    simulated_with(async |server, zk| {
        let before = PersistentNode::builder(&zk, NODE, Ephemeral).data("before").start();
        before.created().await.unwrap();
        let session = zk.detach().await.unwrap();
        assert!(server.probe().exists(NODE));
        let zk = start(builder(&server).resume(session)).await;
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).data("ours").start();
        timeout(HOUR, node.created()).await.unwrap().unwrap();
        until_ours(&server, &zk, NODE, "ours").await;
        drop(before);
        zk.sync("/").await.unwrap();
        assert!(node.is_present() && server.probe().exists(NODE));
    });
}

/// The health of persistent nodes, by name.
fn healths(zk: &CuratorFramework) -> Vec<(&'static str, HealthWatch, Box<dyn std::any::Any>)> {
    let node = |mode| PersistentNode::builder(zk, format!("/nodes/{mode:?}"), mode).start();
    let (passing, persistent) = (node(Ephemeral), node(Persistent));
    let member = GroupMember::builder(zk, "/group", "member").start();
    let ttl = PersistentTtlNode::builder(zk, "/nodes/ttl", TTL).start();
    let name = NameService::new(zk, "/names").keep_bound("name", "value");
    vec![
        ("ephemeral", passing.health(), Box::new(passing)),
        ("persistent", persistent.health(), Box::new(persistent)),
        ("member", member.health(), Box::new(member)),
        ("ttl", ttl.health(), Box::new(ttl)),
        ("name", name.health(), Box::new(name)),
    ]
}

#[test]
fn nothing_says_that_it_works_while_there_is_no_session() {
    simulated_with(async |server, zk| {
        let mut kept = healths(&zk);
        for (_, health, _) in &mut kept {
            while !matches!(health.next().await.unwrap(), Health::Working) {}
        }
        server.stop().await;
        until_state(&zk, ConnectionState::Lost).await;
        idle(HOUR).await;
        for (name, health, _) in &mut kept {
            let now = health.next().await.unwrap();
            assert!(matches!(now, Health::Waiting), "{name}: {now:?}");
            assert!(timeout(HOUR, health.next()).await.is_err(), "{name}");
        }
        server.restart().await.unwrap();
        for (name, health, _) in &mut kept {
            let again = async { while !matches!(health.next().await.unwrap(), Health::Working) {} };
            timeout(HOUR, again).await.unwrap_or_else(|_| panic!("{name}"));
        }
    });
}

#[test]
fn health_follows_the_node_and_ends_with_the_task() {
    simulated_with(async |server, zk| {
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).start();
        let mut health = node.health();
        assert!(matches!(health.next().await, Some(Health::Waiting)));
        assert!(matches!(health.next().await, Some(Health::Working)));
        assert!(server.probe().exists(NODE));
        // A new watch begins with the present health.
        assert!(matches!(node.health().next().await, Some(Health::Working)));
        let refuse =
            rule_if(&server, |request| request.is_create(), Verdict::Refuse(ErrorCode::NoAuth));
        zk.delete(NODE).await.unwrap();
        let error = loop {
            match health.next().await.unwrap() {
                Health::Waiting => {}
                Health::Failed(error) => break error,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((error.kind(), error.path()), (ErrorKind::NoAuth, NODE));
        drop(refuse);
        assert!(matches!(health.next().await, Some(Health::Working)));
        node.close().await.unwrap();
        assert!(health.next().await.is_none());

        let node = PersistentNode::builder(&zk, NODE, Ephemeral).start();
        let mut health = node.health();
        node.created().await.unwrap();
        zk.close().await.unwrap();
        while health.next().await.is_some() {}
    });
}

#[test]
fn a_waiter_learns_why_there_is_no_node_and_it_is_retried() {
    simulated_with(async |server, zk| {
        let refuse =
            rule_if(&server, |request| request.is_create(), Verdict::Refuse(ErrorCode::NoAuth));
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).start();
        assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert_eq!(node.set_data("two").await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert!(!node.is_present());
        drop(refuse);
        until_ours(&server, &zk, NODE, "two").await;
        let invalid = PersistentNode::builder(&zk, "no-slash", Ephemeral).start();
        assert_eq!(invalid.created().await.unwrap_err().kind(), ErrorKind::InvalidPath);
        zk.close().await.unwrap();
        assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(node.set_data("three").await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_node_waits_for_a_server_that_writes() {
    simulated_on(TestServer::in_memory, async |server| {
        server.set_read_only(true);
        let zk = start(builder(&server).read_only(true)).await;
        assert_eq!(zk.state(), ConnectionState::ReadOnly);
        let mut errors = zk.background_errors();
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).data("one").start();
        timeout(Duration::from_secs(30), node.created()).await.expect_err("a response");
        server.set_read_only(false);
        node.created().await.unwrap();
        until_ours(&server, &zk, NODE, "one").await;

        // A node that exists, and whose data are replaced while there is no such server.
        server.set_read_only(true);
        zk.states().until(|status| status.state == ConnectionState::ReadOnly).await.unwrap();
        let mut write = pin!(node.set_data("two"));
        timeout(Duration::from_secs(30), &mut write).await.expect_err("a response");
        server.set_read_only(false);
        write.await.unwrap();
        until_ours(&server, &zk, NODE, "two").await;
        timeout(Duration::from_secs(1), errors.next()).await.expect_err("an error");
    });
}

/// CURATOR-590, CURATOR-643.
#[test]
fn parents_that_are_deleted_are_brought_back_only_if_wanted() {
    simulated_with(async |server, zk| {
        zk.create("/services").await.unwrap();
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).without_parents().start();
        node.created().await.unwrap();
        zk.transaction().delete(NODE).delete("/services").commit().await.unwrap();
        let gone = timeout(Duration::from_secs(60), async {
            loop {
                if let Err(error) = node.created().await {
                    return error;
                }
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(gone.await.unwrap().kind(), ErrorKind::NoNode);
        assert!(!server.probe().exists("/services"));
        zk.create("/services").await.unwrap();
        until_ours(&server, &zk, NODE, "").await;
    });
}

/// CURATOR-58: parents were open to all clients.
#[test]
fn parents_have_the_acl_of_the_provider() {
    simulated_on(TestServer::in_memory, async |server| {
        let acl = vec![Acl::read_unsafe()[0].clone(), Acl::open_unsafe()[0].clone()];
        let zk = start(builder(&server).acl_provider(acl.clone())).await;
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).start();
        node.created().await.unwrap();
        assert_eq!(server.probe().acl("/services"), acl);
        assert_eq!(server.probe().acl(NODE), acl);
    });
}

#[test]
fn creations_are_reported_from_the_first_on() {
    simulated_with(async |server, zk| {
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).start();
        let mut creations = std::pin::pin!(node.creations());
        assert_eq!(creations.next().await.unwrap(), NODE);
        let before = server.probe().stat(NODE).unwrap().czxid;
        expire(&server, &zk).await;
        assert_eq!(creations.next().await.unwrap(), NODE);
        assert!(server.probe().stat(NODE).unwrap().czxid > before);
        node.close().await.unwrap();
        assert_eq!(creations.next().await, None);
    });
}

#[test]
fn two_in_one_process_at_one_path_take_turns() {
    simulated_with(async |server, zk| {
        let make = || PersistentNode::builder(&zk, NODE, Ephemeral).data("same").start();
        let (one, two) = (make(), make());
        one.created().await.unwrap();
        assert!(timeout(HOUR, two.created()).await.is_err());
        let first = server.probe().stat(NODE).unwrap();
        // Nor do they take the place of each other in another session.
        expire(&server, &zk).await;
        until(&server, |probe| probe.stat(NODE).is_some_and(|stat| stat.czxid > first.czxid)).await;
        idle(HOUR).await;
        assert_ne!(one.is_present(), two.is_present());
        let (first, second) = if one.is_present() { (one, two) } else { (two, one) };
        first.close().await.unwrap();
        second.created().await.unwrap();
        second.close().await.unwrap();
        assert!(!server.probe().exists(NODE));
    });
}

const TTL: Duration = Duration::from_secs(60);

#[test]
fn a_node_with_a_ttl_outlives_its_process_for_that_time() {
    simulated_with(async |server, zk| {
        let node = PersistentTtlNode::builder(&zk, NODE, TTL).data("one").start();
        node.created().await.unwrap();
        until(&server, |probe| probe.exists("/services/worker/touch")).await;
        let probe = server.probe();
        assert_eq!(probe.ttl(NODE), Some(TTL));
        assert_eq!(probe.ttl("/services/worker/touch"), Some(TTL));
        let mut touched = probe.stat("/services/worker/touch").unwrap().version;
        for _ in 0..5 {
            past(TTL * 3 / 4).await;
            server.reap_containers();
            let probe = server.probe();
            let version = probe.stat("/services/worker/touch").unwrap().version;
            assert!(version > touched);
            touched = version;
            // Watches on the data of the node do not fire.
            assert_eq!(probe.stat(NODE).unwrap().version, 0);
        }
        node.set_data("two").await.unwrap();
        assert_eq!(server.probe().data(NODE).unwrap(), "two");
        // A child that another client deletes is created again.
        zk.delete("/services/worker/touch").await.unwrap();
        until(&server, |probe| probe.exists("/services/worker/touch")).await;
        drop(node);
        zk.close().await.unwrap();
        server.reap_containers();
        assert!(server.probe().exists(NODE));
        past(TTL * 2).await;
        while !server.reap_containers().is_empty() {}
        assert!(!server.probe().exists("/services"), "{}", server.probe());
    });
}

/// GH-1258, CURATOR-545: a process that ended before the first touch left the node forever.
#[test]
fn a_node_that_was_never_touched_goes_as_well() {
    simulated_with(async |server, zk| {
        let refuse = server.rule(|request| {
            let touches = request.is_about("/services/worker/touch");
            if touches { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
        });
        let node = PersistentTtlNode::builder(&zk, NODE, TTL).start();
        node.created().await.unwrap();
        drop(node);
        zk.close().await.unwrap();
        assert!(refuse.hits() > 0);
        past(TTL * 2).await;
        while !server.reap_containers().is_empty() {}
        assert!(!server.probe().exists(NODE), "{}", server.probe());
    });
}

#[test]
fn a_name_that_is_none_is_refused() {
    simulated_with(async |_server, zk| {
        for (path, touch) in [("no-slash", "touch"), (NODE, ".."), (NODE, "")] {
            let node = PersistentTtlNode::builder(&zk, path, TTL).touch_name(touch).start();
            assert_eq!(
                node.created().await.unwrap_err().kind(),
                ErrorKind::InvalidPath,
                "{path} {touch}"
            );
            assert_eq!(node.set_data("x").await.unwrap_err().kind(), ErrorKind::InvalidPath);
            let mut health = node.health();
            assert!(matches!(health.next().await, Some(Health::Failed(_))));
            assert!(health.next().await.is_none());
        }
        let node = PersistentTtlNode::builder(&zk, NODE, TTL).touches(0).data("one").start();
        assert_eq!(node.data(), "one");
        let never = node.created().await.unwrap_err();
        assert_eq!((never.kind(), never.path()), (ErrorKind::InvalidArgument, NODE));
    });
}

/// Without touches the node is gone after its time to live.
#[test]
fn touches_that_are_refused_are_reported_once() {
    simulated_with(async |server, zk| {
        let node = PersistentTtlNode::builder(&zk, NODE, TTL).start();
        node.created().await.unwrap();
        let mut errors = zk.background_errors();
        let refuse = rule_if(
            &server,
            |request| request.paths().any(|path| path.ends_with("/touch")),
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        assert_eq!(
            timeout(TTL * 2, errors.next()).await.unwrap().unwrap().kind(),
            ErrorKind::NoAuth
        );
        assert!(timeout(TTL * 2, errors.next()).await.is_err());
        assert!(refuse.hits() > 4);
        assert!(matches!(node.health().next().await, Some(Health::Failed(_))));
        drop(refuse);
        let mut health = pin!(node.health().into_stream());
        while !matches!(health.next().await.unwrap(), Health::Working) {}
        drop(node);
    });
}

/// A touch every half a second would be refused 7,200 times.
#[test]
fn refused_touches_are_repeated_ever_more_slowly() {
    simulated_with(async |server, zk| {
        let node = PersistentTtlNode::builder(&zk, NODE, Duration::from_secs(1)).start();
        node.created().await.unwrap();
        until(&server, |probe| probe.exists("/services/worker/touch")).await;
        let (mut errors, mut health) = (zk.background_errors(), node.health());
        let verdict = Verdict::Refuse(ErrorCode::NoAuth);
        let refused = rule_if(&server, |request| request.is(OpCode::SetData), verdict);
        idle(HOUR).await;
        assert!((120..400).contains(&refused.hits()), "{}", refused.hits());
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        drop(refused);
        while !matches!(health.next().await.unwrap(), Health::Working) {}
        drop(node);
    });
}

#[test]
fn a_node_that_is_not_there_is_not_touched() {
    simulated_with(async |server, zk| {
        let refused = rule_if(
            &server,
            |request| request.is_create() && request.is_about(NODE),
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        let node = PersistentTtlNode::builder(&zk, NODE, Duration::from_secs(1)).start();
        assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::NoAuth);
        idle(HOUR).await;
        let touches = server.probe().requests(OpCode::SetData);
        assert!(touches < 3, "{touches}");
        drop(refused);
        until(&server, |probe| probe.exists("/services/worker/touch")).await;
        drop(node);
    });
}

/// The nodes of a restored tree, for example. The next session would wait for it for ever.
#[test]
fn a_persistent_node_in_its_place_is_a_failure_until_it_is_gone() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut errors = zk.background_errors();
        other.create(NODE).creating_parents().data("restored").await.unwrap();
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).data("one").start();
        let error = node.created().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NodeExists, NODE));
        let health = node.health().next().await;
        assert!(
            matches!(&health, Some(Health::Failed(error)) if error.kind() == ErrorKind::NodeExists)
        );
        assert_eq!(node.set_data("two").await.unwrap_err().kind(), ErrorKind::NodeExists);
        assert_eq!(server.probe().data(NODE).unwrap(), "restored");
        let before = server.probe().requests(OpCode::Create2);
        idle(HOUR).await;
        assert_eq!(server.probe().requests(OpCode::Create2), before);
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NodeExists));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        other.delete(NODE).await.unwrap();
        until_ours(&server, &zk, NODE, "two").await;
        assert_eq!(node.created().await.unwrap(), NODE);
        node.close().await.unwrap();
        assert!(!server.probe().exists(NODE));
    });
}

#[test]
fn a_refused_node_is_asked_for_ever_more_slowly() {
    simulated_with(async |server, zk| {
        let mut errors = zk.background_errors();
        let refused =
            rule_if(&server, |request| request.is_create(), Verdict::Refuse(ErrorCode::NoAuth));
        let node = PersistentNode::builder(&zk, NODE, Ephemeral).data("one").start();
        assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::NoAuth);
        let before = server.probe().requests(OpCode::Create2);
        idle(HOUR).await;
        let asked = server.probe().requests(OpCode::Create2) - before;
        assert!((120..400).contains(&asked), "{asked}");
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        // New data are tried immediately.
        let before = server.probe().requests(OpCode::Create2);
        assert_eq!(node.set_data("two").await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert_eq!(server.probe().requests(OpCode::Create2), before + 1);
        drop(refused);
        until_ours(&server, &zk, NODE, "two").await;
        node.close().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_node_of_a_bound_handle_ends_with_its_session() {
    simulated_with(async |server, zk| {
        let bound = zk.bound_to_session().unwrap();
        let node = PersistentNode::builder(&bound, NODE, Ephemeral).data("one").start();
        node.created().await.unwrap();
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        let ended = timeout(HOUR, async {
            loop {
                match node.set_data("two").await {
                    Err(error) => return error,
                    Ok(()) => tokio::task::yield_now().await,
                }
            }
        });
        assert_eq!(ended.await.unwrap().kind(), ErrorKind::SessionExpired);
        assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::SessionExpired);
        node.close().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}
