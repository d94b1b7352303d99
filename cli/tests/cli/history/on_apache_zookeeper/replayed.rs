//! A replayed tree is the tree of a server that was started on the same files.

use std::fs;
use std::path::Path;

use zk_curator::CuratorFramework;
use zk_curator_ops::history::{At, Check, Files, Log, Logs, Replay, Snapshot, Tree};
use zk_curator_real::{RealEnsemble, RealZooKeeper, TempDir};

use super::workload::{connected, ensemble, every_kind};
use crate::support::Zkc;

/// The number of moments at which a server is started.
const SAMPLES: usize = 10;

mod night {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "night: scripts/night"]
    async fn a_replay_is_the_tree_of_a_server() {
        super::a_replay_is_the_tree_of_a_server("a_replay_is_the_tree_of_a_server").await;
    }
}

async fn a_replay_is_the_tree_of_a_server(test: &str) {
    let Some(mut ensemble) = ensemble(test, 300).await else { return };
    let mut zkc = Zkc::start().await;
    zkc.servers = ensemble.connect_string();
    let zk = connected(&zkc.servers).await;
    every_kind(&zkc, &zk, "/one").await;
    ensemble.wait_until_synced().await.expect("synced");
    let follower = ensemble.follower().await.expect("a follower");
    ensemble.kill(follower).await.expect("killed");
    every_kind(&zkc, &zk, "/two").await;
    ensemble.restart(follower).await.expect("a restart");
    ensemble.wait_until_synced().await.expect("synced");
    let leader = ensemble.leader().await.expect("a leader");
    ensemble.kill(leader).await.expect("killed");
    ensemble.leader().await.expect("another leader");
    zk.wait_connected().await.expect("connected");
    every_kind(&zkc, &zk, "/three").await;
    ensemble.restart(leader).await.expect("a restart");
    ensemble.wait_until_synced().await.expect("synced");
    reconfigure(&zk, &ensemble).await;
    zk.close().await.expect("closed");
    ensemble.wait_until_synced().await.expect("synced");
    for server in 0..3 {
        ensemble.stop(server).await.expect("stopped");
    }
    for server in 0..3 {
        let files = Files::find([ensemble.server(server).data_directory()]).expect("files");
        digests_agree(&files);
        if server == leader {
            trees_are_equal(&files).await;
        }
    }
}

/// Changes the configuration: the members tell where clients reach them.
async fn reconfigure(zk: &CuratorFramework, ensemble: &RealEnsemble) {
    let config = zk.get_config().await.expect("a configuration");
    let version = config.version.expect("a version");
    let members = config.servers.iter().zip(ensemble.servers());
    let members = members.map(|(member, server)| format!("{member};{}", server.addr().port()));
    zk.reconfig().joining(members).from_config(version).await.expect("reconfigured");
}

/// Recomputes the digests that the server has recorded.
fn digests_agree(files: &Files) {
    let report = Check::new(files).run().expect("a check");
    let digests = report.digests.expect("a comparison");
    assert!(digests.matched > 500, "{digests:?}");
    assert_eq!((digests.mismatched, report.misfits, report.out_of_order), (0, 0, 0), "{digests:?}");
    assert!(report.logs.iter().all(|log| log.error.is_none() && log.damage.is_empty()));
    assert!(report.gaps.iter().all(|gap| gap.bridged_by.is_some()), "{:?}", report.gaps);
}

/// Starts a server on the files up to a transaction, for a sample of transactions.
async fn trees_are_equal(files: &Files) {
    let zxids = zxids(files);
    let step = zxids.len() / SAMPLES;
    assert!(step > 0, "{} transactions", zxids.len());
    for zxid in zxids.iter().skip(step / 2).step_by(step).chain(zxids.last()) {
        let replayed = Replay::new(files).run(At::Zxid(*zxid)).expect("a replay");
        assert_eq!(replayed.zxid, *zxid);
        let folder = TempDir::new("zkc-history").expect("a folder");
        copy_up_to(files, *zxid, folder.path());
        let server = RealZooKeeper::builder()
            .data_directory(folder.path())
            .jvm_property("zookeeper.snapshot.trust.empty", true)
            .jvm_property("zookeeper.skipACL", "yes")
            .quick_start();
        let server = server.start().await.expect("a server");
        let zk = connected(&server.connect_string()).await;
        let compared = compare(&replayed.tree, &zk).await;
        assert!(compared > 0, "{zxid:#x}");
        zk.close().await.expect("closed");
    }
}

