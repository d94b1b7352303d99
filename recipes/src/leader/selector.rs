use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use zk_curator::internal::{OnDrop, Signal, sleep};
use zk_curator::path::ZPath;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorKind, OwnedNode};

use super::leadership::TermLog;
use super::queue::{CandidateQueue, candidate_settings, withdraw};
use super::{Error, LeaderObserver, Leadership, Participant, tag};
use crate::contender::Contender;
use crate::run::Run;
use crate::shutdown::{RunEnding, Shutdown};

/// A body that ends sooner has returned immediately.
const SHORT_TERM: Duration = Duration::from_millis(100);
/// The pauses after such bodies: the first, which doubles each time, and the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Runs a future of yours, the body, while we lead. Cheap to clone; all clones are one selector.
///
/// # Layout
/// ```text
/// /services/orders                         container, made by the first candidate
///   ├─ _c_<uuid>-lock-0000000007           ephemeral, sequential: the leader; data: its id
///   └─ _c_<uuid>-lock-0000000009           waits for …0007, with a getData watch
/// ```
/// The layout of Apache Curator's `LeaderSelector`, which is the one of an
/// [`InterProcessMutex`](crate::lock::InterProcessMutex). Candidates in Java and in Rust can take
/// part in one election.
///
/// # Protocol
/// 1. As of [`LeaderLatch`](super::LeaderLatch), until we lead.
/// 2. Run the body.
/// 3. When it is done or interrupted, it is dropped, and then the node is deleted: the next leader
///    next does not meet it.
/// 4. When leadership is lost, the body is dropped immediately.
///
/// There is no task: [`run`](Self::run) is a future like any other, and the body runs within it.
///
/// # Guarantees
/// * The body runs only while we lead, as far as this client knows: see [`leader`](super) about
///   fencing.
/// * On every way out but a lost leadership, panics included, the body has ended before the node
///   goes away.
/// * [`close`](Self::close) returns when no body runs.
///
/// # Assumptions
/// Only candidates write here. A body does not block its thread: it could not be dropped.
///
/// # Connection loss
/// See [the table](super#when-leadership-ends). When leadership ends, the body does, and the place
/// is given up; [`run`](Self::run) enters the queue again.
///
/// # Cancel safety
/// Dropping the future of `run` drops the body, and leaves the election in the background.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::leader::LeaderSelector;
///
/// let selector = LeaderSelector::new(&zk, "/services/orders").id("worker-1");
/// let work = |token| async move { format!("done by the leader with the token {token}") };
/// println!("{}", selector.run_once(|leadership| work(leadership.fencing_token())).await?);
///
/// // Again and again, until it is closed.
/// let worker = tokio::spawn({
///     let selector = selector.clone();
///     async move { selector.run(|leadership| async move { leadership.lost().await }).await }
/// });
/// # while !selector.has_leadership() { tokio::task::yield_now().await; }
/// selector.interrupt_leadership();
/// # worker.abort();
/// # drop(worker.await);
/// selector.close().await;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LeaderSelector {
    queue: CandidateQueue,
    turns: Arc<Signal<SelectorTurns>>,
    closing: CancellationToken,
}

/// The runs of a selector that are under way.
#[derive(Debug, Default)]
struct SelectorTurns {
    running: usize,
    /// The running bodies, by number: one leads; bodies whose term is over may not have been
    /// dropped yet.
    bodies: BTreeMap<u64, TermBody>,
    next: u64,
}

#[derive(Debug)]
struct TermBody {
    leadership: Leadership,
    interrupt: CancellationToken,
}

