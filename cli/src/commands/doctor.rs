use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use tokio::time::timeout;
use zk_curator::ErrorKind;
use zk_curator::op::fan_out;
use zk_curator_recipes::inspect::{self, RecipeKind};

use crate::app::App;
use crate::ensemble;
use crate::ensemble::doctor::locks::{self, LockAcls};
use crate::ensemble::doctor::{self, DoctorFinding, Severity, disks};
use crate::ensemble::flw::Word;
use crate::ensemble::members::{self, EnsembleMembers};
use crate::ensemble::probe::{self, ProbeOptions, Trouble};
use crate::exit::{CommandFailure, Exit};
use crate::node::NodeSnapshot;
use crate::output::{CommandOutput, OutputColumn, Rows, text, time};
use crate::transfer::source::acls;
use crate::unreadable::UnreadableNodes;
use crate::{path, walk};

/// The stats that are requested at a time.
const STATS_AT_ONCE: usize = 512;

/// The time limit of the session that shows the clock of its server.
const SESSION_WITHIN: Duration = Duration::from_secs(2);

/// The most contenders whose access control lists are compared.
const CONTENDERS: usize = 2_000;

/// The most nodes in which locks are looked for.
const SEARCHED: usize = 100_000;

const AFTER_HELP: &str = "\
Servers report how long writes to the disk take, and how large their logs and snapshots are. They \
report neither the free space of a disk nor which directories share one. `jute.maxbuffer` and \
`autopurge.purgeInterval` are known only with --admin; otherwise the default of `jute.maxbuffer` is \
assumed, and the other is not judged.";

/// The arguments of `zkc doctor`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Doctor {
    /// Also look at the nodes below this one: their sizes, children and sequence numbers, the
    /// ACLs of locks, and contenders that no session will ever remove
    #[arg(long, value_name = "PATH", value_parser = path::parse, num_args = 0..=1, default_missing_value = "/")]
    tree: Option<String>,
    #[command(flatten)]
    options: ProbeOptions,
}

const COLUMNS: &[OutputColumn] =
    &[text("severity"), text("subject"), text("finding"), text("advice"), text("line")];

