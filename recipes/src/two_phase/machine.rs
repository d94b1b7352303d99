//! The decision as pure functions: the action of a party after its reads, and the content of its
//! writes. The parties do nothing else to the nodes of a transaction, and `model.rs` tries all of
//! it in every order.

use super::{Form, Outcome, Vote};

/// The version of the transaction node until the decision is written.
const UNDECIDED: i32 = 0;
/// The version of the node of a site before the vote, if the coordinator has made it.
const NOT_CAST: i32 = 0;

/// A node of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionNode {
    Transaction,
    /// Of the site with this index.
    Site(usize),
}

/// The content of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Outcome(Outcome),
    Vote(Vote),
    Done,
}

/// One operation of a transaction of ZooKeeper. `None` is any version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeOperation {
    Check { place: TransactionNode, version: Option<i32> },
    Write { place: TransactionNode, content: Content, version: Option<i32> },
    Create { place: TransactionNode, content: Content, ephemeral: bool },
    Delete { place: TransactionNode },
}

/// Which votes a party has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Votes {
    /// It has not looked.
    Unseen,
    /// The vote of this site is missing.
    Missing(usize),
    All,
}

/// The next step of a party.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartyStep {
    /// It is decided.
    Decided(Outcome),
    /// Write the decision; if it is refused, read again.
    Decide(Outcome),
    /// Wait for a change.
    Wait,
}

/// Returns the next step of a party that has first seen the votes and *then* read the decision. It
/// is `pressed` when it is to wait no longer for votes that are missing.
///
/// A vote to abort writes the decision along with itself. So if all votes exist, and a later read
/// finds no decision, all votes are to commit: no vote needs to be read.
pub(super) const fn next(
    form: Form,
    decision: Option<Outcome>,
    votes: Votes,
    pressed: bool,
) -> PartyStep {
    match (decision, votes) {
        (Some(outcome), _) => PartyStep::Decided(outcome),
        (None, Votes::All) => match form {
            // The votes themselves are the decision.
            Form::Symmetric => PartyStep::Decided(Outcome::Committed),
            Form::Coordinated | Form::Ephemeral => PartyStep::Decide(Outcome::Committed),
        },
        (None, Votes::Missing(_)) if pressed => PartyStep::Decide(Outcome::Aborted),
        (None, Votes::Missing(_) | Votes::Unseen) => PartyStep::Wait,
    }
}

/// Casts a vote: once, and only while nothing is decided.
pub(super) fn vote(form: Form, site: usize, vote: Vote) -> Vec<NodeOperation> {
    let (place, content) = (TransactionNode::Site(site), Content::Vote(vote));
    let cast = match form {
        Form::Symmetric | Form::Coordinated => {
            NodeOperation::Write { place, content, version: Some(NOT_CAST) }
        }
        Form::Ephemeral => NodeOperation::Create { place, content, ephemeral: true },
    };
    vec![admit(vote), cast]
}

/// Casts the vote of a site again that has been cast by an earlier session of it, which has not
/// ended yet. There is no moment without the vote.
pub(super) fn renew(site: usize, vote: Vote) -> Vec<NodeOperation> {
    let (place, content) = (TransactionNode::Site(site), Content::Vote(vote));
    vec![
        admit(vote),
        NodeOperation::Delete { place },
        NodeOperation::Create { place, content, ephemeral: true },
    ]
}

/// One vote to abort is enough, so it is the decision, too.
const fn admit(vote: Vote) -> NodeOperation {
    let (place, version) = (TransactionNode::Transaction, Some(UNDECIDED));
    match vote {
        Vote::Commit => NodeOperation::Check { place, version },
        Vote::Abort => {
            NodeOperation::Write { place, content: Content::Outcome(Outcome::Aborted), version }
        }
    }
}

/// Writes the decision that [`next`] has asked for.
pub(super) fn decide(
    form: Form,
    sites: usize,
    outcome: Outcome,
    votes: Votes,
) -> Vec<NodeOperation> {
    let mut changes = Vec::new();
    match (form, outcome, votes) {
        // Other parties may have seen all votes, and committed: not if this one is missing.
        (Form::Symmetric, Outcome::Aborted, Votes::Missing(site)) => {
            changes.push(NodeOperation::Check {
                place: TransactionNode::Site(site),
                version: Some(NOT_CAST),
            });
        }
        // A site that is gone has not committed.
        (Form::Ephemeral, Outcome::Committed, _) => {
            changes.extend((0..sites).map(|site| NodeOperation::Check {
                place: TransactionNode::Site(site),
                version: None,
            }));
        }
        _ => {}
    }
    changes.push(record(outcome));
    changes
}

/// Writes the decision, whatever else there is.
pub(super) const fn record(outcome: Outcome) -> NodeOperation {
    let (place, version) = (TransactionNode::Transaction, Some(UNDECIDED));
    NodeOperation::Write { place, content: Content::Outcome(outcome), version }
}

/// Says that a site is done with a decision, which is `recorded` in the transaction node, or is
/// along with it. Whether the site's vote is `there` matters only if it is ephemeral: it gives way
/// to a node that lasts.
pub(super) fn acknowledge(
    form: Form,
    site: usize,
    outcome: Outcome,
    recorded: bool,
    there: bool,
) -> Vec<NodeOperation> {
    let (place, content) = (TransactionNode::Site(site), Content::Done);
    let mut changes = Vec::new();
    if !recorded {
        changes.push(record(outcome));
    }
    match form {
        Form::Symmetric | Form::Coordinated => {
            changes.push(NodeOperation::Write { place, content, version: None });
        }
        Form::Ephemeral => {
            if there {
                changes.push(NodeOperation::Delete { place });
            }
            changes.push(NodeOperation::Create { place, content, ephemeral: false });
        }
    }
    changes
}
