//! The driver of the machine: waits for inputs, and performs effects.

use std::future::{pending, ready};
use std::time::Duration;
use std::{io, mem};

use futures_util::future::{BoxFuture, Fuse, FusedFuture, FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nix::sys::signal::Signal;
use tokio::time::Instant;
use zk_curator::ConnectionState;
use zk_curator::state::StateWatch;
use zk_curator_client::internal::{HUP, is_heeded, sleep_until};

use super::machine::{
    CommandEnding, Orders, PassedSignal, StopReason, SuperviseEffect, SuperviseInput,
    SuperviseMachine, SupervisePlan,
};
use super::process::{ProcessEvent, ProcessGroup};
use super::signals::Signals;
use super::talk::Talk;
use super::tenure::Tenure;

/// The greatest time between two checks of the clock. The clock may jump when a machine was
/// suspended, and timers do not notice that. With a short session timeout, it is a tenth of that.
const BEAT: Duration = Duration::from_secs(1);

/// The longest time by which KILL comes before the end of the session: the time of a busy machine
/// to deliver it.
const MARGIN: Duration = Duration::from_millis(100);

/// A lock, a leadership or a membership that is held while a command runs.
pub(crate) struct SupervisedHold<'a> {
    pub(crate) tenure: &'a dyn Tenure,
    /// The word for it, for people.
    pub(crate) what: &'static str,
    /// Resolves when another client has asked for it, or it is lost.
    pub(crate) asked: BoxFuture<'a, ()>,
    /// Tells that client that it was heard.
    pub(crate) acknowledge: BoxFuture<'a, ()>,
    /// Takes the command out of traffic.
    pub(crate) drain: LocalBoxFuture<'a, ()>,
}

impl<'a> SupervisedHold<'a> {
    /// A hold that nobody asks for.
    pub(crate) fn of(tenure: &'a dyn Tenure, what: &'static str) -> Self {
        let (asked, acknowledge) = (Box::pin(pending()), Box::pin(pending()));
        Self { tenure, what, asked, acknowledge, drain: Box::pin(pending()) }
    }
}

/// Runs a command to its end, and stops it when the lock is lost.
pub(crate) async fn supervise(
    hold: SupervisedHold<'_>,
    group: ProcessGroup,
    plan: SupervisePlan,
    signals: &mut Signals,
    talk: &Talk,
) -> CommandEnding {
    let tenure = hold.tenure;
    let session = tenure.session_timeout();
    let SupervisedHold { what, asked, acknowledge, drain, .. } = hold;
    let driver = SuperviseDriver {
        machine: SuperviseMachine::new(plan),
        tenure,
        what,
        asked: asked.fuse(),
        acknowledge: acknowledge.boxed_local(),
        drain,
        beside: FuturesUnordered::new(),
        session,
        orders: Orders::default(),
        margin: MARGIN.min(session / 20),
        states: tenure.states(),
        valid_until: tenure.valid_until().unwrap_or_else(Instant::now),
        group,
        signals,
        talk,
    };
    driver.run().await
}

struct SuperviseDriver<'a> {
    machine: SuperviseMachine,
    tenure: &'a dyn Tenure,
    what: &'static str,
    asked: Fuse<BoxFuture<'a, ()>>,
    acknowledge: LocalBoxFuture<'a, ()>,
    drain: LocalBoxFuture<'a, ()>,
    /// Those of the last two that the machine has asked for.
    beside: FuturesUnordered<LocalBoxFuture<'a, ()>>,
    group: ProcessGroup,
    signals: &'a mut Signals,
    talk: &'a Talk,
    /// The session timeout.
    session: Duration,
    /// The orders that the process which watches this one has.
    orders: Orders,
    /// The time between KILL and the end of the session.
    margin: Duration,
    states: Option<StateWatch>,
    /// The latest time until which the session was known to be alive.
    valid_until: Instant,
}

