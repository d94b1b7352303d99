#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use zk_curator_testing::rule::path_matches;

use super::{Checker, Violation};
use crate::history::{CacheStep, Event, History, Look, Name, News, NodeState, Nodes, Record};

/// Checks that caches show what the servers had, never go back, and end with the newest.
///
/// * Real: every state that is shown was the state of the node at some transaction.
/// * Monotone: neither a cache nor a subscriber shows an older state of a node after a newer one.
/// * Honest: contents that are [not older](Look) than a transaction are not older, and lack no node that was there all the time
///   since; states that are exact are those of the servers after the transaction, and no node is missing.
/// * A wait for everything that is committed includes every transaction that anybody knew of when it began.
/// * Subscribers: the events of each fit together, and add up to the contents. Outages are told as pairs of stale and fresh.
/// * Converges: some time after the last fault, every cache shows what has been known for that time, and none is stale for so
///   long. It may be stale for a moment: a server that stood still can take over a session that has gone on elsewhere.
///
/// What the servers had is [written down](Event::Applied) at the end of the run. A history without that, as of real servers, is
/// not checked for what needs it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CacheViews {
    lag: Duration,
}

impl CacheViews {
    /// Expects every cache to catch up within this time when there are no more faults.
    #[must_use]
    pub const fn within(lag: Duration) -> Self {
        Self { lag }
    }
}

const NAME: &str = "cache views";

impl Checker for CacheViews {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut judge = Judge {
            lag: self.lag,
            truth: Truth::of(history),
            written: BTreeMap::new(),
            known: Vec::new(),
            calls: BTreeMap::new(),
            caches: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            calm: None,
        };
        history.records().iter().enumerate().try_for_each(|(place, record)| judge.record(place, record))
    }
}

/// A transaction that changed a node.
struct Change {
    zxid: i64,
    czxid: Option<i64>,
    place: usize,
}

/// What the servers had.
struct Truth<'a>(BTreeMap<&'a Name, Vec<Change>>);

/// A state of a node in the log of the servers.
enum Found {
    /// Its last appearance that counts began with this transaction.
    Since(i64),
    /// It was over before, with the change at this place.
    Over(usize),
    Never,
}

impl<'a> Truth<'a> {
    fn of(history: &'a History) -> Self {
        let mut changes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            if let Event::Applied { zxid, path, czxid } = &record.event {
                changes.entry(path).or_default().push(Change { zxid: *zxid, czxid: *czxid, place });
            }
        }
        Self(changes)
    }

    fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// The first time that a node was in a state, of those that were not over before the transaction `floor`.
    fn find(&self, path: &Name, node: Option<&NodeState>, floor: i64) -> Found {
        let changes = self.0.get(path).map_or(&[][..], Vec::as_slice);
        let mut found = Found::Never;
        // It was absent at first.
        let mut state = (0, None);
        for next in changes.iter().map(Some).chain([None]) {
            let (since, czxid) = state;
            let is_it = match node {
                Some(node) => czxid == Some(node.czxid) && since == node.mzxid,
                None => czxid.is_none(),
            };
            match next {
                _ if !is_it => {}
                Some(next) if next.zxid <= floor.max(since) => found = Found::Over(next.place),
                _ => return Found::Since(since),
            }
            state = next.map_or(state, |next| (next.zxid, next.czxid));
        }
        found
    }

    /// The state of a node after a transaction: by which it was created, and by which it was changed last.
    fn at(&self, changes: &[Change], zxid: i64) -> Option<(i64, i64)> {
        let last = changes.iter().rfind(|change| change.zxid <= zxid)?;
        last.czxid.map(|czxid| (czxid, last.zxid))
    }
}

/// The earliest transactions that the states shown last can be of, and the records that have shown them.
type Since<'a> = BTreeMap<&'a Name, (i64, usize)>;

struct Cache<'a> {
    covers: &'a [Name],
    began: usize,
    /// When it was seen to be fresh, or else began.
    fresh: Duration,
    since: Since<'a>,
}

