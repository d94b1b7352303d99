use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use tokio_util::sync::CancellationToken;
use zk_curator::internal::{Setbacks, Signal, sleep};
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, OwnedNode};

use super::leadership::TermLog;
use super::queue::{CandidateQueue, candidate_settings, withdraw};
use super::{Error, LeaderObserver, Leadership, Participant, tag};
use crate::contender::{Contender, KeptWatch};

/// The pause after a failure that an immediate retry cannot fix, such as a missing permission.
const PAUSE: Duration = Duration::from_secs(1);

/// An election in which a [`Candidate`] stays until it leaves: in the background, through every
/// outage.
///
/// # Layout
/// ```text
/// /services/orders                         container, made by the first candidate
///   ├─ _c_<uuid>-latch-0000000007          ephemeral, sequential: the leader; data: its id, UTF-8
///   └─ _c_<uuid>-latch-0000000009          waits for …0007, with a getData watch
/// ```
/// The layout of Apache Curator's `LeaderLatch`: candidates in Java and in Rust can be in one
/// election. Children with other names are ignored.
///
/// # Protocol
/// The [leader election](https://zookeeper.apache.org/doc/current/recipes.html#sc_leaderElection)
/// of ZooKeeper's recipes, as an [`InterProcessMutex`](crate::lock::InterProcessMutex) does it:
/// 1. Create the node, and list the children in the same round trip.
/// 2. The lowest number is first. Every other candidate watches its predecessor, and the one before
///    that, so that it can list again in advance. When the one before it is gone, the next in line
///    is first without listing.
/// 3. Every candidate watches its own node while it waits. The first candidate leads immediately if
///    that watch was set on this connection and has not fired. Otherwise it first reads its own
///    node and sets the watch.
/// 4. When its own node is gone, go to 1.
///
/// # Guarantees
/// * At most one candidate with an existing node leads: if a [`fenced`](Leadership::fenced)
///   transaction succeeds, no other candidate leads.
/// * [Fencing tokens](Leadership::fencing_token) grow from leader to leader.
/// * A candidate never stops trying, whatever fails, until it leaves.
/// * When a leader goes, one candidate is woken, or two.
///
/// # Assumptions
/// Only candidates write here. A leader stops when [`has_leadership`](Candidate::has_leadership)
/// says so, or [`Leadership::lost`] resolves, or it fences its writes.
///
/// # Connection loss
/// See [the table](super#when-leadership-ends).
///
/// # Cancel safety
/// A candidate that is dropped leaves the election in the background.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::leader::LeaderLatch;
///
/// let latch = LeaderLatch::new(&zk, "/services/orders").id("worker-1");
/// let candidate = latch.join();
/// let leadership = candidate.await_leadership().await?;
/// assert!(candidate.has_leadership());
/// leadership.fenced().create("/report", "of the only leader").commit().await?;
/// assert_eq!(latch.leader().await?.unwrap().label, "worker-1");
/// candidate.close().await?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct LeaderLatch {
    queue: CandidateQueue,
    close_mode: CloseMode,
}

/// The last state of a [`Candidate`] that is [closed](Candidate::close) or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CloseMode {
    /// Nothing: their streams end.
    #[default]
    Silent,
    /// [`LatchState::Closed`], and then their streams end.
    NotifyLeader,
}

impl LeaderLatch {
    /// The election at a path. Nothing is sent.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self::within(zk, path, "latch")
    }

    /// The election at a path, as a part of another recipe, which has this name in metrics.
    pub(crate) fn within(
        zk: &CuratorFramework,
        path: impl Into<String>,
        recipe: &'static str,
    ) -> Self {
        let queue = CandidateQueue::new(zk, path, tag::LATCH, recipe);
        Self { queue, close_mode: CloseMode::default() }
    }

    candidate_settings!();

    /// The last state of a candidate that is closed. Default: [`CloseMode::Silent`].
    #[must_use]
    pub const fn close_mode(mut self, close_mode: CloseMode) -> Self {
        self.close_mode = close_mode;
        self
    }

    /// The path of the election.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Joins the election: a [task in the background](CuratorFramework::spawn) does, once there is
    /// a connection, and again after every session that is lost. An invalid path makes the
    /// candidate [fail](LatchState::Failed).
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    #[doc(alias = "start")]
    pub fn join(&self) -> Candidate {
        let view = Arc::new(Signal::new(LatchView {
            state: LatchState::Waiting,
            term: 0,
            silent: false,
            end: None,
        }));
        let leave = CancellationToken::new();
        let race = CandidateTask {
            queue: self.queue.clone(),
            leave: leave.clone(),
            view: Arc::clone(&view),
        };
        let path = self.queue.path.clone();
        let (ending, joined) = (Arc::clone(&view), path.clone());
        // This runs even if the runtime is shut down.
        self.queue.zk.spawn_then(race.run(), move |end| {
            let end = end.unwrap_or_else(|why| Err(why.of_operation("join", joined).into()));
            // The old state is dropped without the lock.
            drop(ending.modify(|view| {
                view.term += u64::from(!matches!(view.state, LatchState::Closed));
                view.end = Some(end);
                std::mem::replace(&mut view.state, LatchState::Closed)
            }));
        });
        Candidate { zk: self.queue.zk.clone(), path, view, leave, close_mode: self.close_mode }
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
}

