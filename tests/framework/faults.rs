//! The framework when responses and requests are lost, sessions end, servers go and raw clients
//! misbehave.

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
use zk_curator_testing::wait::settled;
use zk_curator_testing::{Direction, TestServer, Verdict};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, always, always_of, builder, closes_clean, connected,
    impatient, once, pairs, rule_if, session_id, simulated_each, simulated_each_on, simulated_on,
    simulated_with, start, two_in_memory, until, until_state,
};

// Creates.

#[test]
fn a_protected_create_with_a_lost_response_is_found_by_prefix() {
    let cases = [CreateMode::Persistent, CreateMode::EphemeralSequential];
    simulated_each(cases, async |mode, server, zk| {
        zk.create("/p").await.unwrap();
        zk.create("/p/_c_somebody-else-n").await.unwrap();
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let created = zk.create("/p/n").mode(mode).protected().data("x").await.unwrap();
        assert_eq!(lost.hits(), 1);
        assert_eq!(server.probe().children("/p").len(), 2, "{}", server.probe());
        assert_eq!(server.probe().stat(&created.path), Some(created.stat));
        assert_eq!(server.probe().requests(OpCode::Create2), 3, "it is not created again");
    });
}

/// CURATOR-264 (19b): the server that responds to the search may lag behind the server that created
/// the node.
#[test]
fn curator_264_sync_comes_before_the_search() {
    simulated_with(async |server, zk| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorder = Arc::clone(&seen);
        let _record = server.rule(move |request| {
            recorder.lock().unwrap().push(request.opcode());
            Verdict::Pass
        });
        let _lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let node = zk.create("/n").protected().owned().await.unwrap();
        let requests = seen.lock().unwrap().clone();
        assert_eq!(
            requests,
            [OpCode::Create2, OpCode::Multi, OpCode::GetChildren2, OpCode::Exists]
        );
        node.delete().await.unwrap();
    });
}

/// The documented limit of protection: an item that is consumed before the search for its node is
/// created twice.
#[test]
fn a_protected_node_deleted_before_its_search_is_created_again() {
    simulated_with(async |server, zk| {
        zk.create("/q").await.unwrap();
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let create =
            zk.create("/q/item-").mode(CreateMode::PersistentSequential).protected().into_future();
        let create = tokio::spawn(create);
        lost.fired().await;
        // Before the client has noticed, another client takes the item.
        let first = server.probe().children("/q")[0].to_owned();
        server.remove(&format!("/q/{first}")).unwrap();
        let created = create.await.unwrap().unwrap();
        assert!(created.path.ends_with("0000000001"), "{}", created.path);

        // With a receipt it exists once.
        let receipt = Receipt::new(&zk, "/receipts");
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
    simulated_each([Verdict::LoseRequest, Verdict::Disconnect], async |verdict, server, zk| {
        let lost = once(&server, OpCode::Create2, verdict);
        let created = zk.create("/n").protected().await.unwrap();
        assert_eq!(lost.hits(), 1);
        assert_eq!(server.probe().paths(), [created.path.as_str()]);
    });
}

/// The response to an ephemeral create is lost, and then the session, of which the server does not
/// hear: the path of the node that is left behind, and what comes of the create in the next
/// session.
#[expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]
async fn answered_in_the_next_session<T: Send + 'static>(
    server: &TestServer,
    zk: &CuratorFramework,
    create: impl Future<Output = T> + Send + 'static,
) -> (String, T) {
    let old = session_id(zk).get();
    let lost_response = once(server, OpCode::Create2, Verdict::LoseReply);
    let create = tokio::spawn(create);
    lost_response.fired().await;
    let _unheard = always_of(server, zk, OpCode::CloseSession, Verdict::LoseRequest);
    // A stopped server expires nothing; our own clock gives the session up.
    server.stop().await;
    let left_behind = server.probe().ephemerals(old)[0].clone();
    until_state(zk, ConnectionState::Lost).await;
    server.restart().await.unwrap();
    (left_behind, create.await.unwrap())
}

/// CURATOR-498: the node that is found belongs to the session before.
#[test]
fn curator_498_a_node_of_the_old_session_is_recreated() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).connection_timeout(2 * SESSION_TIMEOUT)).await;
        let create = zk.create("/n").mode(CreateMode::Ephemeral).protected().owned();
        let (left_behind, node) =
            answered_in_the_next_session(&server, &zk, create.into_future()).await;
        let (probe, node) = (server.probe(), node.unwrap());
        assert_eq!(probe.paths(), [node.path()], "{probe}");
        assert_ne!(node.path(), left_behind, "another node has another name");
        assert_eq!(node.stat().ephemeral_owner, session_id(&zk).get());
        assert!(node.is_ours() && node.ownership().session_epoch() == 2);
        node.delete().await.unwrap();
    });
}

