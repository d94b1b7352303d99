//! The inner side of a client in a process of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use zk_curator_client::internal::{Locked, sleep};

use super::settings::Subject;
use super::wire::{Clock, Heard, Told, tell};
use zk_curator_sim::history::{HoldMode, Name, ProcessId, UseOutcome};
use zk_curator_sim::host::{Answered, Remote, seed_of};
use zk_curator_sim::{Client, ClientParts, ClientSettings, Event, Rounds, Run, Workload};

/// The first argument of a client process.
const FLAG: &str = "--client-of-chaos";

/// The interval at which a client measures if it runs.
const HEARTBEAT: Duration = Duration::from_millis(10);
/// A heartbeat with a longer delay counts as a pause of the process.
const LATE: Duration = Duration::from_millis(40);
/// One future in this many is cancelled.
const CANCEL_ONE_IN: u32 = 20;
/// A number above the maximum number of clients of a scenario.
const CLIENTS: u64 = 1000;
/// More rounds of work than the time allows. The last one begins when the faults are over.
const ROUNDS: u32 = 1 << 30;
/// More rounds than the time of one life allows.
const ROUNDS_OF_A_LIFE: u32 = 1 << 20;

/// The parameters of a life of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Life {
    pub(super) scenario: String,
    pub(super) number: u32,
    pub(super) incarnation: u32,
    pub(super) clients: u32,
    pub(super) seed: u64,
    pub(super) connect_string: String,
    pub(super) session_timeout: Duration,
    /// The zero of the clock.
    pub(super) origin: Duration,
}

impl Life {
    /// Returns the arguments of its process.
    pub(super) fn arguments(&self) -> io::Result<[OsString; 2]> {
        Ok([FLAG.into(), serde_json::to_string(self)?.into()])
    }

    /// Returns another life of the same client, with different random choices. Killed processes
    /// have left GUIDs on the servers, which must not occur again.
    pub(super) fn reborn(&self, incarnation: u32) -> Self {
        Self {
            incarnation,
            seed: seed_of(self.seed, "life", u64::from(incarnation)),
            ..self.clone()
        }
    }

    pub(super) const fn who(&self) -> ProcessId {
        ProcessId::Client { number: self.number, incarnation: self.incarnation }
    }
}

/// Does the work of a client, if this process was started for that.
pub(super) fn work_if_client(subjects: &[Subject]) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != FLAG {
        return None;
    }
    let life =
        arguments.next().and_then(|life| serde_json::from_slice(life.as_encoded_bytes()).ok());
    let code = life.and_then(|life: Life| {
        let subject = subjects.iter().find(|subject| subject.name == life.scenario)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build().ok()?;
        Some(runtime.block_on(work(life, subject.sim.subject().workload)))
    });
    Some(code.unwrap_or_else(|| ExitCode::from(2)))
}

async fn work(life: Life, workload: &Workload) -> ExitCode {
    // A panic in any task ends the process.
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        std::process::exit(101);
    }));
    let who = life.who();
    let clock = Clock::with_origin(life.origin);
    let watcher = Arc::new(Watcher {
        who,
        clock,
        numbers: AtomicU64::new(u64::from(life.number)),
        calls: Locked::default(),
    });
    let run = Run::remote(Arc::clone(&watcher) as Arc<dyn Remote>);
    run.set_cancelling(CANCEL_ONE_IN);
    let begun = Rounds::default();
    begun.skip_to(life.incarnation.saturating_mul(ROUNDS_OF_A_LIFE));
    let (said, mut heard) = mpsc::unbounded_channel();
    std::thread::spawn(move || listen(&said));
    let (of_watcher, of_run, rounds) = (Arc::clone(&watcher), run.clone(), begun.clone());
    drop(tokio::spawn(async move {
        while let Some(heard) = heard.recv().await {
            match heard {
                Heard::Used { call, outcome } => of_watcher.answered(call, outcome),
                Heard::FaultsOver => {
                    of_run.set_cancelling(0);
                    rounds.skip_to(ROUNDS - 1);
                    of_run.end_faults();
                }
            }
        }
        // The watching process is gone.
        std::process::exit(1);
    }));
    drop(tokio::spawn(watch_the_clock(clock)));
    let client = Client::new(ClientParts {
        who,
        clients: life.clients,
        rounds: ROUNDS,
        begun,
        manner: ClientSettings::default(),
        seed: life.seed,
        connect_string: life.connect_string,
        connector: None,
        spawner: None,
        session_timeout: life.session_timeout,
        run: run.clone(),
    });
    client.live(workload).await;
    match run.violation() {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            say(&Told::Failed { broken: violation.broken });
            ExitCode::FAILURE
        }
    }
}

