//! The errors of transfers as problems.

use axum::http::StatusCode;
use zk_curator::ErrorKind;
use zk_curator_ops::Error;
use zk_curator_ops::tree::unreadable::UnreadableReason;

use crate::problem::{Problem, ProblemKind};

/// Returns the problem of a backup, a comparison or a restore. It does not name the files of this
/// host.
pub(crate) fn problem_of(error: &Error) -> Problem {
    let conflict = |title| {
        let detail = format!("Nothing was changed: {error}.");
        Problem::new(StatusCode::CONFLICT, ProblemKind::Conflict, title, detail)
    };
    match error {
        Error::Framework(error) => error.clone().into(),
        Error::Interrupted { changes: 0, source } => {
            let mut problem = problem_of(source);
            problem.detail.push_str(" Nothing was changed.");
            problem
        }
        Error::Interrupted { changes, source } => {
            let mut problem = problem_of(source);
            problem.title = "Applied in part";
            problem.detail = format!(
                "{changes} changes were applied before this: {} The same restore, made again, \
                 applies the rest.",
                problem.detail
            );
            problem
        }
        Error::Damaged { damage, .. } => {
            Problem::usage(format!("The file is not an intact backup: {damage}."))
        }
        Error::File { operation, source, .. } => failed(operation, source),
        Error::Output { source } => failed("write", source),
        Error::NoNode { .. } => {
            let title = "No such node";
            let detail = format!("{error}.");
            Problem::new(StatusCode::NOT_FOUND, ProblemKind::NoNode, title, detail)
        }
        Error::Unreadable { reason: UnreadableReason::LeftOut, .. } => Problem::hidden_data(),
        Error::Unreadable { reason: UnreadableReason::Failed(ErrorKind::NoAuth), .. } => {
            Problem::forbidden("ZooKeeper refuses permission", format!("{error}."))
        }
        Error::Conflicts { .. } => conflict("Nodes exist and differ"),
        Error::Contenders { .. } => conflict("Contenders of recipes would become persistent"),
        Error::LowCounters { .. } => conflict("Sequence counters are too low"),
        Error::Changed { .. } => conflict("The nodes have changed"),
        error => Problem::usage(format!("{error}.")),
    }
}

fn failed(operation: &str, source: &std::io::Error) -> Problem {
    let detail = format!("The explorer cannot {operation} a temporary file: {source}.");
    Problem::internal("No space for temporary files", detail)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn problems_do_not_name_files_of_this_host() {
        let path = "/tmp/zkc-upload-7".into();
        let source = io::Error::other("disk full");
        let problem = problem_of(&Error::File { operation: "write", path, source });
        assert_eq!(problem.status.as_u16(), 500);
        assert!(problem.detail.contains("disk full") && !problem.detail.contains("/tmp"));
    }

    #[test]
    fn an_interrupted_restore_says_what_was_applied() {
        let source = || Box::new(Error::Changed { path: "/a".to_owned() });
        let problem = problem_of(&Error::Interrupted { changes: 7, source: source() });
        assert_eq!((problem.status.as_u16(), problem.title), (409, "Applied in part"));
        assert!(problem.detail.starts_with("7 changes were applied"));
        let problem = problem_of(&Error::Interrupted { changes: 0, source: source() });
        assert!(problem.detail.ends_with("Nothing was changed."));
    }
}
