use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use zk_curator::path::ZPath;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorKind, OwnedNode, Signal};

use super::leadership::Told;
use super::queue::{Place, Queue, withdraw};
use super::{Error, Leadership, Participant, tag};
use crate::contender::Contender;
use crate::ending::Ending;

/// Runs a future of yours, the body, while we lead. Cheap to clone; all clones are one selector.
///
/// # Layout
/// ```text
/// /services/orders                         container, made by the first candidate
///   ├─ _c_<uuid>-lock-0000000007           ephemeral, sequential: the leader; data: its id
///   └─ _c_<uuid>-lock-0000000009           waits for …0007, with a getData watch
/// ```
/// That of Apache Curator's `LeaderSelector`, which is that of an
/// [`InterProcessMutex`](crate::lock::InterProcessMutex): candidates in Java and in Rust can be in one election.
///
/// # Protocol
/// 1. As of [`LeaderLatch`](super::LeaderLatch), until we lead.
/// 2. Run the body.
/// 3. When it is done or interrupted, it is dropped, and then the node is deleted: whoever leads next does not meet it.
/// 4. When leadership is lost, the body is dropped at once.
///
/// There is no task: [`run`](Self::run) is a future like any other, and the body runs within it.
///
/// # Guarantees
/// * The body runs only while we lead, as far as is known here: see [`leader`](super) about fencing.
/// * On every way out but a lost leadership, panics included, the body has ended before the node goes away.
/// * [`close`](Self::close) returns when no body runs.
///
/// # Assumptions
/// Only candidates write here. A body does not block its thread: it could not be dropped.
///
/// # Connection loss
/// See [the table](super#when-leadership-ends). When leadership ends, the body does, and the place is given up;
/// [`run_repeatedly`](Self::run_repeatedly) enters the queue anew.
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
/// println!("{}", selector.run(|leadership| work(leadership.fencing_token())).await?);
///
/// // Again and again, until it is closed.
/// let worker = tokio::spawn({
///     let selector = selector.clone();
///     async move { selector.run_repeatedly(|leadership| async move { leadership.lost().await }).await }
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
    queue: Queue,
    turns: Arc<Signal<Turns>>,
    closing: CancellationToken,
}

/// The runs of a selector that are under way.
#[derive(Debug, Default)]
struct Turns {
    running: usize,
    /// The one that leads, and what interrupts it.
    present: Option<(Leadership, CancellationToken)>,
}

