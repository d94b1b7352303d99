//! Performs what the [machine](super::machine) decides.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use zk_curator::internal::{bounded, sleep, sleep_until};
use zk_curator::state::StateWatch;
use zk_curator::{ConnectionState, ConnectionStatus, CuratorFramework, Ownership};

use super::Error;
use super::held::{Control, Partition};
use super::machine::{PartitionEffect, PartitionInput, PartitionMachine};
use super::site::{List, PartitionSite, Roster, optional};
use crate::health::{Health, HealthReporter, HealthWatch};
use crate::lock::{self, MutexGuard};
use crate::measure::Partitioning;
use crate::random::fraction;
use crate::shutdown::RunEnding;

/// The shortest pause before a body that has failed runs again.
const SHORTEST: Duration = Duration::from_millis(10);

/// The treatment of bodies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Care {
    /// The first and the longest pause before a body that has failed runs again.
    pub(super) pauses: (Duration, Duration),
    pub(super) ends_on_error: bool,
    pub(super) stops_when_suspended: bool,
}

/// Work on a part, which ends with a [`PartRunEvent`].
enum PartTask {
    Acquire,
    Own(HeldPart),
    Release(HeldPart),
}

/// The lock of a part.
struct HeldPart {
    /// Resolves when it is lost. Dropped after the release, which ends its watch: to remove the
    /// watch would be a request.
    lost: BoxFuture<'static, ()>,
    guard: MutexGuard,
}

enum PartRunEvent {
    Granted(HeldPart),
    Cancelled,
    Ended(HeldPart),
    /// The body has failed, and the member is to end.
    Broken(HeldPart, Error),
    Lost,
    Released,
    Failed(Error),
}

/// The health of a member: that of its node, and of its parts.
pub(super) struct Condition<'a> {
    reporter: &'a HealthReporter,
    node: HealthWatch,
    of_node: Health,
}

impl<'a> Condition<'a> {
    pub(super) const fn new(reporter: &'a HealthReporter, node: HealthWatch) -> Self {
        Self { reporter, node, of_node: Health::Waiting }
    }

    /// Waits until the health of the node has changed. Nothing is lost if the future is dropped.
    async fn changed(&mut self) {
        match self.node.next().await {
            Some(health) => self.of_node = health,
            // No task keeps the node.
            None if matches!(self.of_node, Health::Working) => self.of_node = Health::Waiting,
            None => pending().await,
        }
    }

    fn report(&self, machine: &PartitionMachine) {
        let parts = if machine.is_settled() { Health::Working } else { Health::Waiting };
        self.reporter.report(self.of_node.clone().and(parts));
    }
}

/// The reason why a member ends.
#[derive(Debug, Default)]
struct ClosingReason {
    /// `true` if the end of the run has begun.
    is_stopped: bool,
    /// The first error of a body that ends the member.
    failed: Option<Error>,
}

impl ClosingReason {
    const fn has_begun(&self) -> bool {
        self.is_stopped || self.failed.is_some()
    }

    /// Keeps the first error. Returns `true` if this is it.
    fn fail(&mut self, error: Option<Error>) -> bool {
        let is_first = self.failed.is_none() && error.is_some();
        if is_first {
            self.failed = error;
        }
        is_first
    }
}

/// Everything that work on a part needs.
struct PartContext {
    site: Arc<PartitionSite>,
    part: String,
    control: Arc<Control>,
    care: Care,
}

/// A part that the member is busy with.
struct Busy {
    control: Arc<Control>,
    /// The lock, between two jobs.
    held: Option<HeldPart>,
}

