//! A model of a server with one client, and of what is on the wire between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use zk_curator::{ErrorKind, EventType, Stat, WatchedEvent};

use super::super::node::{CachedNode, Lookup};
use super::super::reads::{Answer, Job, What};
use super::super::tree_state::{Change, Scope, TreeState};

/// The paths below the root that come and go.
pub(super) const BELOW: [&str; 10] =
    ["", "/a", "/b", "/c", "/a/a", "/a/b", "/b/a", "/c/a", "/a/a/a", "/a/a/b"];
/// The most requests under way.
const PARALLEL: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
}

type Nodes = BTreeMap<String, Node>;

/// A write, of the path with this number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write {
    Create(usize),
    Set(usize),
    Delete(usize),
}

/// A server with one client.
struct Server {
    root: &'static str,
    zxid: i64,
    nodes: Nodes,
    /// The nodes after each transaction.
    history: Vec<Nodes>,
    /// Every state that a node has had: path, `czxid`, `mzxid`.
    real: BTreeSet<(String, i64, i64)>,
}

impl Server {
    fn new(root: &'static str) -> Self {
        let mut nodes = Nodes::new();
        if root == "/" {
            nodes.insert("/".into(), Node { czxid: 0, mzxid: 0, pzxid: 0 });
        }
        let real = nodes.keys().map(|path| (path.clone(), 0, 0)).collect();
        Self { root, zxid: 0, history: vec![nodes.clone()], nodes, real }
    }

    fn path(&self, number: usize) -> String {
        match (self.root, BELOW[number]) {
            ("/", "") => "/".into(),
            ("/", below) => below.into(),
            (root, below) => format!("{root}{below}"),
        }
    }

    fn children<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        let parent = path.trim_end_matches('/');
        let names = self.nodes.keys().filter_map(move |other| other.strip_prefix(parent)?.strip_prefix('/'));
        names.filter(|name| !name.is_empty() && !name.contains('/'))
    }

    /// One transaction; writes that are not possible are left out.
    fn commit(&mut self, writes: &[Write]) -> Vec<WatchedEvent> {
        let (zxid, mut events) = (self.zxid + 1, Vec::new());
        for write in writes {
            let (Write::Create(number) | Write::Set(number) | Write::Delete(number)) = *write;
            let path = self.path(number);
            let parent = path.rsplit_once('/').map(|(parent, _)| parent).filter(|_| path != self.root);
            let parent = parent.map(|parent| if parent.is_empty() { "/" } else { parent });
            let has_parent = parent.is_none_or(|parent| self.nodes.contains_key(parent));
            let is_there = self.nodes.contains_key(&path);
            let kind = match write {
                Write::Create(_) if !is_there && has_parent => {
                    self.nodes.insert(path.clone(), Node { czxid: zxid, mzxid: zxid, pzxid: zxid });
                    EventType::NodeCreated
                }
                Write::Set(_) if is_there => {
                    self.nodes.get_mut(&path).unwrap().mzxid = zxid;
                    EventType::NodeDataChanged
                }
                Write::Delete(_) if is_there && path != "/" && self.children(&path).next().is_none() => {
                    self.nodes.remove(&path);
                    EventType::NodeDeleted
                }
                _ => continue,
            };
            if let Some(parent) = parent.filter(|_| kind != EventType::NodeDataChanged) {
                self.nodes.get_mut(parent).unwrap().pzxid = zxid;
            }
            if let Some(node) = self.nodes.get(&path) {
                self.real.insert((path.clone(), node.czxid, node.mzxid));
            }
            events.push(WatchedEvent::new(kind, path).with_zxid(Some(zxid)));
        }
        if !events.is_empty() {
            self.zxid = zxid;
            self.history.push(self.nodes.clone());
        }
        events
    }

    /// The writes that create a path with its parents.
    fn create_all(&self, number: usize) -> Vec<Write> {
        let path = self.path(number);
        // The numbers are in the order of the levels.
        let numbers = (0..BELOW.len()).filter(|other| path.starts_with(&self.path(*other)));
        numbers.map(Write::Create).collect()
    }

    /// The writes that delete a path with everything below it.
    fn delete_all(&self, number: usize) -> Vec<Write> {
        let path = self.path(number);
        let mut numbers: Vec<_> =
            (0..BELOW.len()).filter(|other| self.path(*other).starts_with(&path)).collect();
        numbers.sort_by_key(|number| std::cmp::Reverse(self.path(*number).len()));
        numbers.into_iter().map(Write::Delete).collect()
    }

    fn answer(&self, job: &Job, size: i32) -> Answer {
        let Some(node) = self.nodes.get(&*job.path) else { return Answer::Missing };
        if job.what == What::Names {
            return Answer::Names(self.children(&job.path).map(str::to_owned).collect());
        }
        let stat = Stat {
            czxid: node.czxid,
            mzxid: node.mzxid,
            pzxid: node.pzxid,
            num_children: i32::try_from(self.children(&job.path).count()).unwrap(),
            data_length: size,
            ..Stat::default()
        };
        Answer::Data(CachedNode { path: job.path.clone(), data: Bytes::from(node.mzxid.to_string()), stat })
    }
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Writes of others, in one transaction or each in its own.
    Write(Vec<Write>, bool),
    CreateAll(usize, bool),
    DeleteAll(usize, bool),
    Replace(usize),
    /// The client sends a request.
    Send,
    /// The server answers the next request. One read of it may fail, or not be answered.
    Serve(Option<(usize, bool)>),
    /// So much of what the server has sent arrives.
    Receive(usize),
    /// The cache takes so many of the events that have arrived.
    Hear(usize),
    /// The cache takes the next answer, after all events that have arrived.
    Answer,
    /// The connection is lost; requests are sent again after the reconnect, or fail.
    Cut(bool),
    Reconnect,
    /// The session is lost.
    Lose,
    Sweep,
    Audit,
    /// A moment is noted after which everything is to be shown.
    Checkpoint,
    /// Everything comes to rest.
    Rest,
}