impl SuperviseDriver<'_> {
    async fn run(mut self) -> CommandEnding {
        loop {
            self.order();
            let input = self.next().await;
            // The input may have waited for a process that was stopped: the clock comes first.
            for input in self.overdue().into_iter().chain(input) {
                if let Some(ending) = self.step(input) {
                    return ending;
                }
            }
        }
    }

    /// Returns the next input; `None` if only the clock has to be checked. Inputs that stop the
    /// command come first.
    async fn next(&mut self) -> Option<SuperviseInput> {
        let (tenure, is_lost) = (self.tenure, self.machine.is_lost());
        let timer = self.machine.timer();
        let beat = self.beat();
        tokio::select! {
            biased;
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => {
                Some(SuperviseInput::Timer)
            }
            () = tenure.over(), if !is_lost => Some(SuperviseInput::Lost),
            () = &mut self.asked, if !is_lost && !self.asked.is_terminated() => {
                Some(if tenure.is_over() { SuperviseInput::Lost } else { SuperviseInput::Revoked })
            }
            change = next_change(&mut self.states, tenure) => Some(match change {
                HoldChange::Suspended => {
                    self.look_at_clock();
                    SuperviseInput::Suspended { until: self.until() }
                }
                HoldChange::Connected => SuperviseInput::Reconnected,
                HoldChange::Lost => SuperviseInput::Lost,
            }),
            event = self.group.next() => self.event(event),
            signal = self.signals.next() => Some(SuperviseInput::Signal(signal)),
            Some(()) = self.beside.next() => None,
            () = sleep_until(beat) => None,
        }
    }

    fn event(&self, event: io::Result<ProcessEvent>) -> Option<SuperviseInput> {
        match event {
            Ok(ProcessEvent::Exited(code)) => Some(SuperviseInput::Exited(code)),
            Ok(ProcessEvent::Continued) => {
                let what = self.what;
                self.talk.say(format!(
                    "continued: a command cannot be suspended while it holds a {what}"
                ));
                None
            }
            Ok(ProcessEvent::InBackground) => {
                let what = self.what;
                self.talk.say(format!(
                    "stopped: the command uses the terminal, and gets it in the foreground (fg); \
                     it holds the {what} until then"
                ));
                None
            }
            Ok(ProcessEvent::HungUp) if is_heeded(HUP) => {
                Some(SuperviseInput::Signal(PassedSignal::Hangup))
            }
            Ok(ProcessEvent::HungUp) => {
                self.send(Signal::SIGCONT);
                None
            }
            Err(error) => {
                self.talk.say(format!("the command cannot be waited for: {error}"));
                Some(SuperviseInput::Exited(u8::MAX))
            }
        }
    }

    /// Returns the time of the next check of the clock.
    fn beat(&self) -> Instant {
        let now = Instant::now();
        let (until, beat) = (self.until(), BEAT.min(self.session / 10));
        if until > now { until.min(now + beat) } else { now + beat }
    }

    /// Tells the process that watches this one when to stop the command.
    fn order(&mut self) {
        // A membership that outlasts its session needs no orders.
        if self.states.is_none() && !self.machine.is_lost() {
            return;
        }
        self.look_at_clock();
        let orders = self.machine.orders(self.until(), self.session);
        if orders != self.orders {
            self.orders = orders;
            self.group.order(orders);
        }
    }

    /// Returns the time until which the command may run without a response of a server.
    fn until(&self) -> Instant {
        self.valid_until.checked_sub(self.margin).unwrap_or(self.valid_until)
    }

    fn look_at_clock(&mut self) {
        // It is in the past when a server has ended the session, long before its time.
        if let Some(until) = self.tenure.valid_until() {
            self.valid_until = self.valid_until.max(until);
        }
    }

    /// Returns the inputs that follow from the clock alone.
    fn overdue(&mut self) -> Vec<SuperviseInput> {
        if self.machine.is_lost() {
            return Vec::new();
        }
        // If this process was stopped, the other one has sent TERM.
        let is_told = self.orders.terminate.is_some_and(|at| at <= Instant::now());
        self.look_at_clock();
        let until = self.until();
        let overslept = is_told.then_some(SuperviseInput::Overslept { until });
        let suspended = (until <= Instant::now()).then_some(SuperviseInput::Suspended { until });
        let lost = self.tenure.is_over().then_some(SuperviseInput::Lost);
        suspended.into_iter().chain(lost).chain(overslept).collect()
    }

    fn step(&mut self, input: SuperviseInput) -> Option<CommandEnding> {
        let mut ending = None;
        for effect in self.machine.step(Instant::now(), input) {
            match effect {
                SuperviseEffect::Forward(signal) => self.send(signal.number()),
                SuperviseEffect::Terminate(why) => {
                    // First, because a line costs time.
                    self.send(Signal::SIGTERM);
                    self.group.close_deadline();
                    self.talk.say(explain(why, self.what));
                }
                SuperviseEffect::Kill => {
                    self.send(Signal::SIGKILL);
                    self.group.close_deadline();
                }
                SuperviseEffect::Acknowledge => {
                    self.beside.push(mem::replace(&mut self.acknowledge, ready(()).boxed_local()));
                }
                SuperviseEffect::Drain => {
                    self.beside.push(mem::replace(&mut self.drain, ready(()).boxed_local()));
                    self.talk.say("draining; a second signal ends that");
                }
                SuperviseEffect::TellSuspended { until } => {
                    let left = until.saturating_duration_since(Instant::now()).as_secs_f32();
                    let what = self.what;
                    let told =
                        format!("no connection; the {what} is certainly held for {left:.1} s");
                    self.talk.say(told);
                }
                SuperviseEffect::TellReconnected => {
                    self.talk.say(format!("connected again; the {} is still held", self.what));
                }
                SuperviseEffect::Finish(finished) => ending = Some(finished),
            }
        }
        ending
    }

    fn send(&self, signal: Signal) {
        if let Err(error) = self.group.signal(signal) {
            self.talk.say(format!("{signal} could not be sent to the command: {error}"));
        }
    }
}

/// A change of the connection.
enum HoldChange {
    Suspended,
    Connected,
    Lost,
}

/// Returns the next change of the connection. Waits forever after the last one.
async fn next_change(states: &mut Option<StateWatch>, tenure: &dyn Tenure) -> HoldChange {
    loop {
        let status = match states {
            Some(states) => states.next().await,
            None => pending().await,
        };
        let Some(status) = status else {
            *states = None;
            return HoldChange::Lost;
        };
        match status.state {
            ConnectionState::Lost | ConnectionState::Closed => return HoldChange::Lost,
            _ if status.session_epoch != tenure.session_epoch() => return HoldChange::Lost,
            // A server that has lost its quorum does not keep the session alive.
            ConnectionState::Suspended | ConnectionState::ReadOnly => return HoldChange::Suspended,
            ConnectionState::Connected | ConnectionState::Reconnected { .. } => {
                return HoldChange::Connected;
            }
            _ => {}
        }
    }
}

fn explain(why: StopReason, what: &str) -> String {
    match why {
        StopReason::Suspended => {
            format!("no connection: the command is stopped before the {what} can be lost")
        }
        StopReason::Lost => format!("the {what} is lost: the command is stopped"),
        StopReason::Overslept => {
            format!("zkc did not run: the command is stopped before the {what} can be lost")
        }
        StopReason::Revoked => {
            format!("another client asks for the {what}: the command is stopped")
        }
    }
}
