//! Namespaces and chroots: every path is mapped on the way out and back.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use zk_curator::OpResult;
use zk_curator::certain::Receipt;
use zk_curator::{
    Acl, ConnectionState, CreateMode, CuratorFramework, ErrorCode, ErrorKind, Permissions,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, once, simulated_each_on, simulated_on, simulated_with, start, until,
};

async fn in_namespace(namespace: &str) -> (TestServer, CuratorFramework) {
    let server = TestServer::in_memory().await;
    let zk = builder(&server).namespace(namespace).build().expect("a framework");
    zk.start().await.expect("a framework");
    (server, zk)
}

/// Runs a test in simulated time with a framework in a namespace.
fn simulated_in(namespace: &str, test: impl AsyncFnOnce(TestServer, CuratorFramework)) {
    let setup = async || in_namespace(namespace).await;
    simulated_on(setup, async |(server, zk)| test(server, zk).await);
}

#[test]
fn the_namespace_is_created_as_a_container_when_it_is_needed() {
    simulated_in("a/b", async |server, zk| {
        assert_eq!(zk.namespace(), "a/b");
        assert_eq!(zk.exists("/").await.unwrap(), None);
        assert_eq!(
            zk.create("/x/y").await.unwrap_err().kind(),
            ErrorKind::NoNode,
            "but no parents are"
        );
        assert_eq!(server.probe().paths(), [""; 0]);
        zk.create("/x").await.unwrap();
        let probe = server.probe();
        assert_eq!(probe.paths(), ["/a", "/a/b", "/a/b/x"]);
        assert!(probe.is_container("/a") && probe.is_container("/a/b"));
    });
}

#[test]
fn every_operation_is_within_the_namespace() {
    simulated_in("ns", async |server, zk| {
        assert_eq!(zk.create("/x/y").creating_parents().data("1").await.unwrap().path, "/x/y");
        assert_eq!(zk.get_data("/x/y").await.unwrap(), "1");
        assert_eq!(zk.children("/").await.unwrap(), ["x"]);
        assert_eq!(zk.children("/x").await.unwrap(), ["y"]);
        zk.set_data("/x/y", "2").await.unwrap();
        zk.sync("/x").await.unwrap();
        assert_eq!(server.probe().data("/ns/x/y").unwrap(), "2");
        assert_eq!(zk.exists("/ns/x").await.unwrap(), None);
        zk.delete("/x").deleting_children().await.unwrap();
        assert_eq!(server.probe().paths(), ["/ns"]);
    });
}

#[test]
fn sequential_nodes_with_empty_names_stay_within_the_namespace() {
    simulated_in("ns", async |server, zk| {
        let mode = CreateMode::PersistentSequential;
        assert_eq!(zk.create("/").mode(mode).await.unwrap().path, "/0000000000");
        let results = zk.transaction().create_with_mode("/", "", mode).commit().await.unwrap();
        let OpResult::Created { path, .. } = &results[0] else { panic!("{results:?}") };
        assert_eq!(path, "/0000000001");
        let node = zk.create("/").mode(mode).protected().owned().await.unwrap();
        assert!(
            node.path().starts_with("/_c_") && node.path().ends_with("-0000000002"),
            "{}",
            node.path()
        );
        assert_eq!(
            zk.create("/q/").mode(mode).creating_parents().await.unwrap().path,
            "/q/0000000000"
        );
        assert_eq!(server.probe().children("/ns").len(), 4, "{}", server.probe());
        assert_eq!(server.probe().children("/").len(), 2, "{}", server.probe());
        node.delete().await.unwrap();
    });
}

#[test]
fn watches_and_transactions_speak_of_paths_within_the_namespace() {
    simulated_in("ns", async |server, zk| {
        let created = zk.exists("/a").watched().await.unwrap().watch;
        zk.create("/b").await.unwrap();
        let children = zk.children("/").watched().await.unwrap().watch;
        let results = zk
            .transaction()
            .create("/a", "")
            .create_with_mode("/s-", "", CreateMode::PersistentSequential)
            .check("/", None)
            .commit()
            .await
            .unwrap();
        let OpResult::Created { path, .. } = &results[1] else { panic!("{results:?}") };
        assert_eq!(path, "/s-0000000002");
        assert_eq!(created.await.unwrap().path, "/a");
        assert_eq!(children.await.unwrap().path, "/", "the namespace itself is the root");
        assert_eq!(server.probe().paths(), ["/ns", "/ns/a", "/ns/b", "/ns/s-0000000002"]);
    });
}