/// What a one-shot watch is for.
type Place = (String, What);

/// What the server has sent.
#[derive(Debug)]
enum Sent {
    Event {
        event: WatchedEvent,
        zxid: i64,
        is_last: bool,
        /// The one-shot watch that has fired.
        place: Option<Place>,
    },
    Disarmed,
    /// The watch was added again after this transaction, or all one-shot watches were.
    Rearmed(i64),
    /// The one-shot watches were set again in the same session, and what they have missed was told.
    CaughtUp(i64),
    /// The answers to a request, after this transaction.
    Answers(u64, Vec<Option<Answer>>, i64),
}

/// A request and its answers.
#[derive(Debug)]
struct Flight {
    number: u64,
    jobs: Vec<Job>,
    /// `None` inside: the request has failed.
    answers: Option<Option<(Vec<Option<Answer>>, i64)>>,
}

/// A rule of the wire or of the cache that is broken, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// Answers come before the events that they show.
    LateEvents,
    /// Nothing is read again after an outage.
    NoSweep,
    /// Nothing is read again because of a deletion.
    LostDeletions,
    /// A checkpoint is taken for reached at once.
    EarlyCheckpoint,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) root: &'static str,
    pub(super) max_depth: Option<usize>,
    pub(super) is_filtered: bool,
    pub(super) tells_zxids: bool,
    /// Whether there are lasting watches, or one-shot watches on every node.
    pub(super) is_lasting: bool,
    /// The size of each node: how many reads a request has.
    pub(super) size: i32,
    pub(super) flaw: Flaw,
}

impl Setup {
    /// Whether a path is in the scope.
    fn covers(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap();
        let mut names = below.split('/').filter(|name| !name.is_empty());
        self.max_depth.is_none_or(|most| names.clone().count() <= most)
            && !(self.is_filtered && names.any(|name| name == "b"))
    }
}

struct Model {
    setup: Setup,
    server: Server,
    state: TreeState,
    is_connected: bool,
    /// The one-shot watches of the server, and those of the client: whether they wait for a node to be created.
    set: BTreeSet<Place>,
    watched: BTreeMap<Place, bool>,
    /// The last transaction that an answer has told.
    seen: i64,
    is_new_session: bool,
    /// Requests on their way to the server, and those that are sent again after the reconnect.
    requests: VecDeque<u64>,
    again: VecDeque<u64>,
    wire: VecDeque<Sent>,
    /// Events that have arrived and were not taken yet.
    arrived: VecDeque<Sent>,
    flights: VecDeque<Flight>,
    last_flight: u64,
    is_armed: bool,
    needs_sweep: bool,
    /// The last transaction of which the cache has taken everything, and whether it has taken a part of another one.
    handled: i64,
    is_partial: bool,
    /// The checkpoints that were not reached yet, and the last transaction of which everything was taken before each.
    checkpoints: Vec<(u64, i64)>,
    /// The last state of each path that was shown, and whether it was removed since.
    shown: BTreeMap<String, ((i64, i64), bool)>,
}

