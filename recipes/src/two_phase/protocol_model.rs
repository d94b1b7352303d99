//! Every run of the protocol in a small scope: three sites, and whatever parties there are.
//!
//! Parties have no memory here. At any time every action may happen that a party could take after a
//! read of the votes at *any* earlier time, and of the decision at any time after that. This covers
//! lagging servers, parties that pause between reading and writing, crashes at every step (the
//! other parties continue), restarts (nothing is remembered), a second coordinator, lost requests
//! (nothing happens) and lost responses (it happens without a report). Sites change their minds,
//! cast votes twice, and their sessions end whenever they like.

use std::collections::{BTreeSet, VecDeque};

use super::machine::{self, Content, NodeOperation, PartyStep, TransactionNode, Votes};
use super::{Form, Outcome, Vote};

const SITES: usize = 3;
const FORMS: [Form; 3] = [Form::Symmetric, Form::Coordinated, Form::Ephemeral];
/// The number of sessions of sites that end in one run.
const EXPIRATIONS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ProtocolNode {
    version: i32,
    content: ProtocolText,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ProtocolText {
    Empty,
    Committed,
    Aborted,
    Commit,
    Abort,
    Done,
}

impl From<Content> for ProtocolText {
    fn from(content: Content) -> Self {
        match content {
            Content::Outcome(Outcome::Committed) => Self::Committed,
            Content::Outcome(Outcome::Aborted) => Self::Aborted,
            Content::Vote(Vote::Commit) => Self::Commit,
            Content::Vote(Vote::Abort) => Self::Abort,
            Content::Done => Self::Done,
        }
    }
}

/// The nodes of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ProtocolTree {
    transaction: ProtocolNode,
    sites: [Option<(ProtocolNode, bool)>; SITES],
}

impl ProtocolTree {
    fn begun(form: Form) -> Self {
        let fresh = ProtocolNode { version: 0, content: ProtocolText::Empty };
        let site = (form != Form::Ephemeral).then_some((fresh, false));
        Self { transaction: fresh, sites: [site; SITES] }
    }

    /// Applies all changes or none, as ZooKeeper does.
    fn apply(&self, changes: &[NodeOperation]) -> Option<Self> {
        let mut tree = self.clone();
        for change in changes {
            match *change {
                NodeOperation::Check { place, version } => {
                    tree.at(place, version)?;
                }
                NodeOperation::Write { place, content, version } => {
                    let node = tree.at(place, version)?;
                    node.version += 1;
                    node.content = content.into();
                }
                NodeOperation::Create {
                    place: TransactionNode::Site(site),
                    content,
                    ephemeral,
                } => {
                    if tree.sites[site].is_some() {
                        return None;
                    }
                    tree.sites[site] =
                        Some((ProtocolNode { version: 0, content: content.into() }, ephemeral));
                }
                NodeOperation::Delete { place: TransactionNode::Site(site) } => {
                    tree.sites[site].take()?;
                }
                NodeOperation::Create { .. } | NodeOperation::Delete { .. } => return None,
            }
        }
        Some(tree)
    }

    fn at(&mut self, place: TransactionNode, version: Option<i32>) -> Option<&mut ProtocolNode> {
        let node = match place {
            TransactionNode::Transaction => &mut self.transaction,
            TransactionNode::Site(site) => self.sites[site].as_mut().map(|(node, _)| node)?,
        };
        version.is_none_or(|version| version == node.version).then_some(node)
    }

    fn decision(&self) -> Option<Outcome> {
        match self.transaction.content {
            ProtocolText::Committed => Some(Outcome::Committed),
            ProtocolText::Aborted => Some(Outcome::Aborted),
            _ => None,
        }
    }

    fn votes(&self, form: Form) -> Votes {
        let is_cast = |site: &Option<(ProtocolNode, bool)>| match site {
            Some((node, _)) => form == Form::Ephemeral || node.version > 0,
            None => false,
        };
        self.sites.iter().position(|site| !is_cast(site)).map_or(Votes::All, Votes::Missing)
    }
}

