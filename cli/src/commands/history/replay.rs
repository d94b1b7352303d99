use zk_curator_ops::history::{At, Replay, Replayed};

use super::arguments::FileArguments;
use super::show;
use crate::app::App;
use crate::exit::{CommandFailure, Exit};

/// Rebuilds the tree below a node. Names missing transactions on stderr. The second value is the
/// exit code for an answer that is otherwise complete.
pub(super) fn replay(
    app: &App,
    files: &FileArguments,
    path: &str,
    at: At,
) -> Result<(Replayed, Exit), CommandFailure> {
    let replayed = files
        .read(|found| Replay::new(found).below(path).skip_damaged(files.skip_damaged).run(at))?;
    let is_partial = show::name_missing(app, &replayed.gaps, &replayed.skipped);
    if !replayed.is_settled && at != At::Latest {
        app.out().warn(
            "note: the snapshot does not tell which later changes it contains; the tree may \
             contain some",
        );
    }
    Ok((replayed, if is_partial { Exit::PARTLY } else { Exit::DONE }))
}
