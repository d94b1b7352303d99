//! The layouts of the recipes. Each file recognises those of related recipes.

mod barrier;
mod buckets;
mod line;
mod lock;
mod members;
mod names;
mod queue;
pub(super) mod semaphore;
mod store;

use super::draft::FindingDraft;
use super::finding::{Finding, Library, RecipeKind};
use super::node::Node;

/// Returns the recipe at a node: recipes with data or directories of their own first, then those
/// with names of their own, then guesses.
pub(super) fn recognise(node: &Node) -> Finding {
    let layouts = [
        store::recognise,
        buckets::recognise,
        semaphore::recognise,
        lock::recognise,
        queue::recognise,
        members::recognise,
        barrier::recognise,
        members::group,
        barrier::single,
    ];
    layouts
        .into_iter()
        .find_map(|layout| layout(node))
        .unwrap_or_else(|| FindingDraft::new(node, RecipeKind::Unknown, Library::Unknown).finish())
}
