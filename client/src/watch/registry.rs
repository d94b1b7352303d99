use std::collections::HashMap;

use zk_curator_proto::records::{EventType, SetWatches};

use super::{WatchEnded, WatchSender, WatchedEvent};

/// The server's three tables of one-shot watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKind {
    /// Left by `getData`, and by `exists` on a node that exists: change and deletion.
    Data,
    /// Left by `exists` on a node that does not exist: creation.
    Exist,
    /// Left by `getChildren`: children and deletion.
    Child,
}

/// The most bytes of paths in one `setWatches` frame, well under 128 KiB with the rest of the frame.
const CHUNK_BYTES: usize = 96 * 1024;
/// Bytes of a `setWatches` frame that are not paths: header, zxid and three counts.
const FRAME_OVERHEAD: usize = 28;

type Table = HashMap<String, Vec<WatchSender>>;

/// What this client has armed on the server. Paths are the server's, with the chroot.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    data: Table,
    exist: Table,
    child: Table,
}

impl Registry {
    /// Notes an armed watch, unless nobody waits for it any more.
    pub(crate) fn arm(&mut self, kind: WatchKind, path: String, sender: WatchSender) {
        if sender.is_closed() {
            return;
        }
        let table = match kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Exist => &mut self.exist,
            WatchKind::Child => &mut self.child,
        };
        table.entry(path).or_default().push(sender);
    }

    /// Fires the watches that this event consumes. `visible_path` is the path without the chroot.
    pub(crate) fn fire(&mut self, event_type: EventType, path: &str, visible_path: &str) {
        let consumed: &mut [&mut Table] = match event_type {
            EventType::NodeCreated | EventType::NodeDataChanged => &mut [&mut self.data, &mut self.exist],
            EventType::NodeDeleted => &mut [&mut self.data, &mut self.exist, &mut self.child],
            EventType::NodeChildrenChanged => &mut [&mut self.child],
            _ => &mut [],
        };
        for table in consumed {
            for sender in table.remove(path).into_iter().flatten() {
                let event = WatchedEvent { event_type, path: visible_path.to_owned() };
                // A failure means that nobody waits any more.
                drop(sender.send(Ok(event)));
            }
        }
    }

    /// Drops the watches on `path` that nobody waits for.
    pub(crate) fn forget(&mut self, path: &str) {
        for table in [&mut self.data, &mut self.exist, &mut self.child] {
            if let Some(senders) = table.get_mut(path) {
                senders.retain(|sender| !sender.is_closed());
                if senders.is_empty() {
                    table.remove(path);
                }
            }
        }
    }

    /// Ends every watch.
    pub(crate) fn end(&mut self, why: WatchEnded) {
        for table in [&mut self.data, &mut self.exist, &mut self.child] {
            for sender in table.drain().flat_map(|(_, senders)| senders) {
                // A failure means that nobody waits any more.
                drop(sender.send(Err(why)));
            }
        }
    }

    /// The requests that re-arm everything after a reconnect, each of bounded size, and of at most `max_frame`
    /// bytes unless a single path is longer.
    pub(crate) fn rearm(&self, relative_zxid: i64, max_frame: usize) -> Vec<SetWatches> {
        let limit = CHUNK_BYTES.min(max_frame.saturating_sub(FRAME_OVERHEAD));
        let mut chunks = Vec::new();
        let mut chunk = SetWatches { relative_zxid, ..SetWatches::default() };
        let mut bytes = 0;
        let kinds =
            [(WatchKind::Data, &self.data), (WatchKind::Exist, &self.exist), (WatchKind::Child, &self.child)];
        for (kind, table) in kinds {
            for path in sorted_paths(table) {
                if bytes > 0 && bytes + path.len() + 4 > limit {
                    let empty = SetWatches { relative_zxid, ..SetWatches::default() };
                    chunks.push(std::mem::replace(&mut chunk, empty));
                    bytes = 0;
                }
                bytes += path.len() + 4;
                let paths = match kind {
                    WatchKind::Data => &mut chunk.data_watches,
                    WatchKind::Exist => &mut chunk.exist_watches,
                    WatchKind::Child => &mut chunk.child_watches,
                };
                paths.push(path.clone());
            }
        }
        if bytes > 0 {
            chunks.push(chunk);
        }
        chunks
    }
}

/// In order, so that the same run sends the same bytes.
fn sorted_paths(table: &Table) -> Vec<&String> {
    let mut paths: Vec<_> = table.keys().collect();
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn two_thousand_watches_are_rearmed_in_frames_under_128_kib() {
        let mut registry = Registry::default();
        let mut receivers = Vec::new();
        for n in 0..4000 {
            let (sender, receiver) = oneshot::channel();
            registry.arm(WatchKind::Data, format!("/{}/{n:04}", "x".repeat(63)), sender);
            receivers.push(receiver);
        }
        let chunks = registry.rearm(7, usize::MAX);
        assert!(chunks.len() > 1);
        assert_eq!(chunks.iter().map(|chunk| chunk.data_watches.len()).sum::<usize>(), 4000);
        for chunk in chunks {
            assert_eq!(chunk.relative_zxid, 7);
            assert!(chunk.data_watches.iter().map(|path| path.len() + 4).sum::<usize>() < 128 * 1024);
        }
    }

    #[test]
    fn an_event_consumes_the_watches_that_zookeeper_consumes() {
        let mut registry = Registry::default();
        let mut arm = |kind| {
            let (sender, receiver) = oneshot::channel();
            registry.arm(kind, "/a".to_owned(), sender);
            receiver
        };
        let (mut data, mut child) = (arm(WatchKind::Data), arm(WatchKind::Child));
        registry.fire(EventType::NodeDataChanged, "/a", "/a");
        assert_eq!(data.try_recv().unwrap().unwrap().event_type, EventType::NodeDataChanged);
        assert!(child.try_recv().is_err());
        registry.fire(EventType::NodeDeleted, "/a", "/a");
        assert_eq!(child.try_recv().unwrap().unwrap().event_type, EventType::NodeDeleted);
        assert!(registry.rearm(0, usize::MAX).is_empty());
    }

    #[test]
    fn an_abandoned_watch_is_not_rearmed() {
        let mut registry = Registry::default();
        let (sender, receiver) = oneshot::channel();
        registry.arm(WatchKind::Child, "/a".to_owned(), sender);
        drop(receiver);
        registry.forget("/a");
        assert!(registry.rearm(0, usize::MAX).is_empty());
    }
}
