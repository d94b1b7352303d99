//! A restore: its plan, and the change that applies exactly this plan.

use zk_curator::CuratorFramework;
use zk_curator_ops::files::TemporaryFile;
use zk_curator_ops::transfer::{
    BackupReader, PlannedChange, RestorePlan, RestoreRun, SequenceHazard, TransferCounts,
};
use zk_curator_ops::{Error, Progress, path};

use super::failure::problem_of;
use super::restore_choice::RestoreChoice;
use crate::problem::Problem;
use crate::security::Redaction;

/// The planned changes of a restore.
#[derive(Debug)]
pub(crate) struct PlannedRestore {
    /// The root of the restored nodes.
    pub(crate) root: String,
    /// The number of nodes in the file.
    pub(crate) nodes: u64,
    /// A warning about the file.
    pub(crate) warning: Option<String>,
    pub(crate) counts: TransferCounts,
    /// The first nodes that are not as in the file.
    pub(crate) changes: Vec<PlannedChange>,
    pub(crate) hazards: Vec<SequenceHazard>,
    pub(crate) contenders: Vec<String>,
    pub(crate) is_atomic: bool,
    /// The reason why the plan cannot be applied.
    pub(crate) refused: Option<Problem>,
    /// A digest of all changes.
    pub(crate) digest: [u8; 32],
}

/// The reason why a restore has no plan, or was not applied.
#[derive(Debug)]
pub(crate) enum RestoreRefusal {
    Failed(Error),
    /// A node of the file would be one whose data are hidden.
    Hidden(String),
    /// The plan has changed since the user has seen it.
    OtherPlan,
}

impl From<Error> for RestoreRefusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A file, and what to do with it.
#[derive(Debug)]
pub(crate) struct RestoreTask<'a> {
    pub(crate) zk: &'a CuratorFramework,
    pub(crate) redaction: &'a Redaction,
    pub(crate) file: &'a TemporaryFile,
    pub(crate) choice: RestoreChoice,
    /// The node of the page.
    pub(crate) here: &'a str,
}

impl<'a> RestoreTask<'a> {
    /// Compares the file with the servers. Changes nothing.
    pub(crate) async fn plan(&self) -> Result<PlannedRestore, RestoreRefusal> {
        let run = self.open().await?;
        let plan = run.plan(Progress::none()).await?;
        Ok(planned(&run, plan))
    }

    /// Plans again, and applies the plan if it is the same. Returns the root, and the number of
    /// changed nodes.
    pub(crate) async fn apply(
        &self,
        is_same: impl FnOnce(&[u8; 32]) -> bool,
    ) -> Result<(String, u64), RestoreRefusal> {
        let run = self.open().await?;
        let plan = run.plan(Progress::none()).await?;
        if !is_same(&plan.digest()) {
            return Err(RestoreRefusal::OtherPlan);
        }
        run.apply(&plan, Progress::none()).await?;
        let TransferCounts { create, replace, delete, .. } = plan.counts;
        Ok((run.root().to_owned(), create + replace + delete))
    }

    async fn open(&self) -> Result<RestoreRun<'a>, RestoreRefusal> {
        let run = self.choice.restore(self.file.path(), self.here).open(self.zk).await?;
        match self.hidden(run.root())? {
            Some(path) => Err(RestoreRefusal::Hidden(path)),
            None => Ok(run),
        }
    }

    /// Returns the first node of the file whose data are hidden. The numbers of a plan would tell
    /// if a guess at its data is right.
    fn hidden(&self, root: &str) -> Result<Option<String>, Error> {
        let mut file = BackupReader::open(self.file.path())?;
        let from = file.header().root.clone();
        while let Some(record) = file.next_record()? {
            let target = path::moved(&record.path, &from, root);
            if self.redaction.hides(&target) {
                return Ok(Some(target));
            }
        }
        Ok(None)
    }
}

fn planned(run: &RestoreRun<'_>, plan: RestorePlan) -> PlannedRestore {
    PlannedRestore {
        root: run.root().to_owned(),
        nodes: run.nodes(),
        warning: run.warning(),
        changes: plan.first_changes().to_vec(),
        is_atomic: plan.is_atomic(),
        refused: plan.check().err().map(|error| problem_of(&error)),
        digest: plan.digest(),
        counts: plan.counts,
        hazards: plan.hazards,
        contenders: plan.contenders,
    }
}
