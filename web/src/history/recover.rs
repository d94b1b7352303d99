//! Nodes of the past as a backup file.

use zk_curator_ops::Error;
use zk_curator_ops::files::TemporaryFile;
use zk_curator_ops::history::{AclList, At, Files, ReadBudget, Recovered, Undelete};

use super::failure::HistoryFailure;
use super::view::{HiddenReason, PastView};
use crate::problem::Problem;
use crate::show::visible;
use crate::transfer::problem_of;

/// Writes a node and the nodes below it, as they were at a moment, into a file. `path` is the node
/// of the page.
///
/// A node whose data are not shown refuses it: the plan of a restore would tell a user if a guess
/// at the data is right, and a restore with other rights would show them.
pub(crate) fn recover(
    files: &Files,
    budget: &ReadBudget,
    (path, at, skips_damaged): (&str, At, bool),
    view: &PastView,
    file: &TemporaryFile,
) -> Result<(), HistoryFailure> {
    let undelete = Undelete::new(files, &view.server_path(path)).at(at).budget(budget);
    let recovered = undelete.skip_damaged(skips_damaged).find()?;
    if let Some((path, reason)) = first_hidden(&recovered, view) {
        return Err(refused(&path, reason).into());
    }
    match recovered.write(file.path()) {
        Ok(_) => Ok(()),
        Err(Error::History(error)) => Err(error.into()),
        Err(error) => Err(problem_of(&error).into()),
    }
}

/// Returns the first node whose data are not shown.
fn first_hidden(recovered: &Recovered, view: &PastView) -> Option<(String, HiddenReason)> {
    recovered.replayed.tree.walk(&recovered.path).find_map(|node| {
        let path = view.local(&node.path())?;
        let anyone_reads = node.stored_acl().map(AclList::lets_anyone_read);
        let reason = view.hidden(&path, anyone_reads)?;
        Some((path, reason))
    })
}

fn refused(path: &str, reason: HiddenReason) -> Problem {
    let detail = format!(
        "{}: {} So it cannot be restored here. `zkc history undelete` can.",
        visible(path),
        reason.sentence()
    );
    Problem::forbidden("Hidden data", detail)
}
