//! [`ExistenceChecks`]: records which of their own nodes the clients have read, in runs in which an
//! operator deletes nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;
use zk_curator_client::internal::Locked;
use zk_curator_proto::OpCode;
use zk_curator_testing::rule::path_matches;
use zk_curator_testing::{NodeWrite, RuleGuard, TestCluster, Verdict, WriteKind};

use super::history::{Event, Hold};
use super::shared_run::Run;

/// Servers cannot delete a node by its identity. A client that reads its node and then deletes it
/// can delete another node of the same version that has replaced it in between.
/// [`OwnedNode`](zk_curator::OwnedNode#shared-names) documents this window. A client that deletes
/// without reading first is at fault. The exception is a delete in one transaction with the claimed
/// node, where the recipe cannot do better: [`Sim::settled`](super::Sim::settled).
#[derive(Debug)]
pub(crate) struct ExistenceChecks {
    seen: Arc<Locked<Notes>>,
    /// Patterns of claims, each with the parent of the claimed nodes.
    settled: Vec<(String, String)>,
    _rule: RuleGuard,
}

/// The requests of each session about each path.
type Notes = BTreeMap<(i64, String), Vec<Seen>>;

/// A request of a session for a path.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Instant,
    creates: bool,
}

impl ExistenceChecks {
    /// Records the requests for paths that match.
    pub(crate) fn follow(
        cluster: &TestCluster,
        patterns: Vec<String>,
        settled: Vec<(String, String)>,
    ) -> Self {
        let seen: Arc<Locked<Notes>> = Arc::default();
        let notes = Arc::clone(&seen);
        let rule = cluster.rule(move |request| {
            let creates = request.is_create();
            if let Some(path) = request.path()
                && (creates || request.is(OpCode::Exists))
                && patterns.iter().any(|pattern| path_matches(pattern, path))
            {
                let about = (request.session_id(), path.to_owned());
                let mut notes = notes.lock();
                notes.entry(about).or_default().push(Seen { at: Instant::now(), creates });
            }
            Verdict::Pass
        });
        Self { seen, settled, _rule: rule }
    }

    /// Returns `true` if a session that deleted a foreign node had read its own node before that
    /// was deleted, or if it settled a claim. Its own node must have been deleted by an operator,
    /// or be one of `overtaken`: the nodes whose deletion in place of others is excused.
    pub(crate) fn excuse(
        &self,
        delete: &NodeWrite,
        writes: &[NodeWrite],
        overtaken: &BTreeSet<i64>,
        run: &Run,
    ) -> bool {
        let before = writes.iter().take_while(|write| write.zxid < delete.zxid);
        let own = before.filter(|write| {
            (write.kind, write.session, &write.path)
                == (WriteKind::Created, delete.session, &delete.path)
        });
        let Some(own) = own.last() else { return false };
        let is_gone = overtaken.contains(&own.czxid) || run.history().has_removed(own.czxid);
        let gone = writes.iter().find(|write| {
            (write.kind, write.czxid, &write.path) == (WriteKind::Deleted, own.czxid, &own.path)
        });
        let Some(gone) = gone.filter(|_| is_gone) else { return false };
        if self.settles(delete, writes, run) {
            return true;
        }
        let seen = self.seen.lock();
        let seen = seen.get(&(delete.session, delete.path.clone())).map_or(&[][..], Vec::as_slice);
        // The last request before that was a read, not the create.
        seen.iter().rfind(|seen| seen.at <= gone.at).is_some_and(|seen| !seen.creates)
    }

    /// Returns `true` if the same transaction deleted the claimed node before that node was
    /// delivered to the client with the claim, as far as the history shows.
    fn settles(&self, delete: &NodeWrite, writes: &[NodeWrite], run: &Run) -> bool {
        let Some((parent, name)) = delete.path.rsplit_once('/') else { return false };
        let to = self.settled.iter().find(|(claims, _)| path_matches(claims, &delete.path));
        let Some((_, nodes)) = to else { return false };
        let node = if nodes == ".." { parent.to_owned() } else { format!("{nodes}/{name}") };
        let claimed =
            writes.iter().find(|write| write.czxid == delete.czxid && write.path == delete.path);
        let Some(claimed) = claimed else { return false };
        let mut of_node = writes.iter().filter(|write| write.path == node);
        let is_settled =
            |write: &NodeWrite| (write.zxid, write.kind) == (delete.zxid, WriteKind::Deleted);
        let is_counted = |write: &NodeWrite| {
            (write.session, write.kind) == (claimed.session, WriteKind::DataSet)
                && write.zxid > claimed.zxid
        };
        let is_handed_out = || {
            run.history().records().iter().any(|record| match &record.event {
                Event::Hold(Hold::Acquired { token, .. }) => *token == delete.czxid,
                _ => false,
            })
        };
        of_node.clone().any(is_settled) && !of_node.any(is_counted) && !is_handed_out()
    }
}
