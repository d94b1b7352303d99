//! Copies and moves subtrees within an ensemble.

use std::collections::BTreeMap;

use hmac_sha256::Hash;
use zk_curator::{Acl, CreateMode, CuratorFramework, Stat};

use super::apply::{Applier, NodeChange, TransactionLimit, TransactionSize};
use super::plan::{NAMED, OnLowCounter, SequenceHazard, Sequences, TransferStep};
use super::record::TransferRecord;
use super::source::{SourceNode, SourceWalk};
use crate::error::Error;
use crate::path;
use crate::progress::Progress;
use crate::tree::unreadable::UnreadableNodes;

/// A copy or a move of a subtree.
///
/// It is one transaction if that is large enough. Otherwise a move copies the nodes, compares the
/// copy with the original, and then removes the original. Ephemeral nodes are not copied, and are
/// not moved.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// # zk.create("/a/b").creating_parents().data("xyz").await?;
/// use zk_curator_ops::Progress;
/// use zk_curator_ops::transfer::Copying;
///
/// let copying = Copying::new(&zk, "/a", "/c").recursive();
/// let plan = copying.plan(Progress::none()).await?;
/// assert_eq!((plan.nodes, plan.is_atomic()), (2, true));
/// copying.apply(&plan, Progress::none()).await?;
/// assert_eq!(zk.get_data("/c/b").await?, "xyz");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Copying<'a> {
    zk: &'a CuratorFramework,
    from: String,
    to: String,
    /// `true` if the descendants are copied too.
    recursive: bool,
    /// `true` if the original is removed.
    removes: bool,
    on_low: OnLowCounter,
}

/// The nodes to copy.
#[derive(Debug)]
#[non_exhaustive]
pub struct CopyPlan {
    /// The number of nodes, without the ephemeral ones.
    pub nodes: u64,
    /// The first ephemeral nodes, at most 20. They are not copied.
    pub ephemerals: Vec<String>,
    /// The copied nodes whose sequence counters would be too low.
    pub hazards: Vec<SequenceHazard>,
    size: TransactionSize,
    on_low: OnLowCounter,
}

impl CopyPlan {
    fn empty(limit: TransactionLimit, on_low: OnLowCounter) -> Self {
        let (ephemerals, hazards) = (Vec::new(), Vec::new());
        Self { nodes: 0, ephemerals, hazards, size: TransactionSize::none(limit), on_low }
    }

    /// Returns `true` if all changes are applied together or not at all.
    #[must_use]
    pub const fn is_atomic(&self) -> bool {
        self.size.fits()
    }

    /// Refuses a plan that [`Copying::apply`] does not apply.
    ///
    /// # Errors
    /// [`LowCounters`](Error::LowCounters).
    pub fn check(&self) -> Result<(), Error> {
        if self.on_low == OnLowCounter::Refuse && !self.hazards.is_empty() {
            return Err(Error::LowCounters { nodes: self.hazards.len() });
        }
        Ok(())
    }

    fn add_hazards(&mut self, hazards: Vec<SequenceHazard>) {
        if self.on_low == OnLowCounter::Burn {
            for hazard in &hazards {
                self.size.add_burns(&hazard.parent, hazard.burn());
            }
        }
        self.hazards = hazards;
    }
}

impl<'a> Copying<'a> {
    /// Describes a copy of one node, without its descendants, to a path that must be free.
    #[must_use]
    pub fn new(zk: &'a CuratorFramework, from: impl Into<String>, to: impl Into<String>) -> Self {
        let (from, to, on_low) = (from.into(), to.into(), OnLowCounter::Refuse);
        Self { zk, from, to, recursive: false, removes: false, on_low }
    }

    /// Copies the descendants too. Default: only the node.
    #[must_use]
    pub const fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// Removes the original, so that the subtree is moved. Default: it stays.
    #[must_use]
    pub const fn removing(mut self) -> Self {
        self.removes = true;
        self
    }

    /// Sets the treatment of sequence counters that are too low. Default:
    /// [`Refuse`](OnLowCounter::Refuse).
    #[must_use]
    pub const fn on_low_counter(mut self, on_low: OnLowCounter) -> Self {
        self.on_low = on_low;
        self
    }

    /// Refuses what cannot be copied, without a request.
    fn check_paths(&self) -> Result<(), Error> {
        path::refuse_system(self.zk, &self.from)?;
        path::refuse_system(self.zk, &self.to)?;
        if path::is_within(&self.to, &self.from) {
            let (path, root) = (self.to.clone(), self.from.clone());
            return Err(Error::IsWithin { path, root });
        }
        Ok(())
    }

