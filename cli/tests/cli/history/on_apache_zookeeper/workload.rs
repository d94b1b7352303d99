//! An ensemble, and transactions of every kind.

use std::time::Duration;

use zk_curator::{Acl, CreateMode, CuratorFramework, Permissions};
use zk_curator_real::{self as real, RealEnsemble};
use zk_curator_testing::wait;

use crate::support::Zkc;

/// The time that a state of the servers may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts three servers that take a snapshot after about this many transactions.
pub(super) async fn ensemble(test: &str, snapshot_every: u32) -> Option<RealEnsemble> {
    let builder = RealEnsemble::builder(3)
        .jvm_property("zookeeper.snapCount", snapshot_every)
        .jvm_property("znode.container.checkIntervalMs", 500)
        .jvm_property("zookeeper.skipACL", "yes")
        .setting("reconfigEnabled", true);
    real::or_skip_ensemble_with(test, builder).await
}

pub(super) async fn connected(servers: &str) -> CuratorFramework {
    let builder = CuratorFramework::builder().connect_string(servers);
    let zk = builder.session_timeout(Duration::from_secs(40)).build().expect("settings");
    zk.start().await.expect("connected");
    zk
}

/// Waits until a node exists, or does not exist any more.
pub(super) async fn until_exists(zk: &CuratorFramework, path: &str, exists: bool) {
    let is_reached =
        wait::until(async || zk.exists(path).await.is_ok_and(|found| found.is_some() == exists));
    tokio::time::timeout(PATIENCE, is_reached).await.expect(path);
}

/// Starts a process with an ephemeral node, whose session expires soon after it is killed.
pub(super) async fn ephemeral(
    zkc: &Zkc,
    zk: &CuratorFramework,
    path: &str,
    data: &str,
) -> tokio::process::Child {
    let arguments = ["--session-timeout", "2s", "create", "-e", path, data];
    let child = zkc.command(&arguments).spawn().expect("zkc");
    until_exists(zk, path, true).await;
    child
}

/// Applies transactions of every kind below a new node.
pub(super) async fn every_kind(zkc: &Zkc, zk: &CuratorFramework, root: &str) {
    let below = |name: &str| format!("{root}/{name}");
    zk.create(root).data("root").await.expect("a node");
    let creates = (0..150).map(|n| zk.create(below(&format!("n{n}"))).data(format!("data of {n}")));
    for created in zk_curator::op::fan_out(32, creates).await {
        created.expect("a node");
    }
    for n in 0..50 {
        let path = below(&format!("n{n}"));
        if n % 3 == 0 {
            zk.set_data(&path, "changed").await.expect("written");
        } else if n % 3 == 1 {
            zk.delete(&path).await.expect("deleted");
        } else {
            let acl = vec![
                Acl::new(Permissions::ALL, "world", "anyone"),
                Acl::new(Permissions::READ, "digest", format!("user{n}:hash=")),
            ];
            zk.set_acl(&path, acl).await.expect("written");
        }
    }
    let live = zk.create(below("live")).mode(CreateMode::Ephemeral).data("web-1:80");
    live.await.expect("a node");
    zk.create(below("s-")).mode(CreateMode::PersistentSequential).await.expect("a node");
    kinds(zk, root).await;
    multis(zk, root).await;
    sessions(zkc, zk, root).await;
    zkc.run(&["quota", root, "--nodes", "1000"]).await.ok();
}

/// Containers and nodes with a time to live, some of which the leader deletes.
async fn kinds(zk: &CuratorFramework, root: &str) {
    for name in ["reaped", "kept"] {
        let path = format!("{root}/{name}");
        zk.create(&path).mode(CreateMode::Container).await.expect("a container");
        zk.create(format!("{path}/child")).await.expect("a node");
    }
    zk.delete(format!("{root}/reaped/child")).await.expect("deleted");
    for (name, ttl) in [("short-ttl", Duration::from_secs(1)), ("hour", Duration::from_secs(3_600))]
    {
        let create = zk.create(format!("{root}/{name}")).mode(CreateMode::PersistentWithTtl);
        create.ttl(ttl).await.expect("a node");
    }
    until_exists(zk, &format!("{root}/reaped"), false).await;
    until_exists(zk, &format!("{root}/short-ttl"), false).await;
}

/// Transactions that succeed and that fail, and a request that fails.
async fn multis(zk: &CuratorFramework, root: &str) {
    let (one, two) = (format!("{root}/m1"), format!("{root}/m2"));
    let applied = zk.transaction().create(&one, "1").set_data(&one, "2").create(&two, "");
    applied.delete(&two).commit().await.expect("applied");
    let refused = zk.transaction().create(&two, "").check(root, 99).commit().await;
    assert!(refused.is_err());
    assert!(zk.create(root).await.is_err());
}

/// A closed session, and an expired one.
async fn sessions(zkc: &Zkc, zk: &CuratorFramework, root: &str) {
    let other = connected(&zkc.servers).await;
    let closed = format!("{root}/closed");
    other.create(&closed).mode(CreateMode::Ephemeral).await.expect("a node");
    other.close().await.expect("closed");
    until_exists(zk, &closed, false).await;
    let short = format!("{root}/short");
    zk.create(&short).await.expect("a node");
    let path = format!("{short}/worker");
    let mut worker = ephemeral(zkc, zk, &path, "10.0.0.7:8080").await;
    worker.kill().await.expect("killed");
    until_exists(zk, &path, false).await;
}