/// Other clients wait to create a node of this name. When a delete arrives, the node of the earlier
/// session may be gone, and theirs may exist. Simulation:
/// `zk-sim --scenario queue --seed 44831 --rounds 6`, two that worked off one item.
#[test]
fn a_foreign_node_of_the_old_session_is_not_deleted() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).connection_timeout(2 * SESSION_TIMEOUT)).await;
        let create =
            || zk.create("/n").mode(CreateMode::Ephemeral).data("ours").protected_by_data().owned();
        let (left_behind, refused) =
            answered_in_the_next_session(&server, &zk, create().into_future()).await;
        assert_eq!(
            (left_behind.as_str(), refused.unwrap_err().kind()),
            ("/n", ErrorKind::NodeExists)
        );
        let probe = server.until(|probe| !probe.exists("/n")).await;
        assert_eq!(probe.requests(OpCode::Delete), 0, "it ended with its session\n{probe}");
        create().await.unwrap().delete().await.unwrap();
    });
}

#[test]
fn a_persistent_node_of_the_old_session_is_ours() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).connection_timeout(2 * SESSION_TIMEOUT)).await;
        let lost_response = once(&server, OpCode::Create2, Verdict::LoseReply);
        let create = tokio::spawn(zk.create("/n").protected().into_future());
        lost_response.fired().await;
        server.stop().await;
        until_state(&zk, ConnectionState::Lost).await;
        server.restart().await.unwrap();
        let created = create.await.unwrap().unwrap();
        assert_eq!(server.probe().paths(), [created.path.as_str()]);
        assert_eq!(server.probe().requests(OpCode::Create2), 1);
    });
}

#[test]
fn a_failed_protected_create_leaves_its_search_to_the_janitor() {
    let cases = [CreateMode::Persistent, CreateMode::Ephemeral];
    simulated_each_on(cases, impatient, async |mode, (server, zk)| {
        zk.create("/neighbour").await.unwrap();
        let _lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let error = zk.create("/n").mode(mode).protected().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::ConnectionLoss, "/n"));
        assert!(error.may_have_applied());
        // CURATOR-506: nothing else.
        until(&server, |probe| probe.paths() == ["/neighbour"]).await;
    });
}

