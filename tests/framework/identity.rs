//! Deletes of nodes with shared names: they hit the intended node, or none.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{join, join3};
use zk_curator::CreateMode;
use zk_curator_proto::OpCode;
use zk_curator_testing::Verdict;
use zk_curator_tests::{
    connected, session_id, simulated_each, simulated_each_on, simulated_with, two_in_memory, until,
};

/// A guard and a delete by identity: both read the node, and one deletes it. The other finds out
/// before it deletes the node that another client has created in the meantime.
#[test]
fn a_node_with_two_deletes_is_deleted_once() {
    simulated_each_on([true, false], two_in_memory, async |dropped, (server, zk, other)| {
        let first = zk.create("/n").mode(CreateMode::Ephemeral).data("ours").owned().await.unwrap();
        let second = zk.delete("/n").czxid(first.stat().czxid).into_future();
        let ours = session_id(&zk).get();
        let deletes = AtomicU32::new(0);
        let _late = server.rule(move |request| {
            let is_second = request.is(OpCode::Delete)
                && request.session_id() == ours
                && deletes.fetch_add(1, Ordering::Relaxed) == 1;
            if is_second { Verdict::Delay(Duration::from_secs(1)) } else { Verdict::Pass }
        });
        let replaced = async {
            until(&server, |probe| !probe.exists("/n")).await;
            other.create("/n").await.expect("the name is free").stat
        };
        let theirs = if dropped {
            drop(first);
            let (deleted, theirs) = join(second, replaced).await;
            drop(deleted);
            theirs
        } else {
            let (_, _, theirs) = join3(first.delete(), second, replaced).await;
            theirs
        };
        zk.close().await.unwrap();
        assert_eq!(server.probe().stat("/n"), Some(theirs));
    });
}

/// A delete that names the node looks before it is sent, also the first time.
#[test]
fn a_delete_by_czxid_leaves_another_node_alone() {
    simulated_each([false, true], async |guaranteed, server, zk| {
        let ours = zk.create("/n").await.unwrap().stat.czxid;
        let other = connected(&server).await;
        other.delete("/n").await.unwrap();
        other.create("/n").await.unwrap();
        let theirs = server.probe().stat("/n");
        let delete = zk.delete("/n").czxid(ours);
        let delete = if guaranteed { delete.guaranteed() } else { delete };
        delete.await.unwrap();
        assert_eq!(server.probe().stat("/n"), theirs);
        let theirs = theirs.expect("it is there").czxid;
        zk.delete("/n").czxid(theirs).await.unwrap();
        assert!(!server.probe().exists("/n"));
    });
}

#[test]
fn a_node_with_a_unique_name_is_deleted_in_one_request() {
    simulated_with(async |server, zk| {
        for dropped in [true, false] {
            let create = zk.create("/1f0c52a0").mode(CreateMode::Ephemeral).data("ours");
            let node = create.protected_by_data().unique_name().owned().await.unwrap();
            let before = server.probe().total_requests();
            if dropped {
                drop(node);
                until(&server, |probe| !probe.exists("/1f0c52a0")).await;
            } else {
                node.delete().await.unwrap();
            }
            assert_eq!(server.probe().total_requests() - before, 1);
        }
    });
}
