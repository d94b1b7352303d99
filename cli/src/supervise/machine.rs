//! When a command under a lock is stopped: a machine without I/O.

use std::time::Duration;

use clap::ValueEnum;
use tokio::time::Instant;

use crate::exit::Exit;

/// The reaction to a lost connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnSuspend {
    /// Stop the command before another client can get the lock, and not earlier
    Guard,
    /// Stop the command at once
    Stop,
    /// Continue until the lock is lost
    Ignore,
}

/// The choices of the user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) on_suspend: OnSuspend,
    /// The time between TERM and KILL.
    pub(crate) grace: Duration,
    /// The time out of traffic before a TERM of the user is passed on. `None`: it is passed on at
    /// once.
    pub(crate) drain: Option<Duration>,
}

/// A signal that is passed on to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    Interrupt,
    Terminate,
    Hangup,
    Quit,
    User1,
    User2,
    Window,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// The connection is gone. The lock is certainly held until this time.
    Suspended {
        until: Instant,
    },
    /// The connection is back, and the lock is still held.
    Reconnected,
    /// The lock is no longer held.
    Lost,
    /// Another client has asked for the lock.
    Revoked,
    /// The command has ended with this exit code.
    Exited(u8),
    Signal(Caught),
    /// The time of [`Machine::timer`] has come.
    Timer,
}

/// Why the command is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Suspended,
    Lost,
    Revoked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Passes a signal to the process group.
    Forward(Caught),
    /// Takes the command out of traffic. [`Effect::Forward`] of TERM follows.
    Drain,
    /// Sends TERM to the process group.
    Terminate(Why),
    /// Sends KILL to the process group.
    Kill,
    /// Tells the client that has asked for the lock that it was heard.
    Acknowledge,
    /// Releases the lock. If `stopped` is not `None`, the lock was lost, and `--on-lost` runs.
    Finish { code: u8, stopped: Option<Why> },
}

/// The exit code of a command that was stopped because its lock was lost.
const LOST: u8 = Exit::LOCK_LOST.code();

#[derive(Debug)]
pub(crate) struct Machine {
    plan: Plan,
    state: State,
    /// Why the command was told to stop, unless by the user.
    why: Option<Why>,
    /// No connection brings the lock back.
    is_lost: bool,
    interrupted: bool,
    /// A signal that ends processes was passed on, or will be.
    told_to_end: bool,
    /// The time at which TERM is passed on.
    draining: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The lock is held.
    Running,
    /// There is no connection, and the command may run for now. Only in [`OnSuspend::Guard`].
    Suspended { until: Instant },
    /// TERM was sent. KILL follows after the grace time (`None`: never), or when the lock is no
    /// longer certainly held.
    Terminating { grace: Option<Instant>, until: Option<Instant> },
    /// KILL was sent.
    Killed,
    /// The command has ended.
    Done,
}

impl Machine {
    pub(crate) const fn new(plan: Plan) -> Self {
        Self {
            plan,
            state: State::Running,
            why: None,
            is_lost: false,
            interrupted: false,
            told_to_end: false,
            draining: None,
        }
    }

    /// Returns the time of the next [`Input::Timer`].
    pub(crate) fn timer(&self) -> Option<Instant> {
        let stop = match self.state {
            State::Suspended { until } => Some(self.terminate_at(until).unwrap_or(until)),
            State::Terminating { grace, until } => grace.into_iter().chain(until).min(),
            State::Running | State::Killed | State::Done => None,
        };
        stop.into_iter().chain(self.draining).min()
    }

