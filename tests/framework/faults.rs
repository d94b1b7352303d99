//! The framework when answers and requests are lost, sessions end, servers go and raw clients misbehave.

use std::error::Error as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use zk_curator::certain::Receipt;
use zk_curator::raw::{NativeFactory, RawClient, RawClientFactory, SessionSettings};
use zk_curator::retry::RetryForever;
use zk_curator::{Acl, ConnectionState, CreateMode, CuratorFramework, ErrorCode, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_testing::{Direction, TestServer, Verdict};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, assert_clean_after_close, builder, connected, impatient, in_memory,
    once, session_id, simulated, until, until_state,
};

// Creates.

#[test]
fn a_protected_create_with_a_lost_answer_is_found_by_its_prefix() {
    simulated(async {
        for mode in [CreateMode::Persistent, CreateMode::EphemeralSequential] {
            let (server, zk) = in_memory().await;
            zk.create("/p").await.unwrap();
            zk.create("/p/_c_somebody-else-n").await.unwrap();
            let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
            let created = zk.create("/p/n").mode(mode).protected().data("x").await.unwrap();
            assert_eq!(lost.hits(), 1);
            assert_eq!(server.probe().children("/p").len(), 2, "{}", server.probe());
            assert_eq!(server.probe().stat(&created.path), Some(created.stat));
            assert_eq!(server.probe().requests(OpCode::Create2), 3, "it is not created again");
        }
    });
}

/// CURATOR-264 (19b): the server that answers the search may lag behind the one that has created the node.
#[test]
fn curator_264_sync_comes_before_the_search() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorder = Arc::clone(&seen);
        let _record = server.rule(move |request| {
            recorder.lock().unwrap().push(request.opcode());
            Verdict::Pass
        });
        let _lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let node = zk.create("/n").protected().owned().await.unwrap();
        let requests = seen.lock().unwrap().clone();
        assert_eq!(requests, [OpCode::Create2, OpCode::Multi, OpCode::GetChildren2, OpCode::Exists]);
        node.delete().await.unwrap();
    });
}

/// The written limit of protection: an item that is consumed before it is looked for is there twice.
#[test]
fn a_protected_node_that_is_consumed_before_the_look_up_is_created_again() {
    simulated(async {
        let (server, zk) = in_memory().await;
        zk.create("/q").await.unwrap();
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let create = zk.create("/q/item-").mode(CreateMode::PersistentSequential).protected().into_future();
        let create = tokio::spawn(create);
        lost.fired().await;
        // Before the client has noticed, somebody takes the item.
        let first = server.probe().children("/q")[0].to_owned();
        server.remove(&format!("/q/{first}")).unwrap();
        let created = create.await.unwrap().unwrap();
        assert!(created.path.ends_with("0000000001"), "{}", created.path);

        // With a receipt it is there once.
        let receipt = Receipt::at(&zk, "/receipts");
        zk.create("/receipts").await.unwrap();
        let item = zk.transaction().create("/q/sure", "x");
        let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
        let put = tokio::spawn(item.certain(&receipt).into_future());
        lost.fired().await;
        server.remove("/q/sure").unwrap();
        put.await.unwrap().unwrap();
        assert!(!server.probe().exists("/q/sure"));
    });
}

#[test]
fn a_protected_create_that_was_lost_on_the_way_is_sent_again() {
    simulated(async {
        for verdict in [Verdict::LoseRequest, Verdict::Disconnect] {
            let (server, zk) = in_memory().await;
            let lost = once(&server, OpCode::Create2, verdict);
            let created = zk.create("/n").protected().await.unwrap();
            assert_eq!(lost.hits(), 1);
            assert_eq!(server.probe().paths(), [created.path.as_str()]);
        }
    });
}

/// The answer to an ephemeral create is lost, and then the session, of which the server does not hear: the path of the
/// node that is left behind, and what comes of the create in the next session.
#[expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]
async fn answered_in_the_next_session<T: Send + 'static>(
    server: &TestServer,
    zk: &CuratorFramework,
    create: impl Future<Output = T> + Send + 'static,
) -> (String, T) {
    let old = session_id(zk).get();
    let lost_answer = once(server, OpCode::Create2, Verdict::LoseReply);
    let create = tokio::spawn(create);
    lost_answer.fired().await;
    let _unheard = server.rule(move |request| match request.opcode() {
        OpCode::CloseSession if request.session_id() == old => Verdict::LoseRequest,
        _ => Verdict::Pass,
    });
    // A stopped server expires nothing; our own clock gives the session up.
    server.stop().await;
    let left_behind = server.probe().ephemerals(old)[0].clone();
    until_state(zk, ConnectionState::Lost).await;
    server.restart().await.unwrap();
    (left_behind, create.await.unwrap())
}

