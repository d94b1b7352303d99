//! Nodes of a former process with the same id.

use std::sync::Arc;
use std::time::Duration;

use zk_curator::{Acl, CreateMode, ErrorKind, Permissions};
use zk_curator_proto::OpCode;
use zk_curator_recipes::group::{Group, GroupMember};
use zk_curator_recipes::lease::{PreviousIncarnation, SessionLease};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::Verdict;
use zk_curator_tests::{
    builder_for, cluster_of_three, cut_off, in_memory, once, poll_then_drop, simulated_on,
    simulated_steps_on, simulated_with, start, two_in_memory,
};

const LOCK: &str = "/locks/orders";
const GROUP: &str = "/groups/workers";

#[test]
fn nodes_of_the_former_process_are_deleted() {
    simulated_on(two_in_memory, async |(server, killed, zk)| {
        let held = InterProcessMutex::new(&killed, LOCK).label("w-7").acquire().await.unwrap();
        let member = GroupMember::builder(&killed, GROUP, "w-7").data("x").start();
        member.joined().await.unwrap();
        let _cut = cut_off(&server, &killed);
        let other = InterProcessMutex::new(&zk, LOCK).label("w-8");
        assert!(other.try_acquire().await.unwrap().is_none());

        let former = PreviousIncarnation::of(&zk, "w-7").below(LOCK).below(GROUP).below("/none");
        let deleted = former.delete().await.unwrap();
        assert_eq!(deleted, [held.path().to_owned(), format!("{GROUP}/w-7")]);
        assert!(other.try_acquire().await.unwrap().is_some());
        assert!(Group::new(&zk, GROUP).members().await.unwrap().is_empty());
        assert!(former.delete().await.unwrap().is_empty());
    });
}

#[test]
fn all_other_nodes_stay() {
    simulated_on(two_in_memory, async |(server, other, zk)| {
        zk.create("/p").await.unwrap();
        // Persistent, of our session, with another id, without data, and of a session to keep.
        zk.create("/p/persistent").data("w-7").await.unwrap();
        zk.create("/p/ours").data("w-7").mode(CreateMode::Ephemeral).await.unwrap();
        other.create("/p/w-70").data("w-70").mode(CreateMode::Ephemeral).await.unwrap();
        other.create("/p/empty").mode(CreateMode::Ephemeral).await.unwrap();
        let lease = SessionLease::builder(&zk).open().await.unwrap();
        lease.create("/p/lease").data("w-7").await.unwrap();

        let former = PreviousIncarnation::of(&zk, "w-7").below("/p").keep(lease.session_id());
        assert!(former.delete().await.unwrap().is_empty());
        assert_eq!(server.probe().paths().len(), 6);
        let former = PreviousIncarnation::of(&zk, "w-7").below("/p");
        assert_eq!(former.delete().await.unwrap(), ["/p/lease"]);
    });
}

#[test]
fn nodes_that_a_lagging_server_does_not_show_are_found() {
    simulated_on(cluster_of_three, async |cluster| {
        let follower = (cluster.leader().unwrap() + 1) % 3;
        let on = async |member: usize| {
            let builder = builder_for(&cluster.member(member).connect_string());
            start(builder.connector(Arc::new(cluster.connector()))).await
        };
        let (killed, zk) = (on(cluster.leader().unwrap()).await, on(follower).await);
        zk.create("/p").await.unwrap();
        let _lag = cluster.lag_by(follower, Duration::from_secs(2));
        killed.create("/p/a").data("w-7").mode(CreateMode::Ephemeral).await.unwrap();
        assert!(zk.children("/p").await.unwrap().is_empty(), "it does not lag");
        let former = PreviousIncarnation::of(&zk, "w-7").below("/p");
        assert_eq!(former.delete().await.unwrap(), ["/p/a"]);
    });
}

#[test]
fn invalid_ids_and_paths_are_refused() {
    simulated_with(async |_server, zk| {
        let empty = PreviousIncarnation::of(&zk, "").below("/p").delete().await.unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::InvalidArgument);
        let bad = PreviousIncarnation::of(&zk, "a").below("p").delete().await.unwrap_err();
        assert_eq!(bad.kind(), ErrorKind::InvalidPath);
    });
}

#[test]
fn lost_reply_of_a_delete_is_no_error() {
    simulated_on(two_in_memory, async |(server, killed, zk)| {
        let _held = InterProcessMutex::new(&killed, LOCK).label("w-7").acquire().await.unwrap();
        let lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        let former = PreviousIncarnation::of(&zk, "w-7").below(LOCK);
        assert_eq!(former.delete().await.unwrap().len(), 1);
        assert_eq!(lost.hits(), 1);
    });
}

/// A node that its process has changed since the read belongs to a living one.
#[test]
fn node_that_was_changed_since_its_read_stays() {
    simulated_on(two_in_memory, async |(server, living, zk)| {
        zk.create("/p").await.unwrap();
        living.create("/p/a").data("w-7").mode(CreateMode::Ephemeral).await.unwrap();
        let late = once(&server, OpCode::Delete, Verdict::Delay(Duration::from_secs(1)));
        let former = PreviousIncarnation::of(&zk, "w-7").below("/p");
        let changed = async {
            late.fired().await;
            living.set_data("/p/a", "w-7").await.unwrap();
        };
        let (deleted, ()) = tokio::join!(former.delete(), changed);
        assert!(deleted.unwrap().is_empty());
        assert!(zk.exists("/p/a").await.unwrap().is_some());
    });
}

#[test]
fn dropped_call_can_be_repeated() {
    simulated_steps_on(
        3,
        async || {
            let (server, zk) = in_memory().await;
            let killed = zk_curator_tests::connected(&server).await;
            (server, zk, killed)
        },
        async |step, (_server, zk, killed)| {
            let _held = InterProcessMutex::new(&killed, LOCK).label("w").acquire().await.unwrap();
            let former = PreviousIncarnation::of(&zk, "w").below(LOCK);
            let done = poll_then_drop(former.delete(), step).await.is_some();
            former.delete().await.unwrap();
            assert!(zk.children(LOCK).await.unwrap().is_empty());
            done
        },
    );
}

#[test]
fn a_node_that_cannot_be_read_does_not_protect_the_others() {
    simulated_on(two_in_memory, async |(_, killed, zk)| {
        let held = InterProcessMutex::new(&killed, LOCK).label("w-7").acquire().await.unwrap();
        let acl = vec![Acl::new(Permissions::ADMIN, "world", "anyone")];
        zk.create(format!("{LOCK}/secret")).data("w-7").acl(acl).await.unwrap();
        let deleted = PreviousIncarnation::of(&zk, "w-7").below(LOCK).delete().await.unwrap();
        assert_eq!(deleted, [held.path()]);
    });
}
