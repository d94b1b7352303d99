//! The tree as it was.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::base::{Base, PassSettings};
use super::budget::ReadBudget;
use super::comparison::DigestReport;
use super::continuity::Gap;
use super::error::Result;
use super::files::Files;
use super::log::Skipped;
use super::moment::At;
use super::player::Player;
use super::time::zxid_at;
use super::tree::Tree;

/// Rebuilds the tree of a server as it was after a transaction.
///
/// It loads the newest snapshot that is old enough, and applies the transactions that follow. The
/// memory is that of the tree: see [`Tree`].
///
/// ```no_run
/// use zk_curator_ops::history::{At, Files, Replay};
///
/// let files = Files::find(["/var/lib/zookeeper"])?;
/// let replayed = Replay::new(&files).below("/services").run(At::Time(1_700_000_000_000))?;
/// for node in replayed.tree.walk("/services") {
///     let size = node.data().map_or(0, <[u8]>::len);
///     assert!(size < 1 << 20, "{} has {size} bytes", node.path());
/// }
/// # Ok::<(), zk_curator_ops::history::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is read before `run`"]
pub struct Replay {
    files: Files,
    settings: PassSettings,
}

/// A tree as it was.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// The tree.
    pub tree: Tree,
    /// The last transaction that was applied; that of the snapshot if none was.
    pub zxid: i64,
    /// The time of the last transaction that was applied, in milliseconds since 1970, by the
    /// leader's clock. `None` if none was applied.
    pub time_ms: Option<i64>,
    /// The snapshot; `None` if the logs go back to the first transaction.
    pub snapshot: Option<PathBuf>,
    /// False if the tree may contain changes of later transactions, or lack nodes that were deleted
    /// later. A snapshot of ZooKeeper 3.5 or earlier does not tell the end of its fuzzy range. A
    /// replay from the newest or the only snapshot is not settled then. The tree of
    /// [`At::Latest`] is right even so, if the logs are as new as the snapshot: see
    /// [`may_contain_later`](Self::may_contain_later).
    pub is_settled: bool,
    /// True if the tree may contain a part of the changes of transactions that were not applied. As
    /// `!is_settled`, but false for [`At::Latest`] if the snapshot does not tell the end of its
    /// fuzzy range, and the logs are as new as the snapshot.
    pub may_contain_later: bool,
    /// The number of transactions that were applied.
    pub transactions: u64,
    /// The comparison of digests, if they were computed.
    pub digests: DigestReport,
    /// Missing transactions, if they were [skipped](Replay::skip_damaged).
    pub gaps: Vec<Gap>,
    /// Damaged ranges, if they were [skipped](Replay::skip_damaged), and snapshots that were passed
    /// over because they are incomplete or damaged.
    pub skipped: Vec<Skipped>,
}

impl Replay {
    /// Returns a replay of the whole tree.
    pub fn new(files: &Files) -> Self {
        Self { files: files.clone(), settings: PassSettings::default() }
    }

    /// Restricts the tree to a node and the nodes below it. Several calls select several subtrees.
    /// Their ancestors are kept, without their other children: [`Tree::get`] does not show them.
    pub fn below(mut self, path: &str) -> Self {
        self.settings.scope.add_below(path);
        self
    }

    /// Computes digests, and compares them with the recorded ones. Default: off. A tree that is
    /// restricted to some paths has no digest.
    pub const fn digests(mut self, computes: bool) -> Self {
        self.settings.computes_digests = computes;
        self
    }

    /// Continues after damaged ranges and after missing transactions, which are listed in
    /// [`Replayed`]. Default: off, both are errors. Their changes are missing in the tree.
    pub const fn skip_damaged(mut self, skip: bool) -> Self {
        self.settings.skips_damaged = skip;
        self
    }

    /// Sets the maximum length of a record, in bytes. Default:
    /// [`DEFAULT_MAX_RECORD`](super::DEFAULT_MAX_RECORD).
    pub const fn max_record(mut self, bytes: usize) -> Self {
        self.settings.max_record = bytes;
        self
    }

    /// Restricts the tree to a node and its children, without the nodes below the children. Several
    /// calls select several nodes.
    pub fn shallow(mut self, path: &str) -> Self {
        self.settings.scope.add_shallow(path);
        self
    }

    /// Sets the limits of the reads. Default: none.
    pub fn budget(mut self, budget: &ReadBudget) -> Self {
        self.settings.budget = budget.clone();
        self
    }

    /// Rebuilds the tree.
    ///
    /// # Errors
    /// [`Error::NoBase`](super::Error::NoBase) and [`Error::NoLogs`](super::Error::NoLogs) if the
    /// files do not go back to this moment, [`Error::Gap`](super::Error::Gap) if transactions are
    /// missing, and the errors of reading the files.
    pub fn run(&self, at: At) -> Result<Replayed> {
        let target = match at {
            At::Latest => i64::MAX,
            At::Zxid(zxid) => zxid,
            At::Time(time_ms) => zxid_at(&self.files, &self.settings, time_ms)?,
        };
        let mut base = Base::for_target(&self.files, &self.settings, target)?;
        let snapshot = base.path.clone();
        let mut skipped = std::mem::take(&mut base.skipped);
        let mut player = Player::new(base, &self.files, &self.settings, BTreeMap::new());
        player.run(target)?;
        skipped.extend(player.logs.skipped().cloned());
        Ok(Replayed {
            is_settled: player.is_settled(),
            may_contain_later: player.may_contain_later(at),
            tree: player.tree,
            zxid: player.zxid,
            time_ms: player.time_ms,
            snapshot,
            transactions: player.transactions,
            digests: player.comparison.report,
            gaps: player.gaps,
            skipped,
        })
    }
}