#[test]
fn a_transaction_creates_a_missing_namespace() {
    let cases = ["/a", "/b"];
    let setup = async || in_namespace("one/two").await;
    simulated_each_on(cases, setup, async |first, (server, zk)| {
        let missing = |index| ErrorKind::TransactionFailed { index, code: ErrorCode::NoNode };
        let parent = zk.transaction().create("/p/a", "").await.unwrap_err();
        assert_eq!(
            (parent.kind(), server.probe().paths()),
            (missing(0), vec![]),
            "other parents are not created"
        );
        let changed = zk.transaction().set_data("/a", "").create("/b", "").await.unwrap_err();
        assert_eq!((changed.kind(), server.probe().paths()), (missing(0), vec![]));
        let lost = once(&server, OpCode::CreateContainer, Verdict::LoseReply);
        let results =
            zk.transaction().create(first, "").create(format!("{first}/c"), "").await.unwrap();
        assert_eq!((lost.hits(), results.len()), (1, 2));
        let probe = server.probe();
        assert!(
            probe.exists(&format!("/one/two{first}/c")) && probe.is_container("/one/two"),
            "{probe}"
        );
    });
}

#[test]
fn a_certain_transaction_creates_a_missing_namespace() {
    let cases = [Verdict::Pass, Verdict::LoseReply, Verdict::LoseRequest];
    let setup = async || in_namespace("one/two").await;
    simulated_each_on(cases, setup, async |verdict, (server, zk)| {
        let receipt = Receipt::new(&zk, "/");
        let _lost = once(&server, OpCode::CreateContainer, verdict);
        zk.transaction().create("/a", "").certain(&receipt).await.unwrap();
        zk.transaction().create("/b", "").certain(&receipt).await.unwrap();
        drop(receipt);
        until(&server, |probe| probe.children("/one/two").len() == 2).await;
    });
}

#[test]
fn a_chroot_that_does_not_exist_is_named() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = builder(&server).connect_string("memory:2181/shop/eu").build().unwrap();
        let mut errors = zk.background_errors();
        let error = zk.start().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NoNode, "/shop/eu"));
        let told = "the chroot \"/shop/eu\" does not exist";
        assert!(error.to_string().contains(told), "{error}");
        assert!(errors.next().await.unwrap().to_string().contains(told));
        let results = [
            zk.create("/a").await.map(drop),
            zk.create("/a/b").creating_parents().await.map(drop),
            zk.create("/a").protected().owned().await.map(drop),
            zk.create_containers("/a/b").await,
            zk.exists("/a/b").creating_parents().await.map(drop),
            zk.using_namespace("ns").unwrap().create("/a").await.map(drop),
        ];
        for error in results.map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::NoNode);
            assert!(error.to_string().contains(told), "{error}");
        }
        assert_eq!(server.probe().paths(), [""; 0]);
        assert!(server.probe().requests(OpCode::Create2) < 20, "{}", server.probe());
    });
}

#[test]
fn create_chroot_creates_the_chroot_with_its_acl() {
    let cases = [Verdict::Pass, Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect];
    simulated_each_on(cases, TestServer::in_memory, async |verdict, server| {
        let acl = vec![Acl::new(Permissions::ALL, "auth", "")];
        let build = || {
            let builder =
                builder(&server).connect_string("memory:2181/shop/eu").create_chroot(acl.clone());
            builder.authorization("digest", "me:secret").build().unwrap()
        };
        let _lost = once(&server, OpCode::Create2, verdict);
        let (zk, other) = (build(), build());
        let (first, second) = tokio::join!(zk.start(), other.start());
        first.unwrap();
        second.unwrap();
        zk.create("/a").await.unwrap();
        let probe = server.probe();
        assert_eq!(probe.paths(), ["/shop", "/shop/eu", "/shop/eu/a"]);
        for chroot in ["/shop", "/shop/eu"] {
            assert!(probe.acl(chroot)[0].id.starts_with("me:"), "{:?}", probe.acl(chroot));
        }
        assert!(!probe.is_container("/shop/eu"));
        zk.close().await.unwrap();
        other.close().await.unwrap();
        assert!(server.probe().sessions().is_empty(), "{}", server.probe());
    });
}

