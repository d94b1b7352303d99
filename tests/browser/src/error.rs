//! The errors of the harness.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_curator_real::RealError;

use super::findings::{ConsoleEntry, Violation, lines};

/// An error of the browser, of its driver, or of the page that is tested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// A program or a file of `scripts/install-browser` is missing.
    #[error("{what} is missing: run scripts/install-browser")]
    Missing {
        /// The program or the file.
        what: String,
    },
    /// The driver ended before it served, or was not ready in time.
    #[error("chromedriver did not start; its output is:\n{output}")]
    NotStarted {
        /// The output so far.
        output: String,
    },
    /// The browser or its driver has ended.
    #[error("the browser has ended: {command} failed: {message}")]
    Ended {
        /// The command that failed.
        command: String,
        /// The reason that the driver or the connection gives.
        message: String,
    },
    /// The driver refused a command, or the browser could not perform it.
    #[error("{command} failed: {error}: {message}")]
    Refused {
        /// The command.
        command: String,
        /// The error code of WebDriver, for example `no such element`.
        error: String,
        /// The message of the driver.
        message: String,
    },
    /// The driver did not respond in time.
    #[error("no response to {command} within {after:?}")]
    NoResponse {
        /// The command.
        command: String,
        /// The time that was waited.
        after: Duration,
    },
    /// A response was not what the command returns.
    #[error("the response to {command} is not understood: {response}")]
    Malformed {
        /// The command.
        command: String,
        /// The response.
        response: String,
    },
    /// The page did not reach a state in time.
    #[error("{css} did not fulfil {predicate} within {after:?}; at the end: {now}")]
    NotReached {
        /// The selector of the element.
        css: String,
        /// The function of the element that did not return `true`.
        predicate: String,
        /// The time that was waited.
        after: Duration,
        /// The element at the end, as HTML.
        now: String,
    },
    /// The content of a page is wider than the page.
    #[error("the content of {page} is {content} pixels wide, and the page {width}")]
    TooWide {
        /// The address of the page.
        page: String,
        /// The width of the page, in pixels.
        width: u32,
        /// The width of its content, in pixels.
        content: u64,
    },
    /// The page violates rules of axe-core.
    #[error("{} violations of rules of axe-core:\n{}", .0.len(), lines(.0))]
    Inaccessible(
        /// The violations.
        Vec<Violation>,
    ),
    /// The page left errors in the console that the test did not take.
    #[error("{} errors in the console of the browser:\n{}", .0.len(), lines(.0))]
    Console(
        /// The errors.
        Vec<ConsoleEntry>,
    ),
    /// The operating system refused an action.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The action, as a verb.
        what: &'static str,
        /// The file, the program or the address of the action.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A fixture of Apache ZooKeeper's tests failed: a temporary directory, or a free port.
    #[error(transparent)]
    Fixture(#[from] RealError),
    /// An operation on the embedded server failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

pub(crate) fn io_error(
    what: &'static str,
    path: impl AsRef<Path>,
) -> impl FnOnce(io::Error) -> BrowserError {
    let path = path.as_ref().to_owned();
    move |source| BrowserError::Io { what, path, source }
}
