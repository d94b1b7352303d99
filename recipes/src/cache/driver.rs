//! The task of a cache: performs the reads, and brings events and answers to the state.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};
use zk_curator::op::{OpFuture, ReadResult};
use zk_curator::watch::Watch;
use zk_curator::{
    ConnectionStatus, CuratorFramework, Error, ErrorKind, PersistentEvent, Stat, WatchEnded, WatchedEvent,
};

use super::freshness::{Freshness, StaleCause};
use super::node::CachedNode;
use super::options::{Options, ServerDiff};
use super::shared::{Command, Shared};
use super::source::{SingleWatches, Source, is_unsupported, read_watched};
use super::tree_state::{Answer, Job, What};
use crate::health::{Health, HealthReporter};
use crate::random::fraction;

/// The pause after reads that were not answered.
const PAUSE: Duration = Duration::from_millis(100);
/// The pauses before the watch is added again after an error that does not pass by itself.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A request for everything that is committed.
type Waiter = oneshot::Sender<Result<i64, Error>>;

pub(super) struct Driver {
    shared: Arc<Shared>,
    options: Options,
    commands: mpsc::UnboundedReceiver<Command>,
    health: HealthReporter,
    /// Waiters whose barrier has to be sent.
    waiters: Vec<Waiter>,
    /// Whether lasting watches cannot be had.
    watches_each: bool,
}

/// Says that the cache has ended: also when its runtime is shut down, or a filter of the user panics.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.change(|inner| {
            inner.becomes_stale(StaleCause::Closed);
            inner.ended = true;
        });
    }
}

/// The reads of one request, and their answers.
struct Batch {
    jobs: Vec<Job>,
    answers: Result<Vec<Result<ReadResult, Error>>, Error>,
    /// Those that the reads have left.
    watches: Vec<Watch>,
    /// The number of events before it was sent.
    events: u64,
}

/// The answer to a request that reads nothing, and the number of the waiter on whose behalf it was sent.
struct Barrier {
    waiter: Option<u64>,
    answer: Result<(), Error>,
    /// The number of events before it was sent.
    events: u64,
}

/// One session of the cache.
struct Session<'a> {
    driver: &'a mut Driver,
    zk: CuratorFramework,
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
    /// Waiters whose barrier was answered.
    settling: Vec<Waiter>,
    /// The number of events that have come; and of these, how many came before a request that was answered, so that the last
    /// transaction of the server is not older.
    events: u64,
    proven: u64,
    /// Whether somebody needs to know that transaction.
    wants_proof: bool,
}

impl Driver {
    pub(super) const fn new(
        shared: Arc<Shared>,
        options: Options,
        commands: mpsc::UnboundedReceiver<Command>,
        health: HealthReporter,
    ) -> Self {
        Self { shared, options, commands, health, waiters: Vec::new(), watches_each: false }
    }

