use clap::Args;
use zk_curator_ops::history::Files;

use super::arguments::FileArguments;
use super::filter::ChangeFilter;
use super::show;
use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::node::hex;
use crate::output::{CommandOutput, time};

/// The arguments of `zkc history log`.
#[derive(Debug, Args)]
pub(crate) struct HistoryLog {
    #[command(flatten)]
    files: FileArguments,
    #[command(flatten)]
    filter: ChangeFilter,
    /// Print at most this many changes, the first ones
    #[arg(long, value_name = "N")]
    first: Option<u64>,
    /// Tell sizes and versions before each change, and the causes of deletions, without --path and
    /// --below too. It takes the memory of the whole tree
    #[arg(long)]
    states: bool,
}

impl HistoryLog {
    /// Prints a line for each change, while the logs are read.
    pub(super) fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let files = self.files.find()?;
        self.note_begin(app, &files)?;
        let with_data = app.global().verbose;
        let mut index = self.filter.index(&files, self.files.skip_damaged, with_data);
        if self.states {
            index = index.with_states(true);
        }
        let mut changes = index.changes()?;
        let mut stream = app.out().list();
        let most = self.first.unwrap_or(u64::MAX);
        let mut failure = None;
        while stream.count() < most {
            match changes.next() {
                None => break,
                Some(Ok(change)) => {
                    if !stream.print(&show::document(&change, with_data))? {
                        break;
                    }
                }
                Some(Err(error)) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        stream.finish()?;
        let is_partial = show::name_missing(app, changes.gaps(), changes.skipped());
        match failure {
            Some(error) => Err(error.into()),
            None if is_partial => Ok(Exit::PARTLY.into()),
            None => Ok(CommandOutput::nothing()),
        }
    }

    /// Says where the logs begin if earlier changes were requested.
    fn note_begin(&self, app: &App, files: &Files) -> Result<(), CommandFailure> {
        let first_zxid = self.filter.zxid.as_ref().map(|zxids| *zxids.start());
        if self.filter.since.is_none() && first_zxid.is_none() {
            return Ok(());
        }
        let Some(begin) = files.first_change()? else { return Ok(()) };
        let is_later = self.filter.since.is_some_and(|since| since < begin.time_ms)
            || first_zxid.is_some_and(|zxid| zxid > 0 && zxid < begin.zxid);
        if is_later {
            let (when, zxid) = (time::exact(begin.time_ms), hex(begin.zxid));
            app.out().say(format!("note: the logs begin at {when} with {zxid}"));
        }
        Ok(())
    }
}
