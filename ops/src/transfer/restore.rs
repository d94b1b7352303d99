//! Restores a backup file.
//!
//! The file is read three times: to check that it is intact, to plan, and to apply; and twice more
//! if ephemeral nodes become persistent, to find contenders. So its size does not matter, and
//! nothing is changed by a damaged file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zk_curator::{Acl, CreateMode, CuratorFramework, Error as FrameworkError};

use super::apply::{Applier, MAX_BYTES, NodeChange, TransactionLimit};
use super::contenders;
use super::file::BackupReader;
use super::format::{BackupConsistency, BackupTrailer};
use super::plan::{
    AclPolicy, EphemeralsMode, ExistingNode, NAMED, OnExisting, OnLowCounter, Sequences,
    TransferRules, TransferStep,
};
use super::record::{RecordKind, TransferRecord};
use super::restore_plan::RestorePlan;
use super::source::{self, SourceWalk};
use crate::error::Error;
use crate::path;
use crate::pattern::PathPattern;
use crate::progress::Progress;
use crate::tree::walk::WalkPace;

/// The nodes of the file that are compared with the servers at a time.
const NODES_AT_ONCE: usize = 1_024;

/// A restore of a backup file.
///
/// By default it only adds nodes: it is refused if a node exists with other data or another ACL,
/// and ephemeral nodes are left out. It can be repeated: nodes that are as in the file need no
/// change.
#[derive(Debug, Clone)]
pub struct Restore {
    file: PathBuf,
    root: Option<String>,
    only: Option<PathPattern>,
    containers: Option<PathPattern>,
    rules: TransferRules,
    persist_contenders: bool,
    delete_extra: bool,
    on_low: OnLowCounter,
}

impl Restore {
    /// Describes a restore of all nodes in a file.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>) -> Self {
        let rules = TransferRules {
            on_conflict: OnExisting::Fail,
            ephemerals: EphemeralsMode::Skip,
            acls: AclPolicy::Keep,
        };
        Self {
            file: file.into(),
            root: None,
            only: None,
            containers: None,
            rules,
            persist_contenders: false,
            delete_extra: false,
            on_low: OnLowCounter::Refuse,
        }
    }

    /// Sets the root of the restored nodes. Default: that of the backup.
    #[must_use]
    pub fn root(mut self, root: impl Into<String>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// Restores only nodes whose paths in the file match, and their parents. Default: all.
    #[must_use]
    pub fn only(mut self, pattern: PathPattern) -> Self {
        self.only = Some(pattern);
        self
    }

    /// Creates persistent nodes as containers if their paths in the file match. Servers do not tell
    /// which nodes are containers, so the file cannot. Default: none.
    #[must_use]
    pub fn containers(mut self, pattern: PathPattern) -> Self {
        self.containers = Some(pattern);
        self
    }

    /// Sets the treatment of nodes that exist and differ. Default: [`Fail`](OnExisting::Fail).
    #[must_use]
    pub const fn on_existing(mut self, on_existing: OnExisting) -> Self {
        self.rules.on_conflict = on_existing;
        self
    }

    /// Sets the treatment of ephemeral nodes in the file. Default: [`Skip`](EphemeralsMode::Skip).
    #[must_use]
    pub const fn ephemerals(mut self, mode: EphemeralsMode) -> Self {
        self.rules.ephemerals = mode;
        self
    }

    /// Sets the source of the ACLs. Default: [`Keep`](AclPolicy::Keep).
    #[must_use]
    pub const fn acls(mut self, policy: AclPolicy) -> Self {
        self.rules.acls = policy;
        self
    }

    /// With [`EphemeralsMode::Persistent`], also creates the nodes of locks, elections, leases,
    /// groups and other recipes. No session will ever remove them: nobody obtains the lock until
    /// they are deleted. Default: they are refused.
    #[must_use]
    pub const fn persist_contenders(mut self) -> Self {
        self.persist_contenders = true;
        self
    }

    /// Deletes the nodes below the root that the file does not have, except ephemeral ones.
    /// Default: they stay.
    #[must_use]
    pub const fn delete_extra(mut self) -> Self {
        self.delete_extra = true;
        self
    }

    /// Sets the treatment of sequence counters that are too low. Default:
    /// [`Refuse`](OnLowCounter::Refuse).
    #[must_use]
    pub const fn on_low_counter(mut self, on_low: OnLowCounter) -> Self {
        self.on_low = on_low;
        self
    }

    /// Reads the whole file, and looks for its place on the servers. Changes nothing.
    ///
    /// # Errors
    /// [`File`](Error::File) and [`Damaged`](Error::Damaged);
    /// [`BelongsToServers`](Error::BelongsToServers), [`HiddenPassword`](Error::HiddenPassword) and
    /// [`Framework`](Error::Framework).
    pub async fn open(self, zk: &CuratorFramework) -> Result<RestoreRun<'_>, Error> {
        RestoreRun::open(zk, self).await
    }
}

