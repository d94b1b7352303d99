//! Writes a backup file.
//!
//! The tree is read while a persistent watch notes its changes. Then the changed nodes are read
//! again, until a read of them was not overtaken by another change: the nodes are then those of one
//! moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use tokio::time::Instant;
use zk_curator::watch::PersistentWatch;
use zk_curator::{CuratorFramework, Error as FrameworkError, ErrorKind};

use super::file::BackupPart;
use super::format::{BackupConsistency, BackupHeader, BackupTrailer};
use super::left_out::LeftOut;
use super::record::TransferRecord;
use super::settle::ChangedNodes;
use super::source::{self, SourceWalk};
use crate::error::Error;
use crate::node::hex;
use crate::path;
use crate::progress::Progress;
use crate::tree::unreadable::{UnreadableNodes, UnreadableReason};
use crate::tree::walk::WalkPace;

/// A backup of a subtree.
///
/// Below the root of the servers, their own nodes, `/zookeeper`, are left out. The file contains
/// the data of nodes with an ACL, so only its owner may read it.
#[derive(Debug, Clone)]
pub struct Backup<'a> {
    root: String,
    plain: bool,
    within: Duration,
    exact_only: bool,
    left_out: LeftOut<'a>,
    progress: Progress<'a>,
}

/// A finished backup.
#[derive(Debug)]
#[non_exhaustive]
pub struct BackupSummary {
    /// The last line of the file.
    pub trailer: BackupTrailer,
    /// The nodes that are missing in the file, with the nodes below them.
    pub unreadable: UnreadableNodes,
    /// The number of ephemeral nodes.
    pub ephemerals: u64,
    /// The number of nodes with hidden passwords in their ACLs, which cannot be restored with them.
    pub masked: u64,
    /// The reason why the changed nodes are not known, if the backup is fuzzy.
    pub gap: Option<&'static str>,
    /// `true` if the file was written.
    pub published: bool,
}

impl<'a> Backup<'a> {
    /// Describes a backup of a node and the nodes below it.
    #[must_use]
    pub fn new(root: impl Into<String>) -> Self {
        Self {
            root: root.into(),
            plain: false,
            within: Duration::from_secs(30),
            exact_only: false,
            left_out: LeftOut::default(),
            progress: Progress::none(),
        }
    }

    /// Writes plain text. Default: compressed with gzip.
    #[must_use]
    pub const fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Sets the time to find a moment without a change, after the tree was read. Zero looks once,
    /// [`Duration::MAX`] until there is one. Default: 30 s.
    #[must_use]
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Writes no file if the nodes of one moment are not found. Default: the file is written, and
    /// its trailer names the other nodes.
    #[must_use]
    pub const fn exact_only(mut self) -> Self {
        self.exact_only = true;
        self
    }

    /// Leaves out the nodes whose paths satisfy a rule, with everything below them. The file and
    /// the [summary](BackupSummary::unreadable) name them as unreadable ones, so the backup is
    /// incomplete, and a restore does not delete them. Default: none.
    #[must_use]
    pub const fn leaving_out(mut self, rule: &'a (dyn Fn(&str) -> bool + Sync)) -> Self {
        self.left_out = LeftOut::by(rule);
        self
    }

    /// Reports the nodes that were read. Default: none.
    #[must_use]
    pub const fn progress(mut self, progress: Progress<'a>) -> Self {
        self.progress = progress;
        self
    }

    /// Writes the backup to a file, which is replaced when the backup is complete.
    ///
    /// # Errors
    /// [`Framework`](Error::Framework) and [`File`](Error::File). A node that cannot be read is not
    /// an error, unless it is the root.
    ///
    /// # Cancel safety
    /// A dropped future leaves no file, and does not change an existing one.
    pub async fn write(
        &self,
        zk: &CuratorFramework,
        file: impl AsRef<Path>,
    ) -> Result<BackupSummary, Error> {
        let file = file.as_ref();
        let (part, summary) = self.read(zk, file).await?;
        if summary.published {
            part.publish(file)?;
        }
        Ok(summary)
    }

    /// Writes the backup to an output when it is complete. Until then, it is in the directory for
    /// temporary files.
    ///
    /// # Errors
    /// As of [`write`](Self::write), and [`Output`](Error::Output).
    ///
    /// # Cancel safety
    /// A dropped future leaves no file, and has written nothing.
    pub async fn write_to(
        &self,
        zk: &CuratorFramework,
        output: &mut impl Write,
    ) -> Result<BackupSummary, Error> {
        let place = std::env::temp_dir().join("zkc-backup");
        let (part, summary) = self.read(zk, &place).await?;
        if summary.published {
            part.copy_to(output)?;
        }
        Ok(summary)
    }

