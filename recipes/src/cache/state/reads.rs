//! The reads that a cache needs: wanted reads, reads in flight, and the time since which they are
//! needed. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeBounds;

use zk_curator::ErrorKind;

use super::need::{
    AUDIT, AnsweredRead, CacheRead, CacheReadAnswer, Cause, Need, OpenReads, ReadKind,
};
use super::tree::{below, take_below};

/// The transaction id if the server does not report one: newer than every other.
const UNKNOWN: i64 = i64::MAX;

/// The reads of one path.
#[derive(Debug, Default)]
struct ReadWork {
    data: Need,
    names: Need,
    /// `true` if the children may have changed without an event.
    sweeps: bool,
    /// The last change that was reported during the read of the data: its transaction, or
    /// [`UNKNOWN`].
    changed: i64,
    /// The last deletion that was reported during the read of the data, in the same form.
    deleted: Option<i64>,
}

impl ReadWork {
    const fn need(&mut self, what: ReadKind) -> &mut Need {
        match what {
            ReadKind::Data => &mut self.data,
            ReadKind::Names => &mut self.names,
        }
    }
}

/// The reads of all paths.
#[derive(Debug, Default)]
pub(crate) struct ReadsInFlight {
    works: BTreeMap<Box<str>, ReadWork>,
    open: OpenReads,
    /// The requested reads, in their order. Some may no longer be needed.
    wanted: VecDeque<(Box<str>, ReadKind)>,
    /// The reads that are under way.
    sent: BTreeMap<u64, (Box<str>, ReadKind)>,
    /// The reads that the server has refused, with the reasons. Some may no longer be needed.
    refused: BTreeMap<(Box<str>, ReadKind), ErrorKind>,
    last_id: u64,
    checkpoints: u64,
}

impl ReadsInFlight {
    /// The cause of reads that are requested now.
    pub(crate) const fn news(&self) -> Cause {
        Cause { since: self.checkpoints, sweeps: false }
    }

    /// The cause of an audit, which does not doubt the current state.
    pub(crate) const fn audit() -> Cause {
        Cause { since: AUDIT, sweeps: true }
    }

    /// Returns `true` if only reads of audits are left.
    pub(crate) fn are_done(&self) -> bool {
        self.open.first().is_none_or(|since| since == AUDIT)
    }

    /// Begins a checkpoint. It is [reached](Self::reached) when all reads that are needed now are
    /// done.
    pub(crate) const fn checkpoint(&mut self) -> u64 {
        self.checkpoints += 1;
        self.checkpoints
    }

    /// Returns the last checkpoint that needs no more reads. Reads that are needed only for later
    /// ones may be missing.
    pub(crate) fn reached(&self) -> u64 {
        self.open.first().unwrap_or(u64::MAX)
    }