/// The state of a [`Candidate`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LatchState {
    /// It waits for its turn, or for a connection.
    Waiting,
    /// It leads. Every reported `Leader` is a new term.
    Leader(Leadership),
    /// An operation failed with an error that a retry will probably not fix, such as `NoAuth`. It
    /// is retried after pauses that grow from half a second to 30 seconds.
    Failed(zk_curator::Error),
    /// It has left the election, or the framework was closed.
    Closed,
}

/// The state that the candidate, its streams and its task share.
#[derive(Debug)]
struct LatchView {
    state: LatchState,
    /// Counts the states.
    term: u64,
    /// `true` if the end is not reported.
    silent: bool,
    /// How it ended.
    end: Option<Result<(), Error>>,
}

/// Is in the election of a [`LeaderLatch`] until it is [closed](Self::close) or dropped.
///
/// # Cancel safety
/// Dropping it leaves the election in the background.
#[must_use = "dropping it leaves the election"]
pub struct Candidate {
    zk: CuratorFramework,
    /// The path of the election.
    path: String,
    view: Arc<Signal<LatchView>>,
    leave: CancellationToken,
    close_mode: CloseMode,
}

impl Candidate {
    /// Returns `true` if this client leads, as far as it knows. Becomes `false` immediately when
    /// the connection is lost, as [the table](super#when-leadership-ends) shows.
    #[must_use]
    pub fn has_leadership(&self) -> bool {
        self.leadership().is_some()
    }

    /// The present term, if we lead.
    #[must_use]
    pub fn leadership(&self) -> Option<Leadership> {
        self.view.look(|view| view.state.leadership())
    }

    /// Waits until we lead, however long it takes. Compose with `tokio::time::timeout`.
    ///
    /// # Errors
    /// * [`Error::Framework`] when the election cannot be joined, for example for `NoAuth`. It is
    ///   tried again in the background in any case. `NotStarted` if the framework was not started:
    ///   the election is joined when it is.
    /// * [`Error::Closed`] when the framework was closed.
    ///
    /// # Cancel safety
    /// Nothing is changed: the candidate stays in the election.
    pub async fn await_leadership(&self) -> Result<Leadership, Error> {
        self.zk.check_started("await_leadership", &self.path)?;
        let closed = || Error::Closed { path: self.path.clone() };
        let decided = |view: &LatchView| match &view.state {
            LatchState::Failed(error) => Some(Err(error.clone().into())),
            LatchState::Closed => {
                Some(Err(view.end.clone().and_then(Result::err).unwrap_or_else(closed)))
            }
            state => state.leadership().map(Ok),
        };
        self.view.find(decided).await
    }

    /// Returns the present state.
    #[must_use]
    pub fn state(&self) -> LatchState {
        self.view.look(|view| view.state.clone())
    }

    /// Follows the state of the candidate, beginning with the current one.
    #[must_use]
    pub fn states(&self) -> LatchStates {
        LatchStates { view: Arc::clone(&self.view), told: None }
    }

    /// Leaves the election, and waits for the response. Before the node goes away,
    /// [`has_leadership`](Self::has_leadership) is `false`, and the [`Leadership`] is over. May be
    /// called through an `Arc`, and again: every call has the same response.
    ///
    /// # Errors
    /// [`Error::Framework`] when the servers do not let us delete our node, for example for
    /// `NoAuth`. It is not an error if they cannot be reached: after the time that the retry policy
    /// allows, the janitor continues, and
    /// [`wait_until_released`](CuratorFramework::wait_until_released) waits until the node is gone.
    ///
    /// # Cancel safety
    /// It leaves the election in any case.
    pub async fn close(&self) -> Result<(), Error> {
        self.leave();
        self.view.find(|view| view.end.clone()).await
    }

