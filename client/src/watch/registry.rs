use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use zk_curator_proto::records::{EventType, SetWatches, SetWatches2, WatcherType};
use zk_curator_proto::{ErrorCode, Request};

use super::event::{Fired, WatchSender};
use super::{PersistentEvent, WatchEnded, WatchedEvent};

/// The changes that a watch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WatchKind {
    /// Left by `getData`, and by `exists` on a node that exists: change and deletion.
    Data = 1,
    /// Left by `exists` on a node that does not exist: creation. In the server's books a data watch.
    Exist = 2,
    /// Left by `getChildren`: children and deletion.
    Child = 4,
    /// Of `addWatch`: everything that happens to the node, again and again.
    Persistent = 8,
    /// Of `addWatch`: everything that happens to the node and below it, but for `NodeChildrenChanged`.
    Recursive = 16,
}

const ALL_KINDS: [WatchKind; 5] =
    [WatchKind::Data, WatchKind::Exist, WatchKind::Child, WatchKind::Persistent, WatchKind::Recursive];

/// A set of [`WatchKind`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Kinds(u8);

impl Kinds {
    const ONE_SHOT_DATA: Self = Self(WatchKind::Data as u8 | WatchKind::Exist as u8);
    const CHILD: Self = Self(WatchKind::Child as u8);
    const LASTING: Self = Self(WatchKind::Persistent as u8 | WatchKind::Recursive as u8);

    const fn of(kind: WatchKind) -> Self {
        Self(kind as u8)
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn contains(self, kind: WatchKind) -> bool {
        self.0 & kind as u8 != 0
    }
}

/// The receivers of an event.
#[derive(Debug)]
pub(crate) enum Sink {
    Once(WatchSender),
    Stream(mpsc::UnboundedSender<PersistentEvent>),
}

impl Sink {
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Once(sender) => sender.is_closed(),
            Self::Stream(sender) => sender.is_closed(),
        }
    }

    /// Tells a stream; a one-shot watch is not told this way.
    fn tell(&self, event: PersistentEvent) {
        if let Self::Stream(sender) = self {
            // A failure means that nobody reads any more.
            drop(sender.send(event));
        }
    }

    fn end(self, why: WatchEnded) {
        match self {
            // A failure means that nobody waits any more.
            Self::Once(sender) => _ = sender.send(Box::new(Err(why))).is_ok(),
            Self::Stream(sender) => drop(sender.send(PersistentEvent::Ended(why))),
        }
    }
}

type Handle = (WatchKind, Sink);

/// The handles on one path: nearly always one, which then needs no allocation of its own.
#[derive(Debug, Default)]
enum Handles {
    #[default]
    None,
    One(Handle),
    Many(Vec<Handle>),
}

impl Handles {
    fn as_slice(&self) -> &[Handle] {
        match self {
            Self::None => &[],
            Self::One(handle) => std::slice::from_ref(handle),
            Self::Many(handles) => handles,
        }
    }

    fn push(&mut self, handle: Handle) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(handle),
            Self::One(first) => Self::Many(vec![first, handle]),
            Self::Many(mut handles) => {
                handles.push(handle);
                Self::Many(handles)
            }
        };
    }

    /// Takes out the handles for which this holds.
    fn extract(&mut self, mut taken: impl FnMut(&Handle) -> bool) -> Self {
        let mut out = Self::None;
        for handle in std::mem::take(self).into_iter() {
            if taken(&handle) { out.push(handle) } else { self.push(handle) }
        }
        out
    }

    fn into_iter(self) -> impl Iterator<Item = Handle> {
        let (one, many) = match self {
            Self::None => (None, Vec::new()),
            Self::One(handle) => (Some(handle), Vec::new()),
            Self::Many(handles) => (None, handles),
        };
        one.into_iter().chain(many)
    }
}

/// The watches on one path.
#[derive(Debug, Default)]
struct Entry {
    handles: Handles,
    /// The watches that the server of this connection has armed.
    armed: Kinds,
    /// How many requests are under way that will arm something.
    arming: u32,
}

