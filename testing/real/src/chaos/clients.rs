//! The clients of a run, and what happens to them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::journal::Journal;
use super::link::Link;
use super::process::Process;
use super::schedule::{Fault, Schedule, Step, Target};
use super::worker::Life;
use super::{ChaosError, servers, sleep_or_over};
use zk_curator_sim::Event;
use zk_curator_sim::history::ProcessId;

/// What is common to all that is disturbed.
#[derive(Debug, Clone)]
pub(super) struct Weather {
    pub(super) seed: u64,
    pub(super) session_timeout: Duration,
    pub(super) journal: Journal,
    /// The servers, not through a proxy.
    pub(super) servers: String,
    /// The faults are over.
    pub(super) over: CancellationToken,
}

/// A client, over all its lives.
#[derive(Debug)]
pub(super) struct Client {
    /// Which scenario.
    pub(super) scenario: usize,
    /// Of all clients of the run.
    pub(super) index: u32,
    /// Its first life.
    pub(super) life: Life,
    pub(super) link: Link,
    pub(super) lives: AtomicU32,
    /// It has acquired something.
    pub(super) granted: Arc<Notify>,
    pub(super) weather: Weather,
}

impl Client {
    /// The name of its present life, or of the last.
    pub(super) fn who(&self) -> ProcessId {
        ProcessId::Client { number: self.life.number, incarnation: self.lives.load(Ordering::Relaxed) }
    }

    fn schedule(&self, target: Target) -> Schedule {
        Schedule::new(self.weather.seed, target, self.weather.session_timeout)
    }

    /// Waits for the time of a step. Whether the faults are over by then.
    async fn waited_until_over(&self, step: &Step) -> bool {
        let over = &self.weather.over;
        if sleep_or_over(step.after, over).await {
            return true;
        }
        if step.when_granted {
            let soon = sleep_or_over(self.weather.session_timeout, over);
            tokio::select! {
                biased;
                () = self.granted.notified() => {}
                _ = soon => {}
            }
        }
        over.is_cancelled()
    }

    fn tell(&self, fault: Fault, lasting: Duration) {
        let text = format!("{fault}, for {lasting:.1?}");
        self.weather.journal.client_fault(self.scenario, self.who(), fault.kind(), text);
    }

    /// Starts its process, then stops and kills it, until the faults are over. Returns the process that runs then, or
    /// has ended by itself.
    pub(super) async fn live(self: Arc<Self>, program: Arc<Path>) -> Result<Process, ChaosError> {
        let Weather { journal, over, .. } = &self.weather;
        let start = || {
            let incarnation = self.lives.load(Ordering::Relaxed);
            let life = self.life.reborn(incarnation);
            Process::start(&program, &life, self.scenario, journal, &self.granted)
        };
        let mut process = start()?;
        for step in self.schedule(Target::Process(self.index)) {
            if self.waited_until_over(&step).await || process.has_ended()? {
                break;
            }
            let Step { fault, lasting, .. } = step;
            self.tell(fault, lasting);
            if fault == Fault::KillClient {
                process.kill().await?;
                journal.client(self.scenario, self.who(), Event::Killed);
                sleep_or_over(lasting, over).await;
                self.lives.fetch_add(1, Ordering::Relaxed);
                process = start()?;
            } else {
                process.stop()?;
                sleep_or_over(lasting, over).await;
                process.resume()?;
            }
        }
        Ok(process)
    }

    /// Disturbs its network until the faults are over.
    pub(super) async fn disturb_link(self: Arc<Self>) {
        let over = &self.weather.over;
        for step in self.schedule(Target::Link(self.index)) {
            if self.waited_until_over(&step).await {
                break;
            }
            let Step { fault, lasting, .. } = step;
            self.tell(fault, lasting);
            self.link.inject(fault);
            sleep_or_over(lasting, over).await;
            self.link.heal(fault);
        }
    }

    /// Ends its session now and then, until the faults are over.
    pub(super) async fn end_sessions(self: Arc<Self>) {
        let Weather { journal, servers, session_timeout, .. } = &self.weather;
        for step in self.schedule(Target::Session(self.index)) {
            if self.waited_until_over(&step).await {
                break;
            }
            let Step { fault, lasting, .. } = step;
            self.tell(fault, lasting);
            // From here on it may be over, and what was acquired up to the end of this was acquired in it.
            journal.client(self.scenario, self.who(), Event::Expired);
            for session in self.link.sessions() {
                servers::end_session(servers, session, *session_timeout).await;
            }
            journal.client(self.scenario, self.who(), Event::Expired);
        }
    }
}
