//! Every option of the builders beyond the everyday ones: what exists already, ACLs, parents,
//! watches, transactions.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use zk_curator_client::{Connector, Transport};
use zk_curator_testing::wait::reached;

use zk_curator::acl::AclProvider;
use zk_curator::op::{CheckOp, CreateOp, DeleteOp, SetDataOp, fan_out};
use zk_curator::{
    Acl, CreateMode, CuratorFramework, ErrorCode, ErrorKind, EventType, OpResult, Permissions,
    PersistentEvent, WatchEnded, WatcherType,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::{MemoryConnector, TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, expire, once, session_id, simulated_on, simulated_with, start,
    two_in_memory, until,
};

fn reads_only() -> Vec<Acl> {
    vec![Acl::new(Permissions::READ, "world", "anyone")]
}

// create: idempotent

/// CURATOR-268/584: the repetition of a create whose response was lost says NodeExists of our own
/// node.
#[test]
fn curator_268_idempotent_create_survives_a_lost_response() {
    simulated_with(async |server, zk| {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let lost = once(&server, OpCode::Create2, verdict);
            let created = zk.create("/a").data("x").idempotent().await.unwrap();
            assert_eq!((lost.hits(), created.path.as_str()), (1, "/a"));
            assert_eq!(server.probe().stat("/a"), Some(created.stat));
            zk.delete("/a").await.unwrap();
        }
    });
}

#[test]
fn an_idempotent_create_accepts_only_an_identical_node() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let first = zk.create("/a").data("x").idempotent().await.unwrap();
        assert_eq!(other.create("/a").data("x").idempotent().await.unwrap(), first);
        let error = zk.create("/a").data("y").idempotent().await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::NodeExists, false));
        // The same data, but written again later.
        zk.set_data("/a", "x").await.unwrap();
        assert_eq!(
            zk.create("/a").data("x").idempotent().await.unwrap_err().kind(),
            ErrorKind::NodeExists
        );
        // The same, but of another session.
        let create =
            |zk: &CuratorFramework| zk.create("/e").mode(CreateMode::Ephemeral).idempotent();
        create(&zk).await.unwrap();
        create(&zk).await.unwrap();
        assert_eq!(create(&other).await.unwrap_err().kind(), ErrorKind::NodeExists);
    });
}

#[test]
fn a_mismatch_after_a_lost_idempotent_create_may_have_applied() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let create = tokio::spawn(zk.create("/a").data("x").idempotent().into_future());
        lost.fired().await;
        until(&server, |probe| probe.exists("/a")).await;
        other.set_data("/a", "y").await.unwrap();
        let error = create.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::ConnectionLoss, true));
    });
}

#[test]
fn contradicting_options_are_refused_and_never_sent() {
    simulated_with(async |server, zk| {
        let before = server.probe().total_requests();
        let sequential = || zk.create("/a-").mode(CreateMode::PersistentSequential);
        for error in [
            sequential().idempotent().await.unwrap_err(),
            sequential().or_set_data().await.unwrap_err(),
            zk.create("/a").idempotent().owned().await.unwrap_err(),
            zk.create("/a").or_set_data().owned_with_siblings().await.unwrap_err(),
            zk.reconfig().await.unwrap_err(),
            zk.reconfig().leaving(["1"]).members(["server.1=a:1:2;3"]).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        assert_eq!(server.probe().total_requests(), before);
    });
}

// create: or set data

#[test]
fn or_set_data_creates_or_replaces_and_returns_the_stat() {
    simulated_with(async |server, zk| {
        let created = zk.create("/a").data("1").or_set_data().await.unwrap();
        assert_eq!(created.stat.version, 0);
        let replaced = zk.create("/a").data("2").or_set_data().await.unwrap();
        assert_eq!((replaced.path.as_str(), replaced.stat.version), ("/a", 1));
        assert_eq!(server.probe().data("/a").unwrap(), "2");
        let error = zk.create("/a").data("3").or_set_data_if(0).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::BadVersion, "create"));
        zk.create("/a").data("3").or_set_data_if(1).await.unwrap();
        assert_eq!(server.probe().data("/a").unwrap(), "3");
    });
}

