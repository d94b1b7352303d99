//! A process: the tasks that were started through one [`Spawn`], which can be stopped and ended
//! together.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Sleep;
use zk_curator_client::internal::{Locked, sleep};
use zk_curator_client::{BackgroundTask, Spawn};

use super::census::TaskCounter;
use super::exhaust::Interruption;

/// The time that a task is late after a fault at a decision point: longer than a client takes to
/// connect again.
pub(crate) const HESITATION: Duration = Duration::from_millis(200);

/// The load of the machine of a process. It decides when a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// One wake-up in this many lets the other ready tasks go first; zero for none.
    pub(crate) yields: u8,
    /// One wake-up in this many is delayed; zero for none.
    pub(crate) delays: u8,
    /// The maximum delay.
    pub(crate) most: Duration,
}

/// The receiver of the events of the tasks of a process.
pub(crate) trait Supervisor: Send + Sync {
    /// Reports that a task has panicked.
    fn panicked(&self, message: String);

    /// Reports that a task has started other tasks outside the simulation. The task is named by its
    /// number in the process, from zero.
    fn strayed(&self, task: u64, strays: usize);

    /// Returns `true` if a task may be polled. The last resort against tasks that never wait.
    fn may_run(&self) -> bool;

    /// Tells what a task does in place of running at this time.
    fn interrupts(&self, task: u64) -> Interruption;
}

/// The tasks of a client. Clones are the same process.
#[derive(Clone)]
pub(crate) struct Process {
    shared: Arc<Shared>,
}

struct Shared {
    supervisor: Arc<dyn Supervisor>,
    census: TaskCounter,
    state: Locked<State>,
    next_task: AtomicU64,
}

struct State {
    run: Run,
    load: Load,
    rng: Rng,
    /// The wakers of tasks that wait until the process is resumed.
    sleepers: Vec<Waker>,
    /// The tasks that have not ended, in the order of their start.
    tasks: Vec<(u64, Arc<Slot>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Runs,
    Stopped,
    Killed,
}

/// The future of a task; `None` after the task has ended.
type Slot = Locked<Option<BackgroundTask>>;

impl Process {
    pub(crate) fn new(
        supervisor: Arc<dyn Supervisor>,
        census: TaskCounter,
        seed: u64,
        load: Load,
    ) -> Self {
        let state = State {
            run: Run::Runs,
            load,
            rng: Rng::with_seed(seed),
            sleepers: Vec::new(),
            tasks: Vec::new(),
        };
        let (state, next_task) = (Locked::new(state), AtomicU64::new(0));
        Self { shared: Arc::new(Shared { supervisor, census, state, next_task }) }
    }

    /// Stops all tasks, as SIGSTOP does. Timers go on: a timer that is due fires late, after the
    /// resume.
    pub(crate) fn stop(&self) {
        let mut state = self.shared.lock();
        if state.run == Run::Runs {
            state.run = Run::Stopped;
        }
    }

    /// Resumes all tasks, as SIGCONT does. Tasks that became ready in between run now.
    pub(crate) fn resume(&self) {
        let mut state = self.shared.lock();
        if state.run == Run::Stopped {
            state.run = Run::Runs;
            let sleepers = std::mem::take(&mut state.sleepers);
            drop(state);
            sleepers.into_iter().for_each(Waker::wake);
        }
    }

    /// Ends all tasks immediately, as SIGKILL does. The tasks are not told; their values are
    /// dropped.
    pub(crate) fn kill(&self) {
        let mut state = self.shared.lock();
        state.run = Run::Killed;
        let (tasks, sleepers) =
            (std::mem::take(&mut state.tasks), std::mem::take(&mut state.sleepers));
        drop(state);
        for (number, slot) in tasks {
            let future = slot.lock().take();
            self.shared.guarded(number, || drop(future));
        }
        sleepers.into_iter().for_each(Waker::wake);
    }

    /// Sets the load of the machine. When the load has no delays, the delayed tasks run now.
    pub(crate) fn set_load(&self, load: Load) {
        let mut state = self.shared.lock();
        state.load = load;
        if load.delays == 0 && state.run == Run::Runs {
            let sleepers = std::mem::take(&mut state.sleepers);
            drop(state);
            sleepers.into_iter().for_each(Waker::wake);
        }
    }

    /// Returns the number of tasks that have not ended.
    pub(crate) fn tasks(&self) -> usize {
        self.shared.lock().tasks.len()
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Process")
            .field("run", &state.run)
            .field("tasks", &state.tasks.len())
            .finish()
    }
}

impl Spawn for Process {
    fn spawn(&self, task: BackgroundTask) {
        let number = self.shared.next_task.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Locked::new(Some(task)));
        let mut state = self.shared.lock();
        if state.run == Run::Killed {
            return;
        }
        state.tasks.push((number, Arc::clone(&slot)));
        drop(state);
        let task = Task {
            process: Arc::clone(&self.shared),
            number,
            slot,
            late: None,
            hesitated: false,
            hesitation: None,
            hesitates_next: false,
        };
        self.shared.census.expect(|| drop(tokio::spawn(task)));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Calls code of a task. That code may panic, or start tasks outside the simulation.
    fn guarded<R>(&self, task: u64, call: impl FnOnce() -> R) -> Option<R> {
        let (result, strays) = self.census.strays(|| catch_unwind(AssertUnwindSafe(call)));
        if strays > 0 {
            self.supervisor.strayed(task, strays);
        }
        let of_panic = |panic: Box<dyn std::any::Any + Send>| {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            text.or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned())
        };
        result.map_err(|panic| self.supervisor.panicked(of_panic(panic))).ok()
    }
}