impl Cache<'_> {
    fn covers(&self, path: &Name) -> bool {
        self.covers.iter().any(|pattern| path_matches(pattern, path))
    }
}

struct Subscriber<'a> {
    nodes: BTreeMap<&'a Name, (&'a NodeState, usize)>,
    since: Since<'a>,
    is_fresh: bool,
    last: usize,
}

struct Judge<'a> {
    lag: Duration,
    truth: Truth<'a>,
    /// The data of each state, and the record that has shown it first.
    written: BTreeMap<(&'a Name, i64), (&'a Name, usize)>,
    /// The newest transaction known to anybody: since when, and by which record.
    known: Vec<(Duration, i64, usize)>,
    /// The newest transaction known to anybody when a wait began.
    calls: BTreeMap<u64, (i64, usize)>,
    caches: BTreeMap<u64, Cache<'a>>,
    subscribers: BTreeMap<u64, Subscriber<'a>>,
    calm: Option<Duration>,
}

fn violation(broken: String, records: impl Into<Vec<usize>>) -> Violation {
    Violation::new(NAME, broken, records)
}

fn shown(node: Option<&NodeState>) -> String {
    node.map_or_else(|| "absent".to_owned(), ToString::to_string)
}

impl<'a> Judge<'a> {
    fn record(&mut self, place: usize, record: &'a Record) -> Result<(), Violation> {
        match &record.event {
            Event::FaultsOver => self.calm = Some(record.at),
            Event::Committed { zxid } => self.learn(record.at, place, *zxid),
            Event::Wrote { path, node } => {
                self.learn(record.at, place, node.mzxid);
                self.has_data(place, path, node)?;
                if let (true, Found::Never) = (self.truth.is_known(), self.truth.find(path, Some(node), 0)) {
                    return Err(violation(format!("{path} never was {node}, which was written"), [place]));
                }
            }
            Event::Cache { cache, step } => match step {
                CacheStep::Began { covers } => {
                    let began = Cache { covers, began: place, fresh: record.at, since: BTreeMap::new() };
                    self.caches.insert(*cache, began);
                }
                CacheStep::Syncing { call } => {
                    let known = self.known.last().map_or((0, place), |(_, zxid, by)| (*zxid, *by));
                    self.calls.insert(*call, known);
                }
                CacheStep::Looked { look, nodes } => {
                    self.looked(place, record, *cache, *look, nodes)?;
                    self.learn_of(record.at, place, nodes);
                    if let Look::Fresh(zxid) | Look::Synced { zxid, .. } | Look::Exact(zxid) = look {
                        self.learn(record.at, place, *zxid);
                    }
                }
                CacheStep::Told { subscriber, news } => self.told(place, *subscriber, news)?,
            },
            _ => {}
        }
        Ok(())
    }

    fn learn(&mut self, at: Duration, place: usize, zxid: i64) {
        if self.known.last().is_none_or(|(_, known, _)| *known < zxid) {
            self.known.push((at, zxid, place));
        }
    }

    fn learn_of(&mut self, at: Duration, place: usize, nodes: &Nodes) {
        for node in nodes.iter().filter_map(|(_, node)| node.as_ref()) {
            self.learn(at, place, node.mzxid);
        }
    }

    /// A state always has the same data.
    fn has_data(&mut self, place: usize, path: &'a Name, node: &'a NodeState) -> Result<(), Violation> {
        let (data, before) = self.written.entry((path, node.mzxid)).or_insert((&node.data, place));
        if **data != node.data {
            let broken = format!("{path} is shown as {node}, and had {data:?} at {:#x}", node.mzxid);
            return Err(violation(broken, [*before, place]));
        }
        Ok(())
    }

