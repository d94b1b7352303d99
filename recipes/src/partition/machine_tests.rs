use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const ME: &str = "m0";

fn pace() -> PartitionTimes {
    PartitionTimes { settle: 2 * SECOND, leave_delay: 3 * SECOND, drain: 10 * SECOND }
}

fn members(ids: &[&str]) -> PartitionInput {
    PartitionInput::Members(
        ids.iter().map(|id| ((*id).to_owned(), MemberRecord::default())).collect(),
    )
}

fn parts(names: &[&str]) -> PartitionInput {
    PartitionInput::Parts(names.iter().map(|name| ((*name).to_owned(), None)).collect())
}

fn name() -> String {
    "s".to_owned()
}

/// A member of one part, and the time.
struct Stage {
    machine: PartitionMachine,
    now: Instant,
}

impl Stage {
    fn new() -> Self {
        let machine = PartitionMachine::new(ME.to_owned(), Method::EveryNth, pace());
        let mut stage = Self { machine, now: Instant::now() };
        assert_eq!(stage.step(parts(&["s"])), []);
        stage
    }

    /// A member that owns its part.
    fn owning() -> Self {
        let mut stage = Self::new();
        stage.step(members(&[ME]));
        assert_eq!(stage.after(2), [PartitionEffect::Acquire(name())]);
        assert_eq!(stage.step(PartitionInput::Granted(name())), [PartitionEffect::Start(name())]);
        stage
    }

    fn step(&mut self, input: PartitionInput) -> Vec<PartitionEffect> {
        self.machine.step(self.now, input)
    }

    fn after(&mut self, seconds: u32) -> Vec<PartitionEffect> {
        self.now += seconds * SECOND;
        self.step(PartitionInput::Timer)
    }
}

#[test]
fn a_part_is_acquired_after_the_group_has_settled() {
    let mut stage = Stage::new();
    assert_eq!(stage.step(members(&[ME])), []);
    assert_eq!(stage.machine.timer(), Some(stage.now + 2 * SECOND));
    assert_eq!(stage.after(1), []);
    assert_eq!(stage.after(1), [PartitionEffect::Acquire(name())]);
    assert_eq!(stage.machine.timer(), None);
}

#[test]
fn more_changes_do_not_put_off_the_assignment() {
    let mut stage = Stage::new();
    stage.step(members(&[ME]));
    stage.now += SECOND;
    // By the order of the ids, the part is ours.
    assert_eq!(stage.step(members(&[ME, "z"])), []);
    assert_eq!(stage.after(1), [PartitionEffect::Acquire(name())]);
}

#[test]
fn a_revoked_part_is_released_when_its_body_ends() {
    let mut stage = Stage::owning();
    stage.step(members(&["a", ME]));
    assert_eq!(stage.after(2), [PartitionEffect::Revoke(name())]);
    assert_eq!(stage.step(PartitionInput::Ended(name())), [PartitionEffect::Release(name())]);
    assert_eq!(stage.step(PartitionInput::Released(name())), []);
    assert!(stage.machine.phases.is_empty());
}

#[test]
fn a_body_that_does_not_end_is_stopped() {
    let mut stage = Stage::owning();
    stage.step(members(&["a", ME]));
    assert_eq!(stage.after(2), [PartitionEffect::Revoke(name())]);
    assert_eq!(stage.after(9), []);
    assert_eq!(stage.after(1), [PartitionEffect::Stop(name())]);
    assert_eq!(stage.after(10), []);
    assert_eq!(stage.step(PartitionInput::Ended(name())), [PartitionEffect::Release(name())]);
}

#[test]
fn a_member_that_comes_back_in_time_moves_nothing() {
    let mut stage = Stage::owning();
    stage.step(members(&["a", ME]));
    stage.after(2);
    stage.step(PartitionInput::Ended(name()));
    stage.step(PartitionInput::Released(name()));
    stage.now += 10 * SECOND;
    stage.step(members(&[ME]));
    assert_eq!(stage.after(2), []);
    stage.step(members(&["a", ME]));
    assert_eq!((stage.machine.timer(), stage.after(9)), (None, vec![]));
    // Without it, the part is ours after the delay.
    stage.step(members(&[ME]));
    assert_eq!(stage.after(2), []);
    assert_eq!(stage.after(1), [PartitionEffect::Acquire(name())]);
}

