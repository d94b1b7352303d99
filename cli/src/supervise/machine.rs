//! When a command under a lock is stopped: a machine without I/O.

use std::mem;
use std::time::Duration;

use clap::ValueEnum;
use tokio::time::Instant;

use crate::exit::Exit;

/// The reaction to a lost connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnSuspend {
    /// Stop the command just before the session could expire
    Guard,
    /// Stop the command at once
    Stop,
    /// Continue until the session is lost
    Ignore,
}

/// The choices of the user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SupervisePlan {
    pub(crate) on_suspend: OnSuspend,
    /// The time between TERM and KILL.
    pub(crate) grace: Duration,
    /// The time out of traffic before a TERM of the user is passed on. `None`: it is passed on at
    /// once.
    pub(crate) drain: Option<Duration>,
}

/// A signal that is passed on to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassedSignal {
    Interrupt,
    Terminate,
    Hangup,
    Quit,
    User1,
    User2,
    Window,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SuperviseInput {
    /// The connection is gone. The lock is certainly held until this time.
    Suspended {
        until: Instant,
    },
    /// The connection is back, and the lock is still held.
    Reconnected,
    /// The lock is no longer held.
    Lost,
    /// This process was stopped, and another one has told the command to stop. The lock is
    /// certainly held until this time.
    Overslept {
        until: Instant,
    },
    /// Another client has asked for the lock.
    Revoked,
    /// The command has ended with this exit code.
    Exited(u8),
    Signal(PassedSignal),
    /// The time of [`SuperviseMachine::timer`] has come.
    Timer,
}

/// Why the command is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Suspended,
    Lost,
    Overslept,
    Revoked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SuperviseEffect {
    /// Passes a signal to the process group.
    Forward(PassedSignal),
    /// Takes the command out of traffic. [`SuperviseEffect::Forward`] of TERM follows.
    Drain,
    /// Sends TERM to the process group.
    Terminate(StopReason),
    /// Sends KILL to the process group.
    Kill,
    /// Tells the client that has asked for the lock that it was heard. Once.
    Acknowledge,
    /// Says that the connection is gone, and until when the lock is certainly held.
    TellSuspended { until: Instant },
    /// Says that the connection is back.
    TellReconnected,
    /// Releases the lock.
    Finish(CommandEnding),
}

/// How a command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandEnding {
    /// The exit code.
    pub(crate) code: u8,
    /// Why the command was stopped, unless the user or the command itself did: the lock was lost,
    /// and `--on-lost` runs.
    pub(crate) stopped: Option<StopReason>,
    /// A signal has asked for the end.
    pub(crate) by_user: bool,
}

/// When another process stops the command, unless it gets newer orders: this one may not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// The time of TERM; `None` if it was sent already, or is not sent.
    pub(crate) terminate: Option<Instant>,
    /// The time of KILL.
    pub(crate) kill: Option<Instant>,
}

/// The exit code of a command that was stopped because its lock was lost.
const LOST: u8 = Exit::LOCK_LOST.code();

