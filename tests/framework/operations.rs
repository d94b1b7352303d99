//! Every operation and every option of its builder, on a server without faults.

use std::time::Duration;

use zk_curator::ErrorKind::{
    BadVersion, InvalidArgument, InvalidPath, NoNode, NodeExists, NotEmpty, TransactionFailed,
};
use zk_curator::OpResult;
use zk_curator::{Acl, CreateMode, CuratorFramework, ErrorCode, Permissions};
use zk_curator_proto::OpCode;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    connected, in_memory, real_time, session_id, simulated, simulated_with, whenever_of,
};

#[test]
fn create_makes_an_open_persistent_empty_node() {
    simulated_with(async |server, zk| {
        let created = zk.create("/a").await.unwrap();
        assert_eq!(created.path, "/a");
        let probe = server.probe();
        assert_eq!(probe.stat("/a"), Some(created.stat));
        assert_eq!(probe.data("/a").unwrap(), "");
        assert_eq!(probe.acl("/a"), Acl::open_unsafe());
        assert_eq!(probe.stored_owner("/a"), Some(0));
    });
}

#[test]
fn create_writes_data_and_acl() {
    simulated_with(async |server, zk| {
        let acl = vec![Acl::new(Permissions::READ, "world", "anyone")];
        zk.create("/a").data("hello").acl(acl.clone()).await.unwrap();
        assert_eq!(server.probe().data("/a").unwrap(), "hello");
        assert_eq!(server.probe().acl("/a"), acl);
    });
}

#[test]
fn create_knows_every_kind_of_node() {
    simulated_with(async |server, zk| {
        let owner = session_id(&zk).get();
        let hour = Duration::from_secs(3600);
        for (mode, suffix, ephemeral_owner) in [
            (CreateMode::Persistent, "", 0),
            (CreateMode::PersistentSequential, "0000000001", 0),
            (CreateMode::Ephemeral, "", owner),
            (CreateMode::EphemeralSequential, "0000000003", owner),
            (CreateMode::Container, "", 0),
            (CreateMode::PersistentWithTtl, "", 0),
            (CreateMode::PersistentSequentialWithTtl, "0000000006", 0),
        ] {
            let name = format!("/{mode:?}");
            let create = zk.create(name.as_str()).mode(mode);
            let created =
                if mode.is_ttl() { create.ttl(hour).await } else { create.await }.unwrap();
            assert_eq!(created.path, format!("{name}{suffix}"));
            assert_eq!(created.stat.ephemeral_owner, ephemeral_owner, "{mode:?}");
            assert_eq!(server.probe().is_container(&created.path), mode == CreateMode::Container);
            assert_eq!(server.probe().ttl(&created.path), mode.is_ttl().then_some(hour));
        }
    });
}

#[test]
fn a_ttl_on_the_wrong_kind_of_node_is_refused_by_name() {
    simulated_with(async |_server, zk| {
        let missing = zk.create("/a").mode(CreateMode::PersistentWithTtl).await.unwrap_err();
        let extra = zk.create("/a").ttl(Duration::from_secs(1)).await.unwrap_err();
        for error in [missing, extra] {
            assert_eq!(error.kind(), InvalidArgument);
            assert_eq!((error.operation(), error.path()), ("create", "/a"));
        }
    });
}

#[test]
fn create_without_its_parent_fails_and_with_parents_makes_them() {
    simulated_with(async |server, zk| {
        assert_eq!(zk.create("/a/b/c").await.unwrap_err().kind(), NoNode);
        zk.create("/a/b/c").data("x").creating_parents().await.unwrap();
        assert_eq!(server.probe().data("/a/b").unwrap(), "");
        assert!(!server.probe().is_container("/a/b"));
        zk.create("/d/e/f").creating_parents_as_containers().await.unwrap();
        let probe = server.probe();
        assert!(
            probe.is_container("/d") && probe.is_container("/d/e") && !probe.is_container("/d/e/f")
        );
        assert_eq!(zk.create("/d/e/f").creating_parents().await.unwrap_err().kind(), NodeExists);
    });
}

