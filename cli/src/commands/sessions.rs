use clap::{Args, ValueEnum};
use zk_curator_ops::ensemble::sessions::{self, EnsembleSession};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, number, text, time};
use crate::probe::{self, ProbeArguments};

/// The arguments of `zkc sessions`.
#[derive(Debug, Args)]
pub(crate) struct SessionsCommand {
    /// Order
    #[arg(long, value_enum, value_name = "KEY", default_value = "id")]
    sort: SessionSort,
    #[command(flatten)]
    options: ProbeArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SessionSort {
    /// By id
    Id,
    /// By address
    Client,
    /// By server
    Server,
    /// Most requests first
    Requests,
    /// Most ephemeral nodes first
    Ephemerals,
}

const COLUMNS: &[OutputColumn] = &[
    text("session"),
    text("client"),
    text("server"),
    number("timeout"),
    text("last"),
    number("requests"),
    number("ephemerals"),
    number("queued").wide(),
    number("silent").wide(),
    text("connected").wide(),
    text("expires").wide(),
];

impl SessionsCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let found = sessions::sessions(&self.options.of(app)?).await?;
        for note in &found.notes {
            app.out().say(format!("note: {}", probe::note(note)));
        }
        let mut all: Vec<_> = found.by_id.into_iter().collect();
        match self.sort {
            SessionSort::Id => {}
            SessionSort::Client => all.sort_by(|(_, a), (_, b)| a.address.cmp(&b.address)),
            SessionSort::Server => all.sort_by(|(_, a), (_, b)| a.server.cmp(&b.server)),
            SessionSort::Requests => {
                all.sort_by_key(|(_, session)| std::cmp::Reverse(session.requests));
            }
            SessionSort::Ephemerals => {
                all.sort_by_key(|(_, session)| std::cmp::Reverse(session.ephemerals.len()));
            }
        }
        let mut rows = Rows::new(COLUMNS);
        for (id, session) in &all {
            rows.push(row(id.to_string(), session));
        }
        let told = found.all_connections || found.all_sessions || !all.is_empty();
        let exit = if told { Exit::DONE } else { Exit::NO_PERMISSION };
        Ok(CommandOutput::from(rows).with_exit(exit))
    }
}

fn row(id: String, session: &EnsembleSession) -> Vec<Cell> {
    vec![
        id.into(),
        session.address.clone().into(),
        session.server.clone().into(),
        session.timeout.map(time::span).into(),
        session.last_operation.clone().into(),
        session.requests.into(),
        session.ephemerals.len().into(),
        session.queued.into(),
        session.silent.map(time::span).into(),
        session.established.map(time::cell).into(),
        session.expires.clone().into(),
    ]
}