/// CURATOR-719: the node was deleted between the create that found it and the write.
#[test]
fn curator_719_or_set_data_creates_a_node_that_goes_in_between() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/a").await.unwrap();
        let gone = once(&server, OpCode::SetData, Verdict::Delay(Duration::from_secs(1)));
        let create = tokio::spawn(zk.create("/a").data("new").or_set_data().into_future());
        gone.fired().await;
        other.delete("/a").await.unwrap();
        let created = create.await.unwrap().unwrap();
        assert_eq!(
            (created.stat.version, server.probe().data("/a").unwrap().as_ref()),
            (0, &b"new"[..])
        );
    });
}

/// CURATOR-341: the create was sent again after the write.
#[test]
fn curator_341_a_lost_write_response_creates_no_second_node() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        let lost = once(&server, OpCode::SetData, Verdict::LoseReply);
        let before = server.probe().requests(OpCode::Create2);
        let error = zk.create("/a").data("new").or_set_data().await.unwrap_err();
        assert!(error.may_have_applied(), "another client may have written since: {error}");
        assert_eq!((lost.hits(), server.probe().requests(OpCode::Create2)), (1, before + 1));
        // An idempotent create is repeated.
        let lost = once(&server, OpCode::SetData, Verdict::LoseReply);
        zk.create("/a").data("newer").or_set_data().idempotent().await.unwrap();
        assert_eq!((lost.hits(), server.probe().data("/a").unwrap().as_ref()), (1, &b"newer"[..]));
    });
}

// set data: idempotent

#[test]
fn an_idempotent_write_survives_a_lost_response() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        for version in 0..2 {
            let lost = once(&server, OpCode::SetData, Verdict::LoseReply);
            let stat = zk.set_data("/a", "x").version(version).idempotent().await.unwrap();
            assert_eq!((lost.hits(), stat.version), (1, version + 1));
        }
        let lost = once(&server, OpCode::SetData, Verdict::LoseReply);
        let stat = zk.set_data("/a", "y").idempotent().await.unwrap();
        assert_eq!((lost.hits(), stat.version), (1, 4), "written twice, as it said that it may be");
    });
}

#[test]
fn an_idempotent_write_accepts_only_its_data_and_next_version() {
    simulated_with(async |_server, zk| {
        zk.create("/a").await.unwrap();
        let write =
            |data: &'static str, version| zk.set_data("/a", data).version(version).idempotent();
        assert_eq!(write("x", 0).await.unwrap().version, 1);
        assert_eq!(write("x", 0).await.unwrap().version, 1, "done already");
        for (data, version) in [("y", 0), ("x", 7)] {
            let error = write(data, version).await.unwrap_err();
            assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::BadVersion, false));
        }
    });
}

// delete

#[test]
fn an_idempotent_delete_may_be_called_again() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        let lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        zk.delete("/a").idempotent().await.unwrap();
        zk.delete("/a").idempotent().await.unwrap();
        assert_eq!(lost.hits(), 1);
    });
}

async fn tree(zk: &CuratorFramework, nodes: usize) {
    let mut transaction = zk.transaction().create("/t", "");
    for parent in 0..10 {
        transaction = transaction.create(format!("/t/{parent}"), "");
        for child in 0..nodes / 10 - 1 {
            transaction = transaction.create(format!("/t/{parent}/{child}"), "");
        }
    }
    transaction.await.unwrap();
}

/// The way to a server in memory that takes half a round trip in each direction.
#[derive(Debug)]
struct FarAway(MemoryConnector);

const FLIGHT: Duration = Duration::from_millis(100);

#[async_trait]
impl Connector for FarAway {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (from_near, to_near) = tokio::io::split(far);
        let (from_server, to_server) = tokio::io::split(self.0.connect(host, port).await?);
        tokio::spawn(carry(from_near, to_server));
        tokio::spawn(carry(from_server, to_near));
        Ok(Box::new(near))
    }
}