/// CURATOR-498: the node that is found belongs to the session before.
#[test]
fn curator_498_a_node_of_the_session_before_is_deleted_and_created_anew() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let zk = builder(&server).connection_timeout(2 * SESSION_TIMEOUT).build().unwrap();
        zk.start().await.unwrap();
        let create = zk.create("/n").mode(CreateMode::Ephemeral).protected().owned();
        let (left_behind, node) = answered_in_the_next_session(&server, &zk, create.into_future()).await;
        let (probe, node) = (server.probe(), node.unwrap());
        assert_eq!(probe.paths(), [node.path()], "{probe}");
        assert_ne!(node.path(), left_behind, "another node has another name");
        assert_eq!(node.stat().ephemeral_owner, session_id(&zk).get());
        assert!(node.is_ours() && node.ownership().session_epoch() == 2);
        node.delete().await.unwrap();
    });
}

/// Others wait to create a node of this name: that of the session before may be gone, and theirs be there, when a delete
/// arrives. Simulation: `zk-sim --scenario queue --seed 44831 --rounds 6`, two that worked off one item.
#[test]
fn a_node_of_the_session_before_that_others_may_create_too_is_not_deleted() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let zk = builder(&server).connection_timeout(2 * SESSION_TIMEOUT).build().unwrap();
        zk.start().await.unwrap();
        let create = || zk.create("/n").mode(CreateMode::Ephemeral).data("ours").protected_by_data().owned();
        let (left_behind, refused) = answered_in_the_next_session(&server, &zk, create().into_future()).await;
        assert_eq!((left_behind.as_str(), refused.unwrap_err().kind()), ("/n", ErrorKind::NodeExists));
        let probe = server.until(|probe| !probe.exists("/n")).await;
        assert_eq!(probe.requests(OpCode::Delete), 0, "it ended with its session\n{probe}");
        create().await.unwrap().delete().await.unwrap();
    });
}

#[test]
fn a_persistent_node_of_the_session_before_is_the_one_that_was_asked_for() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let zk = builder(&server).connection_timeout(2 * SESSION_TIMEOUT).build().unwrap();
        zk.start().await.unwrap();
        let lost_answer = once(&server, OpCode::Create2, Verdict::LoseReply);
        let create = tokio::spawn(zk.create("/n").protected().into_future());
        lost_answer.fired().await;
        server.stop().await;
        until_state(&zk, ConnectionState::Lost).await;
        server.restart().await.unwrap();
        let created = create.await.unwrap().unwrap();
        assert_eq!(server.probe().paths(), [created.path.as_str()]);
        assert_eq!(server.probe().requests(OpCode::Create2), 1);
    });
}

#[test]
fn a_protected_create_that_gives_up_leaves_the_search_to_the_janitor() {
    simulated(async {
        for mode in [CreateMode::Persistent, CreateMode::Ephemeral] {
            let (server, zk) = impatient().await;
            zk.create("/neighbour").await.unwrap();
            let _lost = once(&server, OpCode::Create2, Verdict::LoseReply);
            let error = zk.create("/n").mode(mode).protected().await.unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::ConnectionLoss, "/n"));
            assert!(error.may_have_applied());
            // CURATOR-506: nothing else.
            until(&server, |probe| probe.paths() == ["/neighbour"]).await;
        }
    });
}

#[test]
fn the_janitor_searches_in_the_next_session_for_what_does_not_end_with_the_last() {
    simulated(async {
        let (server, zk) = impatient().await;
        let lost_answer = once(&server, OpCode::Create2, Verdict::LoseReply);
        let create = tokio::spawn(zk.create("/n").protected().into_future());
        lost_answer.fired().await;
        server.stop().await;
        create.await.unwrap().unwrap_err();
        until_state(&zk, ConnectionState::Lost).await;
        server.restart().await.unwrap();
        until(&server, |probe| probe.paths().is_empty()).await;
        assert_eq!(zk.wait_connected().await.unwrap().session_epoch, 2);
    });
}

