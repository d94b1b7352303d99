//! The watches of the client under test, and the events that they must have seen.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_curator_client::{
    AddWatchMode, Error, EventType, OneshotWatch, PersistentEvent, PersistentWatch, WatchEnded,
    ZooKeeper,
};
use zk_curator_testing::wait;

use super::world::{NODES, World, node};

/// The state that a one-shot watch waits behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Armed {
    /// The watch is not armed: a read is in flight.
    No,
    /// A data version, or a child version.
    At(i32),
    /// The transaction that created the node, if there was one.
    Exists(Option<i64>),
}

/// The events that a persistent watch has reported.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    changed: u64,
    rearmed: u64,
}

type Cell<T> = Arc<Mutex<T>>;

pub(crate) struct Watchers {
    armed: Vec<(String, Cell<Armed>)>,
    /// The watch of `/v/0`, and the watch of `/v` with everything below.
    persistent: [Persistent; 2],
    tasks: Vec<JoinHandle<()>>,
}

/// The reports since the watch was armed, and since the last checkpoint.
type Persistent = (Cell<Option<Heard>>, Cell<Option<Window>>);

/// The reports since the last checkpoint.
#[derive(Debug, Clone, Copy)]
struct Window {
    heard: Heard,
    written: u64,
}

impl Watchers {
    pub(crate) fn start(world: &Arc<World>, zk: &ZooKeeper) -> Self {
        let mut watchers =
            Self { armed: Vec::new(), persistent: Default::default(), tasks: Vec::new() };
        for n in 0..NODES {
            watchers.one_shot(world, zk, node("v", n), Kind::Data);
            watchers.one_shot(world, zk, node("t", n), Kind::Exists);
        }
        watchers.one_shot(world, zk, "/c".to_owned(), Kind::Children);
        let modes = [
            (node("v", 0), AddWatchMode::Persistent),
            ("/v".to_owned(), AddWatchMode::PersistentRecursive),
        ];
        for ((path, mode), (heard, _)) in modes.into_iter().zip(&watchers.persistent) {
            let task = persistent(Arc::clone(world), zk.clone(), path, mode, Arc::clone(heard));
            watchers.tasks.push(tokio::spawn(task));
        }
        watchers
    }

    fn one_shot(&mut self, world: &Arc<World>, zk: &ZooKeeper, path: String, kind: Kind) {
        let armed = Arc::new(Mutex::new(Armed::No));
        self.armed.push((path.clone(), Arc::clone(&armed)));
        self.tasks.push(tokio::spawn(one_shot(Arc::clone(world), zk.clone(), path, kind, armed)));
    }

    /// Checks, while nothing is in flight, that each watch waits behind the present state.
    pub(crate) async fn check(&self, world: &World) {
        // Watches that fired last may still read again.
        let up_to_date = wait::until(async || self.behind(world).is_none());
        drop(timeout(Duration::from_secs(5), up_to_date).await);
        if let Some(behind) = self.behind(world) {
            panic!("a watch was lost: {behind}");
        }
        let versions = world.model.lock().unwrap().versions.map(|version| version as u64);
        let written = [versions[0], versions.iter().sum()];
        for ((heard, window), written) in self.persistent.iter().zip(written) {
            let Some(heard) = *heard.lock().unwrap() else { continue };
            let mut window = window.lock().unwrap();
            if let Some(before) = *window {
                let changed = heard.changed - before.heard.changed;
                let changes = written - before.written;
                assert!(changed <= changes, "{changed} reports of {changes} changes");
                if heard.rearmed == before.heard.rearmed {
                    assert_eq!(changed, changes, "changes were not reported");
                }
            }
            *window = Some(Window { heard, written });
        }
    }

    /// Describes a watch that waits behind an older state, if there is one.
    fn behind(&self, world: &World) -> Option<String> {
        let probe = world.server.probe();
        self.armed.iter().find_map(|(path, armed)| {
            let armed = *armed.lock().unwrap();
            let stat = probe.stat(path);
            let matches = match armed {
                Armed::No => false,
                Armed::At(cversion) if path == "/c" => {
                    stat.is_some_and(|stat| stat.cversion == cversion)
                }
                Armed::At(version) => stat.is_some_and(|stat| stat.version == version),
                Armed::Exists(created) => stat.map(|stat| stat.czxid) == created,
            };
            (!matches).then(|| format!("{path} is {stat:?}, but {armed:?}"))
        })
    }