#[test]
fn a_member_that_never_counted_is_not_waited_for() {
    let mut stage = Stage::new();
    stage.step(members(&["a", ME]));
    stage.now += SECOND;
    stage.step(members(&[ME]));
    assert_eq!(stage.after(1), [PartitionEffect::Acquire(name())]);
}

#[test]
fn a_grant_that_comes_too_late_is_released() {
    let mut stage = Stage::new();
    stage.step(members(&[ME]));
    assert_eq!(stage.after(2), [PartitionEffect::Acquire(name())]);
    stage.step(members(&["a", ME]));
    assert_eq!(stage.after(2), [PartitionEffect::Cancel(name())]);
    assert_eq!(stage.step(PartitionInput::Granted(name())), [PartitionEffect::Release(name())]);
    assert_eq!(stage.step(PartitionInput::Released(name())), []);
}

#[test]
fn a_cancelled_acquire_begins_again_if_the_part_is_ours() {
    let mut stage = Stage::new();
    stage.step(members(&[ME]));
    stage.after(2);
    stage.step(members(&["a", ME]));
    assert_eq!(stage.after(2), [PartitionEffect::Cancel(name())]);
    stage.step(members(&[ME]));
    assert_eq!(stage.after(3), []);
    assert_eq!(stage.step(PartitionInput::Cancelled(name())), [PartitionEffect::Acquire(name())]);
}

#[test]
fn a_body_that_accepts_keeps_a_part_that_comes_back() {
    for accepts in [true, false] {
        let mut stage = Stage::owning();
        stage.step(members(&["a", ME]));
        assert_eq!(stage.after(2), [PartitionEffect::Revoke(name())]);
        stage.step(members(&[ME]));
        assert_eq!(stage.after(3), [PartitionEffect::Reprieve(name())]);
        if accepts {
            assert_eq!(stage.step(PartitionInput::Reprieved(name())), []);
            assert_eq!(stage.after(60), []);
        } else {
            assert_eq!(stage.after(60), [PartitionEffect::Stop(name())]);
            assert_eq!(
                stage.step(PartitionInput::Ended(name())),
                [PartitionEffect::Release(name())]
            );
            assert_eq!(
                stage.step(PartitionInput::Released(name())),
                [PartitionEffect::Acquire(name())]
            );
        }
    }
}

/// A body that has learned that it was revoked, and not that it was reprieved, has not done its
/// work.
#[test]
fn a_part_that_comes_back_rests_if_its_body_ends_by_itself() {
    for by_itself in [true, false] {
        let mut stage = Stage::owning();
        stage.step(members(&["a", ME]));
        assert_eq!(stage.after(2), [PartitionEffect::Revoke(name())]);
        stage.step(members(&[ME]));
        assert_eq!(stage.after(3), [PartitionEffect::Reprieve(name())]);
        assert_eq!(stage.step(PartitionInput::Reprieved(name())), []);
        let ended =
            if by_itself { PartitionInput::Ended(name()) } else { PartitionInput::Left(name()) };
        assert_eq!(stage.step(ended), [PartitionEffect::Release(name())]);
        let next = if by_itself { vec![] } else { vec![PartitionEffect::Acquire(name())] };
        assert_eq!(stage.step(PartitionInput::Released(name())), next);
    }
}

#[test]
fn a_part_whose_body_has_ended_rests_until_the_next_assignment() {
    let mut stage = Stage::owning();
    assert_eq!(stage.step(PartitionInput::Ended(name())), [PartitionEffect::Release(name())]);
    assert_eq!(stage.step(PartitionInput::Released(name())), []);
    assert_eq!(stage.after(60), []);
    stage.step(members(&[ME, "z"]));
    assert_eq!(stage.after(2), [PartitionEffect::Acquire(name())]);
}

#[test]
fn a_lost_part_is_acquired_again_while_it_is_ours() {
    let mut stage = Stage::owning();
    assert_eq!(stage.step(PartitionInput::Lost(name())), [PartitionEffect::Acquire(name())]);
    stage.step(PartitionInput::Granted(name()));
    stage.step(members(&["a", ME]));
    assert_eq!(stage.after(2), [PartitionEffect::Revoke(name())]);
    assert_eq!(stage.step(PartitionInput::Lost(name())), []);
    assert!(stage.machine.phases.is_empty());
}