    /// Writes the backup to a temporary file without a name, and returns the complete file, to be
    /// read from its beginning. `None` with [`exact_only`](Self::exact_only), if the nodes of one
    /// moment are not found.
    ///
    /// It is for an output that is not a [`Write`], such as the response of a server: neither the
    /// nodes nor the file are in memory.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    ///
    /// # Cancel safety
    /// A dropped future leaves no file.
    pub async fn write_temporary(
        &self,
        zk: &CuratorFramework,
    ) -> Result<(Option<File>, BackupSummary), Error> {
        let place = std::env::temp_dir().join("zkc-backup");
        let (part, summary) = self.read(zk, &place).await?;
        let file = if summary.published { Some(part.into_file()?) } else { None };
        Ok((file, summary))
    }

    /// Reads the nodes into a file next to a place.
    async fn read(
        &self,
        zk: &CuratorFramework,
        place: &Path,
    ) -> Result<(BackupPart, BackupSummary), Error> {
        if self.left_out.has(&self.root) {
            let (path, reason) = (self.root.clone(), UnreadableReason::LeftOut);
            return Err(Error::Unreadable { path, reason });
        }
        let taken = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let header = BackupHeader::new(&self.root, taken, &zk.connect_string());
        let begin = || BackupPart::create(place, &header, self.plain);
        let mut follow = Follow::start(zk, &self.root).await?;
        zk.sync(&self.root).await?;
        let began = zk.last_zxid_seen();
        let mut part = begin()?;
        let mut walk = SourceWalk::new(&self.root, true).leaving_out(self.left_out);
        let mut counts = BackupCounts::default();
        while let Some(found) = walk.next(zk).await? {
            for node in &found {
                counts.add(&node.record);
                part.write(&node.record)?;
            }
            self.progress.add(found.len());
            follow.note();
        }
        let mut unreadable = walk.into_unreadable();
        let newer = self.settle(zk, &mut follow, &mut unreadable).await?;
        let ended = zk.last_zxid_seen();
        let is_exact = follow.changed.is_settled() || began.is_some() && began == ended;
        let gap = follow.changed.gap().filter(|_| !is_exact);
        let changed = if is_exact { Some(Vec::new()) } else { follow.changed.into_paths() };
        let consistency =
            if is_exact { BackupConsistency::Exact } else { BackupConsistency::Fuzzy };
        let mut trailer = BackupTrailer::new(consistency, changed);
        trailer.zxid = ended.map(hex);
        trailer.unreadable = unreadable.iter().map(|(path, _)| path.to_owned()).collect();
        if newer.is_empty() {
            trailer = part.finish(trailer)?;
        } else {
            (part, trailer, counts) = combine(part, begin()?, newer, trailer, &self.root)?;
        }
        let published = is_exact || !self.exact_only;
        let BackupCounts { ephemerals, masked } = counts;
        Ok((part, BackupSummary { trailer, unreadable, ephemerals, masked, gap, published }))
    }