impl Entry {
    fn wanted(&self) -> Kinds {
        self.handles.as_slice().iter().fold(Kinds::default(), |kinds, (kind, _)| kinds.or(Kinds::of(*kind)))
    }

    fn is_idle(&self) -> bool {
        self.handles.as_slice().is_empty() && self.arming == 0
    }
}

/// The most bytes of paths in one frame that re-arms: with the rest of the frame well under 128 KiB.
const CHUNK_BYTES: usize = 96 * 1024;

/// The size of the rest of such a frame: header, zxid and the lengths of the lists.
const FRAME_OVERHEAD: usize = 36;

/// The watches that this client has armed on the server. Paths are the server's, with the chroot.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: HashMap<Arc<str>, Entry>,
    /// How many recursive watches there are: events need no look at the ancestors if there is none.
    recursive: usize,
}

impl Registry {
    /// A request was sent that will leave a watch on `path`.
    pub(crate) fn expect(&mut self, path: &Arc<str>) {
        self.entries.entry(Arc::clone(path)).or_default().arming += 1;
    }

    /// The answer to such a request: what it has armed, if anything. Answers what the server has to remove
    /// because nobody waits for it any more.
    pub(crate) fn answered(
        &mut self,
        path: &Arc<str>,
        armed: Option<(WatchKind, Sink)>,
    ) -> Option<WatcherType> {
        let entry = self.entries.entry(Arc::clone(path)).or_default();
        entry.arming = entry.arming.saturating_sub(1);
        if let Some((kind, sink)) = armed {
            entry.armed = entry.armed.or(Kinds::of(kind));
            self.recursive += usize::from(kind == WatchKind::Recursive);
            entry.handles.push((kind, sink));
        }
        self.forget(path)
    }

    /// Tells the watches that this event concerns. `visible_path` is the path without the chroot.
    pub(crate) fn fire(&mut self, fired: Fired, path: &str, visible_path: &str) {
        let Fired { event_type, zxid } = fired;
        let consumed = match event_type {
            EventType::NodeCreated | EventType::NodeDataChanged => Kinds::ONE_SHOT_DATA,
            EventType::NodeDeleted => Kinds::ONE_SHOT_DATA.or(Kinds::CHILD),
            EventType::NodeChildrenChanged => Kinds::CHILD,
            _ => return,
        };
        let event = || WatchedEvent::new(event_type, visible_path.to_owned()).with_zxid(zxid);
        if let Some(entry) = self.entries.get_mut(path) {
            entry.armed = entry.armed.without(consumed);
            for (_, sink) in entry.handles.extract(|(kind, _)| consumed.contains(*kind)).into_iter() {
                if let Sink::Once(sender) = sink {
                    // A failure means that nobody waits any more.
                    let _told = sender.send(Box::new(Ok(fired)));
                }
            }
            for (_, sink) in
                entry.handles.as_slice().iter().filter(|(kind, _)| *kind == WatchKind::Persistent)
            {
                sink.tell(PersistentEvent::Changed(event()));
            }
            if entry.is_idle() && entry.armed.is_empty() {
                self.entries.remove(path);
            }
        }
        if self.recursive > 0 && event_type != EventType::NodeChildrenChanged {
            for ancestor in ancestors(path) {
                let handles =
                    self.entries.get(ancestor).map(|entry| entry.handles.as_slice()).unwrap_or_default();
                for (_, sink) in handles.iter().filter(|(kind, _)| *kind == WatchKind::Recursive) {
                    sink.tell(PersistentEvent::Changed(event()));
                }
            }
        }
    }

