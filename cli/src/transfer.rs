//! Arguments and files of the commands that move nodes.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use zk_curator_ops::files::TemporaryFile;
use zk_curator_ops::transfer::{OnLowCounter, SequenceHazard};

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::printable;

/// The nodes with low counters that are named on the terminal.
const NAMED: usize = 20;
/// More numbers are used up only after a question.
const MANY_NUMBERS: u64 = 1_000_000;
/// The argument that stands for standard input or output.
const STANDARD: &str = "-";

/// The treatment of sequence counters that are too low.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Low {
    /// Raise the counters of nodes whose new sequential children would sort before the restored
    /// ones, by creating and deleting a node for each number
    #[arg(long)]
    burn_sequences: bool,
    /// Restore although new sequential children would sort before the restored ones
    #[arg(long, conflicts_with = "burn_sequences")]
    ignore_sequences: bool,
}

impl Low {
    pub(crate) const fn policy(self) -> OnLowCounter {
        match (self.burn_sequences, self.ignore_sequences) {
            (true, _) => OnLowCounter::Burn,
            (_, true) => OnLowCounter::Ignore,
            _ => OnLowCounter::Refuse,
        }
    }

    /// Warns of low counters.
    pub(crate) fn warn(app: &App, hazards: &[SequenceHazard]) {
        for SequenceHazard { parent, next, highest, .. } in hazards.iter().take(NAMED) {
            let parent = printable(parent);
            app.out().warn(format!(
                "{parent}: has a child with the number {highest}, and would count from {next}"
            ));
        }
        let more = hazards.len().saturating_sub(NAMED);
        if more > 0 {
            app.out().warn(format!("and {more} more"));
        }
    }

    /// Asks if it is expensive to raise the counters.
    pub(crate) async fn agree(
        self,
        app: &App,
        hazards: &[SequenceHazard],
    ) -> Result<(), CommandFailure> {
        let numbers: u64 = hazards.iter().map(SequenceHazard::burn).sum();
        if self.policy() == OnLowCounter::Burn && numbers > MANY_NUMBERS {
            app.agree(&format!("create and delete {numbers} nodes to raise counters?")).await?;
        }
        Ok(())
    }
}

/// Returns `true` if an argument stands for standard input or output.
pub(crate) fn is_standard(argument: &Path) -> bool {
    argument == Path::new(STANDARD)
}

/// A backup that can be read several times.
#[derive(Debug)]
pub(crate) enum BackupInput {
    File(PathBuf),
    Copy(InputCopy),
}

/// A copy of standard input. On Linux its file has no name, so it is gone with the process, however
/// that ends.
#[derive(Debug)]
pub(crate) struct InputCopy {
    path: PathBuf,
    /// Keeps a file without a name.
    file: File,
    /// Removes a file with a name when it is dropped.
    _named: Option<TemporaryFile>,
}

impl BackupInput {
    /// Takes a file, or copies standard input if the argument is `-`.
    pub(crate) async fn of(argument: &Path) -> Result<Self, CommandFailure> {
        if !is_standard(argument) {
            return Ok(Self::File(argument.to_owned()));
        }
        if io::stdin().is_terminal() {
            return Err(CommandFailure::usage("standard input is a terminal, not a backup"));
        }
        let copy = InputCopy::create()?;
        let mut file = copy.file.try_clone()?;
        // The session lives on while the input is slow.
        let copied =
            tokio::task::spawn_blocking(move || io::copy(&mut io::stdin().lock(), &mut file));
        copied.await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
        Ok(Self::Copy(copy))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Copy(copy) => &copy.path,
        }
    }
}

impl InputCopy {
    /// Creates an empty file.
    fn create() -> io::Result<Self> {
        let (named, file) = TemporaryFile::create("zkc-backup-")?;
        Ok(match path_without_name(&file) {
            Some(path) => Self { path, file, _named: None },
            None => Self { path: named.path().to_owned(), file, _named: Some(named) },
        })
    }
}

/// Returns a path by which this process opens a file after its name is removed; `None` if the
/// system has none.
#[cfg(target_os = "linux")]
fn path_without_name(file: &File) -> Option<PathBuf> {
    let number = std::os::fd::AsRawFd::as_raw_fd(file);
    let path = PathBuf::from(format!("/proc/self/fd/{number}"));
    // It may not be mounted.
    File::open(&path).is_ok().then_some(path)
}

#[cfg(not(target_os = "linux"))]
const fn path_without_name(_: &File) -> Option<PathBuf> {
    None
}