/// Runs a member until its end has begun and everything is released, or until a permanent error.
/// The error of a body begins the end too, if it is to end the member.
pub(super) async fn run<F, Fut, E>(
    site: Arc<PartitionSite>,
    mut machine: PartitionMachine,
    (mut roster, mut list): (Roster, List),
    care: Care,
    ending: &RunEnding,
    mut condition: Condition<'_>,
    body: &F,
) -> Result<(), Error>
where
    F: Fn(Partition) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    let mut parts: BTreeMap<String, Busy> = BTreeMap::new();
    let mut jobs = FuturesUnordered::new();
    let measured = Partitioning::begin(&site.zk, &site.path);
    // The last one is taken first.
    let mut inputs = Vec::new();
    let mut closing = ClosingReason::default();
    while !machine.is_over() {
        let input = tokio::select! {
            biased;
            () = ending.begun(), if !closing.is_stopped => {
                closing.is_stopped = true;
                PartitionInput::Close(ending.end())
            }
            Some((part, event)) = jobs.next(), if !jobs.is_empty() => {
                let (input, error) = take(&mut parts, &measured, part, event)?;
                if closing.fail(error) {
                    let now = Instant::now();
                    let until = machine.drained_at(now);
                    inputs.push(PartitionInput::Close(until));
                }
                input
            }
            members = roster.changed(), if !closing.has_begun() => PartitionInput::Members(members?),
            list = list.changed(), if !closing.has_begun() => PartitionInput::Parts(list?),
            () = optional(machine.timer().map(sleep_until)) => PartitionInput::Timer,
            () = condition.changed() => PartitionInput::Timer,
        };
        inputs.push(input);
        while let Some(input) = inputs.pop() {
            for effect in machine.step(Instant::now(), input) {
                debug!(path = site.path, ?effect, "partition");
                let Some((part, job)) = perform_now(&site.path, effect, &mut parts, &mut inputs)
                else {
                    continue;
                };
                let control = Arc::clone(&parts[&part].control);
                let work = PartContext { site: Arc::clone(&site), part, control, care };
                jobs.push(perform(work, job, body));
            }
        }
        measured.assigned(machine.assigned());
        condition.report(&machine);
    }
    closing.failed.map_or(Ok(()), Err)
}

/// Performs an effect, or returns the job that does it.
fn perform_now(
    path: &str,
    effect: PartitionEffect,
    parts: &mut BTreeMap<String, Busy>,
    inputs: &mut Vec<PartitionInput>,
) -> Option<(String, PartTask)> {
    match effect {
        PartitionEffect::Acquire(part) => {
            let busy = Busy { control: Arc::default(), held: None };
            parts.insert(part.clone(), busy);
            return Some((part, PartTask::Acquire));
        }
        PartitionEffect::Start(part) => {
            let held = take_lock(parts, &part)?;
            return Some((part, PartTask::Own(held)));
        }
        PartitionEffect::Release(part) => {
            let held = take_lock(parts, &part)?;
            return Some((part, PartTask::Release(held)));
        }
        PartitionEffect::Cancel(part) => parts[&part].control.cancel.cancel(),
        PartitionEffect::Stop(part) => {
            warn!(path, part, "the time to drain has passed");
            parts[&part].control.stop.cancel();
        }
        PartitionEffect::Revoke(part) => parts[&part].control.revoke(),
        PartitionEffect::Reprieve(part) => {
            if parts[&part].control.reprieve() {
                inputs.push(PartitionInput::Reprieved(part));
            }
        }
    }
    None
}

/// Takes the lock of a part for a job.
fn take_lock(parts: &mut BTreeMap<String, Busy>, part: &str) -> Option<HeldPart> {
    parts.get_mut(part)?.held.take()
}

/// Takes the end of a job, and the error of a body that ends the member.
fn take(
    parts: &mut BTreeMap<String, Busy>,
    measured: &Partitioning,
    part: String,
    event: PartRunEvent,
) -> Result<(PartitionInput, Option<Error>), Error> {
    let mut keep = |held| {
        if let Some(busy) = parts.get_mut(&part) {
            busy.held = Some(held);
        }
    };
    let input = match event {
        PartRunEvent::Granted(held) => {
            keep(held);
            measured.acquired();
            return Ok((PartitionInput::Granted(part), None));
        }
        PartRunEvent::Ended(held) => {
            keep(held);
            let knows = parts.get(&part).is_some_and(|busy| busy.control.is_noticed());
            let input =
                if knows { PartitionInput::Left(part) } else { PartitionInput::Ended(part) };
            return Ok((input, None));
        }
        PartRunEvent::Broken(held, error) => {
            keep(held);
            return Ok((PartitionInput::Ended(part), Some(error)));
        }
        PartRunEvent::Cancelled => PartitionInput::Cancelled,
        PartRunEvent::Lost => {
            measured.lost();
            PartitionInput::Lost
        }
        PartRunEvent::Released => {
            measured.released();
            PartitionInput::Released
        }
        PartRunEvent::Failed(error) => return Err(error),
    };
    parts.remove(&part);
    Ok((input(part), None))
}

/// Does the work of one job, until its end. Dropped, it drops the body, and releases the lock in
/// the background.
async fn perform<F, Fut, E>(work: PartContext, job: PartTask, body: &F) -> (String, PartRunEvent)
where
    F: Fn(Partition) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    let event = match job {
        PartTask::Acquire => work.acquire().await,
        PartTask::Own(held) => work.own(held, body).await,
        PartTask::Release(held) => work.release(held).await,
    };
    (work.part, event)
}

