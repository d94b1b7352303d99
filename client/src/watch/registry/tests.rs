use tokio::sync::oneshot;

use tokio::sync::mpsc;

use super::*;
use crate::watch::WatchOutcome;

type Receiver = oneshot::Receiver<WatchOutcome>;

const fn of(event_type: EventType) -> FiredWatch {
    FiredWatch { event_type, zxid: None }
}

fn once(registry: &mut WatchRegistry, kind: WatchKind, path: &str) -> Receiver {
    let (sender, receiver) = oneshot::channel();
    let path = Arc::from(path);
    let asked = registry.expect(&path, kind);
    assert_eq!(
        registry.answered(&path, Some((kind, EventSink::Once(sender))), asked, 0),
        Upkeep::default()
    );
    receiver
}

fn stream(
    registry: &mut WatchRegistry,
    kind: WatchKind,
    path: &str,
) -> mpsc::UnboundedReceiver<PersistentEvent> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let path = Arc::from(path);
    let asked = registry.expect(&path, kind);
    assert_eq!(
        registry.answered(&path, Some((kind, EventSink::Stream(sender))), asked, 0).remove,
        None
    );
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
    let mut registry = WatchRegistry::default();
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
    let mut registry = WatchRegistry::default();
    let mut data = once(&mut registry, WatchKind::Data, "/a");
    let mut child = once(&mut registry, WatchKind::Child, "/a");
    registry.fire(of(EventType::NodeDataChanged), "/a", "/a", 0);
    assert_eq!(*data.try_recv().unwrap(), Ok(of(EventType::NodeDataChanged)));
    assert!(child.try_recv().is_err());
    registry.fire(of(EventType::NodeDeleted), "/a", "/a", 0);
    assert_eq!(*child.try_recv().unwrap(), Ok(of(EventType::NodeDeleted)));
    assert!(registry.rearm(0, usize::MAX).is_empty());
    assert!(registry.entries.is_empty());
}

