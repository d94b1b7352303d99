#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use zk_curator_testing::rule::path_matches;

use super::{Checker, Violation};
use crate::history::{
    Cache, CacheStep, Event, History, Look, Name, News, NodeState, Nodes, Record,
};

/// Checks that caches show states that the servers had, never go back, and end with the newest
/// state.
///
/// * Real: the node had every shown state at some transaction.
/// * Monotone: neither a cache nor a subscriber shows an older state of a node after a newer one.
/// * Honest: contents that are declared [not older](Look) than a transaction are not older, and
///   include every node that has existed since. Contents that are declared exact are those of the
///   servers after the transaction, without a missing node.
/// * Complete: a wait for everything that is committed includes every transaction that any client
///   knew of when the wait began.
/// * Subscribers: the events of each subscriber fit together, and add up to the contents. An outage
///   is notified as a pair of stale and fresh.
/// * Convergence: within the time `lag` after the last fault, every cache shows the known
///   transactions, and no cache is stale for longer. A cache may be stale briefly, because a server
///   that was stopped can take over a session that has moved on elsewhere.
///
/// The states of the servers are [recorded](Cache::Applied) at the end of the run. A history
/// without these records, as of real servers, is checked only for the promises that do not need
/// them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CacheViews {
    lag: Duration,
}

impl CacheViews {
    /// Creates a checker that expects every cache to catch up within this time after the last
    /// fault.
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
        history
            .records()
            .iter()
            .enumerate()
            .try_for_each(|(place, record)| judge.record(place, record))
    }
}

/// A transaction that changed a node.
struct Change {
    zxid: i64,
    czxid: Option<i64>,
    place: usize,
}

/// The states of the nodes on the servers.
struct Truth<'a>(BTreeMap<&'a Name, Vec<Change>>);

/// A state of a node in the log of the servers.
enum Found {
    /// The last matching appearance of the state began with this transaction.
    Since(i64),
    /// The last appearance was over too early, with the change at this place.
    Over(usize),
    Never,
}

impl<'a> Truth<'a> {
    fn of(history: &'a History) -> Self {
        let mut changes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            if let Event::Cache(Cache::Applied { zxid, path, czxid }) = &record.event {
                changes.entry(path).or_default().push(Change { zxid: *zxid, czxid: *czxid, place });
            }
        }
        Self(changes)
    }

    fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the first transaction at which a node was in a state that was not over before the
    /// transaction `floor`.
    fn find(&self, path: &Name, node: Option<&NodeState>, floor: i64) -> Found {
        let changes = self.0.get(path).map_or(&[][..], Vec::as_slice);
        let mut found = Found::Never;
        // The node was absent at first.
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

    /// Returns the state of a node after a transaction, as the transactions that created it and
    /// last changed it.
    fn at(&self, changes: &[Change], zxid: i64) -> Option<(i64, i64)> {
        let last = changes.iter().rfind(|change| change.zxid <= zxid)?;
        last.czxid.map(|czxid| (czxid, last.zxid))
    }
}

/// The earliest possible transactions of the states that were last shown, each with the record that
/// showed it.
type Since<'a> = BTreeMap<&'a Name, (i64, usize)>;

struct View<'a> {
    covers: &'a [Name],
    began: usize,
    /// The time at which the cache was last fresh, or else began.
    fresh: Duration,
    since: Since<'a>,
}

