//! Restores a backup file.
//!
//! The file is read three times: to check that it is intact, to plan, and to apply; and twice more
//! if ephemeral nodes become persistent, to find contenders. So its size does not matter, and
//! nothing is changed by a damaged file.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use globset::GlobMatcher;
use zk_curator::{Acl, CreateMode, CuratorFramework};

use super::apply::{Applier, MAX_BYTES, NodeChange, Size, TransactionLimit};
use super::contenders;
use super::file::OpenBackup;
use super::format::{Consistency, Trailer};
use super::plan::{
    EphemeralsMode, Existing, Hazard, NAMED, OnExisting, OnLow, Sequences, TransferCounts,
    TransferRules, TransferStep,
};
use super::record::{RecordKind, TransferRecord};
use super::source::{self, SourceWalk};
use crate::exit::{CommandFailure, Exit};
use crate::path;
use crate::progress::ProgressLine;
use crate::unreadable::UnreadableNodes;
use crate::walk::WalkPace;

/// The nodes of the file that are compared with the servers at a time.
const NODES_AT_ONCE: usize = 1_024;
/// The options of a restore.
#[derive(Debug)]
pub(crate) struct RestoreOptions<'a> {
    pub(crate) file: &'a Path,
    /// The root of the restored nodes; `None` for that of the file.
    pub(crate) root: Option<&'a str>,
    /// The nodes of the file to restore.
    pub(crate) only: Option<&'a GlobMatcher>,
    /// The persistent nodes of the file to create as containers.
    pub(crate) containers: Option<&'a GlobMatcher>,
    pub(crate) rules: TransferRules,
    /// Creates persistent nodes for the contenders of recipes too.
    pub(crate) persist_contenders: bool,
    pub(crate) delete_extra: bool,
    pub(crate) on_low: OnLow,
}

/// A restore from an intact file.
pub(crate) struct RestoreRun<'a> {
    zk: &'a CuratorFramework,
    options: RestoreOptions<'a>,
    /// The root in the file.
    from: String,
    /// The root on the servers.
    pub(crate) to: String,
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
    trailer: Option<Trailer>,
}

/// The planned changes.
#[derive(Debug)]
pub(crate) struct RestorePlan {
    pub(crate) counts: TransferCounts,
    /// The first nodes in conflict.
    pub(crate) conflicts: Vec<String>,
    /// The contenders of recipes that would become persistent, if they are refused.
    pub(crate) contenders: Vec<String>,
    /// The nodes with low counters.
    pub(crate) hazards: Vec<Hazard>,
    /// The nodes to delete, children first, with their versions.
    pub(crate) extras: Vec<(String, i32)>,
    /// The nodes on the servers that could not be read. They stay, and the nodes below them.
    pub(crate) unreadable: UnreadableNodes,
    size: Size,
    /// The number of ACLs to set outside of a transaction.
    acls: u64,
}

impl RestorePlan {
    fn empty(limit: TransactionLimit) -> Self {
        let (counts, conflicts, contenders, hazards) = Default::default();
        let (extras, unreadable) = Default::default();
        let size = Size::none(limit);
        Self { counts, conflicts, contenders, hazards, extras, unreadable, size, acls: 0 }
    }

    /// Returns `true` if all changes are applied together or not at all.
    pub(crate) const fn is_atomic(&self) -> bool {
        self.size.fits() && self.acls == 0
    }
}

/// A node of the file, with its path on the servers.
struct RestoreItem {
    record: TransferRecord,
    /// `true` for a node that is restored only as the parent of another one.
    is_parent_only: bool,
}

