use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use zk_curator_client::internal::sleep;
use zk_curator_ops::ensemble::health;
use zk_curator_ops::ensemble::probe::ProbeReport;
use zk_curator_ops::ensemble::rates::RateBaseline;
use zk_curator_ops::ensemble::words::FourLetterWord;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, number, text, time};
use crate::probe::ProbeArguments;
use crate::tui;

/// The shortest interval. The servers are asked more often by nobody.
const SHORTEST: Duration = Duration::from_millis(200);

/// The arguments of `zkc top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Time between two samples, from 200ms
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// Print the servers once, with rates over one interval, and end
    #[arg(long)]
    once: bool,
    /// Allow changes: commands after `:`, and `e` in the tree
    #[arg(long, conflicts_with = "once")]
    write: bool,
    #[command(flatten)]
    options: ProbeArguments,
}

const COLUMNS: &[OutputColumn] = &[
    text("server"),
    text("role"),
    text("version"),
    number("up"),
    number("conn"),
    number("requests_per_s"),
    number("outstanding"),
    number("avg_ms"),
    number("max_ms"),
    number("lag"),
    number("znodes"),
    number("data"),
    number("watches"),
];

impl Top {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let interval = self.interval.max(SHORTEST);
        let probe = self.options.of(app)?;
        // A connect string that is not valid fails here, not on the screen.
        probe.named()?;
        if !self.once {
            if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
                return Err(CommandFailure::usage("not a terminal").hint("pass --once"));
            }
            let app = if self.write { app.clone() } else { app.read_only() };
            let probe = self.options.of(&app)?;
            tui::run(&app, &probe, interval).await?;
            return Ok(CommandOutput::nothing());
        }
        let found = probe.members().await?;
        let words = [FourLetterWord::Srvr, FourLetterWord::Mntr];
        let start = Instant::now();
        let first = tui::sample(&found, probe.options(), &words, start).await;
        sleep(interval).await;
        let second = tui::sample(&found, probe.options(), &words, start).await;
        let before = RateBaseline::new(&first.reports, second.at.saturating_sub(first.at));
        let mut rows = Rows::new(COLUMNS);
        for report in &second.reports {
            rows.push(row(&second.reports, report, &before));
        }
        let unreachable = second.reports.iter().all(|report| report.srvr.is_err());
        let exit = if unreachable { Exit::NO_CONNECTION } else { Exit::DONE };
        Ok(CommandOutput::from(rows).with_exit(exit))
    }
}

fn row(reports: &[ProbeReport], report: &ProbeReport, before: &RateBaseline) -> Vec<Cell> {
    let srvr = report.srvr.as_ref().ok();
    let decimal = |number: f64| Cell::new(format!("{number:.1}"), number);
    let latency = srvr.and_then(|srvr| srvr.latency);
    let up = report.count("uptime");
    let lag = health::lag(reports, report).filter(|_| !report.leads());
    vec![
        report.server.to_string().into(),
        report.role().into(),
        report.release().map(Cell::from).into(),
        up.map(Duration::from_millis).map(time::span).into(),
        srvr.and_then(|srvr| srvr.connections).into(),
        before.requests(report).map(decimal).into(),
        srvr.and_then(|srvr| srvr.outstanding).into(),
        latency.map(|(average, _)| decimal(average)).into(),
        latency.map(|(_, greatest)| decimal(greatest)).into(),
        lag.into(),
        srvr.and_then(|srvr| srvr.nodes).into(),
        report.count("approximate_data_size").map(|size| Cell::new(time::size(size), size)).into(),
        report.count("watch_count").into(),
    ]
}
