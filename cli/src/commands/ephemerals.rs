use clap::Args;
use zk_curator::SessionId;
use zk_curator_ops::ensemble::sessions;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::node;
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, text};
use crate::probe::{self, ProbeArguments};

/// The arguments of `zkc ephemerals`.
#[derive(Debug, Args)]
pub(crate) struct EphemeralsCommand {
    /// Only those of this session, such as 0x10000a3f2100001
    #[arg(long, value_name = "SESSION", value_parser = node::parse_session)]
    session: Option<SessionId>,
    #[command(flatten)]
    options: ProbeArguments,
}

const COLUMNS: &[OutputColumn] = &[text("path"), text("session"), text("client")];

impl EphemeralsCommand {
    /// Lists the nodes as the servers name them: with the chroot, of all namespaces.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let found = sessions::sessions(&self.options.of(app)?).await?;
        let notes: Vec<_> = found.notes.iter().map(probe::note).collect();
        if !found.all_sessions {
            let failure =
                CommandFailure::new(Exit::NO_PERMISSION, "no server lists its ephemeral nodes");
            return Err(failure.hint(notes.join("; ")));
        }
        notes.iter().for_each(|note| app.out().detail(format!("note: {note}")));
        let wanted = |id: &SessionId| self.session.is_none_or(|session| session == *id);
        let sessions = found.by_id.iter().filter(|(id, _)| wanted(id));
        let mut nodes: Vec<_> = sessions
            .flat_map(|(id, session)| {
                session.ephemerals.iter().map(move |path| (path, id, session))
            })
            .collect();
        nodes.sort_by(|(a, ..), (b, ..)| node::compare(a, b));
        let mut rows = Rows::new(COLUMNS);
        for (path, id, session) in nodes {
            let client = session.address.clone();
            rows.push(vec![
                path.clone().into(),
                id.to_string().into(),
                client.map(Cell::from).into(),
            ]);
        }
        Ok(rows.into())
    }
}