#[test]
fn a_member_that_closes_is_over_after_the_last_release() {
    let mut stage = Stage::owning();
    let end = stage.now + 4 * SECOND;
    assert_eq!(stage.step(PartitionInput::Close(Some(end))), [PartitionEffect::Revoke(name())]);
    assert_eq!(stage.step(members(&["a", ME])), []);
    assert_eq!(stage.after(4), [PartitionEffect::Stop(name())]);
    assert_eq!(stage.step(PartitionInput::Ended(name())), [PartitionEffect::Release(name())]);
    assert!(!stage.machine.is_over());
    stage.step(PartitionInput::Released(name()));
    assert!(stage.machine.is_over());
}

#[test]
fn two_assignments_are_at_least_one_settle_apart() {
    let mut stage = Stage::new();
    stage.machine.pace.leave_delay = Duration::ZERO;
    stage.step(members(&["a", ME]));
    assert_eq!(stage.after(2), []);
    stage.now += SECOND;
    assert_eq!(stage.step(members(&[ME])), []);
    assert_eq!(stage.after(1), [PartitionEffect::Acquire(name())]);
    stage.now += 5 * SECOND;
    stage.step(members(&["a", ME]));
    stage.after(2);
    stage.now += 5 * SECOND;
    stage.step(PartitionInput::Cancelled(name()));
    // The last assignment is long ago.
    assert_eq!(stage.step(members(&[ME])), [PartitionEffect::Acquire(name())]);
}

/// The work of the driver on a part, as the effects have told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Acquiring,
    Running { is_revoked: bool, is_stopped: bool },
    Releasing,
}

#[derive(Debug, Clone)]
enum Act {
    Members(u8),
    Parts(u8),
    /// The work on a part ends, in the way of this choice.
    Progress(u8, u8),
    Wait(u16),
    Close,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => any::<u8>().prop_map(Act::Members),
        1 => any::<u8>().prop_map(Act::Parts),
        8 => (0..6_u8, any::<u8>()).prop_map(|(part, choice)| Act::Progress(part, choice)),
        4 => (0..5000_u16).prop_map(Act::Wait),
    ];
    let end = prop_oneof![Just(Vec::new()), Just(vec![Act::Close])];
    (proptest::collection::vec(act, 0..80), end).prop_map(|(acts, end)| [acts, end].concat())
}

fn of_bits(prefix: &str, bits: u8) -> Vec<String> {
    (0..6).filter(|bit| bits >> bit & 1 == 1).map(|bit| format!("{prefix}{bit}")).collect()
}

/// A driver that does what it is told, and checks that it can be done.
struct Model {
    machine: PartitionMachine,
    now: Instant,
    doing: BTreeMap<String, Doing>,
}

