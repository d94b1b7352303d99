//! One session of a cache: brings events and answers to the state, and says how new the contents are.

use std::collections::{BTreeMap, VecDeque};
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};
use tracing::debug;
use zk_curator::op::OpFuture;
use zk_curator::{CuratorFramework, Error, ErrorKind, PersistentEvent, Stat, WatchEnded, WatchedEvent};

use super::freshness::{Freshness, StaleCause};
use super::options::{Options, ServerDiff};
use super::reads::Cause;
use super::requests::{Barrier, Batch, Requests};
use super::shared::{Command, Shared};
use super::source::Source;
use crate::health::{Health, HealthReporter};
use crate::random::fraction;

/// The pause after reads that were not answered.
const PAUSE: Duration = Duration::from_millis(100);

/// A request for everything that is committed.
type Waiter = oneshot::Sender<Result<i64, Error>>;

/// What outlives a session.
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) options: Options,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) health: HealthReporter,
    /// Waiters whose barrier has to be sent.
    pub(super) waiters: Vec<Waiter>,
}

impl Task {
    /// Returns a random pause before a resync, by the number of nodes.
    fn pause(&self, zk: &CuratorFramework, nodes: usize) -> Duration {
        self.options.spread(nodes).mul_f64(fraction(zk))
    }
}

/// A moment after which everything was read that had been reported before it.
struct Checkpoint {
    /// The contents are not older than this transaction from then on.
    zxid: i64,
    /// Its number in the state.
    mark: u64,
    waiters: Vec<Waiter>,
}

/// One session of the cache.
pub(super) struct Session<'a> {
    task: &'a mut Task,
    requests: Requests,
    watch: Source,
    /// Whether the watch reports what happens now.
    is_armed: bool,
    /// Whether changes may have been missed for which nothing was read yet, and when that is to be done.
    resync: Option<Instant>,
    /// Whether the contents may be newer than the server of this connection: that of another session, or of a reconnect after
    /// events that came behind the last answer, for a reconnect demands no more than that answer. Nothing is read until a quorum
    /// has answered.
    is_ahead: bool,
    gate: Option<BoxFuture<'static, Barrier>>,
    /// The comparison by the server that is under way.
    diff: Option<BoxFuture<'static, Result<Vec<WatchedEvent>, Error>>>,
    reads: FuturesOrdered<BoxFuture<'static, Batch>>,
    /// No reads are sent before this time.
    pause: Option<Instant>,
    audit: Option<Instant>,
    barriers: FuturesUnordered<BoxFuture<'static, Barrier>>,
    /// Waiters whose barrier was sent.
    asking: BTreeMap<u64, Waiter>,
    last_barrier: u64,
    /// Waiters whose barrier was answered: they need a checkpoint that begins after that.
    settling: Vec<Waiter>,
    /// Whether somebody needs one of the last transaction that was seen.
    wants_checkpoint: bool,
    /// Those that were not reached yet, in their order.
    checkpoints: VecDeque<Checkpoint>,
    /// The number of events that have come; and of these, how many came before a request that was answered, so that the last
    /// transaction of the server is not older.
    events: u64,
    proven: u64,
    /// Whether somebody needs to know that transaction.
    wants_proof: bool,
}

impl<'a> Session<'a> {
    pub(super) fn new(task: &'a mut Task, zk: CuratorFramework, watch: Source) -> Self {
        let (is_loaded, nodes) = task.shared.look(|inner| (inner.is_loaded, inner.state.tree().len()));
        let pause = if is_loaded { task.pause(&zk, nodes) } else { Duration::ZERO };
        let audit = task.options.audit_every.map(|period| Instant::now() + period);
        let requests = Requests {
            zk,
            root: task.shared.root.clone(),
            decompressed: task.options.decompressed,
            keeps_data: task.options.keeps_data,
            are_watched: matches!(watch, Source::Single(_)),
        };
        Self {
            requests,
            watch,
            is_armed: true,
            resync: Some(Instant::now() + pause),
            // The server of another session may lag behind that of the last one.
            is_ahead: is_loaded || nodes > 0,
            gate: None,
            diff: None,
            reads: FuturesOrdered::new(),
            pause: None,
            audit,
            barriers: FuturesUnordered::new(),
            asking: BTreeMap::new(),
            last_barrier: 0,
            settling: Vec::new(),
            wants_checkpoint: false,
            checkpoints: VecDeque::new(),
            events: 0,
            proven: 0,
            wants_proof: false,
            task,
        }
    }