/// The framework continues after a failed start, and so does this.
#[test]
fn create_chroot_waits_for_the_first_server() {
    simulated_on(TestServer::in_memory, async |server| {
        server.stop().await;
        let zk =
            builder(&server).connect_string("memory:2181/shop").create_chroot(Acl::open_unsafe());
        let zk = zk.build().unwrap();
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        server.restart().await.unwrap();
        until(&server, |probe| probe.exists("/shop")).await;
        zk.create("/a").await.unwrap();
    });
}

#[test]
fn a_chroot_is_found_at_a_read_only_server() {
    simulated_on(TestServer::in_memory, async |server| {
        let shop = || builder(&server).connect_string("memory:2181/shop").read_only(true);
        let zk = connected(&server).await;
        zk.create("/shop").await.unwrap();
        zk.close().await.unwrap();
        server.set_read_only(true);
        let zk = start(shop()).await;
        assert_eq!(zk.state(), ConnectionState::ReadOnly);
    });
}

#[test]
fn create_chroot_waits_for_a_server_that_writes() {
    simulated_on(TestServer::in_memory, async |server| {
        server.set_read_only(true);
        let zk = builder(&server).connect_string("memory:2181/shop").read_only(true);
        let zk = zk.create_chroot(Acl::open_unsafe()).build().unwrap();
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        server.set_read_only(false);
        until(&server, |probe| probe.exists("/shop")).await;
    });
}

/// An operator deletes it while the service runs.
#[test]
fn deleted_chroot_is_created_again_by_the_next_create() {
    simulated_with(async |server, operator| {
        let build = builder(&server)
            .connect_string("memory:2181/shop/eu")
            .create_chroot(Acl::open_unsafe());
        let zk = start(build).await;
        let named = zk.using_namespace("ns").unwrap();
        let begun = Instant::now();
        for kind in ["create", "parents", "namespace", "transaction", "certain"] {
            operator.delete("/shop").deleting_children().await.unwrap();
            match kind {
                "create" => drop(zk.create("/a").await.unwrap()),
                "parents" => drop(zk.create("/a/b").creating_parents().await.unwrap()),
                "namespace" => drop(named.create("/a").await.unwrap()),
                "transaction" => drop(zk.transaction().create("/a", "").commit().await.unwrap()),
                _ => drop(zk.create("/a").certain(&Receipt::new(&zk, "/")).await.unwrap()),
            }
            assert!(server.probe().exists("/shop/eu"), "{kind}");
            // No other session is left.
            assert_eq!(server.probe().sessions().len(), 2, "{kind}");
        }
        // After the first time, at most once a second.
        assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
        // All creates that find it missing share one session.
        operator.delete("/shop").deleting_children().await.unwrap();
        let created = server.probe().requests(OpCode::CloseSession);
        let creates = (0..20).map(|n| zk.create(format!("/n{n}")).into_future());
        for created in join_all(creates).await {
            created.unwrap();
        }
        assert_eq!(server.probe().requests(OpCode::CloseSession), created + 1);
        zk.close().await.unwrap();
    });
}

/// It was not asked for.
#[test]
fn deleted_chroot_is_the_reason_of_a_failed_create() {
    simulated_with(async |server, operator| {
        operator.create("/shop").await.unwrap();
        let zk = start(builder(&server).connect_string("memory:2181/shop")).await;
        operator.delete("/shop").await.unwrap();
        for _ in 0..2 {
            let error = zk.create("/a").await.unwrap_err();
            assert!(error.to_string().contains("create_chroot"), "{error}");
        }
        assert!(server.probe().paths().is_empty());
    });
}

