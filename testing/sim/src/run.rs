//! One run: creates the world, plays the run, and judges it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::runtime::{Builder, Handle};

use crate::checkers::Violation;
use crate::outcome::{Outcome, RunStats};
use crate::seed;
use crate::sim::Sim;
use crate::world::World;

impl Sim {
    /// Runs the simulation. If the current thread belongs to a tokio runtime, the run has a thread
    /// of its own. During the run, the `fastrand` generator of its thread has a seed derived from
    /// that of the run.
    ///
    /// # Panics
    /// Panics when no runtime or thread can be started.
    #[must_use]
    pub fn run(&self) -> Outcome {
        if Handle::try_current().is_ok() {
            return std::thread::scope(|scope| match scope.spawn(|| self.run_here()).join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
        }
        self.run_here()
    }

    fn run_here(&self) -> Outcome {
        let before = fastrand::get_seed();
        // Covers code that draws without a seed of its own, such as the passwords of the servers.
        fastrand::seed(seed::of(self.seed, "others", 0));
        let settings = self.chosen_settings();
        let threads = Arc::new(AtomicU32::new(0));
        let started = Arc::clone(&threads);
        let mut builder = Builder::new_current_thread();
        builder.on_thread_start(move || {
            started.fetch_add(1, Ordering::Relaxed);
        });
        let runtime = match builder.enable_time().start_paused(true).build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("cannot start a runtime: {error}"),
        };
        let outcome = runtime.block_on(async {
            let world = match World::new(self, &settings).await {
                Ok(world) => world,
                Err(error) => panic!("cannot start {} servers: {error}", self.servers),
            };
            world.play().await
        });
        // Dropping the runtime waits for the threads of the runtime, if there are any.
        drop(runtime);
        fastrand::seed(before);
        if threads.load(Ordering::Relaxed) > 0 {
            let broken = "a process has work done by other threads, by spawn_blocking or files: they are not simulated";
            outcome.run.fail(Violation::new("strays", broken, Vec::new()));
        }
        let history = outcome.run.history();
        let mut stats = RunStats {
            runs: 1,
            simulated: history.records().last().map(|record| record.at).unwrap_or_default(),
            requests: outcome.requests,
            sessions: outcome.sessions,
            polls: outcome.polls,
            faults: outcome.begun,
            hits: outcome.hits,
            cancelled: outcome.run.cancelled(),
            ..RunStats::default()
        };
        stats.count(&history);
        stats.longest_wait = stats.longest_wait.max(outcome.waited);
        let judged = || self.checkers.iter().find_map(|checker| checker.check(&history).err());
        let violation = outcome.run.violation().or_else(judged);
        Outcome {
            violation,
            history,
            faults: outcome.faults,
            injected: outcome.injected,
            points: outcome.points,
            unplayed: outcome.unplayed,
            writes: outcome.writes,
            undisturbed_since: outcome.undisturbed_since,
            settings,
            stats,
        }
    }
}
