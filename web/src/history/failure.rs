//! The errors of reading the past as problems.

use std::path::Path;

use axum::http::StatusCode;
use zk_curator_ops::history::Error;
use zk_curator_ops::node::hex;

use crate::problem::{Problem, ProblemKind};
use crate::show::visible;

/// The way to read on after damage.
const READ_ON: &str = "Add damaged=skip to the address to read on; what is left out is named.";

/// The reason why the past was not read.
#[derive(Debug)]
pub(crate) enum HistoryFailure {
    Files(Error),
    Refused(Box<Problem>),
}

impl From<Error> for HistoryFailure {
    fn from(error: Error) -> Self {
        Self::Files(error)
    }
}

impl From<Problem> for HistoryFailure {
    fn from(problem: Problem) -> Self {
        Self::Refused(Box::new(problem))
    }
}

impl From<HistoryFailure> for Problem {
    fn from(failure: HistoryFailure) -> Self {
        match failure {
            HistoryFailure::Files(error) => problem_of(&error),
            HistoryFailure::Refused(problem) => *problem,
        }
    }
}

/// Returns a problem that names files, and no directory of this host.
fn problem_of(error: &Error) -> Problem {
    match error {
        Error::Damaged { path, offset, damage } => {
            let file = file_name(path);
            let detail = format!("{file} is damaged at byte {offset}: {damage}. {READ_ON}");
            Problem::damaged("A file of the history is damaged", detail)
        }
        Error::Gap { gap } => {
            let (after, next, file) = (hex(gap.after), hex(gap.next), file_name(&gap.path));
            let detail = format!(
                "Transactions are missing after {after}: {file} continues with {next}. {READ_ON}"
            );
            Problem::damaged("Transactions are missing", detail)
        }
        Error::NoBase { .. } | Error::NoLogs { .. } => {
            not_found("Too long ago", "The files of the history do not go back to this moment.")
        }
        Error::NotDeleted { path } | Error::NoSuchNode { path, .. } => {
            let path = visible(path);
            not_found("No such node", format!("{path} did not exist, or was not deleted."))
        }
        Error::UnknownAcl { path } | Error::InvalidAcl { path, .. } => {
            let path = visible(path);
            let detail = format!(
                "The files do not tell the rights of {path}. Without them it would be open to \
                 everyone, so it is not restored."
            );
            Problem::forbidden("Unknown rights", detail)
        }
        Error::Limit { limit } => {
            let detail = format!(
                "The history is longer than this explorer reads for a page: {limit}. Choose a \
                 node further down. `zkc history` has no limits."
            );
            Problem::no_place("Too much history", detail)
        }
        Error::Io { operation, path, source } => {
            let file = file_name(path);
            unreadable(format!("The explorer cannot {operation} {file}: {source}."))
        }
        Error::Removed { path } => {
            let file = file_name(path);
            unreadable(format!("{file} was removed before it was read. Try again."))
        }
        Error::NothingFound { .. } => {
            unreadable("The directories of the history contain no log and no snapshot.")
        }
        Error::DuplicateLog { first, .. } => {
            let file = file_name(first);
            unreadable(format!("{file} exists twice: the directories are of several servers."))
        }
        Error::UnexpectedMagic { path, .. } | Error::UnknownVersion { path, .. } => {
            let file = file_name(path);
            unreadable(format!("{file} has another format than a file of this name."))
        }
        _ => unreadable("The reason is unknown."),
    }
}

/// Returns the name of a file, without its directory.
pub(super) fn file_name(path: &Path) -> String {
    visible(&path.file_name().unwrap_or_default().to_string_lossy()).into_owned()
}

fn unreadable(detail: impl Into<String>) -> Problem {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(status, ProblemKind::Usage, "The history cannot be read", detail)
}

fn not_found(title: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, ProblemKind::NoNode, title, detail)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn problems_name_files_and_no_directory() {
        let path = || Path::new("/var/lib/zookeeper/version-2/log.1").to_owned();
        let source = io::Error::other("the disk is gone");
        let problem = problem_of(&Error::Io { operation: "read", path: path(), source });
        assert_eq!(problem.status.as_u16(), 503);
        assert!(problem.detail.contains("log.1: the disk is gone"), "{problem}");
        let problems = [problem, problem_of(&Error::Removed { path: path() })];
        assert!(problems.iter().all(|one| !one.detail.contains("/var")), "{problems:?}");
    }
}