    /// Takes an input. Effects that are due by the clock come first, even if the timer is late.
    pub(crate) fn step(&mut self, now: Instant, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.expire(now, &mut effects);
        match input {
            Input::Timer => {}
            Input::Suspended { until } => self.suspended(now, until, &mut effects),
            Input::Reconnected if self.is_lost => {}
            Input::Reconnected => match &mut self.state {
                State::Suspended { .. } => self.state = State::Running,
                State::Terminating { until, .. } => *until = None,
                State::Running | State::Killed | State::Done => {}
            },
            Input::Lost => {
                self.is_lost = true;
                self.terminate(now, Why::Lost, &mut effects);
            }
            Input::Revoked => {
                if !matches!(self.state, State::Done) {
                    effects.push(Effect::Acknowledge);
                }
                self.terminate(now, Why::Revoked, &mut effects);
            }
            Input::Signal(signal) => self.signal(now, signal, &mut effects),
            Input::Exited(code) => self.exited(code, &mut effects),
        }
        self.expire(now, &mut effects);
        effects
    }

    /// Returns the time of TERM without a connection; `None` if it has come already.
    fn terminate_at(&self, until: Instant) -> Option<Instant> {
        until.checked_sub(self.plan.grace)
    }

    fn expire(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match self.state {
            State::Suspended { until } if until <= now => {
                self.why = Some(Why::Suspended);
                self.kill(effects);
            }
            State::Suspended { until } if self.terminate_at(until).is_none_or(|at| at <= now) => {
                self.terminate(now, Why::Suspended, effects);
            }
            State::Terminating { .. } if self.timer().is_some_and(|at| at <= now) => {
                self.kill(effects);
            }
            _ => {}
        }
        if self.draining.is_some_and(|at| at <= now) {
            self.draining = None;
            effects.push(Effect::Forward(Caught::Terminate));
        }
    }

    fn suspended(&mut self, now: Instant, until: Instant, effects: &mut Vec<Effect>) {
        if self.is_lost || self.plan.on_suspend == OnSuspend::Ignore {
            return;
        }
        match &mut self.state {
            State::Running | State::Suspended { .. } => {
                self.state = State::Suspended { until };
                if self.plan.on_suspend == OnSuspend::Stop {
                    self.terminate(now, Why::Suspended, effects);
                }
            }
            State::Terminating { until: held, .. } => *held = Some(until),
            State::Killed | State::Done => {}
        }
    }

    fn terminate(&mut self, now: Instant, why: Why, effects: &mut Vec<Effect>) {
        let until = match self.state {
            State::Running => None,
            State::Suspended { until } => Some(until),
            State::Terminating { .. } | State::Killed | State::Done => return,
        };
        self.why = Some(why);
        self.draining = None;
        self.state = State::Terminating { grace: now.checked_add(self.plan.grace), until };
        effects.push(Effect::Terminate(why));
    }

    fn kill(&mut self, effects: &mut Vec<Effect>) {
        self.state = State::Killed;
        self.draining = None;
        effects.push(Effect::Kill);
    }

    fn signal(&mut self, now: Instant, signal: Caught, effects: &mut Vec<Effect>) {
        match self.state {
            State::Killed | State::Done => {}
            State::Running | State::Suspended { .. }
                if signal == Caught::Terminate
                    && !self.told_to_end
                    && let Some(drain) = self.plan.drain =>
            {
                self.told_to_end = true;
                self.draining = Some(now.checked_add(drain).unwrap_or(now));
                effects.push(Effect::Drain);
            }
            _ if signal == Caught::Interrupt && std::mem::replace(&mut self.interrupted, true) => {
                self.kill(effects);
            }
            _ => {
                if signal.ends() {
                    self.told_to_end = true;
                    self.draining = None;
                }
                effects.push(Effect::Forward(signal));
            }
        }
    }

