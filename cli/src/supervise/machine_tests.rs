use proptest::prelude::*;

use super::*;

const GRACE: u64 = 3;

fn plan(on_suspend: OnSuspend) -> SupervisePlan {
    SupervisePlan { on_suspend, grace: Duration::from_secs(GRACE), drain: None }
}

/// An input in a run, with times in seconds.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The lock is held for this time.
    Suspended(u64),
    Reconnected,
    Lost,
    Revoked,
    Exited(u8),
    Signal(PassedSignal),
    /// This process was stopped. The lock is held for this time.
    Overslept(u64),
}

/// A run: each input comes a time after the one before it.
struct Run {
    machine: SuperviseMachine,
    start: Instant,
    now: u64,
    effects: Vec<(u64, SuperviseEffect)>,
    /// The effects that tell about the connection.
    told: Vec<SuperviseEffect>,
}

/// The end of a command; by a user, as far as the exit code tells.
fn finish(code: u8, stopped: Option<StopReason>) -> SuperviseEffect {
    SuperviseEffect::Finish(CommandEnding { code, stopped, by_user: code > 128 })
}

impl Run {
    fn new(on_suspend: OnSuspend) -> Self {
        Self::with(plan(on_suspend))
    }

    fn with(plan: SupervisePlan) -> Self {
        let machine = SuperviseMachine::new(plan);
        Self { machine, start: Instant::now(), now: 1_000, effects: Vec::new(), told: Vec::new() }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.start + Duration::from_secs(seconds)
    }

    /// Lets the time pass, with the timers on the way.
    fn pass_to(&mut self, end: u64) {
        while let Some(timer) = self.machine.timer() {
            let timer = timer.saturating_duration_since(self.start).as_secs().max(self.now);
            if timer > end {
                break;
            }
            self.now = timer;
            self.step(SuperviseInput::Timer);
        }
        self.now = end;
    }

    fn step(&mut self, input: SuperviseInput) {
        for effect in self.machine.step(self.at(self.now), input) {
            match effect {
                SuperviseEffect::TellSuspended { .. } | SuperviseEffect::TellReconnected => {
                    self.told.push(effect);
                }
                _ => self.effects.push((self.now, effect)),
            }
        }
    }

    fn take(&mut self, after: u64, event: Event) {
        self.pass_to(self.now + after);
        self.step(match event {
            Event::Suspended(held) => SuperviseInput::Suspended { until: self.at(self.now + held) },
            Event::Reconnected => SuperviseInput::Reconnected,
            Event::Lost => SuperviseInput::Lost,
            Event::Revoked => SuperviseInput::Revoked,
            Event::Exited(code) => SuperviseInput::Exited(code),
            Event::Signal(signal) => SuperviseInput::Signal(signal),
            Event::Overslept(held) => SuperviseInput::Overslept { until: self.at(self.now + held) },
        });
    }

    fn first(&self, wanted: impl Fn(&SuperviseEffect) -> bool) -> Option<u64> {
        self.effects.iter().find(|(_, effect)| wanted(effect)).map(|(at, _)| *at)
    }

    fn finish(&self) -> Option<(u8, Option<StopReason>)> {
        self.effects.iter().find_map(|(_, effect)| match effect {
            SuperviseEffect::Finish(ending) => Some((ending.code, ending.stopped)),
            _ => None,
        })
    }
}

