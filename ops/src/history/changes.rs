//! The stream of selected changes.

use std::collections::VecDeque;
use std::path::PathBuf;

use super::base::{Base, PassSettings};
use super::change::Change;
use super::continuity::Gap;
use super::error::Result;
use super::files::Files;
use super::log::Skipped;
use super::logs::Logs;
use super::player::{Order, ZxidPlace};
use super::selection::{Selection, Tracked};

/// An iterator over changes: see [`Index::changes`](super::Index::changes).
///
/// After `None` the logs may grow. Then `next` returns the changes that were appended to the last
/// file; [`add_new_files`](Self::add_new_files) adds the files that were created. After an error
/// there are no more changes.
///
/// The states before the changes are unknown for transactions that are older than the oldest
/// snapshot, for some changes within the fuzzy range of a snapshot, and after the server has
/// removed transactions that were read.
#[derive(Debug)]
pub struct Changes {
    files: Files,
    settings: PassSettings,
    selection: Selection,
    logs: Logs,
    order: Order,
    tracked: Option<Tracked>,
    ready: VecDeque<Change>,
    gaps: Vec<Gap>,
    /// Incomplete or damaged snapshots that were passed over.
    skipped: Vec<Skipped>,
    is_over: bool,
}

impl Changes {
    pub(super) fn new(
        files: Files,
        settings: PassSettings,
        selection: Selection,
        with_states: bool,
    ) -> Result<Self> {
        let mut first = selection.zxids.0;
        let (mut tracked, mut skipped) = (None, Vec::new());
        if with_states {
            let (base, passed) = Base::for_changes(&files, &settings, first)?;
            tracked = base.map(tracked_by);
            skipped = passed;
        }
        if let Some(tracked) = &tracked {
            first = first.min(tracked.zxid.saturating_add(1));
        }
        Ok(Self {
            logs: settings.logs(&files).from_zxid(first),
            files,
            settings,
            selection,
            order: Order { last: None },
            tracked,
            ready: VecDeque::new(),
            gaps: Vec::new(),
            skipped,
            is_over: false,
        })
    }

    /// Returns the gaps in the logs so far: their changes are missing.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Returns the damaged ranges that were skipped so far, and the snapshots that were passed over
    /// because they are incomplete or damaged.
    pub fn skipped(&self) -> impl Iterator<Item = &Skipped> {
        self.skipped.iter().chain(self.logs.skipped())
    }

    /// Adds the log files that a server has created since the first files were found. Returns
    /// `true` if there are any.
    pub fn add_new_files(&mut self, files: &Files) -> bool {
        self.files = files.clone();
        self.logs.add_new_files(files)
    }

    /// Notices a gap after the last transaction before the first selected one. With a tree, the
    /// transactions before it are read, and notice it.
    pub(super) fn after(mut self, last: i64) -> Self {
        if self.tracked.is_none() {
            self.order.last = Some(last);
        }
        self
    }

    /// Passes over files that were removed before they were opened.
    pub(super) fn pass_removed(mut self) -> Self {
        self.logs = self.logs.pass_removed();
        self
    }

    /// Returns the files that became shorter, or were withdrawn, while they were followed.
    pub(super) fn shortened(&self) -> &[PathBuf] {
        self.logs.shortened()
    }

    /// Reads a transaction. Returns `false` at the end.
    fn read(&mut self) -> Result<bool> {
        let is_read = self.logs.advance()?;
        if !self.logs.shortened().is_empty() {
            // The tree contains changes that the server has removed.
            self.tracked = None;
        }
        if !is_read {
            return Ok(false);
        }
        let Some((zxid, _)) = self.logs.position() else { return Ok(false) };
        let (is_first, last) = (self.order.last.is_none(), self.selection.zxids.1);
        let place = self.order.place(zxid, self.logs.path());
        if zxid > last {
            self.is_over = true;
            if let ZxidPlace::AfterGap(gap) = place
                && gap.after < last
            {
                self.gaps.push(gap);
            }
            return Ok(false);
        }
        match place {
            ZxidPlace::Next if is_first => self.join(zxid)?,
            ZxidPlace::Next => {}
            ZxidPlace::Old => return Ok(true),
            ZxidPlace::AfterGap(gap) => {
                self.rebase(&gap)?;
                self.gaps.push(gap);
            }
        }
        if let Some(record) = self.logs.record()? {
            // The changes before the snapshot are in the tree already.
            let tracked = self.tracked.as_mut().filter(|tracked| zxid > tracked.zxid);
            self.selection.collect(&record, tracked, &mut self.ready);
        }
        if let Some(tracked) = &self.tracked {
            self.settings.budget.hold(tracked.tree.bytes())?;
        }
        Ok(true)
    }

    /// Begins with a tree that the first log continues, or without states. What happened between an
    /// older snapshot and the first log is no gap in the logs: they begin there. A server that
    /// joined an ensemble has an empty snapshot from before.
    fn join(&mut self, first: i64) -> Result<()> {
        let Some(tracked) = &self.tracked else { return Ok(()) };
        let mut order = Order { last: Some(tracked.zxid) };
        match order.place(first, self.logs.path()) {
            ZxidPlace::AfterGap(gap) => self.rebase(&gap),
            ZxidPlace::Next | ZxidPlace::Old => Ok(()),
        }
    }

    /// Continues with the snapshot that makes up for missing transactions, or without states.
    fn rebase(&mut self, gap: &Gap) -> Result<()> {
        // The tree of a snapshot after the gap does not need the missing transactions.
        if self.tracked.as_ref().is_some_and(|tracked| tracked.zxid < gap.next) {
            let base = Base::in_gap(&self.files, &self.settings, gap)?;
            self.tracked = base.map(tracked_by);
        }
        Ok(())
    }
}

impl Iterator for Changes {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Some(Ok(change));
            }
            if self.is_over {
                return None;
            }
            match self.read() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

fn tracked_by(base: Base) -> Tracked {
    Tracked { tree: base.tree, zxid: base.zxid, fuzzy_until: base.fuzzy_until }
}
