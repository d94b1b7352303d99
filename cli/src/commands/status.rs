use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use serde_json::Value;
use zk_curator_ops::ensemble::probe::ProbeReport as Told;
use zk_curator_ops::ensemble::words::FourLetterWord;
use zk_curator_ops::ensemble::{self, ProbeNote, health};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::node;
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, TextReport, number, text, time};
use crate::probe::{self, ProbeArguments};

/// The arguments of `zkc status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print metrics in Prometheus' text format
    #[arg(long)]
    prometheus: bool,
    #[command(flatten)]
    options: ProbeArguments,
}

const COLUMNS: &[OutputColumn] = &[
    text("server"),
    text("role"),
    text("version"),
    number("up"),
    number("conn"),
    number("lat"),
    number("lag"),
    number("znodes"),
    number("watches"),
    number("id").wide(),
    text("zxid").wide(),
    number("max_lat").wide(),
    number("outstanding").wide(),
    number("data").wide(),
    number("open_files").wide(),
];

impl Status {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let words = [FourLetterWord::Srvr, FourLetterWord::Mntr];
        let (members, reports) = self.options.of(app)?.survey(&words).await?;
        let mut problems = health::problems(&reports, members.voters());
        let exit = if problems.is_empty() { Exit::DONE } else { Exit::NO };
        if self.prometheus {
            let text = prometheus(&reports, problems.is_empty());
            let report = TextReport::new("", Value::Null).raw(Bytes::from(text)).only_raw();
            return Ok(CommandOutput::from(report).with_exit(exit));
        }
        let mut rows = Rows::new(COLUMNS);
        for report in &reports {
            rows.push(row(&reports, report));
        }
        let say = |note: &ProbeNote| app.out().say(format!("note: {}", probe::note(note)));
        members.note_beside(&reports).iter().for_each(say);
        // Not a fault of the ensemble: the columns are empty.
        let refused = reports.iter().filter(|report| report.srvr.is_ok() && report.mntr.is_err());
        let notes = refused.flat_map(|report| ensemble::notes(std::slice::from_ref(report)));
        notes.for_each(|note| say(&note));
        problems.drain(..).for_each(|problem| app.out().say(format!("degraded: {problem}")));
        Ok(CommandOutput::from(rows).with_exit(exit))
    }
}

fn row(reports: &[Told], report: &Told) -> Vec<Cell> {
    let srvr = report.srvr.as_ref().ok();
    let up = report.count("uptime");
    let lag = health::lag(reports, report).filter(|_| !report.leads());
    vec![
        report.server.to_string().into(),
        report.role().into(),
        report.release().map(Cell::from).into(),
        up.map(Duration::from_millis).map(time::span).into(),
        srvr.and_then(|srvr| srvr.connections).into(),
        srvr.and_then(|srvr| srvr.latency).map(|(average, _)| ms(average)).into(),
        lag.into(),
        srvr.and_then(|srvr| srvr.nodes).into(),
        report.count("watch_count").into(),
        report.server.id.into(),
        report.zxid().map(node::hex).into(),
        srvr.and_then(|srvr| srvr.latency).map(|(_, greatest)| ms(greatest)).into(),
        srvr.and_then(|srvr| srvr.outstanding).into(),
        report.count("approximate_data_size").map(|size| Cell::new(time::size(size), size)).into(),
        report.count("open_file_descriptor_count").into(),
    ]
}

/// Returns a latency: to a tenth of a millisecond for people.
fn ms(ms: f64) -> Cell {
    Cell::new(format!("{ms:.1} ms"), ms)
}

/// Returns the state of the servers in Prometheus' text format. Missing values are left out.
fn prometheus(reports: &[Told], healthy: bool) -> String {
    type Value = fn(&[Told], &Told) -> Option<f64>;
    let metrics: [(&str, &str, Value); 9] = [
        ("zkc_server_up", "1 if the server responds", |_, told| Some(flag(told.srvr.is_ok()))),
        ("zkc_server_leader", "1 if the server orders the writes", |_, told| {
            Some(flag(told.leads()))
        }),
        ("zkc_server_read_only", "1 if the server is in read-only mode", |_, told| {
            Some(flag(told.srvr.as_ref().ok()?.read_only))
        }),
        ("zkc_server_lag_transactions", "Transactions behind the leader", |all, told| {
            Some(float(health::lag(all, told)?))
        }),
        ("zkc_server_connections", "Connections", |_, told| {
            Some(float(told.srvr.as_ref().ok()?.connections?))
        }),
        ("zkc_server_outstanding_requests", "Requests without a response", |_, told| {
            Some(float(told.srvr.as_ref().ok()?.outstanding?))
        }),
        ("zkc_server_latency_average_ms", "Average latency since the start", |_, told| {
            Some(told.srvr.as_ref().ok()?.latency?.0)
        }),
        ("zkc_server_nodes", "Nodes", |_, told| Some(float(told.srvr.as_ref().ok()?.nodes?))),
        ("zkc_server_watches", "Watches", |_, told| told.metric("watch_count")),
    ];
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    for (name, help, value) in metrics {
        line(format!("# HELP {name} {help}.\n# TYPE {name} gauge"));
        for told in reports {
            if let Some(value) = value(reports, told) {
                line(format!("{name}{{server=\"{}\"}} {value}", told.server));
            }
        }
    }
    line("# HELP zkc_healthy 1 if nothing is degraded.\n# TYPE zkc_healthy gauge".to_owned());
    line(format!("zkc_healthy {}", flag(healthy)));
    out
}

const fn flag(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
const fn float(count: u64) -> f64 {
    count as f64
}
