//! Copies and moves subtrees within an ensemble.

use std::collections::BTreeMap;

use hmac_sha256::Hash;
use zk_curator::{Acl, CreateMode, CuratorFramework, Stat};

use super::apply::{Applier, NodeChange, Size, TransactionLimit};
use super::plan::{Hazard, NAMED, Sequences, TransferStep};
use super::record::TransferRecord;
use super::source::{SourceNode, SourceWalk};
use crate::exit::{CommandFailure, Exit};
use crate::path;
use crate::progress::ProgressLine;

/// A copy of a subtree.
#[derive(Debug)]
pub(crate) struct Copying<'a> {
    pub(crate) zk: &'a CuratorFramework,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    /// `true` if the descendants are copied too.
    pub(crate) recursive: bool,
    /// `true` if the original is removed.
    pub(crate) removes: bool,
}

/// The nodes to copy.
#[derive(Debug)]
pub(crate) struct CopyPlan {
    pub(crate) nodes: u64,
    /// Ephemeral nodes are not copied.
    pub(crate) ephemerals: Vec<String>,
    /// The copied nodes whose sequence counters would be too low.
    pub(crate) hazards: Vec<Hazard>,
    size: Size,
}

impl CopyPlan {
    fn empty(limit: TransactionLimit) -> Self {
        let (ephemerals, hazards) = (Vec::new(), Vec::new());
        Self { nodes: 0, ephemerals, hazards, size: Size::none(limit) }
    }

    /// Returns `true` if all changes are applied together or not at all.
    pub(crate) const fn is_atomic(&self) -> bool {
        self.size.fits()
    }

    /// Adds the changes that raise the counters.
    pub(crate) fn burn(&mut self) {
        for hazard in &self.hazards {
            self.size.add_burns(&hazard.parent, hazard.burn());
        }
    }
}

