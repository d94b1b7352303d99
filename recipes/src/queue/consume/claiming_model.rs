//! Plays a consumer that claims items, while other clients put, claim, release and acknowledge
//! items at every moment.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::claiming::{ClaimAction, ClaimReport, Claiming};
use crate::queue::feed::effects::{FeedEffect, FeedInput, ListingOptions, ParentStat};
use crate::queue::feed::items::SeenItem;
use crate::queue::feed::machine::FeedMachine;
use crate::queue::wire::name::{NamingRules, priority};

/// The state of an item at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Ours,
    Others,
}

struct Play {
    kind: NamingRules,
    items: BTreeMap<String, State>,
    stat: ParentStat,
    feed: FeedMachine,
    claiming: Claiming,
    /// The claims that are under way.
    sent: VecDeque<String>,
    handed_out: Vec<String>,
    now: Instant,
}

impl Play {
    fn new(kind: NamingRules, prefetch: usize) -> Self {
        let mut claiming = Claiming::new(true);
        claiming.prefetch = prefetch;
        Self {
            kind,
            items: BTreeMap::new(),
            stat: ParentStat { czxid: 1, cversion: 0, children: 0 },
            feed: FeedMachine::new(kind, 1),
            claiming,
            sent: VecDeque::new(),
            handed_out: Vec::new(),
            now: Instant::now(),
        }
    }

    fn put(&mut self, rank: i32) {
        let middle =
            if self.kind == NamingRules::Priority { priority(rank) } else { String::new() };
        let number = self.stat.cversion;
        self.items.insert(format!("{}{middle}{number:010}", self.kind.tag()), State::Free);
        self.stat =
            ParentStat { cversion: number + 1, children: self.stat.children + 1, ..self.stat };
    }

    fn remove(&mut self, name: &str) {
        self.items.remove(name);
        self.stat.cversion += 1;
        self.stat.children -= 1;
    }

    /// The other clients do something.
    fn act(&mut self, act: u8) {
        let find =
            |state| self.items.iter().find(|(_, is)| **is == state).map(|(name, _)| name.clone());
        match (act % 8, find(State::Free), find(State::Others)) {
            (1, _, _) => self.put(i32::from(act / 8 % 3)),
            (2, Some(name), _) => drop(self.items.insert(name, State::Others)),
            (3, _, Some(name)) => drop(self.items.insert(name, State::Free)),
            (4, _, Some(name)) => self.remove(&name),
            _ => {}
        }
    }

    fn list(&mut self) {
        let order = ListingOptions { is_watched: false, is_guarded: true, enough: 1 };
        assert_eq!(
            self.feed.step(FeedInput::List(order), self.now),
            FeedEffect::ListParent { is_watched: false }
        );
        let names = self.items.keys().cloned().collect();
        let listed = self.feed.step(FeedInput::Parent(Some((names, self.stat))), self.now);
        assert_eq!(listed, FeedEffect::Done);
    }

    fn step(&mut self, outcome: ClaimReport) {
        self.claiming.step(&mut self.feed, outcome, self.now);
        self.sent.truncate(self.claiming.under_way());
    }

    /// Performs one action. Returns whether there was one.
    fn perform(&mut self) -> bool {
        match self.claiming.next(&mut self.feed, 0) {
            ClaimAction::Report(name) => panic!("{name} is an item"),
            ClaimAction::Refresh => {
                let is_due = self.feed.is_refresh_due() && self.feed.has_list(true);
                let is_new = is_due && self.feed.refreshed(Some(self.stat));
                self.step(ClaimReport::Refreshed(is_new));
            }
            ClaimAction::ListOthers(name) => {
                self.list();
                self.feed.items.remove(&name);
                self.step(ClaimReport::OthersListed);
            }
            ClaimAction::Scout { names, .. } => {
                let seen = names.iter().map(|name| match self.items.get(name) {
                    Some(State::Free) => SeenItem::Free,
                    Some(_) => SeenItem::Claimed(format!("/{name}")),
                    None => SeenItem::Gone,
                });
                self.step(ClaimReport::Scouted(seen.collect()));
            }
            ClaimAction::Claim { names, .. } => {
                self.sent.extend(names);
                assert!(self.sent.len() <= self.claiming.prefetch);
            }
            ClaimAction::Await => {
                let name = self.sent.pop_front().unwrap();
                let others =
                    |on| ClaimReport::Others { on, round_trip: Duration::ZERO, by_chance: 0.5 };
                let outcome = match self.items.get(&name) {
                    Some(State::Free) => {
                        // The claim that was held before is released for it.
                        self.items.values_mut().filter(|state| **state == State::Ours).for_each(
                            |state| {
                                *state = State::Free;
                            },
                        );
                        self.items.insert(name, State::Ours);
                        ClaimReport::Ours
                    }
                    Some(_) => others(Some(format!("/{name}"))),
                    None => others(None),
                };
                self.step(outcome);
            }
            ClaimAction::HandOut(name) => {
                assert_eq!(self.items.get(&name), Some(&State::Ours), "{name} is not ours");
                self.remove(&name);
                self.feed.took();
                self.handed_out.push(name);
            }
            ClaimAction::End => return false,
        }
        true
    }

    fn play(&mut self, acts: &[u8]) {
        self.claiming.begin(&mut self.feed, self.now);
        for act in acts {
            self.act(*act);
            if !self.perform() {
                self.list();
                self.claiming.begin(&mut self.feed, self.now);
            }
        }
        // The other clients release their claims, and leave.
        self.items
            .values_mut()
            .filter(|state| **state == State::Others)
            .for_each(|state| *state = State::Free);
        for _ in 0..10_000 {
            if self.items.is_empty() {
                return;
            }
            if !self.perform() {
                self.now += Duration::from_secs(1);
                self.list();
                self.claiming.begin(&mut self.feed, self.now);
            }
        }
        panic!("{:?} are never delivered: {:?}", self.items, self.claiming);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_item_is_delivered_once_under_a_claim(
        kind in prop::sample::select(vec![NamingRules::Plain, NamingRules::Priority]),
        prefetch in 1..5_usize,
        acts in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut play = Play::new(kind, prefetch);
        play.play(&acts);
        let distinct: BTreeSet<&String> = play.handed_out.iter().collect();
        prop_assert_eq!(distinct.len(), play.handed_out.len());
    }

    #[test]
    fn better_items_that_arrive_later_are_delivered_first(
        prefetch in 1..5_usize,
        ranks in prop::collection::vec(0..5_i32, 1..20),
        late in prop::collection::vec(0..5_i32, 1..5),
    ) {
        let mut play = Play::new(NamingRules::Priority, prefetch);
        ranks.iter().for_each(|rank| play.put(*rank));
        play.list();
        play.claiming.begin(&mut play.feed, play.now);
        while play.handed_out.is_empty() {
            play.perform();
        }
        late.iter().for_each(|rank| play.put(*rank));
        let expected: Vec<String> = play.items.keys().cloned().collect();
        play.play(&[]);
        // One may already be in flight.
        let rest = &play.handed_out[1..];
        let is_late = |name: &&String| expected.iter().position(|other| other == *name);
        let places: Vec<_> = rest.iter().skip(1).filter_map(|name| is_late(&name)).collect();
        prop_assert!(places.is_sorted(), "{:?}", play.handed_out);
    }
}
