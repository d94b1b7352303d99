use clap::Args;
use zk_curator_ops::ensemble::probe::ProbedServer;
use zk_curator_ops::ensemble::words::FourLetterWord;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, number, text};
use crate::probe::{self, ProbeArguments};

/// The arguments of `zkc servers`.
#[derive(Debug, Args)]
pub(crate) struct Servers {
    #[command(flatten)]
    options: ProbeArguments,
}

const COLUMNS: &[OutputColumn] =
    &[text("server"), number("id"), text("kind"), text("state"), text("peers").wide()];

impl Servers {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let (members, reports) = self.options.of(app)?.survey(&[FourLetterWord::Srvr]).await?;
        if let Some(note) = members.note() {
            app.out().say(format!("note: {}", probe::note(&note)));
        }
        let mut rows = Rows::new(COLUMNS);
        for report in &reports {
            let ProbedServer { id, observer, .. } = report.server;
            let of_id = |member: &&zk_curator::ensemble::EnsembleServer| Some(member.id) == id;
            let configured = members.config.as_ref();
            let configured = configured.and_then(|config| config.servers.iter().find(of_id));
            let kind = match (configured, observer) {
                (None, _) => "not in the configuration",
                (Some(_), true) => "observer",
                (Some(_), false) => "participant",
            };
            let state = match (report.mode(), &report.srvr) {
                (Some(mode), _) => mode.to_string(),
                (None, Err(trouble)) => trouble.to_string(),
                (None, Ok(_)) => "unknown".to_owned(),
            };
            let peers = configured.map(|member| {
                let peers = member.peers.iter();
                let peers =
                    peers.map(|p| format!("{}:{}:{}", p.host, p.quorum_port, p.election_port));
                Cell::from(peers.collect::<Vec<_>>().join("|"))
            });
            rows.push(vec![
                report.server.to_string().into(),
                id.into(),
                kind.into(),
                state.into(),
                peers.into(),
            ]);
        }
        Ok(rows.into())
    }
}