impl LeaderSelector {
    /// The election at a path. Nothing is sent; a path that is not valid is refused when it runs.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let queue = Queue::new(zk, path, tag::SELECTOR);
        Self { queue, turns: Arc::default(), closing: CancellationToken::new() }
    }

    /// Our id, from the next run on. Default: empty.
    #[must_use]
    pub fn id(mut self, id: impl Into<Bytes>) -> Self {
        self.queue.data = id.into();
        self
    }

    /// The path of the election.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Waits until we lead, through every outage, runs `body`, and gives leadership up.
    ///
    /// # Errors
    /// * [`Error::Lost`] when leadership was lost before `body` was done, or before it was given up.
    /// * [`Error::Interrupted`] when it was [interrupted](Self::interrupt_leadership).
    /// * [`Error::Closed`] when the selector is [closed](Self::close) before it leads; then `body` did not run.
    /// * [`Error::Framework`] when the path is not valid, or the election cannot be joined, for example for `NoAuth`;
    ///   then `body` did not run.
    ///
    /// # Panics
    /// When `body` does; leadership is given up.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body`, and leaves the election in the background.
    pub async fn run<F, Fut>(&self, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Leadership) -> Fut,
        Fut: Future,
    {
        let parent = self.queue.parent("run")?;
        let _running = self.running()?;
        self.turn(&parent, &Ending::never(), body).await
    }

    /// Runs `body` whenever we lead, again and again, until the selector is [closed](Self::close). After every turn,
    /// however it ended, it enters the queue anew, at its end.
    ///
    /// # Errors
    /// As [`run`](Self::run), but neither when leadership was lost or interrupted, nor when the selector is closed.
    ///
    /// # Panics
    /// When `body` does; leadership is given up.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    #[doc(alias = "autoRequeue")]
    pub async fn run_repeatedly<F, Fut>(&self, body: F) -> Result<(), Error>
    where
        F: FnMut(Leadership) -> Fut,
        Fut: Future<Output = ()>,
    {
        let parent = self.queue.parent("run_repeatedly")?;
        self.turns_until(&parent, &Ending::never(), body).await
    }

    /// As [`run_repeatedly`](Self::run_repeatedly), until `stop`: who waits leaves the queue then; who leads may go on for as long as
    /// `drain`, before `body` is dropped. Returns when the node is gone, or the session is over. Other runs of this selector go on.
    ///
    /// # Errors
    /// As [`run_repeatedly`](Self::run_repeatedly).
    ///
    /// # Panics
    /// When `body` does; leadership is given up.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until<F, Fut>(
        &self,
        stop: impl Future<Output = ()>,
        drain: Duration,
        body: F,
    ) -> Result<(), Error>
    where
        F: FnMut(Leadership) -> Fut,
        Fut: Future<Output = ()>,
    {
        let parent = self.queue.parent("run_until")?;
        let ending = Ending::new(drain);
        let ended = ending.during(stop, self.turns_until(&parent, &ending, body)).await;
        // A place whose creation was not answered yet is left in the background.
        let _: bool = self.queue.zk.wait_released().await;
        ended
    }

    async fn turns_until<F, Fut>(&self, parent: &ZPath, ending: &Ending, mut body: F) -> Result<(), Error>
    where
        F: FnMut(Leadership) -> Fut,
        Fut: Future<Output = ()>,
    {
        let _running = self.running()?;
        let is_over = || self.closing.is_cancelled() || ending.has_begun();
        while !is_over() {
            match self.turn(parent, ending, &mut body).await {
                Ok(()) | Err(Error::Lost | Error::Interrupted) => {}
                Err(Error::Closed) if is_over() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the present term of leadership, if we lead: `body` is dropped, then the node is deleted. Whoever waits in
    /// the queue goes on waiting. Says whether we led.
    #[doc(alias = "requeue")]
    pub fn interrupt_leadership(&self) -> bool {
        let interrupt =
            self.turns.look(|turns| turns.present.as_ref().map(|(_, interrupt)| interrupt.clone()));
        interrupt.is_some_and(|interrupt| {
            interrupt.cancel();
            true
        })
    }

    /// Whether `body` runs, and we lead as far as is known here.
    #[must_use]
    pub fn has_leadership(&self) -> bool {
        let leads = |(leadership, _): &(Leadership, _)| !leadership.is_over();
        self.turns.look(|turns| turns.present.as_ref().is_some_and(leads))
    }

    /// Resolves when the selector is being closed: for a body that goes on until then.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Closes the selector, for all clones: whoever waits leaves the queue, nobody runs any more, and this returns when
    /// `body`, if it runs, has ended by itself, and its node is gone. [`closing`](Self::closing) tells it to;
    /// [`interrupt_leadership`](Self::interrupt_leadership) makes it. A body must not wait for this.
    ///
    /// # Cancel safety
    /// The selector is closed all the same, once this was polled.
    pub async fn close(&self) {
        self.closing.cancel();
        self.turns.until(|turns| turns.running == 0).await;
    }

    /// Returns the leader, then the waiting candidates in their order; those of Java's Curator too. The id is the
    /// [label](Participant::label).
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework. An election that nobody has joined yet has no participants.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        Ok(self.queue.participants().await?)
    }

    /// Returns the leader; `None` if nobody leads. The first candidate leads, or will as soon as it hears of it.
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        Ok(self.queue.leader().await?)
    }

    fn running(&self) -> Result<Running<'_>, Error> {
        // Under the lock of the signal: `close` either counts it or stops it.
        self.turns.modify(|turns| {
            if self.closing.is_cancelled() {
                return Err(Error::Closed);
            }
            turns.running += 1;
            Ok(Running(&self.turns))
        })
    }

    async fn turn<F, Fut>(&self, parent: &ZPath, ending: &Ending, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Leadership) -> Fut,
        Fut: Future,
    {
        // On the heap, for a body that is small.
        let (node, leadership, watch) = Box::pin(self.elected(parent, ending)).await?; // 1
        let told = Told::begin(&leadership);
        let present = Present::begin(&self.turns, leadership.clone());
        // The body ends within this expression, whatever ends it.
        let ended = tokio::select! {
            biased;
            () = Box::pin(leadership.lost_by(watch)) => Err(Error::Lost), // 4
            () = present.interrupt.cancelled() => Err(Error::Interrupted),
            () = ending.drained() => Err(Error::Interrupted),
            output = body(leadership.clone()) => Ok(output), // 2
        };
        drop(present);
        drop(told);
        if matches!(ended, Err(Error::Lost)) {
            // The node may be out of reach: it is left to the janitor.
            return ended;
        }
        let was_lost = leadership.is_over();
        match node.delete().await {
            // 3
            Err(error) if error.kind() == ErrorKind::NoNode || error.is_session_lost() => {
                ended.and(Err(Error::Lost))
            }
            _ if was_lost => ended.and(Err(Error::Lost)),
            Ok(()) => ended,
            Err(error) => {
                // The work is done; the janitor goes on.
                debug!(%error, "leadership will be given up in the background");
                ended
            }
        }
    }

    /// Waits until we lead, or the selector is closed, or this run of it ends.
    async fn elected(
        &self,
        parent: &ZPath,
        ending: &Ending,
    ) -> Result<(OwnedNode, Leadership, Watch), Error> {
        loop {
            let mut place = Place::default();
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
        Err(Error::Closed)
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

/// Counts a run until it has ended.
struct Running<'a>(&'a Signal<Turns>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.modify(|turns| turns.running -= 1);
    }
}

/// The present turn, until it has ended.
struct Present<'a> {
    turns: &'a Signal<Turns>,
    interrupt: CancellationToken,
}

impl<'a> Present<'a> {
    fn begin(turns: &'a Signal<Turns>, leadership: Leadership) -> Self {
        let interrupt = CancellationToken::new();
        turns.modify(|turns| turns.present = Some((leadership, interrupt.clone())));
        Self { turns, interrupt }
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.turns.modify(|turns| turns.present = None);
    }
}