    /// A node is shown in a state which has to be real, not older than the one shown last, and not older than `floor`.
    fn see(
        &mut self,
        place: usize,
        since: &mut Since<'a>,
        path: &'a Name,
        node: Option<&'a NodeState>,
        floor: (i64, usize),
    ) -> Result<(), Violation> {
        if let Some(node) = node {
            self.has_data(place, path, node)?;
        }
        if !self.truth.is_known() {
            return Ok(());
        }
        let floor = since.get(path).copied().filter(|last| last.0 >= floor.0).unwrap_or(floor);
        let node_text = shown(node);
        match self.truth.find(path, node, floor.0) {
            Found::Since(zxid) => {
                since.insert(path, if zxid > floor.0 { (zxid, place) } else { floor });
            }
            Found::Over(end) => {
                let broken = format!(
                    "{path} is shown as {node_text}, which was over before {:#x} was shown or promised",
                    floor.0
                );
                return Err(violation(broken, [floor.1, place, end]));
            }
            Found::Never => {
                return Err(violation(format!("{path} is shown as {node_text}, and never was"), [place]));
            }
        }
        Ok(())
    }

    fn looked(
        &mut self,
        place: usize,
        record: &Record,
        cache: u64,
        look: Look,
        nodes: &'a Nodes,
    ) -> Result<(), Violation> {
        let Some(mut state) = self.caches.remove(&cache) else {
            return Err(violation(format!("cache {cache} is looked at, and has not begun"), [place]));
        };
        let mut floor = (0, state.began);
        if matches!(look, Look::Fresh(_)) {
            state.fresh = record.at;
        }
        match look {
            Look::Loading => {
                if let Some((path, _)) = nodes.iter().find(|(_, node)| node.is_none()) {
                    return Err(violation(format!("{path} is said to be absent before the load"), [place]));
                }
            }
            Look::Drained(_) => {}
            Look::Fresh(zxid) | Look::Stale(zxid) | Look::Reflects(zxid) | Look::Exact(zxid) => {
                floor = (zxid, place);
            }
            Look::Synced { call, zxid } => {
                floor = (zxid, place);
                if let Some((known, by)) = self.calls.get(&call).copied().filter(|(known, _)| *known > zxid) {
                    let broken =
                        format!("cache {cache} has caught up with {zxid:#x}, and {known:#x} was known");
                    return Err(violation(broken, [by, place]));
                }
            }
        }
        if let Some(calm) = self.calm
            && record.at >= calm + self.lag
        {
            if matches!(look, Look::Loading | Look::Stale(_)) && record.at >= state.fresh + self.lag {
                let broken = format!("cache {cache} is not fresh for {:?} after the last fault", self.lag);
                return Err(violation(broken, [place]));
            }
            let known = self.known.iter().rfind(|(at, ..)| *at + self.lag <= record.at);
            if let Some((_, known, by)) = known.filter(|(_, known, _)| *known > floor.0) {
                floor = (*known, *by);
            }
        }
        if let Look::Exact(zxid) = look {
            self.is_exact(place, &state, zxid, nodes)?;
        }
        for (path, node) in nodes {
            self.see(place, &mut state.since, path, node.as_ref(), floor)?;
        }
        if let Look::Fresh(zxid) | Look::Stale(zxid) | Look::Synced { zxid, .. } = look {
            self.is_complete(place, &state, zxid, nodes)?;
        }
        if let Look::Drained(subscriber) = look {
            self.is_told(place, subscriber, nodes)?;
        }
        self.caches.insert(cache, state);
        Ok(())
    }

    /// All nodes that were there after a transaction, and were not deleted later, are shown.
    fn is_complete(
        &self,
        place: usize,
        cache: &Cache<'_>,
        zxid: i64,
        nodes: &Nodes,
    ) -> Result<(), Violation> {
        for (path, changes) in self.truth.0.iter().filter(|(path, _)| cache.covers(path)) {
            let Some((czxid, _)) = self.truth.at(changes, zxid) else { continue };
            let is_there = |change: &Change| change.zxid <= zxid || change.czxid == Some(czxid);
            if changes.iter().all(is_there) && nodes.iter().all(|(shown, _)| shown != *path) {
                return Err(violation(format!("{path} is not shown, and was there at {zxid:#x}"), [place]));
            }
        }
        Ok(())
    }

