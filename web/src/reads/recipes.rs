//! The recipes below a node.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::{CuratorFramework, SessionId};
use zk_curator_ops::data::line;
use zk_curator_ops::holders::kind_words;
use zk_curator_recipes::inspect::{self, Contender, Details, Finding, Library, RecipeKind, Role};
use zk_curator_recipes::queue::jobs::JobPhase;

use super::growth::Growth;
use super::limits::{MOST_BYTES, MOST_NODES, WITHIN};
use super::listing::{PAGE, next_of};
use super::why::tidy;
use crate::problem::{Problem, RequestResult};
use crate::security::Redaction;
use crate::show::RecipeGroup;

/// The number of holders of a recipe that are named.
const NAMED: usize = 3;
/// The maximum number of characters of a label in a table.
const LONGEST: usize = 40;

/// The recipes below a node, the longest wait first.
#[derive(Debug)]
pub(crate) struct RecipesRead {
    pub(crate) rows: Vec<RecipeRow>,
    /// The number of nodes that were read.
    pub(crate) nodes: usize,
    /// `true` if all nodes were read that can be read.
    pub(crate) is_complete: bool,
    /// The number of nodes that could not be read.
    pub(crate) unreadable: usize,
}

/// A recipe.
#[derive(Debug, Clone)]
pub(crate) struct RecipeRow {
    pub(crate) path: String,
    /// The kind with the library, such as `mutex (Curator)`.
    pub(crate) words: String,
    pub(crate) kind: RecipeKind,
    pub(crate) library: Library,
    pub(crate) group: RecipeGroup,
    pub(crate) is_guess: bool,
    /// `true` if a part of it was not read.
    pub(crate) is_partial: bool,
    /// The number of holders, members or claims.
    pub(crate) holders: usize,
    /// The first holders.
    pub(crate) named: Vec<HolderRow>,
    /// The time at which the first holder created its node, in milliseconds since 1970.
    pub(crate) since: Option<i64>,
    /// The number of clients that wait.
    pub(crate) waiting: usize,
    /// The time at which the oldest node that waits was created.
    pub(crate) oldest: Option<i64>,
    /// The number of items of a queue.
    pub(crate) depth: Option<usize>,
    /// The growth of the depth, or without one of the waiters, per minute.
    pub(crate) growth: Option<f64>,
    /// The number of contenders that no session will ever remove.
    pub(crate) persistent: usize,
}

/// A holder in a table.
#[derive(Debug, Clone)]
pub(crate) struct HolderRow {
    pub(crate) path: String,
    /// The label, or the name of the node without one.
    pub(crate) label: String,
    pub(crate) session: Option<SessionId>,
    pub(crate) is_persistent: bool,
}

/// The recipes that a page shows.
#[derive(Debug)]
pub(crate) struct RecipesPart<'a> {
    pub(crate) rows: Vec<&'a RecipeRow>,
    /// The group; `None` for all of them.
    pub(crate) group: Option<RecipeGroup>,
    /// The number of recipes of the group.
    pub(crate) matching: usize,
    /// The number of recipes before the first one.
    pub(crate) from: usize,
    /// The number of recipes before the next page, if there is one.
    pub(crate) next: Option<usize>,
}

impl RecipesRead {
    /// Returns a page of the recipes of a group.
    pub(crate) fn part(&self, group: Option<RecipeGroup>, from: usize) -> RecipesPart<'_> {
        let is_of_group = |row: &&RecipeRow| group.is_none_or(|group| row.group == group);
        let matching = self.rows.iter().filter(is_of_group).count();
        let rows: Vec<_> = self.rows.iter().filter(is_of_group).skip(from).take(PAGE).collect();
        let next = next_of(from, rows.len(), matching);
        RecipesPart { rows, group, matching, from, next }
    }
}

