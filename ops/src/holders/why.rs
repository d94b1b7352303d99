//! The answer to the question why a recipe does not move.

use zk_curator::CuratorFramework;
use zk_curator_recipes::inspect::{self, Finding};

use super::deletion::{DeletionObstacle, deletion_obstacles};
use super::facts::SessionFacts;
use crate::ensemble::EnsembleProbe;
use crate::error::Error;

/// The holders and the waiters of a recipe, with their sessions.
#[derive(Debug)]
#[non_exhaustive]
pub struct WhyReport {
    /// The holders and the waiters, in their order.
    pub finding: Finding,
    /// The facts about their sessions.
    pub facts: SessionFacts,
    /// Why the node cannot be deleted, if it belongs to no recipe.
    pub deletion: Vec<DeletionObstacle>,
}

impl WhyReport {
    /// Returns the sentences about the holders and the waiters.
    #[must_use]
    pub fn verdicts(&self) -> Vec<String> {
        self.facts.verdicts(&self.finding)
    }
}

/// Finds out who holds the recipe at a node or above it, and who waits. Asks the servers of the
/// framework for their sessions, without TLS; [`why_with`] asks in another way.
///
/// # Errors
/// [`Framework`](Error::Framework). A server that does not respond is a
/// [note](SessionFacts::notes).
///
/// # Cancel safety
/// Nothing is changed.
pub async fn why(zk: &CuratorFramework, path: &str) -> Result<WhyReport, Error> {
    why_with(zk, path, &EnsembleProbe::of(zk)).await
}

/// Finds out the same as [`why`], and asks the servers of a probe.
///
/// # Errors
/// As of [`why`].
///
/// # Cancel safety
/// Nothing is changed.
pub async fn why_with(
    zk: &CuratorFramework,
    path: &str,
    probe: &EnsembleProbe<'_>,
) -> Result<WhyReport, Error> {
    let (finding, facts) =
        tokio::join!(inspect::inspect(zk, path), SessionFacts::gather(zk, probe));
    let finding = finding?;
    let deletion = deletion_obstacles(zk, path, &finding).await?;
    Ok(WhyReport { finding, facts, deletion })
}
