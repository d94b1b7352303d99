//! [`PersistentNode`] and [`PersistentTtlNode`]: what keeps them, and Curator's bugs with them.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;
use zk_curator::{Acl, ConnectionState, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::health::Health;
use zk_curator_recipes::node::{PersistentNode, PersistentTtlNode};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    assert_clean_after_close, builder, connected, expire, in_memory, once, session_id, simulated, until,
};

const NODE: &str = "/services/worker";
const MODES: [CreateMode; 4] = [
    CreateMode::Ephemeral,
    CreateMode::EphemeralSequential,
    CreateMode::Persistent,
    CreateMode::PersistentSequential,
];

async fn started(zk: &CuratorFramework, mode: CreateMode) -> PersistentNode {
    let node = PersistentNode::builder(zk, NODE, mode).protected().data("one").start();
    node.created().await.unwrap();
    node
}

/// The node exists and is ours, with these data.
async fn until_ours(server: &TestServer, zk: &CuratorFramework, path: &str, data: &str) {
    until(server, |probe| {
        let is_ours = |owner| owner == 0 || Some(owner) == zk.session().map(|session| session.id.get());
        probe.data(path).is_some_and(|present| present == data)
            && is_ours(probe.stat(path).unwrap().ephemeral_owner)
    })
    .await;
}

#[test]
fn a_node_comes_back_at_its_path_with_its_data() {
    simulated(async {
        for mode in MODES {
            let (server, zk) = in_memory().await;
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
            zk.close().await.unwrap();
            assert_clean_after_close(&server);
        }
    });
}

#[test]
fn the_parent_and_the_nodes_beside_it_stay_when_it_is_closed() {
    simulated(async {
        for mode in MODES {
            let (server, zk) = in_memory().await;
            zk.create("/services").await.unwrap();
            zk.create("/services/worker-2").await.unwrap();
            // CURATOR-506.
            started(&zk, mode).await.close().await.unwrap();
            drop(started(&zk, mode).await);
            until(&server, |probe| probe.children("/services") == ["worker-2"]).await;
        }
    });
}

/// CURATOR-297: a create in flight outlives the close.
#[test]
fn a_node_that_is_closed_at_once_is_not_created_later() {
    simulated(async {
        for mode in MODES {
            for polls in 0..12 {
                let (server, zk) = in_memory().await;
                let node = PersistentNode::builder(&zk, NODE, mode).protected().start();
                for _ in 0..polls {
                    tokio::task::yield_now().await;
                }
                if polls % 2 == 0 {
                    node.close().await.unwrap();
                } else {
                    drop(node);
                }
                zk.close().await.unwrap();
                assert_clean_after_close(&server);
            }
        }
    });
}

#[test]
fn data_set_while_there_is_no_session_are_those_of_the_next_node() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = started(&zk, CreateMode::Ephemeral).await;
        let path = node.path().unwrap();
        server.stop().await;
        let set = node.set_data("two");
        let back = async {
            zk_curator_tests::until_state(&zk, ConnectionState::Lost).await;
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
fn an_ephemeral_node_of_another_session_is_waited_for_and_not_touched() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
        let theirs = PersistentNode::builder(&other, NODE, CreateMode::Ephemeral).data("theirs").start();
        theirs.created().await.unwrap();
        let ours = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).data("ours").start();
        until(&server, |probe| probe.watches().iter().filter(|watch| watch.path == NODE).count() == 2).await;
        assert!(!ours.is_present());
        // Neither is it deleted by one that has never had it.
        drop(ours);
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().data(NODE).unwrap(), "theirs");

        let ours = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).data("ours").start();
        theirs.close().await.unwrap();
        ours.created().await.unwrap();
        assert_eq!(server.probe().data(NODE).unwrap(), "ours");
        assert_eq!(server.probe().stat(NODE).unwrap().ephemeral_owner, session_id(&zk).get());
    });
}

#[test]
fn a_lasting_node_is_adopted() {
    simulated(async {
        for kind in [CreateMode::Persistent, CreateMode::Container] {
            let (server, zk) = in_memory().await;
            zk.create(NODE).mode(kind).creating_parents_as_containers().data("theirs").await.unwrap();
            let node = PersistentNode::builder(&zk, NODE, CreateMode::Persistent).data("ours").start();
            node.created().await.unwrap();
            until_ours(&server, &zk, NODE, "ours").await;
            drop(node);
            zk.close().await.unwrap();
            assert_clean_after_close(&server);
        }
    });
}

/// Another client must not read the data of before once the node counts as created.
#[test]
fn an_adopted_node_has_our_data_when_it_is_created() {
    simulated(async {
        for _ in 0..30 {
            let (server, zk) = in_memory().await;
            zk.create(NODE).creating_parents().data("theirs").await.unwrap();
            let slow = once(&server, OpCode::SetData, Verdict::Delay(Duration::from_secs(1)));
            let node = PersistentNode::builder(&zk, NODE, CreateMode::Persistent).data("ours").start();
            node.created().await.unwrap();
            slow.fired().await;
            assert_eq!(server.probe().data(NODE).unwrap(), "ours");
        }
    });
}