/// CURATOR-268/584: a repetition would say NodeExists of our own node.
#[test]
fn curator_268_a_plain_create_with_a_lost_answer_may_have_been_applied() {
    simulated(async {
        for (verdict, applied) in [(Verdict::LoseReply, true), (Verdict::LoseRequest, false)] {
            let (server, zk) = in_memory().await;
            let lost = once(&server, OpCode::Create2, verdict);
            let error = zk.create("/n").await.unwrap_err();
            let why = error.source().unwrap();
            let told = format!("create \"/n\": connection loss ({why}), may have been applied");
            assert_eq!(error.to_string(), told);
            assert_eq!((lost.hits(), server.probe().exists("/n")), (1, applied));
        }
    });
}

/// CURATOR-308: a container parent is removed between its creation and that of the child.
#[test]
fn curator_308_parents_that_vanish_are_created_anew() {
    simulated(async {
        let (server, zk) = in_memory().await;
        zk.create("/a/b/c").creating_parents_as_containers().await.unwrap();
        zk.delete("/a/b/c").await.unwrap();
        let delayed = once(&server, OpCode::Create2, Verdict::Delay(Duration::from_secs(1)));
        let create = zk.create("/a/b/n").creating_parents_as_containers().protected();
        let create = tokio::spawn(create.into_future());
        delayed.fired().await;
        assert_eq!(server.reap_containers(), ["/a/b"]);
        assert_eq!(server.reap_containers(), ["/a"]);
        let created = create.await.unwrap().unwrap();
        assert_eq!(server.probe().paths(), ["/a", "/a/b", created.path.as_str()]);
    });
}

#[test]
fn parents_that_never_stay_are_no_node_and_no_endless_loop() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let _refused = server.rule(|request| match request.is_create_under("/p") {
            true => Verdict::Refuse(ErrorCode::NoNode),
            false => Verdict::Pass,
        });
        let error = zk.create("/p/n").creating_parents_as_containers().protected().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NoNode, "/p/n"));
        assert!(server.probe().total_requests() < 200, "{}", server.probe());
    });
}

#[test]
fn a_lost_answer_to_the_creation_of_a_parent_is_no_matter() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let lost = once(&server, OpCode::CreateContainer, Verdict::LoseReply);
        zk.create("/a/b/c").creating_parents_as_containers().await.unwrap();
        assert_eq!(lost.hits(), 1);
        assert_eq!(server.probe().paths(), ["/a", "/a/b", "/a/b/c"]);
    });
}

#[test]
fn a_lost_list_of_siblings_is_asked_for_again_and_shows_the_node() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let lost = once(&server, OpCode::GetChildren2, Verdict::LoseReply);
        let (node, names) = zk.create("/n").protected().owned_with_siblings().await.unwrap();
        assert_eq!(lost.hits(), 1);
        assert!(names.iter().any(|name| name == node.name()), "{names:?}");
        node.delete().await.unwrap();
    });
}

/// It was answered, and then something else came to its end before anybody looked.
#[test]
fn a_create_that_is_answered_has_succeeded_whatever_has_ended_since() {
    simulated(async {
        for owned in [false, true] {
            let (server, zk) = in_memory().await;
            let hour = Duration::from_secs(3600);
            let plain = zk.create("/n").deadline(hour).into_future();
            let guarded = zk.create("/n").owned().deadline(hour).into_future();
            let create = async move {
                if owned {
                    guarded.await.map(|node| node.leak().path)
                } else {
                    plain.await.map(|created| created.path)
                }
            };
            let mut create = std::pin::pin!(create);
            assert!(futures_util::poll!(create.as_mut()).is_pending());
            server.until(|probe| probe.exists("/n")).await;
            // The answer is here, and nobody has taken it.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let close = tokio::spawn({
                let zk = zk.clone();
                async move { zk.close().await }
            });
            tokio::task::yield_now().await;
            assert_eq!(create.await.unwrap(), "/n");
            close.await.unwrap().unwrap();
            assert!(server.probe().exists("/n"));
        }
    });
}

