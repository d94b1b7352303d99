//! Asks the servers, and reads the nodes, that are judged.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;
use zk_curator::op::fan_out;
use zk_curator::{CuratorFramework, Error as FrameworkError, ErrorKind, Stat};
use zk_curator_recipes::inspect;

use super::finding::{DoctorFinding, FindingSeverity};
use super::locks::{self, LockAcls};
use super::{disks, judge};
use crate::ensemble::members::EnsembleMembers;
use crate::ensemble::notes::ProbeNote;
use crate::ensemble::probe::{self, ProbeReport};
use crate::ensemble::target::EnsembleProbe;
use crate::ensemble::trouble::ProbeTrouble;
use crate::ensemble::words::FourLetterWord;
use crate::error::Error;
use crate::holders::LOCKS_AND_ELECTIONS;
use crate::node::NodeSnapshot;
use crate::transfer::source::acls;
use crate::tree::unreadable::UnreadableNodes;
use crate::tree::walk::{self, ListedNode};
use crate::{path, text};

/// The words whose responses are examined.
pub const WORDS: [FourLetterWord; 6] = [
    FourLetterWord::Srvr,
    FourLetterWord::Mntr,
    FourLetterWord::Conf,
    FourLetterWord::Cons,
    FourLetterWord::Wchs,
    FourLetterWord::Dump,
];
/// The stats that are requested at a time.
const STATS_AT_ONCE: usize = 512;
/// The time limit of the session that shows the clock of its server.
const SESSION_WITHIN: Duration = Duration::from_secs(2);
/// The most contenders whose access control lists are compared.
const CONTENDERS: usize = 2_000;
/// The most nodes in which locks are looked for.
const SEARCHED: usize = 100_000;

/// The findings about the servers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DoctorReport {
    /// The servers that were examined.
    pub members: EnsembleMembers,
    /// The findings: first those about several servers or their words, the most severe first.
    pub findings: Vec<DoctorFinding>,
    /// The admin servers that did not help, and servers that may exist and were not examined.
    pub notes: Vec<ProbeNote>,
    /// The greatest packet that all servers accept, in bytes: their `jute.maxbuffer`.
    pub max_packet: u64,
}

impl DoctorReport {
    /// Returns `true` if something does not work.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        has_errors(&self.findings)
    }
}

/// The findings about the nodes of a subtree.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct DoctorTreeReport {
    /// The findings, in the order of the nodes, and then those about recipes.
    pub findings: Vec<DoctorFinding>,
    /// Sentences about nodes that were not examined, because there are too many.
    pub notes: Vec<String>,
    /// The nodes that could not be read.
    pub unreadable: UnreadableNodes,
}

impl DoctorTreeReport {
    /// Returns `true` if something does not work.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        has_errors(&self.findings)
    }
}

fn has_errors(findings: &[DoctorFinding]) -> bool {
    findings.iter().any(|finding| finding.severity == FindingSeverity::Error)
}

/// Examines the servers of an ensemble.
///
/// If the probe has a framework that is not started yet, it is started, and the clock of its
/// server is compared with the clock here.
///
/// # Errors
/// As of [`EnsembleProbe::members`]. A server that does not respond is a finding.
pub async fn examine(probe: &EnsembleProbe<'_>) -> Result<DoctorReport, Error> {
    let (members, reports) = probe.survey(&WORDS).await?;
    let note = members.note_beside(&reports);
    let mut report = examine_reports(probe, members, &reports).await?;
    report.notes.extend(note);
    Ok(report)
}

/// Examines the servers by responses to [`WORDS`] that are there already. `reports` has a report
/// for each of the `members`. Asks the admin servers of the probe for the settings that no word
/// tells. Otherwise it does the same as [`examine`], without a note about servers that have no
/// report, as [`note_beside`](EnsembleMembers::note_beside) returns it.
///
/// # Errors
/// [`InvalidConnectString`](Error::InvalidConnectString).
pub async fn examine_reports(
    probe: &EnsembleProbe<'_>,
    members: EnsembleMembers,
    reports: &[ProbeReport],
) -> Result<DoctorReport, Error> {
    let named = probe.named()?.len();
    let asked = members.servers.iter().map(|server| probe::settings(server, probe.options()));
    let settings = join_all(asked).await;
    let max_packet = disks::max_packet(settings.iter());
    let mut findings = judge::servers(reports, members.voters(), named, max_packet);
    if reports.iter().any(|report| report.mode().is_some()) {
        findings.extend(clock(probe, &members).await);
    }
    let mut notes = Vec::new();
    for (server, settings) in members.servers.iter().zip(&settings) {
        if let Some(trouble) = settings.as_ref().err().filter(|why| **why != ProbeTrouble::NotAsked)
        {
            let (server, trouble) = (server.clone(), trouble.clone());
            notes.push(ProbeNote::Admin { server, trouble });
        }
        findings.extend(settings.iter().filter_map(|of| disks::settings(server, of)));
    }
    Ok(DoctorReport { members, findings, notes, max_packet })
}