    /// Follows the tree until the session is over: why the contents are stale then.
    pub(super) async fn follow(mut self) -> Result<StaleCause, Error> {
        let end = self.run().await;
        self.forget_checkpoints();
        // Their barriers are sent again in the next session.
        self.task.waiters.extend(self.asking.into_values().chain(self.settling));
        end
    }

    async fn run(&mut self) -> Result<StaleCause, Error> {
        loop {
            if let Some(end) = self.settle() {
                return end;
            }
            self.send();
            let (is_ready, pause, audit) = (self.is_armed && !self.is_ahead, self.pause, self.audit);
            let resync = self.resync.filter(|_| is_ready);
            tokio::select! {
                biased;
                Some(mut batch) = self.reads.next(), if !self.reads.is_empty() => {
                    // Events come before the answers that show what they tell. Those that have come since are as good.
                    if let Some(end) = self.drain(None) {
                        return end;
                    }
                    if let Source::Single(source) = &mut self.watch {
                        source.add(std::mem::take(&mut batch.watches));
                        // They may have fired before a checkpoint that began meanwhile, when nobody heard them yet.
                        if let Some(end) = self.drain(Some(batch.sent)) {
                            return end;
                        }
                    }
                    self.answered(batch);
                }
                event = self.watch.next() => {
                    if let Some(end) = self.events(event, None) {
                        return end;
                    }
                }
                Some(barrier) = self.barriers.next(), if !self.barriers.is_empty() => self.passed(barrier),
                command = self.task.commands.recv() => match command {
                    Some(Command::Check) => self.wants_checkpoint = true,
                    None => {}
                    Some(Command::Prove) => self.wants_proof = true,
                    Some(Command::Sync(waiter)) => self.task.waiters.push(waiter),
                },
                () = until(resync), if resync.is_some() => {
                    self.resync = None;
                    self.diff = self.diff();
                    if self.diff.is_none() {
                        self.task.shared.arrange(|inner| inner.state.sweep());
                    }
                }
                barrier = finished(&mut self.gate), if self.gate.is_some() => {
                    self.gate = None;
                    self.caught_up(barrier);
                }
                changed = finished(&mut self.diff), if self.diff.is_some() => {
                    self.diff = None;
                    if let Some(end) = self.drain(None) {
                        return end;
                    }
                    self.compared(changed);
                }
                () = until(pause), if pause.is_some() => self.pause = None,
                () = until(audit), if audit.is_some() => {
                    self.audit = self.task.options.audit_every.map(|period| Instant::now() + period);
                    self.task.shared.arrange(|inner| inner.state.audit());
                }
            }
        }
    }