    /// Returns `true` if a read of a path is needed.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.works.contains_key(path)
    }

    /// Returns `true` if the children may have changed without an event.
    pub(crate) fn sweeps(&self, path: &str) -> bool {
        self.works.get(path).is_some_and(|work| work.sweeps)
    }

    /// Returns `true` if a pending read will show if a node, or a child of it, exists. An audit
    /// assumes that none exists.
    pub(crate) fn doubts(&self, path: &str, is_known: bool) -> bool {
        let work = self.works.get(path);
        work.is_some_and(|work| work.names.is_open() || (work.data.is_open() && !is_known))
    }

    pub(crate) fn want_data(&mut self, path: &str, cause: Cause) {
        let (work, open) = self.work(path);
        work.sweeps |= cause.sweeps;
        if cause.sweeps && matches!(work.data, Need::Reading { .. }) {
            work.changed = UNKNOWN;
        }
        let is_new = work.data == Need::Idle;
        open.change(&mut work.data, |need| need.and(cause.since));
        if is_new {
            self.wanted.push_back((path.into(), ReadKind::Data));
        }
    }

    /// Requests again all data that are being read: the responses may be older than missed changes.
    pub(crate) fn want_sent_again(&mut self, cause: Cause) {
        for path in self.sent_data(|_| true) {
            self.want_data(&path, cause);
        }
    }

    /// Returns the paths whose data are being read and for which the condition holds.
    fn sent_data(&self, is_asked_for: impl Fn(&Box<str>) -> bool) -> Vec<Box<str>> {
        let is_reading = |path: &str| {
            self.works.get(path).is_some_and(|work| matches!(work.data, Need::Reading { .. }))
        };
        let data = self.sent.values().filter(|(path, what)| {
            *what == ReadKind::Data && is_asked_for(path) && is_reading(path)
        });
        let mut paths: Vec<_> = data.map(|(path, _)| path.clone()).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Notes that this transaction has replaced a node: reads below it may be older.
    pub(crate) fn replaced(&mut self, path: &str, czxid: i64, cause: Cause) {
        let below = below(path);
        for path in self.sent_data(|path| below.contains(path)) {
            self.want_data(&path, cause);
            if let Some(work) = self.works.get_mut(&path) {
                work.deleted = work.deleted.max(Some(czxid));
            }
        }
    }

    pub(crate) fn want_names(&mut self, path: &str, cause: Cause) {
        let (work, open) = self.work(path);
        let is_new = work.names == Need::Idle;
        open.change(&mut work.names, |need| need.and(cause.since));
        if is_new {
            self.wanted.push_back((path.into(), ReadKind::Names));
        }
    }

    /// Requests the names of the children. A list that is already requested is sufficient, because
    /// later changes are reported.
    pub(crate) fn want_names_once(&mut self, path: &str, cause: Cause) {
        let (work, open) = self.work(path);
        if work.names == Need::Idle {
            return self.want_names(path, cause);
        }
        open.change(&mut work.names, |need| need.already(cause.since));
    }

    /// Notes that a requested list was needed earlier.
    pub(crate) fn backdate_names(&mut self, path: &str, cause: Cause) {
        if let Some(work) = self.works.get_mut(path) {
            self.open.change(&mut work.names, |need| need.already(cause.since));
        }
    }

    /// Notes that the requested reads below a path were needed earlier.
    pub(crate) fn backdate_below(&mut self, path: &str, cause: Cause) {
        for (_, work) in self.works.range_mut(below(path)) {
            self.open.change(&mut work.data, |need| need.already(cause.since));
            self.open.change(&mut work.names, |need| need.already(cause.since));
        }
    }

    /// Returns `true` if there is a read to perform.
    pub(crate) fn has_wanted(&mut self) -> bool {
        let Some(next) = self.next_wanted() else { return false };
        self.wanted.push_front(next);
        true
    }

    /// Removes the next read from the queue. The caller [begins](Self::begin) it, or
    /// [puts it back](Self::put_back).
    pub(crate) fn next_wanted(&mut self) -> Option<(Box<str>, ReadKind)> {
        loop {
            let (path, what) = self.wanted.pop_front()?;
            if self
                .works
                .get_mut(&path)
                .is_some_and(|work| matches!(work.need(what), Need::Wanted(_)))
            {
                return Some((path, what));
            }
        }
    }

    pub(crate) fn put_back(&mut self, skipped: Vec<(Box<str>, ReadKind)>) {
        for next in skipped.into_iter().rev() {
            self.wanted.push_front(next);
        }
    }

    /// Notes that the read is in flight.
    pub(crate) fn begin(&mut self, path: Box<str>, what: ReadKind) -> CacheRead {
        self.last_id += 1;
        let id = self.last_id;
        if let Some(work) = self.works.get_mut(&path)
            && let Need::Wanted(since) = *work.need(what)
        {
            *work.need(what) = Need::Reading { id, since, again: None };
        }
        self.sent.insert(id, (path.clone(), what));
        CacheRead { id, path, what }
    }

    /// Notes the transaction of a change during the read of the data.
    pub(crate) fn changed(&mut self, path: &str, zxid: Option<i64>) {
        if let Some(work) = self.works.get_mut(path)
            && matches!(work.data, Need::Reading { .. })
        {
            work.changed = work.changed.max(zxid.unwrap_or(UNKNOWN));
        }
    }

    /// Notes that a node was deleted: reads in flight are repeated, and no other reads are needed.
    pub(crate) fn deleted(&mut self, path: &str, zxid: Option<i64>, cause: Cause) {
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

    /// Processes the response to a read. Returns `None` if the response is no longer needed.
    pub(crate) fn answered(
        &mut self,
        job: &CacheRead,
        answer: &CacheReadAnswer,
    ) -> Option<AnsweredRead> {
        let CacheRead { id, path, what } = job;
        self.sent.remove(id);
        let work = self.works.get_mut(path)?;
        let (since, mut again) = match *work.need(*what) {
            Need::Reading { id: reading, since, again } if reading == *id => (since, again),
            _ => return None,
        };
        if !self.refused.is_empty() {
            self.refused.remove(&(path.clone(), *what));
        }
        // If the node has changed in between, not only the audit needs the read.
        let since = again.map_or(since, |again| again.min(since));
        let cause = Cause { since, sweeps: work.sweeps };
        let mut deleted = None;
        if *what == ReadKind::Data {
            deleted = work.deleted.take();
            let changed = std::mem::take(&mut work.changed);
            again = match answer {
                // It already shows the last change.
                CacheReadAnswer::Data(node) if node.stat.mzxid >= changed => None,
                // It is not applied, so its data must be read again.
                CacheReadAnswer::Missing => again.and(Some(since)),
                _ => again,
            };
            work.sweeps &= again.is_some();
        }
        self.open.change(work.need(*what), |_| again.map_or(Need::Idle, Need::Wanted));
        if again.is_some() {
            self.wanted.push_back((path.clone(), *what));
        }
        Some(AnsweredRead { cause, deleted, again: again.is_some() })
    }

    /// Processes reads without a response.
    pub(crate) fn unanswered(&mut self, jobs: &[CacheRead]) {
        for CacheRead { id, path, what } in jobs {
            self.sent.remove(id);
            let Some(work) = self.works.get_mut(path) else { continue };
            let need = work.need(*what);
            if matches!(need, Need::Reading { id: reading, .. } if reading == id) {
                self.open.change(need, Need::unsent);
                if *what == ReadKind::Data {
                    (work.changed, work.deleted) = (0, None);
                }
                self.wanted.push_back((path.clone(), *what));
            }
        }
    }

    /// Processes reads that the server has refused, for a reason that does not concern the nodes.
    pub(crate) fn refused(&mut self, jobs: &[CacheRead], why: ErrorKind) {
        self.unanswered(jobs);
        self.refused
            .extend(jobs.iter().map(|CacheRead { path, what, .. }| ((path.clone(), *what), why)));
    }

    /// Returns the reason why the server refuses reads that a checkpoint needs, if it does.
    pub(crate) fn refusal(&mut self) -> Option<ErrorKind> {
        while let Some(first) = self.refused.first_entry() {
            let (path, what) = first.key();
            if self.works.get_mut(path).is_some_and(|work| work.need(*what).is_open()) {
                return Some(*first.get());
            }
            first.remove();
        }
        None
    }

    /// Ends all reads in flight: no response will come.
    pub(crate) fn forget_sent(&mut self) {
        self.refused.clear();
        let sent: Vec<_> = std::mem::take(&mut self.sent).into_iter().collect();
        for (id, (path, what)) in sent {
            self.unanswered(&[CacheRead { id, path, what }]);
        }
    }

    /// Notes that a node does not exist, so its children need not be listed.
    pub(crate) fn forget_names(&mut self, path: &str) {
        if let Some(work) = self.works.get_mut(path) {
            self.open.change(&mut work.names, |_| Need::Idle);
        }
    }

    /// Drops all reads below a path.
    pub(crate) fn forget_below(&mut self, path: &str) {
        for (_, mut work) in take_below(&mut self.works, path) {
            self.open.change(&mut work.data, |_| Need::Idle);
            self.open.change(&mut work.names, |_| Need::Idle);
        }
    }

    /// Returns the paths for which a pending read will show if a node, or further children, exist.
    pub(crate) fn open(&self) -> impl Iterator<Item = &str> {
        let open =
            self.works.iter().filter(|(_, work)| work.names.is_open() || work.data.is_open());
        open.map(|(path, _)| &**path)
    }

    /// Drops the work of a path if nothing is left to do.
    pub(crate) fn finish(&mut self, path: &str) {
        if self
            .works
            .get(path)
            .is_some_and(|work| work.data == Need::Idle && work.names == Need::Idle)
        {
            self.works.remove(path);
        }
    }

    fn work(&mut self, path: &str) -> (&mut ReadWork, &mut OpenReads) {
        if !self.works.contains_key(path) {
            self.works.insert(path.into(), ReadWork::default());
        }
        let work = self.works.get_mut(path).expect("invariant: inserted if it was missing");
        (work, &mut self.open)
    }
}