/// CURATOR-379: `/foo` is a prefix of the text `/foobar`, but not of the path.
#[test]
fn curator_379_a_common_prefix_is_not_the_same_namespace() {
    simulated_in("foo", async |server, foo| {
        let foobar = foo.using_namespace("foobar").unwrap();
        foo.create("/bar").await.unwrap();
        assert_eq!(foobar.create("/foobar").await.unwrap().path, "/foobar");
        assert_eq!(foo.create("/foobar").await.unwrap().path, "/foobar");
        assert_eq!(
            server.probe().paths(),
            ["/foo", "/foo/bar", "/foo/foobar", "/foobar", "/foobar/foobar"]
        );
    });
}

#[test]
fn namespaces_share_the_session_and_can_be_changed_and_left() {
    simulated_in("one", async |server, zk| {
        let two = zk.using_namespace("two").unwrap();
        let none = two.using_namespace("").unwrap();
        assert_eq!((two.namespace(), none.namespace()), ("two", ""));
        zk.create("/a").await.unwrap();
        two.create("/a").await.unwrap();
        none.create("/a").await.unwrap();
        assert_eq!(server.probe().paths(), ["/a", "/one", "/one/a", "/two", "/two/a"]);
        assert_eq!(server.probe().sessions().len(), 1);
        assert_eq!(zk.using_namespace("/x").unwrap_err().kind(), ErrorKind::InvalidPath);
        none.close().await.unwrap();
        assert_eq!(zk.exists("/a").await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_chroot_and_a_namespace_add_up() {
    simulated_with(async |server, outside| {
        outside.create("/app").await.unwrap();
        let zk = start(builder(&server).connect_string("memory:2181/app").namespace("ns")).await;
        let watched = zk.exists("/a-0000000000").watched().await.unwrap();
        let created = zk.create("/a-").mode(CreateMode::EphemeralSequential).await.unwrap();
        assert_eq!(created.path, "/a-0000000000");
        assert_eq!(watched.watch.await.unwrap().path, "/a-0000000000");
        assert_eq!(server.probe().paths(), ["/app", "/app/ns", "/app/ns/a-0000000000"]);
    });
}

#[test]
fn owned_nodes_are_fenced_and_deleted_within_the_namespace() {
    simulated_in("ns", async |server, zk| {
        zk.create("/data").await.unwrap();
        let node = zk.create("/n-").mode(CreateMode::EphemeralSequential).owned().await.unwrap();
        assert_eq!((node.path(), node.name()), ("/n-0000000001", "n-0000000001"));
        node.ownership().fenced().set_data("/data", "mine").commit().await.unwrap();
        assert_eq!(server.probe().data("/ns/data").unwrap(), "mine");
        let lost = {
            let ownership = node.ownership().clone();
            tokio::spawn(async move { ownership.lost().await })
        };
        until(&server, |probe| !probe.watches().is_empty()).await;
        connected(&server).await.delete("/ns/n-0000000001").await.unwrap();
        lost.await.unwrap();
        assert_eq!(node.delete().await.unwrap_err().path(), "/n-0000000001");
    });
}

/// The nodes of one framework, by whatever handle they were created.
#[test]
fn a_transaction_is_fenced_by_nodes_of_several_namespaces() {
    simulated_in("one", async |server, zk| {
        let two = zk.using_namespace("two").unwrap();
        let ephemeral =
            |zk: &CuratorFramework| zk.create("/me").mode(CreateMode::Ephemeral).owned();
        let mine = ephemeral(&zk).await.unwrap();
        let other = ephemeral(&two).await.unwrap();
        let write = |at: &str| {
            mine.ownership().fenced().fenced_by(other.ownership()).create(at, "").commit()
        };
        write("/a").await.unwrap();
        assert!(server.probe().exists("/one/a"));
        // The node of the same path in the namespace of the transaction does not stand for it.
        two.delete("/me").await.unwrap();
        let error = write("/b").await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::OwnershipLost, "/me"));
        assert!(other.ownership().is_over() && !mine.ownership().is_over());
    });
}
