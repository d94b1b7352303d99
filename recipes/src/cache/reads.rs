//! The reads that a cache needs: which are wanted, which are under way, and since when they are needed. Pure.

use std::collections::{BTreeMap, VecDeque};

use zk_curator::ErrorKind;

use super::node::CachedNode;
use super::tree::{below, take_below};

/// A transaction that the server does not tell: newer than every other.
const UNKNOWN: i64 = i64::MAX;

/// The kinds of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Data,
    Names,
}

/// A read to perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    id: u64,
    pub(super) path: Box<str>,
    pub(super) what: What,
}

/// The answer to a [`Job`].
#[derive(Debug)]
pub(super) enum Answer {
    Data(CachedNode),
    Names(Vec<String>),
    Missing,
    /// An error of this node, which does not pass by itself.
    Failed(ErrorKind),
}

/// An audit: no checkpoint needs it.
const AUDIT: u64 = u64::MAX;

/// Why a read is needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cause {
    /// The number of checkpoints before it, or [`AUDIT`].
    since: u64,
    /// Whether the children may have changed without an event.
    pub(super) sweeps: bool,
}

impl Cause {
    /// The same cause; and the children may have changed without an event.
    pub(super) const fn sweeping(self) -> Self {
        Self { sweeps: true, ..self }
    }

    /// The same cause, for every checkpoint that was not reached yet.
    pub(super) const fn overdue(self) -> Self {
        Self { since: 0, ..self }
    }

    /// The same cause; and if it is an audit, it has found something.
    pub(super) const fn in_doubt(self) -> Self {
        if self.since == AUDIT { self.overdue() } else { self }
    }
}

/// What the state of the cache has to know of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    /// Why it was read: what the answer leads to has the same cause.
    pub(super) cause: Cause,
    /// The last deletion that was reported meanwhile: its transaction.
    pub(super) deleted: Option<i64>,
    /// Whether it is read again.
    pub(super) again: bool,
}

/// Whether a read is needed. A number is that of the checkpoints before it was needed, here or above, or [`AUDIT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Need {
    #[default]
    Idle,
    Wanted(u64),
    Reading {
        id: u64,
        since: u64,
        /// Since when another one is needed, if the node has changed meanwhile.
        again: Option<u64>,
    },
}

impl Need {
    fn since(self) -> Option<u64> {
        match self {
            Self::Idle => None,
            Self::Wanted(since) => Some(since),
            Self::Reading { since, again, .. } => Some(again.map_or(since, |again| again.min(since))),
        }
    }

    /// Whether more than an audit needs it.
    fn is_open(self) -> bool {
        self.since().is_some_and(|since| since < AUDIT)
    }

    /// It is needed, too; one that is under way is no use.
    fn and(self, since: u64) -> Self {
        match self {
            Self::Idle => Self::Wanted(since),
            Self::Wanted(earlier) => Self::Wanted(earlier.min(since)),
            Self::Reading { id, since: earlier, again } => {
                let again = again.map_or(since, |again| again.min(since));
                Self::Reading { id, since: earlier, again: Some(again) }
            }
        }
    }

    /// What is asked for already was needed before.
    fn already(self, earlier: u64) -> Self {
        match self {
            Self::Idle => Self::Idle,
            Self::Wanted(since) => Self::Wanted(since.min(earlier)),
            Self::Reading { id, since, again } => Self::Reading { id, since: since.min(earlier), again },
        }
    }

    /// It is not under way any more.
    fn unsent(self) -> Self {
        self.since().map_or(Self::Idle, Self::Wanted)
    }
}

/// How many reads are needed since when.
#[derive(Debug, Default)]
struct Open(BTreeMap<u64, usize>);

impl Open {
    fn first(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }

    fn change(&mut self, need: &mut Need, change: impl FnOnce(Need) -> Need) {
        let new = change(*need);
        if let Some(since) = new.since() {
            *self.0.entry(since).or_default() += 1;
        }
        if let Some(since) = std::mem::replace(need, new).since()
            && let Some(count) = self.0.get_mut(&since)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&since);
            }
        }
    }
}

/// The reads of one path.
#[derive(Debug, Default)]
struct Work {
    data: Need,
    names: Need,
    /// Whether the children may have changed without an event.
    sweeps: bool,
    /// The last change that was reported during the read of the data: its transaction, or [`UNKNOWN`].
    changed: i64,
    /// The last deletion that was reported during the read of the data, as well.
    deleted: Option<i64>,
}

impl Work {
    const fn need(&mut self, what: What) -> &mut Need {
        match what {
            What::Data => &mut self.data,
            What::Names => &mut self.names,
        }
    }
}

