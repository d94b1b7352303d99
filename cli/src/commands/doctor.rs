use std::time::Duration;

use clap::Args;
use tokio::time::timeout;
use zk_curator::op::fan_out;

use crate::app::App;
use crate::ensemble;
use crate::ensemble::doctor::{self, Finding, Severity};
use crate::ensemble::flw::Word;
use crate::ensemble::members::{self, Members};
use crate::ensemble::probe::{self, Options};
use crate::exit::{Exit, Failure};
use crate::node::Seen;
use crate::output::{Answer, Column, Rows, text, time};
use crate::unreadable::Unreadable;
use crate::{path, walk};

/// The stats that are requested at a time.
const STATS_AT_ONCE: usize = 512;

/// The time limit of the session that shows the clock of its server.
const SESSION_WITHIN: Duration = Duration::from_secs(2);

/// The arguments of `zkc doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Also look at the nodes below this one: their sizes, children and sequence numbers
    #[arg(long, value_name = "PATH", value_parser = path::parse, num_args = 0..=1, default_missing_value = "/")]
    tree: Option<String>,
    #[command(flatten)]
    options: Options,
}

const COLUMNS: &[Column] =
    &[text("severity"), text("subject"), text("finding"), text("advice"), text("line")];

impl Doctor {
    /// Exits with 1 if there is an error.
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        let words = [Word::Srvr, Word::Mntr, Word::Conf, Word::Cons, Word::Wchs, Word::Dump];
        let (found, reports) = ensemble::survey(app, &words, &self.options).await?;
        let named = members::connect_string(app)?.len();
        let mut findings = doctor::servers(&reports, found.voters(), named);
        if reports.iter().any(|report| report.mode().is_some()) {
            findings.extend(self.clock(app, &found).await);
        }
        let mut unreadable = Unreadable::default();
        if let Some(root) = &self.tree {
            let (of_nodes, hidden) = nodes(app, root).await?;
            findings.extend(of_nodes);
            unreadable = hidden;
        }
        found.note().iter().for_each(|note| app.out().say(format!("note: {note}")));
        if findings.is_empty() {
            app.out().say("no findings");
        }
        let failed = findings.iter().any(|finding| finding.severity == Severity::Error);
        let mut rows = Rows::new(COLUMNS);
        for Finding { severity, subject, text, advice, line } in findings {
            rows.push(vec![
                severity.name().into(),
                subject.into(),
                text.into(),
                advice.into(),
                line.into(),
            ]);
        }
        if failed {
            unreadable.complete(app.out(), Answer::nothing());
            return Ok(Answer::from(rows).with_exit(Exit::NO));
        }
        Ok(unreadable.complete(app.out(), rows))
    }

    /// Compares the clock of the server with our session with the clock here. A session that is
    /// older than this command began at an unknown time.
    async fn clock(&self, app: &App, members: &Members) -> Option<Finding> {
        if app.connection().is_some() {
            return None;
        }
        let before = time::now_ms();
        let zk = timeout(SESSION_WITHIN, app.zk()).await.ok()?.ok()?;
        let between = (before, time::now_ms());
        let own = zk.session()?.id.get();
        let words = [Word::Srvr, Word::Cons];
        let reports = probe::ask_all(&members.servers, &words, &self.options).await;
        reports.iter().find_map(|report| {
            let mut connections = report.cons.iter().flatten();
            let connection = connections.find(|connection| connection.session == Some(own))?;
            doctor::clock(&report.server, connection.established?, between)
        })
    }
}

/// Returns the findings about the nodes of a subtree, and the nodes that may not be read.
async fn nodes(app: &App, root: &str) -> Result<(Vec<Finding>, Unreadable), Failure> {
    let zk = app.zk().await?;
    let listed = walk::list(zk, root, usize::MAX, |_| true).await?;
    let (mut findings, mut unreadable) = (Vec::new(), Unreadable::of(&listed));
    for nodes in listed.chunks(STATS_AT_ONCE) {
        let stats = fan_out(STATS_AT_ONCE, nodes.iter().map(|node| zk.exists(&node.path))).await;
        for (node, stat) in nodes.iter().zip(stats) {
            match Seen::of(stat)? {
                Seen::Present(stat) => findings.extend(doctor::node(&node.path, &stat)),
                Seen::Hidden => unreadable.extend([node.path.clone()]),
                // It was deleted meanwhile.
                Seen::Missing => {}
            }
        }
    }
    Ok((findings, unreadable))
}
