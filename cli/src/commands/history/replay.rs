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
    if replayed.may_contain_later {
        app.out().warn(if at == At::Latest {
            "note: no log is as new as the snapshot; the tree may contain a part of later changes; \
             pass --log-dir if the logs are in another directory"
        } else {
            "note: the snapshot does not tell which later changes it contains; the tree may \
             contain some"
        });
    }
    Ok((replayed, if is_partial { Exit::PARTLY } else { Exit::DONE }))
}
