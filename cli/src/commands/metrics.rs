use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;
use zk_curator_ops::ensemble::notes;
use zk_curator_ops::ensemble::words::FourLetterWord;
use zk_curator_ops::pattern::NamePattern;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, number, text};
use crate::probe::{self, ProbeArguments};

/// The arguments of `zkc metrics`.
#[derive(Debug, Args)]
pub(crate) struct Metrics {
    /// Only metrics whose names match this pattern, such as '*latency*'
    #[arg(long = "match", value_name = "GLOB")]
    pattern: Option<NamePattern>,
    #[command(flatten)]
    options: ProbeArguments,
}

const COLUMNS: &[OutputColumn] = &[text("metric"), text("server"), number("value")];

impl Metrics {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let words = [FourLetterWord::Srvr, FourLetterWord::Mntr];
        let (_, reports) = self.options.of(app)?.survey(&words).await?;
        for note in notes(&reports) {
            app.out().say(format!("note: {}", probe::note(&note)));
        }
        let wanted = |name: &str| self.pattern.as_ref().is_none_or(|p| p.is_match(name));
        let mut metrics: BTreeMap<&str, Vec<(String, &str)>> = BTreeMap::new();
        for report in &reports {
            for (name, value) in report.mntr.iter().flat_map(|mntr| &mntr.metrics) {
                let name = name.strip_prefix("zk_").unwrap_or(name);
                if wanted(name) {
                    metrics.entry(name).or_default().push((report.server.to_string(), value));
                }
            }
        }
        let mut rows = Rows::new(COLUMNS);
        for (name, values) in metrics {
            for (server, value) in values {
                rows.push(vec![name.into(), server.into(), Cell::new(value, parsed(value))]);
            }
        }
        let told = reports.iter().any(|report| report.mntr.is_ok());
        let exit = if told { Exit::DONE } else { Exit::NO_PERMISSION };
        Ok(CommandOutput::from(rows).with_exit(exit))
    }
}

/// Returns a number where the text is one.
fn parsed(text: &str) -> Value {
    let whole = text.parse::<i64>().map(Value::from);
    whole.or_else(|_| text.parse::<f64>().map(Value::from)).unwrap_or_else(|_| Value::from(text))
}
