use tracing::warn;
use zk_curator::certain::Receipt;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind, OwnedNode};

use super::record::{Record, State};
use super::slot::Slot;

/// A slot that was claimed, before its body begins. Dropped, it is given back.
pub(super) struct Claim {
    pub(super) start: i64,
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    pub(super) record: Record,
    pub(super) hold: Hold,
}

/// The node that stands for a claim.
pub(super) enum Hold {
    /// The slot itself, as long as its body has not begun.
    Slot(OwnedNode),
    Runner(Runner),
}

/// The ephemeral node of a member that runs a slot.
pub(super) struct Runner {
    pub(super) node: OwnedNode,
    /// Fires when the node is gone.
    pub(super) watch: Watch,
    /// Of the slot, since the claim.
    pub(super) version: i32,
    pub(super) receipt: Receipt,
}

/// A slot whose body has begun.
pub(super) struct Run {
    zk: CuratorFramework,
    path: String,
    record: Record,
    runner: Option<(OwnedNode, i32, Receipt)>,
}

impl Claim {
    /// Begins to run the slot: from here on it is not given back. Returns also the watch that says that it is lost.
    pub(super) fn begin(self) -> (Slot, Run, Option<Watch>) {
        let Self { start, zk, path, record, hold } = self;
        let (runner, watch) = match hold {
            Hold::Slot(node) => {
                drop(node.leak());
                (None, None)
            }
            Hold::Runner(Runner { node, watch, version, receipt }) => {
                (Some((node, version, receipt)), Some(watch))
            }
        };
        let ownership = runner.as_ref().map(|(node, ..)| node.ownership().clone());
        let slot = Slot::new(start, record.attempt, ownership);
        (slot, Run { zk, path, record, runner }, watch)
    }

    /// Deletes the slot: it has run before.
    pub(super) async fn withdraw(self) -> zk_curator::Result<()> {
        match self.hold {
            Hold::Slot(node) => node.delete().await,
            Hold::Runner(Runner { node, version, receipt, .. }) => {
                let fenced = node.ownership().fenced().delete(node.path()).delete_if(&self.path, version);
                fenced.certain(&receipt).commit().await?;
                drop(node.leak());
                Ok(())
            }
        }
    }
}

impl Run {
    /// Records how the run has ended, unless the slot was taken over, or deleted by hand.
    ///
    /// After an error that passes it may be called again with the same state.
    pub(super) async fn end(&mut self, state: &State) -> zk_curator::Result<()> {
        let record = Record { state: state.clone(), ..self.record.clone() }.encode();
        let recorded = match &self.runner {
            // Nobody else writes it.
            None => self.zk.set_data(&self.path, record).version(0).idempotent().await.map(drop),
            Some((node, version, receipt)) => {
                let fenced = node.ownership().fenced().uncompressed();
                let transaction = fenced.set_data_if(&self.path, record, *version).delete(node.path());
                transaction.certain(receipt).commit().await.map(drop)
            }
        };
        match recorded {
            Ok(()) => {
                if let Some((node, ..)) = self.runner.take() {
                    drop(node.leak());
                }
                Ok(())
            }
            Err(error) if is_lost(&error) => {
                warn!(path = self.path, %error, "the end of a run is not recorded: the slot is not ours any more");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn is_lost(error: &zk_curator::Error) -> bool {
    let is_changed = matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion));
    error.kind() == ErrorKind::OwnershipLost || is_changed
}