impl<'a> RestoreRun<'a> {
    /// Reads the whole file, and looks for its place on the servers.
    pub(crate) async fn open(
        zk: &'a CuratorFramework,
        options: RestoreOptions<'a>,
    ) -> Result<Self, CommandFailure> {
        let mut file = OpenBackup::open(options.file)?;
        let from = file.header().root.clone();
        let to = options.root.unwrap_or(&from).to_owned();
        if path::is_system(zk, &to) {
            return Err(CommandFailure::usage(format!("refused: {to} belongs to the servers")));
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
        while let Some(record) = file.next()? {
            this.note(&record)?;
        }
        this.trailer = file.trailer().cloned();
        if this.refuses_contenders() {
            let found = contenders::contenders(this.options.file)?;
            this.contenders = found.iter().filter_map(|path| this.target(path)).collect();
        }
        this.find_place().await?;
        Ok(this)
    }

    /// Returns the number of nodes in the file.
    pub(crate) fn nodes(&self) -> u64 {
        self.trailer.as_ref().map_or(0, Trailer::nodes)
    }

    /// Returns a warning about the contents of the file.
    pub(crate) fn warning(&self) -> Option<String> {
        let trailer = self.trailer.as_ref()?;
        let unreadable = trailer.unreadable.len();
        match trailer.consistency {
            _ if unreadable > 0 => {
                Some(format!("incomplete backup: {unreadable} unreadable nodes"))
            }
            Consistency::Fuzzy => Some("fuzzy backup: not all nodes are of one moment".to_owned()),
            Consistency::Exact => None,
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
    fn note(&mut self, record: &TransferRecord) -> Result<(), CommandFailure> {
        if self.options.rules.refuses_acl(record) && self.matches(&record.path) {
            let text = format!("{}: the ACL in the file hides a password", record.path);
            return Err(
                CommandFailure::usage(text).hint("--acl default, or back up with ADMIN rights")
            );
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
        self.options.only.is_none_or(|only| only.is_match(path))
    }

    /// Returns the path on the servers, or `None` for nodes that are not restored.
    fn target(&self, path: &str) -> Option<String> {
        let target = path::moved(path, &self.from, &self.to);
        (target != "/" && !path::is_system(self.zk, &target)).then_some(target)
    }

    /// Finds the nodes above the root that are missing.
    async fn find_place(&mut self) -> Result<(), CommandFailure> {
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

    /// Compares the file with the servers.
    pub(crate) async fn plan(
        &mut self,
        progress: &ProgressLine,
    ) -> Result<RestorePlan, CommandFailure> {
        let mut plan = RestorePlan::empty(TransactionLimit::of(self.zk));
        for path in &self.missing {
            plan.counts.create += 1;
            plan.size.add(&parent(path));
        }
        let (mut file, mut pace) =
            (OpenBackup::open(self.options.file)?, WalkPace::up_to(NODES_AT_ONCE));
        loop {
            let items = self.next_items(&mut file)?;
            if items.is_empty() {
                break;
            }
            let present = self.present(&items, &mut pace).await?;
            progress.add(items.len());
            for (item, existing) in items.iter().zip(&present) {
                let (path, step) = (&item.record.path, self.decide(item, existing.as_ref()));
                if let Some(Existing { stat, .. }) = existing
                    && stat.cversion > 0
                {
                    self.sequences.exists(path, stat);
                }
                self.sequences.add(path, &step);
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
        self.plan_sequences(&mut plan);
        Ok(plan)
    }

    fn plan_sequences(&mut self, plan: &mut RestorePlan) {
        let hazards = std::mem::take(&mut self.sequences).hazards();
        match self.options.on_low {
            OnLow::Ignore => {}
            OnLow::Refuse => plan.hazards = hazards.into_iter().filter(|low| low.is_new).collect(),
            OnLow::Burn => {
                for hazard in &hazards {
                    plan.counts.burn += hazard.burn();
                    plan.size.add_burns(&hazard.parent, hazard.burn());
                }
                plan.hazards = hazards;
            }
        }
    }

    async fn plan_extras(&self, plan: &mut RestorePlan) -> Result<(), CommandFailure> {
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
        loop {
            let found = walk.next(self.zk).await?;
            if found.is_empty() {
                break;
            }
            for source::SourceNode { record, .. } in found {
                let path = record.path;
                // Ephemeral nodes belong to live sessions, and keep their ancestors.
                if record.kind.is_ephemeral() {
                    kept.extend(path::ancestors(&path));
                } else if path != self.to
                    && !self.known.contains(&path)
                    && !unread.iter().any(|unread| path::is_within(&path, unread))
                    && self.matches(&path::moved(&path, &self.to, &self.from))
                {
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
            plan.size.add(&NodeChange::Delete { path: path.clone(), version: *version });
        }
        Ok(())
    }

    /// Applies a plan. Compares again, so that it also completes an interrupted restore. Returns
    /// the number of transactions.
    pub(crate) async fn apply(
        &self,
        plan: &RestorePlan,
        progress: &ProgressLine,
    ) -> Result<u64, CommandFailure> {
        let mut applier = Applier::new(self.zk);
        for path in &self.missing {
            applier.push(parent(path)).await?;
        }
        let (mut file, mut pace) =
            (OpenBackup::open(self.options.file)?, WalkPace::up_to(NODES_AT_ONCE));
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
                    let failure =
                        CommandFailure::new(Exit::CONFLICT, format!("changed since: {path}"));
                    return Err(applier.explain(failure));
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
        if self.options.on_low == OnLow::Burn {
            for hazard in &plan.hazards {
                applier.burn(&hazard.parent, hazard.burn()).await?;
            }
        }
        applier.flush().await?;
        Ok(applier.transactions())
    }

    /// Returns the next nodes of the file that are restored.
    fn next_items(&self, file: &mut OpenBackup) -> Result<Vec<RestoreItem>, CommandFailure> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        while items.len() < NODES_AT_ONCE && bytes < MAX_BYTES {
            let Some(mut record) = file.next()? else { break };
            let is_parent_only = !self.matches(&record.path);
            if is_parent_only && !self.needed.contains(&record.path) {
                continue;
            }
            let is_container = self.options.containers.is_some_and(|glob| {
                record.kind == RecordKind::Persistent && glob.is_match(&record.path)
            });
            if is_container {
                record.kind = RecordKind::Container;
            }
            let Some(target) = self.target(&record.path) else { continue };
            record.path = target;
            bytes += record.data.as_ref().map_or(0, Bytes::len);
            items.push(RestoreItem { record, is_parent_only });
        }
        Ok(items)
    }

    /// Reads the present state of nodes.
    async fn present(
        &self,
        items: &[RestoreItem],
        pace: &mut WalkPace,
    ) -> Result<Vec<Option<Existing>>, CommandFailure> {
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

    fn decide(&self, item: &RestoreItem, existing: Option<&Existing>) -> TransferStep {
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
