//! A script deletes a subtree while a session expires.

use std::time::Duration;

use regex::Regex;
use zk_curator::{Acl, CreateMode, CuratorFramework, Permissions};

use super::workload::{connected, ensemble, ephemeral, until_exists};
use crate::support::{Zkc, end};

/// The nodes of the subtree.
const NODES: usize = 120;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn a_deleted_subtree_comes_back_on_apache_zookeeper() {
    incident("a_deleted_subtree_comes_back_on_apache_zookeeper", 2_000).await;
}

mod night {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "night: scripts/night"]
    async fn a_deletion_is_found_among_a_hundred_thousand_changes() {
        let name = "a_deletion_is_found_among_a_hundred_thousand_changes";
        super::incident(name, 100_000).await;
    }
}

async fn incident(test: &str, others: usize) {
    let Some(ensemble) = ensemble(test, 10_000).await else { return };
    let mut zkc = Zkc::start().await;
    zkc.servers = ensemble.connect_string();
    let zk = connected(&zkc.servers).await;
    prepare(&zk).await;
    zkc.run(&["backup", "/config", "before.zkb"]).await.ok();
    let mut worker = ephemeral(&zkc, &zk, "/workers/w1", "10.0.0.7:8080").await;
    let writing = tokio::spawn(write(zk.clone(), others));
    worker.kill().await.expect("killed");
    until_exists(&zk, "/workers/w1", false).await;
    let script = zkc.run(&["-v", "-y", "rm", "-r", "/config"]).await;
    let pattern = Regex::new(r"session (0x[0-9a-f]+) at").expect("a pattern");
    let session = pattern.captures(&script.stderr).expect("a session")[1].to_owned();
    script.ok();
    writing.await.expect("a writer");
    ensemble.wait_until_synced().await.expect("synced");

    let leader = ensemble.leader().await.expect("a leader");
    let directory = ensemble.server(leader).data_directory().display().to_string();
    let who = async |path: &str| {
        zkc.run(&["history", "who", &directory, path, "-o", "json"]).await.json()
    };
    let deletion = who("/config").await;
    assert_eq!(deletion["change"]["session"], session, "{deletion}");
    assert_eq!(deletion["change"]["cause"], "request");
    assert_eq!(deletion["run"]["nodes"], NODES + 3);
    assert_eq!(deletion["run"]["other_changes"], 0);
    let expiry = who("/workers/w1").await;
    assert_eq!(expiry["change"]["cause"], "session-expired", "{expiry}");
    assert_eq!(expiry["author"]["address"], "10.0.0.7:8080");
    assert_eq!(expiry["author"]["timeout_ms"], 2_000);

    // A service waits for the node, and sees it again.
    let wait = ["wait", "/config/n1", "--exists", "--for", "2m"];
    let service = zkc.command(&wait).spawn().expect("zkc");
    let undelete = ["history", "undelete", &directory, "/config", "--apply"];
    assert_eq!(zkc.run(&undelete).await.ok(), "restored\n");
    end(service, "").await.ok();
    assert_eq!(zkc.run(&["diff", "before.zkb", "/config"]).await.ok(), "");
    ensemble.wait_until_synced().await.expect("synced");
    kinds_are_back(&zkc, &directory).await;
    zk.close().await.expect("closed");
}

/// Creates the subtree: data, ACLs, a container and a node with a time to live.
async fn prepare(zk: &CuratorFramework) {
    zk.create("/workers").await.expect("a node");
    zk.create("/config").data("root").await.expect("a node");
    let creates = (0..NODES).map(|n| {
        let acl = vec![
            Acl::new(Permissions::ALL, "world", "anyone"),
            Acl::new(Permissions::READ, "digest", format!("user{n}:hash=")),
        ];
        zk.create(format!("/config/n{n}")).data(format!("{{\"n\": {n}}}")).acl(acl)
    });
    for created in zk_curator::op::fan_out(32, creates).await {
        created.expect("a node");
    }
    let hour = Duration::from_secs(3_600);
    let ttl = zk.create("/config/hint").mode(CreateMode::PersistentWithTtl).ttl(hour);
    ttl.await.expect("a node");
    zk.create("/config/n0/child").data("deep").await.expect("a node");
}

/// Writes other nodes.
async fn write(zk: CuratorFramework, count: usize) {
    zk.create("/noise").await.expect("a node");
    let writes = (0..count).map(|n| zk.set_data("/noise", n.to_string()));
    for written in zk_curator::op::fan_out(64, writes).await {
        written.expect("written");
    }
}

async fn kinds_are_back(zkc: &Zkc, directory: &str) {
    let arguments = ["history", "tree", directory, "/config", "-o", "json"];
    let nodes = zkc.run(&arguments).await.json();
    let nodes = nodes.as_array().expect("a list");
    assert_eq!(nodes.len(), NODES + 3);
    let hint = nodes.iter().find(|node| node["path"] == "/config/hint").expect("a node");
    assert_eq!(hint["kind"], "ttl");
    assert_eq!(hint["ttl_ms"], 3_600_000);
}
