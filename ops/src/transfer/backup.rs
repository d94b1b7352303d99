//! Writes a backup file.
//!
//! The tree is read while a persistent watch notes its changes. Then the changed nodes are read
//! again, until a read of them was not overtaken by another change: the nodes are then those of one
//! moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use zk_curator::watch::PersistentWatch;
use zk_curator::{CuratorFramework, Error, ErrorKind};

use super::file::{BackupPart, BackupTarget};
use super::format::{BackupHeader, Consistency, Trailer};
use super::record::TransferRecord;
use super::settle::ChangedNodes;
use super::source::{self, SourceWalk};
use crate::exit::CommandFailure;
use crate::node::hex;
use crate::path;
use crate::progress::ProgressLine;
use crate::unreadable::UnreadableNodes;
use crate::walk::WalkPace;

/// The options of a backup.
#[derive(Debug)]
pub(crate) struct BackupOptions<'a> {
    pub(crate) root: &'a str,
    pub(crate) file: &'a BackupTarget,
    pub(crate) header: BackupHeader,
    pub(crate) plain: bool,
    /// The time to find a moment without a change, after the tree was read.
    pub(crate) within: Duration,
    /// Publishes no file that is not exact.
    pub(crate) exact_only: bool,
}

/// A finished backup.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) trailer: Trailer,
    /// The nodes that are missing in the file.
    pub(crate) unreadable: UnreadableNodes,
    pub(crate) ephemerals: u64,
    /// The nodes with hidden passwords in their ACLs.
    pub(crate) masked: u64,
    /// The reason why the changed nodes are not known.
    pub(crate) gap: Option<&'static str>,
    /// `true` if the file was published.
    pub(crate) published: bool,
}

/// Numbers of the nodes of a file.
#[derive(Debug, Default)]
struct BackupCounts {
    ephemerals: u64,
    masked: u64,
}

impl BackupCounts {
    fn add(&mut self, record: &TransferRecord) {
        self.ephemerals += u64::from(record.kind.is_ephemeral());
        self.masked += u64::from(record.has_masked_acl());
    }
}

/// Writes a backup.
pub(crate) async fn backup(
    zk: &CuratorFramework,
    options: BackupOptions<'_>,
    progress: &ProgressLine,
) -> Result<Summary, CommandFailure> {
    let mut follow = Follow::start(zk, options.root).await?;
    zk.sync(options.root).await?;
    let began = zk.last_zxid_seen();
    let mut part = BackupPart::create(options.file, &options.header, options.plain)?;
    let (mut walk, mut counts) = (SourceWalk::new(options.root, true), BackupCounts::default());
    loop {
        let found = walk.next(zk).await?;
        if found.is_empty() {
            break;
        }
        for node in &found {
            counts.add(&node.record);
            part.write(&node.record)?;
        }
        progress.add(found.len());
        follow.note();
    }
    let mut unreadable = walk.into_unreadable();
    let newer = settle(zk, &mut follow, &options, &mut unreadable).await?;
    let ended = zk.last_zxid_seen();
    let is_exact = follow.changed.is_settled() || began.is_some() && began == ended;
    let gap = follow.changed.gap().filter(|_| !is_exact);
    let changed = if is_exact { Some(Vec::new()) } else { follow.changed.into_paths() };
    let consistency = if is_exact { Consistency::Exact } else { Consistency::Fuzzy };
    let mut trailer = Trailer::new(consistency, changed);
    trailer.zxid = ended.map(hex);
    trailer.unreadable = unreadable.iter().map(|(path, _)| path.to_owned()).collect();
    if newer.is_empty() {
        trailer = part.finish(trailer)?;
    } else {
        (part, trailer, counts) = combine(part, newer, trailer, &options)?;
    }
    let published = is_exact || !options.exact_only;
    if published {
        part.publish(options.file)?;
    }
    let BackupCounts { ephemerals, masked } = counts;
    Ok(Summary { trailer, unreadable, ephemerals, masked, gap, published })
}