/// A restore from an intact file.
#[derive(Debug)]
pub struct RestoreRun<'a> {
    zk: &'a CuratorFramework,
    options: Restore,
    /// The root in the file.
    from: String,
    /// The root on the servers.
    to: String,
    /// The ancestors of nodes that match, by their paths in the file.
    needed: BTreeSet<String>,
    /// The nodes in the file, by their paths on the servers, if others are deleted.
    known: BTreeSet<String>,
    /// The contenders of recipes that would become persistent, by their paths on the servers, if
    /// they are refused.
    contenders: BTreeSet<String>,
    /// The ancestors of the root that do not exist.
    missing: Vec<String>,
    root_exists: bool,
    /// `true` for an old file, in which null data are empty.
    blurs_null: bool,
    sequences: Sequences,
    /// The last line of the file.
    trailer: Option<BackupTrailer>,
}

/// A node of the file, with its path on the servers.
struct RestoreItem {
    record: TransferRecord,
    /// `true` for a node that is restored only as the parent of another one.
    is_parent_only: bool,
}

impl<'a> RestoreRun<'a> {
    /// Reads the whole file, and looks for its place on the servers.
    async fn open(zk: &'a CuratorFramework, options: Restore) -> Result<Self, Error> {
        let mut file = BackupReader::open(&options.file)?;
        let from = file.header().root.clone();
        let to = options.root.as_ref().unwrap_or(&from).clone();
        if path::is_system(zk, &to) {
            return Err(Error::BelongsToServers { path: to });
        }
        let (needed, known, contenders, sequences) = Default::default();
        let (missing, root_exists, trailer) = (Vec::new(), true, None);
        let blurs_null = !file.header().tells_null();
        let mut this = Self {
            zk,
            options,
            from,
            to,
            needed,
            known,
            contenders,
            missing,
            root_exists,
            blurs_null,
            sequences,
            trailer,
        };
        while let Some(record) = file.next_record()? {
            this.note(&record)?;
        }
        this.trailer = file.trailer().cloned();
        if this.refuses_contenders() {
            let found = contenders::contenders(&this.options.file)?;
            this.contenders = found.iter().filter_map(|path| this.target(path)).collect();
        }
        this.find_place().await?;
        Ok(this)
    }

