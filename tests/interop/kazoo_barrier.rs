//! kazoo's `Barrier` and `DistributedBarrier` are one barrier.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;
use zk_curator_recipes::barrier::DistributedBarrier;
use zk_curator_testing::TestServer;
use zk_curator_tests::{builder_for, start};

use crate::kazoo::python_or_skip;

const PATIENCE: Duration = Duration::from_secs(60);

/// kazoo waits at our barrier, then sets a barrier for us, and removes it on command.
const SCRIPT: &str = r#"
import sys
from kazoo.client import KazooClient

zk = KazooClient(hosts=sys.argv[1], timeout=10)
zk.start(timeout=30)
print("WAITS", flush=True)
assert zk.Barrier("/barriers/ours").wait(60)
zk.Barrier("/barriers/theirs").create()
print("SET", flush=True)
sys.stdin.readline()
zk.Barrier("/barriers/theirs").remove()
zk.stop()
"#;

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn kazoo_and_rust_wait_at_each_others_barriers() {
    let name = "kazoo_and_rust_wait_at_each_others_barriers";
    let Some(python) = python_or_skip(name).await else { return };
    let server = TestServer::start().await;
    let zk = start(builder_for(&server.connect_string())).await;
    let (ours, theirs) = (
        DistributedBarrier::new(&zk, "/barriers/ours"),
        DistributedBarrier::new(&zk, "/barriers/theirs"),
    );
    ours.set().await.unwrap();

    let mut kazoo = Command::new(python)
        .args(["-B", "-c", SCRIPT, &server.connect_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(kazoo.stdout.take().unwrap()).lines();
    let case = async {
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("WAITS"));
        server.until(|probe| probe.watches().len() == 1).await;
        ours.remove().await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("SET"));
        let mut waits = Box::pin(theirs.wait());
        assert!(futures_util::FutureExt::now_or_never(&mut waits).is_none());
        server.until(|probe| probe.watches().len() == 1).await;
        drop(kazoo.stdin.take());
        waits.await.unwrap();
        assert!(kazoo.wait().await.unwrap().success());
    };
    timeout(PATIENCE, case).await.unwrap();
}