/// CURATOR-715/728: creates of ancestors that exist, or that one may not create.
#[test]
fn curator_715_only_missing_parents_are_created() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        zk.create("/a/b").await.unwrap();
        let before = server.probe().requests(OpCode::Create2);
        zk.create("/a/b/c/d").creating_parents().await.unwrap();
        // The node, its parent, and the node again.
        assert_eq!(server.probe().requests(OpCode::Create2), before + 3);
        zk.create("/a/b/c/e").creating_parents().await.unwrap();
        assert_eq!(server.probe().requests(OpCode::Create2), before + 4, "all parents were there");
    });
}

#[test]
fn a_protected_name_begins_as_curators_does() {
    simulated_with(async |server, zk| {
        let created =
            zk.create("/a-").mode(CreateMode::PersistentSequential).protected().await.unwrap();
        let name = created.path.strip_prefix('/').unwrap();
        let (uuid, rest) = name.strip_prefix("_c_").unwrap().split_at(36);
        assert_eq!(rest, "-a-0000000000");
        assert!(
            uuid.bytes()
                .all(|byte| byte == b'-' || byte.is_ascii_digit() || byte.is_ascii_lowercase())
        );
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        let other =
            zk.create("/a-").mode(CreateMode::PersistentSequential).protected().await.unwrap();
        assert_ne!(other.path[..40], created.path[..40], "each create has its own prefix");
        assert_eq!(server.probe().paths().len(), 2);
    });
}

#[test]
fn an_owned_create_with_siblings_is_one_flight_and_lists_itself() {
    simulated_with(async |server, zk| {
        zk.create("/p").await.unwrap();
        zk.create("/p/other").await.unwrap();
        let children_first = server.rule(|request| {
            // Held back, the create shows that the listing does not wait for its response.
            match request.is_create() {
                true => Verdict::Delay(Duration::from_secs(1)),
                false => Verdict::Pass,
            }
        });
        let started = tokio::time::Instant::now();
        let (node, mut names) = zk
            .create("/p/n-")
            .mode(CreateMode::EphemeralSequential)
            .protected()
            .owned_with_siblings()
            .await
            .unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        names.sort();
        assert_eq!(names, [node.name(), "other"]);
        assert_eq!(children_first.hits(), 1);
        node.delete().await.unwrap();
    });
}

#[test]
fn get_data_and_exists_return_data_and_stat() {
    simulated_with(async |_server, zk| {
        assert_eq!(zk.exists("/a").await.unwrap(), None);
        let created = zk.create("/a").data("1").await.unwrap();
        assert_eq!(zk.exists("/a").await.unwrap(), Some(created.stat));
        assert_eq!(zk.get_data("/a").await.unwrap(), "1");
        assert_eq!(zk.get_data("/a").with_stat().await.unwrap(), ("1".into(), created.stat));
        let error = zk.get_data("/none").await.unwrap_err();
        assert_eq!(error.to_string(), "get_data \"/none\": no node");
    });
}

#[test]
fn set_data_honours_the_version() {
    simulated_with(async |_server, zk| {
        zk.create("/a").await.unwrap();
        assert_eq!(zk.set_data("/a", "1").await.unwrap().version, 1);
        assert_eq!(zk.set_data("/a", "2").version(1).await.unwrap().version, 2);
        assert_eq!(zk.set_data("/a", "3").version(1).await.unwrap_err().kind(), BadVersion);
        assert_eq!(zk.get_data("/a").await.unwrap(), "2");
        assert_eq!(zk.set_data("/none", "").await.unwrap_err().kind(), NoNode);
    });
}