impl Model {
    fn step(&mut self, input: PartitionInput, accepts: bool) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in self.machine.step(self.now, input) {
                match effect {
                    PartitionEffect::Acquire(part) => {
                        assert_eq!(self.doing.insert(part, Doing::Acquiring), None);
                    }
                    PartitionEffect::Cancel(part) => {
                        assert_eq!(self.doing[&part], Doing::Acquiring);
                    }
                    PartitionEffect::Start(part) => {
                        let running = Doing::Running { is_revoked: false, is_stopped: false };
                        assert_eq!(self.doing.insert(part, running), Some(Doing::Acquiring));
                    }
                    PartitionEffect::Revoke(part) => {
                        let before = self.doing.get_mut(&part).unwrap();
                        assert_eq!(
                            *before,
                            Doing::Running { is_revoked: false, is_stopped: false }
                        );
                        *before = Doing::Running { is_revoked: true, is_stopped: false };
                    }
                    PartitionEffect::Reprieve(part) => {
                        let before = self.doing.get_mut(&part).unwrap();
                        assert_eq!(*before, Doing::Running { is_revoked: true, is_stopped: false });
                        if accepts {
                            *before = Doing::Running { is_revoked: false, is_stopped: false };
                            inputs.push(PartitionInput::Reprieved(part));
                        }
                    }
                    PartitionEffect::Stop(part) => {
                        let before = self.doing.get_mut(&part).unwrap();
                        assert_eq!(*before, Doing::Running { is_revoked: true, is_stopped: false });
                        *before = Doing::Running { is_revoked: true, is_stopped: true };
                    }
                    PartitionEffect::Release(part) => {
                        let before = self.doing.insert(part, Doing::Releasing);
                        // The body has ended, or has not begun.
                        assert_eq!(before, None);
                    }
                }
            }
        }
    }

    fn progress(&mut self, part: &str, choice: u8) {
        let Some(doing) = self.doing.remove(part) else { return };
        let part = part.to_owned();
        let input = match doing {
            Doing::Acquiring if choice & 1 == 0 => {
                // A grant that is not started is released: then nothing is done with the part yet.
                let is_mine = self.machine.mine.contains(&part);
                if is_mine {
                    self.doing.insert(part.clone(), Doing::Acquiring);
                }
                PartitionInput::Granted(part)
            }
            // Only a cancelled acquire ends without a grant.
            Doing::Acquiring if self.machine.phases[&part] == PartitionPhase::Acquiring => {
                self.doing.insert(part, doing);
                return;
            }
            Doing::Acquiring => PartitionInput::Cancelled(part),
            Doing::Running { .. } if choice & 3 == 0 => PartitionInput::Lost(part),
            Doing::Running { .. } if choice & 8 == 0 => PartitionInput::Left(part),
            Doing::Running { .. } => PartitionInput::Ended(part),
            Doing::Releasing => PartitionInput::Released(part),
        };
        self.step(input, choice & 4 == 0);
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Members(bits) => {
                let ids = of_bits("m", *bits);
                let members = ids.into_iter().map(|id| (id, MemberRecord::default()));
                self.step(PartitionInput::Members(members.collect()), bits & 64 == 0);
            }
            Act::Parts(bits) => {
                let parts = of_bits("s", *bits).into_iter().map(|part| (part, None));
                self.step(PartitionInput::Parts(parts.collect()), bits & 64 == 0);
            }
            Act::Progress(part, choice) => self.progress(&format!("s{part}"), *choice),
            Act::Wait(millis) => {
                let until = self.now + Duration::from_millis((*millis).into());
                self.wait_until(until);
            }
            Act::Close => self.step(PartitionInput::Close(Some(self.now + SECOND)), false),
        }
    }

    fn wait_until(&mut self, until: Instant) {
        while let Some(timer) = self.machine.timer().filter(|timer| *timer <= until) {
            self.now = self.now.max(timer);
            self.step(PartitionInput::Timer, true);
            assert!(self.machine.timer() != Some(timer), "the timer does not move on");
        }
        self.now = until;
    }
}

proptest! {
    #[test]
    fn a_member_comes_to_own_what_is_assigned_to_it(
        acts in acts(),
        last in any::<u8>(),
        is_rendezvous in any::<bool>(),
    ) {
        let method =
            if is_rendezvous { Method::BoundedRendezvous } else { Method::EveryNth };
        let mut model = Model {
            machine: PartitionMachine::new(ME.to_owned(), method, pace()),
            now: Instant::now(),
            doing: BTreeMap::new(),
        };
        model.act(&Act::Parts(0b1111));
        acts.iter().for_each(|act| model.act(act));
        if !model.machine.closing {
            // A change, so that parts whose bodies have ended do not rest.
            model.act(&Act::Members(last | 1));
            model.act(&Act::Members(!last & !64 | 1));
        }
        for _ in 0..20 {
            model.wait_until(model.now + 20 * SECOND);
            for part in 0..6 {
                let part = format!("s{part}");
                let keeps = Doing::Running { is_revoked: false, is_stopped: false };
                if model.doing.get(&part) != Some(&keeps) {
                    // Bodies that must end do, and everything else succeeds.
                    model.progress(&part, 0b110);
                    if model.doing.get(&part) == Some(&Doing::Acquiring) {
                        model.progress(&part, 0);
                    }
                }
            }
        }
        let running: BTreeSet<String> = model.doing.keys().cloned().collect();
        prop_assert_eq!(&running, &model.machine.mine);
        prop_assert_eq!(model.machine.is_over(), model.machine.closing);
        let are_owned = model.machine.phases.values().all(|phase| *phase == PartitionPhase::Owned);
        prop_assert!(are_owned, "{:?}", model.machine.phases);
    }
}