/// Forwards the bytes that it reads, each piece half a round trip later.
async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin + Send + 'static) {
    let (sender, mut pieces) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, piece)) = pieces.recv().await {
            reached(at).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if sender.send((Instant::now() + FLIGHT / 2, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

/// One request at a time would be one round trip for each of 199 requests.
#[test]
fn a_tree_is_deleted_many_nodes_at_a_time() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).connector(Arc::new(FarAway(server.connector())))).await;
        let mut round_trips = Vec::new();
        for in_flight in [1, 10, 64] {
            tree(&zk, 100).await;
            let began = Instant::now();
            zk.delete("/t").deleting_children().max_in_flight(in_flight).await.unwrap();
            round_trips.push(began.elapsed().as_millis() / FLIGHT.as_millis());
            assert_eq!(server.probe().paths(), [""; 0]);
        }
        // Two for the node itself, one for each list of children, and one for each delete.
        assert_eq!(round_trips[0], 203);
        assert!(round_trips[1] <= 2 + 12 + 12 && round_trips[2] <= 2 + 5 + 3, "{round_trips:?}");
        assert_eq!(
            zk.delete("/t").deleting_children().await.unwrap_err().kind(),
            ErrorKind::NoNode
        );
    });
}

/// Curator deletes with any version once it has deleted the children (defect o).
#[test]
fn curator_defect_o_the_version_counts_with_children_deleted() {
    simulated_with(async |server, zk| {
        zk.create("/a/b").creating_parents().await.unwrap();
        zk.set_data("/a", "1").await.unwrap();
        for guaranteed in [false, true] {
            let delete = zk.delete("/a").version(0).deleting_children();
            let delete = if guaranteed { delete.guaranteed() } else { delete };
            assert_eq!(delete.await.unwrap_err().kind(), ErrorKind::BadVersion);
            assert_eq!(server.probe().paths(), ["/a", "/a/b"], "its children stay");
        }
        // The response to the first attempt is lost, and another client writes before the second.
        let other = connected(&server).await;
        let lost = once(&server, OpCode::Delete, Verdict::LoseRequest);
        let delete = tokio::spawn(zk.delete("/a").version(1).deleting_children().into_future());
        lost.fired().await;
        other.set_data("/a", "2").await.unwrap();
        assert!(delete.await.unwrap().is_err());
        assert_eq!(server.probe().data("/a").unwrap(), "2");
        zk.delete("/a").version(2).deleting_children().await.unwrap();
    });
}

// parents, containers, ACLs

#[derive(Debug)]
struct ByPath;

impl AclProvider for ByPath {
    fn acl(&self, path: &str) -> Vec<Acl> {
        vec![
            Acl::new(Permissions::ALL, "world", "anyone"),
            Acl::new(Permissions::READ, "ip", format!("10.0.0.{}", path.len())),
        ]
    }
}

/// CURATOR-58/362/714: parents and the namespace were created without the ACL of the provider.
#[test]
fn curator_58_the_acl_provider_sets_the_default_acl() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).namespace("ns").acl_provider(ByPath)).await;
        zk.create("/a").await.unwrap();
        zk.create("/b/c/d").creating_parents().await.unwrap();
        zk.create_containers("/e/f").await.unwrap();
        zk.exists("/g/h").creating_parents_as_containers().await.unwrap();
        zk.transaction().with(CreateOp::new("/i")).commit().await.unwrap();
        zk.create("/j-").mode(CreateMode::EphemeralSequential).protected().await.unwrap();
        zk.create("/own").acl(Acl::open_unsafe()).await.unwrap();
        let probe = server.probe();
        for path in probe.paths() {
            let expected = match path.as_str() {
                "/ns/own" => Acl::open_unsafe(),
                path if path.contains("j-") => ByPath.acl("/ns/j-"),
                path => ByPath.acl(path),
            };
            assert_eq!(probe.acl(&path), expected, "{path}");
        }
        assert_eq!(probe.paths().len(), 11, "{probe}");
    });
}

#[test]
fn the_acl_of_a_node_is_that_of_its_parents_only_if_it_is_said() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).acl_provider(Acl::open_unsafe())).await;
        zk.create("/a/b").creating_parents().acl(reads_only()).await.unwrap();
        assert_eq!(server.probe().acl("/a"), Acl::open_unsafe());
        assert_eq!(server.probe().acl("/a/b"), reads_only());
        let all = vec![Acl::new(Permissions::ALL, "world", "anyone"), reads_only().remove(0)];
        zk.create("/c/d/e")
            .creating_parents()
            .acl(reads_only())
            .acl_of_parents(all.clone())
            .await
            .unwrap();
        let probe = server.probe();
        assert_eq!((probe.acl("/c"), probe.acl("/c/d")), (&all[..], &all[..]));
    });
}