    /// All nodes that the servers had after a transaction are shown.
    fn is_exact(&self, place: usize, cache: &Cache<'_>, zxid: i64, nodes: &Nodes) -> Result<(), Violation> {
        for (path, changes) in self.truth.0.iter().filter(|(path, _)| cache.covers(path)) {
            let node = nodes.iter().find(|(shown, _)| shown == *path).and_then(|(_, node)| node.as_ref());
            let there = self.truth.at(changes, zxid);
            if node.map(|node| (node.czxid, node.mzxid)) != there {
                let there = there.map(|(czxid, mzxid)| format!("{czxid:#x}/{mzxid:#x}"));
                let there = there.unwrap_or_else(|| "absent".to_owned());
                let broken = format!("{path} is shown as {}, and was {there} at {zxid:#x}", shown(node));
                return Err(violation(broken, [place]));
            }
        }
        Ok(())
    }

    /// The events of a subscriber have told everything that is shown.
    fn is_told(&self, place: usize, subscriber: u64, nodes: &Nodes) -> Result<(), Violation> {
        let Some(subscriber) = self.subscribers.get(&subscriber) else { return Ok(()) };
        for (path, node) in nodes {
            let told = subscriber.nodes.get(path);
            if told.map(|(told, _)| *told) != node.as_ref() {
                let at = told.map_or(subscriber.last, |(_, at)| *at);
                let told = shown(told.map(|(told, _)| *told));
                let broken = format!("{path} is {}, and was told to be {told}", shown(node.as_ref()));
                return Err(violation(broken, [at, place]));
            }
        }
        Ok(())
    }

    fn told(&mut self, place: usize, number: u64, news: &'a News) -> Result<(), Violation> {
        if let News::Loaded(nodes) = news {
            let mut new =
                Subscriber { nodes: BTreeMap::new(), since: BTreeMap::new(), is_fresh: true, last: place };
            for (path, node) in nodes {
                self.see(place, &mut new.since, path, node.as_ref(), (0, place))?;
                new.nodes.extend(node.as_ref().map(|node| (path, (node, place))));
            }
            if let Some(before) = self.subscribers.insert(number, new) {
                return Err(violation(
                    format!("~{number} was told twice what is loaded"),
                    [before.last, place],
                ));
            }
            return Ok(());
        }
        let Some(mut subscriber) = self.subscribers.remove(&number) else {
            return Err(violation(format!("~{number} was told something before what is loaded"), [place]));
        };
        let wrong = |why: &str, at: usize| Err(violation(format!("~{number}: {why}: {news}"), [at, place]));
        let told = |path: &Name| subscriber.nodes.get(path).copied();
        let (path, old, new) = match news {
            News::Created(path, new) => (path, None, Some(new)),
            News::Changed(path, old, new) | News::Replaced(path, old, new) => (path, Some(old), Some(new)),
            News::Deleted(path, old) => (path, Some(old), None),
            News::Stale | News::Fresh(_) | News::Loaded(_) => {
                let is_fresh = matches!(news, News::Fresh(_));
                if subscriber.is_fresh == is_fresh {
                    return wrong("told twice", subscriber.last);
                }
                (subscriber.is_fresh, subscriber.last) = (is_fresh, place);
                self.subscribers.insert(number, subscriber);
                return Ok(());
            }
        };
        let before = told(path);
        if before.map(|(node, _)| node) != old {
            return wrong("not what was told before", before.map_or(subscriber.last, |(_, at)| at));
        }
        if let (Some(old), Some(new)) = (old, new) {
            let is_replaced = matches!(news, News::Replaced(..));
            if is_replaced == (old.czxid == new.czxid) || (!is_replaced && old.mzxid == new.mzxid) {
                return wrong("not of this kind", before.map_or(subscriber.last, |(_, at)| at));
            }
        }
        self.see(place, &mut subscriber.since, path, new, (0, place))?;
        match new {
            Some(new) => drop(subscriber.nodes.insert(path, (new, place))),
            None => drop(subscriber.nodes.remove(path)),
        }
        subscriber.last = place;
        self.subscribers.insert(number, subscriber);
        Ok(())
    }
}
