//! [`Shared`]: the state shared by the tasks of a server.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zk_curator_client::internal::{Locked, Signal, sleep, sleep_until};

use super::gate::{Blocked, Gate};
use super::link::Link;
use crate::ensemble::{Ensemble, Limits, State};
use crate::ids::{ConnectionId, MemberId};
use crate::rule::Rules;

/// The maximum number of queued requests of a connection behind transactions that are not applied.
const MAX_WAITING: usize = 1000;

/// The state shared by the tasks and handles of a server.
#[derive(Debug)]
pub(crate) struct Shared {
    ensemble: Arc<Ensemble>,
    member: MemberId,
    blocked: Arc<Signal<Blocked>>,
    rules: Arc<Rules>,
    /// The current run; `None` while the server is stopped.
    run: Locked<Option<CancellationToken>>,
    tasks: TaskTracker,
    runtime: Handle,
}

impl Shared {
    pub(crate) fn new(ensemble: Arc<Ensemble>, member: MemberId) -> Self {
        let tasks = TaskTracker::new();
        tasks.close();
        Self {
            ensemble,
            member,
            blocked: Arc::default(),
            rules: Arc::default(),
            run: Locked::default(),
            tasks,
            runtime: Handle::current(),
        }
    }

    pub(crate) const fn ensemble(&self) -> &Arc<Ensemble> {
        &self.ensemble
    }

    /// Returns the number of the member.
    pub(crate) const fn member(&self) -> MemberId {
        self.member
    }

    /// Reads the state.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        self.ensemble.look(look)
    }

    /// Changes the state, and wakes tasks that wait for changes.
    pub(crate) fn update<R>(&self, update: impl FnOnce(&mut State) -> R) -> R {
        self.ensemble.update(update)
    }

    /// Counts changes.
    pub(crate) fn changes(&self) -> &Signal<u64> {
        self.ensemble.changes()
    }

    pub(crate) const fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    pub(crate) fn limits(&self) -> Limits {
        self.ensemble.limits()
    }

    /// Returns the gate of a connection, over the link of its client if it connects through memory.
    pub(super) fn gate(&self, link: Option<Arc<Link>>) -> Gate {
        Gate::new(Arc::clone(&self.blocked), link)
    }

    /// Waits until the queue of a connection is short enough.
    pub(crate) async fn has_turn(&self, id: ConnectionId) {
        if self.ensemble.is_one() {
            return;
        }
        loop {
            let seen = self.changes().look(|version| *version);
            if self.look(|state| state.member(self.member).connections().waiting(id)) < MAX_WAITING
            {
                return;
            }
            self.changes().until(|version| *version != seen).await;
        }
    }

    pub(crate) fn block(&self, change: impl FnOnce(&mut Blocked)) {
        self.blocked.modify(change);
    }

    /// Wakes the deadline tasks.
    pub(crate) fn deadlines_changed(&self) {
        self.ensemble.deadlines_changed();
    }

    /// Begins a run; its tasks end when the token is cancelled.
    pub(crate) fn begin(self: &Arc<Self>) -> CancellationToken {
        let run = CancellationToken::new();
        *self.run.lock() = Some(run.clone());
        self.spawn(do_what_is_due(Arc::clone(self), run.clone()));
        self.spawn(reap(Arc::clone(self), run.clone()));
        run
    }

    /// Ends the run, if there is one. Its tasks end soon; `ended` waits for them.
    pub(crate) fn end(&self) {
        if let Some(run) = self.run.lock().take() {
            run.cancel();
        }
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn ended(&self) {
        self.tasks.wait().await;
    }

    /// Returns the token of a new connection; `None` while the server is stopped.
    pub(crate) fn connection_token(&self) -> Option<CancellationToken> {
        self.run.lock().as_ref().map(CancellationToken::child_token)
    }

    /// Starts a task that may outlive the run.
    pub(crate) fn spawn_apart(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    /// Starts a task on the runtime of the server.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }
}

/// Expires sessions and applies transactions when due.
async fn do_what_is_due(shared: Arc<Shared>, run: CancellationToken) {
    let gate = shared.gate(None);
    let due = async {
        loop {
            gate.released().await;
            let deadline = shared.look(State::next_deadline);
            tokio::select! {
                biased;
                () = shared.ensemble.deadline_changed(shared.member) => continue,
                () = reached(deadline) => {}
            }
            if gate.is_held() {
                continue;
            }
            if shared.look(|state| state.next_deadline() <= deadline) {
                shared.update(State::do_overdue);
            }
        }
    };
    run.run_until_cancelled(due).await;
}

async fn reached(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Removes empty containers and expired nodes periodically.
async fn reap(shared: Arc<Shared>, run: CancellationToken) {
    let interval = shared.look(|state| state.config().container_check_interval);
    let gate = shared.gate(None);
    let reap = async {
        loop {
            sleep(interval).await;
            gate.released().await;
            if shared.look(State::has_reapable) {
                shared.update(State::reap);
            }
        }
    };
    run.run_until_cancelled(reap).await;
}
