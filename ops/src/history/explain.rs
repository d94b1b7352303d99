//! The explanation of a change: who made it, and why.

use super::change::Change;
use super::continuity::Gap;
use super::error::Result;
use super::index::Index;
use super::log::Skipped;
use super::moment::At;
use super::who::{Author, Deletion, Fate};

/// A change of a node, and its author: see [`Index::explain`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Explanation {
    /// The change.
    pub change: Change,
    /// The deletion, if the change is one.
    pub deletion: Option<Deletion>,
    /// The last change of the node, if it was created again after the explained deletion.
    pub later: Option<Change>,
    /// The number of deletions of the node in the logs, up to the moment if one was requested.
    pub deletions: u64,
    /// The author; `None` if the leader requested the change.
    pub author: Option<Author>,
}

/// The result of [`Index::explain`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Explained {
    /// The explanation; `None` if the logs contain no change of the node.
    pub explanation: Option<Explanation>,
    /// The gaps in the logs. A later change may be in one of them.
    pub gaps: Vec<Gap>,
    /// Damaged ranges, if they were [skipped](Index::skip_damaged), and snapshots that were passed
    /// over because they are incomplete or damaged.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub skipped: Vec<Skipped>,
}

impl Index {
    /// Explains the last deletion of a node, or its last change if it was not deleted. With a
    /// moment, explains the last change up to the moment. The author has the changes within
    /// `within_ms` milliseconds before and after the change.
    ///
    /// The filters of the index have no effect, except times and transactions;
    /// [`with_data`](Index::with_data) has an effect.
    ///
    /// # Errors
    /// The errors of reading the files.
    pub fn explain(&self, path: &str, at: Option<At>, within_ms: u32) -> Result<Explained> {
        let selected = match at {
            Some(At::Zxid(zxid)) => self.clone().zxids(i64::MIN..=zxid),
            Some(At::Time(time_ms)) => self.clone().until_ms(time_ms),
            Some(At::Latest) | None => self.clone(),
        };
        let mut fate = selected.fate(path)?;
        let (gaps, skipped) = (std::mem::take(&mut fate.gaps), std::mem::take(&mut fate.skipped));
        let mut explanation = explanation_of(fate, at.is_some());
        if let Some(explanation) = &mut explanation {
            let change = &explanation.change;
            if change.session.get() != 0 {
                let author = self.author_of(change.session, change.at, within_ms, Some(change))?;
                explanation.author = Some(author);
            }
        }
        Ok(Explained { explanation, gaps, skipped })
    }
}

/// Chooses the change to explain.
fn explanation_of(mut fate: Fate, has_moment: bool) -> Option<Explanation> {
    let (last, deletions, author) = (fate.last?, fate.deletion_count, None);
    Some(match fate.deletions.pop() {
        Some(deletion) if last.deletion.is_some() => {
            let deletion = Some(deletion);
            Explanation { change: last, deletion, later: None, deletions, author }
        }
        Some(deletion) if !has_moment => {
            let change = deletion.change.clone();
            let (deletion, later) = (Some(deletion), Some(last));
            Explanation { change, deletion, later, deletions, author }
        }
        _ => Explanation { change: last, deletion: None, later: None, deletions, author },
    })
}
