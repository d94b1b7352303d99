//! [`Looks`]: which nodes of their own clients have looked at, where an operator deletes nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use zk_curator_proto::OpCode;
use zk_curator_testing::rule::path_matches;
use zk_curator_testing::{NodeWrite, RuleGuard, TestCluster, Verdict, WriteKind};

use super::client::Run;
use super::history::Event;

/// Servers cannot delete a node by its identity. A client that has looked at its node, and deletes it then, deletes another one
/// of the same version if that took its place in between: the window that is documented at
/// [`OwnedNode`](zk_curator::OwnedNode#shared-names). A client that has not looked is to blame, unless it deletes the node in one
/// transaction with what that is a claim to, where the recipe cannot do better: [`Sim::settled`](super::Sim::settled).
#[derive(Debug)]
pub(crate) struct Looks {
    seen: Arc<Mutex<Notes>>,
    /// Claims, and the parents of what they are claims to.
    settled: Vec<(String, String)>,
    _rule: RuleGuard,
}

/// The requests of each session about each path.
type Notes = BTreeMap<(i64, String), Vec<Seen>>;

/// A request of a session that is about a path.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Instant,
    creates: bool,
}

impl Looks {
    /// Takes note of requests about paths that match.
    pub(crate) fn follow(
        cluster: &TestCluster,
        patterns: Vec<String>,
        settled: Vec<(String, String)>,
    ) -> Self {
        let seen: Arc<Mutex<Notes>> = Arc::default();
        let notes = Arc::clone(&seen);
        let rule = cluster.rule(move |request| {
            let creates = request.is_create();
            if let Some(path) = request.path()
                && (creates || request.is(OpCode::Exists))
                && patterns.iter().any(|pattern| path_matches(pattern, path))
            {
                let about = (request.session_id(), path.to_owned());
                let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                notes.entry(about).or_default().push(Seen { at: Instant::now(), creates });
            }
            Verdict::Pass
        });
        Self { seen, settled, _rule: rule }
    }

    /// Whether a session that has deleted a node of somebody else has looked at the one that it had created itself, before that
    /// was deleted; or has settled what that was a claim to. Its own node was deleted by an operator, or is one of `overtaken`:
    /// the nodes that were deleted in place of others, which is excused.
    pub(crate) fn excuse(
        &self,
        delete: &NodeWrite,
        writes: &[NodeWrite],
        overtaken: &BTreeSet<i64>,
        run: &Run,
    ) -> bool {
        let before = writes.iter().take_while(|write| write.zxid < delete.zxid);
        let own = before.filter(|write| {
            (write.kind, write.session, &write.path) == (WriteKind::Created, delete.session, &delete.path)
        });
        let Some(own) = own.last() else { return false };
        let by_operator =
            |event: &Event| matches!(event, Event::Removed { tokens, .. } if tokens.contains(&own.czxid));
        let is_gone = overtaken.contains(&own.czxid)
            || run.history().records().iter().any(|record| by_operator(&record.event));
        let gone = writes.iter().find(|write| {
            (write.kind, write.czxid, &write.path) == (WriteKind::Deleted, own.czxid, &own.path)
        });
        let Some(gone) = gone.filter(|_| is_gone) else { return false };
        if self.settles(delete, writes, run) {
            return true;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.get(&(delete.session, delete.path.clone())).map_or(&[][..], Vec::as_slice);
        // Its last request before that was a look, and not the create.
        seen.iter().rfind(|seen| seen.at <= gone.at).is_some_and(|seen| !seen.creates)
    }

    /// Whether what a node is a claim to was deleted in the same transaction, before it was handed out to the client with that
    /// claim, as far as anybody can see.
    fn settles(&self, delete: &NodeWrite, writes: &[NodeWrite], run: &Run) -> bool {
        let Some((parent, name)) = delete.path.rsplit_once('/') else { return false };
        let to = self.settled.iter().find(|(claims, _)| path_matches(claims, &delete.path));
        let Some((_, nodes)) = to else { return false };
        let node = if nodes == ".." { parent.to_owned() } else { format!("{nodes}/{name}") };
        let claimed = writes.iter().find(|write| write.czxid == delete.czxid && write.path == delete.path);
        let Some(claimed) = claimed else { return false };
        let mut of_node = writes.iter().filter(|write| write.path == node);
        let is_settled = |write: &NodeWrite| (write.zxid, write.kind) == (delete.zxid, WriteKind::Deleted);
        let is_counted = |write: &NodeWrite| {
            (write.session, write.kind) == (claimed.session, WriteKind::DataSet) && write.zxid > claimed.zxid
        };
        let is_handed_out = || {
            let holds =
                |event: &Event| matches!(event, Event::Acquired { token, .. } if *token == delete.czxid);
            run.history().records().iter().any(|record| holds(&record.event))
        };
        of_node.clone().any(is_settled) && !of_node.any(is_counted) && !is_handed_out()
    }
}