    /// Drops the watches on `path` that nobody waits for. Answers what the server has to remove.
    ///
    /// It is asked to only when it can be told apart: servers before 3.9 know the lasting watches by no kind of
    /// their own, so these go when nothing else is left on the path. And never while a request is under way that
    /// arms something, for which the removal could not be told from.
    pub(crate) fn forget(&mut self, path: &str) -> Option<WatcherType> {
        let entry = self.entries.get_mut(path)?;
        let recursive = &mut self.recursive;
        for (kind, _) in entry.handles.extract(|(_, sink)| sink.is_abandoned()).into_iter() {
            *recursive -= usize::from(kind == WatchKind::Recursive);
        }
        if entry.arming > 0 {
            return None;
        }
        let wanted = entry.wanted();
        let mut stale = entry.armed.without(wanted);
        if !wanted.and(Kinds::ONE_SHOT_DATA).is_empty() {
            // One data watch on the server serves both kinds of ours.
            stale = stale.without(Kinds::ONE_SHOT_DATA);
        }
        let lasting = !entry.armed.and(Kinds::LASTING).is_empty();
        let remove = if stale.is_empty() || (lasting && !wanted.is_empty()) {
            None
        } else if lasting
            || (!stale.and(Kinds::CHILD).is_empty() && !stale.and(Kinds::ONE_SHOT_DATA).is_empty())
        {
            Some(WatcherType::Any)
        } else if stale.and(Kinds::CHILD).is_empty() {
            Some(WatcherType::Data)
        } else {
            Some(WatcherType::Children)
        };
        if remove.is_some() {
            entry.armed = entry.armed.without(stale);
        }
        if entry.is_idle() {
            self.entries.remove(path);
        }
        remove
    }

    /// The server has removed the watches of this kind at the user's request.
    pub(crate) fn removed(&mut self, path: &str, watcher_type: WatcherType) {
        let kinds = match watcher_type {
            WatcherType::Children => Kinds::CHILD,
            WatcherType::Data => Kinds::ONE_SHOT_DATA,
            WatcherType::Persistent => Kinds::of(WatchKind::Persistent),
            WatcherType::PersistentRecursive => Kinds::of(WatchKind::Recursive),
            // `Any`, and what is added to that enum.
            _ => Kinds(u8::MAX),
        };
        let Some(entry) = self.entries.get_mut(path) else { return };
        entry.armed = entry.armed.without(kinds);
        for (kind, sink) in entry.handles.extract(|(kind, _)| kinds.contains(*kind)).into_iter() {
            self.recursive -= usize::from(kind == WatchKind::Recursive);
            sink.end(WatchEnded::Removed);
        }
        if entry.is_idle() {
            self.entries.remove(path);
        }
    }

    /// The server has refused to arm these watches again: they end.
    pub(crate) fn refused(&mut self, request: &Request, why: ErrorCode) {
        let lists = match request {
            Request::SetWatches(watches) => vec![
                (WatchKind::Data, &watches.data_watches),
                (WatchKind::Exist, &watches.exist_watches),
                (WatchKind::Child, &watches.child_watches),
            ],
            Request::SetWatches2(watches) => vec![
                (WatchKind::Persistent, &watches.persistent_watches),
                (WatchKind::Recursive, &watches.persistent_recursive_watches),
            ],
            _ => Vec::new(),
        };
        for (refused, path) in
            lists.into_iter().flat_map(|(kind, paths)| paths.iter().map(move |path| (kind, path)))
        {
            let Some(entry) = self.entries.get_mut(path.as_str()) else { continue };
            entry.armed = entry.armed.without(Kinds::of(refused));
            for (kind, sink) in entry.handles.extract(|(kind, _)| *kind == refused).into_iter() {
                self.recursive -= usize::from(kind == WatchKind::Recursive);
                sink.end(WatchEnded::Refused(why));
            }
            if entry.is_idle() && entry.armed.is_empty() {
                self.entries.remove(path.as_str());
            }
        }
    }

    /// The connection is lost, and what its server had armed with it. The lasting watches are told, unless they are about to
    /// end.
    pub(crate) fn disconnected(&mut self, is_over: bool) {
        if !is_over {
            self.tell_lasting(|entry| entry.armed, &PersistentEvent::Disarmed);
        }
        self.entries.retain(|_, entry| {
            entry.armed = Kinds::default();
            entry.arming = 0;
            !entry.handles.as_slice().is_empty()
        });
    }

