//! The clients of a run, and the faults that happen to them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::sleep;

use super::error::ChaosError;
use super::journal::Journal;
use super::link::Link;
use super::process::Process;
use super::schedule::{Fault, Schedule, Step, Target, sleep_or_over};
use super::servers;
use super::worker::Life;
use zk_curator_sim::history::{Lifecycle, ProcessId};

/// The state that all disturbing tasks share.
#[derive(Debug, Clone)]
pub(super) struct Weather {
    pub(super) seed: u64,
    pub(super) session_timeout: Duration,
    pub(super) journal: Journal,
    /// The addresses of the servers, without a proxy.
    pub(super) servers: String,
    /// Cancelled when the faults are over.
    pub(super) over: CancellationToken,
}

/// A client, for all its lives.
#[derive(Debug)]
pub(super) struct Client {
    /// The number of its scenario.
    pub(super) scenario: usize,
    /// The number of the client among all clients of the run.
    pub(super) index: u32,
    /// Its first life.
    pub(super) life: Life,
    pub(super) link: Link,
    pub(super) lives: AtomicU32,
    /// Notified when the client has acquired a resource.
    pub(super) granted: Arc<Notify>,
    pub(super) weather: Weather,
}

impl Client {
    /// Returns the name of its present life, or of the last one.
    pub(super) fn who(&self) -> ProcessId {
        ProcessId::Client {
            number: self.life.number,
            incarnation: self.lives.load(Ordering::Relaxed),
        }
    }

    fn schedule(&self, target: Target) -> Schedule {
        Schedule::new(self.weather.seed, target, self.weather.session_timeout)
    }

    /// Waits for the time of a step. Returns `true` if the faults are over first.
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

    fn tell(&self, fault: Fault, duration: Duration) {
        let text = format!("{fault}, for {duration:.1?}");
        self.weather.journal.client_fault(self.scenario, self.who(), fault.kind(), text);
    }

    /// Starts the process, and then stops and kills it repeatedly, until the faults are over.
    /// Returns the last process, which is running or has ended by itself.
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
            let Step { fault, duration, .. } = step;
            self.tell(fault, duration);
            if fault == Fault::KillClient {
                process.kill().await?;
                journal.client(self.scenario, self.who(), Lifecycle::Killed);
                sleep_or_over(duration, over).await;
                self.lives.fetch_add(1, Ordering::Relaxed);
                process = start()?;
            } else {
                process.stop()?;
                sleep_or_over(duration, over).await;
                process.resume()?;
            }
        }
        Ok(process)
    }

    /// Disturbs the network of the client until the faults are over.
    pub(super) async fn disturb_link(self: Arc<Self>) {
        let over = &self.weather.over;
        let mut schedule = self.schedule(Target::Link(self.index));
        for step in &mut schedule {
            if self.waited_until_over(&step).await {
                break;
            }
            let Step { fault, duration, .. } = step;
            self.tell(fault, duration);
            self.link.inject(fault);
            sleep_or_over(duration, over).await;
            self.link.heal(fault);
        }
        if let Some((fault, duration)) = schedule.last_fault() {
            self.tell(fault, duration);
            self.link.inject(fault);
            sleep(duration).await;
            self.link.heal(fault);
        }
    }

    /// Ends the session of the client repeatedly, until the faults are over.
    pub(super) async fn end_sessions(self: Arc<Self>) {
        let Weather { journal, servers, session_timeout, .. } = &self.weather;
        for step in self.schedule(Target::Session(self.index)) {
            if self.waited_until_over(&step).await {
                break;
            }
            let Step { fault, duration, .. } = step;
            self.tell(fault, duration);
            // The session may be over from here on. A hold that is acquired before the second
            // record may belong to it.
            journal.client(self.scenario, self.who(), Lifecycle::Expired);
            for session in self.link.sessions() {
                servers::end_session(servers, session, *session_timeout).await;
            }
            journal.client(self.scenario, self.who(), Lifecycle::Expired);
        }
    }
}
