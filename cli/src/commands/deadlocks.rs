use clap::Args;
use serde_json::{Value, json};
use zk_curator_recipes::inspect::{self, Cycle, Wait};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport, printable, shell_word};
use crate::unreadable::{NameUnreadable, UnreadableNodes};
use crate::{node, path};

const AFTER_HELP: &str = "\
Sessions stand for processes. If a process uses one session for independent tasks, a cycle may not
be a deadlock.";

/// The arguments of `zkc deadlocks`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DeadlocksCommand {
    /// Root of the subtree with the locks
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// Read at most this many nodes
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    limit: usize,
}

impl DeadlocksCommand {
    /// Prints sessions that wait for each other. Exit code 1 if there are any, and 8 if not all
    /// nodes could be read and there may be others.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let found = inspect::find(app.zk().await?, &self.path, self.limit).await?;
        let deadlocks = inspect::deadlocks(&found.findings);
        if !found.is_complete {
            app.out().warn(format!("only {} nodes were read: --limit", found.nodes));
        }
        let mut lines = Vec::new();
        for (place, cycle) in deadlocks.cycles.iter().enumerate() {
            lines.extend(cycle_lines(place + 1, cycle));
        }
        for wait in &deadlocks.behind_themselves {
            lines.push(format!("{} waits behind itself:", printable(&wait.waiter_label)));
            lines.push(format!("  {}", line(wait)));
        }
        let partial = found.findings.iter().filter(|finding| finding.is_partial).count();
        let is_complete = found.is_complete && found.unreadable.is_empty() && partial == 0;
        if partial > 0 {
            app.out().warn(format!("{partial} recipes were read in part"));
        }
        if deadlocks.cycles.is_empty() {
            let extent = if is_complete { "" } else { " in the nodes that were read" };
            lines.push(format!("no deadlock{extent}"));
        } else {
            lines.push(format!("{} sessions cannot continue", deadlocks.stuck));
        }
        let value = json!({
            "cycles": deadlocks.cycles.iter().map(cycle_value).collect::<Vec<_>>(),
            "behind_themselves": deadlocks.behind_themselves.iter().map(value).collect::<Vec<_>>(),
            "stuck": deadlocks.stuck,
            "complete": is_complete,
        });
        let victims = deadlocks.cycles.iter().map(|cycle| cycle.victim.path.clone());
        let exit = match (deadlocks.cycles.is_empty(), found.is_complete && partial == 0) {
            (false, _) => Exit::NO,
            (true, false) => Exit::PARTLY,
            (true, true) => Exit::DONE,
        };
        let report = TextReport::new(lines.join("\n"), value).names(victims);
        let unreadable: UnreadableNodes = found.unreadable.into_iter().collect();
        let partial = unreadable.complete(app.out(), CommandOutput::from(report).with_exit(exit));
        // A deadlock that was found is one, whatever else there is.
        Ok(if exit == Exit::NO { partial.with_exit(exit) } else { partial })
    }
}

fn cycle_lines(number: usize, cycle: &Cycle) -> Vec<String> {
    let mut lines = vec![format!("deadlock {number}:")];
    lines.extend(cycle.waits.iter().map(|wait| format!("  {}", line(wait))));
    let victim = &cycle.victim;
    let token = victim.token.map(|token| format!(" --token {}", node::hex(token.get())));
    lines.push(format!(
        "  zkc break {}{}  (lets {} sessions continue)",
        shell_word(&victim.path),
        token.unwrap_or_default(),
        victim.frees
    ));
    lines
}

fn line(wait: &Wait) -> String {
    let of = |label: &str, session| match label {
        "" => format!("session {session}"),
        label => printable(label),
    };
    let waiter = of(&wait.waiter_label, wait.waiter_session);
    let holder = of(&wait.holder_label, wait.holder_session);
    format!("{waiter} waits at {} for {holder}", wait.lock)
}

fn value(wait: &Wait) -> Value {
    json!({
        "lock": wait.lock,
        "waiter": { "path": wait.waiter, "label": wait.waiter_label, "session": wait.waiter_session.to_string() },
        "holder": { "path": wait.holder, "label": wait.holder_label, "session": wait.holder_session.to_string() },
    })
}

fn cycle_value(cycle: &Cycle) -> Value {
    json!({
        "waits": cycle.waits.iter().map(value).collect::<Vec<_>>(),
        "break": {
            "path": cycle.victim.path,
            "token": cycle.victim.token.map(|token| node::hex(token.get())),
            "frees": cycle.victim.frees,
        },
    })
}