    /// Reads changed nodes again, until all nodes are of one moment or the time is over. Returns
    /// the present state of the nodes that changed since they were written to the file.
    async fn settle(
        &self,
        zk: &CuratorFramework,
        follow: &mut Follow,
        unreadable: &mut UnreadableNodes,
    ) -> Result<BTreeMap<String, Option<TransferRecord>>, FrameworkError> {
        let end = Instant::now().checked_add(self.within);
        let (mut newer, mut pace) = (BTreeMap::new(), WalkPace::up_to(1_024));
        loop {
            // All events up to this moment precede the response.
            zk.sync(&self.root).await?;
            follow.note();
            let is_over = end.is_some_and(|end| Instant::now() >= end);
            if follow.changed.is_settled() || follow.changed.gap().is_some() || is_over {
                return Ok(newer);
            }
            let paths = follow.changed.take();
            let mut rest = &paths[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(pace.nodes().min(rest.len()));
                let answers = source::read(zk, now, &mut pace, true).await?;
                for (path, answer) in now.iter().zip(answers) {
                    if !is_recorded(zk, path, &self.root) {
                        continue;
                    }
                    let is_left_out = self.left_out.has(path);
                    // The children of a node that was not listed had no events, so they are still
                    // missing if it can be read now.
                    let is_complete = match &answer {
                        Ok((_, stat)) => stat.num_children == 0 && !is_left_out,
                        Err(error) => error.kind() == ErrorKind::NoNode,
                    };
                    if is_complete {
                        unreadable.remove(path);
                    } else if is_left_out {
                        unreadable.extend([(path.clone(), UnreadableReason::LeftOut)]);
                    } else if let Err(error) = &answer {
                        unreadable.extend([(path.clone(), error.kind())]);
                    }
                    if !is_left_out {
                        newer.insert(path.clone(), answer.ok().map(|(record, _)| record));
                    }
                }
                rest = later;
            }
        }
    }
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

/// Returns `true` for the nodes that a backup of `root` contains.
fn is_recorded(zk: &CuratorFramework, path: &str, root: &str) -> bool {
    path::is_system(zk, root) || !path::is_system(zk, path)
}

/// Copies a file with the newer states of nodes to another part, and ends that.
fn combine(
    mut part: BackupPart,
    next: BackupPart,
    mut newer: BTreeMap<String, Option<TransferRecord>>,
    trailer: BackupTrailer,
    root: &str,
) -> Result<(BackupPart, BackupTrailer, BackupCounts), Error> {
    let mut copy = NewerPart {
        part: next,
        counts: BackupCounts::default(),
        parents: newer.keys().map(|path| (path::split(path).0.to_owned(), false)).collect(),
    };
    part.finish(BackupTrailer::new(trailer.consistency, None))?;
    // Nodes below these were read before, and have no parent any more in the file.
    let hidden: BTreeSet<&str> = trailer.unreadable.iter().map(String::as_str).collect();
    let is_hidden = |path: &str| {
        !hidden.is_empty()
            && path::ancestors(path).iter().any(|path| hidden.contains(path.as_str()))
    };
    let mut file = part.read()?;
    while let Some(record) = file.next_record()? {
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
        if record.path == root || copy.parents.get(parent).is_some_and(|there| *there) {
            copy.write(&record)?;
        }
    }
    let trailer = copy.part.finish(trailer)?;
    Ok((copy.part, trailer, copy.counts))
}

/// The file with the newer states.
struct NewerPart {
    part: BackupPart,
    counts: BackupCounts,
    /// The parents of newer nodes, and `true` for those that are in the file.
    parents: BTreeMap<String, bool>,
}

impl NewerPart {
    fn write(&mut self, record: &TransferRecord) -> Result<(), Error> {
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
    async fn start(zk: &CuratorFramework, root: &str) -> Result<Self, FrameworkError> {
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

#[cfg(test)]
mod tests {
    use zk_curator_testing::TestServer;

    use super::*;

    #[tokio::test]
    async fn every_time_to_settle_is_possible() {
        let server = TestServer::start().await;
        let builder = CuratorFramework::builder().connect_string(server.connect_string());
        let zk = builder.build().expect("a framework");
        zk.start().await.expect("a session");
        for within in [Duration::ZERO, Duration::MAX] {
            let mut file = Vec::new();
            let backup = Backup::new("/").within(within);
            let summary = backup.write_to(&zk, &mut file).await.expect("a backup");
            assert!(summary.published && !file.is_empty());
        }
    }

    #[tokio::test]
    async fn nodes_are_left_out_by_a_rule() {
        use std::io::Read;

        let server = TestServer::start().await;
        let builder = CuratorFramework::builder().connect_string(server.connect_string());
        let zk = builder.build().expect("a framework");
        zk.start().await.expect("a session");
        zk.create("/a/secret/x").creating_parents().await.expect("nodes");
        zk.create("/a/b").await.expect("a node");
        let rule = |path: &str| path.ends_with("secret");
        let backup = Backup::new("/a").plain().leaving_out(&rule);
        let (file, summary) = backup.write_temporary(&zk).await.expect("a backup");
        assert_eq!(summary.trailer.nodes(), 2);
        assert_eq!(summary.trailer.unreadable, ["/a/secret"]);
        let why = summary.unreadable.why("/a/secret");
        assert_eq!(why, Some(UnreadableReason::LeftOut));
        let mut text = String::new();
        file.expect("a file").read_to_string(&mut text).expect("text");
        assert!(text.contains("\"/a/b\"") && !text.contains("/a/secret/x"), "{text}");
        let refused = Backup::new("/a/secret").leaving_out(&rule).write_temporary(&zk).await;
        assert!(matches!(refused, Err(Error::Unreadable { .. })));
    }

    #[tokio::test]
    async fn unlisted_nodes_that_change_stay_unreadable() {
        let server = TestServer::start().await;
        let builder = CuratorFramework::builder().connect_string(server.connect_string());
        let zk = builder.build().expect("a framework");
        zk.start().await.expect("a session");
        zk.create("/a/large/child").creating_parents().await.expect("nodes");
        zk.create("/a/gone").await.expect("a node");
        zk.create("/a/leaf").await.expect("a node");
        let mut follow = Follow::start(&zk, "/a").await.expect("a watch");
        let unlisted = ["/a/gone", "/a/large", "/a/leaf"].map(str::to_owned);
        let unlisted = unlisted.into_iter().map(|path| (path, ErrorKind::ResponseTooLarge));
        let mut unreadable: UnreadableNodes = unlisted.collect();
        zk.set_data("/a/large", "new").await.expect("a change");
        zk.set_data("/a/leaf", "new").await.expect("a change");
        zk.delete("/a/gone").await.expect("a deletion");
        let backup = Backup::new("/a");
        let newer = backup.settle(&zk, &mut follow, &mut unreadable).await.expect("nodes");
        assert!(newer["/a/large"].is_some() && newer["/a/leaf"].is_some());
        assert!(newer["/a/gone"].is_none());
        // A restore that deletes additional nodes keeps the child.
        assert_eq!(unreadable.iter().map(|(path, _)| path).collect::<Vec<_>>(), ["/a/large"]);
    }
}