    fn exited(&mut self, code: u8, effects: &mut Vec<Effect>) {
        self.draining = None;
        match std::mem::replace(&mut self.state, State::Done) {
            State::Done => return,
            State::Running | State::Suspended { .. } if !self.told_to_end => {}
            // The command is only the first process of its group.
            State::Running
            | State::Suspended { .. }
            | State::Terminating { .. }
            | State::Killed => effects.push(Effect::Kill),
        }
        let code = if self.why.is_some() { LOST } else { code };
        effects.push(Effect::Finish { code, stopped: self.why });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GRACE: u64 = 3;

    fn plan(on_suspend: OnSuspend) -> Plan {
        Plan { on_suspend, grace: Duration::from_secs(GRACE), drain: None }
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
        Signal(Caught),
    }

    /// A run: each input comes a time after the one before it.
    struct Run {
        machine: Machine,
        start: Instant,
        now: u64,
        effects: Vec<(u64, Effect)>,
    }

    impl Run {
        fn new(on_suspend: OnSuspend) -> Self {
            Self::with(plan(on_suspend))
        }

        fn with(plan: Plan) -> Self {
            let machine = Machine::new(plan);
            Self { machine, start: Instant::now(), now: 1_000, effects: Vec::new() }
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
                self.step(Input::Timer);
            }
            self.now = end;
        }

        fn step(&mut self, input: Input) {
            let effects = self.machine.step(self.at(self.now), input);
            self.effects.extend(effects.into_iter().map(|effect| (self.now, effect)));
        }

        fn take(&mut self, after: u64, event: Event) {
            self.pass_to(self.now + after);
            self.step(match event {
                Event::Suspended(held) => Input::Suspended { until: self.at(self.now + held) },
                Event::Reconnected => Input::Reconnected,
                Event::Lost => Input::Lost,
                Event::Revoked => Input::Revoked,
                Event::Exited(code) => Input::Exited(code),
                Event::Signal(signal) => Input::Signal(signal),
            });
        }

        fn first(&self, wanted: impl Fn(&Effect) -> bool) -> Option<u64> {
            self.effects.iter().find(|(_, effect)| wanted(effect)).map(|(at, _)| *at)
        }

        fn finish(&self) -> Option<(u8, Option<Why>)> {
            self.effects.iter().find_map(|(_, effect)| match effect {
                Effect::Finish { code, stopped } => Some((*code, *stopped)),
                _ => None,
            })
        }
    }

    /// Checks a run against the promise: the command has ended, or KILL was sent, by the time at
    /// which another client can have the lock, or grace after a loss without a warning.
    fn check(plan: Plan, events: &[(u64, Event)]) {
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

        let killed = run.first(|effect| *effect == Effect::Kill);
        let ended = exited.map(|(at, _)| at);
        if let Some(by) = dead_by {
            let dead = killed.into_iter().chain(ended).min();
            assert!(dead.is_some_and(|at| at <= by), "dead at {dead:?}, not {by}: {events:?}");
        }
        let told = run.first(|effect| matches!(effect, Effect::Terminate(_) | Effect::Kill));
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
            run.effects.iter().skip_while(|(_, effect)| !matches!(effect, Effect::Finish { .. }));
        assert!(after_end.count() <= 1, "effects after the end: {events:?}");
    }

