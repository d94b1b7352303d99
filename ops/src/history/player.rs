//! Applies the logs to a tree, one transaction after another.

use std::collections::BTreeMap;
use std::path::Path;

use super::base::{Base, PassSettings};
use super::comparison::Comparison;
use super::continuity::{Gap, follows, reaches};
use super::error::{Error, Result};
use super::files::Files;
use super::logs::Logs;
use super::moment::At;
use super::records::TreeDigest;
use super::tree::Tree;

/// The order of the transactions that were read.
#[derive(Debug)]
pub(super) struct Order {
    /// The last transaction; `None` before the first one, if it may be any.
    pub(super) last: Option<i64>,
}

/// The place of a transaction in the order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ZxidPlace {
    Next,
    /// The transaction was read before.
    Old,
    /// Transactions are missing before this one.
    AfterGap(Gap),
}

impl Order {
    pub(super) fn place(&mut self, zxid: i64, path: Option<&Path>) -> ZxidPlace {
        let Some(after) = self.last else {
            self.last = Some(zxid);
            return ZxidPlace::Next;
        };
        if zxid <= after {
            return ZxidPlace::Old;
        }
        self.last = Some(zxid);
        if follows(after, zxid) {
            return ZxidPlace::Next;
        }
        let path = path.map(Path::to_owned).unwrap_or_default();
        ZxidPlace::AfterGap(Gap { after, next: zxid, path })
    }
}

/// A replay in progress.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) tree: Tree,
    pub(super) logs: Logs,
    order: Order,
    pub(super) comparison: Comparison,
    /// The last transaction that was applied.
    pub(super) zxid: i64,
    /// Its time, in milliseconds since 1970.
    pub(super) time_ms: Option<i64>,
    /// The last transaction that the snapshot may contain changes of.
    fuzzy_until: Option<i64>,
    /// The transaction of the snapshot at which the replay begins or continues.
    base: i64,
    files: Files,
    settings: PassSettings,
    pub(super) gaps: Vec<Gap>,
    pub(super) transactions: u64,
    /// The number of transactions that did not fit the tree after the fuzzy range.
    pub(super) misfits: u64,
}

impl Player {
    /// Returns a replay that begins with a base.
    pub(super) fn new(
        base: Base,
        files: &Files,
        settings: &PassSettings,
        mut of_snapshots: BTreeMap<i64, TreeDigest>,
    ) -> Self {
        of_snapshots.extend(base.digest);
        let mut comparison = Comparison::new(base.fuzzy_until, of_snapshots);
        comparison.compare(base.zxid, None, base.tree.digest());
        Self {
            tree: base.tree,
            logs: settings.logs(files).from_zxid(base.zxid.saturating_add(1)),
            order: Order { last: Some(base.zxid) },
            comparison,
            zxid: base.zxid,
            time_ms: None,
            fuzzy_until: base.fuzzy_until,
            base: base.zxid,
            files: files.clone(),
            settings: settings.clone(),
            gaps: Vec::new(),
            transactions: 0,
            misfits: 0,
        }
    }

    /// Sets the end of the fuzzy range of a snapshot that does not tell it: the range ends at this
    /// transaction or before.
    pub(super) fn settled_by(mut self, zxid: Option<i64>) -> Self {
        if self.fuzzy_until.is_none() {
            (self.fuzzy_until, self.comparison.settled_by) = (zxid, zxid);
        }
        self
    }

    /// Applies the transactions up to `target`.
    pub(super) fn run(&mut self, target: i64) -> Result<()> {
        while self.logs.advance()? {
            let Some((zxid, time_ms)) = self.logs.position() else { break };
            if zxid > target {
                return self.end_before(zxid, target);
            }
            match self.order.place(zxid, self.logs.path()) {
                ZxidPlace::Next => {}
                ZxidPlace::Old => continue,
                ZxidPlace::AfterGap(gap) => self.bridge(gap, target)?,
            }
            let Some(record) = self.logs.record()? else { break };
            let fits = self.tree.apply(&record);
            self.settings.budget.hold(self.tree.bytes())?;
            if !fits && self.fuzzy_until.is_some_and(|until| zxid > until) {
                self.misfits += 1;
            }
            self.transactions += 1;
            (self.zxid, self.time_ms) = (zxid, Some(time_ms));
            self.comparison.compare(zxid, record.digest, self.tree.digest());
        }
        Ok(())
    }

    /// Ends the replay before the first transaction that is later than `target`. Transactions up to
    /// `target` may be missing before it.
    fn end_before(&mut self, next: i64, target: i64) -> Result<()> {
        match self.order.place(next, self.logs.path()) {
            ZxidPlace::AfterGap(gap) if gap.after < target => self.bridge(gap, target),
            _ => Ok(()),
        }
    }

    /// Continues with the snapshot that makes up for missing transactions, if there is one that is
    /// not later than `target`.
    fn bridge(&mut self, gap: Gap, target: i64) -> Result<()> {
        let base = Base::in_gap(&self.files, &self.settings, &gap)?;
        if let Some(base) = base.filter(|base| base.zxid <= target) {
            self.comparison.restart(base.fuzzy_until);
            (self.tree, self.fuzzy_until) = (base.tree, base.fuzzy_until);
            (self.zxid, self.time_ms, self.base) = (base.zxid, None, base.zxid);
        } else if self.settings.skips_damaged {
            self.gaps.push(gap);
        } else {
            return Err(Error::Gap { gap });
        }
        Ok(())
    }

    /// Returns `true` if the tree contains no changes of later transactions, as far as the snapshot
    /// tells.
    pub(super) fn is_settled(&self) -> bool {
        self.fuzzy_until.is_some_and(|until| self.zxid >= until)
    }

    /// Returns `true` if the tree may contain changes of transactions that were not applied. The
    /// logs of a server are as new as its snapshots, so the tree at their end contains none, unless
    /// logs are missing.
    pub(super) fn may_contain_later(&self, at: At) -> bool {
        let has_later_log = || self.files.logs.last().is_some_and(|log| log.zxid > self.base);
        let has_last = || self.logs.last().is_some_and(|last| reaches(last, self.base));
        match (at, self.fuzzy_until) {
            (At::Latest, None) => !has_later_log() && !has_last(),
            _ => !self.is_settled(),
        }
    }
}