    /// Reads the subtree, and checks the target. Changes nothing.
    ///
    /// # Errors
    /// [`BelongsToServers`](Error::BelongsToServers), [`IsRoot`](Error::IsRoot) and
    /// [`IsWithin`](Error::IsWithin), without a request; [`NoNode`](Error::NoNode) if the parent of
    /// the target does not exist, and [`NodeExists`](Error::NodeExists) if the target does;
    /// [`NotEmpty`](Error::NotEmpty), [`Ephemeral`](Error::Ephemeral),
    /// [`Unreadable`](Error::Unreadable) and [`Framework`](Error::Framework).
    pub async fn plan(&self, progress: Progress<'_>) -> Result<CopyPlan, Error> {
        self.check_paths()?;
        let parent = path::split(&self.to).0;
        let parent_stat = self.zk.exists(parent).await?;
        let mut sequences = Sequences::default();
        match &parent_stat {
            Some(stat) => sequences.exists(parent, stat),
            None => return Err(Error::NoNode { path: parent.to_owned() }),
        }
        if self.zk.exists(&self.to).await?.is_some() {
            return Err(Error::NodeExists { path: self.to.clone() });
        }
        let mut plan = CopyPlan::empty(TransactionLimit::of(self.zk), self.on_low);
        let (mut walk, mut is_root) = (SourceWalk::new(&self.from, false), true);
        while let Some(found) = walk.next(self.zk).await? {
            progress.add(found.len());
            for node in found {
                if is_root && self.removes && !self.recursive && node.stat.num_children > 0 {
                    return Err(Error::NotEmpty { path: self.from.clone() });
                }
                is_root = false;
                self.note(&mut plan, &mut sequences, node.record);
            }
            if !self.recursive {
                break;
            }
        }
        all_readable(&walk.into_unreadable())?;
        if self.removes && !plan.ephemerals.is_empty() || plan.nodes == 0 {
            return Err(Error::Ephemeral { paths: plan.ephemerals });
        }
        plan.add_hazards(sequences.hazards());
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
        sequences.add(&path::moved(&record.path, &self.from, &self.to), &step);
        plan.nodes += 1;
        plan.size.add(&create);
        if self.removes {
            plan.size.add(&NodeChange::Delete { path: record.path, version });
        }
    }

    fn create(&self, record: TransferRecord, acl: Vec<Acl>) -> NodeChange {
        let path = path::moved(&record.path, &self.from, &self.to);
        NodeChange::Create { path, data: record.data, acl, mode: CreateMode::Persistent, ttl: None }
    }

    /// Performs the copy. Returns the number of transactions.
    ///
    /// # Errors
    /// As of [`CopyPlan::check`], without a request. [`Interrupted`](Error::Interrupted) tells how
    /// many changes were applied before a failure, such as [`HiddenAcl`](Error::HiddenAcl) or
    /// [`ChangedDuringCopy`](Error::ChangedDuringCopy).
    ///
    /// # Cancel safety
    /// After a drop, the changes up to a transaction are applied.
    pub async fn apply(&self, plan: &CopyPlan, progress: Progress<'_>) -> Result<u64, Error> {
        plan.check()?;
        let mut applier = Applier::new(self.zk);
        let mut copied = BTreeMap::new();
        let mut walk = SourceWalk::new(&self.from, true);
        while let Some(found) = walk.next(self.zk).await.map_err(|error| applier.explain(error))? {
            for node in found.into_iter().filter(|node| !node.record.kind.is_ephemeral()) {
                let record = node.record;
                if record.has_masked_acl() {
                    return Err(applier.explain(Error::HiddenAcl { path: record.path }));
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
        if self.on_low == OnLowCounter::Burn {
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
    async fn verify(&self, copied: &BTreeMap<String, Copied>) -> Result<(), Error> {
        let same = |path: &str, node: &SourceNode| {
            copied.get(path).is_some_and(|copied| copied.is_original(&node.stat))
        };
        let original = self.count(&self.from, same).await?;
        let same = |path: &str, node: &SourceNode| {
            let path = path::moved(path, &self.to, &self.from);
            copied.get(&path).is_some_and(|copied| copied.is_copy(node))
        };
        let copy = self.count(&self.to, same).await?;
        if (original, copy) == (copied.len(), copied.len()) {
            return Ok(());
        }
        Err(Error::ChangedDuringCopy { from: self.from.clone(), to: self.to.clone() })
    }

    /// Returns the number of the nodes of a subtree; `usize::MAX` if one of them is not the same.
    async fn count(
        &self,
        root: &str,
        is_same: impl Fn(&str, &SourceNode) -> bool,
    ) -> Result<usize, Error> {
        let (mut walk, mut nodes) = (SourceWalk::new(root, false), 0_usize);
        while let Some(found) = walk.next(self.zk).await? {
            if !found.iter().all(|node| is_same(&node.record.path, node)) {
                return Ok(usize::MAX);
            }
            nodes += found.len();
        }
        all_readable(&walk.into_unreadable())?;
        Ok(nodes)
    }
}

/// Fails with the first unreadable node, if there is one.
fn all_readable(unreadable: &UnreadableNodes) -> Result<(), Error> {
    match unreadable.iter().next() {
        Some((path, reason)) => Err(Error::Unreadable { path: path.to_owned(), reason }),
        None => Ok(()),
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