    /// Ends every watch, in the order of the paths, so that the same run wakes the same tasks in the same order.
    pub(crate) fn end(&mut self, why: WatchEnded) {
        let mut entries: Vec<_> = std::mem::take(&mut self.entries).into_iter().collect();
        entries.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
        for (_, sink) in entries.into_iter().flat_map(|(_, entry)| entry.handles.into_iter()) {
            sink.end(why);
        }
        self.recursive = 0;
    }

    /// The requests that re-arm everything after a reconnect, each of bounded size: `setWatches`, which every
    /// server knows, and `setWatches2` for watches that only a server which knows it can have armed.
    pub(crate) fn rearm(&mut self, relative_zxid: i64, max_frame: usize) -> Vec<Request> {
        for entry in self.entries.values_mut() {
            entry.armed = entry.wanted();
        }
        let mut requests = Vec::new();
        for chunk in self.chunks(Kinds(!Kinds::LASTING.0), max_frame) {
            requests.push(Request::SetWatches(SetWatches {
                relative_zxid,
                data_watches: chunk.data,
                exist_watches: chunk.exist,
                child_watches: chunk.child,
            }));
        }
        for chunk in self.chunks(Kinds::LASTING, max_frame) {
            requests.push(Request::SetWatches2(SetWatches2 {
                relative_zxid,
                persistent_watches: chunk.persistent,
                persistent_recursive_watches: chunk.recursive,
                ..SetWatches2::default()
            }));
        }
        requests
    }

    /// Everything is armed again: the lasting watches may have missed something, which the server does not tell, unless
    /// everything is `unchanged`. They are told in the order of their paths.
    pub(crate) fn rearmed(&self, unchanged: bool) {
        self.tell_lasting(Entry::wanted, &PersistentEvent::Rearmed { unchanged });
    }

    /// Tells the lasting watches on paths with some of these kinds, in the order of their paths.
    fn tell_lasting(&self, kinds: impl Fn(&Entry) -> Kinds, event: &PersistentEvent) {
        let is_lasting = |entry: &Entry| !kinds(entry).and(Kinds::LASTING).is_empty();
        let mut entries: Vec<_> = self.entries.iter().filter(|(_, entry)| is_lasting(entry)).collect();
        entries.sort_unstable_by_key(|(path, _)| *path);
        for (_, sink) in entries.into_iter().flat_map(|(_, entry)| entry.handles.as_slice()) {
            sink.tell(event.clone());
        }
    }

    /// The paths with watches of these kinds, in order, so that the same run sends the same bytes.
    fn chunks(&self, kinds: Kinds, max_frame: usize) -> Vec<Chunk> {
        let mut paths: Vec<(&Arc<str>, Kinds)> = self
            .entries
            .iter()
            .map(|(path, entry)| (path, entry.wanted().and(kinds)))
            .filter(|(_, wanted)| !wanted.is_empty())
            .collect();
        paths.sort_unstable_by_key(|(path, _)| *path);
        let watches = paths.into_iter().flat_map(|(path, wanted)| {
            ALL_KINDS
                .into_iter()
                .filter(move |kind| wanted.contains(*kind))
                .map(|kind| (String::from(&**path), kind))
        });
        chunks(watches, max_frame).collect()
    }
}

/// Splits watches into frames of bounded size. A path that is too long for one has a frame of its own, which is refused.
pub(super) fn chunks(
    watches: impl Iterator<Item = (String, WatchKind)>,
    max_frame: usize,
) -> impl Iterator<Item = Chunk> {
    let limit = CHUNK_BYTES.min(max_frame.saturating_sub(FRAME_OVERHEAD));
    let mut watches = watches.peekable();
    std::iter::from_fn(move || {
        let mut chunk = Chunk::default();
        while let Some((path, kind)) =
            watches.next_if(|(path, _)| chunk.bytes == 0 || chunk.bytes + path.len() + 4 <= limit)
        {
            chunk.bytes += path.len() + 4;
            chunk.list(kind).push(path);
        }
        (chunk.bytes > 0).then_some(chunk)
    })
}

