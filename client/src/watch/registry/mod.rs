#[cfg(test)]
mod tests;

mod path;

use std::collections::HashMap;
use std::sync::Arc;

use zk_curator_proto::records::{EventType, SetWatches, SetWatches2, WatcherType};
use zk_curator_proto::{ErrorCode, Request};

pub(crate) use self::path::EventSink;
use self::path::PathWatches;
use super::armed::{ArmedMode, AskedWatch, Tables};
use super::event::FiredWatch;
use super::kinds::{ALL_KINDS, Kinds, WatchKind};
use super::{PersistentEvent, WatchEnded, WatchedEvent};
use crate::path::ancestors;

/// The requests that the server needs so that it has the wanted watches on a path, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Upkeep {
    pub(crate) remove: Option<WatcherType>,
    pub(crate) arm: Vec<Request>,
}

/// The maximum number of path bytes in one frame that re-arms watches. With the rest, the frame
/// stays well below 128 KiB.
const CHUNK_BYTES: usize = 96 * 1024;

/// The size of the rest of this frame: header, zxid and the lengths of the lists.
const FRAME_OVERHEAD: usize = 36;

/// The watches that this client has armed on the server. Paths are the server's, with the chroot.
#[derive(Debug, Default)]
pub(crate) struct WatchRegistry {
    entries: HashMap<Arc<str>, PathWatches>,
    /// The number of recursive watches. If there are none, events need no search of the ancestors.
    recursive: usize,
    /// `true` if there is no connection: the wanted watches are armed when there is one.
    is_cut: bool,
    /// The transaction after which the server compared when the watches were re-armed.
    rearmed_from: i64,
}

impl WatchRegistry {
    /// Prepares a request that will set a watch on `path`, and returns the form in which to send
    /// it.
    pub(crate) fn expect(&mut self, path: &Arc<str>, kind: WatchKind) -> AskedWatch {
        let entry = self.entries.entry(Arc::clone(path)).or_default();
        entry.arming += 1;
        let asked = entry.expected.ask(kind);
        entry.expected = entry.expected.with(kind, asked);
        asked
    }

    /// Handles the response to this request, which the server gave at this transaction: the watch
    /// that it has armed, if any. Returns the requests that the server needs.
    pub(crate) fn answered(
        &mut self,
        path: &Arc<str>,
        armed: Option<(WatchKind, EventSink)>,
        asked: AskedWatch,
        zxid: i64,
    ) -> Upkeep {
        let entry = self.entries.entry(Arc::clone(path)).or_default();
        if let Some((kind, sink)) = armed {
            entry.armed = entry.armed.with(kind, asked);
            self.recursive += usize::from(kind == WatchKind::Recursive);
            entry.handles.push((kind, sink));
        }
        entry.landed();
        self.keep_up(path, zxid)
    }

    /// Notes that the server has re-armed watches at this transaction. Returns the requests that it
    /// needs.
    pub(crate) fn repaired(&mut self, request: &Request, zxid: i64) -> Vec<(Arc<str>, Upkeep)> {
        let Some(path) = paths_of(request).into_iter().next().map(|(_, path)| Arc::from(path))
        else {
            return Vec::new();
        };
        if let Some(entry) = self.entries.get_mut(&path) {
            entry.landed();
            if let Request::SetWatches2(SetWatches2 { relative_zxid, .. }) = request {
                let unchanged = zxid > 0 && *relative_zxid == zxid;
                entry.handles.as_slice().iter().for_each(|(_, sink)| {
                    sink.tell(PersistentEvent::Rearmed { unchanged });
                });
            }
        }
        let upkeep = self.keep_up(&path, zxid);
        vec![(path, upkeep)]
    }