impl Doctor {
    /// Exits with 1 if there is an error.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let words = [Word::Srvr, Word::Mntr, Word::Conf, Word::Cons, Word::Wchs, Word::Dump];
        let (found, reports) = ensemble::survey(app, &words, &self.options).await?;
        let named = members::connect_string(app)?.len();
        let asked = found.servers.iter().map(|server| probe::settings(server, &self.options));
        let settings = join_all(asked).await;
        let max_packet = disks::max_packet(settings.iter());
        let mut findings = doctor::servers(&reports, found.voters(), named, max_packet);
        if reports.iter().any(|report| report.mode().is_some()) {
            findings.extend(self.clock(app, &found).await);
        }
        for (server, settings) in found.servers.iter().zip(&settings) {
            if let Some(trouble) = settings.as_ref().err().filter(|why| **why != Trouble::NotAsked)
            {
                app.out().say(format!("note: {server}: admin server: {trouble}"));
            }
            findings.extend(settings.iter().flat_map(|of| disks::settings(server, of)));
        }
        let mut unreadable = UnreadableNodes::default();
        if let Some(root) = &self.tree {
            let (of_nodes, hidden) = nodes(app, root, max_packet).await?;
            findings.extend(of_nodes);
            unreadable = hidden;
            let (of_locks, hidden) = locks_of(app, root).await?;
            findings.extend(of_locks);
            unreadable.extend(hidden);
        }
        found.note().iter().for_each(|note| app.out().say(format!("note: {note}")));
        if findings.is_empty() {
            app.out().say("no findings");
        }
        let failed = findings.iter().any(|finding| finding.severity == Severity::Error);
        let mut rows = Rows::new(COLUMNS);
        for DoctorFinding { severity, subject, text, advice, line } in findings {
            rows.push(vec![
                severity.name().into(),
                subject.into(),
                text.into(),
                advice.into(),
                line.into(),
            ]);
        }
        if failed {
            unreadable.complete(app.out(), CommandOutput::nothing());
            return Ok(CommandOutput::from(rows).with_exit(Exit::NO));
        }
        Ok(unreadable.complete(app.out(), rows))
    }

    /// Compares the clock of the server with our session with the clock here. A session that is
    /// older than this command began at an unknown time.
    async fn clock(&self, app: &App, members: &EnsembleMembers) -> Option<DoctorFinding> {
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
async fn nodes(
    app: &App,
    root: &str,
    max_packet: u64,
) -> Result<(Vec<DoctorFinding>, UnreadableNodes), CommandFailure> {
    let zk = app.zk().await?;
    let listed = walk::list(zk, root, usize::MAX, |_| true).await?;
    let (mut findings, mut unreadable) = (Vec::new(), walk::hidden(&listed));
    for nodes in listed.chunks(STATS_AT_ONCE) {
        let stats = fan_out(STATS_AT_ONCE, nodes.iter().map(|node| zk.exists(&node.path))).await;
        for (node, stat) in nodes.iter().zip(stats) {
            match NodeSnapshot::of(stat)? {
                NodeSnapshot::Present(stat) => {
                    let list = doctor::list_bytes(&node.children);
                    findings.extend(doctor::node(&node.path, &stat, list, max_packet));
                }
                NodeSnapshot::Hidden => unreadable.extend([(node.path.clone(), ErrorKind::NoAuth)]),
                // It was deleted meanwhile.
                NodeSnapshot::Missing => {}
            }
        }
    }
    Ok((findings, unreadable))
}

/// Finds contenders that no session will ever remove, and compares the access control lists of
/// locks and elections with those of their contenders. Also returns the nodes that could not be
/// read.
async fn locks_of(
    app: &App,
    root: &str,
) -> Result<(Vec<DoctorFinding>, UnreadableNodes), CommandFailure> {
    let zk = app.zk().await?;
    let found = inspect::find(zk, root, SEARCHED).await?;
    if !found.is_complete {
        app.out().say(format!("note: locks were looked for in {} nodes only", found.nodes));
    }
    let mut findings: Vec<_> = found.findings.iter().filter_map(locks::persistent).collect();
    let recipes = found.findings.iter().filter(|recipe| {
        matches!(
            recipe.kind,
            RecipeKind::Mutex
                | RecipeKind::ReadWriteLock
                | RecipeKind::Semaphore
                | RecipeKind::LeaderLatch
        )
    });
    let contenders = recipes.flat_map(|recipe| recipe.holders.iter().chain(&recipe.waiting));
    let contenders: Vec<_> = contenders.map(|contender| contender.path.as_str()).collect();
    if contenders.len() > CONTENDERS {
        let all = contenders.len();
        app.out().say(format!("note: ACLs were compared of {CONTENDERS} of {all} contenders only"));
    }
    let contenders = contenders.into_iter().take(CONTENDERS);
    let mut locks = Vec::new();
    for (directory, names) in locks::directories(contenders) {
        let paths: Vec<_> = names.iter().map(|name| path::join(&directory, name)).collect();
        let mut lists = acls(zk, [&directory].into_iter().chain(&paths).map(String::as_str)).await;
        let acl = match lists.remove(0) {
            Ok(acl) => acl,
            Err(error) if walk::is_left_out(&error) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut contenders = BTreeMap::new();
        for (name, acl) in names.into_iter().zip(lists) {
            match acl {
                Ok(acl) => drop(contenders.insert(name, Some(acl))),
                Err(error) if error.kind() == ErrorKind::NoAuth => {
                    contenders.insert(name, None);
                }
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
        locks.push(LockAcls { path: directory, acl, contenders });
    }
    findings.extend(locks::locks(&locks));
    Ok((findings, found.unreadable.into_iter().collect()))
}