/// The paths of one frame.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: usize,
    pub(super) data: Vec<String>,
    pub(super) exist: Vec<String>,
    pub(super) child: Vec<String>,
    persistent: Vec<String>,
    recursive: Vec<String>,
}

impl Chunk {
    const fn list(&mut self, kind: WatchKind) -> &mut Vec<String> {
        match kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Exist => &mut self.exist,
            WatchKind::Child => &mut self.child,
            WatchKind::Persistent => &mut self.persistent,
            WatchKind::Recursive => &mut self.recursive,
        }
    }
}

/// A path and all paths above it, up to the root.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind('/') {
        _ if *path == "/" => None,
        Some(0) => Some("/"),
        Some(slash) => Some(&path[..slash]),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::watch::Outcome;

    type Receiver = oneshot::Receiver<Outcome>;

    const fn of(event_type: EventType) -> Fired {
        Fired { event_type, zxid: None }
    }

    fn once(registry: &mut Registry, kind: WatchKind, path: &str) -> Receiver {
        let (sender, receiver) = oneshot::channel();
        let path = Arc::from(path);
        registry.expect(&path);
        assert_eq!(registry.answered(&path, Some((kind, Sink::Once(sender)))), None);
        receiver
    }

    fn stream(
        registry: &mut Registry,
        kind: WatchKind,
        path: &str,
    ) -> mpsc::UnboundedReceiver<PersistentEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let path = Arc::from(path);
        registry.expect(&path);
        assert_eq!(registry.answered(&path, Some((kind, Sink::Stream(sender)))), None);
        receiver
    }

    fn changed(receiver: &mut mpsc::UnboundedReceiver<PersistentEvent>) -> Vec<(EventType, String)> {
        let mut events = Vec::new();
        while let Ok(PersistentEvent::Changed(event)) = receiver.try_recv() {
            events.push((event.event_type, event.path));
        }
        events
    }

    #[test]
    fn four_thousand_watches_are_rearmed_in_frames_under_128_kib() {
        let mut registry = Registry::default();
        let receivers: Vec<_> = (0..4000)
            .map(|n| once(&mut registry, WatchKind::Data, &format!("/{}/{n:04}", "x".repeat(63))))
            .collect();
        let requests = registry.rearm(7, usize::MAX);
        assert!(requests.len() > 1);
        let mut paths = 0;
        for request in requests {
            let Request::SetWatches(chunk) = request else { panic!("{request:?}") };
            assert_eq!(chunk.relative_zxid, 7);
            assert!(chunk.data_watches.iter().map(|path| path.len() + 4).sum::<usize>() < 128 * 1024);
            paths += chunk.data_watches.len();
        }
        assert_eq!(paths, receivers.len());
    }

    #[test]
    fn an_event_consumes_the_watches_that_zookeeper_consumes() {
        let mut registry = Registry::default();
        let mut data = once(&mut registry, WatchKind::Data, "/a");
        let mut child = once(&mut registry, WatchKind::Child, "/a");
        registry.fire(of(EventType::NodeDataChanged), "/a", "/a");
        assert_eq!(*data.try_recv().unwrap(), Ok(of(EventType::NodeDataChanged)));
        assert!(child.try_recv().is_err());
        registry.fire(of(EventType::NodeDeleted), "/a", "/a");
        assert_eq!(*child.try_recv().unwrap(), Ok(of(EventType::NodeDeleted)));
        assert!(registry.rearm(0, usize::MAX).is_empty());
        assert!(registry.entries.is_empty());
    }

    #[test]
    fn lasting_watches_hear_of_everything_that_is_theirs_again_and_again() {
        let mut registry = Registry::default();
        let mut persistent = stream(&mut registry, WatchKind::Persistent, "/a");
        let mut recursive = stream(&mut registry, WatchKind::Recursive, "/a");
        let mut root = stream(&mut registry, WatchKind::Recursive, "/");
        for (event_type, path) in [
            (EventType::NodeCreated, "/a"),
            (EventType::NodeChildrenChanged, "/a"),
            (EventType::NodeCreated, "/a/b/c"),
            (EventType::NodeDeleted, "/ab"),
        ] {
            registry.fire(of(event_type), path, path);
        }
        let created = |path: &str| (EventType::NodeCreated, path.to_owned());
        assert_eq!(
            changed(&mut persistent),
            [created("/a"), (EventType::NodeChildrenChanged, "/a".to_owned())]
        );
        assert_eq!(changed(&mut recursive), [created("/a"), created("/a/b/c")]);
        assert_eq!(
            changed(&mut root),
            [created("/a"), created("/a/b/c"), (EventType::NodeDeleted, "/ab".to_owned())]
        );
        registry.disconnected(false);
        for watch in [&mut persistent, &mut recursive] {
            assert_eq!(watch.try_recv(), Ok(PersistentEvent::Disarmed));
        }
        let requests = registry.rearm(9, usize::MAX);
        let [Request::SetWatches2(request)] = &requests[..] else { panic!("{requests:?}") };
        assert_eq!(request.persistent_watches, ["/a"]);
        assert_eq!(request.persistent_recursive_watches, ["/", "/a"]);
        for unchanged in [false, true] {
            registry.rearmed(unchanged);
            assert_eq!(persistent.try_recv(), Ok(PersistentEvent::Rearmed { unchanged }));
            assert_eq!(recursive.try_recv(), Ok(PersistentEvent::Rearmed { unchanged }));
        }
    }

    #[test]
    fn the_last_handle_of_a_kind_removes_it_from_the_server() {
        let mut registry = Registry::default();
        let first = once(&mut registry, WatchKind::Data, "/a");
        let second = once(&mut registry, WatchKind::Exist, "/a");
        let child = once(&mut registry, WatchKind::Child, "/a");
        drop(first);
        assert_eq!(registry.forget("/a"), None, "the server's one data watch is still wanted");
        drop(second);
        assert_eq!(registry.forget("/a"), Some(WatcherType::Data));
        drop(child);
        assert_eq!(registry.forget("/a"), Some(WatcherType::Children));
        assert!(registry.entries.is_empty());
    }

    #[test]
    fn a_lasting_watch_is_removed_with_the_last_handle_on_its_path() {
        let mut registry = Registry::default();
        let persistent = stream(&mut registry, WatchKind::Persistent, "/a");
        let data = once(&mut registry, WatchKind::Data, "/a");
        drop(persistent);
        assert_eq!(registry.forget("/a"), None, "a server before 3.9 would remove both");
        drop(data);
        assert_eq!(registry.forget("/a"), Some(WatcherType::Any));
        assert!(registry.entries.is_empty());
    }

    #[test]
    fn nothing_is_removed_while_a_watch_is_under_way() {
        let mut registry = Registry::default();
        let first = once(&mut registry, WatchKind::Data, "/a");
        let path = Arc::from("/a");
        registry.expect(&path);
        drop(first);
        assert_eq!(registry.forget("/a"), None, "the removal would hit the one that is under way");
        let (sender, receiver) = oneshot::channel();
        drop(receiver);
        assert_eq!(
            registry.answered(&path, Some((WatchKind::Data, Sink::Once(sender)))),
            Some(WatcherType::Data),
            "and nobody waits for that one either"
        );
        assert!(registry.entries.is_empty());
    }

    #[test]
    fn a_lost_connection_takes_what_was_armed_and_leaves_what_is_wanted() {
        let mut registry = Registry::default();
        let kept = once(&mut registry, WatchKind::Child, "/a");
        registry.expect(&Arc::from("/b"));
        registry.disconnected(false);
        assert_eq!(registry.rearm(0, usize::MAX).len(), 1);
        drop(kept);
        assert_eq!(registry.forget("/a"), Some(WatcherType::Children));
        assert!(registry.entries.is_empty());
    }
}
