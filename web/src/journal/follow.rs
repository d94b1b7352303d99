//! Follows a path: waits for events, reads the nodes that have changed, and records the changes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;
use zk_curator::internal::{Locked, Signal, sleep_until};
use zk_curator::op::ReadResult;
use zk_curator::watch::PersistentWatch;
use zk_curator::{
    CuratorFramework, Error, ErrorKind, EventType, PersistentEvent, WatchEnded, WatchedEvent,
};

use super::book::{Book, FoundChange};
use super::known::{KnownNodes, MOST_KNOWN};
use super::ledger::{Marks, SeenNode};
use super::value::JournalValue;
use crate::live::{Freshness, News, Unwatched, watch_below};
use crate::paths::child_of;
use crate::security::Redaction;
use crate::show::now_ms;

/// The shortest time between two reads.
const PAUSE: Duration = Duration::from_millis(250);
/// The pause after a read that has failed.
const RETRY: Duration = Duration::from_secs(1);
/// The nodes that are read at a time.
const AT_ONCE: usize = 64;
/// The maximum number of changed nodes that wait to be read. Above it, the whole tree is compared.
const MOST_WAITING: usize = 10_000;
/// The bytes of the values that a walk reads, most of which are not kept. The last response may
/// exceed it.
const MOST_READ: usize = 32 << 20;
/// The time for a read.
const DEADLINE: Duration = Duration::from_secs(5);

/// The changes below a path.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) path: String,
    /// A random text, which another journal of the path does not have.
    pub(super) mark: String,
    /// The time at which it was opened, in milliseconds since 1970 by the clock of this host.
    pub(super) began: i64,
    pub(super) redaction: Redaction,
    /// The generation is the number of the last change.
    pub(super) news: Signal<News>,
    pub(super) seats: Signal<JournalSeats>,
    pub(super) book: Locked<Book>,
}

/// The viewers of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JournalSeats {
    pub(super) viewers: usize,
    /// The number of viewers so far.
    pub(super) visits: u64,
    /// The time of the last arrival or departure.
    pub(super) seen: Instant,
    pub(super) is_evicted: bool,
}

/// The nodes to read.
#[derive(Debug, Default)]
struct Waiting {
    /// `true` if every node may have changed.
    all: bool,
    nodes: BTreeMap<String, Marks>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        !self.all && self.nodes.is_empty()
    }

    fn add(&mut self, event: WatchedEvent) {
        let marks = match event.event_type {
            EventType::NodeCreated => Marks { created: true, ..Marks::default() },
            EventType::NodeDeleted => Marks { deleted: true, ..Marks::default() },
            EventType::NodeDataChanged => Marks { changed: true, ..Marks::default() },
            // Lists of children are no data.
            _ => return,
        };
        let known = self.nodes.entry(event.path).or_default();
        known.created |= marks.created;
        known.deleted |= marks.deleted;
        known.changed |= marks.changed;
        if self.nodes.len() > MOST_WAITING {
            self.nodes.clear();
            self.all = true;
        }
    }

    /// Takes the next nodes, parents before their children.
    fn take(&mut self, most: usize) -> Vec<(String, Marks)> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(next) = self.nodes.pop_first()
        {
            taken.push(next);
        }
        taken
    }
}

impl Journal {
    pub(super) fn new(path: String, redaction: Redaction) -> Self {
        let seats = JournalSeats { viewers: 0, visits: 0, seen: Instant::now(), is_evicted: false };
        Self {
            path,
            mark: Uuid::new_v4().simple().to_string(),
            began: now_ms(),
            redaction,
            news: Signal::new(News::first()),
            seats: Signal::new(seats),
            book: Locked::default(),
        }
    }