    const ALPHABET: [Event; 7] = [
        Event::Suspended(5),
        Event::Suspended(1),
        Event::Reconnected,
        Event::Lost,
        Event::Revoked,
        Event::Exited(7),
        Event::Signal(Caught::Interrupt),
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
            prop::sample::select(&ALPHABET[2..5]),
            any::<u8>().prop_map(Event::Exited),
            prop::sample::select(&[Caught::Interrupt, Caught::Terminate, Caught::Window][..])
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
            check(Plan { drain: drain.map(Duration::from_secs), ..plan(mode) }, &events);
        }
    }

    #[test]
    fn guard_terminates_a_grace_time_before_the_deadline() {
        let mut run = Run::new(OnSuspend::Guard);
        run.take(0, Event::Suspended(10));
        run.pass_to(2_000);
        run.take(0, Event::Exited(143));
        let expected = [
            (1_007, Effect::Terminate(Why::Suspended)),
            (1_010, Effect::Kill),
            (2_000, Effect::Kill),
            (2_000, Effect::Finish { code: LOST, stopped: Some(Why::Suspended) }),
        ];
        assert_eq!(run.effects, expected);
    }

    #[test]
    fn a_short_outage_changes_nothing() {
        let mut run = Run::new(OnSuspend::Guard);
        run.take(0, Event::Suspended(10));
        run.take(6, Event::Reconnected);
        run.take(60, Event::Exited(7));
        assert_eq!(run.effects, [(1_066, Effect::Finish { code: 7, stopped: None })]);
    }

    /// Other processes of the group would run beside the next holder.
    #[test]
    fn a_command_that_a_signal_has_ended_leaves_no_process() {
        let mut run = Run::new(OnSuspend::Guard);
        run.take(0, Event::Signal(Caught::Terminate));
        run.take(1, Event::Exited(143));
        let effects: Vec<_> = run.effects.iter().map(|(_, effect)| *effect).collect();
        let expected = [
            Effect::Forward(Caught::Terminate),
            Effect::Kill,
            Effect::Finish { code: 143, stopped: None },
        ];
        assert_eq!(effects, expected);
    }

    #[test]
    fn the_second_interrupt_kills() {
        let mut run = Run::new(OnSuspend::Guard);
        run.take(0, Event::Signal(Caught::Interrupt));
        run.take(1, Event::Signal(Caught::Terminate));
        run.take(1, Event::Signal(Caught::Interrupt));
        run.take(1, Event::Exited(137));
        let effects: Vec<_> = run.effects.iter().map(|(_, effect)| *effect).collect();
        let expected = [
            Effect::Forward(Caught::Interrupt),
            Effect::Forward(Caught::Terminate),
            Effect::Kill,
            Effect::Kill,
            Effect::Finish { code: 137, stopped: None },
        ];
        assert_eq!(effects, expected);
    }

    fn draining(events: &[(u64, Event)]) -> Vec<(u64, Effect)> {
        let drain = Some(Duration::from_secs(10));
        let mut run = Run::with(Plan { drain, ..plan(OnSuspend::Guard) });
        for (after, event) in events {
            run.take(*after, *event);
        }
        run.effects
    }

    #[test]
    fn a_drained_command_gets_term_later() {
        let term = Event::Signal(Caught::Terminate);
        let effects = draining(&[(0, term), (12, Event::Exited(0))]);
        let expected = [
            (1_000, Effect::Drain),
            (1_010, Effect::Forward(Caught::Terminate)),
            (1_012, Effect::Kill),
            (1_012, Effect::Finish { code: 0, stopped: None }),
        ];
        assert_eq!(effects, expected);
    }

    #[test]
    fn a_second_signal_ends_the_draining() {
        let term = Event::Signal(Caught::Terminate);
        for second in [Caught::Terminate, Caught::Quit] {
            let effects = draining(&[(0, term), (2, Event::Signal(second)), (30, term)]);
            let expected = [
                (1_000, Effect::Drain),
                (1_002, Effect::Forward(second)),
                (1_032, Effect::Forward(Caught::Terminate)),
            ];
            assert_eq!(effects, expected);
        }
    }

    #[test]
    fn a_loss_ends_the_draining() {
        let term = Event::Signal(Caught::Terminate);
        let effects = draining(&[(0, term), (1, Event::Lost), (20, Event::Reconnected)]);
        let expected =
            [(1_000, Effect::Drain), (1_001, Effect::Terminate(Why::Lost)), (1_004, Effect::Kill)];
        assert_eq!(effects, expected);
    }

    #[test]
    fn a_late_timer_kills_at_the_next_input() {
        let mut machine = Machine::new(plan(OnSuspend::Guard));
        let now = Instant::now();
        machine.step(now, Input::Suspended { until: now + Duration::from_secs(10) });
        let late = machine.step(now + Duration::from_secs(60), Input::Reconnected);
        assert_eq!(late, [Effect::Kill]);
    }
}