    pub(crate) async fn ended(self) {
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Exists,
    Children,
}

/// Reads, waits for the watch, and reads again, until the session ends.
async fn one_shot(world: Arc<World>, zk: ZooKeeper, path: String, kind: Kind, armed: Cell<Armed>) {
    let mut fired_at = Armed::No;
    loop {
        let read = match kind {
            Kind::Data => zk
                .get_data_watched(&path)
                .await
                .map(|(data, watch)| (Armed::At(data.stat.version), watch)),
            Kind::Exists => zk
                .exists_watched(&path)
                .await
                .map(|(stat, watch)| (Armed::Exists(stat.map(|stat| stat.czxid)), watch)),
            Kind::Children => zk
                .get_children_watched(&path)
                .await
                .map(|(children, watch)| (Armed::At(children.stat.cversion), watch)),
        };
        let (at, watch): (Armed, OneshotWatch) = match read {
            Ok(read) => read,
            Err(Error::ConnectionLoss { .. } | Error::NotConnected) => continue,
            Err(Error::SessionExpired { .. } | Error::Closed { .. }) => return,
            Err(error) => panic!("{path}: {error:?}"),
        };
        if let (Armed::At(before), Armed::At(now)) = (fired_at, at) {
            assert!(now > before, "{path}: a watch fired at {before}, which is {now} still");
        }
        *armed.lock().unwrap() = at;
        let fired = watch.await;
        *armed.lock().unwrap() = Armed::No;
        world.note(|| format!("{path} {fired:?}"));
        let event = match fired {
            Ok(event) => event,
            Err(WatchEnded::SessionLost | WatchEnded::Closed) => return,
            Err(other) => panic!("{path}: {other:?}"),
        };
        world.count(|stats| stats.fired += 1);
        assert_eq!(event.path, path);
        match (at, event.event_type) {
            (Armed::At(_), EventType::NodeDataChanged) if kind == Kind::Data => {}
            (Armed::At(_), EventType::NodeChildrenChanged) if kind == Kind::Children => {}
            (Armed::Exists(None), EventType::NodeCreated) => {}
            // The node was deleted and created again while the client was away. The server compares
            // transactions, so to it the node has changed.
            (Armed::Exists(Some(_)), EventType::NodeDeleted | EventType::NodeDataChanged) => {}
            (at, event_type) => panic!("{path}: {event_type:?} at {at:?}"),
        }
        if let (Kind::Data, Armed::At(version), Some(n)) = (kind, at, path.strip_prefix("/v/")) {
            let writing = world.model.lock().unwrap().writing
                [n.trim_end_matches('x').parse::<usize>().unwrap()];
            assert!(
                writing > version,
                "{path}: a watch fired at version {version}, which was not changed"
            );
        }
        fired_at = at;
    }
}

async fn persistent(
    world: Arc<World>,
    zk: ZooKeeper,
    path: String,
    mode: AddWatchMode,
    heard: Cell<Option<Heard>>,
) {
    let mut watch: PersistentWatch = loop {
        match zk.add_watch(&path, mode).await {
            Ok(((), watch)) => break watch,
            Err(Error::ConnectionLoss { .. } | Error::NotConnected) => {}
            Err(Error::SessionExpired { .. } | Error::Closed { .. }) => return,
            Err(error) => panic!("{path}: {error:?}"),
        }
    };
    drop(zk);
    *heard.lock().unwrap() = Some(Heard::default());
    while let Some(event) = watch.next().await {
        world.note(|| format!("{path} {event:?}"));
        let mut heard = heard.lock().unwrap();
        let heard = heard.get_or_insert_default();
        match event {
            PersistentEvent::Changed(event) => {
                assert_eq!(event.event_type, EventType::NodeDataChanged);
                assert!(event.path.starts_with(&path), "{event:?}");
                heard.changed += 1;
                world.count(|stats| stats.changed += 1);
            }
            PersistentEvent::Disarmed => {}
            // No event was missed, so the changes must still add up.
            PersistentEvent::Rearmed { unchanged: true } => {
                world.count(|stats| stats.unchanged += 1);
            }
            PersistentEvent::Rearmed { unchanged: false } => {
                heard.rearmed += 1;
                world.count(|stats| stats.rearmed += 1);
            }
            PersistentEvent::Ended(why) => assert_ne!(why, WatchEnded::Removed),
            other => panic!("{other:?}"),
        }
    }
}