/// Checks a run against the promise: the command has ended, or KILL was sent, by the time at
/// which another client can have the lock, or grace after a loss without a warning.
fn check(plan: SupervisePlan, events: &[(u64, Event)]) {
    let (mut run, on_suspend) = (Run::with(plan), plan.on_suspend);
    let mut dead_by: Option<u64> = None;
    let mut exited: Option<(u64, u8)> = None;
    let mut is_lost = false;
    let mut held_until = None;
    let mut stop_by = None;
    for (after, event) in events {
        run.take(*after, *event);
        if let Event::Exited(code) = event {
            exited = exited.or(Some((run.now, *code)));
        }
        // A deadline that has passed is not lifted.
        if dead_by.is_some_and(|at| at <= run.now) || exited.is_some() {
            continue;
        }
        match event {
            Event::Suspended(held) if !is_lost && on_suspend != OnSuspend::Ignore => {
                held_until = Some(run.now + held);
            }
            Event::Overslept(_) => stop_by = stop_by.or(Some(run.now + GRACE)),
            Event::Reconnected if !is_lost => held_until = None,
            Event::Lost | Event::Revoked => {
                is_lost |= matches!(event, Event::Lost);
                stop_by = stop_by.or(Some(run.now + GRACE));
            }
            _ => {}
        }
        dead_by = held_until.into_iter().chain(stop_by).min();
    }
    run.pass_to(run.now + 1_000);

    let killed = run.first(|effect| *effect == SuperviseEffect::Kill);
    let ended = exited.map(|(at, _)| at);
    if let Some(by) = dead_by {
        let dead = killed.into_iter().chain(ended).min();
        assert!(dead.is_some_and(|at| at <= by), "dead at {dead:?}, not {by}: {events:?}");
    }
    let told =
        run.first(|effect| matches!(effect, SuperviseEffect::Terminate(_) | SuperviseEffect::Kill));
    match (exited, run.finish()) {
        (None, finish) => assert_eq!(finish, None, "{events:?}"),
        (Some((_, code)), Some((given, stopped))) => {
            let expected = if stopped.is_some() { LOST } else { code };
            assert_eq!(given, expected, "{events:?}");
            assert!(stopped.is_none() || told.is_some(), "{events:?}");
        }
        (Some(_), None) => panic!("the end of the command is not noticed: {events:?}"),
    }
    let after_end =
        run.effects.iter().skip_while(|(_, effect)| !matches!(effect, SuperviseEffect::Finish(_)));
    assert!(after_end.count() <= 1, "effects after the end: {events:?}");
}

const ALPHABET: [Event; 8] = [
    Event::Overslept(4),
    Event::Suspended(5),
    Event::Suspended(1),
    Event::Reconnected,
    Event::Lost,
    Event::Revoked,
    Event::Exited(7),
    Event::Signal(PassedSignal::Interrupt),
];
const MODES: [OnSuspend; 3] = [OnSuspend::Guard, OnSuspend::Stop, OnSuspend::Ignore];

#[test]
fn the_command_is_dead_in_time_in_every_short_run() {
    let steps: Vec<_> =
        ALPHABET.iter().flat_map(|event| [0, 2].map(|after| (after, *event))).collect();
    for mode in MODES {
        for number in 0..steps.len().pow(4) {
            let digit = |place| steps[number / steps.len().pow(place) % steps.len()];
            check(plan(mode), &[digit(0), digit(1), digit(2), digit(3)]);
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..20u64).prop_map(Event::Suspended),
        (0..20u64).prop_map(Event::Overslept),
        prop::sample::select(&ALPHABET[3..6]),
        any::<u8>().prop_map(Event::Exited),
        prop::sample::select(
            &[PassedSignal::Interrupt, PassedSignal::Terminate, PassedSignal::Window][..]
        )
        .prop_map(Event::Signal),
    ]
}

proptest! {
    #[test]
    fn the_command_is_dead_in_time_in_every_run(
        mode in prop::sample::select(&MODES[..]),
        drain in prop::option::of(0..9u64),
        events in prop::collection::vec((0..8u64, event()), 0..14),
    ) {
        check(SupervisePlan { drain: drain.map(Duration::from_secs), ..plan(mode) }, &events);
    }
}