/// However often the create is repeated, the other node is read after it.
#[test]
fn another_node_is_read_after_the_create_and_in_the_same_flight() {
    simulated(async {
        let (server, zk) = in_memory().await;
        zk.create("/other").data("0").await.unwrap();
        let create = || zk.create("/p/n").creating_parents().data("mine").protected_by_data();
        let (node, read) = create().owned_with_data("/other").await.unwrap();
        assert_eq!(read.map(|(data, stat)| (data, stat.version)), Some(("0".into(), 0)));
        // Once with the create that had no parent yet.
        assert_eq!(
            (server.probe().requests(OpCode::Create2), server.probe().requests(OpCode::GetData)),
            (4, 2)
        );
        node.delete().await.unwrap();
        let other = connected(&server).await;
        for (opcode, verdict) in [
            (OpCode::Create2, Verdict::LoseReply),
            (OpCode::Create2, Verdict::LoseRequest),
            (OpCode::GetData, Verdict::LoseReply),
        ] {
            let lost = once(&server, opcode, verdict);
            let created = tokio::spawn(create().owned_with_data("/other").into_future());
            lost.fired().await;
            let version = other.set_data("/other", "1").await.unwrap().version;
            let (node, read) = created.await.unwrap().unwrap();
            assert_eq!(read.unwrap().1.version, version, "{opcode:?} {verdict:?}");
            node.delete().await.unwrap();
        }
        let (node, none) = create().owned_with_data("/none").await.unwrap();
        assert_eq!(none, None);
        node.delete().await.unwrap();
        let error = create().owned_with_data("none").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error}");
    });
}

#[test]
fn a_parent_that_is_gone_before_its_children_are_listed_has_none() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let _gone = once(&server, OpCode::GetChildren2, Verdict::Refuse(ErrorCode::NoNode));
        let (node, names) = zk.create("/n").owned_with_siblings().await.unwrap();
        assert_eq!(names, [""; 0]);
        node.delete().await.unwrap();
    });
}

// Deletes.

#[test]
fn a_delete_with_a_lost_answer_is_resolved_by_a_linearizable_look() {
    simulated(async {
        let (server, zk) = in_memory().await;
        zk.create("/n").await.unwrap();
        let lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        zk.delete("/n").await.unwrap();
        let probe = server.probe();
        let looks = [OpCode::Multi, OpCode::Exists, OpCode::Sync].map(|opcode| probe.requests(opcode));
        // A sync proves nothing: a deposed leader answers it.
        assert_eq!((lost.hits(), probe.requests(OpCode::Delete), looks), (1, 1, [1, 1, 0]));
    });
}

#[test]
fn a_delete_that_was_lost_on_the_way_is_only_repeated_when_that_is_safe() {
    simulated(async {
        let (server, zk) = in_memory().await;
        zk.create("/n").await.unwrap();
        let lost = || once(&server, OpCode::Delete, Verdict::LoseRequest);
        let rule = lost();
        let error = zk.delete("/n").await.unwrap_err();
        assert!(error.may_have_applied() && server.probe().exists("/n"), "{error}");
        drop(rule);
        for delete in [zk.delete("/n").quietly(), zk.delete("/n").guaranteed(), zk.delete("/n").version(0)] {
            let rule = lost();
            delete.await.unwrap();
            assert_eq!(rule.hits(), 1);
            assert!(!server.probe().exists("/n"));
            drop(rule);
            zk.create("/n").await.unwrap();
        }
    });
}

#[test]
fn a_delete_with_a_version_and_a_lost_answer_may_have_been_applied() {
    simulated(async {
        let (server, zk) = in_memory().await;
        zk.create("/n").await.unwrap();
        let _lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        let error = zk.delete("/n").version(0).await.unwrap_err();
        let why = error.source().unwrap();
        let told = format!("delete \"/n\": connection loss ({why}), may have been applied");
        assert_eq!(error.to_string(), told);
        zk.create("/n").await.unwrap();
        let _lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        zk.delete("/n").version(0).quietly().await.unwrap();
        zk.create("/n").await.unwrap();
        let _lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        zk.delete("/n").guaranteed().await.unwrap();
    });
}