/// CURATOR-665: the failure to create a parent did not reach a create in the background, which
/// hung.
#[test]
fn curator_665_a_forbidden_parent_fails_the_create() {
    simulated_with(async |server, zk| {
        zk.create("/a").acl(reads_only()).await.unwrap();
        let create = tokio::spawn(zk.create("/a/b/c").creating_parents().into_future());
        let error = create.await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.operation(), error.path()),
            (ErrorKind::NoAuth, "create", "/a/b/c")
        );
        let error = zk.exists("/a/b/c").creating_parents().await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NoAuth, "exists"));
        let error = zk.create_containers("/a/b").await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NoAuth, "create_containers"));
        assert_eq!(server.probe().paths(), ["/a"]);
    });
}

#[test]
fn exists_creates_the_parents_of_a_node_that_is_not_there() {
    simulated_with(async |server, zk| {
        assert_eq!(zk.exists("/a/b/c").creating_parents().await.unwrap(), None);
        let watched = zk.exists("/d/e").creating_parents_as_containers().watched().await.unwrap();
        assert_eq!(watched.value, None);
        let probe = server.probe();
        assert_eq!(probe.paths(), ["/a", "/a/b", "/d"]);
        assert!(probe.is_container("/d") && !probe.is_container("/a/b"));
        zk.create("/d/e").await.unwrap();
        assert_eq!(watched.watch.await.unwrap().event_type, EventType::NodeCreated);
        let before = server.probe().requests(OpCode::Create2);
        zk.exists("/a/b").creating_parents().await.unwrap().unwrap();
        assert_eq!(server.probe().requests(OpCode::Create2), before, "nothing was missing");
    });
}

/// CURATOR-270: `createContainers` did not know of the namespace.
#[test]
fn curator_270_containers_are_created_within_the_namespace() {
    simulated_with(async |server, zk| {
        let zk = zk.using_namespace("ns").unwrap();
        zk.create_containers("/a/b").await.unwrap();
        zk.create_containers("/a/b").await.unwrap();
        zk.create_containers("/").await.unwrap();
        let probe = server.probe();
        assert_eq!(probe.paths(), ["/ns", "/ns/a", "/ns/a/b"]);
        assert!(probe.paths().iter().all(|path| probe.is_container(path)));
    });
}

/// Servers ask for the permission to create before they look whether the node exists.
#[test]
fn containers_that_exist_need_no_permission_to_create() {
    simulated_with(async |server, zk| {
        let read_only = vec![Acl::new(Permissions::READ, "world", "anyone")];
        zk.create("/p/a").creating_parents().await.unwrap();
        zk.set_acl("/p", read_only.clone()).await.unwrap();
        zk.create_containers("/p/a").await.unwrap();
        zk.create_containers("/p/a/b").await.unwrap();
        zk.create("/p/a/c/d").creating_parents().await.unwrap();
        assert_eq!(zk.create_containers("/p/x").await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert_eq!(zk.create_containers("/p/x/y").await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert_eq!(server.probe().paths(), ["/p", "/p/a", "/p/a/b", "/p/a/c", "/p/a/c/d"]);
    });
}

/// CURATOR-132: the operations on ACLs did not know of the namespace.
#[test]
fn curator_132_acls_are_read_and_replaced_within_the_namespace() {
    simulated_with(async |server, zk| {
        let zk = zk.using_namespace("ns").unwrap();
        zk.create("/a").await.unwrap();
        let (acl, stat) = zk.get_acl("/a").with_stat().await.unwrap();
        assert_eq!((acl, stat.aversion), (Acl::open_unsafe(), 0));
        let all = vec![Acl::new(Permissions::ALL, "world", "anyone")];
        assert_eq!(zk.set_acl("/a", all.clone()).version(0).await.unwrap().aversion, 1);
        assert_eq!(zk.get_acl("/a").await.unwrap(), all);
        let error = zk.set_acl("/a", all.clone()).version(0).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::BadVersion, "/a"));
        assert_eq!(zk.set_acl("/a", vec![]).await.unwrap_err().kind(), ErrorKind::InvalidAcl);
        let lost = once(&server, OpCode::SetAcl, Verdict::LoseReply);
        assert!(zk.set_acl("/a", all.clone()).await.unwrap_err().may_have_applied());
        assert_eq!((lost.hits(), server.probe().acl("/ns/a")), (1, &all[..]));
        let lost = once(&server, OpCode::SetAcl, Verdict::LoseRequest);
        zk.set_acl("/a", all).version(2).await.unwrap();
        assert_eq!(lost.hits(), 1);
    });
}