#[test]
fn guard_terminates_a_grace_time_before_the_deadline() {
    let mut run = Run::new(OnSuspend::Guard);
    run.take(0, Event::Suspended(10));
    run.pass_to(2_000);
    run.take(0, Event::Exited(143));
    let expected = [
        (1_007, SuperviseEffect::Terminate(StopReason::Suspended)),
        (1_010, SuperviseEffect::Kill),
        (2_000, SuperviseEffect::Kill),
        (2_000, finish(LOST, Some(StopReason::Suspended))),
    ];
    assert_eq!(run.effects, expected);
}

#[test]
fn a_short_outage_changes_nothing() {
    let mut run = Run::new(OnSuspend::Guard);
    run.take(0, Event::Suspended(10));
    run.take(6, Event::Reconnected);
    run.take(60, Event::Exited(7));
    assert_eq!(run.effects, [(1_066, finish(7, None))]);
}

#[test]
fn connection_changes_are_printed_once_while_the_lock_is_held() {
    let mut run = Run::new(OnSuspend::Guard);
    for event in [Event::Suspended(10), Event::Suspended(9), Event::Reconnected, Event::Reconnected]
    {
        run.take(1, event);
    }
    let until = run.at(1_011);
    assert_eq!(
        run.told,
        [SuperviseEffect::TellSuspended { until }, SuperviseEffect::TellReconnected]
    );
    for event in [Event::Suspended(10), Event::Lost, Event::Reconnected, Event::Suspended(10)] {
        run.take(1, event);
    }
    assert_eq!(run.told.len(), 3, "{:?}", run.told);
}

/// Other processes of the group would run beside the next holder.
#[test]
fn a_command_that_a_signal_has_ended_leaves_no_process() {
    let mut run = Run::new(OnSuspend::Guard);
    run.take(0, Event::Signal(PassedSignal::Terminate));
    run.take(1, Event::Exited(143));
    let effects: Vec<_> = run.effects.iter().map(|(_, effect)| *effect).collect();
    let expected = [
        SuperviseEffect::Forward(PassedSignal::Terminate),
        SuperviseEffect::Kill,
        finish(143, None),
    ];
    assert_eq!(effects, expected);
}

#[test]
fn the_second_interrupt_kills() {
    let mut run = Run::new(OnSuspend::Guard);
    run.take(0, Event::Signal(PassedSignal::Interrupt));
    run.take(1, Event::Signal(PassedSignal::Terminate));
    run.take(1, Event::Signal(PassedSignal::Interrupt));
    run.take(1, Event::Exited(137));
    let effects: Vec<_> = run.effects.iter().map(|(_, effect)| *effect).collect();
    let expected = [
        SuperviseEffect::Forward(PassedSignal::Interrupt),
        SuperviseEffect::Forward(PassedSignal::Terminate),
        SuperviseEffect::Kill,
        SuperviseEffect::Kill,
        finish(137, None),
    ];
    assert_eq!(effects, expected);
}

fn draining(events: &[(u64, Event)]) -> Vec<(u64, SuperviseEffect)> {
    let drain = Some(Duration::from_secs(10));
    let mut run = Run::with(SupervisePlan { drain, ..plan(OnSuspend::Guard) });
    for (after, event) in events {
        run.take(*after, *event);
    }
    run.effects
}

#[test]
fn a_drained_command_gets_term_later() {
    let term = Event::Signal(PassedSignal::Terminate);
    let effects = draining(&[(0, term), (12, Event::Exited(0))]);
    let expected = [
        (1_000, SuperviseEffect::Drain),
        (1_010, SuperviseEffect::Forward(PassedSignal::Terminate)),
        (1_012, SuperviseEffect::Kill),
        (1_012, SuperviseEffect::Finish(CommandEnding { code: 0, stopped: None, by_user: true })),
    ];
    assert_eq!(effects, expected);
}

#[test]
fn a_second_signal_ends_the_draining() {
    let term = Event::Signal(PassedSignal::Terminate);
    for second in [PassedSignal::Terminate, PassedSignal::Quit] {
        let effects = draining(&[(0, term), (2, Event::Signal(second)), (30, term)]);
        let expected = [
            (1_000, SuperviseEffect::Drain),
            (1_002, SuperviseEffect::Forward(second)),
            (1_032, SuperviseEffect::Forward(PassedSignal::Terminate)),
        ];
        assert_eq!(effects, expected);
    }
}