#[test]
fn the_janitor_searches_persistent_nodes_in_the_next_session() {
    simulated_on(impatient, async |(server, zk)| {
        let lost_response = once(&server, OpCode::Create2, Verdict::LoseReply);
        let create = tokio::spawn(zk.create("/n").protected().into_future());
        lost_response.fired().await;
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
fn curator_268_a_create_with_a_lost_response_may_have_applied() {
    let cases = [(Verdict::LoseReply, true), (Verdict::LoseRequest, false)];
    simulated_each(cases, async |(verdict, applied), server, zk| {
        let lost = once(&server, OpCode::Create2, verdict);
        let error = zk.create("/n").await.unwrap_err();
        let why = error.cause().unwrap();
        let told = format!("create \"/n\": connection loss ({why}), may have been applied");
        assert_eq!(error.to_string(), told);
        assert_eq!((lost.hits(), server.probe().exists("/n")), (1, applied));
    });
}

/// CURATOR-308: a container parent is removed before its child is created.
#[test]
fn curator_308_parents_that_vanish_are_created_again() {
    simulated_with(async |server, zk| {
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
    simulated_with(async |server, zk| {
        let _refused = rule_if(
            &server,
            |request| request.is_create_under("/p"),
            Verdict::Refuse(ErrorCode::NoNode),
        );
        let error =
            zk.create("/p/n").creating_parents_as_containers().protected().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NoNode, "/p/n"));
        assert!(server.probe().total_requests() < 200, "{}", server.probe());
    });
}

#[test]
fn a_lost_response_to_the_creation_of_a_parent_is_harmless() {
    simulated_with(async |server, zk| {
        let lost = once(&server, OpCode::CreateContainer, Verdict::LoseReply);
        zk.create("/a/b/c").creating_parents_as_containers().await.unwrap();
        assert_eq!(lost.hits(), 1);
        assert_eq!(server.probe().paths(), ["/a", "/a/b", "/a/b/c"]);
    });
}

#[test]
fn a_lost_listing_of_siblings_is_repeated_and_finds_the_node() {
    simulated_with(async |server, zk| {
        let lost = once(&server, OpCode::GetChildren2, Verdict::LoseReply);
        let (node, names) = zk.create("/n").protected().owned_with_siblings().await.unwrap();
        assert_eq!(lost.hits(), 1);
        assert!(names.iter().any(|name| name == node.name()), "{names:?}");
        node.delete().await.unwrap();
    });
}

/// The response arrived, and then another event came before the future was polled.
#[test]
fn a_create_with_a_response_succeeds_whatever_ends_later() {
    simulated_each([false, true], async |owned, server, zk| {
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
        // The response has arrived, but was not taken.
        settled().await;
        let close = tokio::spawn({
            let zk = zk.clone();
            async move { zk.close().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(create.await.unwrap(), "/n");
        close.await.unwrap().unwrap();
        assert!(server.probe().exists("/n"));
    });
}

/// However often the create is repeated, the other node is read after it.
#[test]
fn another_node_is_read_after_the_create_and_in_the_same_flight() {
    simulated_with(async |server, zk| {
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
fn a_parent_deleted_before_its_listing_has_no_children() {
    simulated_with(async |server, zk| {
        let _gone = once(&server, OpCode::GetChildren2, Verdict::Refuse(ErrorCode::NoNode));
        let (node, names) = zk.create("/n").owned_with_siblings().await.unwrap();
        assert_eq!(names, [""; 0]);
        node.delete().await.unwrap();
    });
}

// Deletes.

#[test]
fn a_linearizable_read_resolves_a_delete_with_a_lost_response() {
    simulated_with(async |server, zk| {
        zk.create("/n").await.unwrap();
        let lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        zk.delete("/n").await.unwrap();
        let probe = server.probe();
        let looks =
            [OpCode::Multi, OpCode::Exists, OpCode::Sync].map(|opcode| probe.requests(opcode));
        // A sync proves nothing: a deposed leader responds to it.
        assert_eq!((lost.hits(), probe.requests(OpCode::Delete), looks), (1, 1, [1, 1, 0]));
    });
}

#[test]
fn a_lost_delete_is_repeated_only_when_that_is_safe() {
    simulated_with(async |server, zk| {
        zk.create("/n").await.unwrap();
        let lost = || once(&server, OpCode::Delete, Verdict::LoseRequest);
        let rule = lost();
        let error = zk.delete("/n").await.unwrap_err();
        assert!(error.may_have_applied() && server.probe().exists("/n"), "{error}");
        drop(rule);
        for delete in
            [zk.delete("/n").quietly(), zk.delete("/n").guaranteed(), zk.delete("/n").version(0)]
        {
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
fn a_versioned_delete_with_a_lost_response_may_have_applied() {
    simulated_with(async |server, zk| {
        zk.create("/n").await.unwrap();
        let _lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        let error = zk.delete("/n").version(0).await.unwrap_err();
        let why = error.cause().unwrap();
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

/// Its versions begin at zero again, too.
#[test]
fn a_repeated_delete_spares_a_node_that_another_client_created() {
    let cases = [Verdict::LoseReply, Verdict::LoseRequest];
    simulated_each_on(cases, two_in_memory, async |lost, (server, zk, other)| {
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
    });
}

/// Nor does it matter why it has to be sent again.
#[test]
fn a_delete_in_the_next_session_spares_another_clients_node() {
    simulated_on(TestServer::in_memory, async |server| {
        let (other, link) = (connected(&server).await, server.connector());
        let zk = start(builder(&server).connector(Arc::new(link.clone()))).await;
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
fn deleting_children_continues_after_any_lost_response() {
    let cases = pairs(1..=4, [Verdict::LoseReply, Verdict::LoseRequest]);
    simulated_each(cases, async |(nth, verdict), server, zk| {
        zk.create("/p/a/b").creating_parents().await.unwrap();
        zk.create("/p/c").await.unwrap();
        let deletes = AtomicU64::new(0);
        let lost = server.rule(move |request| {
            // The first one belongs to the root itself, which is not empty.
            match request.is_delete() && deletes.fetch_add(1, Ordering::Relaxed) == nth {
                true => verdict,
                false => Verdict::Pass,
            }
        });
        let result = zk.delete("/p").deleting_children().await;
        assert_eq!(lost.hits(), 1);
        if nth == 4 && verdict == Verdict::LoseRequest {
            // The last one equals that of a node without children.
            assert!(result.unwrap_err().may_have_applied());
        } else {
            result.unwrap();
            assert_eq!(server.probe().paths(), [""; 0]);
        }
    });
}

// Other writes.

#[test]
fn set_data_is_repeated_with_a_version_only() {
    simulated_with(async |server, zk| {
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
    simulated_with(async |server, zk| {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            zk.create("/n").idempotent().await.unwrap();
            let lost = |opcode| always(&server, opcode, verdict);
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
fn a_transaction_with_a_lost_response_is_not_repeated() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let lost = once(&server, OpCode::Multi, verdict);
        let error = zk.transaction().create("/a", "").commit().await.unwrap_err();
        assert!(error.may_have_applied(), "{error}");
        assert_eq!(lost.hits(), 1);
        assert_eq!(server.probe().exists("/a"), verdict == Verdict::LoseReply);
    });
}

#[test]
fn a_restart_of_the_server_is_a_pause() {
    simulated_with(async |server, zk| {
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
    fn validate(
        &self,
        settings: &SessionSettings,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.validate(settings)
    }

    async fn open(
        &self,
        settings: &SessionSettings,
    ) -> Result<Arc<dyn RawClient>, zk_curator_client::Error> {
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
    simulated_on(TestServer::in_memory, async |server| {
        let zk = misbehaving(&server, Misbehaviour::Fails(AtomicU64::new(3)));
        zk.start().await.unwrap();
        closes_clean(&server, &zk).await;
        let zk = misbehaving(&server, Misbehaviour::Fails(AtomicU64::new(u64::MAX)));
        let began = Instant::now();
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        assert_eq!(began.elapsed(), CONNECTION_TIMEOUT);
        zk.close().await.unwrap();
    });
}

#[test]
fn start_and_close_end_without_a_session() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = misbehaving(&server, Misbehaviour::Hangs);
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        zk.close().await.unwrap();
        assert_eq!(zk.state(), ConnectionState::Closed);
    });
}

#[test]
fn a_raw_client_that_panics_closes_the_framework() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = misbehaving(&server, Misbehaviour::Panics);
        let mut errors = zk.background_errors();
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(zk.get_data("/a").await.unwrap_err().kind(), ErrorKind::Closed);
        let told = errors.next().await.unwrap();
        assert!(told.to_string().contains("panicked"), "{told}");
        assert_eq!(zk.close().await.unwrap_err().to_string(), told.to_string());
    });
}