#[test]
fn nodes_get_the_default_data_and_their_parents_none() {
    simulated_with(async |server, zk| {
        zk.create("/plain").await.unwrap();
        let zk = start(builder(&server).default_data("nobody")).await;
        zk.create("/p/a").creating_parents().await.unwrap();
        zk.create("/p/b").data("").await.unwrap();
        zk.transaction().with(CreateOp::new("/p/c")).create("/p/d", "").await.unwrap();
        let probe = server.probe();
        for (path, data) in
            [("/plain", ""), ("/p", ""), ("/p/a", "nobody"), ("/p/b", ""), ("/p/c", "nobody")]
        {
            assert_eq!(probe.data(path).unwrap(), data, "{path}");
        }
        assert_eq!(probe.data("/p/d").unwrap(), "");
        let zk = start(builder(&server).default_data_is_local_address()).await;
        zk.create("/address").await.unwrap();
        let address =
            std::str::from_utf8(&zk.get_data("/address").await.unwrap()).unwrap().to_owned();
        assert!(address.parse::<std::net::IpAddr>().is_ok(), "{address:?}");
    });
}

// transactions

#[test]
fn a_transaction_takes_every_operation_with_every_option() {
    simulated_with(async |server, zk| {
        let zk = zk.nested_namespace("ns").unwrap();
        zk.create("/old").await.unwrap();
        let hour = Duration::from_secs(3600);
        let results = zk
            .transaction()
            .with(CheckOp::new("/old").version(0))
            .with(CheckOp::new("/old"))
            .with(CreateOp::new("/ttl").mode(CreateMode::PersistentWithTtl).ttl(hour).data("x"))
            .with(CreateOp::new("/container").mode(CreateMode::Container).acl(reads_only()))
            .with(CreateOp::new("/s-").mode(CreateMode::EphemeralSequential))
            .with(SetDataOp::new("/old", "1").version(0))
            .with(SetDataOp::new("/old", "2"))
            .with(DeleteOp::new("/old").version(2))
            .commit()
            .await
            .unwrap();
        let probe = server.probe();
        assert_eq!(probe.paths(), ["/ns", "/ns/container", "/ns/s-0000000003", "/ns/ttl"]);
        assert_eq!((probe.ttl("/ns/ttl"), probe.is_container("/ns/container")), (Some(hour), true));
        assert_eq!(probe.acl("/ns/container"), reads_only());
        let created: Vec<_> = results.iter().filter_map(OpResult::created_path).collect();
        assert_eq!(created, ["/ttl", "/container", "/s-0000000003"]);
        let versions: Vec<_> =
            results[5..7].iter().map(|result| result.stat().unwrap().version).collect();
        assert_eq!((versions, &results[7]), (vec![1, 2], &OpResult::Deleted));
        assert_eq!((&results[0], results[0].stat()), (&OpResult::Checked, None));
    });
}

// watches

#[test]
fn a_persistent_watch_reports_paths_within_the_namespace() {
    simulated_with(async |server, zk| {
        let zk = zk.using_namespace("ns").unwrap();
        zk.create("/a").await.unwrap();
        let mut plain = zk.add_watch("/a").await.unwrap();
        let mut recursive = zk.add_watch("/").recursive().await.unwrap();
        zk.create("/a/b").await.unwrap();
        zk.set_data("/a", "1").await.unwrap();
        zk.set_data("/a", "2").await.unwrap();
        let seen = async |watch: &mut zk_curator::watch::PersistentWatch| match watch.next().await {
            Some(PersistentEvent::Changed(event)) => (event.event_type, event.path),
            other => panic!("{other:?}"),
        };
        use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged};
        for (event_type, path) in
            [(NodeChildrenChanged, "/a"), (NodeDataChanged, "/a"), (NodeDataChanged, "/a")]
        {
            assert_eq!(seen(&mut plain).await, (event_type, path.to_owned()));
        }
        for (event_type, path) in
            [(NodeCreated, "/a/b"), (NodeDataChanged, "/a"), (NodeDataChanged, "/a")]
        {
            assert_eq!(seen(&mut recursive).await, (event_type, path.to_owned()));
        }
        // Across a reconnect it says so, and with the session it ends.
        server.disconnect(session_id(&zk).get());
        assert_eq!(plain.next().await, Some(PersistentEvent::Disarmed));
        assert_eq!(plain.next().await, Some(PersistentEvent::Rearmed { unchanged: true }));
        expire(&server, &zk).await;
        loop {
            match plain.next().await {
                Some(PersistentEvent::Ended(why)) => {
                    break assert_eq!(why, WatchEnded::SessionLost);
                }
                Some(_) => {}
                None => panic!("the end was not reported"),
            }
        }
        assert_eq!(plain.next().await, None);
        drop((plain, recursive));
    });
}