/// Its versions begin anew, too.
#[test]
fn a_delete_with_a_lost_answer_leaves_the_node_alone_that_somebody_else_has_created_since() {
    simulated(async {
        for lost in [Verdict::LoseReply, Verdict::LoseRequest] {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            let stat = zk.create("/n").await.unwrap().stat;
            let rule = once(&server, OpCode::Delete, lost);
            let delete = zk.delete("/n").version(0).czxid(stat.czxid).quietly();
            let delete = tokio::spawn(delete.into_future());
            rule.fired().await;
            other.delete("/n").quietly().await.unwrap();
            let czxid = other.create("/n").await.unwrap().stat.czxid;
            delete.await.unwrap().unwrap();
            assert_eq!(server.probe().stat("/n").map(|stat| stat.czxid), Some(czxid), "{lost:?}");
            // It is repeated while the node is the one.
            let _rule = once(&server, OpCode::Delete, Verdict::LoseRequest);
            zk.delete("/n").czxid(czxid).await.unwrap();
            assert!(!server.probe().exists("/n"));
        }
    });
}

/// Nor does it matter why it has to be sent again.
#[test]
fn a_delete_that_waits_for_the_next_session_leaves_the_node_of_somebody_else_alone() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let (other, link) = (connected(&server).await, server.connector());
        let zk = builder(&server).connector(Arc::new(link.clone())).build().unwrap();
        zk.start().await.unwrap();
        let stat = zk.create("/n").await.unwrap().stat;
        link.cut(0, Direction::Both);
        until_state(&zk, ConnectionState::Suspended).await;
        let delete = zk
            .delete("/n")
            .version(0)
            .czxid(stat.czxid)
            .quietly()
            .retry(RetryForever::new(Duration::from_millis(10)));
        let delete = tokio::spawn(delete.into_future());
        until_state(&zk, ConnectionState::Lost).await;
        other.delete("/n").await.unwrap();
        let czxid = other.create("/n").await.unwrap().stat.czxid;
        link.mend(0);
        delete.await.unwrap().unwrap();
        assert_eq!(server.probe().stat("/n").map(|stat| stat.czxid), Some(czxid));
    });
}

#[test]
fn deleting_children_goes_on_after_any_lost_answer() {
    simulated(async {
        for nth in 1..=4 {
            for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
                let (server, zk) = in_memory().await;
                zk.create("/p/a/b").creating_parents().await.unwrap();
                zk.create("/p/c").await.unwrap();
                let deletes = AtomicU64::new(0);
                let lost = server.rule(move |request| {
                    // The first one is that of the root itself, which is not empty.
                    match request.is_delete() && deletes.fetch_add(1, Ordering::Relaxed) == nth {
                        true => verdict,
                        false => Verdict::Pass,
                    }
                });
                let result = zk.delete("/p").deleting_children().await;
                assert_eq!(lost.hits(), 1);
                if nth == 4 && verdict == Verdict::LoseRequest {
                    // The last one is not different from that of a node without children.
                    assert!(result.unwrap_err().may_have_applied());
                } else {
                    result.unwrap();
                    assert_eq!(server.probe().paths(), [""; 0]);
                }
            }
        }
    });
}

// Other writes.

#[test]
fn set_data_is_repeated_with_a_version_only() {
    simulated(async {
        let (server, zk) = in_memory().await;
        zk.create("/n").await.unwrap();
        let _lost = once(&server, OpCode::SetData, Verdict::LoseRequest);
        assert_eq!(zk.set_data("/n", "1").version(0).await.unwrap().version, 1);

        let _lost = once(&server, OpCode::SetData, Verdict::LoseReply);
        let error = zk.set_data("/n", "2").version(1).await.unwrap_err();
        assert!(error.may_have_applied(), "refused the second time because of the first: {error}");
        assert_eq!(server.probe().stat("/n").unwrap().version, 2);

        let lost = once(&server, OpCode::SetData, Verdict::LoseReply);
        let error = zk.set_data("/n", "3").await.unwrap_err();
        assert!(error.may_have_applied(), "{error}");
        assert_eq!((lost.hits(), server.probe().stat("/n").unwrap().version), (1, 3));
    });
}

