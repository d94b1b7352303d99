use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::Args;
use zk_curator_ops::ensemble::notes;
use zk_curator_ops::ensemble::probe::{ProbeReport, ProbeResult, ProbedServer};
use zk_curator_ops::ensemble::words::{FourLetterWord, WatchLists};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, OutputColumn, Rows, number, text};
use crate::probe::{self, ProbeArguments};

/// The arguments of `zkc watches`.
#[derive(Debug, Args)]
pub(crate) struct WatchesCommand {
    /// List the watched paths. Servers with many watches are slow to respond
    #[arg(long, conflicts_with = "by_session")]
    by_path: bool,
    /// List the sessions that watch. Servers with many watches are slow to respond
    #[arg(long)]
    by_session: bool,
    /// At most this many paths or sessions, those with the most watches
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    options: ProbeArguments,
}

const SUMMARY: &[OutputColumn] =
    &[text("server"), number("connections"), number("paths"), number("watches")];
const BY_PATH: &[OutputColumn] = &[text("path"), number("watches"), text("servers").wide()];
const BY_SESSION: &[OutputColumn] = &[text("session"), number("watches"), text("servers").wide()];

impl WatchesCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let word = match (self.by_path, self.by_session) {
            (true, _) => FourLetterWord::Wchp,
            (_, true) => FourLetterWord::Wchc,
            _ => FourLetterWord::Wchs,
        };
        let (_, reports) = self.options.of(app)?.survey(&[FourLetterWord::Srvr, word]).await?;
        for note in notes(&reports) {
            app.out().say(format!("note: {}", probe::note(&note)));
        }
        let (rows, told) = match word {
            FourLetterWord::Wchp => self.listed(BY_PATH, &reports, |report| &report.wchp),
            FourLetterWord::Wchc => self.listed(BY_SESSION, &reports, |report| &report.wchc),
            _ => summary(&reports),
        };
        let exit = if told { Exit::DONE } else { Exit::NO_PERMISSION };
        Ok(CommandOutput::from(rows).with_exit(exit))
    }

    /// Adds the watches of all servers: by path, or by session.
    fn listed(
        &self,
        columns: &'static [OutputColumn],
        reports: &[ProbeReport],
        lists: fn(&ProbeReport) -> &ProbeResult<WatchLists>,
    ) -> (Rows, bool) {
        let mut told = false;
        let mut found: BTreeMap<&str, (usize, Vec<&ProbedServer>)> = BTreeMap::new();
        for report in reports {
            let Ok(lists) = lists(report) else { continue };
            told = true;
            for (name, watches) in lists {
                let (count, servers) = found.entry(name).or_default();
                *count += watches.len();
                servers.push(&report.server);
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(_, (count, _))| Reverse(*count));
        found.truncate(self.top.unwrap_or(usize::MAX));
        let mut rows = Rows::new(columns);
        for (name, (count, servers)) in found {
            let servers: Vec<_> = servers.into_iter().map(ToString::to_string).collect();
            rows.push(vec![name.into(), count.into(), servers.join(", ").into()]);
        }
        (rows, told)
    }
}

fn summary(reports: &[ProbeReport]) -> (Rows, bool) {
    let mut rows = Rows::new(SUMMARY);
    for report in reports {
        let told = report.wchs.as_ref().ok();
        rows.push(vec![
            report.server.to_string().into(),
            told.map(|summary| summary.connections).into(),
            told.map(|summary| summary.paths).into(),
            told.map(|summary| summary.watches).into(),
        ]);
    }
    (rows, reports.iter().any(|report| report.wchs.is_ok()))
}
