use std::sync::Arc;

use proptest::prelude::*;
use zk_curator_proto::ErrorCode;

use super::*;
use crate::ids::MemberId;

const MEMBERS: usize = 5;

#[derive(Debug, Clone)]
enum Event {
    Up(MemberId, bool),
    Held(MemberId, bool),
    AllHeld(bool),
    Apart(MemberId, bool),
    Split(MemberId),
    ChangeLeader(Option<MemberId>),
    Lag(MemberId, Option<u64>),
    EndLags,
    Commit(u16),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let member = || 0..MEMBERS;
    prop_oneof![
        (member(), any::<bool>()).prop_map(|(at, up)| Event::Up(at, up)),
        (member(), any::<bool>()).prop_map(|(at, held)| Event::Held(at, held)),
        any::<bool>().prop_map(Event::AllHeld),
        (member(), any::<bool>()).prop_map(|(at, apart)| Event::Apart(at, apart)),
        member().prop_map(Event::Split),
        proptest::option::of(member()).prop_map(Event::ChangeLeader),
        (member(), proptest::option::of(1..50u64)).prop_map(|(at, delay)| Event::Lag(at, delay)),
        Just(Event::EndLags),
        (1..4u16).prop_map(Event::Commit),
        (0..30u64).prop_map(Event::Pass),
    ]
}

/// A quorum, with the committed and applied transactions as members see them.
struct Ensemble {
    quorum: Quorum,
    now: u64,
    lags: Vec<(MemberId, u64)>,
    committed: Vec<i64>,
    applied: [Vec<i64>; MEMBERS],
}

impl Ensemble {
    fn new() -> Self {
        let quorum = Quorum::new(MEMBERS, false);
        let mut ensemble = Self {
            quorum,
            now: 0,
            lags: Vec::new(),
            committed: Vec::new(),
            applied: Default::default(),
        };
        (0..MEMBERS).for_each(|at| ensemble.quorum.set_up(at, true));
        ensemble.settle();
        ensemble
    }

    fn settle(&mut self) {
        let settlement = self.quorum.settle();
        self.carry_out(settlement);
    }

    fn carry_out(&mut self, settlement: Settlement) {
        for Shift { member, copies, .. } in settlement.shifts {
            if let Some(from) = copies {
                self.applied[member] = self.applied[from].clone();
            }
        }
        if let Some(leader) = settlement.elected {
            while let Some(entry) = self.quorum.take_next(leader) {
                self.applied[leader].push(entry.zxid);
            }
            self.append(self.quorum.zxid(), Action::Lead);
        }
        self.apply_due();
    }

    fn commit(&mut self) {
        if self.quorum.can_commit() {
            let zxid = self.quorum.next_zxid();
            self.append(zxid, Action::Fail(ErrorCode::NoNode));
            self.apply_due();
        }
    }

    fn append(&mut self, zxid: i64, action: Action) {
        let entry =
            Entry { zxid, time: 0, session: 0, identities: Arc::new([]), action, origin: None };
        self.quorum.append(entry, self.now);
        self.committed.push(zxid);
    }

    fn apply_due(&mut self) {
        for at in 0..MEMBERS {
            while let Some(entry) = self.quorum.take_due(at, self.now) {
                self.applied[at].push(entry.zxid);
            }
        }
        self.quorum.forget_applied();
    }

    fn play(&mut self, event: Event) {
        match event {
            Event::Up(at, up) => self.quorum.set_up(at, up),
            Event::Held(at, held) => self.quorum.set_held(at, held),
            Event::AllHeld(held) => self.quorum.set_all_held(held),
            Event::Apart(at, apart) => self.quorum.set_apart(at, apart),
            Event::Split(at) => self.quorum.split(&[(0..at).collect()]),
            Event::ChangeLeader(to) => {
                if let Some(next) = self.quorum.successor(to) {
                    let settlement = self.quorum.elect(next);
                    self.carry_out(settlement);
                }
            }
            Event::Lag(at, delay) => {
                let number = self.quorum.begin_lag(at, delay);
                self.lags.push((at, number));
            }
            Event::EndLags => {
                for (at, number) in self.lags.drain(..) {
                    self.quorum.end_lag(at, number);
                }
            }
            Event::Commit(entries) => (0..entries).for_each(|_| self.commit()),
            Event::Pass(millis) => self.now += millis,
        }
        self.settle();
    }

    /// Checks the guarantees that every client relies on.
    fn check(&self) {
        assert!(
            self.committed.is_sorted_by(|one, other| one < other),
            "one order: {:?}",
            self.committed
        );
        for (at, applied) in self.applied.iter().enumerate() {
            assert!(
                self.committed.starts_with(applied),
                "member {at} applies in order: {applied:?}"
            );
            let behind = (self.committed.len() - applied.len()) as u64;
            assert_eq!(self.quorum.behind(at), behind, "member {at}");
        }
        let leaders: Vec<_> =
            (0..MEMBERS).filter(|at| self.quorum.role(*at) == Role::Leader).collect();
        if let Some(leader) = self.quorum.leader() {
            assert!(leaders.contains(&leader) && self.quorum.is_up(leader));
            assert_eq!(self.applied[leader], self.committed, "a leader never lags");
            let (synced, lagging) = self.quorum.follower_counts();
            assert!((1 + synced + lagging) * 2 > MEMBERS, "a majority follows");
        }
    }
}

proptest! {
    #[test]
    fn members_apply_prefixes_of_one_order(events in proptest::collection::vec(event(), 1..60)) {
        let mut ensemble = Ensemble::new();
        for event in events {
            ensemble.play(event);
            ensemble.check();
        }
    }
}

#[test]
fn the_longest_log_wins_an_election() {
    let mut ensemble = Ensemble::new();
    for at in [3, 4] {
        ensemble.play(Event::Up(at, false));
    }
    ensemble.play(Event::Commit(3));
    for at in [0, 1, 2] {
        ensemble.play(Event::Up(at, false));
    }
    for at in [3, 4, 0] {
        assert_eq!((ensemble.quorum.leader(), ensemble.quorum.can_commit()), (None, false));
        ensemble.play(Event::Up(at, true));
    }
    assert_eq!(ensemble.quorum.leader(), Some(0));
    ensemble.check();
    assert!([0, 3, 4].into_iter().all(|at| ensemble.applied[at] == ensemble.committed));
}

#[test]
fn a_member_that_missed_too_much_copies_the_leader() {
    let mut ensemble = Ensemble::new();
    ensemble.play(Event::Up(0, false));
    (0..=10_000).for_each(|_| ensemble.commit());
    ensemble.quorum.set_up(0, true);
    let settlement = ensemble.quorum.settle();
    let copied: Vec<_> =
        settlement.shifts.iter().map(|shift| (shift.member, shift.copies)).collect();
    assert_eq!(copied, [(0, ensemble.quorum.leader())]);
    ensemble.carry_out(settlement);
    ensemble.check();
}