#[derive(Debug)]
pub(crate) struct SuperviseMachine {
    plan: SupervisePlan,
    state: SuperviseState,
    /// Why the command was told to stop, unless by the user.
    why: Option<StopReason>,
    /// No connection brings the lock back.
    is_lost: bool,
    /// It was said that the connection is gone.
    is_told_suspended: bool,
    interrupted: bool,
    /// A signal has asked for the end.
    by_user: bool,
    /// A signal that ends processes was passed on, or will be.
    told_to_end: bool,
    /// The time at which TERM is passed on.
    draining: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum SuperviseState {
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

impl SuperviseMachine {
    pub(crate) const fn new(plan: SupervisePlan) -> Self {
        Self {
            plan,
            state: SuperviseState::Running,
            why: None,
            is_lost: false,
            is_told_suspended: false,
            interrupted: false,
            by_user: false,
            told_to_end: false,
            draining: None,
        }
    }

    /// Returns `true` if no connection brings the lock back.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns the time of the next [`SuperviseInput::Timer`].
    pub(crate) fn timer(&self) -> Option<Instant> {
        let stop = match self.state {
            SuperviseState::Suspended { until } => Some(self.terminate_at(until).unwrap_or(until)),
            SuperviseState::Terminating { grace, until } => grace.into_iter().chain(until).min(),
            SuperviseState::Running | SuperviseState::Killed | SuperviseState::Done => None,
        };
        stop.into_iter().chain(self.draining).min()
    }

    /// Returns the orders for another process. The lock is certainly held until this time, in a
    /// session with this timeout. This process itself sends TERM a little earlier.
    pub(crate) fn orders(&self, until: Instant, session: Duration) -> Orders {
        // A third of the session timeout after the last response, a client has sent the next
        // request. Another third later, it looks for another server.
        let (grace, early) = (self.plan.grace, self.plan.grace.min(session / 3));
        match self.state {
            SuperviseState::Running | SuperviseState::Suspended { .. } => {
                match self.plan.on_suspend {
                    OnSuspend::Guard | OnSuspend::Stop => {
                        Orders { terminate: until.checked_sub(early * 3 / 4), kill: Some(until) }
                    }
                    // The lock is lost then.
                    OnSuspend::Ignore => Orders {
                        terminate: until.checked_add(early / 4),
                        kill: until.checked_add(grace + early / 4),
                    },
                }
            }
            SuperviseState::Terminating { grace, .. } => {
                let held =
                    (!self.is_lost && self.plan.on_suspend != OnSuspend::Ignore).then_some(until);
                Orders { terminate: None, kill: grace.into_iter().chain(held).min() }
            }
            SuperviseState::Killed | SuperviseState::Done => Orders::default(),
        }
    }

    /// Takes an input. Effects that are due by the clock come first, even if the timer is late.
    pub(crate) fn step(&mut self, now: Instant, input: SuperviseInput) -> Vec<SuperviseEffect> {
        let mut effects = Vec::new();
        self.expire(now, &mut effects);
        match input {
            SuperviseInput::Timer => {}
            SuperviseInput::Suspended { until } => self.suspended(now, until, &mut effects),
            SuperviseInput::Reconnected if self.is_lost => {}
            SuperviseInput::Reconnected => match &mut self.state {
                SuperviseState::Suspended { .. } => self.state = SuperviseState::Running,
                SuperviseState::Terminating { until, .. } => *until = None,
                SuperviseState::Running | SuperviseState::Killed | SuperviseState::Done => {}
            },
            SuperviseInput::Overslept { until } => {
                if matches!(self.state, SuperviseState::Running) {
                    self.state = SuperviseState::Suspended { until };
                }
                self.terminate(now, StopReason::Overslept, &mut effects);
            }
            SuperviseInput::Lost => {
                self.is_lost = true;
                self.terminate(now, StopReason::Lost, &mut effects);
            }
            SuperviseInput::Revoked => {
                if !matches!(self.state, SuperviseState::Done) {
                    effects.push(SuperviseEffect::Acknowledge);
                }
                self.terminate(now, StopReason::Revoked, &mut effects);
            }
            SuperviseInput::Signal(signal) => self.signal(now, signal, &mut effects),
            SuperviseInput::Exited(code) => self.exited(code, &mut effects),
        }
        self.expire(now, &mut effects);
        self.tell(input, &mut effects);
        effects
    }

    /// Says that the connection is gone or back, once, while that says something about the lock.
    fn tell(&mut self, input: SuperviseInput, effects: &mut Vec<SuperviseEffect>) {
        if self.is_lost || matches!(self.state, SuperviseState::Killed | SuperviseState::Done) {
            return;
        }
        match input {
            SuperviseInput::Suspended { until }
                if !mem::replace(&mut self.is_told_suspended, true) =>
            {
                effects.push(SuperviseEffect::TellSuspended { until });
            }
            SuperviseInput::Reconnected if mem::replace(&mut self.is_told_suspended, false) => {
                effects.push(SuperviseEffect::TellReconnected);
            }
            _ => {}
        }
    }

    /// Returns the time of TERM without a connection; `None` if it has come already.
    fn terminate_at(&self, until: Instant) -> Option<Instant> {
        until.checked_sub(self.plan.grace)
    }

    fn expire(&mut self, now: Instant, effects: &mut Vec<SuperviseEffect>) {
        match self.state {
            SuperviseState::Suspended { until } if until <= now => {
                self.why = Some(StopReason::Suspended);
                self.kill(effects);
            }
            SuperviseState::Suspended { until }
                if self.terminate_at(until).is_none_or(|at| at <= now) =>
            {
                self.terminate(now, StopReason::Suspended, effects);
            }
            SuperviseState::Terminating { .. } if self.timer().is_some_and(|at| at <= now) => {
                self.kill(effects);
            }
            _ => {}
        }
        if self.draining.is_some_and(|at| at <= now) {
            self.draining = None;
            effects.push(SuperviseEffect::Forward(PassedSignal::Terminate));
        }
    }

    fn suspended(&mut self, now: Instant, until: Instant, effects: &mut Vec<SuperviseEffect>) {
        if self.is_lost || self.plan.on_suspend == OnSuspend::Ignore {
            return;
        }
        match &mut self.state {
            SuperviseState::Running | SuperviseState::Suspended { .. } => {
                self.state = SuperviseState::Suspended { until };
                if self.plan.on_suspend == OnSuspend::Stop {
                    self.terminate(now, StopReason::Suspended, effects);
                }
            }
            SuperviseState::Terminating { until: held, .. } => *held = Some(until),
            SuperviseState::Killed | SuperviseState::Done => {}
        }
    }

    fn terminate(&mut self, now: Instant, why: StopReason, effects: &mut Vec<SuperviseEffect>) {
        let until = match self.state {
            SuperviseState::Running => None,
            SuperviseState::Suspended { until } => Some(until),
            SuperviseState::Terminating { .. } | SuperviseState::Killed | SuperviseState::Done => {
                return;
            }
        };
        self.why = Some(why);
        self.draining = None;
        self.state = SuperviseState::Terminating { grace: now.checked_add(self.plan.grace), until };
        effects.push(SuperviseEffect::Terminate(why));
    }

    fn kill(&mut self, effects: &mut Vec<SuperviseEffect>) {
        self.state = SuperviseState::Killed;
        self.draining = None;
        effects.push(SuperviseEffect::Kill);
    }

    fn signal(&mut self, now: Instant, signal: PassedSignal, effects: &mut Vec<SuperviseEffect>) {
        self.by_user |= signal.ends();
        let is_first = signal == PassedSignal::Terminate && !self.told_to_end;
        match (self.state, self.plan.drain.filter(|_| is_first)) {
            (SuperviseState::Killed | SuperviseState::Done, _) => {}
            (SuperviseState::Running | SuperviseState::Suspended { .. }, Some(drain)) => {
                self.told_to_end = true;
                self.draining = Some(now.checked_add(drain).unwrap_or(now));
                effects.push(SuperviseEffect::Drain);
            }
            _ if signal == PassedSignal::Interrupt && mem::replace(&mut self.interrupted, true) => {
                self.kill(effects);
            }
            _ => {
                if signal.ends() {
                    self.told_to_end = true;
                    self.draining = None;
                }
                effects.push(SuperviseEffect::Forward(signal));
            }
        }
    }

    fn exited(&mut self, code: u8, effects: &mut Vec<SuperviseEffect>) {
        self.draining = None;
        match mem::replace(&mut self.state, SuperviseState::Done) {
            SuperviseState::Done => return,
            SuperviseState::Running | SuperviseState::Suspended { .. } if !self.told_to_end => {}
            // The command is only the first process of its group.
            SuperviseState::Running
            | SuperviseState::Suspended { .. }
            | SuperviseState::Terminating { .. }
            | SuperviseState::Killed => effects.push(SuperviseEffect::Kill),
        }
        let code = if self.why.is_some() { LOST } else { code };
        let ending = CommandEnding { code, stopped: self.why, by_user: self.by_user };
        effects.push(SuperviseEffect::Finish(ending));
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