/// The whole history: the nodes after each change, and the results that parties got.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ProtocolRun {
    trees: Vec<ProtocolTree>,
    told: BTreeSet<bool>,
    expirations: usize,
    /// Which sites have voted to commit: once, unless the vote goes with its session.
    commits: [usize; SITES],
    /// `true` if a site has voted to abort, or a party has not waited for a vote.
    excuse: bool,
}

impl ProtocolRun {
    fn new(form: Form) -> Self {
        Self {
            trees: vec![ProtocolTree::begun(form)],
            told: BTreeSet::new(),
            expirations: 0,
            commits: [0; SITES],
            excuse: false,
        }
    }

    fn now(&self) -> &ProtocolTree {
        &self.trees[self.trees.len() - 1]
    }

    fn after(&self, changes: &[NodeOperation]) -> Option<Self> {
        let tree = self.now().apply(changes)?;
        let mut run = self.clone();
        run.trees.push(tree);
        Some(run)
    }

    fn told(&self, outcome: Outcome) -> Self {
        let mut run = self.clone();
        run.told.insert(outcome == Outcome::Committed);
        run
    }

    /// The reads that a party may have made: the votes, and the decision at the same time or later.
    fn pictures(&self, form: Form, order: ProtocolOrder) -> Vec<(Votes, Option<Outcome>)> {
        let mut pictures = Vec::new();
        for earlier in 0..self.trees.len() {
            for later in earlier..self.trees.len() {
                let (votes, decision) = match order {
                    ProtocolOrder::VotesFirst => (earlier, later),
                    ProtocolOrder::DecisionFirst => (later, earlier),
                };
                let picture = (self.trees[votes].votes(form), self.trees[decision].decision());
                if !pictures.contains(&picture) {
                    pictures.push(picture);
                }
            }
        }
        pictures
    }

    /// Every run that is one step longer.
    fn next(&self, form: Form, protocol: &Protocol) -> Vec<Self> {
        let mut runs = Vec::new();
        for site in 0..SITES {
            for vote in [Vote::Commit, Vote::Abort] {
                let mut ways = vec![machine::vote(form, site, vote)];
                let mine = |(node, ephemeral): (ProtocolNode, bool)| {
                    ephemeral && node.content == Content::Vote(vote).into()
                };
                if self.now().sites[site].is_some_and(mine) {
                    ways.push(machine::renew(site, vote));
                }
                for mut run in ways.iter().filter_map(|changes| self.after(changes)) {
                    match vote {
                        Vote::Commit => run.commits[site] += 1,
                        Vote::Abort => run.excuse = true,
                    }
                    runs.push(run);
                }
            }
            if self.expirations < EXPIRATIONS
                && self.now().sites[site].is_some_and(|(_, ephemeral)| ephemeral)
            {
                let mut run = self
                    .after(&[NodeOperation::Delete { place: TransactionNode::Site(site) }])
                    .unwrap();
                run.expirations += 1;
                run.excuse = true;
                runs.push(run);
            }
        }
        for (votes, decision) in self.pictures(form, protocol.order) {
            for pressed in [false, true] {
                match machine::next(form, decision, votes, pressed) {
                    PartyStep::Wait => {}
                    PartyStep::Decided(outcome) => {
                        runs.push(self.told(outcome));
                        for site in 0..SITES {
                            for there in [false, true] {
                                let recorded = decision.is_some();
                                let changes =
                                    machine::acknowledge(form, site, outcome, recorded, there);
                                runs.extend(self.after(&changes));
                            }
                        }
                    }
                    PartyStep::Decide(outcome) => {
                        let changes = (protocol.decide)(form, SITES, outcome, votes);
                        if let Some(mut run) = self.after(&changes) {
                            run.excuse |= pressed;
                            runs.push(run.told(outcome));
                            runs.push(run); // the reply is lost
                        }
                    }
                }
            }
        }
        // An acknowledgement that changes nothing makes the history longer, not different.
        runs.retain(|run| run.trees.len() == self.trees.len() || run.now() != self.now());
        runs
    }