#[test]
fn children_of_many_nodes_are_listed_in_one_request() {
    simulated_with(async |server, zk| {
        for path in ["/a", "/a/x", "/a/y", "/b"] {
            zk.create(path).await.unwrap();
        }
        let requests = |kind| server.probe().requests(kind);
        let expected = [Some(vec!["x", "y"]), None, Some(vec![])];
        for refused in [false, true] {
            // As servers before 3.6.
            let refusal = server.rule(move |request| {
                let is_refused = refused && request.is(OpCode::MultiRead);
                if is_refused { Verdict::Refuse(ErrorCode::Unimplemented) } else { Verdict::Pass }
            });
            let before = (requests(OpCode::MultiRead), requests(OpCode::GetChildren2));
            let mut lists = zk.children_of_each(["/a", "/none", "/b"]).await.unwrap();
            lists.iter_mut().flatten().for_each(|names| names.sort());
            let lists: Vec<_> = lists
                .iter()
                .map(|list| list.as_ref().map(|names| names.iter().collect::<Vec<_>>()))
                .collect();
            assert_eq!(lists.len(), 3);
            for (list, expected) in lists.iter().zip(&expected) {
                assert!(list.is_none() == expected.is_none());
                assert!(list.iter().flatten().eq(expected.iter().flatten()));
            }
            assert_eq!(requests(OpCode::MultiRead) - before.0, 1);
            assert_eq!(requests(OpCode::GetChildren2) - before.1, if refused { 3 } else { 0 });
            drop(refusal);
        }
        let before = requests(OpCode::MultiRead);
        let many = (0..600).map(|number| format!("/none-{number}"));
        assert_eq!(zk.children_of_each(many).await.unwrap(), vec![None; 600]);
        assert_eq!(requests(OpCode::MultiRead) - before, 3);
        assert_eq!(zk.children_of_each([""; 0]).await.unwrap(), Vec::<Option<Vec<String>>>::new());
        let invalid = zk.children_of_each(["/a", "b"]).await.unwrap_err();
        assert_eq!((invalid.kind(), invalid.path()), (InvalidPath, "b"));
        let secret = zk.using_namespace("a").unwrap();
        assert_eq!(secret.children_of_each(["/x"]).await.unwrap(), [Some(Vec::new())]);
    });
}

#[test]
fn children_lists_names_and_the_stat_of_the_parent() {
    simulated_with(async |server, zk| {
        zk.create("/p/b").creating_parents().await.unwrap();
        zk.create("/p/a").await.unwrap();
        let mut names = zk.children("/p").await.unwrap();
        names.sort();
        assert_eq!(names, ["a", "b"]);
        let (names, stat) = zk.children("/p").with_stat().await.unwrap();
        assert_eq!(names.len(), 2);
        assert_eq!(Some(stat), server.probe().stat("/p"));
        assert_eq!(zk.children("/none").await.unwrap_err().kind(), NoNode);
    });
}

#[test]
fn sync_asks_the_server() {
    simulated_with(async |server, zk| {
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().requests(OpCode::Sync), 1);
    });
}

#[test]
fn delete_honours_version_children_and_quietly() {
    simulated_with(async |server, zk| {
        zk.create("/a/b/c").creating_parents().await.unwrap();
        zk.create("/a/b/d/e").creating_parents().await.unwrap();
        assert_eq!(zk.delete("/a").await.unwrap_err().kind(), NotEmpty);
        assert_eq!(zk.delete("/a/b/c").version(7).await.unwrap_err().kind(), BadVersion);
        zk.delete("/a/b/c").version(0).await.unwrap();
        assert_eq!(zk.delete("/a/b/c").await.unwrap_err().kind(), NoNode);
        zk.delete("/a/b/c").quietly().await.unwrap();
        zk.delete("/a").deleting_children().await.unwrap();
        assert_eq!(server.probe().paths(), [""; 0]);
        zk.delete("/a").guaranteed().quietly().deleting_children().await.unwrap();
    });
}

/// Curator ignores the version once it has found children (defect o of its HEAD).
#[test]
fn curator_defect_o_the_version_is_checked_before_children() {
    simulated_with(async |server, zk| {
        zk.create("/a/b").creating_parents().await.unwrap();
        let stale = zk.delete("/a").version(3).deleting_children().await.unwrap_err();
        assert_eq!(stale.kind(), BadVersion);
        assert!(server.probe().exists("/a/b"), "nothing is deleted for nothing");

        // Written between the deletions of the child and of the node.
        let writer = zk.clone();
        let (seen, mut deleting) = tokio::sync::mpsc::unbounded_channel();
        let _hold = server.rule(move |request| {
            if request.is_delete() && request.is_about("/a/b") {
                seen.send(()).unwrap_or_default();
                return Verdict::Delay(Duration::from_secs(1));
            }
            Verdict::Pass
        });
        let other = connected(&server).await;
        let delete = tokio::spawn(writer.delete("/a").version(0).deleting_children().into_future());
        deleting.recv().await.unwrap();
        other.set_data("/a", "new").await.unwrap();
        assert_eq!(delete.await.unwrap().unwrap_err().kind(), BadVersion);
        assert_eq!(server.probe().data("/a").unwrap(), "new");
    });
}