    /// Has the server compute what has changed since the cache was fresh, if that is better than to read everything.
    fn diff(&self) -> Option<BoxFuture<'static, Result<Vec<WatchedEvent>, Error>>> {
        let when = self.task.options.server_diff;
        let (since, data, children) = self.task.shared.look(|inner| {
            let since = inner.freshness.zxid()?;
            let is_wanted = match when {
                ServerDiff::Never => false,
                ServerDiff::Auto => inner.state.is_large(),
                ServerDiff::Always => true,
            };
            let (data, children) = is_wanted.then(|| inner.state.compared_paths())?;
            Some((since, data, children))
        })?;
        if !matches!(self.watch, Source::Lasting(_)) {
            return None;
        }
        debug!(path = self.task.shared.root, nodes = data.len(), since, "the server compares");
        let diff = self.requests.zk.changes_since(since).data(data).children(children).into_future();
        Some(Box::pin(diff))
    }

    /// The server has said which nodes have changed.
    fn compared(&self, changed: Result<Vec<WatchedEvent>, Error>) {
        self.task.shared.arrange(|inner| match changed {
            Ok(changed) => inner.state.doubt(changed.iter().map(|event| event.path.as_str())),
            Err(error) => {
                debug!(path = self.task.shared.root, %error, "the server does not compare: everything is read");
                inner.state.sweep();
            }
        });
    }

    /// Sends what can be sent.
    fn send(&mut self) {
        if !self.is_armed || self.pause.is_some() {
            return;
        }
        if self.is_ahead {
            if self.gate.is_none() {
                self.gate = Some(self.barrier(None, self.requests.quorum()));
            }
            return;
        }
        for waiter in std::mem::take(&mut self.task.waiters) {
            let request = self.requests.quorum();
            self.last_barrier += 1;
            self.asking.insert(self.last_barrier, waiter);
            self.push_barrier(Some(self.last_barrier), request);
            // A caller waits, so the spread over clients does not apply.
            self.resync = self.resync.map(|_| Instant::now());
        }
        if std::mem::take(&mut self.wants_proof) && self.proven != self.events {
            self.push_barrier(None, self.requests.look());
        }
        while self.reads.len() < self.task.options.parallel {
            let (jobs, sent) =
                self.task.shared.arrange(|inner| (inner.state.next_batch(), inner.state.news()));
            if jobs.is_empty() {
                break;
            }
            self.reads.push_back(self.requests.read(jobs, sent, self.events));
        }
    }

    fn push_barrier(&self, waiter: Option<u64>, request: OpFuture<Option<Stat>>) {
        self.barriers.push(self.barrier(waiter, request));
    }

    fn barrier(&self, waiter: Option<u64>, request: OpFuture<Option<Stat>>) -> BoxFuture<'static, Barrier> {
        let events = self.events;
        Box::pin(async move { Barrier { waiter, answer: request.await.map(drop), events } })
    }

    /// A quorum has answered after a reconnect: the server has everything that was told before, and may be read.
    fn caught_up(&mut self, Barrier { answer, events, .. }: Barrier) {
        // A root that must not be read was answered for as well. A read-only server confirms nothing.
        if answer.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::NoAuth) {
            self.is_ahead = false;
            self.proven = self.proven.max(events);
        } else {
            self.pause = Some(Instant::now() + PAUSE);
        }
    }

    /// Takes all events that have come; why it ends, if it does. They may have been there since then.
    fn drain(&mut self, since: Option<Cause>) -> Option<Result<StaleCause, Error>> {
        // Without the budget of the task, which may be used up: then it would look as if there were none.
        let event = unconstrained(self.watch.next()).now_or_never()?;
        self.events(event, since)
    }

    /// An event, and all that have come after it.
    fn events(
        &mut self,
        first: Option<PersistentEvent>,
        since: Option<Cause>,
    ) -> Option<Result<StaleCause, Error>> {
        let mut event = first;
        let mut changed = Vec::new();
        loop {
            match event {
                Some(PersistentEvent::Changed(change)) => changed.push(change),
                Some(PersistentEvent::Disarmed) => {
                    // Whether the next server may be behind them depends on them.
                    self.changed(std::mem::take(&mut changed), since);
                    self.is_armed = false;
                    self.disconnected();
                    self.task.health.report(Health::Waiting);
                    self.task.shared.change(|inner| inner.becomes_stale(StaleCause::Suspended));
                }
                Some(PersistentEvent::Rearmed { unchanged }) => {
                    self.changed(std::mem::take(&mut changed), since);
                    self.rearmed(unchanged);
                }
                Some(PersistentEvent::Ended(WatchEnded::SessionLost)) => {
                    return Some(Ok(StaleCause::SessionLost));
                }
                Some(PersistentEvent::Ended(WatchEnded::Removed)) => {
                    return Some(Ok(StaleCause::WatchRemoved));
                }
                Some(PersistentEvent::Ended(WatchEnded::Closed)) | None => {
                    return Some(Err(Error::closed("cache", &self.task.shared.root)));
                }
                // The server after a reconnect has no lasting watches: it is found out when the watch is added.
                Some(PersistentEvent::Ended(why)) => {
                    debug!(%why, "the watch of the cache has ended");
                    return Some(Ok(StaleCause::WatchRemoved));
                }
                Some(_) => {}
            }
            match unconstrained(self.watch.next()).now_or_never() {
                Some(next) => event = next,
                None => break,
            }
        }
        self.changed(changed, since);
        None
    }

    /// Brings events to the state.
    fn changed(&mut self, changed: Vec<WatchedEvent>, since: Option<Cause>) {
        if changed.is_empty() {
            return;
        }
        self.events += changed.len() as u64;
        self.task.shared.change(|inner| {
            inner.exact = None;
            let mut changes = Vec::new();
            let cause = since.unwrap_or_else(|| inner.state.news());
            for event in &changed {
                inner.state.event(event, cause, &mut changes);
            }
            inner.tell(changes);
        });
    }

    /// The next server may lag behind the events that this one has sent after its last answer.
    fn disconnected(&mut self) {
        self.gate = None;
        if self.diff.take().is_some() {
            // Changes after the comparison would be missed.
            self.resync = Some(Instant::now());
        }
        self.is_ahead |= self.proven != self.events;
        if self.is_ahead {
            // Tried again by the framework, they would be answered before the server has caught up.
            self.reads = FuturesOrdered::new();
            self.task.shared.arrange(|inner| inner.state.forget_reads());
        }
    }

    fn rearmed(&mut self, unchanged: bool) {
        self.is_armed = true;
        if unchanged || self.resync.is_some() {
            return;
        }
        let nodes = self.task.shared.look(|inner| inner.state.tree().len());
        let pause = self.task.pause(&self.requests.zk, nodes);
        debug!(path = self.task.shared.root, ?pause, "changes may have been missed");
        self.task.shared.change(|inner| {
            inner.exact = None;
            inner.becomes_stale(StaleCause::Suspended);
            inner.state.missed();
        });
        self.forget_checkpoints();
        let is_awaited = !self.barriers.is_empty() || !self.settling.is_empty();
        self.resync = Some(if is_awaited { Instant::now() } else { Instant::now() + pause });
    }

    /// A request with reads was answered, or not.
    fn answered(&mut self, Batch { jobs, answers, sent, events, .. }: Batch) {
        let answers = match answers {
            Ok(answers) => {
                self.proven = self.proven.max(events);
                answers
            }
            Err(error) if error.is_transient() || error.kind() == ErrorKind::Closed => {
                debug!(path = self.task.shared.root, %error, "reads were not answered");
                self.pause = Some(Instant::now() + PAUSE);
                return self.task.shared.arrange(|inner| inner.state.unanswered(&jobs));
            }
            // Of one of the nodes, perhaps: a schema, for example, refuses a request as a whole.
            Err(_) if jobs.len() > 1 => {
                for job in jobs {
                    let read = self.requests.read(vec![job], sent, self.events);
                    self.reads.push_back(read);
                }
                return;
            }
            Err(error) => jobs.iter().map(|_| Err(error.clone())).collect(),
        };
        let (mut unanswered, mut answered) = (Vec::new(), Vec::new());
        for (job, answer) in jobs.into_iter().zip(answers) {
            match self.requests.answer(&job, answer) {
                Some(answer) => answered.push((job, answer)),
                None => unanswered.push(job),
            }
        }
        if !unanswered.is_empty() {
            self.pause = Some(Instant::now() + PAUSE);
        }
        self.task.shared.change(|inner| {
            inner.exact = None;
            inner.state.unanswered(&unanswered);
            let mut changes = Vec::new();
            for (job, answer) in answered {
                inner.state.answered(&job, answer, &mut changes);
            }
            inner.tell(changes);
        });
    }

    /// Everything that is committed has come to the server, or the barrier has failed.
    fn passed(&mut self, Barrier { waiter, answer, events }: Barrier) {
        let waiter = waiter.and_then(|waiter| self.asking.remove(&waiter));
        match (answer, waiter) {
            (Ok(()), waiter) => {
                self.proven = self.proven.max(events);
                self.settling.extend(waiter);
            }
            (Err(error), waiter) if error.is_transient() => {
                self.pause = Some(Instant::now() + PAUSE);
                self.wants_proof |= waiter.is_none();
                self.task.waiters.extend(waiter);
            }
            // A failure means that nobody waits any more.
            (Err(error), Some(waiter)) => drop(waiter.send(Err(error))),
            // The root must not be looked at: the next read proves it.
            (Err(_), None) => {}
        }
    }

    /// Begins and publishes checkpoints; why the session ends, if it does.
    fn settle(&mut self) -> Option<Result<StaleCause, Error>> {
        if !self.is_current() {
            self.forget_checkpoints();
            return None;
        }
        if self.needs_checkpoint() {
            // In this order: the events of every transaction up to this one have come already.
            let zxid = self.requests.zk.last_zxid_seen()?;
            if let Some(end) = self.drain(None) {
                return Some(end);
            }
            if !self.is_current() {
                self.forget_checkpoints();
                return None;
            }
            let mark = self.task.shared.arrange(|inner| inner.state.checkpoint());
            self.wants_checkpoint = false;
            self.checkpoints.push_back(Checkpoint {
                zxid,
                mark,
                waiters: std::mem::take(&mut self.settling),
            });
        }
        self.publish();
        None
    }

    /// Whether the watch reports what happens, and what it has missed is being read.
    const fn is_current(&self) -> bool {
        self.is_armed && self.resync.is_none() && self.diff.is_none() && !self.is_ahead
    }

    /// Whether to begin a checkpoint: at first, after every one that was reached, and for whoever asks for one.
    fn needs_checkpoint(&self) -> bool {
        let is_reached = |checkpoint: &Checkpoint| self.has_reached(checkpoint);
        let is_wanted = || {
            let last = self.checkpoints.back().map(|checkpoint| checkpoint.zxid);
            self.wants_checkpoint && self.requests.zk.last_zxid_seen() != last
        };
        self.checkpoints.front().is_none_or(is_reached) || !self.settling.is_empty() || is_wanted()
    }

    fn has_reached(&self, checkpoint: &Checkpoint) -> bool {
        self.task.shared.look(|inner| inner.state.has_reached(checkpoint.mark))
    }

    /// Something has to be read before anybody can know what the state of the server is.
    fn forget_checkpoints(&mut self) {
        self.settling.extend(self.checkpoints.drain(..).flat_map(|checkpoint| checkpoint.waiters));
    }

    /// Publishes the last checkpoint that was reached.
    fn publish(&mut self) {
        let (mut reached, mut waiters) = (None, Vec::new());
        while let Some(checkpoint) = self.checkpoints.pop_front() {
            if !self.has_reached(&checkpoint) {
                self.checkpoints.push_front(checkpoint);
                break;
            }
            reached = Some(checkpoint.zxid);
            waiters.extend(checkpoint.waiters);
        }
        let Some(zxid) = reached else { return };
        // Everything was read, so this is the checkpoint that has just begun. After an event the server is ahead of its last answer.
        let is_settled = self.task.shared.look(|inner| inner.state.is_settled());
        let exact = (is_settled && self.proven == self.events).then_some(zxid);
        let is_new = self.task.shared.look(|inner| {
            inner.freshness != Freshness::Fresh { zxid } || inner.exact != exact || inner.failed.is_some()
        });
        if is_new {
            self.task.health.report(Health::Working);
            self.task.shared.change(|inner| {
                inner.exact = exact;
                inner.failed = None;
                inner.set_freshness(Freshness::Fresh { zxid });
            });
        }
        for waiter in waiters {
            // A failure means that nobody waits any more.
            drop(waiter.send(Ok(zxid)));
        }
    }
}

async fn finished<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