    /// Follows the path until the framework is closed.
    pub(super) async fn follow(&self, zk: &CuratorFramework) {
        let reads = zk.with_deadline(DEADLINE);
        let mut known = KnownNodes::default();
        // Changes are recorded from the end of the first read.
        let mut has_begun = false;
        let failed = |why: Unwatched| match why {
            Unwatched::ForNow => self.stale(),
            Unwatched::ForGood => self.set(Freshness::Unsupported),
        };
        while let Some(watch) = watch_below(zk, &self.path, failed).await {
            let ended = self.listen(&reads, watch, &mut known, &mut has_begun).await;
            if ended == WatchEnded::Closed {
                return;
            }
            self.stale();
        }
    }

    /// Reads what a watch reports until it ends.
    async fn listen(
        &self,
        zk: &CuratorFramework,
        mut watch: PersistentWatch,
        known: &mut KnownNodes,
        has_begun: &mut bool,
    ) -> WatchEnded {
        let mut waiting = Waiting { all: true, nodes: BTreeMap::new() };
        let (mut is_armed, mut due) = (true, Instant::now());
        loop {
            tokio::select! {
                event = watch.next() => match event {
                    Some(PersistentEvent::Changed(event)) => waiting.add(event),
                    Some(PersistentEvent::Disarmed) => {
                        is_armed = false;
                        self.stale();
                    }
                    Some(PersistentEvent::Rearmed { unchanged }) => {
                        is_armed = true;
                        waiting.all |= !unchanged;
                        if waiting.is_empty() {
                            self.set(Freshness::Fresh);
                        }
                    }
                    Some(PersistentEvent::Ended(why)) => return why,
                    // Later kinds of events do not concern nodes.
                    Some(_) => {}
                    None => return WatchEnded::SessionLost,
                },
                () = sleep_until(due), if is_armed && !waiting.is_empty() => {
                    let read = self.read(zk, &mut waiting, known, *has_begun).await;
                    let pause = if read.is_ok() { PAUSE } else { RETRY };
                    *has_begun |= read.is_ok();
                    if read.is_ok() {
                        self.set(Freshness::Fresh);
                    } else {
                        self.stale();
                    }
                    due = Instant::now() + pause;
                }
            }
        }
    }

    /// Reads what waits. After a failure it still waits.
    async fn read(
        &self,
        zk: &CuratorFramework,
        waiting: &mut Waiting,
        known: &mut KnownNodes,
        has_begun: bool,
    ) -> Result<(), Error> {
        if waiting.all {
            if has_begun {
                self.read_known(zk, known).await?;
            }
            self.walk(zk, known, has_begun).await?;
            waiting.all = false;
        }
        loop {
            let nodes = waiting.take(AT_ONCE);
            if nodes.is_empty() {
                // A node that was read now may be unreadable, or one too many.
                self.book.lock().set_partial(!known.is_complete());
                return Ok(());
            }
            let paths: Vec<_> = nodes.iter().map(|(path, _)| path.clone()).collect();
            match self.data_of(zk, &paths).await {
                Ok(seen) => {
                    for ((path, marks), seen) in nodes.into_iter().zip(seen) {
                        self.record(known.observe(&path, marks, seen));
                    }
                }
                Err(error) => {
                    waiting.nodes.extend(nodes);
                    return Err(error);
                }
            }
        }
    }

    /// Reads the known nodes again, after changes may have been missed.
    async fn read_known(&self, zk: &CuratorFramework, known: &mut KnownNodes) -> Result<(), Error> {
        for paths in known.paths().chunks(AT_ONCE) {
            for (path, seen) in paths.iter().zip(self.data_of(zk, paths).await?) {
                self.record(known.observe(path, Marks::default(), seen));
            }
        }
        Ok(())
    }