#[test]
fn a_loss_ends_the_draining() {
    let term = Event::Signal(PassedSignal::Terminate);
    let effects = draining(&[(0, term), (1, Event::Lost), (20, Event::Reconnected)]);
    let expected = [
        (1_000, SuperviseEffect::Drain),
        (1_001, SuperviseEffect::Terminate(StopReason::Lost)),
        (1_004, SuperviseEffect::Kill),
    ];
    assert_eq!(effects, expected);
}

#[test]
fn a_late_timer_kills_at_the_next_input() {
    let mut machine = SuperviseMachine::new(plan(OnSuspend::Guard));
    let now = Instant::now();
    machine.step(now, SuperviseInput::Suspended { until: now + Duration::from_secs(10) });
    let late = machine.step(now + Duration::from_secs(60), SuperviseInput::Reconnected);
    assert_eq!(late, [SuperviseEffect::Kill]);
}

const SESSION: Duration = Duration::from_secs(30);

/// Returns the orders in seconds before or after the time until which the lock is held.
fn orders(run: &Run) -> (Option<f32>, Option<f32>) {
    let until = run.at(100_000);
    let Orders { terminate, kill } = run.machine.orders(until, SESSION);
    let after = |at: Instant| {
        at.saturating_duration_since(until).as_secs_f32()
            - until.saturating_duration_since(at).as_secs_f32()
    };
    (terminate.map(after), kill.map(after))
}

#[test]
fn another_process_stops_the_command_in_time_but_not_first() {
    // TERM of this process comes a grace time before the end.
    for (mode, expected) in [
        (OnSuspend::Guard, (Some(-2.25), Some(0.0))),
        (OnSuspend::Stop, (Some(-2.25), Some(0.0))),
        (OnSuspend::Ignore, (Some(0.75), Some(3.75))),
    ] {
        assert_eq!(orders(&Run::new(mode)), expected, "{mode:?}");
    }
}

#[test]
fn only_another_process_kills_a_command_that_was_stopped() {
    let kill_after = |run: &Run| {
        let Orders { terminate, kill } = run.machine.orders(run.at(100_000), SESSION);
        assert_eq!(terminate, None);
        kill.map(|at| at.saturating_duration_since(run.at(run.now)).as_secs())
    };
    for event in [Event::Lost, Event::Revoked, Event::Overslept(10)] {
        let mut run = Run::new(OnSuspend::Guard);
        run.take(0, event);
        assert_eq!(kill_after(&run), Some(GRACE), "{event:?}");
        run.take(1, Event::Exited(0));
        assert_eq!(kill_after(&run), None, "{event:?}");
    }
    // The lock may be lost before the grace time is over.
    let mut run = Run::new(OnSuspend::Guard);
    run.take(0, Event::Revoked);
    let soon = run.at(run.now + 1);
    assert_eq!(run.machine.orders(soon, SESSION).kill, Some(soon));
}

#[test]
fn a_process_that_has_overslept_stops_its_command() {
    let mut run = Run::new(OnSuspend::Guard);
    run.take(0, Event::Overslept(2));
    // The connection was never lost.
    run.take(1, Event::Reconnected);
    run.take(1, Event::Exited(143));
    let expected = [
        (1_000, SuperviseEffect::Terminate(StopReason::Overslept)),
        (1_002, SuperviseEffect::Kill),
        (1_002, finish(LOST, Some(StopReason::Overslept))),
    ];
    assert_eq!(run.effects, expected);
    let mut late = Run::new(OnSuspend::Guard);
    late.take(0, Event::Overslept(0));
    assert!(late.effects.contains(&(1_000, SuperviseEffect::Kill)));
}
