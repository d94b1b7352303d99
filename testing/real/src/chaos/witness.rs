//! A witness of the writes that the servers have acknowledged, because the servers may lose them.
//!
//! In Apache ZooKeeper before 3.9.4, a server that has missed transactions may become the leader if
//! servers end during elections. All transactions that the others have committed in between are
//! then lost (ZOOKEEPER-4643, 4646, 4785). In that case every recipe breaks its guarantees at the
//! same time, and the round proves nothing about any of them.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_curator::{CuratorFramework, ErrorKind, Stat};
use zk_curator_client::internal::sleep;

/// The interval between two writes.
const PAUSE: Duration = Duration::from_millis(100);

/// Writes a node of its own until the faults are over, and once after that. Returns the evidence if
/// an acknowledged write is gone.
pub(super) async fn watch(
    zk: &CuratorFramework,
    path: String,
    over: CancellationToken,
) -> Option<String> {
    let mut last = None;
    loop {
        let is_last = over.is_cancelled();
        match zk.set_data(path.as_str(), "").await {
            Ok(stat) => {
                if let Some(lost) = last.as_ref().and_then(|last| lost(last, &stat)) {
                    return Some(lost);
                }
                last = Some(stat);
            }
            Err(error) if error.kind() == ErrorKind::NoNode => {
                return Some(format!(
                    "the node {path}, which was created before the faults, is gone"
                ));
            }
            // No server is available now.
            Err(_) => {}
        }
        if is_last {
            return None;
        }
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            () = sleep(PAUSE) => {}
        }
    }
}

/// Returns the evidence that the second of two consecutive writes shows the loss of the first. Each
/// write increments the version, even if its response was lost.
fn lost(first: &Stat, second: &Stat) -> Option<String> {
    let grows = second.czxid == first.czxid && second.version > first.version;
    (!grows).then(|| {
        let told = |stat: &Stat| format!("version {} at {:#x}", stat.version, stat.mzxid);
        format!("a write that was acknowledged as {} was followed by {}", told(first), told(second))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(czxid: i64, mzxid: i64, version: i32) -> Stat {
        let mut stat = Stat::default();
        (stat.czxid, stat.mzxid, stat.version) = (czxid, mzxid, version);
        stat
    }

    #[test]
    fn a_version_that_does_not_grow_shows_that_writes_are_lost() {
        let first = written(5, 0x1d_0000_291e, 57);
        for version in [58, 60] {
            assert_eq!(lost(&first, &written(5, 0x1f_0000_0001, version)), None);
        }
        let told = "a write that was acknowledged as version 57 at 0x1d0000291e was followed by version 31 at 0x1f00000001";
        assert_eq!(lost(&first, &written(5, 0x1f_0000_0001, 31)).as_deref(), Some(told));
        assert!(lost(&first, &written(5, 0x1f_0000_0001, 57)).is_some());
        assert!(lost(&first, &written(6, 0x1f_0000_0001, 99)).is_some(), "another node");
    }
}
