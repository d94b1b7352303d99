use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Commit, Event, History, Name};

/// Checks that each transaction is committed at all sites or at none, and only if all have voted
/// for it.
///
/// * No client sees a transaction committed that any client sees aborted: decisions are final.
/// * No transaction is committed that a site votes against, earlier or later.
/// * No transaction is committed before all sites that it was [proposed](Commit::Proposed) to have
///   voted for it.
/// * No site votes both ways.
///
/// Abort is always allowed. [`Progress`](super::Progress) checks that there is a decision at all.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AtomicCommit;

const NAME: &str = "atomic commit";

#[derive(Debug, Default)]
struct Txn<'a> {
    proposed: Option<(usize, &'a [Name])>,
    /// The first vote of each site.
    votes: BTreeMap<&'a Name, (usize, bool)>,
    committed: Option<usize>,
    aborted: Option<usize>,
}

impl Checker for AtomicCommit {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut txns: BTreeMap<&Name, Txn<'_>> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            let Event::Commit(event) = &record.event else { continue };
            let broken = match event {
                Commit::Proposed { txn, sites } => {
                    txns.entry(txn).or_default().proposed.get_or_insert((place, sites));
                    None
                }
                Commit::Voted { txn, site, yes } => {
                    txns.entry(txn).or_default().vote(place, site, *yes)
                }
                Commit::Decided { txn, commit: true, .. } => {
                    txns.entry(txn).or_default().commit(place)
                }
                Commit::Decided { txn, commit: false, .. } => {
                    txns.entry(txn).or_default().abort(place)
                }
                _ => continue,
            };
            if let Some((what, mut records)) = broken {
                records.sort_unstable();
                return Err(Violation::new(NAME, what, records));
            }
        }
        Ok(())
    }
}

type Broken = Option<(String, Vec<usize>)>;

impl<'a> Txn<'a> {
    fn vote(&mut self, place: usize, site: &'a Name, yes: bool) -> Broken {
        let &mut (first, before) = self.votes.entry(site).or_insert((place, yes));
        if before != yes {
            return Some((format!("{site} has voted both ways"), vec![first, place]));
        }
        let committed = self.committed.filter(|_| !yes)?;
        Some((format!("{site} has voted no on a committed transaction"), vec![committed, place]))
    }

    fn commit(&mut self, place: usize) -> Broken {
        if let Some(aborted) = self.aborted {
            return Some(("committed and aborted".to_owned(), vec![aborted, place]));
        }
        self.committed.get_or_insert(place);
        if let Some((site, (vote, _))) = self.votes.iter().find(|(_, (_, yes))| !yes) {
            return Some((format!("committed although {site} has voted no"), vec![*vote, place]));
        }
        let (proposed, sites) = self.proposed?;
        let silent = sites.iter().find(|site| !self.votes.contains_key(site))?;
        Some((format!("committed without the vote of {silent}"), vec![proposed, place]))
    }

    fn abort(&mut self, place: usize) -> Broken {
        self.aborted.get_or_insert(place);
        let committed = self.committed?;
        Some(("committed and aborted".to_owned(), vec![committed, place]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    const CHECKER: AtomicCommit = AtomicCommit;

    fn proposed() -> Commit {
        Commit::Proposed { txn: "t".into(), sites: vec!["a".into(), "b".into()] }
    }

    fn voted(site: &str, yes: bool) -> Commit {
        Commit::Voted { txn: "t".into(), site: site.into(), yes }
    }

    fn decided(site: &str, commit: bool) -> Commit {
        Commit::Decided { txn: "t".into(), site: site.into(), commit }
    }

    /// Records the events in this order.
    fn lines<const N: usize>(events: [Commit; N]) -> [(u64, u32, Commit); N] {
        events.map(|event| (0, 1, event))
    }

    #[test]
    fn all_yes_may_commit_or_abort() {
        let votes = || [proposed(), voted("a", true), voted("b", true)];
        let [p, a, b] = votes();
        passes(
            &CHECKER,
            lines([p, a, b, decided("a", true), decided("b", true), decided("coordinator", true)]),
        );
        let [p, a, b] = votes();
        passes(&CHECKER, lines([p, a, b, decided("b", false), decided("a", false)]));
    }

    #[test]
    fn abort_needs_no_votes() {
        passes(
            &CHECKER,
            lines([proposed(), decided("a", false), voted("b", false), decided("b", false)]),
        );
    }

    #[test]
    fn commit_here_and_abort_there_is_found() {
        let [p, a, b] = [proposed(), voted("a", true), voted("b", true)];
        fails(
            &CHECKER,
            lines([p, a, b, decided("a", true), decided("b", false)]),
            "and aborted",
            &[3, 4],
        );
        let [p, a, b] = [proposed(), voted("a", true), voted("b", true)];
        fails(
            &CHECKER,
            lines([p, a, b, decided("a", false), decided("b", true)]),
            "and aborted",
            &[3, 4],
        );
    }

    #[test]
    fn a_reversed_decision_is_found() {
        fails(&CHECKER, lines([decided("a", true), decided("a", false)]), "and aborted", &[0, 1]);
    }

    #[test]
    fn commit_against_a_vote_is_found_whenever_the_vote_was() {
        let against = lines([proposed(), voted("a", true), voted("b", false), decided("a", true)]);
        fails(&CHECKER, against, "although b has voted no", &[2, 3]);
        let later = lines([voted("a", true), decided("a", true), voted("b", false)]);
        fails(&CHECKER, later, "b has voted no on", &[1, 2]);
    }

    #[test]
    fn commit_without_a_vote_is_found() {
        let lines = lines([proposed(), voted("a", true), decided("a", true), voted("b", true)]);
        fails(&CHECKER, lines, "without the vote of b", &[0, 2]);
    }

    #[test]
    fn a_site_does_not_vote_both_ways() {
        fails(
            &CHECKER,
            lines([voted("a", false), voted("b", true), voted("a", true)]),
            "both ways",
            &[0, 2],
        );
        passes(&CHECKER, lines([voted("a", true), voted("a", true)]));
    }

    #[test]
    fn transactions_have_nothing_to_do_with_each_other() {
        let other = Commit::Decided { txn: "u".into(), site: "a".into(), commit: false };
        passes(&CHECKER, lines([voted("a", true), decided("a", true), other]));
    }
}