impl Copying<'_> {
    /// Refuses what cannot be copied, without a request.
    pub(crate) fn check_paths(&self) -> Result<(), CommandFailure> {
        path::refuse_system(self.zk, self.from)?;
        path::refuse_system(self.zk, self.to)?;
        if path::is_within(self.to, self.from) {
            return Err(CommandFailure::usage(format!("{} is within {}", self.to, self.from)));
        }
        Ok(())
    }

    /// Reads the subtree.
    pub(crate) async fn plan(&self, progress: &ProgressLine) -> Result<CopyPlan, CommandFailure> {
        let parent = path::split(self.to).0;
        let parent_stat = self.zk.exists(parent).await?;
        let mut sequences = Sequences::default();
        match &parent_stat {
            Some(stat) => sequences.exists(parent, stat),
            None => return Err(CommandFailure::no_node(parent)),
        }
        if self.zk.exists(self.to).await?.is_some() {
            return Err(CommandFailure::new(Exit::CONFLICT, format!("node exists: {}", self.to)));
        }
        let mut plan = CopyPlan::empty(TransactionLimit::of(self.zk));
        let (mut walk, mut is_root) = (SourceWalk::new(self.from, false), true);
        loop {
            let found = walk.next(self.zk).await?;
            if found.is_empty() {
                break;
            }
            progress.add(found.len());
            for node in found {
                if is_root && self.removes && !self.recursive && node.stat.num_children > 0 {
                    let failure =
                        CommandFailure::new(Exit::CONFLICT, format!("not empty: {}", self.from));
                    return Err(failure.hint("pass -r"));
                }
                is_root = false;
                self.note(&mut plan, &mut sequences, node.record);
            }
            if !self.recursive {
                break;
            }
        }
        if let Some(failure) = walk.into_unreadable().failure() {
            return Err(failure);
        }
        if self.removes && !plan.ephemerals.is_empty() || plan.nodes == 0 {
            let text = format!("ephemeral: {}", plan.ephemerals.join(" "));
            return Err(
                CommandFailure::new(Exit::CONFLICT, text).hint("it belongs to a live session")
            );
        }
        plan.hazards = sequences.hazards();
        Ok(plan)
    }

    fn note(&self, plan: &mut CopyPlan, sequences: &mut Sequences, record: TransferRecord) {
        if record.kind.is_ephemeral() {
            if plan.ephemerals.len() < NAMED {
                plan.ephemerals.push(record.path);
            }
            return;
        }
        let version = record.version;
        let create = self.create(record.clone(), Acl::open_unsafe());
        let step =
            TransferStep::Create { mode: CreateMode::Persistent, ttl: None, acl: Vec::new() };
        sequences.add(&path::moved(&record.path, self.from, self.to), &step);
        plan.nodes += 1;
        plan.size.add(&create);
        if self.removes {
            plan.size.add(&NodeChange::Delete { path: record.path, version });
        }
    }

    fn create(&self, record: TransferRecord, acl: Vec<Acl>) -> NodeChange {
        let path = path::moved(&record.path, self.from, self.to);
        NodeChange::Create { path, data: record.data, acl, mode: CreateMode::Persistent, ttl: None }
    }

    /// Performs the copy. Returns the number of transactions.
    pub(crate) async fn apply(
        &self,
        plan: &CopyPlan,
        burn: bool,
        progress: &ProgressLine,
    ) -> Result<u64, CommandFailure> {
        let mut applier = Applier::new(self.zk);
        let mut copied = BTreeMap::new();
        let mut walk = SourceWalk::new(self.from, true);
        loop {
            let found = walk.next(self.zk).await.map_err(|error| applier.explain(error))?;
            if found.is_empty() {
                break;
            }
            for node in found.into_iter().filter(|node| !node.record.kind.is_ephemeral()) {
                let record = node.record;
                if record.has_masked_acl() {
                    let text = format!("no permission to read the whole ACL: {}", record.path);
                    return Err(applier.explain(CommandFailure::new(Exit::NO_PERMISSION, text)));
                }
                if self.removes {
                    copied.insert(record.path.clone(), Copied::of(&record, node.stat));
                }
                let acl = record.acl_to_create();
                applier.push(self.create(record, acl)).await?;
                progress.add(1);
            }
            if !self.recursive {
                break;
            }
        }
        if burn {
            for hazard in &plan.hazards {
                applier.burn(&hazard.parent, hazard.burn()).await?;
            }
        }
        if self.removes {
            // More nodes than planned may have been sent already.
            if !plan.is_atomic() || applier.transactions() > 0 {
                applier.flush().await?;
                self.verify(&copied).await.map_err(|failure| applier.explain(failure))?;
            }
            // Children precede their parents.
            for (path, Copied { stat, .. }) in copied.into_iter().rev() {
                applier.push(NodeChange::Delete { path, version: stat.version }).await?;
                progress.add(1);
            }
        }
        applier.flush().await?;
        Ok(applier.transactions())
    }

    /// Compares the copy with the original, before that is removed. The versions of ACLs tell
    /// whether they have changed, so no ACL is read again.
    async fn verify(&self, copied: &BTreeMap<String, Copied>) -> Result<(), CommandFailure> {
        let same = |path: &str, node: &SourceNode| {
            copied.get(path).is_some_and(|copied| copied.is_original(&node.stat))
        };
        let original = self.count(self.from, same).await?;
        let same = |path: &str, node: &SourceNode| {
            let path = path::moved(path, self.to, self.from);
            copied.get(&path).is_some_and(|copied| copied.is_copy(node))
        };
        let copy = self.count(self.to, same).await?;
        if (original, copy) == (copied.len(), copied.len()) {
            return Ok(());
        }
        let text = format!("{} changed during the copy and was not removed", self.from);
        let hint = format!("zkc diff {} {} shows the differences", self.from, self.to);
        Err(CommandFailure::new(Exit::PARTLY, text).hint(hint))
    }

    /// Returns the number of the nodes of a subtree; `usize::MAX` if one of them is not the same.
    async fn count(
        &self,
        root: &str,
        is_same: impl Fn(&str, &SourceNode) -> bool,
    ) -> Result<usize, CommandFailure> {
        let (mut walk, mut nodes) = (SourceWalk::new(root, false), 0_usize);
        loop {
            let found = walk.next(self.zk).await?;
            if found.is_empty() {
                break;
            }
            if !found.iter().all(|node| is_same(&node.record.path, node)) {
                return Ok(usize::MAX);
            }
            nodes += found.len();
        }
        walk.into_unreadable().failure().map_or(Ok(nodes), Err)
    }
}

/// A node as it was copied.
struct Copied {
    stat: Stat,
    /// `None` for null data.
    data: Option<[u8; 32]>,
}

impl Copied {
    fn of(record: &TransferRecord, stat: Stat) -> Self {
        Self { stat, data: record.data.as_deref().map(Hash::hash) }
    }

    /// Returns `true` if the node was not changed, nor replaced, since it was copied.
    fn is_original(&self, stat: &Stat) -> bool {
        let state = |stat: &Stat| (stat.czxid, stat.mzxid, stat.aversion);
        state(stat) == state(&self.stat)
    }

    /// Returns `true` if the node is as it was created.
    fn is_copy(&self, node: &SourceNode) -> bool {
        let is_new = node.stat.version == 0 && node.stat.aversion == 0;
        is_new
            && !node.record.kind.is_ephemeral()
            && self.data == node.record.data.as_deref().map(Hash::hash)
    }
}