fn zxids(files: &Files) -> Vec<i64> {
    let (mut logs, mut zxids) = (Logs::new(files), Vec::new());
    while let Some(record) = logs.next_record().expect("a record") {
        zxids.push(record.header.zxid);
    }
    zxids
}

/// Copies the files of a server up to a transaction.
fn copy_up_to(files: &Files, zxid: i64, into: &Path) {
    let folder = into.join("version-2");
    fs::create_dir_all(&folder).expect("a folder");
    for snapshot in &files.snapshots {
        let is_old = snapshot.zxid == 0 || fuzzy_until(&snapshot.path, snapshot.zxid) <= zxid;
        if is_old {
            let name = snapshot.path.file_name().expect("a name");
            fs::copy(&snapshot.path, folder.join(name)).expect("a copy");
        }
    }
    for log in files.logs.iter().filter(|log| log.zxid <= zxid) {
        let mut bytes = fs::read(&log.path).expect("a log");
        if let Some(end) = end_of(&log.path, zxid) {
            bytes.truncate(usize::try_from(end).expect("a short file"));
        }
        fs::write(folder.join(log.path.file_name().expect("a name")), bytes).expect("a copy");
    }
}

/// Returns the last transaction that a snapshot may contain; the greatest one if it does not tell.
fn fuzzy_until(path: &Path, zxid: i64) -> i64 {
    let Ok(mut snapshot) = Snapshot::open(path) else { return i64::MAX };
    while snapshot.next_node().is_ok_and(|node| node.is_some()) {}
    snapshot.end().and_then(|end| end.fuzzy_until(zxid)).unwrap_or(i64::MAX)
}

/// Returns the position of the first record of a log that is later than a transaction.
fn end_of(path: &Path, zxid: i64) -> Option<u64> {
    let mut log = Log::open(path).expect("a log");
    loop {
        let next = log.next_record().expect("a record").map(|record| record.header.zxid);
        match next {
            Some(next) if next > zxid => return log.offset(),
            Some(_) => {}
            None => return None,
        }
    }
}

/// Compares all nodes: children, data, metadata and ACLs. Returns their number.
async fn compare(tree: &Tree, zk: &CuratorFramework) -> usize {
    let (mut left, mut compared) = (vec!["/".to_owned()], 0);
    while let Some(path) = left.pop() {
        let node = tree.get(&path).unwrap_or_else(|| panic!("{path} is missing"));
        let mut children = zk.children(&path).await.expect("children");
        children.sort();
        let expected = node.children();
        let expected: Vec<_> = expected.iter().map(|child| child.name().to_owned()).collect();
        assert_eq!(children, expected, "{path}");
        let read = zk.get_data(&path).undecompressed().with_stat().await;
        let (data, stat) = read.expect("data");
        assert_eq!(data, node.data().unwrap_or_default(), "{path}");
        assert_eq!(stat, node.stat(), "{path}");
        let acl = zk.get_acl(&path).await.expect("an ACL");
        assert_eq!(Some(acl), node.acl().expect("text"), "{path}");
        compared += 1;
        let names = children.into_iter().filter(|name| is_compared(&path, name));
        left.extend(names.map(|name| format!("{}/{name}", path.trim_end_matches('/'))));
    }
    compared
}

/// Returns `false` for nodes that servers change by themselves: their configuration and the usage
/// of quotas, without transactions, and the ephemeral nodes of sessions that expire soon.
fn is_compared(parent: &str, name: &str) -> bool {
    !(parent == "/zookeeper" && name == "config") && name != "zookeeper_stats" && name != "short"
}