#[test]
fn a_node_whose_data_are_refused_is_not_adopted() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let acl = Acl::read_unsafe();
        zk.create(NODE).creating_parents().data("theirs").acl(acl).await.unwrap();
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Persistent).data("ours").start();
        assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert!(!node.is_present());
        // Nor is it deleted.
        node.close().await.unwrap();
        zk.close().await.unwrap();
        assert_eq!(server.probe().data(NODE).unwrap(), "theirs");
    });
}

/// The transaction in which it is sent has a check before it, which is nobody's business.
#[test]
fn refused_data_are_an_error_of_set_data() {
    simulated(async {
        for mode in [CreateMode::Ephemeral, CreateMode::Persistent] {
            let (server, zk) = in_memory().await;
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
        }
    });
}

#[test]
fn a_node_replaced_during_an_outage_is_not_taken_for_ours() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Persistent).data("ours").start();
        node.created().await.unwrap();
        until(&server, |probe| probe.watches().len() == 1).await;
        let operator = connected(&server).await;
        let victim = session_id(&zk).get();
        let away = server.rule(move |request| match request.session_id() == victim {
            true => Verdict::Disconnect,
            false => Verdict::Pass,
        });
        server.disconnect(victim);
        operator.delete(NODE).await.unwrap();
        operator.create(NODE).data("theirs").await.unwrap();
        drop(away);
        until_ours(&server, &zk, NODE, "ours").await;
    });
}

/// CURATOR-268, CURATOR-584: NodeExists and NoNode of the node that was ours, after a lost answer.
#[test]
fn every_lost_answer_is_resolved() {
    simulated(async {
        for mode in MODES {
            for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
                for opcode in
                    [OpCode::Create2, OpCode::Exists, OpCode::SetData, OpCode::Multi, OpCode::Delete]
                {
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
                    zk.close().await.unwrap();
                    assert_clean_after_close(&server);
                }
            }
        }
    });
}

#[test]
fn an_unprotected_ephemeral_node_whose_create_got_no_answer_is_ours() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply).after(1);
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).data("one").start();
        node.created().await.unwrap();
        lost.fired().await;
        let stat = server.probe().stat(NODE).unwrap();
        assert_eq!(stat.ephemeral_owner, session_id(&zk).get());
        drop(node);
        until(&server, |probe| !probe.exists(NODE)).await;
    });
}

#[test]
fn what_took_the_place_of_an_earlier_node_of_ours_is_left_alone_and_waited_for() {
    simulated(async {
        let (server, zk) = in_memory().await;
        zk.create(NODE).creating_parents().mode(CreateMode::Ephemeral).data("earlier").await.unwrap();
        zk.set_data(NODE, "replaced").await.unwrap();
        let other = connected(&server).await;
        let late = once(&server, OpCode::Delete, Verdict::Delay(Duration::from_secs(1)));
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).data("ours").start();
        late.fired().await;
        other.delete(NODE).await.unwrap();
        other.create(NODE).mode(CreateMode::Ephemeral).data("theirs").await.unwrap();
        assert!(timeout(Duration::from_secs(5), node.created()).await.is_err());
        assert_eq!(server.probe().data(NODE).unwrap(), "theirs");
        other.delete(NODE).await.unwrap();
        node.created().await.unwrap();
        until_ours(&server, &zk, NODE, "ours").await;
    });
}

#[test]
fn health_follows_the_node_and_ends_with_the_task() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).start();
        let mut health = node.health();
        assert!(matches!(health.next().await, Some(Health::Waiting)));
        assert!(matches!(health.next().await, Some(Health::Working)));
        assert!(server.probe().exists(NODE));
        // A new watch begins with the present health.
        assert!(matches!(node.health().next().await, Some(Health::Working)));
        let refuse =
            server.rule(
                |request| {
                    if request.is_create() { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
                },
            );
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

        let node = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).start();
        let mut health = node.health();
        node.created().await.unwrap();
        zk.close().await.unwrap();
        while health.next().await.is_some() {}
    });
}