/// The reads of all paths.
#[derive(Debug, Default)]
pub(super) struct Reads {
    works: BTreeMap<Box<str>, Work>,
    open: Open,
    /// The reads that were asked for, in their order. Some may not be needed any more.
    wanted: VecDeque<(Box<str>, What)>,
    last_id: u64,
    checkpoints: u64,
}

impl Reads {
    /// The cause of what is found out now.
    pub(super) const fn news(&self) -> Cause {
        Cause { since: self.checkpoints, sweeps: false }
    }

    /// The cause of an audit: without doubt in the present state.
    pub(super) const fn audit() -> Cause {
        Cause { since: AUDIT, sweeps: true }
    }

    /// Whether nothing but audits is left to read.
    pub(super) fn are_done(&self) -> bool {
        self.open.first().is_none_or(|since| since == AUDIT)
    }

    /// Begins a checkpoint: [`has_reached`](Self::has_reached) it when everything was read that is needed now.
    pub(super) const fn checkpoint(&mut self) -> u64 {
        self.checkpoints += 1;
        self.checkpoints
    }

    /// Whether everything was read that was needed at a checkpoint. What was needed later may be missing.
    pub(super) fn has_reached(&self, checkpoint: u64) -> bool {
        self.open.first().is_none_or(|since| since >= checkpoint)
    }

    /// Whether anything is to be read of a path.
    pub(super) fn contains(&self, path: &str) -> bool {
        self.works.contains_key(path)
    }

    /// Whether the children may have changed without an event.
    pub(super) fn sweeps(&self, path: &str) -> bool {
        self.works.get(path).is_some_and(|work| work.sweeps)
    }

    /// Whether a read is to tell if a node, or a child of it, is there. An audit does not doubt that there is none.
    pub(super) fn doubts(&self, path: &str, is_known: bool) -> bool {
        let work = self.works.get(path);
        work.is_some_and(|work| work.names.is_open() || (work.data.is_open() && !is_known))
    }

    pub(super) fn want_data(&mut self, path: &str, cause: Cause) {
        let (work, open) = self.work(path);
        work.sweeps |= cause.sweeps;
        if cause.sweeps && matches!(work.data, Need::Reading { .. }) {
            work.changed = UNKNOWN;
        }
        let is_new = work.data == Need::Idle;
        open.change(&mut work.data, |need| need.and(cause.since));
        if is_new {
            self.wanted.push_back((path.into(), What::Data));
        }
    }

    /// Asks again for all data that are being read: the answers may be from before changes that were missed.
    pub(super) fn want_sent_again(&mut self, cause: Cause) {
        for path in sent(self.works.iter()) {
            self.want_data(&path, cause);
        }
    }

    /// A node was replaced by this transaction: what is being read below it may be of the time before.
    pub(super) fn replaced(&mut self, path: &str, czxid: i64, cause: Cause) {
        for path in sent(self.works.range(below(path))) {
            self.want_data(&path, cause);
            if let Some(work) = self.works.get_mut(&path) {
                work.deleted = work.deleted.max(Some(czxid));
            }
        }
    }

    pub(super) fn want_names(&mut self, path: &str, cause: Cause) {
        let (work, open) = self.work(path);
        let is_new = work.names == Need::Idle;
        open.change(&mut work.names, |need| need.and(cause.since));
        if is_new {
            self.wanted.push_back((path.into(), What::Names));
        }
    }

    /// Asks for the names of the children. A list that is asked for already is as good: later changes are reported.
    pub(super) fn want_names_once(&mut self, path: &str, cause: Cause) {
        let (work, open) = self.work(path);
        if work.names == Need::Idle {
            return self.want_names(path, cause);
        }
        open.change(&mut work.names, |need| need.already(cause.since));
    }

    /// A list that is asked for already was needed earlier.
    pub(super) fn backdate_names(&mut self, path: &str, cause: Cause) {
        if let Some(work) = self.works.get_mut(path) {
            self.open.change(&mut work.names, |need| need.already(cause.since));
        }
    }

    /// The reads below a path that are asked for already were needed earlier.
    pub(super) fn backdate_below(&mut self, path: &str, cause: Cause) {
        for (_, work) in self.works.range_mut(below(path)) {
            self.open.change(&mut work.data, |need| need.already(cause.since));
            self.open.change(&mut work.names, |need| need.already(cause.since));
        }
    }

    /// The next read to perform.
    pub(super) fn take_next(&mut self) -> Option<Job> {
        loop {
            let (path, what) = self.wanted.pop_front()?;
            let Some(work) = self.works.get_mut(&path) else { continue };
            let need = work.need(what);
            if let Need::Wanted(since) = *need {
                self.last_id += 1;
                *need = Need::Reading { id: self.last_id, since, again: None };
                return Some(Job { id: self.last_id, path, what });
            }
        }
    }