    /// Notifies the watches that this event concerns. `visible_path` is the path without the
    /// chroot, and `seen` the last transaction that a response has shown. Returns the requests that
    /// the server needs.
    pub(crate) fn fire(
        &mut self,
        fired: FiredWatch,
        path: &str,
        visible_path: &str,
        seen: i64,
    ) -> Upkeep {
        let FiredWatch { event_type, zxid } = fired;
        let consumed = match event_type {
            EventType::NodeCreated | EventType::NodeDataChanged => Kinds::ONE_SHOT_DATA,
            EventType::NodeDeleted => Kinds::ONE_SHOT_DATA.or(Kinds::CHILD),
            EventType::NodeChildrenChanged => Kinds::CHILD,
            _ => return Upkeep::default(),
        };
        let event = || WatchedEvent::new(event_type, visible_path.to_owned()).with_zxid(zxid);
        let mut is_lacking = false;
        if let Some(entry) = self.entries.get_mut(path) {
            entry.armed = entry.armed.after(consumed);
            for (_, sink) in entry.handles.extract(|(kind, _)| consumed.contains(*kind)).into_iter()
            {
                if let EventSink::Once(sender) = sink {
                    // A failure means that there is no waiter any more.
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
            } else if entry.armed.has_persistent() {
                entry.note(seen);
                is_lacking = entry.lacking.is_some();
            }
        }
        if self.recursive > 0 && event_type != EventType::NodeChildrenChanged {
            for ancestor in ancestors(path) {
                let handles = self
                    .entries
                    .get(ancestor)
                    .map(|entry| entry.handles.as_slice())
                    .unwrap_or_default();
                for (_, sink) in handles.iter().filter(|(kind, _)| *kind == WatchKind::Recursive) {
                    sink.tell(PersistentEvent::Changed(event()));
                }
            }
        }
        if is_lacking { self.keep_up(path, seen) } else { Upkeep::default() }
    }

    /// Drops the unused watches on `path`, and returns the requests that the server needs so that
    /// it keeps the others. `zxid` is the last transaction that a response has shown.
    ///
    /// Does nothing while a request is pending that arms something, because the removal could not
    /// be told apart from it. A persistent watch is removed together with everything else on the
    /// path, since servers before 3.9 have no separate kind for it. The watches that are still
    /// wanted are armed again, and the server compares with the transaction that this client has
    /// seen.
    pub(crate) fn keep_up(&mut self, path: &str, zxid: i64) -> Upkeep {
        let Some(entry) = self.entries.get_mut(path) else { return Upkeep::default() };
        let recursive = &mut self.recursive;
        for (kind, _) in entry.handles.extract(|(_, sink)| sink.is_abandoned()).into_iter() {
            *recursive -= usize::from(kind == WatchKind::Recursive);
        }
        if self.is_cut {
            if entry.is_idle() {
                self.entries.remove(path);
            }
            return Upkeep::default();
        }
        entry.note(zxid);
        if entry.arming > 0 {
            return Upkeep::default();
        }
        let wanted = entry.wanted();
        let needed = Tables::needed_by(wanted);
        let mut upkeep = Upkeep::default();
        let is_stale = |armed: ArmedMode, needed: ArmedMode| {
            armed == ArmedMode::OneShot && needed == ArmedMode::None
        };
        let (data, child) =
            (is_stale(entry.armed.data, needed.data), is_stale(entry.armed.child, needed.child));
        if entry.armed.has_surplus(needed) || (data && child) {
            upkeep.remove = Some(WatcherType::Any);
            entry.armed = Tables::default();
        } else if data {
            upkeep.remove = Some(WatcherType::Data);
            entry.armed.data = ArmedMode::None;
        } else if child {
            upkeep.remove = Some(WatcherType::Children);
            entry.armed.child = ArmedMode::None;
        }
        entry.note(zxid);
        if let Some(since) = entry.lacking.take() {
            upkeep.arm = entry.arm_again(path, wanted, needed, since);
        }
        entry.expected = entry.armed;
        if entry.is_idle() {
            self.entries.remove(path);
        }
        upkeep
    }

    /// Returns `true` if there are watches of this kind that the server does not know, because a
    /// persistent watch serves them.
    pub(crate) fn has_some_of(&self, path: &str, watcher_type: WatcherType) -> bool {
        let kinds = kinds_of(watcher_type);
        self.entries.get(path).is_some_and(|entry| !entry.wanted().and(kinds).is_empty())
    }

    /// Notes that the server has removed the watches of this kind at the user's request. Returns
    /// the requests that it needs.
    pub(crate) fn removed(&mut self, path: &str, watcher_type: WatcherType, zxid: i64) -> Upkeep {
        let kinds = kinds_of(watcher_type);
        let Some(entry) = self.entries.get_mut(path) else { return Upkeep::default() };
        // A server before 3.9 removes everything in the table.
        match watcher_type {
            WatcherType::Children => entry.armed.child = ArmedMode::None,
            WatcherType::Data => entry.armed.data = ArmedMode::None,
            _ => entry.armed = Tables::default(),
        }
        for (kind, sink) in entry.handles.extract(|(kind, _)| kinds.contains(*kind)).into_iter() {
            self.recursive -= usize::from(kind == WatchKind::Recursive);
            sink.end(WatchEnded::Removed);
        }
        self.keep_up(path, zxid)
    }

    /// Ends the watches that the server has refused to re-arm.
    pub(crate) fn refused(&mut self, request: &Request, why: ErrorCode) {
        for (refused, path) in paths_of(request) {
            let Some(entry) = self.entries.get_mut(path) else { continue };
            entry.armed = entry.armed.after(Kinds::of(refused));
            for (kind, sink) in entry.handles.extract(|(kind, _)| *kind == refused).into_iter() {
                self.recursive -= usize::from(kind == WatchKind::Recursive);
                sink.end(WatchEnded::Refused(why));
            }
            if entry.is_idle() && entry.armed.is_empty() {
                self.entries.remove(path);
            }
        }
    }

    /// Ends the watches for which the server has refused to arm the lacking ones.
    pub(crate) fn not_repaired(&mut self, request: &Request, why: ErrorCode) {
        let path = paths_of(request).into_iter().next().map(|(_, path)| path.to_owned());
        if let Some(entry) = path.as_deref().and_then(|path| self.entries.get_mut(path)) {
            entry.landed();
            if let Request::SetWatches(SetWatches { child_watches, .. }) = request
                && !child_watches.is_empty()
            {
                // It has no other way to learn of changes of its children.
                for (_, sink) in
                    entry.handles.extract(|(kind, _)| *kind == WatchKind::Persistent).into_iter()
                {
                    sink.end(WatchEnded::Refused(why));
                }
            }
        }
        self.refused(request, why);
    }

    /// Notes that the connection is lost, with the watches that its server had armed. Notifies the
    /// persistent watches, unless they are about to end.
    pub(crate) fn disconnected(&mut self, is_over: bool) {
        if !is_over {
            self.tell_persistent(|entry| entry.armed.has_persistent(), &PersistentEvent::Disarmed);
        }
        self.is_cut = true;
        self.entries.retain(|_, entry| {
            (entry.armed, entry.expected) = (Tables::default(), Tables::default());
            (entry.arming, entry.lacking) = (0, None);
            !entry.handles.as_slice().is_empty()
        });
    }

    /// Ends every watch, in the order of the paths, so that equal runs wake the same tasks in the
    /// same order.
    pub(crate) fn end(&mut self, why: WatchEnded) {
        let mut entries: Vec<_> = std::mem::take(&mut self.entries).into_iter().collect();
        entries.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
        for (_, sink) in entries.into_iter().flat_map(|(_, entry)| entry.handles.into_iter()) {
            sink.end(why);
        }
        self.recursive = 0;
    }

    /// Returns the requests that re-arm everything after a reconnect, each of bounded size. They
    /// are `setWatches`, which every server knows, and `setWatches2` for watches that only a server
    /// with that request can have armed.
    pub(crate) fn rearm(&mut self, relative_zxid: i64, max_frame: usize) -> Vec<Request> {
        (self.is_cut, self.rearmed_from) = (false, relative_zxid);
        for entry in self.entries.values_mut() {
            let wanted = entry.wanted();
            // One-shot watches come first, so that they report what they have missed. Then
            // persistent ones follow, which replace them.
            let needed = Tables::needed_by(wanted);
            let is_persistent = needed.data > ArmedMode::OneShot;
            entry.armed = if is_persistent { Tables::persistent(needed.data) } else { needed };
            entry.expected = entry.armed;
        }
        let mut requests = Vec::new();
        for chunk in self.chunks(Kinds::ONE_SHOT, max_frame) {
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

    /// Notes that everything is armed again. The persistent watches may have missed events, which
    /// the server does not report, unless everything is `unchanged`. They are notified in the order
    /// of their paths. Returns the requests that the server needs, for paths where a persistent
    /// watch has replaced others that it does not serve.
    pub(crate) fn rearmed(&mut self, unchanged: bool) -> Vec<(Arc<str>, Upkeep)> {
        self.tell_persistent(
            PathWatches::wants_persistent,
            &PersistentEvent::Rearmed { unchanged },
        );
        let persistent = self.entries.iter().filter(|(_, entry)| entry.wants_persistent());
        let mut paths: Vec<_> = persistent.map(|(path, _)| Arc::clone(path)).collect();
        paths.sort_unstable();
        let from = self.rearmed_from;
        paths.into_iter().map(|path| (Arc::clone(&path), self.keep_up(&path, from))).collect()
    }

    /// Notifies the persistent watches on the paths that satisfy the condition, in the order of the
    /// paths.
    fn tell_persistent(
        &self,
        is_persistent: impl Fn(&PathWatches) -> bool,
        event: &PersistentEvent,
    ) {
        let mut entries: Vec<_> =
            self.entries.iter().filter(|(_, entry)| is_persistent(entry)).collect();
        entries.sort_unstable_by_key(|(path, _)| *path);
        for (_, sink) in entries.into_iter().flat_map(|(_, entry)| entry.handles.as_slice()) {
            sink.tell(event.clone());
        }
    }

    /// Returns the paths with watches of these kinds, in order, so that equal runs send equal
    /// bytes.
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

fn kinds_of(watcher_type: WatcherType) -> Kinds {
    match watcher_type {
        WatcherType::Children => Kinds::CHILD,
        WatcherType::Data => Kinds::ONE_SHOT_DATA,
        WatcherType::Persistent => Kinds::of(WatchKind::Persistent),
        WatcherType::PersistentRecursive => Kinds::of(WatchKind::Recursive),
        // `Any`, and future variants of that enum.
        _ => Kinds::ALL,
    }
}

/// Returns the watches that a request arms again.
fn paths_of(request: &Request) -> Vec<(WatchKind, &str)> {
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
    lists
        .into_iter()
        .flat_map(|(kind, paths)| paths.iter().map(move |path| (kind, path.as_str())))
        .collect()
}

/// Splits watches into frames of bounded size. A path that is too long gets a frame of its own,
/// which is refused.
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