#[test]
fn two_that_delete_one_tree_both_succeed() {
    simulated(async {
        for nth in 1.. {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            zk.create("/a/b/c").creating_parents().await.unwrap();
            zk.create("/a/d").await.unwrap();
            // The slower one is held up by its nth request after the first; the other one is done
            // before that.
            let pause = whenever_of(&server, &zk, Verdict::Delay(Duration::from_secs(1)));
            let pause = pause.after(nth).times(1);
            let mut slower = tokio::spawn(zk.delete("/a").deleting_children().into_future());
            tokio::select! {
                biased;
                done = &mut slower => {
                    done.unwrap().unwrap();
                    assert!(nth > 5, "{nth} requests");
                    break;
                }
                () = pause.fired() => {}
            }
            other.delete("/a").deleting_children().await.unwrap();
            slower.await.unwrap().unwrap_or_else(|error| panic!("request {nth}: {error}"));
            assert_eq!(server.probe().paths(), [""; 0]);
        }
        let (_server, zk) = in_memory().await;
        assert_eq!(zk.delete("/a").deleting_children().await.unwrap_err().kind(), NoNode);
    });
}

#[test]
fn deleting_children_gives_up_on_a_writer_that_never_stops() {
    simulated_with(async |server, zk| {
        zk.create("/a/b").creating_parents().await.unwrap();
        let other = connected(&server).await;
        let (seen, mut deleted) = tokio::sync::mpsc::unbounded_channel();
        let _notice = server.rule(move |request| {
            if !request.is_delete() || !request.is_about("/a") {
                return Verdict::Pass;
            }
            // Before the node itself is deleted, there is a child again.
            seen.send(()).unwrap_or_default();
            Verdict::Delay(Duration::from_millis(10))
        });
        let writer = tokio::spawn(async move {
            while deleted.recv().await.is_some() {
                drop(other.create("/a/b").await);
            }
        });
        let error = zk.delete("/a").deleting_children().await.unwrap_err();
        assert_eq!(error.to_string(), "delete \"/a\": node has children");
        writer.abort();
    });
}

#[test]
fn a_transaction_is_atomic_with_a_result_for_each_operation() {
    simulated_with(async |server, zk| {
        zk.create("/cfg").await.unwrap();
        zk.create("/old").await.unwrap();
        let results = zk
            .transaction()
            .check("/cfg", Some(0))
            .set_data_if("/cfg", "v1", 0)
            .set_data("/cfg", "v2")
            .create("/n", "data")
            .create_with_mode("/s-", "", CreateMode::EphemeralSequential)
            .delete_if("/old", 0)
            .delete("/n")
            .commit()
            .await
            .unwrap();
        let [
            OpResult::Checked,
            OpResult::DataSet(first),
            OpResult::DataSet(second),
            OpResult::Created { path: plain, .. },
            OpResult::Created { path: sequential, .. },
            OpResult::Deleted,
            OpResult::Deleted,
        ] = &results[..]
        else {
            panic!("{results:?}");
        };
        assert_eq!((first.version, second.version), (1, 2));
        assert_eq!((plain.as_str(), sequential.as_str()), ("/n", "/s-0000000003"));
        assert_eq!(server.probe().paths(), ["/cfg", "/s-0000000003"]);
        assert_eq!(zk.transaction().commit().await.unwrap(), []);
    });
}

#[test]
fn a_failed_transaction_names_its_operation_and_path() {
    simulated_with(async |server, zk| {
        let zk = zk.using_namespace("ns").unwrap();
        zk.create("/a").await.unwrap();
        let error =
            zk.transaction().create("/b", "").check("/a", Some(9)).delete("/a").await.unwrap_err();
        assert_eq!(error.kind(), TransactionFailed { index: 1, code: ErrorCode::BadVersion });
        assert_eq!((error.operation(), error.path()), ("transaction", "/a"));
        assert_eq!(error.code(), Some(ErrorCode::BadVersion));
        assert!(!server.probe().exists("/ns/b"));
    });
}

