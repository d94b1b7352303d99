//! What the tasks of a server share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zk_curator_client::Signal;

use crate::builder::Config;
use crate::journal::Fault;
use crate::member::MemberId;
use crate::network::{Link, Way};
use crate::rule::Rules;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::watch::ConnectionId;

/// How many requests of a connection may wait for the server to apply what is before them.
const MAX_WAITING: usize = 1000;

/// What keeps bytes from flowing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// The server does nothing.
    pub(crate) held: bool,
    /// The network carries nothing.
    pub(crate) partitioned: bool,
}

/// What the members of an ensemble share; a server alone is one of one.
#[derive(Debug)]
pub(crate) struct Ensemble {
    state: Mutex<State>,
    /// Counts changes of the state.
    changed: Signal<u64>,
    /// Wakes the task of each member that does what is due.
    deadlines_changed: Vec<Notify>,
    limits: Limits,
}

/// What a connection may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The longest frame a client may send, in bytes.
    pub(crate) frame: usize,
    /// How many bytes may wait for a client.
    pub(crate) backlog: usize,
    /// How long a connection may be without a session.
    pub(crate) session_within: Duration,
}

impl Ensemble {
    pub(crate) fn new(config: Config, members: usize, snapshot: Option<Snapshot>) -> Self {
        Self {
            limits: Limits {
                frame: config.max_frame,
                backlog: config.max_backlog,
                session_within: config.session_within,
            },
            state: Mutex::new(State::new(config, members, snapshot)),
            changed: Signal::default(),
            deadlines_changed: (0..members).map(|_| Notify::new()).collect(),
        }
    }

    /// Looks at the state.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&lock(&self.state))
    }

    /// Changes the state, and tells those who wait for a change.
    pub(crate) fn update<R>(&self, update: impl FnOnce(&mut State) -> R) -> R {
        let mut state = lock(&self.state);
        let result = update(&mut state);
        let must_wake = std::mem::take(&mut state.has_new_deadline);
        drop(state);
        if must_wake {
            self.deadlines_changed();
        }
        self.changed.modify(|version| *version = version.wrapping_add(1));
        result
    }

    /// Counts changes.
    pub(crate) const fn changes(&self) -> &Signal<u64> {
        &self.changed
    }

    /// Whether there is one server, and so no ensemble.
    pub(crate) const fn is_one(&self) -> bool {
        self.deadlines_changed.len() == 1
    }

    /// Waits until a look at the state satisfies a condition, and returns what was seen.
    pub(crate) async fn until<P>(
        &self,
        probe: impl Fn(&State) -> P,
        mut condition: impl FnMut(&P) -> bool,
    ) -> P {
        loop {
            let seen = self.changed.look(|version| *version);
            let probed = self.look(&probe);
            if condition(&probed) {
                return probed;
            }
            self.changed.until(|version| *version != seen).await;
        }
    }

    /// Expires a session; whether it lived.
    pub(crate) fn expire(&self, session: i64) -> bool {
        self.update(|state| {
            let number = state.number_of(session);
            let expired = state.expire(session);
            if expired {
                state.record(None, Fault::Expire { session: number });
            }
            expired
        })
    }

    /// Cuts the connection of a session; whether it had one.
    pub(crate) fn disconnect(&self, session: i64) -> bool {
        self.update(|state| {
            let place = state.sessions.get(session).and_then(|session| session.connection);
            if let Some(place) = place {
                let session = state.number_of(session);
                state.record(Some(place.member), Fault::Disconnect { session });
                state.cut(place.member, place.connection);
            }
            place.is_some()
        })
    }

    /// Wakes the tasks that do what is due: a deadline may be earlier than they know.
    pub(crate) fn deadlines_changed(&self) {
        for member in &self.deadlines_changed {
            member.notify_one();
        }
    }
}