pub(super) type Checked = Result<(), TestCaseError>;

impl Model {
    fn new(setup: Setup) -> Self {
        let filter = setup.is_filtered.then(|| {
            let filter: Arc<dyn Fn(&str) -> bool + Send + Sync> = Arc::new(|path| !path.ends_with("/b"));
            filter
        });
        let scope = Scope { max_depth: setup.max_depth, filter };
        let mut state = TreeState::new(setup.root.to_owned(), scope);
        if !setup.is_lasting {
            state.watch_each();
        }
        Self {
            setup,
            server: Server::new(setup.root),
            state,
            is_connected: true,
            set: BTreeSet::new(),
            watched: BTreeMap::new(),
            seen: 0,
            is_new_session: false,
            requests: VecDeque::new(),
            again: VecDeque::new(),
            wire: VecDeque::new(),
            arrived: VecDeque::from([Sent::Rearmed(0)]),
            flights: VecDeque::new(),
            last_flight: 0,
            is_armed: false,
            needs_sweep: true,
            handled: 0,
            is_partial: false,
            checkpoints: Vec::new(),
            shown: BTreeMap::new(),
        }
    }

    fn commit(&mut self, writes: &[Write]) {
        let events = self.server.commit(writes);
        if !self.is_connected {
            return;
        }
        let events: Vec<_> = if self.setup.is_lasting {
            events.into_iter().map(|event| (event, None)).collect()
        } else {
            events.iter().flat_map(|event| self.fired(event)).collect()
        };
        let (count, zxid) = (events.len(), self.server.zxid);
        for (at, (event, place)) in events.into_iter().enumerate() {
            let event = if self.setup.tells_zxids { event } else { event.with_zxid(None) };
            self.wire.push_back(Sent::Event { event, zxid, is_last: at + 1 == count, place });
        }
    }

    /// The one-shot watches that a change fires, with their events.
    fn fired(&mut self, change: &WatchedEvent) -> Vec<(WatchedEvent, Option<Place>)> {
        let mut fired = Vec::new();
        let mut fire = |path: &str, what, kind| {
            let place = (path.to_owned(), what);
            if self.set.remove(&place) {
                let event = WatchedEvent::new(kind, path.to_owned()).with_zxid(change.zxid());
                fired.push((event, Some(place)));
            }
        };
        let path = change.path.as_str();
        match change.event_type {
            EventType::NodeDeleted => {
                // A reason to read the node.
                fire(path, What::Data, EventType::NodeDataChanged);
                fire(path, What::Names, EventType::NodeDataChanged);
            }
            kind => fire(path, What::Data, kind),
        }
        if change.event_type != EventType::NodeDataChanged
            && let Some((parent, _)) = path.rsplit_once('/')
        {
            let parent = if parent.is_empty() { "/" } else { parent };
            fire(parent, What::Names, EventType::NodeChildrenChanged);
        }
        fired
    }

    /// Sets the one-shot watches again, and fires those that have missed something.
    fn set_again(&mut self) {
        for (place, is_for_creation) in self.watched.clone() {
            let (path, what) = &place;
            let kind = match (self.server.nodes.get(path), what) {
                (Some(_), What::Data) if is_for_creation => Some(EventType::NodeCreated),
                (None, What::Data) if is_for_creation => None,
                (Some(node), What::Data) if node.mzxid <= self.seen => None,
                (Some(node), What::Names) if node.pzxid <= self.seen => None,
                (Some(_), What::Names) => Some(EventType::NodeChildrenChanged),
                (Some(_) | None, _) => Some(EventType::NodeDataChanged),
            };
            let Some(kind) = kind else {
                self.set.insert(place);
                continue;
            };
            let event = WatchedEvent::new(kind, path.clone());
            self.wire.push_back(Sent::Event { event, zxid: 0, is_last: true, place: Some(place) });
        }
    }

    /// The one-shot watch that a read leaves, and whether it waits for the node to be created.
    fn left(&self, job: &Job, answer: &Answer) -> Option<(Place, bool)> {
        let is_for_creation = matches!(answer, Answer::Missing);
        let is_left = match answer {
            Answer::Data(_) | Answer::Names(_) => true,
            Answer::Missing => job.what == What::Data && &*job.path == self.setup.root,
            Answer::Failed(_) => false,
        };
        let is_left = is_left && !self.setup.is_lasting;
        is_left.then(|| ((job.path.to_string(), job.what), is_for_creation))
    }

