//! What the tasks of a server share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builder::Config;
use crate::rule::Rules;
use crate::signal::Signal;
use crate::snapshot::Snapshot;
use crate::state::State;

/// What keeps bytes from flowing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// The server does nothing.
    pub(crate) held: bool,
    /// The network carries nothing.
    pub(crate) partitioned: bool,
}

/// What the tasks and handles of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Counts changes of the state.
    changed: Signal<u64>,
    blocked: Arc<Signal<Blocked>>,
    rules: Arc<Rules>,
    /// Wakes the task that expires sessions.
    deadlines_changed: Notify,
    /// The current run; `None` while the server is stopped.
    run: Mutex<Option<CancellationToken>>,
    tasks: TaskTracker,
    runtime: Handle,
    max_frame: usize,
}

impl Shared {
    pub(crate) fn new(config: Config, snapshot: Option<Snapshot>) -> Self {
        let tasks = TaskTracker::new();
        tasks.close();
        Self {
            max_frame: config.max_frame,
            state: Mutex::new(State::new(config, snapshot)),
            changed: Signal::default(),
            blocked: Arc::default(),
            rules: Arc::default(),
            deadlines_changed: Notify::new(),
            run: Mutex::default(),
            tasks,
            runtime: Handle::current(),
        }
    }

    /// Looks at the state.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&lock(&self.state))
    }

    /// Changes the state, and tells those who wait for a change.
    pub(crate) fn update<R>(&self, update: impl FnOnce(&mut State) -> R) -> R {
        let result = update(&mut lock(&self.state));
        self.changed.modify(|version| *version = version.wrapping_add(1));
        result
    }

    /// Counts changes.
    pub(crate) const fn changes(&self) -> &Signal<u64> {
        &self.changed
    }

    pub(crate) const fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    pub(crate) const fn max_frame(&self) -> usize {
        self.max_frame
    }

    pub(crate) fn gate(&self) -> Gate {
        Gate { blocked: Arc::clone(&self.blocked) }
    }

    pub(crate) fn block(&self, change: impl FnOnce(&mut Blocked)) {
        self.blocked.modify(change);
    }

    /// Wakes the task that expires sessions: a deadline may be earlier than it knows.
    pub(crate) fn deadlines_changed(&self) {
        self.deadlines_changed.notify_one();
    }

    /// Begins a run; its tasks end when the token is cancelled.
    pub(crate) fn begin(self: &Arc<Self>) -> CancellationToken {
        let run = CancellationToken::new();
        *lock(&self.run) = Some(run.clone());
        self.spawn(expire_sessions(Arc::clone(self), run.clone()));
        self.spawn(reap(Arc::clone(self), run.clone()));
        run
    }

    /// Ends the run, if there is one. Its tasks end soon; `ended` waits for them.
    pub(crate) fn end(&self) {
        if let Some(run) = lock(&self.run).take() {
            run.cancel();
        }
    }

    /// Waits until no task is left.
    pub(crate) async fn ended(&self) {
        self.tasks.wait().await;
    }

    /// The token of a new connection; `None` while the server is stopped.
    pub(crate) fn connection_token(&self) -> Option<CancellationToken> {
        lock(&self.run).as_ref().map(CancellationToken::child_token)
    }

    /// Starts a task on the runtime of the server.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }
}

/// Lets through while nothing is blocked.
#[derive(Debug)]
pub(crate) struct Gate {
    blocked: Arc<Signal<Blocked>>,
}

impl Gate {
    /// Waits until neither the server is held nor the network partitioned.
    pub(crate) async fn open(&self) {
        self.blocked.until(|blocked| !blocked.held && !blocked.partitioned).await;
    }

    /// Waits until the network is not partitioned.
    pub(crate) async fn connected(&self) {
        self.blocked.until(|blocked| !blocked.partitioned).await;
    }

    /// Waits until the server is not held.
    pub(crate) async fn released(&self) {
        self.blocked.until(|blocked| !blocked.held).await;
    }

    fn is_held(&self) -> bool {
        self.blocked.look(|blocked| blocked.held)
    }
}

/// Expires sessions at their deadlines.
async fn expire_sessions(shared: Arc<Shared>, run: CancellationToken) {
    let gate = shared.gate();
    let expire = async {
        loop {
            gate.released().await;
            let deadline = shared.look(State::next_deadline);
            tokio::select! {
                biased;
                () = shared.deadlines_changed.notified() => continue,
                () = sleep_until(deadline) => {}
            }
            if gate.is_held() {
                continue;
            }
            if shared.look(|state| state.next_deadline() <= deadline) {
                shared.update(State::expire_overdue);
            }
        }
    };
    run.run_until_cancelled(expire).await;
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Removes empty containers and outlived nodes from time to time.
async fn reap(shared: Arc<Shared>, run: CancellationToken) {
    let interval = shared.look(|state| state.container_check_interval());
    let gate = shared.gate();
    let reap = async {
        loop {
            tokio::time::sleep(interval).await;
            gate.released().await;
            if shared.look(State::has_reapable) {
                shared.update(State::reap);
            }
        }
    };
    run.run_until_cancelled(reap).await;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
