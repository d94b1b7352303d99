use std::time::Duration;

use clap::Args;
use zk_curator_client::internal::sleep;
use zk_curator_ops::history::{Follow, FollowEvent};

use super::arguments::FileArguments;
use super::filter::ChangeFilter;
use super::show;
use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::CommandOutput;
use crate::output::stream::DocumentStream;

/// The pause at the end of the logs.
const PAUSE: Duration = Duration::from_millis(250);

/// The arguments of `zkc history follow`.
#[derive(Debug, Args)]
pub(crate) struct HistoryFollow {
    #[command(flatten)]
    files: FileArguments,
    #[command(flatten)]
    filter: ChangeFilter,
    /// End after this many changes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

impl HistoryFollow {
    /// Prints changes until Ctrl-C, or until the reader of the pipe is gone.
    pub(super) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let files = self.files.find()?;
        let with_data = app.global().verbose;
        let index = self.filter.index(&files, self.files.skip_damaged, with_data);
        let follow = index.follow(self.files.directories())?;
        let stop = crate::stop::requested();
        app.out().say("following the logs until Ctrl-C");
        tokio::select! {
            outcome = self.print(app, follow) => outcome?,
            interrupted = stop => interrupted?,
        }
        Ok(CommandOutput::nothing())
    }

    async fn print(&self, app: &App, mut follow: Follow) -> Result<(), CommandFailure> {
        let mut stream = app.out().follow();
        let most = self.count.unwrap_or(u64::MAX);
        loop {
            while let Some(event) = follow.next_event()? {
                match event {
                    FollowEvent::Change(change) => {
                        let document = show::document(&change, app.global().verbose);
                        if !stream.print(&document)? || stream.count() >= most {
                            return stream.finish();
                        }
                    }
                    event => notice(app, &mut stream, &event)?,
                }
                // Ctrl-C ends a long history, too.
                tokio::task::yield_now().await;
            }
            if !stream.flush()? {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }
}

/// Names an event that is not a change, after the changes before it.
fn notice(
    app: &App,
    stream: &mut DocumentStream,
    event: &FollowEvent,
) -> Result<(), CommandFailure> {
    stream.flush()?;
    match event {
        FollowEvent::Gap(gap) => {
            show::name_missing(app, std::slice::from_ref(gap), &[]);
        }
        FollowEvent::Skipped(skipped) => {
            show::name_missing(app, &[], [skipped]);
        }
        FollowEvent::Withdrawn { path } => app.out().warn(format!(
            "{}: the server has removed its last transactions, which were not committed",
            path.display()
        )),
        _ => {}
    }
    Ok(())
}
