//! One session of a cache: passes events and responses to the state, and performs the effects of
//! the [`Checkpoints`].
//!
//! `phase` describes how far the session has caught up, `outage` makes it catch up, and `reading`
//! sends the requests with reads.

mod outage;
mod phase;
mod reading;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use tokio::task::unconstrained;
use tokio::time::Instant;
use tracing::debug;
use zk_curator::internal::bounded;
use zk_curator::{CuratorFramework, Error, PersistentEvent, WatchEnded, WatchedEvent};

use super::options::CacheOptions;
use super::pauses::{Pauses, until};
use super::requests::{CheckpointAnswer, ReadBatch, Requests};
use super::shared::CacheShared;
use super::source::CacheEventSource;
use super::wants::{Waiter, answer};
use crate::cache::state::{CacheRead, Cause, StaleCause};
use crate::cache::told::{
    CheckpointEffect, CheckpointFacts, CheckpointInput, CheckpointRequest, CheckpointStanding,
    Checkpoints,
};
use crate::health::{Health, HealthReporter};
use crate::random::fraction;
use phase::{CachePhase, PhaseStep};

/// The pauses after reads without a response, or refused reads.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// The pauses between reads of nodes that cannot be read.
const RETRIES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The state that outlives a session.
pub(crate) struct CacheTaskState {
    pub(crate) shared: Arc<CacheShared>,
    pub(crate) options: CacheOptions,
    pub(crate) health: HealthReporter,
    pub(crate) checkpoints: Checkpoints<Waiter>,
}

impl CacheTaskState {
    /// Returns a random pause before a resync, by the number of nodes.
    fn pause(&self, zk: &CuratorFramework, nodes: usize) -> Duration {
        bounded(self.options.spread(nodes)).mul_f64(fraction(zk))
    }
}

/// One session of the cache.
pub(crate) struct CacheSession<'a> {
    task: &'a mut CacheTaskState,
    requests: Requests,
    watch: CacheEventSource,
    phase: CachePhase,
    reads: FuturesOrdered<BoxFuture<'static, ReadBatch>>,
    /// Reads that were refused as a whole, perhaps because of one of them: they are sent again in
    /// halves.
    halves: VecDeque<Vec<CacheRead>>,
    /// The pause in which nothing is sent.
    pauses: Pauses,
    audit: Option<Instant>,
    /// The pause before unreadable nodes are read again.
    retries: Pauses,
    /// The requests in flight that read nothing, except the request of the phase.
    asked: FuturesUnordered<BoxFuture<'static, CheckpointAnswer>>,
}

impl<'a> CacheSession<'a> {
    pub(crate) fn new(
        task: &'a mut CacheTaskState,
        zk: CuratorFramework,
        watch: CacheEventSource,
    ) -> Self {
        let (is_loaded, nodes) =
            task.shared.look(|contents| (contents.is_loaded, contents.state.tree().len()));
        let pause = if is_loaded { task.pause(&zk, nodes) } else { Duration::ZERO };
        let audit = task.options.audit_every.map(|period| Instant::now() + bounded(period));
        let requests = Requests {
            zk,
            root: task.shared.root.clone(),
            decompressed: task.options.decompressed,
            keeps_data: task.options.keeps_data,
            are_watched: matches!(watch, CacheEventSource::Single(_)),
        };
        // The server of another session may lag behind the last one.
        let is_ahead = is_loaded || nodes > 0;
        Self {
            requests,
            watch,
            phase: CachePhase::new(is_ahead, Some(Instant::now() + pause)),
            reads: FuturesOrdered::new(),
            halves: VecDeque::new(),
            pauses: Pauses::new(PAUSES),
            audit,
            retries: Pauses::new(RETRIES),
            asked: FuturesUnordered::new(),
            task,
        }
    }

    /// Follows the tree until the session is over. Returns the reason why the contents are stale
    /// then.
    pub(crate) async fn follow(mut self) -> Result<StaleCause, Error> {
        let end = self.run().await;
        self.step(CheckpointInput::Ended);
        end
    }

    async fn run(&mut self) -> Result<StaleCause, Error> {
        loop {
            self.step(CheckpointInput::Turn(self.facts()));
            if let CachePhase::Stopped(end) = &self.phase {
                return end.clone();
            }
            self.send();
            tokio::select! {
                biased;
                Some(batch) = self.reads.next(), if !self.reads.is_empty() => self.received(batch),
                event = self.watch.next() => self.events(event, None),
                Some(answered) = self.asked.next(), if !self.asked.is_empty() => {
                    self.answered(answered);
                }
                () = self.task.shared.wants.news() => {
                    let questions = self.task.shared.wants.take();
                    self.step(CheckpointInput::Asked(questions));
                }
                step = self.phase.next() => self.go_on(step),
                () = self.pauses.over() => {}
                () = until(self.audit) => {
                    let period = self.task.options.audit_every;
                    self.audit = period.map(|period| Instant::now() + bounded(period));
                    self.task.shared.arrange(|contents| contents.state.audit());
                }
                () = self.retries.over() => {
                    self.task.shared.arrange(|contents| contents.state.retry_passing());
                }
            }
        }
    }

    /// The phase waits no longer.
    fn go_on(&mut self, step: PhaseStep) {
        match step {
            PhaseStep::Gate(answered) => self.answered(answered),
            PhaseStep::Resync => self.resync(),
            PhaseStep::Compared(compared) => {
                self.drain(None);
                if !self.phase.is_stopped() {
                    self.compared(compared);
                }
            }
        }
    }