/// Compares the clock of the server with a new session with the clock here. A session that exists
/// already began at an unknown time.
async fn clock(probe: &EnsembleProbe<'_>, members: &EnsembleMembers) -> Option<DoctorFinding> {
    let source = probe.source()?;
    if source.started().is_some() {
        return None;
    }
    let before = text::now_ms();
    let zk = timeout(SESSION_WITHIN, source.framework()).await.ok()??;
    let between = (before, text::now_ms());
    let own = zk.session()?.id.get();
    let words = [FourLetterWord::Srvr, FourLetterWord::Cons];
    let reports = probe::ask_all(&members.servers, &words, probe.options()).await;
    reports.iter().find_map(|report| {
        let mut connections = report.cons.iter().flatten();
        let connection = connections.find(|connection| connection.session == Some(own))?;
        judge::clock(&report.server, connection.established?, between)
    })
}

/// Examines the nodes of a subtree: their sizes, children and sequence numbers, the ACLs of locks,
/// and contenders that no session will ever remove.
///
/// `max_packet` is the greatest packet that servers and clients accept, in bytes: see
/// [`DoctorReport::max_packet`]. Locks are looked for in the first 100,000 nodes, and the ACLs of
/// the first 2,000 contenders are compared; a note says so if there are more.
///
/// # Errors
/// Those of the framework. A node that cannot be read is not an error, unless it is the root.
pub async fn examine_tree(
    zk: &CuratorFramework,
    root: &str,
    max_packet: u64,
) -> Result<DoctorTreeReport, FrameworkError> {
    let mut report = DoctorTreeReport::default();
    examine_nodes(zk, root, max_packet, &mut report).await?;
    examine_recipes(zk, root, &mut report).await?;
    Ok(report)
}

async fn examine_nodes(
    zk: &CuratorFramework,
    root: &str,
    max_packet: u64,
    report: &mut DoctorTreeReport,
) -> Result<(), FrameworkError> {
    let listed = walk::list(zk, root, usize::MAX, |_| true).await?;
    report.unreadable = walk::hidden(&listed);
    for nodes in listed.chunks(STATS_AT_ONCE) {
        let stats = fan_out(STATS_AT_ONCE, nodes.iter().map(|node| zk.exists(&node.path))).await;
        for (node, stat) in nodes.iter().zip(stats) {
            match NodeSnapshot::of(stat)? {
                NodeSnapshot::Present(stat) => {
                    report.findings.extend(of_listed(zk, node, &stat, max_packet));
                }
                NodeSnapshot::Hidden => {
                    report.unreadable.extend([(node.path.clone(), ErrorKind::NoAuth)]);
                }
                // It was deleted after it was listed.
                NodeSnapshot::Missing => {}
            }
        }
    }
    Ok(())
}

/// Returns the findings about a node. With a chroot or a namespace, the root is not that of the
/// servers, and a node `/zookeeper` is an ordinary one.
pub(super) fn of_listed(
    zk: &CuratorFramework,
    node: &ListedNode,
    stat: &Stat,
    max_packet: u64,
) -> Vec<DoctorFinding> {
    let (on_server, list) = (zk.server_path(&node.path), judge::list_bytes(&node.children));
    judge::of_node(&node.path, &on_server, stat, list, max_packet)
}

/// Looks for contenders that no session will ever remove, and compares the access control lists of
/// locks and elections with those of their contenders.
async fn examine_recipes(
    zk: &CuratorFramework,
    root: &str,
    report: &mut DoctorTreeReport,
) -> Result<(), FrameworkError> {
    let found = inspect::find(zk, root, SEARCHED).await?;
    if !found.is_complete {
        report.notes.push(format!("locks were looked for in {} nodes only", found.nodes));
    }
    report.findings.extend(found.findings.iter().filter_map(locks::persistent));
    let recipes = found.findings.iter().filter(|recipe| LOCKS_AND_ELECTIONS.contains(&recipe.kind));
    let contenders = recipes.flat_map(|recipe| recipe.holders.iter().chain(&recipe.waiting));
    let contenders: Vec<_> = contenders.map(|contender| contender.path.as_str()).collect();
    if contenders.len() > CONTENDERS {
        let all = contenders.len();
        let note = format!("ACLs were compared of {CONTENDERS} of {all} contenders only");
        report.notes.push(note);
    }
    let contenders = contenders.into_iter().take(CONTENDERS);
    let mut acls_of_locks = Vec::new();
    for (directory, names) in locks::directories(contenders) {
        acls_of_locks.extend(lock_acls(zk, directory, names).await?);
    }
    report.findings.extend(locks::locks(&acls_of_locks));
    report.unreadable.extend(found.unreadable);
    Ok(())
}

/// Reads the access control lists of a directory and of its contenders. `None` if the list of the
/// directory cannot be read.
async fn lock_acls(
    zk: &CuratorFramework,
    directory: String,
    names: Vec<String>,
) -> Result<Option<LockAcls>, FrameworkError> {
    let paths: Vec<_> = names.iter().map(|name| path::join(&directory, name)).collect();
    let mut lists = acls(zk, [&directory].into_iter().chain(&paths).map(String::as_str)).await;
    let acl = match lists.remove(0) {
        Ok(acl) => acl,
        Err(error) if walk::is_left_out(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut contenders = BTreeMap::new();
    for (name, acl) in names.into_iter().zip(lists) {
        match acl {
            Ok(acl) => drop(contenders.insert(name, Some(acl))),
            Err(error) if error.kind() == ErrorKind::NoAuth => {
                contenders.insert(name, None);
            }
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(LockAcls { path: directory, acl, contenders }))
}