#[test]
fn whoever_waits_is_told_why_there_is_no_node_and_it_is_tried_again() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let refuse =
            server.rule(
                |request| {
                    if request.is_create() { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
                },
            );
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).start();
        assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert_eq!(node.set_data("two").await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert!(!node.is_present());
        drop(refuse);
        until_ours(&server, &zk, NODE, "two").await;
        let invalid = PersistentNode::builder(&zk, "no-slash", CreateMode::Ephemeral).start();
        assert_eq!(invalid.created().await.unwrap_err().kind(), ErrorKind::InvalidPath);
        zk.close().await.unwrap();
        assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(node.set_data("three").await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_node_waits_for_a_server_that_writes() {
    simulated(async {
        let server = TestServer::in_memory().await;
        server.set_read_only(true);
        let zk = builder(&server).read_only(true).build().unwrap();
        zk.start().await.unwrap();
        assert_eq!(zk.state(), ConnectionState::ReadOnly);
        let mut errors = zk.background_errors();
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).data("one").start();
        timeout(Duration::from_secs(30), node.created()).await.expect_err("an answer");
        server.set_read_only(false);
        node.created().await.unwrap();
        until_ours(&server, &zk, NODE, "one").await;

        // A node that exists, and whose data are replaced while there is no such server.
        server.set_read_only(true);
        zk.states().until(|status| status.state == ConnectionState::ReadOnly).await.unwrap();
        let mut write = pin!(node.set_data("two"));
        timeout(Duration::from_secs(30), &mut write).await.expect_err("an answer");
        server.set_read_only(false);
        write.await.unwrap();
        until_ours(&server, &zk, NODE, "two").await;
        timeout(Duration::from_secs(1), errors.next()).await.expect_err("an error");
    });
}

/// CURATOR-590, CURATOR-643.
#[test]
fn parents_that_are_deleted_are_brought_back_only_if_wanted() {
    simulated(async {
        let (server, zk) = in_memory().await;
        zk.create("/services").await.unwrap();
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).without_parents().start();
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

/// CURATOR-58: parents were open to everybody.
#[test]
fn parents_have_the_acl_of_the_provider() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let acl = vec![Acl::read_unsafe()[0].clone(), Acl::open_unsafe()[0].clone()];
        let zk = builder(&server).acl_provider(acl.clone()).build().unwrap();
        zk.start().await.unwrap();
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).start();
        node.created().await.unwrap();
        assert_eq!(server.probe().acl("/services"), acl);
        assert_eq!(server.probe().acl(NODE), acl);
    });
}

#[test]
fn creations_are_told_from_the_first_on() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).start();
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
fn two_in_one_process_at_one_path_keep_one_node() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let make = || PersistentNode::builder(&zk, NODE, CreateMode::Ephemeral).data("same").start();
        let (one, two) = (make(), make());
        one.created().await.unwrap();
        two.created().await.unwrap();
        one.close().await.unwrap();
        until(&server, |probe| probe.exists(NODE)).await;
        two.close().await.unwrap();
        assert!(!server.probe().exists(NODE));
    });
}

const TTL: Duration = Duration::from_secs(60);

#[test]
fn a_node_with_a_time_to_live_outlives_its_process_for_that_time() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = PersistentTtlNode::builder(&zk, NODE, TTL).data("one").start();
        node.created().await.unwrap();
        until(&server, |probe| probe.exists("/services/worker/touch")).await;
        let probe = server.probe();
        assert_eq!(probe.ttl(NODE), Some(TTL));
        assert_eq!(probe.ttl("/services/worker/touch"), Some(TTL));
        let mut touched = probe.stat("/services/worker/touch").unwrap().version;
        for _ in 0..5 {
            tokio::time::sleep(TTL * 3 / 4).await;
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
        // The child that somebody deletes comes back.
        zk.delete("/services/worker/touch").await.unwrap();
        until(&server, |probe| probe.exists("/services/worker/touch")).await;
        drop(node);
        zk.close().await.unwrap();
        server.reap_containers();
        assert!(server.probe().exists(NODE));
        tokio::time::sleep(TTL * 2).await;
        while !server.reap_containers().is_empty() {}
        assert!(!server.probe().exists("/services"), "{}", server.probe());
    });
}

/// GH-1258, CURATOR-545: a process that ends before the first touch left the node for ever.
#[test]
fn a_node_that_was_never_touched_goes_as_well() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let refuse = server.rule(|request| {
            let touches = request.is_about("/services/worker/touch");
            if touches { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
        });
        let node = PersistentTtlNode::builder(&zk, NODE, TTL).start();
        node.created().await.unwrap();
        drop(node);
        zk.close().await.unwrap();
        assert!(refuse.hits() > 0);
        tokio::time::sleep(TTL * 2).await;
        while !server.reap_containers().is_empty() {}
        assert!(!server.probe().exists(NODE), "{}", server.probe());
    });
}

#[test]
fn a_name_that_is_none_is_refused() {
    simulated(async {
        let (_server, zk) = in_memory().await;
        for (path, touch) in [("no-slash", "touch"), (NODE, ".."), (NODE, "")] {
            let node = PersistentTtlNode::builder(&zk, path, TTL).touch_name(touch).start();
            assert_eq!(node.created().await.unwrap_err().kind(), ErrorKind::InvalidPath, "{path} {touch}");
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
    simulated(async {
        let (server, zk) = in_memory().await;
        let node = PersistentTtlNode::builder(&zk, NODE, TTL).start();
        node.created().await.unwrap();
        let mut errors = zk.background_errors();
        let refuse = server.rule(|request| match request.paths().any(|path| path.ends_with("/touch")) {
            true => Verdict::Refuse(ErrorCode::NoAuth),
            false => Verdict::Pass,
        });
        assert_eq!(timeout(TTL * 2, errors.next()).await.unwrap().unwrap().kind(), ErrorKind::NoAuth);
        assert!(timeout(TTL * 2, errors.next()).await.is_err());
        assert!(refuse.hits() > 4);
        assert!(matches!(node.health().next().await, Some(Health::Failed(_))));
        drop(refuse);
        let mut health = pin!(node.health().into_stream());
        while !matches!(health.next().await.unwrap(), Health::Working) {}
        drop(node);
    });
}