    /// Passes a report to the checkpoints, and performs their effects.
    fn step(&mut self, input: CheckpointInput<Waiter>) {
        for effect in self.task.checkpoints.step(input) {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: CheckpointEffect<Waiter>) {
        match effect {
            CheckpointEffect::Send(request) => self.ask(request),
            CheckpointEffect::Refresh(paths) => self.task.shared.arrange(|contents| {
                for path in &paths {
                    contents.state.refresh(path);
                }
            }),
            CheckpointEffect::Begin { zxid } => self.begin(zxid),
            CheckpointEffect::Publish { zxid, is_exact } => {
                self.publish(zxid, is_exact.then_some(zxid));
            }
            CheckpointEffect::Answer { callers, answer: result } => answer(callers, &result),
            CheckpointEffect::OpenGate => self.phase.gate_opened(),
            CheckpointEffect::Rest => self.pauses.begin(&self.requests.zk),
        }
    }

    fn facts(&self) -> CheckpointFacts {
        CheckpointFacts {
            standing: self.phase.standing(),
            seen: self.requests.zk.last_zxid_seen(),
            progress: self.task.shared.arrange(|contents| contents.state.progress()),
        }
    }

    /// Begins a checkpoint, after the events of every transaction up to this one.
    fn begin(&mut self, zxid: i64) {
        self.drain(None);
        let mark = match self.phase.standing() {
            CheckpointStanding::Current => {
                self.task.shared.arrange(|contents| contents.state.checkpoint())
            }
            _ => return self.step(CheckpointInput::Turn(self.facts())),
        };
        self.step(CheckpointInput::Begun { zxid, mark, facts: self.facts() });
    }

    fn publish(&self, zxid: i64, exact: Option<i64>) {
        let is_new = self.task.shared.look(|contents| {
            contents.freshness != contents.fresh(zxid)
                || contents.exact != exact
                || contents.failed.is_some()
        });
        if is_new {
            self.task.health.report(Health::Working);
            self.task.shared.change(|contents| {
                contents.exact = exact;
                contents.failed = None;
                contents.set_freshness(contents.fresh(zxid));
            });
        }
    }

    /// Sends what can be sent.
    fn send(&mut self) {
        let standing = self.phase.standing();
        if self.pauses.is_on() || standing == CheckpointStanding::Disarmed {
            return;
        }
        let needs_proof = self.task.shared.wants.has_provers();
        self.step(CheckpointInput::Send { standing, needs_proof });
        if standing != CheckpointStanding::Ahead {
            self.read();
        }
    }

    fn ask(&mut self, request: CheckpointRequest) {
        let asked = self.requests.ask(request, self.task.checkpoints.heard());
        match (request, &mut self.phase) {
            (CheckpointRequest::Gate, CachePhase::Ahead { gate, .. }) => *gate = Some(asked),
            _ => self.asked.push(asked),
        }
        if request == CheckpointRequest::Barrier {
            self.phase.hurry();
        }
    }

    fn answered(&mut self, CheckpointAnswer { request, outcome, heard }: CheckpointAnswer) {
        self.step(CheckpointInput::Answered { request, heard, outcome });
    }

    /// Takes all events that have arrived. They may have been waiting since this time.
    fn drain(&mut self, since: Option<Cause>) {
        // Without the task's budget: if it is used up, waiting events would not be seen.
        if let Some(event) = unconstrained(self.watch.next()).now_or_never() {
            self.events(event, since);
        }
    }

    /// Takes an event, and all that have arrived after it.
    fn events(&mut self, first: Option<PersistentEvent>, since: Option<Cause>) {
        let mut event = first;
        let mut changed = Vec::new();
        loop {
            match event {
                Some(PersistentEvent::Changed(change)) => changed.push(change),
                Some(PersistentEvent::Disarmed) => {
                    // These events decide if the next server may be behind.
                    self.changed(std::mem::take(&mut changed), since);
                    self.disconnected();
                }
                Some(PersistentEvent::Rearmed { unchanged }) => {
                    self.changed(std::mem::take(&mut changed), since);
                    self.rearmed(unchanged);
                }
                Some(PersistentEvent::Ended(why)) => return self.stop(Some(why)),
                None => return self.stop(None),
                Some(_) => {}
            }
            match unconstrained(self.watch.next()).now_or_never() {
                Some(next) => event = next,
                None => break,
            }
        }
        self.changed(changed, since);
    }

    /// The watch has ended.
    fn stop(&mut self, why: Option<WatchEnded>) {
        self.phase = CachePhase::Stopped(match why {
            Some(WatchEnded::SessionLost) => Ok(StaleCause::SessionLost),
            Some(WatchEnded::Removed) => Ok(StaleCause::WatchRemoved),
            Some(WatchEnded::Closed) | None => Err(Error::closed("cache", &self.task.shared.root)),
            // The server after a reconnect may have no persistent watches; adding the watch will
            // show this.
            Some(why) => {
                debug!(%why, "the watch of the cache has ended");
                Ok(StaleCause::WatchRemoved)
            }
        });
    }

    /// Passes the events that concern the state to it. A recursive watch also reports nodes below
    /// the scope.
    fn changed(&mut self, mut changed: Vec<WatchedEvent>, since: Option<Cause>) {
        if changed.is_empty() {
            return;
        }
        self.task.shared.look(|contents| changed.retain(|event| contents.state.concerns(event)));
        if changed.is_empty() {
            return;
        }
        self.step(CheckpointInput::Heard(changed.len() as u64));
        self.task.shared.change(|contents| {
            contents.exact = None;
            let mut changes = Vec::new();
            let cause = since.unwrap_or_else(|| contents.state.news());
            for event in &changed {
                contents.state.event(event, cause, &mut changes);
            }
            contents.tell(changes);
        });
    }
}