/// What the tasks and handles of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    ensemble: Arc<Ensemble>,
    member: MemberId,
    blocked: Arc<Signal<Blocked>>,
    rules: Arc<Rules>,
    /// The current run; `None` while the server is stopped.
    run: Mutex<Option<CancellationToken>>,
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
            run: Mutex::default(),
            tasks,
            runtime: Handle::current(),
        }
    }

    pub(crate) const fn ensemble(&self) -> &Arc<Ensemble> {
        &self.ensemble
    }

    /// Which member of the ensemble it is.
    pub(crate) const fn member(&self) -> MemberId {
        self.member
    }

    /// Looks at the state.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        self.ensemble.look(look)
    }

    /// Changes the state, and tells those who wait for a change.
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
        self.ensemble.limits
    }

    /// What lets through, over the link of a client if it has one of its own.
    pub(crate) fn gate(&self, link: Option<Arc<Link>>) -> Gate {
        Gate { blocked: Arc::clone(&self.blocked), link }
    }

    /// Waits until few enough requests of a connection wait for the server to apply what is before them.
    pub(crate) async fn has_turn(&self, id: ConnectionId) {
        if self.ensemble.is_one() {
            return;
        }
        loop {
            let seen = self.changes().look(|version| *version);
            if self.look(|state| state.members[self.member].waiting(id)) < MAX_WAITING {
                return;
            }
            self.changes().until(|version| *version != seen).await;
        }
    }

    pub(crate) fn block(&self, change: impl FnOnce(&mut Blocked)) {
        self.blocked.modify(change);
    }

    /// Wakes the tasks that do what is due.
    pub(crate) fn deadlines_changed(&self) {
        self.ensemble.deadlines_changed();
    }

    /// Begins a run; its tasks end when the token is cancelled.
    pub(crate) fn begin(self: &Arc<Self>) -> CancellationToken {
        let run = CancellationToken::new();
        *lock(&self.run) = Some(run.clone());
        self.spawn(do_what_is_due(Arc::clone(self), run.clone()));
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

    /// Starts a task that may outlive the run.
    pub(crate) fn spawn_apart(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
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
    /// The link to the client, when it has one of its own.
    link: Option<Arc<Link>>,
}

impl Gate {
    /// Waits until the server takes what the client sends.
    pub(crate) async fn receives(&self) {
        self.opens(|blocked| !blocked.held && !blocked.partitioned, |cut| cut.is_none_or(is_to_client)).await;
    }

    /// Waits until the client gets what the server sends.
    pub(crate) async fn sends(&self) {
        self.opens(|blocked| !blocked.held && !blocked.partitioned, |cut| cut.is_none_or(is_to_server)).await;
    }

    /// Waits until the network carries bytes both ways.
    pub(crate) async fn connected(&self) {
        self.opens(|blocked| !blocked.partitioned, |cut| cut.is_none()).await;
    }

    /// Whether the network carries bytes both ways.
    pub(crate) fn is_connected(&self) -> bool {
        let is_cut = self.link.as_ref().is_some_and(|link| link.cut.look(Option::is_some));
        !is_cut && self.blocked.look(|blocked| !blocked.partitioned)
    }

    /// The link to the client, when it has one of its own.
    pub(crate) const fn link(&self) -> Option<&Arc<Link>> {
        self.link.as_ref()
    }

    /// Waits until the server is not held.
    pub(crate) async fn released(&self) {
        self.blocked.until(|blocked| !blocked.held).await;
    }

    fn is_held(&self) -> bool {
        self.blocked.look(|blocked| blocked.held)
    }

    async fn opens(&self, server: impl Fn(&Blocked) -> bool, way: impl Fn(Option<Way>) -> bool) {
        loop {
            self.blocked.until(&server).await;
            let Some(link) = self.link.as_ref().filter(|link| !link.cut.look(|cut| way(*cut))) else {
                return;
            };
            link.cut.until(|cut| way(*cut)).await;
        }
    }
}

fn is_to_client(way: Way) -> bool {
    way == Way::ToClient
}

fn is_to_server(way: Way) -> bool {
    way == Way::ToServer
}

/// Expires sessions and applies transactions at their times.
async fn do_what_is_due(shared: Arc<Shared>, run: CancellationToken) {
    let gate = shared.gate(None);
    let changed = &shared.ensemble.deadlines_changed[shared.member];
    let due = async {
        loop {
            gate.released().await;
            let deadline = shared.look(State::next_deadline);
            tokio::select! {
                biased;
                () = changed.notified() => continue,
                () = sleep_until(deadline) => {}
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

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Removes empty containers and outlived nodes from time to time.
async fn reap(shared: Arc<Shared>, run: CancellationToken) {
    let interval = shared.look(|state| state.container_check_interval());
    let gate = shared.gate(None);
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