    /// Returns the path of the backup file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.options.file
    }

    /// Returns the root of the restored nodes on the servers.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.to
    }

    /// Returns the number of nodes in the file.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.trailer.as_ref().map_or(0, BackupTrailer::nodes)
    }

    /// Returns a warning about the contents of the file: it is incomplete or fuzzy.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let trailer = self.trailer.as_ref()?;
        let unreadable = trailer.unreadable.len();
        match trailer.consistency {
            _ if unreadable > 0 => {
                Some(format!("incomplete backup: {unreadable} unreadable nodes"))
            }
            BackupConsistency::Fuzzy => {
                Some("fuzzy backup: not all nodes are of one moment".to_owned())
            }
            BackupConsistency::Exact => None,
        }
    }

    const fn refuses_contenders(&self) -> bool {
        matches!(self.options.rules.ephemerals, EphemeralsMode::Persistent)
            && !self.options.persist_contenders
    }

    /// Returns `true` for a step that makes a contender persistent, if that is refused.
    fn is_refused(&self, path: &str, step: &TransferStep) -> bool {
        matches!(step, TransferStep::Create { .. }) && self.contenders.contains(path)
    }

    /// Notes a node of the file, in the first reading.
    fn note(&mut self, record: &TransferRecord) -> Result<(), Error> {
        if self.options.rules.refuses_acl(record) && self.matches(&record.path) {
            return Err(Error::HiddenPassword { path: record.path.clone() });
        }
        if self.options.only.is_some() && self.matches(&record.path) {
            self.needed.extend(path::ancestors(&record.path));
        }
        if self.options.delete_extra {
            self.known.extend(self.target(&record.path));
        }
        Ok(())
    }

    fn matches(&self, path: &str) -> bool {
        self.options.only.as_ref().is_none_or(|only| only.is_match(path))
    }

    /// Returns the path on the servers, or `None` for nodes that are not restored.
    fn target(&self, path: &str) -> Option<String> {
        let target = path::moved(path, &self.from, &self.to);
        (target != "/" && !path::is_system(self.zk, &target)).then_some(target)
    }

    /// Finds the nodes above the root that are missing.
    async fn find_place(&mut self) -> Result<(), FrameworkError> {
        for ancestor in path::ancestors(&self.to) {
            match self.zk.exists(&ancestor).await? {
                Some(stat) => self.sequences.exists(&ancestor, &stat),
                // The root of a namespace is created with the first node below it.
                None if ancestor == "/" => {}
                None => self.missing.push(ancestor),
            }
        }
        let root = self.zk.exists(&self.to).await?;
        if let Some(stat) = root.filter(|_| self.to == "/") {
            self.sequences.exists("/", &stat);
        }
        self.root_exists = root.is_some() || self.to == "/";
        Ok(())
    }

    /// Compares the file with the servers. Changes nothing.
    ///
    /// # Errors
    /// [`File`](Error::File), [`Damaged`](Error::Damaged) and [`Framework`](Error::Framework). A
    /// plan that [`check`](RestorePlan::check) refuses is not an error here.
    pub async fn plan(&self, progress: Progress<'_>) -> Result<RestorePlan, Error> {
        let mut plan = RestorePlan::empty(TransactionLimit::of(self.zk), self.options.on_low);
        let mut sequences = self.sequences.clone();
        for path in &self.missing {
            plan.counts.create += 1;
            plan.changes.add_parent(path);
            plan.size.add(&parent(path));
            let (mode, acl) = (CreateMode::Persistent, Vec::new());
            sequences.add(path, &TransferStep::Create { mode, ttl: None, acl });
        }
        let (mut file, mut pace) =
            (BackupReader::open(&self.options.file)?, WalkPace::up_to(NODES_AT_ONCE));
        loop {
            let items = self.next_items(&mut file)?;
            if items.is_empty() {
                break;
            }
            let present = self.present(&items, &mut pace).await?;
            progress.add(items.len());
            for (item, existing) in items.iter().zip(&present) {
                let (path, step) = (&item.record.path, self.decide(item, existing.as_ref()));
                if let Some(ExistingNode { stat, .. }) = existing
                    && stat.cversion != 0
                {
                    sequences.exists(path, stat);
                }
                sequences.add(path, &step);
                plan.changes.add(path, &step, existing.as_ref());
                if step == TransferStep::Conflict && plan.conflicts.len() < NAMED {
                    plan.conflicts.push(path.clone());
                }
                if self.is_refused(path, &step) {
                    plan.contenders.push(path.clone());
                }
                plan.acls += u64::from(matches!(&step, TransferStep::Replace { acl: Some(_), .. }));
                plan.counts.add(&step);
                if let Some(change) = change(&item.record, &step) {
                    plan.size.add(&change);
                }
            }
        }
        self.plan_extras(&mut plan).await?;
        plan.add_hazards(sequences.hazards());
        Ok(plan)
    }

    async fn plan_extras(&self, plan: &mut RestorePlan) -> Result<(), FrameworkError> {
        if !self.options.delete_extra || !self.root_exists {
            return Ok(());
        }
        // Nodes that the backup could not read are not in the file.
        let unread: Vec<_> = self
            .trailer
            .iter()
            .flat_map(|trailer| &trailer.unreadable)
            .map(|path| path::moved(path, &self.from, &self.to))
            .collect();
        let (mut walk, mut kept) = (SourceWalk::new(&self.to, false), BTreeSet::new());
        kept.extend(unread.iter().flat_map(|path| path::ancestors(path)));
        while let Some(found) = walk.next(self.zk).await? {
            for source::SourceNode { record, .. } in found {
                let path = record.path;
                let is_extra = path != self.to
                    && !self.known.contains(&path)
                    && !unread.iter().any(|unread| path::is_within(&path, unread));
                let is_selected = self.matches(&path::moved(&path, &self.to, &self.from));
                // Ephemeral nodes belong to live sessions. They and the others that are not
                // selected keep their ancestors.
                if record.kind.is_ephemeral() || is_extra && !is_selected {
                    kept.extend(path::ancestors(&path));
                } else if is_extra {
                    plan.extras.push((path, record.version));
                }
            }
        }
        // Below these there may be others, which keep their ancestors too.
        plan.unreadable = walk.into_unreadable();
        for (path, _) in plan.unreadable.iter() {
            kept.extend(path::ancestors(path));
            kept.insert(path.to_owned());
        }
        plan.extras.retain(|(path, _)| !kept.contains(path));
        plan.extras.sort_unstable_by(|a, b| b.cmp(a));
        for (path, version) in &plan.extras {
            plan.counts.delete += 1;
            plan.changes.add_deletion(path, *version);
            plan.size.add(&NodeChange::Delete { path: path.clone(), version: *version });
        }
        Ok(())
    }

    /// Applies a plan. Compares again, so that it also completes an interrupted restore. Returns
    /// the number of transactions.
    ///
    /// # Errors
    /// As of [`RestorePlan::check`], without a request. [`Interrupted`](Error::Interrupted) tells
    /// how many changes were applied before a failure, such as [`Changed`](Error::Changed).
    ///
    /// # Cancel safety
    /// After a drop, the changes up to a transaction are applied. Another restore completes them.
    pub async fn apply(&self, plan: &RestorePlan, progress: Progress<'_>) -> Result<u64, Error> {
        plan.check()?;
        let mut applier = Applier::new(self.zk);
        for path in &self.missing {
            applier.push(parent(path)).await?;
        }
        let (mut file, mut pace) =
            (BackupReader::open(&self.options.file)?, WalkPace::up_to(NODES_AT_ONCE));
        loop {
            let items = self.next_items(&mut file)?;
            if items.is_empty() {
                break;
            }
            let present =
                self.present(&items, &mut pace).await.map_err(|error| applier.explain(error))?;
            for (item, existing) in items.iter().zip(&present) {
                let step = self.decide(item, existing.as_ref());
                let path = &item.record.path;
                if step == TransferStep::Conflict || self.is_refused(path, &step) {
                    return Err(applier.explain(Error::Changed { path: path.clone() }));
                }
                if let Some(change) = change(&item.record, &step) {
                    applier.push(change).await?;
                }
                if let TransferStep::Replace { acl: Some((acl, version)), .. } = step {
                    applier.set_acl(path.clone(), acl, version).await?;
                }
            }
            progress.add(items.len());
        }
        for (path, version) in &plan.extras {
            applier.push(NodeChange::Delete { path: path.clone(), version: *version }).await?;
            progress.add(1);
        }
        if self.options.on_low == OnLowCounter::Burn {
            for hazard in &plan.hazards {
                applier.burn(&hazard.parent, hazard.burn()).await?;
            }
        }
        applier.flush().await?;
        Ok(applier.transactions())
    }

    /// Returns the next nodes of the file that are restored.
    fn next_items(&self, file: &mut BackupReader) -> Result<Vec<RestoreItem>, Error> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        while items.len() < NODES_AT_ONCE && bytes < MAX_BYTES {
            let Some(mut record) = file.next_record()? else { break };
            let is_parent_only = !self.matches(&record.path);
            if is_parent_only && !self.needed.contains(&record.path) {
                continue;
            }
            let is_container = self.options.containers.as_ref().is_some_and(|pattern| {
                record.kind == RecordKind::Persistent && pattern.is_match(&record.path)
            });
            if is_container {
                record.kind = RecordKind::Container;
            }
            let Some(target) = self.target(&record.path) else { continue };
            record.path = target;
            bytes += record.bytes();
            items.push(RestoreItem { record, is_parent_only });
        }
        Ok(items)
    }

    /// Reads the present state of nodes.
    async fn present(
        &self,
        items: &[RestoreItem],
        pace: &mut WalkPace,
    ) -> Result<Vec<Option<ExistingNode>>, FrameworkError> {
        if !self.root_exists {
            return Ok(items.iter().map(|_| None).collect());
        }
        let paths: Vec<String> = items.iter().map(|item| item.record.path.clone()).collect();
        let with_acls = self.options.rules.compares_acls();
        let mut present = source::present(self.zk, &paths, pace, with_acls).await?;
        for existing in present.iter_mut().flatten().filter(|_| self.blurs_null) {
            existing.data.get_or_insert_default();
        }
        Ok(present)
    }

    fn decide(&self, item: &RestoreItem, existing: Option<&ExistingNode>) -> TransferStep {
        let on_conflict =
            if item.is_parent_only { OnExisting::Keep } else { self.options.rules.on_conflict };
        let rules = TransferRules { on_conflict, ..self.options.rules };
        rules.decide(&item.record, existing)
    }
}

/// Returns the creation of a node above the root.
fn parent(path: &str) -> NodeChange {
    let (data, acl, mode) = (Some(Bytes::new()), Acl::open_unsafe(), CreateMode::Persistent);
    NodeChange::Create { path: path.to_owned(), data, acl, mode, ttl: None }
}

/// Returns the change of a step, if a transaction can contain it.
fn change(record: &TransferRecord, step: &TransferStep) -> Option<NodeChange> {
    let (path, data) = (record.path.clone(), record.data.clone());
    match step {
        TransferStep::Create { mode, ttl, acl } => {
            Some(NodeChange::Create { path, data, acl: acl.clone(), mode: *mode, ttl: *ttl })
        }
        TransferStep::Replace { version: Some(version), .. } => {
            Some(NodeChange::SetData { path, data, version: *version })
        }
        _ => None,
    }
}