/// Users of Java say -1 for "any version".
#[test]
fn a_write_at_version_minus_one_is_not_repeated() {
    simulated(async {
        let (server, zk) = in_memory().await;
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            zk.create("/n").idempotent().await.unwrap();
            let lost =
                |opcode| server.rule(move |request| if request.is(opcode) { verdict } else { Verdict::Pass });
            let rule = lost(OpCode::SetData);
            let error = zk.set_data("/n", "").version(-1).await.unwrap_err();
            assert_eq!((rule.hits(), error.may_have_applied()), (1, true), "{error}");
            let error = zk.create("/n").or_set_data_if(-1).await.unwrap_err();
            assert_eq!((rule.hits(), error.may_have_applied()), (2, true), "{error}");
            let rule = lost(OpCode::SetAcl);
            let error = zk.set_acl("/n", Acl::open_unsafe()).version(-1).await.unwrap_err();
            assert_eq!((rule.hits(), error.may_have_applied()), (1, true), "{error}");
            let rule = lost(OpCode::Reconfig);
            let error = zk.reconfig().leaving(["9"]).from_config(-1).await.unwrap_err();
            assert_eq!((rule.hits(), error.may_have_applied()), (1, true), "{error}");
            let rule = lost(OpCode::Delete);
            let deleted = zk.delete("/n").version(-1).await.is_ok();
            assert_eq!((rule.hits(), deleted), (1, verdict == Verdict::LoseReply));
        }
    });
}

#[test]
fn a_transaction_with_a_lost_answer_is_not_repeated() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let (server, zk) = in_memory().await;
            let lost = once(&server, OpCode::Multi, verdict);
            let error = zk.transaction().create("/a", "").commit().await.unwrap_err();
            assert!(error.may_have_applied(), "{error}");
            assert_eq!(lost.hits(), 1);
            assert_eq!(server.probe().exists("/a"), verdict == Verdict::LoseReply);
        }
    });
}

#[test]
fn a_restart_of_the_server_is_a_pause() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let session = session_id(&zk);
        let node = zk.create("/n").mode(CreateMode::Ephemeral).owned().await.unwrap();
        server.restart().await.unwrap();
        zk.create("/m").protected().await.unwrap();
        assert_eq!(session_id(&zk), session);
        node.delete().await.unwrap();
    });
}

// Raw clients.

#[derive(Debug)]
enum Misbehaviour {
    /// This many sessions cannot be opened.
    Fails(AtomicU64),
    Hangs,
    Panics,
}

#[derive(Debug)]
struct Misbehaving(NativeFactory, Misbehaviour);

#[async_trait]
impl RawClientFactory for Misbehaving {
    fn validate(&self, settings: &SessionSettings) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.validate(settings)
    }

    async fn open(&self, settings: &SessionSettings) -> Result<Arc<dyn RawClient>, zk_curator_client::Error> {
        match &self.1 {
            Misbehaviour::Fails(times) if times.load(Ordering::Relaxed) > 0 => {
                times.fetch_sub(1, Ordering::Relaxed);
                Err(zk_curator_client::Error::NotConnected)
            }
            Misbehaviour::Fails(_) => self.0.open(settings).await,
            Misbehaviour::Hangs => std::future::pending().await,
            Misbehaviour::Panics => panic!("as the test wants it"),
        }
    }
}

fn misbehaving(server: &TestServer, how: Misbehaviour) -> CuratorFramework {
    let native = NativeFactory::new(Arc::new(server.connector()));
    builder(server).raw_client(Arc::new(Misbehaving(native, how))).build().expect("a framework")
}

#[test]
fn a_session_that_cannot_be_opened_is_tried_again() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let zk = misbehaving(&server, Misbehaviour::Fails(AtomicU64::new(3)));
        zk.start().await.unwrap();
        zk.close().await.unwrap();
        assert_clean_after_close(&server);
        let zk = misbehaving(&server, Misbehaviour::Fails(AtomicU64::new(u64::MAX)));
        let began = Instant::now();
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        assert_eq!(began.elapsed(), CONNECTION_TIMEOUT);
        zk.close().await.unwrap();
    });
}

#[test]
fn a_session_that_is_never_opened_hangs_nobody() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let zk = misbehaving(&server, Misbehaviour::Hangs);
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        zk.close().await.unwrap();
        assert_eq!(zk.state(), ConnectionState::Closed);
    });
}

#[test]
fn a_raw_client_that_panics_closes_the_framework() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let zk = misbehaving(&server, Misbehaviour::Panics);
        let mut errors = zk.background_errors();
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(zk.get_data("/a").await.unwrap_err().kind(), ErrorKind::Closed);
        let told = errors.next().await.unwrap();
        assert!(told.to_string().contains("panicked"), "{told}");
        assert_eq!(zk.close().await.unwrap_err().to_string(), told.to_string());
    });
}