    fn write(&mut self, writes: &[Write], is_one: bool) {
        if is_one {
            return self.commit(writes);
        }
        for write in writes {
            self.commit(&[*write]);
        }
    }

    fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Write(writes, is_one) => self.write(writes, *is_one),
            Step::CreateAll(number, is_one) => {
                let writes = self.server.create_all(*number);
                self.write(&writes, *is_one);
            }
            Step::DeleteAll(number, is_one) => {
                let writes = self.server.delete_all(*number);
                self.write(&writes, *is_one);
            }
            Step::Replace(number) => self.commit(&[Write::Delete(*number), Write::Create(*number)]),
            Step::Send => self.send(),
            Step::Serve(fault) => self.serve(*fault),
            Step::Receive(count) => self.receive(*count),
            Step::Hear(count) => self.hear(*count)?,
            Step::Answer => self.take_answer()?,
            Step::Cut(retries) => self.cut(*retries),
            Step::Reconnect => self.reconnect(),
            Step::Lose => self.lose(),
            Step::Sweep => self.sweep(),
            Step::Audit => self.state.audit(),
            Step::Checkpoint => {
                if self.is_current() && !self.is_partial {
                    self.checkpoints.push((self.state.checkpoint(), self.handled));
                }
            }
            Step::Rest => self.finish()?,
        }
        self.check()
    }

    fn send(&mut self) {
        if !self.is_armed || self.flights.len() >= PARALLEL {
            return;
        }
        let jobs = self.state.next_batch();
        if jobs.is_empty() {
            return;
        }
        self.last_flight += 1;
        self.flights.push_back(Flight { number: self.last_flight, jobs, answers: None });
        if self.is_connected { &mut self.requests } else { &mut self.again }.push_back(self.last_flight);
    }

    fn serve(&mut self, fault: Option<(usize, bool)>) {
        let Some(number) = self.requests.pop_front() else { return };
        let flight = self.flights.iter().find(|flight| flight.number == number).unwrap();
        let answer = |(at, job)| match fault {
            Some((which, is_lost)) if which % flight.jobs.len() == at => {
                (!is_lost).then_some(Answer::Failed(ErrorKind::NoAuth))
            }
            _ => Some(self.server.answer(job, self.setup.size)),
        };
        let answers: Vec<_> = flight.jobs.iter().enumerate().map(answer).collect();
        for (job, answer) in flight.jobs.iter().zip(&answers) {
            let left = answer.as_ref().and_then(|answer| self.left(job, answer));
            self.set.extend(left.map(|(place, _)| place));
        }
        self.wire.push_back(Sent::Answers(number, answers, self.server.zxid));
    }

    fn receive(&mut self, count: usize) {
        for _ in 0..count {
            match self.wire.pop_front() {
                Some(Sent::Answers(number, answers, zxid)) => {
                    let at = self.flights.iter().position(|flight| flight.number == number).unwrap();
                    for (job, answer) in self.flights[at].jobs.iter().zip(&answers) {
                        let left = answer.as_ref().and_then(|answer| self.left(job, answer));
                        self.watched.extend(left);
                    }
                    self.flights[at].answers = Some(Some((answers, zxid)));
                    self.seen = self.seen.max(zxid);
                }
                Some(event) => {
                    match &event {
                        Sent::Event { place: Some(place), .. } => drop(self.watched.remove(place)),
                        Sent::Rearmed(_) => self.is_new_session = false,
                        _ => {}
                    }
                    self.arrived.push_back(event);
                }
                None => return,
            }
        }
    }

    fn hear(&mut self, count: usize) -> Checked {
        for _ in 0..count {
            match self.arrived.pop_front() {
                Some(Sent::Event { event, zxid, is_last, .. }) => {
                    let is_deletion = event.event_type == EventType::NodeDeleted;
                    if self.setup.flaw != Flaw::LostDeletions || !is_deletion {
                        self.change(|state, changes| state.event(&event, state.news(), changes))?;
                    }
                    self.is_partial = !is_last;
                    if is_last {
                        self.handled = self.handled.max(zxid);
                    }
                }
                Some(Sent::Disarmed) => self.is_armed = false,
                Some(Sent::Rearmed(zxid)) => {
                    self.is_armed = true;
                    self.state.missed();
                    self.needs_sweep = self.setup.flaw != Flaw::NoSweep || zxid == 0;
                    (self.handled, self.is_partial) = (self.handled.max(zxid), false);
                }
                Some(Sent::CaughtUp(zxid)) => {
                    self.is_armed = true;
                    (self.handled, self.is_partial) = (self.handled.max(zxid), false);
                }
                _ => return Ok(()),
            }
            self.check()?;
        }
        Ok(())
    }

    fn take_answer(&mut self) -> Checked {
        let Some(answers) = self.flights.front_mut().and_then(|flight| flight.answers.take()) else {
            return Ok(());
        };
        if self.setup.flaw != Flaw::LateEvents {
            self.hear(usize::MAX)?;
        }
        let Flight { jobs, .. } = self.flights.pop_front().unwrap();
        let Some((answers, zxid)) = answers else {
            self.state.unanswered(&jobs);
            return Ok(());
        };
        let (answered, unanswered): (Vec<_>, Vec<_>) =
            jobs.into_iter().zip(answers).partition(|(_, answer)| answer.is_some());
        let unanswered: Vec<_> = unanswered.into_iter().map(|(job, _)| job).collect();
        self.state.unanswered(&unanswered);
        for (job, answer) in answered {
            self.change(|state, changes| state.answered(&job, answer.unwrap(), changes))?;
        }
        self.handled = self.handled.max(zxid);
        Ok(())
    }

    fn cut(&mut self, retries: bool) {
        if !self.is_connected {
            return;
        }
        self.is_connected = false;
        self.arrived.push_back(Sent::Disarmed);
        self.wire.clear();
        self.requests.clear();
        self.set.clear();
        for flight in self.flights.iter_mut().filter(|flight| flight.answers.is_none()) {
            if retries {
                self.again.push_front(flight.number);
            } else {
                flight.answers = Some(None);
            }
        }
    }

    fn reconnect(&mut self) {
        if self.is_connected {
            return;
        }
        self.is_connected = true;
        if self.setup.is_lasting || self.is_new_session {
            self.wire.push_back(Sent::Rearmed(self.server.zxid));
        } else {
            self.set_again();
            self.wire.push_back(Sent::CaughtUp(self.server.zxid));
        }
        self.requests = std::mem::take(&mut self.again);
    }

    fn lose(&mut self) {
        self.cut(false);
        self.arrived.clear();
        self.flights.clear();
        self.again.clear();
        self.watched.clear();
        self.is_new_session = true;
        self.is_armed = false;
        self.is_partial = true;
        self.state.forget_reads();
    }

    /// Whether nothing was missed that was not asked for.
    fn is_current(&self) -> bool {
        self.is_armed && !self.needs_sweep
    }

    fn sweep(&mut self) {
        if self.is_armed && self.needs_sweep {
            self.needs_sweep = false;
            self.state.sweep();
        }
    }

    fn tree(&self) -> BTreeMap<String, (i64, i64)> {
        let tree = self.state.tree();
        let nodes = tree.walk(tree.root());
        nodes.map(|node| (node.path.to_string(), (node.stat.czxid, node.stat.mzxid))).collect()
    }

    /// Changes the state. What changes is told, with the state before; and nothing goes back.
    fn change(&mut self, change: impl FnOnce(&mut TreeState, &mut Vec<Change>)) -> Checked {
        let before = self.tree();
        let mut changes = Vec::new();
        change(&mut self.state, &mut changes);
        let after = self.tree();
        prop_assert_eq!(after.len(), self.state.tree().len());
        let mut told = BTreeSet::new();
        for (path, old) in changes {
            let old = old.map(|old| (old.stat.czxid, old.stat.mzxid));
            if told.insert(path.to_string()) {
                prop_assert_eq!(old, before.get(&*path).copied(), "{} was told", path);
            }
        }
        for path in before.keys().chain(after.keys()) {
            let (old, new) = (before.get(path).copied(), after.get(path).copied());
            if old == new {
                continue;
            }
            prop_assert!(told.contains(path), "{path}: {old:?} became {new:?} silently");
            let Some(new) = new else {
                let is_removed = !self.state.unreadable().contains_key(path.as_str());
                self.shown.insert(path.clone(), (old.unwrap(), is_removed));
                continue;
            };
            if let Some((last, is_removed)) = self.shown.insert(path.clone(), (new, false)) {
                let goes_on = if is_removed { new.0 > last.0 } else { new >= last };
                prop_assert!(goes_on, "{path} goes back from {last:?} to {new:?}");
            }
        }
        Ok(())
    }

    /// What is shown was once true, and is true if nothing has to be read.
    fn check(&mut self) -> Checked {
        for (path, (czxid, mzxid)) in self.tree() {
            prop_assert!(self.server.real.contains(&(path.clone(), czxid, mzxid)), "{path} is invented");
        }
        if !self.is_current() {
            self.checkpoints.clear();
            return Ok(());
        }
        let is_reached = |mark| self.setup.flaw == Flaw::EarlyCheckpoint || self.state.has_reached(mark);
        while let Some((_, zxid)) = self.checkpoints.first().filter(|(mark, _)| is_reached(*mark)) {
            self.check_not_older_than(*zxid)?;
            self.checkpoints.remove(0);
        }
        if !self.state.is_settled() || self.is_partial {
            return Ok(());
        }
        let there = &self.server.history[usize::try_from(self.handled).unwrap()];
        for number in 0..BELOW.len() {
            let path = self.server.path(number);
            let is_open = self.is_open(&path);
            let there = there.get(&path).filter(|_| self.setup.covers(&path));
            match (self.state.lookup(&path, true), there) {
                (Lookup::Present(node), Some(there)) => {
                    prop_assert_eq!((node.stat.czxid, node.stat.mzxid), (there.czxid, there.mzxid));
                    prop_assert_eq!(&node.data, &there.mzxid.to_string());
                }
                (Lookup::Absent, None) => prop_assert!(self.setup.covers(&path), "{path} is not covered"),
                (Lookup::Unknown, _) => {
                    prop_assert!(is_open || !self.setup.covers(&path), "{path} is not known");
                }
                (told, there) => {
                    prop_assert!(false, "{path} is {told:?}, and there {there:?}");
                }
            }
        }
        Ok(())
    }

    /// No path shows a state from before this transaction.
    fn check_not_older_than(&self, zxid: i64) -> Checked {
        let since = &self.server.history[usize::try_from(zxid).unwrap()..];
        for path in (0..BELOW.len()).map(|number| self.server.path(number)) {
            if self.is_open(&path) || !self.setup.covers(&path) {
                continue;
            }
            let states: BTreeSet<_> =
                since.iter().map(|nodes| nodes.get(&path).map(|node| (node.czxid, node.mzxid))).collect();
            let is_shown = match self.state.lookup(&path, true) {
                Lookup::Present(node) => states.contains(&Some((node.stat.czxid, node.stat.mzxid))),
                // Between the two parts of a transaction that replaces it, perhaps.
                Lookup::Absent => {
                    states.iter().flatten().any(|(czxid, _)| *czxid > zxid) || states.contains(&None)
                }
                // What was there all the time, and has not changed, is known.
                Lookup::Unknown => states.len() > 1 || states.contains(&None),
            };
            prop_assert!(is_shown, "{path} is older than {zxid}");
        }
        Ok(())
    }

    /// Whether a node, or one above it, could not be read.
    fn is_open(&self, path: &str) -> bool {
        self.state.unreadable().keys().any(|open| path.starts_with(&**open) || &**open == "/")
    }

    /// Lets everything come to rest.
    fn finish(&mut self) -> Checked {
        self.reconnect();
        for round in 0.. {
            prop_assert!(round < 1000, "never at rest: {:?}", self.state);
            self.receive(usize::MAX);
            self.hear(usize::MAX)?;
            self.sweep();
            self.send();
            self.serve(None);
            self.receive(usize::MAX);
            self.take_answer()?;
            self.check()?;
            if self.flights.is_empty() && self.state.is_settled() && !self.needs_sweep {
                break;
            }
        }
        Ok(())
    }
}

/// Runs the steps, lets everything come to rest, and compares the cache with the server.
pub(super) fn run(setup: Setup, steps: &[Step]) -> Checked {
    let mut model = Model::new(setup);
    for step in steps {
        model.step(step)?;
    }
    model.finish()?;
    // Whatever could not be read is read after the next outage, or in the next session.
    if setup.is_lasting {
        model.cut(false);
    } else {
        model.lose();
    }
    model.finish()?;
    prop_assert!(model.state.unreadable().is_empty());
    prop_assert_eq!(model.handled, model.server.zxid);
    let there = model.server.nodes.iter().filter(|(path, _)| setup.covers(path));
    let there: BTreeMap<_, _> = there.map(|(path, node)| (path.clone(), (node.czxid, node.mzxid))).collect();
    prop_assert_eq!(model.tree(), there);
    Ok(())
}