impl LeaderSelector {
    /// The election at a path. Nothing is sent; a path that is not valid is refused when it runs.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self::within(zk, path, "selector")
    }

    /// The election at a path, as a part of another recipe, which has this name in metrics.
    pub(crate) fn within(
        zk: &CuratorFramework,
        path: impl Into<String>,
        recipe: &'static str,
    ) -> Self {
        let queue = CandidateQueue::new(zk, path, tag::SELECTOR, recipe);
        Self { queue, turns: Arc::default(), closing: CancellationToken::new() }
    }

    candidate_settings!();

    /// The path of the election.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Waits until we lead, through every outage, runs `body`, and gives leadership up.
    ///
    /// # Errors
    /// * [`Error::Lost`] when leadership was lost before `body` was done, or before it was given
    ///   up.
    /// * [`Error::Interrupted`] when it was [interrupted](Self::interrupt_leadership).
    /// * [`Error::Closed`] when the selector is [closed](Self::close) before it leads; then `body`
    ///   did not run.
    /// * [`Error::Framework`] when the path is not valid, or the election cannot be joined, for
    ///   example for `NoAuth`; then `body` did not run.
    ///
    /// # Panics
    /// Panics if `body` panics; leadership is given up.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body`, and leaves the election in the background.
    pub async fn run_once<F, Fut>(&self, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Leadership) -> Fut,
        Fut: Future,
    {
        let parent = self.queue.parent("run_once")?;
        let _running = self.running()?;
        self.turn(&parent, &Shutdown::new().ending(), body).await
    }

    /// Runs `body` whenever we lead, again and again, until the selector is [closed](Self::close).
    /// After every turn, however it ended, it enters the queue again, at its end. If the body has
    /// ended within 100 milliseconds, it does so after a pause, which doubles each time from 10
    /// milliseconds to a second, and is up to half of it shorter.
    ///
    /// [Until a stop](Run::until): a waiting candidate then leaves the queue; the body of a leader
    /// may continue for the time to drain, and is then dropped. The run returns when the node is
    /// gone, or the session is over; without servers after twice the session timeout at most, and
    /// the node is deleted in the background. Other runs of this selector continue.
    ///
    /// # Errors
    /// The errors of [`run_once`](Self::run_once), except for a leadership that was lost or
    /// interrupted and a closed selector.
    ///
    /// # Panics
    /// Panics if `body` panics; leadership is given up.
    ///
    /// # Cancel safety
    /// As [`run_once`](Self::run_once).
    #[doc(alias = "autoRequeue")]
    pub fn run<F, Fut>(&self, body: F) -> Run<impl Future<Output = Result<(), Error>>>
    where
        F: FnMut(Leadership) -> Fut,
        Fut: Future<Output = ()>,
    {
        Run::new(|stop| async move {
            let parent = self.queue.parent("run")?;
            let ended = self.turns_until(&parent, &stop.ending(), body).await;
            // A place whose creation has no response yet is left in the background.
            let _: bool = self.queue.zk.wait_until_released().await;
            ended
        })
    }

    async fn turns_until<F, Fut>(
        &self,
        parent: &ZPath,
        ending: &RunEnding,
        mut body: F,
    ) -> Result<(), Error>
    where
        F: FnMut(Leadership) -> Fut,
        Fut: Future<Output = ()>,
    {
        let _running = self.running()?;
        let is_over = || self.closing.is_cancelled() || ending.has_begun();
        let mut pause = SHORTEST_PAUSE;
        while !is_over() {
            let (mut began, body) = (None, &mut body);
            let turn = self.turn(parent, ending, |leadership| {
                began = Some(Instant::now());
                body(leadership)
            });
            match turn.await {
                Ok(()) | Err(Error::Lost { .. } | Error::Interrupted { .. }) => {}
                Err(Error::Closed { .. }) if is_over() => {}
                Err(error) => return Err(error),
            }
            // A body that returns immediately, again and again, would ask the servers for a term
            // after the other.
            if began.is_none_or(|began| began.elapsed() >= SHORT_TERM) {
                pause = SHORTEST_PAUSE;
                continue;
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => {}
                () = ending.begun() => {}
                () = sleep(pause / 2 + self.queue.zk.jitter(pause / 2)) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(())
    }

    /// Ends the present term of leadership, if we lead: `body` is dropped, then the node is
    /// deleted. Runs of this selector that wait in the queue keep waiting. Returns `true` if we
    /// led: see [`has_leadership`](Self::has_leadership).
    #[doc(alias = "requeue")]
    pub fn interrupt_leadership(&self) -> bool {
        let interrupts: Vec<_> = self.turns.look(|turns| {
            let leading = turns.bodies.values().filter(|body| body.leads());
            leading.map(|body| body.interrupt.clone()).collect()
        });
        interrupts.iter().for_each(CancellationToken::cancel);
        !interrupts.is_empty()
    }

    /// Returns `true` if `body` runs, in whichever run of the selector, and we lead as far as is
    /// known here.
    #[must_use]
    pub fn has_leadership(&self) -> bool {
        self.turns.look(|turns| turns.bodies.values().any(TermBody::leads))
    }

    /// Resolves when the selector is being closed. A body can await it to know when to end.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Closes the selector, for all clones: waiters leave the queue, and no further body runs.
    /// Returns when a running `body` has ended by itself, and its node is gone.
    /// [`closing`](Self::closing) asks the body to end;
    /// [`interrupt_leadership`](Self::interrupt_leadership) forces it. A body must not wait for
    /// this.
    ///
    /// # Cancel safety
    /// The selector is closed in any case, once this was polled.
    pub async fn close(&self) {
        self.closing.cancel();
        self.turns.until(|turns| turns.running == 0).await;
    }

    /// Returns the leader, then the waiting candidates in their order, including those of Java's
    /// Curator. The id is the [label](Participant::label).
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework. An election without candidates has no
    /// participants.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        Ok(self.queue.participants().await?)
    }

    /// Returns the leader; `None` if there is none. The first candidate leads, or will lead as soon
    /// as it learns that it is first.
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        Ok(self.queue.leader().await?)
    }

    /// Follows who leads, without taking part: also among candidates in Java. Nothing is sent
    /// before the first [`LeaderObserver::next`], which refuses an invalid path.
    #[must_use]
    pub fn observe(&self) -> LeaderObserver {
        LeaderObserver::new(&self.queue.zk, self.path(), self.queue.tag)
    }

    /// Counts a run until the result is dropped.
    fn running(&self) -> Result<OnDrop<impl FnOnce()>, Error> {
        let all = &self.turns;
        // Under the lock of the signal: `close` either counts it or stops it.
        all.modify(|turns| {
            if self.closing.is_cancelled() {
                return Err(self.closed());
            }
            turns.running += 1;
            Ok(OnDrop::new(move || all.modify(|turns| turns.running -= 1)))
        })
    }

    async fn turn<F, Fut>(
        &self,
        parent: &ZPath,
        ending: &RunEnding,
        body: F,
    ) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Leadership) -> Fut,
        Fut: Future,
    {
        let _candidacy = self.queue.candidacy();
        // On the heap, for a body that is small.
        let (node, leadership, watch) = Box::pin(self.elected(parent, ending)).await?; // 1
        let told = TermLog::begin(&leadership, self.queue.recipe);
        let running = RunningBody::begin(&self.turns, leadership.clone());
        let path = || leadership.path().to_owned();
        let lost = || Error::Lost { path: path() };
        let interrupted = || Error::Interrupted { path: path() };
        // The body ends within this expression, whatever ends it.
        let ended = tokio::select! {
            biased;
            () = Box::pin(leadership.lost_by(watch)) => Err(lost()), // 4
            () = running.interrupt.cancelled() => Err(interrupted()),
            () = ending.drained() => Err(interrupted()),
            output = body(leadership.clone()) => Ok(output), // 2
        };
        drop(running);
        drop(told);
        if matches!(ended, Err(Error::Lost { .. })) {
            // The node may be out of reach: it is left to the janitor.
            return ended;
        }
        let was_lost = leadership.is_over();
        match node.delete().await {
            // 3
            Err(error) if error.kind() == ErrorKind::NoNode || error.is_session_lost() => {
                ended.and_then(|_| Err(lost()))
            }
            _ if was_lost => ended.and_then(|_| Err(lost())),
            Ok(()) => ended,
            Err(error) => {
                // The work is done; the janitor continues to delete the node.
                debug!(%error, "leadership will be given up in the background");
                ended
            }
        }
    }

    /// Waits until we lead, or the selector is closed, or this run of it ends.
    async fn elected(
        &self,
        parent: &ZPath,
        ending: &RunEnding,
    ) -> Result<(OwnedNode, Leadership, Watch), Error> {
        loop {
            let mut place = None;
            let turn = tokio::select! {
                biased;
                () = self.closing.cancelled() => None,
                () = ending.begun() => None,
                turn = self.queue.turn(parent, &mut place) => Some(turn?),
            };
            let Some((node, kept)) = turn else {
                return self.leave(place.map(Contender::into_node)).await;
            };
            let begun = tokio::select! {
                biased;
                () = self.closing.cancelled() => return self.leave(Some(node)).await,
                () = ending.begun() => return self.leave(Some(node)).await,
                begun = Leadership::begin(&self.queue.zk, &node, kept) => begun?,
            };
            if let Some((leadership, watch)) = begun {
                return Ok((node, leadership, watch));
            }
        }
    }

    async fn leave<T>(&self, node: Option<OwnedNode>) -> Result<T, Error> {
        if let Some(node) = node {
            withdraw(node).await?;
        }
        Err(self.closed())
    }

    fn closed(&self) -> Error {
        Error::Closed { path: self.path().to_owned() }
    }
}

impl fmt::Debug for LeaderSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderSelector")
            .field("path", &self.queue.path)
            .field("has_leadership", &self.has_leadership())
            .finish_non_exhaustive()
    }
}

impl TermBody {
    fn leads(&self) -> bool {
        !self.leadership.is_over()
    }
}

/// Lists a body until it has ended.
struct RunningBody<'a> {
    turns: &'a Signal<SelectorTurns>,
    number: u64,
    interrupt: CancellationToken,
}

impl<'a> RunningBody<'a> {
    fn begin(turns: &'a Signal<SelectorTurns>, leadership: Leadership) -> Self {
        let interrupt = CancellationToken::new();
        let body = TermBody { leadership, interrupt: interrupt.clone() };
        let number = turns.modify(|turns| {
            turns.next += 1;
            turns.bodies.insert(turns.next, body);
            turns.next
        });
        Self { turns, number, interrupt }
    }
}

impl Drop for RunningBody<'_> {
    fn drop(&mut self) {
        // The old list is dropped without the lock.
        drop(self.turns.modify(|turns| turns.bodies.remove(&self.number)));
    }
}