/// Reads changed nodes again, until all nodes are of one moment or the time is over. Returns the
/// present state of the nodes that changed since they were written to the file.
async fn settle(
    zk: &CuratorFramework,
    follow: &mut Follow,
    options: &BackupOptions<'_>,
    unreadable: &mut UnreadableNodes,
) -> Result<BTreeMap<String, Option<TransferRecord>>, Error> {
    let end = Instant::now() + options.within;
    let (mut newer, mut pace) = (BTreeMap::new(), WalkPace::up_to(1_024));
    loop {
        // All events up to this moment precede the response.
        zk.sync(options.root).await?;
        follow.note();
        if follow.changed.is_settled() || follow.changed.gap().is_some() || Instant::now() >= end {
            return Ok(newer);
        }
        let paths = follow.changed.take();
        let mut rest = &paths[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(pace.nodes().min(rest.len()));
            let answers = source::read(zk, now, &mut pace, true).await?;
            for (path, answer) in now.iter().zip(answers) {
                if !is_recorded(zk, path, options.root) {
                    continue;
                }
                unreadable.remove(path);
                if let Err(error) = &answer
                    && error.kind() != ErrorKind::NoNode
                {
                    unreadable.extend([(path.clone(), error.kind())]);
                }
                newer.insert(path.clone(), answer.ok().map(|(record, _)| record));
            }
            rest = later;
        }
    }
}

/// Returns `true` for the nodes that a backup of `root` contains.
fn is_recorded(zk: &CuratorFramework, path: &str, root: &str) -> bool {
    path::is_system(zk, root) || !path::is_system(zk, path)
}

/// Copies a file with the newer states of nodes, and ends it.
fn combine(
    mut part: BackupPart,
    mut newer: BTreeMap<String, Option<TransferRecord>>,
    trailer: Trailer,
    options: &BackupOptions<'_>,
) -> Result<(BackupPart, Trailer, BackupCounts), CommandFailure> {
    let mut copy = Copy {
        part: BackupPart::create(options.file, &options.header, options.plain)?,
        counts: BackupCounts::default(),
        parents: newer.keys().map(|path| (path::split(path).0.to_owned(), false)).collect(),
    };
    part.finish(Trailer::new(trailer.consistency, None))?;
    // Nodes below these were read before, and have no parent any more in the file.
    let hidden: BTreeSet<&str> = trailer.unreadable.iter().map(String::as_str).collect();
    let is_hidden = |path: &str| {
        !hidden.is_empty()
            && path::ancestors(path).iter().any(|path| hidden.contains(path.as_str()))
    };
    let mut file = part.read()?;
    while let Some(record) = file.next()? {
        match newer.remove(&record.path) {
            _ if is_hidden(&record.path) => {}
            None => copy.write(&record)?,
            Some(Some(record)) => copy.write(&record)?,
            Some(None) => {}
        }
    }
    // The others were created after their parents were listed. The map has parents first.
    for record in newer.into_values().flatten() {
        let parent = path::split(&record.path).0;
        // Children of an unreadable node have events, but no place in the file.
        if record.path == options.root || copy.parents.get(parent).is_some_and(|there| *there) {
            copy.write(&record)?;
        }
    }
    let trailer = copy.part.finish(trailer)?;
    Ok((copy.part, trailer, copy.counts))
}

/// The file with the newer states.
struct Copy {
    part: BackupPart,
    counts: BackupCounts,
    /// The parents of newer nodes, and `true` for those that are in the file.
    parents: BTreeMap<String, bool>,
}

impl Copy {
    fn write(&mut self, record: &TransferRecord) -> Result<(), CommandFailure> {
        if let Some(there) = self.parents.get_mut(&record.path) {
            *there = true;
        }
        self.counts.add(record);
        self.part.write(record)
    }
}

/// The changes of a subtree since its reading began.
struct Follow {
    /// `None` with servers before ZooKeeper 3.6.
    watch: Option<PersistentWatch>,
    changed: ChangedNodes,
}

impl Follow {
    async fn start(zk: &CuratorFramework, root: &str) -> Result<Self, Error> {
        match zk.add_watch(root).recursive().await {
            Ok(watch) => Ok(Self { watch: Some(watch), changed: ChangedNodes::default() }),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let changed = ChangedNodes::unknown("the server has no persistent watches");
                Ok(Self { watch: None, changed })
            }
            Err(error) => Err(error),
        }
    }

    /// Notes all events that have arrived.
    fn note(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        // Constrained, tokio would pretend after some events that there are no others.
        while let Some(Some(event)) = tokio::task::unconstrained(watch.next()).now_or_never() {
            self.changed.note(event);
        }
    }
}
