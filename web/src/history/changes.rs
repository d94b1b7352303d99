//! The newest changes, and who made the last one.

use std::collections::VecDeque;

use zk_curator_ops::history::{
    At, Change, Changes, Error, Explanation, Files, Gap, Index, Moment, Operation, ReadBudget,
    ReadLimit, Result, Skipped,
};
use zk_curator_ops::node::hex;

use super::failure::file_name;
use super::query::HistoryQuery;

/// The maximum number of changes that are listed.
pub(crate) const MOST_LISTED: usize = 200;
/// The time before and after a change in which other changes of its author are listed.
const NEARBY_MS: u32 = 1_000;
/// The operations on nodes.
const OF_NODES: [Operation; 5] = [
    Operation::Create,
    Operation::Delete,
    Operation::SetData,
    Operation::SetAcl,
    Operation::Reconfig,
];

/// The result of a read.
#[derive(Debug, Default)]
pub(crate) struct HistoryRead {
    /// The newest changes, the newest first.
    pub(super) changes: Vec<Change>,
    pub(super) who: WhoRead,
    /// `true` if older changes are not listed.
    is_cut: bool,
    /// The last transaction that was not read, and the reason.
    unread: Option<(i64, ReadLimit)>,
    /// The first transaction in the logs.
    begin: Option<Moment>,
    gaps: Vec<Gap>,
    skipped: Vec<Skipped>,
}

/// The explanation of the last deletion, or of the last change.
#[derive(Debug, Default)]
pub(super) enum WhoRead {
    /// Of the root, which nobody can delete.
    #[default]
    NotRequested,
    NoChange,
    Limited(ReadLimit),
    Read(Box<Explanation>),
}

/// Reads the logs, the newest file first, until enough changes were found, and then all of them for
/// the explanation. What a limit leaves out is named in the [notes](HistoryRead::notes).
///
/// The changes of many nodes are read without the states before them, which would take the memory
/// of all of these nodes.
pub(crate) fn read_history(
    files: &Files,
    budget: &ReadBudget,
    query: &HistoryQuery,
) -> Result<HistoryRead> {
    let mut read = HistoryRead { begin: files.first_change()?, ..HistoryRead::default() };
    read.find_changes(files, budget, query)?;
    if query.path != "/" && !query.is_below {
        read.find_who(files, budget, query)?;
    }
    Ok(read)
}

impl HistoryRead {
    fn find_changes(
        &mut self,
        files: &Files,
        budget: &ReadBudget,
        query: &HistoryQuery,
    ) -> Result<()> {
        let index = index(files, budget, query);
        for (place, file) in files.logs.iter().enumerate().rev() {
            let next = files.logs.get(place + 1);
            let (mut first, mut last) =
                (file.zxid, next.map_or(i64::MAX, |next| next.zxid.saturating_sub(1)));
            if let Some(change) = query.change {
                (first, last) = (first.max(change), last.min(change));
            }
            if first > last {
                continue;
            }
            let room = MOST_LISTED - self.changes.len();
            let newest = index.clone().zxids(first..=last).changes();
            match newest.and_then(|changes| self.add_newest(changes, room)) {
                Ok(()) if self.changes.len() < MOST_LISTED => {}
                Ok(()) => {
                    self.is_cut |= place > 0;
                    return Ok(());
                }
                Err(Error::Limit { limit }) => {
                    self.unread = Some((last, limit));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds the last changes of a file.
    fn add_newest(&mut self, mut changes: Changes, room: usize) -> Result<()> {
        let mut newest = VecDeque::new();
        for change in changes.by_ref() {
            newest.push_back(change?);
            if newest.len() > room {
                newest.pop_front();
                self.is_cut = true;
            }
        }
        self.changes.extend(newest.into_iter().rev());
        self.add_missing(changes.gaps(), changes.skipped());
        Ok(())
    }

    fn find_who(&mut self, files: &Files, budget: &ReadBudget, query: &HistoryQuery) -> Result<()> {
        let index = Index::new(files).budget(budget).skip_damaged(query.skips_damaged);
        let at = query.change.map(At::Zxid);
        self.who = match index.with_data(true).explain(&query.path, at, NEARBY_MS) {
            Ok(explained) => {
                self.add_missing(&explained.gaps, &explained.skipped);
                let explanation = explained.explanation.map(Box::new);
                explanation.map_or(WhoRead::NoChange, WhoRead::Read)
            }
            Err(Error::Limit { limit }) => WhoRead::Limited(limit),
            Err(error) => return Err(error),
        };
        Ok(())
    }

    /// Adds what is missing, unless another pass has found it.
    fn add_missing<'a>(&mut self, gaps: &[Gap], skipped: impl IntoIterator<Item = &'a Skipped>) {
        for gap in gaps {
            if !self.gaps.contains(gap) {
                self.gaps.push(gap.clone());
            }
        }
        for range in skipped {
            if !self.skipped.contains(range) {
                self.skipped.push(range.clone());
            }
        }
    }

    /// Returns sentences about what was not read, and about the beginning of the logs.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_cut {
            notes.push(format!("Only the newest {MOST_LISTED} changes are listed."));
        }
        if let Some((last, limit)) = self.unread {
            notes.push(match last {
                i64::MAX => format!("Not all changes of the newest log were read: {limit}."),
                last => format!("Changes up to {} were not read: {limit}.", hex(last)),
            });
        }
        if let WhoRead::Limited(limit) = self.who {
            notes.push(format!("The author was not found: {limit}."));
        }
        notes.extend(missing(&self.gaps, &self.skipped));
        notes.push(match self.begin {
            Some(begin) => format!("The logs begin {begin}."),
            None => "The logs contain no transaction.".to_owned(),
        });
        notes
    }
}

/// Returns sentences about gaps and damage.
pub(super) fn missing(gaps: &[Gap], skipped: &[Skipped]) -> Vec<String> {
    let gap = |gap: &Gap| {
        let (after, next, file) = (hex(gap.after), hex(gap.next), file_name(&gap.path));
        format!("Transactions are missing after {after}: {file} continues with {next}.")
    };
    let range = |Skipped { path, offset, length, damage, .. }: &Skipped| {
        let file = file_name(path);
        match length {
            0 => format!("{file} was passed over: {damage}."),
            _ => format!("{length} bytes at byte {offset} of {file} were left out: {damage}."),
        }
    };
    gaps.iter().map(gap).chain(skipped.iter().map(range)).collect()
}

fn index(files: &Files, budget: &ReadBudget, query: &HistoryQuery) -> Index {
    let index = Index::new(files).budget(budget).skip_damaged(query.skips_damaged);
    let index = if query.is_below {
        index.below(&query.path).with_states(false)
    } else {
        index.path(&query.path).with_data(query.change.is_some())
    };
    index
        .operations(OF_NODES)
        .since_ms(query.since_ms.unwrap_or(i64::MIN))
        .until_ms(query.until_ms.unwrap_or(i64::MAX))
}
