use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator::certain::Receipt;
use zk_curator::internal::sleep;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind, OwnedNode};

use super::record::{RunState, SlotRecord};
use super::slot::Slot;

/// The pause before a slot that still has a runner is deleted.
const PAUSE: Duration = Duration::from_millis(100);

/// A slot that was claimed, before its body begins. Dropped, its runner is deleted; without one,
/// the slot is not run.
pub(super) struct SlotClaim {
    pub(super) start: i64,
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    pub(super) record: SlotRecord,
    /// `None` if slots run at most once: the slot stays, whatever becomes of the claim.
    pub(super) runner: Option<Box<Runner>>,
    /// Of the first claim.
    pub(super) since: Since,
}

/// The moment of the first claim of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    /// The time that had passed before our claim, by the clock of the servers.
    before: Duration,
    ours: Instant,
}

impl Since {
    pub(super) fn new(before: Duration) -> Self {
        Self { before, ours: Instant::now() }
    }

    pub(super) fn elapsed(self) -> Duration {
        self.before.saturating_add(self.ours.elapsed())
    }
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
pub(super) struct SlotRun {
    zk: CuratorFramework,
    path: String,
    pub(super) record: SlotRecord,
    pub(super) since: Since,
    runner: Option<(OwnedNode, i32, Receipt)>,
}

impl SlotClaim {
    /// Begins to run the slot. Returns also the watch that says that it is lost.
    pub(super) fn begin(self) -> (Slot, SlotRun, Option<Watch>) {
        let Self { start, zk, path, record, runner, since } = self;
        let parts = runner.map(|runner| {
            let Runner { node, watch, version, receipt } = *runner;
            ((node, version, receipt), watch)
        });
        let (runner, watch) = parts.unzip();
        let ownership = runner.as_ref().map(|(node, ..)| node.ownership().clone());
        let slot = Slot::new(start, record.attempt, ownership);
        (slot, SlotRun { zk, path, record, runner, since }, watch)
    }

    /// Deletes the slot: it has run before. Retries until it is deleted, because a slot with a
    /// runner would be run again.
    pub(super) async fn withdraw(self) -> zk_curator::Result<()> {
        let Self { zk, path, runner, .. } = self;
        let Some(runner) = runner else {
            if let Err(error) = zk.delete(path).version(0).guaranteed().quietly().await {
                debug!(%error, "a slot is deleted in the background");
            }
            return Ok(());
        };
        let Runner { node, version, receipt, .. } = *runner;
        let mut is_ours = true;
        loop {
            let withdrawn = if is_ours {
                let fenced =
                    node.ownership().fenced().delete(node.path()).delete_if(&path, version);
                fenced.certain(&receipt).commit().await.map(drop)
            } else {
                // This fails after another member has taken it over.
                zk.delete(&path).version(version).await
            };
            match withdrawn {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::OwnershipLost => is_ours = false,
                Err(error) if is_lost(&error) => break,
                // Our runner goes with our session.
                Err(error) if error.kind() == ErrorKind::NotEmpty => sleep(PAUSE).await,
                Err(error) => zk.wait_for_recovery(error).await?,
            }
        }
        drop(node.leak());
        Ok(())
    }
}

impl SlotRun {
    /// Records how the run has ended, unless the slot was taken over, or deleted by hand: then it
    /// returns `false`.
    ///
    /// After an error that passes it may be called again with the same state.
    pub(super) async fn end(&mut self, state: &RunState) -> zk_curator::Result<bool> {
        let record = SlotRecord { state: state.clone(), ..self.record.clone() }.encode();
        let recorded = match &self.runner {
            // No other client writes it.
            None => self.zk.set_data(&self.path, record).version(0).idempotent().await.map(drop),
            Some((node, version, receipt)) => {
                let fenced = node.ownership().fenced().uncompressed();
                let transaction =
                    fenced.set_data_if(&self.path, record, *version).delete(node.path());
                transaction.certain(receipt).commit().await.map(drop)
            }
        };
        match recorded {
            Ok(()) => {
                if let Some((node, ..)) = self.runner.take() {
                    drop(node.leak());
                }
                Ok(true)
            }
            Err(error) if is_lost(&error) => {
                warn!(path = self.path, %error, "a result is not recorded: another member owns the slot");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn is_lost(error: &zk_curator::Error) -> bool {
    let is_changed = matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion));
    error.kind() == ErrorKind::OwnershipLost || is_changed
}