impl View<'_> {
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
    /// The data of each state, and the first record that showed it.
    written: BTreeMap<(&'a Name, i64), (&'a Name, usize)>,
    /// The newest transaction that a client knew: the time, the transaction, and the record.
    known: Vec<(Duration, i64, usize)>,
    /// The newest transaction that a client knew when each wait began.
    calls: BTreeMap<u64, (i64, usize)>,
    caches: BTreeMap<u64, View<'a>>,
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
            Event::Cache(Cache::Committed { zxid }) => self.learn(record.at, place, *zxid),
            Event::Cache(Cache::Wrote { path, node }) => {
                self.learn(record.at, place, node.mzxid);
                self.has_data(place, path, node)?;
                if let (true, Found::Never) =
                    (self.truth.is_known(), self.truth.find(path, Some(node), 0))
                {
                    return Err(violation(
                        format!("{path} never was {node}, although a client wrote it"),
                        [place],
                    ));
                }
            }
            Event::Cache(Cache::Step { cache, step }) => match step {
                CacheStep::Began { covers } => {
                    let began =
                        View { covers, began: place, fresh: record.at, since: BTreeMap::new() };
                    self.caches.insert(*cache, began);
                }
                CacheStep::Syncing { call } => {
                    let known = self.known.last().map_or((0, place), |(_, zxid, by)| (*zxid, *by));
                    self.calls.insert(*call, known);
                }
                CacheStep::Looked { look, nodes } => {
                    self.looked(place, record, *cache, *look, nodes)?;
                    self.learn_of(record.at, place, nodes);
                    if let Look::Fresh(zxid) | Look::Synced { zxid, .. } | Look::Exact(zxid) = look
                    {
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

    /// Checks that a state always has the same data.
    fn has_data(
        &mut self,
        place: usize,
        path: &'a Name,
        node: &'a NodeState,
    ) -> Result<(), Violation> {
        let (data, before) = self.written.entry((path, node.mzxid)).or_insert((&node.data, place));
        if **data != node.data {
            let broken =
                format!("{path} is shown as {node}, but had {data:?} at {:#x}", node.mzxid);
            return Err(violation(broken, [*before, place]));
        }
        Ok(())
    }

    /// Checks a shown state: it must be real, not older than the last shown state, and not older
    /// than `floor`.
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
                return Err(violation(
                    format!("{path} is shown as {node_text}, but never was"),
                    [place],
                ));
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
            return Err(violation(format!("cache {cache} is read, but has not begun"), [place]));
        };
        let mut floor = (0, state.began);
        if matches!(look, Look::Fresh(_)) {
            state.fresh = record.at;
        }
        match look {
            Look::Loading => {
                if let Some((path, _)) = nodes.iter().find(|(_, node)| node.is_none()) {
                    return Err(violation(
                        format!("{path} is shown as absent before the load"),
                        [place],
                    ));
                }
            }
            Look::Drained(_) => {}
            Look::Fresh(zxid) | Look::Stale(zxid) | Look::Reflects(zxid) | Look::Exact(zxid) => {
                floor = (zxid, place);
            }
            Look::Synced { call, zxid } => {
                floor = (zxid, place);
                if let Some((known, by)) =
                    self.calls.get(&call).copied().filter(|(known, _)| *known > zxid)
                {
                    let broken = format!(
                        "cache {cache} has caught up with {zxid:#x}, although {known:#x} was known"
                    );
                    return Err(violation(broken, [by, place]));
                }
            }
        }
        if let Some(calm) = self.calm
            && record.at >= calm + self.lag
        {
            if matches!(look, Look::Loading | Look::Stale(_)) && record.at >= state.fresh + self.lag
            {
                let broken =
                    format!("cache {cache} is not fresh for {:?} after the last fault", self.lag);
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

    /// Checks that all nodes are shown that existed after a transaction and were not deleted later.
    fn is_complete(
        &self,
        place: usize,
        cache: &View<'_>,
        zxid: i64,
        nodes: &Nodes,
    ) -> Result<(), Violation> {
        for (path, changes) in self.truth.0.iter().filter(|(path, _)| cache.covers(path)) {
            let Some((czxid, _)) = self.truth.at(changes, zxid) else { continue };
            let is_there = |change: &Change| change.zxid <= zxid || change.czxid == Some(czxid);
            if changes.iter().all(is_there) && nodes.iter().all(|(shown, _)| shown != *path) {
                return Err(violation(
                    format!("{path} is not shown, but existed at {zxid:#x}"),
                    [place],
                ));
            }
        }
        Ok(())
    }

    /// Checks that all nodes are shown that the servers had after a transaction.
    fn is_exact(
        &self,
        place: usize,
        cache: &View<'_>,
        zxid: i64,
        nodes: &Nodes,
    ) -> Result<(), Violation> {
        for (path, changes) in self.truth.0.iter().filter(|(path, _)| cache.covers(path)) {
            let node =
                nodes.iter().find(|(shown, _)| shown == *path).and_then(|(_, node)| node.as_ref());
            let there = self.truth.at(changes, zxid);
            if node.map(|node| (node.czxid, node.mzxid)) != there {
                let there = there.map(|(czxid, mzxid)| format!("{czxid:#x}/{mzxid:#x}"));
                let there = there.unwrap_or_else(|| "absent".to_owned());
                let broken =
                    format!("{path} is shown as {}, but was {there} at {zxid:#x}", shown(node));
                return Err(violation(broken, [place]));
            }
        }
        Ok(())
    }

    /// Checks that the events of a subscriber add up to the shown contents.
    fn is_told(&self, place: usize, subscriber: u64, nodes: &Nodes) -> Result<(), Violation> {
        let Some(subscriber) = self.subscribers.get(&subscriber) else { return Ok(()) };
        for (path, node) in nodes {
            let told = subscriber.nodes.get(path);
            if told.map(|(told, _)| *told) != node.as_ref() {
                let at = told.map_or(subscriber.last, |(_, at)| *at);
                let told = shown(told.map(|(told, _)| *told));
                let broken =
                    format!("{path} is {}, but was notified as {told}", shown(node.as_ref()));
                return Err(violation(broken, [at, place]));
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_lines, reason = "a list of rules")]
    fn told(&mut self, place: usize, number: u64, news: &'a News) -> Result<(), Violation> {
        if let News::Loaded(nodes) = news {
            let mut new = Subscriber {
                nodes: BTreeMap::new(),
                since: BTreeMap::new(),
                is_fresh: true,
                last: place,
            };
            for (path, node) in nodes {
                self.see(place, &mut new.since, path, node.as_ref(), (0, place))?;
                new.nodes.extend(node.as_ref().map(|node| (path, (node, place))));
            }
            if let Some(before) = self.subscribers.insert(number, new) {
                return Err(violation(
                    format!("~{number} was notified twice of the loaded contents"),
                    [before.last, place],
                ));
            }
            return Ok(());
        }
        let Some(mut subscriber) = self.subscribers.remove(&number) else {
            return Err(violation(
                format!("~{number} was notified of an event before the loaded contents"),
                [place],
            ));
        };
        let wrong =
            |why: &str, at: usize| Err(violation(format!("~{number}: {why}: {news}"), [at, place]));
        let told = |path: &Name| subscriber.nodes.get(path).copied();
        let (path, old, new) = match news {
            News::Created(path, new) => (path, None, Some(new)),
            News::Changed(path, old, new) | News::Replaced(path, old, new) => {
                (path, Some(old), Some(new))
            }
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
            return wrong(
                "not the state that was notified before",
                before.map_or(subscriber.last, |(_, at)| at),
            );
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