    /// Reads the nodes below the path, up to the limits. An unknown node is new if all others were
    /// known.
    async fn walk(
        &self,
        zk: &CuratorFramework,
        known: &mut KnownNodes,
        has_begun: bool,
    ) -> Result<(), Error> {
        let was_complete = known.is_complete();
        let (mut todo, mut visited) = (VecDeque::from([self.path.clone()]), 0);
        let (mut is_complete, mut read) = (true, 0_usize);
        while !todo.is_empty() {
            if read >= MOST_READ {
                is_complete = false;
                break;
            }
            let paths: Vec<_> = todo.drain(..todo.len().min(AT_ONCE)).collect();
            visited += paths.len();
            let lists = paths.iter().fold(zk.multi_read(), |lists, path| lists.children(path));
            let (seen, lists) = tokio::try_join!(self.data_of(zk, &paths), lists.into_future())?;
            read = seen.iter().map(SeenNode::length).fold(read, usize::saturating_add);
            for ((path, seen), list) in paths.iter().zip(seen).zip(lists) {
                match seen {
                    seen if has_begun && (was_complete || known.get(path).is_some()) => {
                        self.record(known.observe(path, Marks::default(), seen));
                    }
                    SeenNode::Present { value, stat } => known.learn(path, value, &stat),
                    SeenNode::Absent => {}
                    SeenNode::Unreadable => is_complete = false,
                }
                let names = match list {
                    Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
                    Err(_) => {
                        is_complete = false;
                        Vec::new()
                    }
                    Ok(list) => list.into_children().unwrap_or_default(),
                };
                for name in names {
                    if visited + todo.len() >= MOST_KNOWN || known.is_full() {
                        is_complete = false;
                        break;
                    }
                    todo.push_back(child_of(path, &name));
                }
            }
        }
        known.set_complete(is_complete && !known.is_full());
        Ok(())
    }

    /// Reads the data of nodes in one round trip.
    async fn data_of(
        &self,
        zk: &CuratorFramework,
        paths: &[String],
    ) -> Result<Vec<SeenNode>, Error> {
        let reads = paths.iter().fold(zk.multi_read(), |reads, path| reads.get_data(path));
        let results = reads.undecompressed().await?;
        let seen = |(path, result): (&String, Result<ReadResult, Error>)| match result {
            Ok(ReadResult::Data { data, is_null, stat }) => {
                let is_hidden = self.redaction.hides(path);
                let value =
                    if is_hidden { JournalValue::Hidden } else { JournalValue::of(&data, is_null) };
                SeenNode::Present { value, stat }
            }
            Err(error) if error.kind() == ErrorKind::NoNode => SeenNode::Absent,
            _ => SeenNode::Unreadable,
        };
        Ok(paths.iter().zip(results).map(seen).collect())
    }

    fn record(&self, found: Option<FoundChange>) {
        if let Some(found) = found {
            self.book.lock().add(found, now_ms());
        }
    }

    /// Announces the changes so far.
    fn set(&self, freshness: Freshness) {
        let last = self.book.lock().last();
        self.news.modify(|news| {
            news.freshness = freshness;
            news.generation = last;
        });
    }

    fn stale(&self) {
        let is_stale = |news: &News| matches!(news.freshness, Freshness::Stale { .. });
        if !self.news.look(is_stale) {
            self.set(Freshness::Stale { since: Instant::now() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_node_are_read_together() {
        let mut waiting = Waiting::default();
        for (kind, path) in [
            (EventType::NodeCreated, "/b"),
            (EventType::NodeDataChanged, "/b"),
            (EventType::NodeDeleted, "/a"),
            (EventType::NodeChildrenChanged, "/c"),
        ] {
            waiting.add(WatchedEvent::new(kind, path.to_owned()));
        }
        let taken = waiting.take(9);
        let deleted = Marks { deleted: true, ..Marks::default() };
        let created = Marks { created: true, changed: true, ..Marks::default() };
        assert_eq!(taken, [("/a".to_owned(), deleted), ("/b".to_owned(), created)]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn too_many_events_are_a_comparison_of_everything() {
        let mut waiting = Waiting::default();
        for n in 0..=MOST_WAITING {
            waiting.add(WatchedEvent::new(EventType::NodeCreated, format!("/{n}")));
        }
        assert!(waiting.all && waiting.nodes.is_empty());
    }
}