    /// The conditions of every run.
    fn check(&self, form: Form) -> Result<(), String> {
        let decisions: Vec<_> = self.trees.iter().filter_map(ProtocolTree::decision).collect();
        if decisions.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err("a decision is reversed".into());
        }
        let decided = decisions.first().map(|outcome| *outcome == Outcome::Committed);
        if self.told.iter().chain(&decided).collect::<BTreeSet<_>>().len() > 1 {
            return Err("not atomic: parties have learned different outcomes".into());
        }
        match self.told.first().copied().or(decided) {
            Some(true) if self.commits.contains(&0) => Err("committed without a vote".into()),
            Some(false) if !self.excuse => Err("aborted for no reason".into()),
            _ if form != Form::Ephemeral && self.commits.iter().any(|votes| *votes > 1) => {
                Err("a vote is cast twice".into())
            }
            _ => self.terminates(form),
        }
    }

    /// A coordinator that returns and reads the nodes ends it alone and immediately.
    fn terminates(&self, form: Form) -> Result<(), String> {
        let mut run = self.clone();
        for _ in 0..2 {
            let (votes, decision) = (run.now().votes(form), run.now().decision());
            match machine::next(form, decision, votes, true) {
                PartyStep::Decided(_) => return Ok(()),
                PartyStep::Decide(outcome) => {
                    let changes = machine::decide(form, SITES, outcome, votes);
                    run =
                        run.after(&changes).ok_or("a decision on the present votes is refused")?;
                }
                PartyStep::Wait => {
                    return Err("the coordinator waits although it is pressed".into());
                }
            }
        }
        Err("the written decision was not recognised".into())
    }
}

#[derive(Debug, Clone, Copy)]
enum ProtocolOrder {
    VotesFirst,
    DecisionFirst,
}

struct Protocol {
    order: ProtocolOrder,
    decide: fn(Form, usize, Outcome, Votes) -> Vec<NodeOperation>,
}

const OURS: Protocol = Protocol { order: ProtocolOrder::VotesFirst, decide: machine::decide };

/// Explores all runs, shortest first. Returns their number, and the first one that violates the
/// rules.
fn explore(form: Form, protocol: &Protocol) -> (usize, Result<(), String>) {
    let first = ProtocolRun::new(form);
    let mut seen = BTreeSet::from([first.clone()]);
    let mut queue = VecDeque::from([first]);
    while let Some(run) = queue.pop_front() {
        if let Err(why) = run.check(form) {
            return (seen.len(), Err(format!("{why}: {run:#?}")));
        }
        // Acknowledgements end a run: the other parties read the decision.
        if run.now().sites.iter().flatten().any(|(node, _)| node.content == ProtocolText::Done) {
            continue;
        }
        for next in run.next(form, protocol) {
            if seen.insert(next.clone()) {
                queue.push_back(next);
            }
        }
    }
    (seen.len(), Ok(()))
}

#[test]
fn every_run_is_atomic_valid_final_and_ends() {
    for form in FORMS {
        let (runs, verdict) = explore(form, &OURS);
        println!("{form:?}: {runs} runs");
        verdict.unwrap();
        assert!(runs > 100, "{form:?}: only {runs}");
    }
}

/// The explorer finds a violation for each missing rule of the protocol.
#[test]
fn every_rule_of_the_protocol_is_needed() {
    let plain: fn(Form, usize, Outcome, Votes) -> Vec<NodeOperation> =
        |_, _, outcome, _| vec![machine::record(outcome)];
    let blind: fn(Form, usize, Outcome, Votes) -> Vec<NodeOperation> = |_, _, outcome, _| {
        let (place, content) = (TransactionNode::Transaction, Content::Outcome(outcome));
        vec![NodeOperation::Write { place, content, version: None }]
    };
    let broken = [
        (Form::Symmetric, Protocol { order: ProtocolOrder::DecisionFirst, ..OURS }, "not atomic"),
        (Form::Symmetric, Protocol { decide: plain, ..OURS }, "not atomic"),
        (Form::Coordinated, Protocol { decide: blind, ..OURS }, "reversed"),
        (Form::Ephemeral, Protocol { decide: blind, ..OURS }, "reversed"),
    ];
    for (form, protocol, why) in broken {
        let (_, verdict) = explore(form, &protocol);
        assert!(verdict.unwrap_err().contains(why), "{form:?}");
    }
}
