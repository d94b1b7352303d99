//! The stream of changes of a server that is running.

use std::path::{Path, PathBuf};

use super::change::Change;
use super::changes::Changes;
use super::continuity::Gap;
use super::error::Result;
use super::files::Files;
use super::index::Index;
use super::log::Skipped;

/// Follows the logs of a server while it writes them, as `tail -f` does.
///
/// The reader is not told of new transactions: call [`next_event`](Self::next_event) again after a
/// pause. It continues with the next file when the server begins one, and with the oldest file that
/// is left when `autopurge` removes files before they were read. An incomplete record at the end is
/// returned once it is complete.
///
/// ```no_run
/// use std::time::Duration;
///
/// use zk_curator_ops::history::{Files, FollowEvent, Index};
///
/// # async fn follow() -> Result<(), zk_curator_ops::history::Error> {
/// let directory = "/var/lib/zookeeper";
/// let mut follow = Index::new(&Files::find([directory])?).below("/config").follow([directory])?;
/// loop {
///     while let Some(event) = follow.next_event()? {
///         if let FollowEvent::Change(change) = event {
///             assert!(change.path.is_some());
///         }
///     }
///     tokio::time::sleep(Duration::from_millis(250)).await;
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Follow {
    directories: Vec<PathBuf>,
    changes: Changes,
    /// A change that follows the notices before it.
    pending: Option<Change>,
    /// The numbers of gaps, damaged ranges and shortened files that were returned.
    gaps: usize,
    skipped: usize,
    shortened: usize,
}

/// An event of [`Follow`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FollowEvent {
    /// A change.
    Change(Box<Change>),
    /// Transactions are missing: `autopurge` has removed their file, or this server has received a
    /// snapshot in place of them.
    Gap(Gap),
    /// A damaged range was [skipped](Index::skip_damaged).
    Skipped(Skipped),
    /// The server has removed transactions at the end of this file, or the whole file, because the
    /// ensemble did not commit them. They may have been returned before.
    Withdrawn {
        /// The file.
        path: PathBuf,
    },
}

impl Index {
    /// Follows the logs in the directories of the files: see [`Files::find`]. Begins after the last
    /// transaction, unless the index selects [times](Self::since_ms) or
    /// [transactions](Self::zxids) from an earlier one on.
    ///
    /// # Errors
    /// The errors of reading the files.
    pub fn follow<P: AsRef<Path>>(
        &self,
        directories: impl IntoIterator<Item = P>,
    ) -> Result<Follow> {
        let selection = &self.selection;
        let begins_now = selection.times.0 == i64::MIN && selection.zxids.0 == i64::MIN;
        let last = if begins_now { self.files.last_change()? } else { None };
        let mut changes = match last.map(|last| last.zxid) {
            Some(last) => {
                let mut index = self.clone();
                index.selection.zxids.0 = last.saturating_add(1);
                index.changes()?.after(last)
            }
            None => self.changes()?,
        };
        changes = changes.pass_removed();
        let directories = directories.into_iter().map(|path| path.as_ref().to_owned()).collect();
        Ok(Follow { directories, changes, pending: None, gaps: 0, skipped: 0, shortened: 0 })
    }
}

impl Follow {
    /// Returns the next event; `None` if the server has not written one yet. Reads files, and does
    /// not wait.
    ///
    /// # Errors
    /// The errors of reading the files. After an error there are no more events.
    pub fn next_event(&mut self) -> Result<Option<FollowEvent>> {
        loop {
            if self.pending.is_none() {
                self.pending = self.changes.next().transpose()?;
            }
            if let Some(notice) = self.notice() {
                return Ok(Some(notice));
            }
            if let Some(change) = self.pending.take() {
                return Ok(Some(FollowEvent::Change(Box::new(change))));
            }
            if !self.changes.add_new_files(&Files::find(&self.directories)?) {
                return Ok(self.notice());
            }
        }
    }

    /// Returns the next event that is not a change.
    fn notice(&mut self) -> Option<FollowEvent> {
        if let Some(path) = self.changes.shortened().get(self.shortened) {
            self.shortened += 1;
            return Some(FollowEvent::Withdrawn { path: path.clone() });
        }
        if let Some(gap) = self.changes.gaps().get(self.gaps) {
            self.gaps += 1;
            return Some(FollowEvent::Gap(gap.clone()));
        }
        let skipped = self.changes.skipped().nth(self.skipped)?.clone();
        self.skipped += 1;
        Some(FollowEvent::Skipped(skipped))
    }
}
