use clap::Args;
use serde_json::json;
use zk_curator_ops::holders::{self, SessionFacts, WhyReport};
use zk_curator_recipes::inspect::{Contender, Finding};

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, TextReport, printable, time};
use crate::probe::{self, ProbeArguments};
use crate::{path, who};

/// The most waiters that are shown without --all.
const SHOWN: usize = 20;

/// The most ignored nodes that are named.
const IGNORED: usize = 5;

/// The arguments of `zkc why`.
#[derive(Debug, Args)]
pub(crate) struct WhyCommand {
    /// Node of a lock, a leader election, a queue, a barrier or another recipe, or a node below it
    #[arg(value_parser = path::parse)]
    path: String,
    /// Show all waiters, and the commands for all readers
    #[arg(short, long)]
    all: bool,
    /// Also ask the servers for all watches, to find a waiter that does not watch. Servers with
    /// many watches are slow to respond
    #[arg(long)]
    watches: bool,
    #[command(flatten)]
    options: ProbeArguments,
}

impl WhyCommand {
    /// Prints who holds a recipe and who waits, with their clients, and why nothing moves.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        let probe = self.options.of(app)?;
        let report = holders::why_with(zk, &self.path, &probe).await?;
        let WhyReport { finding, mut facts, deletion, .. } = report;
        if self.watches {
            facts.add_watches(zk, &probe).await?;
        }
        let deletion: Vec<_> =
            deletion.iter().map(|obstacle| who::obstacle_line(&facts, obstacle)).collect();
        let now = time::now_ms();
        let mut lines = vec![headline(&finding, now)];
        for holder in &finding.holders {
            lines.push(String::new());
            lines.extend(who::contender_lines(&facts, holder, "HOLDER", now));
        }
        lines.extend(waiting_lines(&finding, &facts, self.all, now));
        let verdicts = facts.verdicts(&finding);
        lines.push(String::new());
        lines.extend(titled("BECAUSE", &verdicts));
        lines.extend(titled("DELETE", &deletion));
        lines.extend(titled("NEXT", &next(&finding, &facts, self.all)));
        let mut notes: Vec<_> = facts.notes().iter().map(probe::note).collect();
        if finding.is_partial {
            notes.push(who::PARTIAL.to_owned());
        }
        lines.extend(titled("NOTE", &notes));
        if !finding.ignored.is_empty() {
            let names: Vec<_> =
                finding.ignored.iter().take(IGNORED).map(|name| printable(name)).collect();
            let more = finding.ignored.len().saturating_sub(IGNORED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            lines.extend(titled("IGNORED", &[format!("{}{more}", names.join(", "))]));
        }
        let contenders = |of: &[Contender]| -> Vec<_> {
            of.iter().map(|one| who::contender_value(&facts, one, now)).collect()
        };
        let value = json!({
            "path": finding.path,
            "recipe": finding.kind.to_string(),
            "library": finding.library.to_string(),
            "guess": finding.is_guess,
            "holders": contenders(&finding.holders),
            "waiting": contenders(&finding.waiting),
            "ignored": finding.ignored,
            "verdicts": verdicts,
            "deletion": deletion,
            "partial": finding.is_partial,
            "notes": notes,
        });
        let names = finding.holders.iter().map(|holder| holder.path.clone());
        Ok(TextReport::new(lines.join("\n"), value).names(names).into())
    }
}

fn waiting_lines(finding: &Finding, facts: &SessionFacts, all: bool, now: i64) -> Vec<String> {
    let mut lines = Vec::new();
    let shown = if all { usize::MAX } else { SHOWN };
    for (place, waiter) in finding.waiting.iter().take(shown).enumerate() {
        if place == 0 {
            lines.push(String::new());
        }
        let title = if place == 0 { "WAITING" } else { "" };
        lines.extend(who::contender_lines(facts, waiter, title, now));
    }
    let hidden = finding.waiting.len().saturating_sub(shown);
    if hidden > 0 {
        lines.push(format!("{:<8} and {hidden} more: --all", ""));
    }
    lines
}

fn headline(finding: &Finding, now: i64) -> String {
    let (holders, waiting) = (finding.holders.len(), finding.waiting.len());
    let holders = match holders {
        1 => "1 holder".to_owned(),
        many => format!("{many} holders"),
    };
    let created = finding
        .stat
        .map(|stat| format!(", created {} ago", time::duration(time::since(stat.ctime, now))));
    let created = created.unwrap_or_default();
    format!("{}   {}   {holders}, {waiting} waiting{created}", finding.path, who::kind(finding))
}

fn titled(title: &str, lines: &[String]) -> Vec<String> {
    let title_of = |place| if place == 0 { title } else { "" };
    lines.iter().enumerate().map(|(place, line)| format!("{:<8} {line}", title_of(place))).collect()
}

/// Returns the commands that may help.
fn next(finding: &Finding, facts: &SessionFacts, all: bool) -> Vec<String> {
    let (steps, more) = holders::next_steps(finding, facts, all);
    let mut next: Vec<_> = steps.iter().map(ToString::to_string).collect();
    if more > 0 {
        next.push(format!("and {more} more readers: --all"));
    }
    next
}
