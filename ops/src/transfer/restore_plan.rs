//! The plan of a restore.

use super::apply::{TransactionLimit, TransactionSize};
use super::plan::{OnLowCounter, SequenceHazard, TransferCounts};
use super::planned::{PlannedChange, PlannedChanges};
use crate::error::Error;
use crate::tree::unreadable::UnreadableNodes;

/// The planned changes.
#[derive(Debug)]
#[non_exhaustive]
pub struct RestorePlan {
    /// The numbers of nodes.
    pub counts: TransferCounts,
    /// The first nodes in conflict, at most 20.
    pub conflicts: Vec<String>,
    /// The contenders of recipes that would become persistent, if they are refused.
    pub contenders: Vec<String>,
    /// The nodes with low counters. With [`OnLowCounter::Refuse`] only those to which this restore
    /// adds a number, and with [`OnLowCounter::Ignore`] none.
    pub hazards: Vec<SequenceHazard>,
    /// The nodes to delete, children first, with their versions.
    pub extras: Vec<(String, i32)>,
    /// The nodes on the servers that could not be read. They stay, and the nodes below them.
    pub unreadable: UnreadableNodes,
    pub(super) changes: PlannedChanges,
    pub(super) size: TransactionSize,
    /// The number of ACLs to set outside of a transaction.
    pub(super) acls: u64,
    on_low: OnLowCounter,
}

impl RestorePlan {
    pub(super) fn empty(limit: TransactionLimit, on_low: OnLowCounter) -> Self {
        let (counts, conflicts, contenders, hazards) = Default::default();
        let (extras, unreadable) = Default::default();
        let (changes, size) = (PlannedChanges::new(), TransactionSize::none(limit));
        Self {
            counts,
            conflicts,
            contenders,
            hazards,
            extras,
            unreadable,
            changes,
            size,
            acls: 0,
            on_low,
        }
    }

    /// Returns `true` if all changes are applied together or not at all.
    #[must_use]
    pub const fn is_atomic(&self) -> bool {
        self.size.fits() && self.acls == 0
    }

    /// Returns the first nodes that are not as in the file, at most 200, with what would happen to
    /// each of them.
    #[must_use]
    pub fn first_changes(&self) -> &[PlannedChange] {
        self.changes.first()
    }

    /// Returns a digest of all changes, and of the states of the nodes that they depend on. Two
    /// plans of the same restore with the same digest change the same nodes in the same way.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.changes.digest()
    }

    pub(super) fn add_hazards(&mut self, hazards: Vec<SequenceHazard>) {
        hazards.iter().for_each(|hazard| self.changes.add_hazard(hazard));
        match self.on_low {
            OnLowCounter::Ignore => {}
            OnLowCounter::Refuse => {
                self.hazards = hazards.into_iter().filter(|low| low.is_new).collect();
            }
            OnLowCounter::Burn => {
                for hazard in &hazards {
                    self.counts.burn += hazard.burn();
                    self.size.add_burns(&hazard.parent, hazard.burn());
                }
                self.hazards = hazards;
            }
        }
    }

    /// Refuses a plan that [`RestoreRun::apply`](super::RestoreRun::apply) does not apply.
    ///
    /// # Errors
    /// [`Conflicts`](Error::Conflicts), [`Contenders`](Error::Contenders) or
    /// [`LowCounters`](Error::LowCounters), the first that holds.
    pub fn check(&self) -> Result<(), Error> {
        if self.counts.conflict > 0 {
            return Err(Error::Conflicts { nodes: self.counts.conflict });
        }
        if !self.contenders.is_empty() {
            return Err(Error::Contenders { nodes: self.contenders.len() });
        }
        if self.on_low == OnLowCounter::Refuse && !self.hazards.is_empty() {
            return Err(Error::LowCounters { nodes: self.hazards.len() });
        }
        Ok(())
    }
}