impl PartContext {
    async fn acquire(&self) -> PartRunEvent {
        let zk = &self.site.zk;
        let lock = self.site.lock(&self.part);
        let granted = async {
            if self.care.stops_when_suspended {
                // The framework may report the end of a suspension late.
                let _closed = zk.states().until(is_writable).await;
            }
            loop {
                match lock.acquire().await {
                    Ok(guard) => return Ok(guard),
                    Err(lock::Error::Framework(error)) => zk.wait_for_recovery(error).await?,
                    Err(error) => return Err(Error::Lock(error)),
                }
            }
        };
        let granted = tokio::select! {
            biased;
            () = self.control.cancel.cancelled() => return PartRunEvent::Cancelled,
            granted = granted => granted,
        };
        match granted {
            Ok(guard) => {
                let states = self.care.stops_when_suspended.then(|| zk.states());
                let lost = lost(states, guard.ownership().clone());
                PartRunEvent::Granted(HeldPart { lost: Box::pin(lost), guard })
            }
            Err(error) => PartRunEvent::Failed(error),
        }
    }

    /// Runs the body until it has ended, is stopped, or the lock is lost. The body is dropped
    /// before this ends.
    async fn own<F, Fut, E>(&self, mut held: HeldPart, body: &F) -> PartRunEvent
    where
        F: Fn(Partition) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let (path, part, control) = (&self.site.path, &self.part, &self.control);
        info!(path, part, token = %held.guard.fencing_token(), "owns a part");
        let mut failures = 0;
        loop {
            let ownership = held.guard.ownership().clone();
            let partition = Partition::new(part.clone(), ownership, Arc::clone(control));
            let began = Instant::now();
            let error = tokio::select! {
                biased;
                () = &mut held.lost => return self.lost(),
                () = control.stop.cancelled() => return PartRunEvent::Ended(held),
                done = body(partition) => match done {
                    Ok(()) => return PartRunEvent::Ended(held),
                    Err(error) => error.to_string(),
                },
            };
            if self.care.ends_on_error {
                let (path, part) = (path.clone(), part.clone());
                return PartRunEvent::Broken(held, Error::Body { path, part, why: error });
            }
            let (first, longest) = self.care.pauses;
            failures = if began.elapsed() > longest { 0 } else { failures };
            let pause = pause(&self.site.zk, first, longest, failures);
            failures += 1;
            warn!(path, part, failures, ?pause, error, "the body of a part has failed");
            control.forget_reprieve();
            tokio::select! {
                biased;
                () = &mut held.lost => return self.lost(),
                () = control.stop.cancelled() => return PartRunEvent::Ended(held),
                () = control.revoked() => return PartRunEvent::Ended(held),
                () = sleep(pause) => {}
            }
        }
    }

    fn lost(&self) -> PartRunEvent {
        warn!(path = self.site.path, part = self.part, "a part was lost");
        PartRunEvent::Lost
    }

    async fn release(&self, held: HeldPart) -> PartRunEvent {
        let HeldPart { lost, guard } = held;
        let released = guard.release().await;
        drop(lost);
        match released {
            Ok(()) => PartRunEvent::Released,
            // The body may have ended because of that, and not because its work is done.
            Err(lock::Error::Lost { .. }) => self.lost(),
            Err(error) => {
                // The janitor continues, unless the session is over.
                debug!(path = self.site.path, part = self.part, %error, "not released");
                PartRunEvent::Lost
            }
        }
    }
}

/// Resolves when the lock of a part is lost, or the connection, if the part must not outlast that:
/// `states` follows it then.
fn lost(states: Option<StateWatch>, ownership: Ownership) -> impl Future<Output = ()> {
    let since = states.as_ref().map(StateWatch::current);
    async move {
        let suspended = async {
            match (states, since) {
                (Some(mut states), Some(since)) => {
                    // Every other state came through SUSPENDED, also where that was not seen.
                    let is_new = |status: &ConnectionStatus| status.epoch != since.epoch;
                    if is_writable(&since) {
                        states.until(is_new).await;
                    }
                }
                _ => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = suspended => {}
            () = ownership.lost() => {}
        }
    }
}

fn is_writable(status: &ConnectionStatus) -> bool {
    status.state.is_connected() && status.state != ConnectionState::ReadOnly
}

/// The pause after a failure: doubled with each, of which between a half and all by chance.
fn pause(zk: &CuratorFramework, first: Duration, longest: Duration, failures: u32) -> Duration {
    let longest = bounded(longest);
    let pause = first.saturating_mul(2_u32.saturating_pow(failures)).min(longest);
    pause.mul_f64(0.5 + fraction(zk) / 2.0).max(SHORTEST)
}
