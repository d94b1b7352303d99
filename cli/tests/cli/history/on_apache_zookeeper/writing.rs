//! A directory that a server is writing.

use std::time::Duration;

use zk_curator_ops::history::{Files, FollowEvent, Index};
use zk_curator_testing::wait;

use super::workload::{connected, ensemble};

/// The number of writes. The server begins several logs in this time.
const WRITES: i32 = 1_500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn every_write_of_apache_zookeeper_is_followed_once() {
    let name = "every_write_of_apache_zookeeper_is_followed_once";
    let Some(ensemble) = ensemble(name, 300).await else { return };
    let zk = connected(&ensemble.connect_string()).await;
    zk.create("/f").await.expect("a node");
    ensemble.wait_until_synced().await.expect("synced");
    let leader = ensemble.leader().await.expect("a leader");
    let directory = ensemble.server(leader).data_directory();
    let files = Files::find([directory]).expect("files");
    let mut follow = Index::new(&files).path("/f").follow([directory]).expect("a reader");
    let writer = zk.clone();
    let writing = tokio::spawn(async move {
        for n in 0..WRITES {
            writer.set_data("/f", n.to_string()).await.expect("written");
        }
    });
    let reading = async {
        let mut versions = Vec::new();
        while versions.len() < WRITES as usize {
            match follow.next_event().expect("an event") {
                Some(FollowEvent::Change(change)) => {
                    let after = change.after.expect("a state");
                    versions.push(after.version.expect("a version"));
                }
                Some(other) => panic!("{other:?}"),
                None => wait::spend(Duration::from_millis(10)).await,
            }
        }
        versions
    };
    let versions = tokio::time::timeout(Duration::from_secs(120), reading).await;
    assert_eq!(versions.expect("all writes"), (1..=WRITES).collect::<Vec<_>>());
    writing.await.expect("a writer");
    let files = Files::find([directory]).expect("files");
    assert!(files.logs.len() > 2, "{} logs", files.logs.len());
    zk.close().await.expect("closed");
}