    /// Notes the transaction of a change during the read of the data.
    pub(super) fn changed(&mut self, path: &str, zxid: Option<i64>) {
        if let Some(work) = self.works.get_mut(path)
            && matches!(work.data, Need::Reading { .. })
        {
            work.changed = work.changed.max(zxid.unwrap_or(UNKNOWN));
        }
    }

    /// A node was deleted: what is under way is asked for again, and nothing else is needed.
    pub(super) fn deleted(&mut self, path: &str, zxid: Option<i64>, cause: Cause) {
        let Some(work) = self.works.get_mut(path) else { return };
        self.open.change(&mut work.names, |_| Need::Idle);
        if matches!(work.data, Need::Reading { .. }) {
            work.deleted = Some(zxid.unwrap_or(UNKNOWN));
            self.want_data(path, cause);
            self.changed(path, zxid);
        } else {
            self.open.change(&mut work.data, |_| Need::Idle);
        }
        self.finish(path);
    }

    /// A read was answered; `None` if nobody waits for the answer any more.
    pub(super) fn answered(&mut self, job: &Job, answer: &Answer) -> Option<Answered> {
        let Job { id, path, what } = job;
        let work = self.works.get_mut(path)?;
        let (since, mut again) = match *work.need(*what) {
            Need::Reading { id: reading, since, again } if reading == *id => (since, again),
            _ => return None,
        };
        // It is not the audit alone that needs it if the node has changed meanwhile.
        let since = again.map_or(since, |again| again.min(since));
        let cause = Cause { since, sweeps: work.sweeps };
        let mut deleted = None;
        if *what == What::Data {
            deleted = work.deleted.take();
            let changed = std::mem::take(&mut work.changed);
            again = match answer {
                // It shows the last change already.
                Answer::Data(node) if node.stat.mzxid >= changed => None,
                // It is not applied, so what it was to tell is still to be read.
                Answer::Missing => again.and(Some(since)),
                _ => again,
            };
            work.sweeps &= again.is_some();
        }
        self.open.change(work.need(*what), |_| again.map_or(Need::Idle, Need::Wanted));
        if again.is_some() {
            self.wanted.push_back((path.clone(), *what));
        }
        Some(Answered { cause, deleted, again: again.is_some() })
    }

    /// Reads were not answered.
    pub(super) fn unanswered(&mut self, jobs: &[Job]) {
        for Job { id, path, what } in jobs {
            let Some(work) = self.works.get_mut(path) else { continue };
            let need = work.need(*what);
            if matches!(need, Need::Reading { id: reading, .. } if reading == id) {
                self.open.change(need, Need::unsent);
                if *what == What::Data {
                    (work.changed, work.deleted) = (0, None);
                }
                self.wanted.push_back((path.clone(), *what));
            }
        }
    }

    /// No read that was sent will be answered.
    pub(super) fn forget_sent(&mut self) {
        for (path, work) in &mut self.works {
            for what in [What::Data, What::Names] {
                let need = work.need(what);
                if matches!(need, Need::Reading { .. }) {
                    self.open.change(need, Need::unsent);
                    self.wanted.push_back((path.clone(), what));
                }
            }
            (work.changed, work.deleted) = (0, None);
        }
    }

    /// There is no node: its children need not be listed.
    pub(super) fn forget_names(&mut self, path: &str) {
        if let Some(work) = self.works.get_mut(path) {
            self.open.change(&mut work.names, |_| Need::Idle);
        }
    }

    /// Nothing below a path is needed any more.
    pub(super) fn forget_below(&mut self, path: &str) {
        for (_, mut work) in take_below(&mut self.works, path) {
            self.open.change(&mut work.data, |_| Need::Idle);
            self.open.change(&mut work.names, |_| Need::Idle);
        }
    }

    /// Drops the work of a path if nothing is left to do.
    pub(super) fn finish(&mut self, path: &str) {
        if self.works.get(path).is_some_and(|work| work.data == Need::Idle && work.names == Need::Idle) {
            self.works.remove(path);
        }
    }

    fn work(&mut self, path: &str) -> (&mut Work, &mut Open) {
        if !self.works.contains_key(path) {
            self.works.insert(path.into(), Work::default());
        }
        let work = self.works.get_mut(path).expect("invariant: inserted if it was missing");
        (work, &mut self.open)
    }
}

/// The paths of which the data are being read.
fn sent<'a>(works: impl Iterator<Item = (&'a Box<str>, &'a Work)>) -> Vec<Box<str>> {
    let is_sent = |work: &Work| matches!(work.data, Need::Reading { .. });
    works.filter(|(_, work)| is_sent(work)).map(|(path, _)| path.clone()).collect()
}