#[test]
fn nothing_is_sent_until_it_is_awaited() {
    simulated_with(async |server, zk| {
        let before = server.probe().total_requests();
        let create = zk.create("/a").protected();
        let delete = zk.delete("/a").guaranteed().into_future();
        let transaction = zk.transaction().create("/b", "").commit();
        drop((create, delete, transaction));
        zk.close().await.unwrap();
        let after = server.probe();
        assert_eq!(
            after.total_requests() - before,
            after.requests(OpCode::CloseSession),
            "{after}"
        );
    });
}

/// Compiles only if every future can be spawned on any runtime.
#[test]
fn a_started_operation_is_sent_before_those_awaited_later() {
    simulated_with(async |server, zk| {
        zk.create("/a").data("old").await.unwrap();
        let late = zk.set_data("/a", "late").into_future();
        let write = zk.set_data("/a", "new").into_future().start();
        assert_eq!(zk.get_data("/a").await.unwrap(), "new");
        assert_eq!(write.await.unwrap().version, 1);
        assert_eq!(late.await.unwrap().version, 2);
        // Refused without a request: the error is returned when the future is awaited.
        let refused = zk.get_data("no-slash").into_future().start();
        assert_eq!(refused.await.unwrap_err().kind(), InvalidPath);
        // Dropped, a write is applied nevertheless.
        drop(zk.delete("/a").into_future().start());
        zk.sync("/").await.unwrap();
        assert!(!server.probe().exists("/a"));
    });
}

#[test]
fn futures_are_send_and_own_what_they_need() {
    const fn spawnable<T: Send + 'static>(_: &T) {}
    real_time(async {
        let server = TestServer::start().await;
        let zk = connected(&server).await;
        let (start, close) = (zk.clone(), zk.clone());
        spawnable(&async move { start.start().await });
        spawnable(&async move { close.close().await });
        spawnable(&zk.create("/a").protected().owned().into_future());
        spawnable(&zk.create("/a").owned_with_siblings().into_future());
        spawnable(&zk.delete("/a").guaranteed().into_future());
        spawnable(&zk.exists("/a").watched().into_future());
        spawnable(&zk.get_data("/a").watched().into_future());
        spawnable(&zk.children("/a").watched().into_future());
        spawnable(&zk.set_data("/a", "").into_future());
        spawnable(&zk.sync("/a").into_future());
        spawnable(&zk.create("/a").or_set_data().idempotent().into_future());
        spawnable(&zk.exists("/a").creating_parents().watched().into_future());
        spawnable(&zk.create_containers("/a").into_future());
        spawnable(&zk.get_acl("/a").with_stat().into_future());
        spawnable(&zk.set_acl("/a", Acl::open_unsafe()).into_future());
        spawnable(&zk.add_watch("/a").into_future());
        spawnable(&zk.remove_watches("/a").into_future());
        spawnable(&zk.get_config().watched().into_future());
        spawnable(&zk.reconfig().into_future());
        spawnable(&zk.background_errors());
        let (scoped, body) = (zk.clone(), |zk: CuratorFramework| async move { zk.sync("/").await });
        spawnable(&async move { scoped.in_one_session(body).await });
        spawnable(&zk_curator::op::fan_out(2, vec![zk.sync("/a")]));
        let mut breaker =
            zk.states().circuit_breaking(zk_curator::retry::RetryOneTime::new(Duration::ZERO));
        spawnable(&async move { breaker.next().await });
        spawnable(&zk.transaction().commit());
        spawnable(&zk.states());
        spawnable(&zk.states().into_stream());
        let node = zk.create("/a").owned().await.unwrap();
        let (ownership, node_of_task) = (node.ownership().clone(), node);
        spawnable(&async move { ownership.lost().await });
        let deleted = tokio::spawn(node_of_task.delete()).await.unwrap();
        deleted.unwrap();
        zk.close().await.unwrap();
    });
}