/// CURATOR-14/167/286: watchers were left on the server.
#[test]
fn curator_14_a_watch_is_removed_with_its_handle_or_by_name() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        drop(zk.add_watch("/a").recursive().await.unwrap());
        until(&server, |probe| probe.watches().is_empty()).await;
        let watched = zk.get_data("/a").watched().await.unwrap();
        let mut persistent = zk.add_watch("/b").await.unwrap();
        zk.remove_watches("/a").of_type(WatcherType::Data).await.unwrap();
        assert_eq!(watched.watch.await, Err(WatchEnded::Removed));
        zk.remove_watches("/b").await.unwrap();
        assert_eq!(persistent.next().await, Some(PersistentEvent::Ended(WatchEnded::Removed)));
        assert!(server.probe().watches().is_empty());
        let error = zk.remove_watches("/a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Server(ErrorCode::NoWatcher));
        zk.remove_watches("/a").quietly().await.unwrap();
    });
}

// many concurrently

#[test]
fn fan_out_has_a_limit_and_returns_results_in_order() {
    simulated_with(async |server, zk| {
        let refused = fan_out(0, (0..2).map(|n| zk.create(format!("/{n}")))).await;
        assert_eq!(refused.len(), 2);
        for refused in refused {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        let refused = zk.delete("/1").deleting_children().max_in_flight(0).await.unwrap_err();
        assert_eq!((refused.kind(), refused.path()), (ErrorKind::InvalidArgument, "/1"));
        assert!(!server.probe().exists("/0") && !server.probe().exists("/1"));
        for limit in [1, 7, 1_000] {
            let creates = (0..50).map(|n| zk.create(format!("/{limit}-{n}")));
            let results = fan_out(limit, creates).await;
            let paths: Vec<_> = results.into_iter().map(|created| created.unwrap().path).collect();
            assert_eq!(paths, (0..50).map(|n| format!("/{limit}-{n}")).collect::<Vec<_>>());
        }
        assert!(fan_out(7, Vec::<zk_curator::op::SyncBuilder>::new()).await.is_empty());
        // Of a hundred requests, at most three are sent before the first response.
        server.hold();
        let reads = (0..100).map(|n| zk.exists(format!("/{n}")).deadline(Duration::from_secs(1)));
        let began = Instant::now();
        let results = fan_out(3, reads).await;
        assert!(results.iter().all(|result| result.is_err()));
        assert!(began.elapsed() >= Duration::from_secs(34), "{:?}", began.elapsed());
    });
}

/// How operations are run in the background: a builder is spawned, joined, given a timeout, or
/// dropped.
#[test]
fn operations_are_spawned_joined_timed_out_and_aborted() {
    simulated_with(async |server, zk| {
        let create = tokio::spawn(zk.create("/a").into_future());
        assert_eq!(create.await.unwrap().unwrap().path, "/a");
        let (one, two) = tokio::join!(zk.create("/b").into_future(), zk.exists("/a").into_future());
        assert!(one.is_ok() && two.unwrap().is_some());
        server.hold();
        let waiting = tokio::time::timeout(Duration::from_secs(1), zk.get_data("/a").into_future());
        assert!(waiting.await.is_err());
        let aborted = tokio::spawn(zk.get_data("/a").into_future());
        aborted.abort();
        assert!(aborted.await.unwrap_err().is_cancelled());
        server.release();
        zk.close().await.unwrap();
    });
}