    /// Runs until the last handle is gone, or the framework is closed.
    pub(super) async fn run(mut self) {
        let (stop, ended) = (self.shared.stop.clone(), Ended(Arc::clone(&self.shared)));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.follow() => {}
        }
        // With the watch, and with everybody who waits for an answer.
        drop(self);
        drop(ended);
    }

    /// Follows the tree, session after session.
    async fn follow(&mut self) {
        let mut states = self.shared.zk.states();
        let mut pause = FIRST_PAUSE;
        while states.until(|status| status.state.is_connected()).await.is_some() {
            let error = match self.session().await {
                Ok(cause) => {
                    pause = FIRST_PAUSE;
                    self.stale(cause);
                    continue;
                }
                Err(error) => error,
            };
            if error.kind() == ErrorKind::Closed {
                return;
            }
            if error.is_transient() {
                let is_over = error.is_session_lost();
                self.stale(if is_over { StaleCause::SessionLost } else { StaleCause::Suspended });
                // A failure is told by the states.
                drop(self.shared.zk.ride_out(error).await);
                continue;
            }
            self.stale(StaleCause::Failed(error.kind()));
            warn!(path = self.shared.root, %error, "the cache cannot follow its root");
            self.health.report(Health::Failed(error.clone()));
            self.shared.zk.report_background_error(error.clone());
            let is_final = error.kind() == ErrorKind::InvalidPath;
            self.refuse(&error);
            self.shared.change(|inner| inner.failed = Some(error));
            if is_final {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Answers those who wait with an error.
    fn refuse(&mut self, error: &Error) {
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Sync(waiter) = command {
                self.waiters.push(waiter);
            }
        }
        for waiter in self.waiters.drain(..) {
            // A failure means that nobody waits any more.
            drop(waiter.send(Err(error.clone())));
        }
    }

    fn stale(&self, cause: StaleCause) {
        self.health.report(Health::Waiting);
        self.shared.change(|inner| {
            inner.exact = None;
            inner.becomes_stale(cause);
            inner.state.forget_reads();
        });
    }

    /// Follows the tree in one session, until that is over: why the contents are stale now.
    async fn session(&mut self) -> Result<StaleCause, Error> {
        // From before the session is chosen: so the end of another one that comes in between shows.
        let status = self.shared.zk.status();
        let zk = self.shared.zk.bound_to_session()?;
        let watch = self.watch(&zk, status).await?;
        let (is_loaded, nodes) = self.shared.look(|inner| (inner.is_loaded, inner.state.tree().len()));
        let pause = if is_loaded { self.pause(&zk, nodes) } else { Duration::ZERO };
        let audit = self.options.audit_every.map(|period| Instant::now() + period);
        let mut session = Session {
            zk,
            watch,
            is_armed: true,
            resync: Some(Instant::now() + pause),
            // The server of another session may lag behind that of the last one.
            is_ahead: is_loaded,
            gate: None,
            diff: None,
            reads: FuturesOrdered::new(),
            pause: None,
            audit,
            barriers: FuturesUnordered::new(),
            asking: BTreeMap::new(),
            last_barrier: 0,
            settling: Vec::new(),
            events: 0,
            proven: 0,
            wants_proof: false,
            driver: self,
        };
        let end = session.run().await;
        // Their barriers are sent again in the next session.
        let Session { driver, asking, settling, .. } = session;
        driver.waiters.extend(asking.into_values().chain(settling));
        end
    }

    async fn watch(&mut self, zk: &CuratorFramework, status: ConnectionStatus) -> Result<Source, Error> {
        let root = self.shared.root.clone();
        if !self.watches_each {
            let watch = if self.shared.look(|inner| inner.state.is_of_one_node()) {
                zk.add_watch(root.as_str()).await
            } else {
                zk.add_watch(root.as_str()).recursive().await
            };
            match watch {
                Err(error) if is_unsupported(&error) => {
                    debug!(path = root, %error, "there are no lasting watches: every node is watched");
                    self.watches_each = true;
                    self.shared.arrange(|inner| inner.state.watch_each());
                }
                watch => return Ok(Source::Lasting(Box::new(watch?))),
            }
        }
        Ok(Source::Single(Box::new(SingleWatches::new(zk.clone(), root, status))))
    }

    /// Returns a random pause before a resync, by the number of nodes.
    fn pause(&self, zk: &CuratorFramework, nodes: usize) -> Duration {
        self.options.spread(nodes).mul_f64(fraction(zk))
    }
}

impl Session<'_> {
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
                Some(batch) = self.reads.next(), if !self.reads.is_empty() => {
                    // Events come before the answers that show what they tell. Those that have come since are as good.
                    if let Some(end) = self.drain() {
                        return end;
                    }
                    self.answered(batch);
                }
                event = self.watch.next() => {
                    if let Some(end) = self.events(event) {
                        return end;
                    }
                }
                Some(barrier) = self.barriers.next(), if !self.barriers.is_empty() => self.passed(barrier),
                command = self.driver.commands.recv() => match command {
                    Some(Command::Check) | None => {}
                    Some(Command::Prove) => self.wants_proof = true,
                    Some(Command::Sync(waiter)) => self.driver.waiters.push(waiter),
                },
                () = until(resync), if resync.is_some() => {
                    self.resync = None;
                    self.diff = self.diff();
                    if self.diff.is_none() {
                        self.driver.shared.arrange(|inner| inner.state.sweep());
                    }
                }
                barrier = finished(&mut self.gate), if self.gate.is_some() => {
                    self.gate = None;
                    self.caught_up(barrier);
                }
                changed = finished(&mut self.diff), if self.diff.is_some() => {
                    self.diff = None;
                    if let Some(end) = self.drain() {
                        return end;
                    }
                    self.compared(changed);
                }
                () = until(pause), if pause.is_some() => self.pause = None,
                () = until(audit), if audit.is_some() => {
                    self.audit = self.driver.options.audit_every.map(|period| Instant::now() + period);
                    self.driver.shared.arrange(|inner| inner.state.audit());
                }
            }
        }
    }

    /// Has the server compute what has changed since the cache was fresh, if that is better than to read everything.
    fn diff(&self) -> Option<BoxFuture<'static, Result<Vec<WatchedEvent>, Error>>> {
        let when = self.driver.options.server_diff;
        let (since, data, children) = self.driver.shared.look(|inner| {
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
        debug!(path = self.driver.shared.root, nodes = data.len(), since, "the server compares");
        let diff = self.zk.changes_since(since).data(data).children(children).into_future();
        Some(Box::pin(diff))
    }

    /// The server has said which nodes have changed.
    fn compared(&self, changed: Result<Vec<WatchedEvent>, Error>) {
        self.driver.shared.arrange(|inner| match changed {
            Ok(changed) => inner.state.doubt(changed.iter().map(|event| event.path.as_str())),
            Err(error) => {
                debug!(path = self.driver.shared.root, %error, "the server does not compare: everything is read");
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
                self.gate = Some(self.barrier(None, self.quorum()));
            }
            return;
        }
        for waiter in std::mem::take(&mut self.driver.waiters) {
            let request = self.quorum();
            self.last_barrier += 1;
            self.asking.insert(self.last_barrier, waiter);
            self.push_barrier(Some(self.last_barrier), request);
            // A caller waits, so the spread over clients does not apply.
            self.resync = self.resync.map(|_| Instant::now());
        }
        if std::mem::take(&mut self.wants_proof) && self.proven != self.events {
            let request = self.zk.exists(self.driver.shared.root.as_str()).into_future();
            self.push_barrier(None, request);
        }
        while self.reads.len() < self.driver.options.parallel {
            let jobs = self.driver.shared.arrange(|inner| inner.state.next_batch());
            if jobs.is_empty() {
                break;
            }
            self.reads.push_back(self.read(jobs));
        }
    }

    /// A request that is answered after everything that is committed.
    fn quorum(&self) -> OpFuture<Option<Stat>> {
        self.zk.exists(self.driver.shared.root.as_str()).linearizable().into_future()
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
        // A read-only server knows no quorum, and shows what it has; a root that must not be read was answered for as well.
        let is_no_use = |error: &Error| matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::NoAuth);
        if answer.as_ref().err().is_none_or(is_no_use) {
            self.is_ahead = false;
            self.proven = self.proven.max(events);
        } else {
            self.pause = Some(Instant::now() + PAUSE);
        }
    }

    fn read(&self, jobs: Vec<Job>) -> BoxFuture<'static, Batch> {
        if matches!(self.watch, Source::Single(_)) {
            let (zk, root, events) = (self.zk.clone(), self.driver.shared.root.clone(), self.events);
            let decompressed = self.driver.options.decompressed;
            return Box::pin(async move {
                let (answers, watches) = read_watched(zk, &root, &jobs, decompressed).await;
                Batch { jobs, answers: Ok(answers), watches, events }
            });
        }
        let mut read = self.zk.multi_read().per_request(jobs.len());
        match self.driver.options.decompressed {
            Some(true) => read = read.decompressed(),
            Some(false) => read = read.undecompressed(),
            None => {}
        }
        for job in &jobs {
            read = match job.what {
                What::Data => read.get_data(&*job.path),
                What::Names => read.children(&*job.path),
            };
        }
        let (read, events) = (read.into_future(), self.events);
        Box::pin(async move { Batch { jobs, answers: read.await, watches: Vec::new(), events } })
    }

    /// Takes all events that have come; why it ends, if it does.
    fn drain(&mut self) -> Option<Result<StaleCause, Error>> {
        // Without the budget of the task, which may be used up: then it would look as if there were none.
        let event = unconstrained(self.watch.next()).now_or_never()?;
        self.events(event)
    }

    /// An event, and all that have come after it.
    fn events(&mut self, first: Option<PersistentEvent>) -> Option<Result<StaleCause, Error>> {
        let mut event = first;
        let mut changed = Vec::new();
        loop {
            match event {
                Some(PersistentEvent::Changed(change)) => changed.push(change),
                Some(PersistentEvent::Disarmed) => {
                    // Whether the next server may be behind them depends on them.
                    self.changed(std::mem::take(&mut changed));
                    self.is_armed = false;
                    self.disconnected();
                    self.driver.health.report(Health::Waiting);
                    self.driver.shared.change(|inner| inner.becomes_stale(StaleCause::Suspended));
                }
                Some(PersistentEvent::Rearmed { unchanged }) => {
                    self.changed(std::mem::take(&mut changed));
                    self.rearmed(unchanged);
                }
                Some(PersistentEvent::Ended(WatchEnded::SessionLost)) => {
                    return Some(Ok(StaleCause::SessionLost));
                }
                Some(PersistentEvent::Ended(WatchEnded::Removed)) => {
                    return Some(Ok(StaleCause::WatchRemoved));
                }
                Some(PersistentEvent::Ended(WatchEnded::Closed)) | None => {
                    return Some(Err(Error::closed("cache", &self.driver.shared.root)));
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
        self.changed(changed);
        None
    }

    /// Brings events to the state.
    fn changed(&mut self, changed: Vec<WatchedEvent>) {
        if changed.is_empty() {
            return;
        }
        self.events += changed.len() as u64;
        self.driver.shared.change(|inner| {
            inner.exact = None;
            let mut changes = Vec::new();
            for event in &changed {
                inner.state.event(event, &mut changes);
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
            self.driver.shared.arrange(|inner| inner.state.forget_reads());
        }
    }

    fn rearmed(&mut self, unchanged: bool) {
        self.is_armed = true;
        if unchanged || self.resync.is_some() {
            return;
        }
        let nodes = self.driver.shared.look(|inner| inner.state.tree().len());
        let pause = self.driver.pause(&self.zk, nodes);
        debug!(path = self.driver.shared.root, ?pause, "changes may have been missed");
        self.driver.shared.change(|inner| {
            inner.exact = None;
            inner.becomes_stale(StaleCause::Suspended);
            inner.state.missed();
        });
        let is_awaited = !self.barriers.is_empty() || !self.settling.is_empty();
        self.resync = Some(if is_awaited { Instant::now() } else { Instant::now() + pause });
    }

    /// A request with reads was answered, or not.
    fn answered(&mut self, Batch { jobs, answers, watches, events }: Batch) {
        if let Source::Single(source) = &mut self.watch {
            source.add(watches);
        }
        let answers = match answers {
            Ok(answers) => {
                self.proven = self.proven.max(events);
                answers
            }
            Err(error) if error.is_transient() || error.kind() == ErrorKind::Closed => {
                debug!(path = self.driver.shared.root, %error, "reads were not answered");
                self.pause = Some(Instant::now() + PAUSE);
                return self.driver.shared.arrange(|inner| inner.state.unanswered(&jobs));
            }
            // Of one of the nodes, perhaps: a schema, for example, refuses a request as a whole.
            Err(_) if jobs.len() > 1 => {
                for job in jobs {
                    let read = self.read(vec![job]);
                    self.reads.push_back(read);
                }
                return;
            }
            Err(error) => jobs.iter().map(|_| Err(error.clone())).collect(),
        };
        let (mut unanswered, mut answered) = (Vec::new(), Vec::new());
        for (job, answer) in jobs.into_iter().zip(answers) {
            match self.answer(&job, answer) {
                Some(answer) => answered.push((job, answer)),
                None => unanswered.push(job),
            }
        }
        if !unanswered.is_empty() {
            self.pause = Some(Instant::now() + PAUSE);
        }
        self.driver.shared.change(|inner| {
            inner.exact = None;
            inner.state.unanswered(&unanswered);
            let mut changes = Vec::new();
            for (job, answer) in answered {
                inner.state.answered(&job, answer, &mut changes);
            }
            inner.tell(changes);
        });
    }

    /// The answer to a read, if it is one.
    fn answer(&self, job: &Job, answer: Result<ReadResult, Error>) -> Option<Answer> {
        Some(match answer {
            Ok(ReadResult::Data { data, stat }) => {
                // A small value must not keep the whole answer in memory.
                let data =
                    if self.driver.options.keeps_data { Bytes::copy_from_slice(&data) } else { Bytes::new() };
                Answer::Data(CachedNode { path: job.path.clone(), data, stat })
            }
            Ok(ReadResult::Children { names }) => Answer::Names(names),
            Ok(_) => Answer::Failed(ErrorKind::Malformed),
            Err(error) if error.kind() == ErrorKind::NoNode => Answer::Missing,
            Err(error) if error.is_transient() => return None,
            Err(error) => Answer::Failed(error.kind()),
        })
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
                self.driver.waiters.extend(waiter);
            }
            // A failure means that nobody waits any more.
            (Err(error), Some(waiter)) => drop(waiter.send(Err(error))),
            // The root must not be looked at: the next read proves it.
            (Err(_), None) => {}
        }
    }

    /// Publishes how new the contents are, if every reported change is read; why the session ends, if it does.
    fn settle(&mut self) -> Option<Result<StaleCause, Error>> {
        loop {
            let shared = &self.driver.shared;
            let is_behind = self.resync.is_some() || self.diff.is_some() || self.is_ahead;
            if !self.is_armed || is_behind || !shared.look(|inner| inner.state.is_settled()) {
                return None;
            }
            // In this order: the events of every transaction up to this one have come already.
            let zxid = self.zk.last_zxid_seen()?;
            let (before, was_armed) = (self.events, self.is_armed);
            if let Some(end) = self.drain() {
                return Some(end);
            }
            if self.events == before && was_armed == self.is_armed && self.resync.is_none() {
                self.publish(zxid);
                return None;
            }
        }
    }

    fn publish(&mut self, zxid: i64) {
        // After an event the server is ahead of its last answer.
        let exact = (self.proven == self.events).then_some(zxid);
        let is_new = self.driver.shared.look(|inner| {
            inner.freshness != Freshness::Fresh { zxid } || inner.exact != exact || inner.failed.is_some()
        });
        if is_new {
            self.driver.health.report(Health::Working);
            self.driver.shared.change(|inner| {
                inner.exact = exact;
                inner.failed = None;
                inner.set_freshness(Freshness::Fresh { zxid });
            });
        }
        for waiter in self.settling.drain(..) {
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