/// A task of a process.
struct Task {
    process: Arc<Shared>,
    number: u64,
    slot: Arc<Slot>,
    /// The end of the delay of this wake-up.
    late: Option<Pin<Box<Sleep>>>,
    /// `true` if the other tasks were let go first at this wake-up.
    hesitated: bool,
    /// The end of a delay by a fault at a decision point.
    hesitation: Option<Pin<Box<Sleep>>>,
    /// `true` if the task is delayed when the process is resumed.
    hesitates_next: bool,
}

/// The decision about a task that wants to run.
enum Turn {
    Now,
    NotYet,
    Never,
}

impl Task {
    fn turn(&mut self, cx: &mut Context<'_>) -> Turn {
        if let Some(hesitation) = &mut self.hesitation {
            if hesitation.as_mut().poll(cx).is_pending() {
                return Turn::NotYet;
            }
            self.hesitation = None;
        }
        let mut state = self.process.lock();
        match state.run {
            Run::Killed => return Turn::Never,
            Run::Stopped => {
                if !state.sleepers.last().is_some_and(|last| last.will_wake(cx.waker())) {
                    state.sleepers.push(cx.waker().clone());
                }
                return Turn::NotYet;
            }
            // It was stopped before.
            Run::Runs if self.hesitates_next => {
                drop(state);
                self.hesitates_next = false;
                return self.run_late(cx);
            }
            Run::Runs => match self.process.supervisor.interrupts(self.number) {
                Interruption::None => {}
                interruption @ (Interruption::Process | Interruption::ProcessAndTask) => {
                    self.hesitates_next = interruption == Interruption::ProcessAndTask;
                    state.run = Run::Stopped;
                    state.sleepers.push(cx.waker().clone());
                    return Turn::NotYet;
                }
                Interruption::Task => {
                    drop(state);
                    return self.run_late(cx);
                }
            },
        }
        if !self.process.supervisor.may_run() {
            return Turn::NotYet;
        }
        if let Some(late) = &mut self.late {
            if state.load.delays > 0 && late.as_mut().poll(cx).is_pending() {
                // The task was woken when the load had no delays, but now it has some again.
                state.sleepers.push(cx.waker().clone());
                return Turn::NotYet;
            }
            drop(state);
            self.late = None;
            return Turn::Now;
        }
        drop(state);
        if std::mem::take(&mut self.hesitated) { Turn::Now } else { self.hesitate(cx) }
    }

    /// Delays the task by a fault at a decision point.
    fn run_late(&mut self, cx: &mut Context<'_>) -> Turn {
        let mut late = Box::pin(sleep(HESITATION));
        // The timer wakes the task.
        let _pending = late.as_mut().poll(cx);
        self.hesitation = Some(late);
        Turn::NotYet
    }

    /// Lets a loaded process run its tasks in another order, and late.
    fn hesitate(&mut self, cx: &mut Context<'_>) -> Turn {
        let mut state = self.process.lock();
        let State { load, rng, .. } = &mut *state;
        if load.yields > 0 && rng.u8(..load.yields) == 0 {
            self.hesitated = true;
            cx.waker().wake_by_ref();
            return Turn::NotYet;
        }
        if load.delays > 0 && rng.u8(..load.delays) == 0 {
            let most = u64::try_from(load.most.as_micros()).unwrap_or(u64::MAX);
            let mut late = Box::pin(sleep(Duration::from_micros(rng.u64(..=most))));
            if late.as_mut().poll(cx).is_pending() {
                state.sleepers.push(cx.waker().clone());
                drop(state);
                self.late = Some(late);
                return Turn::NotYet;
            }
        }
        Turn::Now
    }

    fn end(&self) {
        self.process.lock().tasks.retain(|(number, _)| *number != self.number);
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.turn(cx) {
            Turn::Now => {}
            Turn::NotYet => return Poll::Pending,
            Turn::Never => return Poll::Ready(()),
        }
        let slot = Arc::clone(&self.slot);
        let mut future = slot.lock();
        let Some(running) = future.as_mut() else {
            return Poll::Ready(());
        };
        match self.process.guarded(self.number, || running.as_mut().poll(cx)) {
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(())) | None => {
                let ended = future.take();
                drop(future);
                self.process.guarded(self.number, || drop(ended));
                self.end();
                Poll::Ready(())
            }
        }
    }
}