#[test]
fn persistent_watches_receive_every_event_of_theirs() {
    let mut registry = WatchRegistry::default();
    let mut persistent = stream(&mut registry, WatchKind::Persistent, "/a");
    let mut recursive = stream(&mut registry, WatchKind::Recursive, "/a");
    let mut root = stream(&mut registry, WatchKind::Recursive, "/");
    for (event_type, path) in [
        (EventType::NodeCreated, "/a"),
        (EventType::NodeChildrenChanged, "/a"),
        (EventType::NodeCreated, "/a/b/c"),
        (EventType::NodeDeleted, "/ab"),
    ] {
        registry.fire(of(event_type), path, path, 0);
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
    let mut registry = WatchRegistry::default();
    let first = once(&mut registry, WatchKind::Data, "/a");
    let second = once(&mut registry, WatchKind::Exist, "/a");
    let child = once(&mut registry, WatchKind::Child, "/a");
    drop(first);
    assert_eq!(
        registry.keep_up("/a", 0).remove,
        None,
        "the server's one data watch is still wanted"
    );
    drop(second);
    assert_eq!(registry.keep_up("/a", 0).remove, Some(WatcherType::Data));
    drop(child);
    assert_eq!(registry.keep_up("/a", 0).remove, Some(WatcherType::Children));
    assert!(registry.entries.is_empty());
}

#[test]
fn a_persistent_watch_is_removed_with_its_last_handle() {
    let mut registry = WatchRegistry::default();
    let persistent = stream(&mut registry, WatchKind::Persistent, "/a");
    let data = once(&mut registry, WatchKind::Data, "/a");
    drop(persistent);
    let upkeep = registry.keep_up("/a", 7);
    assert_eq!(upkeep.remove, Some(WatcherType::Any), "a server before 3.9 removes both");
    let [Request::SetWatches(again)] = &upkeep.arm[..] else { panic!("{upkeep:?}") };
    assert_eq!((again.relative_zxid, &again.data_watches[..]), (7, &["/a".to_owned()][..]));
    assert!(
        registry.repaired(&upkeep.arm[0], 8).iter().all(|(_, upkeep)| *upkeep == Upkeep::default())
    );
    drop(data);
    assert_eq!(registry.keep_up("/a", 8).remove, Some(WatcherType::Data));
    assert!(registry.entries.is_empty());
}

/// The watches of a server before 3.9 for a path.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Server(Tables);

impl Server {
    fn read(&mut self, kind: WatchKind, asked: AskedWatch) {
        self.0 = self.0.with(kind, asked);
    }

    fn keep_up(&mut self, registry: &mut WatchRegistry, upkeep: Upkeep) {
        match upkeep.remove {
            Some(WatcherType::Data) => self.0.data = ArmedMode::None,
            Some(WatcherType::Children) => self.0.child = ArmedMode::None,
            Some(_) => self.0 = Tables::default(),
            None => {}
        }
        for request in upkeep.arm {
            for (kind, _) in paths_of(&request) {
                self.read(kind, AskedWatch::AsIs);
            }
            for (_, upkeep) in registry.repaired(&request, 1) {
                self.keep_up(registry, upkeep);
            }
        }
    }
}

/// Whatever is watched on one path, in any order: a server that stores one mode notifies each
/// watch of its events.
#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn no_watch_on_a_path_blinds_another() {
    let kinds = [
        WatchKind::Data,
        WatchKind::Exist,
        WatchKind::Child,
        WatchKind::Persistent,
        WatchKind::Recursive,
    ];
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut registry, mut server) = (WatchRegistry::default(), Server::default());
        let path: Arc<str> = Arc::from("/a");
        let (mut once, mut streams) = (Vec::new(), Vec::new());
        for _ in 0..random.usize(1..8) {
            match random.u8(..8) {
                0 if !streams.is_empty() => {
                    drop(streams.remove(random.usize(..streams.len())));
                    let upkeep = registry.keep_up(&path, 1);
                    server.keep_up(&mut registry, upkeep);
                }
                1 if !once.is_empty() => {
                    drop(once.remove(random.usize(..once.len())));
                    let upkeep = registry.keep_up(&path, 1);
                    server.keep_up(&mut registry, upkeep);
                }
                2 => {
                    let event = EventType::NodeChildrenChanged;
                    if server.0.child == ArmedMode::OneShot {
                        server.0.child = ArmedMode::None;
                    }
                    let upkeep = registry.fire(of(event), "/a", "/a", 1);
                    server.keep_up(&mut registry, upkeep);
                }
                // Several requests may be pending.
                _ => {
                    let sent: Vec<_> = (0..random.usize(1..4))
                        .map(|_| kinds[random.usize(..kinds.len())])
                        .map(|kind| (kind, registry.expect(&path, kind)))
                        .collect();
                    for (kind, asked) in &sent {
                        server.read(*kind, *asked);
                    }
                    for (kind, asked) in sent {
                        let sink = if matches!(kind, WatchKind::Persistent | WatchKind::Recursive) {
                            let (sender, receiver) = mpsc::unbounded_channel();
                            streams.push(receiver);
                            EventSink::Stream(sender)
                        } else {
                            let (sender, receiver) = oneshot::channel();
                            once.push(receiver);
                            EventSink::Once(sender)
                        };
                        let upkeep = registry.answered(&path, Some((kind, sink)), asked, 1);
                        server.keep_up(&mut registry, upkeep);
                    }
                }
            }
            let wanted =
                registry.entries.get("/a").map_or_else(Kinds::default, PathWatches::wanted);
            let needed = Tables::needed_by(wanted);
            let is_told =
                server.0.data_is_enough_for(needed) && server.0.child_is_enough_for(needed);
            assert!(is_told, "seed {seed}: {wanted:?} of {server:?}");
            assert!(!server.0.has_surplus(needed), "seed {seed}: {wanted:?} of {server:?}");
        }
    }
}

#[test]
fn nothing_is_removed_while_a_watch_is_under_way() {
    let mut registry = WatchRegistry::default();
    let first = once(&mut registry, WatchKind::Data, "/a");
    let path = Arc::from("/a");
    let asked = registry.expect(&path, WatchKind::Data);
    drop(first);
    assert_eq!(
        registry.keep_up("/a", 0).remove,
        None,
        "the removal would hit the watch that is under way"
    );
    let (sender, receiver) = oneshot::channel();
    drop(receiver);
    assert_eq!(
        registry.answered(&path, Some((WatchKind::Data, EventSink::Once(sender))), asked, 0).remove,
        Some(WatcherType::Data),
        "no task waits for that watch either"
    );
    assert!(registry.entries.is_empty());
}

#[test]
fn a_lost_connection_disarms_watches_that_remain_wanted() {
    let mut registry = WatchRegistry::default();
    let kept = once(&mut registry, WatchKind::Child, "/a");
    registry.expect(&Arc::from("/b"), WatchKind::Data);
    registry.disconnected(false);
    assert_eq!(registry.rearm(0, usize::MAX).len(), 1);
    drop(kept);
    assert_eq!(registry.keep_up("/a", 0).remove, Some(WatcherType::Children));
    assert!(registry.entries.is_empty());
}