    fn leave(&self) {
        self.view.modify(|view| view.silent = self.close_mode == CloseMode::Silent);
        self.leave.cancel();
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl LatchState {
    /// The term, unless it is over.
    fn leadership(&self) -> Option<Leadership> {
        match self {
            Self::Leader(leadership) if !leadership.is_over() => Some(leadership.clone()),
            _ => None,
        }
    }
}

/// Follows the latest state of a [`Candidate`]. A slow reader may miss states, but never that a
/// term is over: another state follows.
#[derive(Debug)]
pub struct LatchStates {
    view: Arc<Signal<LatchView>>,
    /// The number of the last returned state.
    told: Option<u64>,
}

impl LatchStates {
    /// Returns the current state at the first call, and then the latest state after each change;
    /// `None` after the end. The [`CloseMode`] decides if the end is reported.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<LatchState> {
        let told = self.told;
        let news = |view: &LatchView| {
            let is_closed = matches!(view.state, LatchState::Closed);
            match told {
                Some(told) if told == view.term => is_closed.then_some(None),
                _ if is_closed && view.silent => Some(None),
                _ => Some(Some((view.term, view.state.clone()))),
            }
        };
        let (term, state) = self.view.find(news).await?;
        self.told = Some(term);
        Some(state)
    }

    /// Returns the states as a stream.
    pub fn into_stream(self) -> impl Stream<Item = LatchState> + Send + 'static {
        futures_util::stream::unfold(self, async |mut states| {
            states.next().await.map(|state| (state, states))
        })
    }
}

/// The task of a candidate.
struct CandidateTask {
    queue: CandidateQueue,
    leave: CancellationToken,
    view: Arc<Signal<LatchView>>,
}

impl CandidateTask {
    /// Returns how it has left the election.
    async fn run(self) -> Result<(), Error> {
        let _candidacy = self.queue.candidacy();
        let parent = match self.queue.parent("join") {
            Ok(parent) => parent,
            Err(error) => {
                self.refuse(error).await;
                return Ok(());
            }
        };
        // The framework may be started after this.
        let mut states = self.queue.zk.states();
        tokio::select! {
            biased;
            () = self.leave.cancelled() => return Ok(()),
            connected = states.until(|status| status.state.is_connected()) => if connected.is_none() {
                return Ok(());
            }
        }
        let mut setbacks = Setbacks::default();
        loop {
            match self.round(&parent, &mut setbacks).await {
                Ok(None) => setbacks.over(),
                Ok(Some(result)) => return result,
                Err(Error::Framework(error)) => {
                    let zk = &self.queue.zk;
                    let pause = if error.is_transient() {
                        zk.report_background_error(error.clone());
                        PAUSE
                    } else {
                        setbacks.report(zk, &error);
                        setbacks.pause(zk)
                    };
                    self.enter(LatchState::Failed(error));
                    tokio::select! {
                        biased;
                        () = self.leave.cancelled() => return Ok(()),
                        () = sleep(pause) => {}
                    }
                }
                // The framework is closed.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Fails until we leave, or the framework is closed: no retry can help.
    async fn refuse(self, error: zk_curator::Error) {
        self.queue.zk.report_background_error(error.clone());
        self.enter(LatchState::Failed(error));
        let mut states = self.queue.zk.states();
        tokio::select! {
            biased;
            () = self.leave.cancelled() => {}
            _ = states.until(|_| false) => {}
        }
    }

    /// Stays in the election with one node; if we have left it then, how that went.
    async fn round(
        &self,
        parent: &ZPath,
        setbacks: &mut Setbacks,
    ) -> Result<Option<Result<(), Error>>, Error> {
        let mut place = None;
        let elected = tokio::select! {
            biased;
            () = self.leave.cancelled() => None,
            turn = self.queue.turn(parent, &mut place) => Some(turn?),
        };
        let node = match elected {
            Some((node, kept)) => self.lead(node, kept, setbacks).await?,
            None => place.map(Contender::into_node),
        };
        if !self.leave.is_cancelled() {
            return Ok(None);
        }
        // The state must say that we do not lead before the node goes.
        self.enter(LatchState::Closed);
        Ok(Some(match node {
            Some(node) => withdraw(node).await,
            None => Ok(()),
        }))
    }

    /// Leads, term by term, for as long as the node is ours and we do not leave; the node, if it is
    /// still ours.
    async fn lead(
        &self,
        mut node: OwnedNode,
        mut kept: Option<KeptWatch>,
        setbacks: &mut Setbacks,
    ) -> Result<Option<OwnedNode>, Error> {
        loop {
            let begun = tokio::select! {
                biased;
                () = self.leave.cancelled() => return Ok(Some(node)),
                begun = Leadership::begin(&self.queue.zk, &node, kept.take()) => begun?,
            };
            let Some((leadership, watch)) = begun else { return Ok(None) };
            let leadership = leadership.watched();
            let told = TermLog::begin(&leadership, self.queue.recipe);
            setbacks.over();
            self.enter(LatchState::Leader(leadership.clone()));
            tokio::select! {
                biased;
                () = self.leave.cancelled() => return Ok(Some(node)),
                () = leadership.lost_by(watch) => {}
            }
            drop(told);
            self.enter(LatchState::Waiting);
            if node.ownership().is_over() {
                return Ok(None);
            }
            // The connection is only suspended: the term is over, but the node exists.
            node.renew_ownership();
        }
    }

    fn enter(&self, state: LatchState) {
        // The old value is dropped without the lock.
        drop(self.view.modify(|view| {
            view.term += 1;
            std::mem::replace(&mut view.state, state)
        }));
    }
}