/// Finds the recipes below a node. Also returns the time that it took.
pub(crate) async fn read_recipes(
    zk: &CuratorFramework,
    root: &str,
    redaction: &Redaction,
    growth: &Growth,
) -> RequestResult<(RecipesRead, Duration)> {
    let begun = Instant::now();
    let find = inspect::find_within(zk, root, MOST_NODES, MOST_BYTES);
    let found = match timeout(WITHIN, find).await {
        Ok(found) => found?,
        Err(_) => return Err(Problem::too_slow(root)),
    };
    let (nodes, is_complete) = (found.nodes, found.is_complete);
    let unreadable = found.unreadable.len();
    let row = |mut finding: Finding| {
        tidy(&mut finding, redaction);
        row_of(&finding)
    };
    let mut rows: Vec<_> = found.findings.into_iter().map(row).collect();
    let sizes = rows.iter().map(|row| (row.path.as_str(), row.depth.unwrap_or(row.waiting)));
    let growth = growth.note(sizes);
    for (row, growth) in rows.iter_mut().zip(growth) {
        row.growth = growth;
    }
    // Those without a waiter come last, in the order of their paths.
    rows.sort_by_key(|row| row.oldest.unwrap_or(i64::MAX));
    Ok((RecipesRead { rows, nodes, is_complete, unreadable }, begun.elapsed()))
}

fn row_of(finding: &Finding) -> RecipeRow {
    let contenders = || finding.holders.iter().chain(&finding.waiting);
    let is_client = |one: &&Contender| !matches!(one.role, Role::Item | Role::Job);
    RecipeRow {
        path: finding.path.clone(),
        words: kind_words(finding),
        kind: finding.kind,
        library: finding.library,
        group: RecipeGroup::of(finding.kind),
        is_guess: finding.is_guess,
        is_partial: finding.is_partial,
        holders: finding.holders.len(),
        named: finding.holders.iter().take(NAMED).map(|one| holder(finding.kind, one)).collect(),
        since: finding.holders.iter().find_map(Contender::created_ms),
        waiting: finding.waiting.iter().filter(is_client).count(),
        oldest: finding.waiting.iter().filter_map(Contender::created_ms).min(),
        depth: depth(finding),
        growth: None,
        persistent: contenders().filter(|one| one.is_persistent).count(),
    }
}

fn holder(kind: RecipeKind, holder: &Contender) -> HolderRow {
    let label = match holder.label.as_ref() {
        // The data of an instance are its record.
        _ if kind == RecipeKind::Service => holder.name.clone(),
        [] | b"__REVOKE__" | b"unlock" => holder.name.clone(),
        label => line(label, LONGEST),
    };
    HolderRow {
        path: holder.path.clone(),
        label,
        session: holder.session,
        is_persistent: holder.is_persistent,
    }
}

/// Returns the number of items that wait or are claimed.
fn depth(finding: &Finding) -> Option<usize> {
    match &finding.details {
        Details::Queue { items, .. } => Some(*items),
        Details::Jobs { counts } => {
            let is_open = |phase: &JobPhase| !matches!(phase, JobPhase::Done | JobPhase::Failed);
            Some(counts.iter().filter(|(phase, _)| is_open(phase)).map(|(_, count)| count).sum())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_recipes::inspect::{Node, recognise};

    use super::*;

    #[test]
    fn a_row_has_the_first_holders_and_the_depth() {
        let lock = Node::new("/a").child("lock-0000000001", "ann").child("lock-0000000002", "");
        let row = row_of(&recognise(&lock));
        assert_eq!((row.holders, row.waiting, row.depth), (1, 1, None));
        assert_eq!((&*row.named[0].label, &*row.words), ("ann", "mutex (Curator)"));
        let queue = Node::new("/q").child("queue-0000000001", "x").child("queue-0000000002", "y");
        let row = row_of(&recognise(&queue));
        assert_eq!((row.holders, row.waiting, row.depth), (0, 0, Some(2)));
    }
}