/// Reads the lines of the watching process until the end of input.
fn listen(said: &mpsc::UnboundedSender<Heard>) {
    for line in io::stdin().lock().lines() {
        let heard = line.ok().and_then(|line| serde_json::from_str(&line).ok());
        let Some(heard) = heard else { return };
        if said.send(heard).is_err() {
            return;
        }
    }
}

/// Reports when the process did not run, for any reason.
async fn watch_the_clock(clock: Clock) {
    loop {
        let from = clock.now();
        sleep(HEARTBEAT).await;
        let to = clock.now();
        if to.saturating_sub(from) > HEARTBEAT + LATE {
            say(&Told::Stall { from, to });
        }
    }
}

/// Writes a line. Ends the process if the reader is gone.
fn say(line: &Told) {
    if tell(line).is_err() {
        std::process::exit(1);
    }
}

/// The connection of this process to the rest of the run.
struct Watcher {
    who: ProcessId,
    clock: Clock,
    /// The last issued number.
    numbers: AtomicU64,
    calls: Locked<Calls>,
}

/// The callers that wait for a response.
#[derive(Default)]
struct Calls {
    next: u64,
    waiting: BTreeMap<u64, oneshot::Sender<UseOutcome>>,
}

impl Watcher {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock()
    }

    fn answered(&self, call: u64, outcome: UseOutcome) {
        if let Some(waiting) = self.calls().waiting.remove(&call) {
            // The caller may have been cancelled.
            waiting.send(outcome).ok();
        }
    }
}

impl Remote for Watcher {
    fn record(&self, who: ProcessId, event: Event) {
        // The watching process itself records the events of the world.
        if who == self.who {
            say(&Told::Event { at: self.clock.now(), event });
        }
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::now()
    }

    fn number(&self) -> u64 {
        // Numbers begin with the time, so they grow across processes. The lowest digits belong to
        // this client.
        let now = u64::try_from(self.clock.now().as_micros()).unwrap_or_default() * CLIENTS;
        let next = |last: u64| (last + CLIENTS).max(now + last % CLIENTS);
        match self
            .numbers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)))
        {
            Ok(last) | Err(last) => next(last),
        }
    }

    fn use_resource(&self, resource: &Name, mode: HoldMode, token: i64) -> Answered {
        let (answer, answered) = oneshot::channel();
        let call = {
            let mut calls = self.calls();
            calls.next += 1;
            let call = calls.next;
            calls.waiting.insert(call, answer);
            call
        };
        say(&Told::Use { call, resource: Name::clone(resource), mode, token });
        Box::pin(async move {
            match answered.await {
                Ok(outcome) => outcome,
                // The process is about to end.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A killed process leaves GUIDs on the servers. The next life must draw other ones.
    #[test]
    fn no_two_lives_of_a_client_draw_the_same_numbers() {
        let life = Life {
            scenario: String::new(),
            number: 1,
            incarnation: 0,
            clients: 2,
            seed: 7,
            connect_string: String::new(),
            session_timeout: Duration::ZERO,
            origin: Duration::ZERO,
        };
        let seeds: Vec<u64> = (0..3).map(|incarnation| life.reborn(incarnation).seed).collect();
        assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != seeds[2], "{seeds:?}");
        assert_eq!(life.reborn(2), life.reborn(2));
    }
}
