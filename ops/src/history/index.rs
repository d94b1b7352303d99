//! The index: the changes in the logs, with their authors.

use std::ops::RangeInclusive;

use zk_curator::SessionId;

use super::base::PassSettings;
use super::budget::ReadBudget;
use super::change::Operation;
use super::changes::Changes;
use super::error::Result;
use super::files::Files;
use super::selection::Selection;

/// A pass over the logs that returns the selected changes.
///
/// The memory is bounded by the nodes at the selected paths: the index keeps them, to tell their
/// state before each change. Without paths it keeps none, unless data or
/// [states](Self::with_states) are requested; then it keeps the whole tree.
///
/// ```no_run
/// use zk_curator_ops::history::{Files, Index, Operation};
///
/// let files = Files::find(["/var/lib/zookeeper"])?;
/// let index = Index::new(&files).below("/services").operations([Operation::Delete]);
/// for change in index.changes()? {
///     let change = change?;
///     assert!(change.path.is_some());
/// }
/// # Ok::<(), zk_curator_ops::history::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is read before `changes`, `sessions` or `deletions`"]
pub struct Index {
    pub(super) files: Files,
    pub(super) settings: PassSettings,
    pub(super) selection: Selection,
    /// `None` for the default.
    with_states: Option<bool>,
}

impl Index {
    /// Returns an index of all changes except failed requests.
    pub fn new(files: &Files) -> Self {
        Self {
            files: files.clone(),
            settings: PassSettings::default(),
            selection: Selection::default(),
            with_states: None,
        }
    }

    /// Selects changes of a node. Several calls of this method and of [`below`](Self::below) select
    /// the nodes of all of them. Sessions and failed requests have no path, and are left out.
    pub fn path(mut self, path: &str) -> Self {
        self.settings.scope.add_exact(path);
        self
    }

    /// Selects changes of a node and of the nodes below it.
    pub fn below(mut self, path: &str) -> Self {
        self.settings.scope.add_below(path);
        self
    }

    /// Selects changes that a session requested, and the deletions of its ephemeral nodes at its
    /// end.
    pub fn session(mut self, session: SessionId) -> Self {
        self.selection.session = Some(session);
        self
    }

    /// Selects changes at this time or later, in milliseconds since 1970, by the leader's clock.
    /// All logs are read, because the clock can go back when the leader changes.
    pub fn since_ms(mut self, time_ms: i64) -> Self {
        self.selection.times.0 = time_ms;
        self
    }

    /// Selects changes at this time or earlier, in milliseconds since 1970, by the leader's clock.
    pub fn until_ms(mut self, time_ms: i64) -> Self {
        self.selection.times.1 = time_ms;
        self
    }

    /// Selects changes of these transactions. Logs without them are not read.
    pub fn zxids(mut self, zxids: RangeInclusive<i64>) -> Self {
        self.selection.zxids = zxids.into_inner();
        self
    }

    /// Selects operations. Default: all except [`Operation::Error`].
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.selection.operations = Some(operations.into_iter().collect());
        self
    }

    /// Returns the data before and after each change. Default: off.
    pub fn with_data(mut self, with_data: bool) -> Self {
        self.selection.with_data = with_data;
        self
    }

    /// Keeps the nodes, to tell their states before each change and the deletions of ephemeral
    /// nodes that the end of a session does not list. Logs of ZooKeeper 3.5 and earlier list none.
    /// Default: on if paths are selected or data is requested.
    pub fn with_states(mut self, with_states: bool) -> Self {
        self.with_states = Some(with_states);
        self
    }

    /// Continues after damaged ranges, which [`Changes::skipped`] lists. Default: off.
    pub fn skip_damaged(mut self, skip: bool) -> Self {
        self.settings.skips_damaged = skip;
        self
    }

    /// Sets the maximum length of a record, in bytes. Default:
    /// [`DEFAULT_MAX_RECORD`](super::DEFAULT_MAX_RECORD).
    pub fn max_record(mut self, bytes: usize) -> Self {
        self.settings.max_record = bytes;
        self
    }

    /// Sets the limits of the reads. Default: none.
    pub fn budget(mut self, budget: &ReadBudget) -> Self {
        self.settings.budget = budget.clone();
        self
    }

    /// Returns the changes, in the order of the logs.
    ///
    /// # Errors
    /// The errors of reading a snapshot.
    pub fn changes(&self) -> Result<Changes> {
        let scope = self.settings.scope.clone();
        let with_states = !scope.is_all() || self.selection.with_data;
        let with_states = self.with_states.unwrap_or(with_states);
        let selection = Selection { scope, ..self.selection.clone() };
        Changes::new(self.files.clone(), self.settings.clone(), selection, with_states)
    }
}
