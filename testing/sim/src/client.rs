//! What a workload is given: a [`Client`], the same in simulated and in real time.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use zk_curator::retry::BoundedExponentialBackoffRetry;
use zk_curator::{ConnectionState, CuratorFramework, CuratorFrameworkBuilder, ErrorKind, FencingToken};
use zk_curator_client::{Connector, NeverSuspended, Spawn};

use super::checkers::Violation;
use super::deadline::may_be_of_a_deadline;
use super::history::{Event, History, Mode, Name, ProcessId};
use super::options::Manner;
use super::remote::Remote;
use super::service::Ended;
use super::{FencedResource, seed};

/// Why a workload cannot go on: a bug, of the code under test or of the workload.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A workload that runs.
pub type Running = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// What every client of a run does.
///
/// It ends when it has done its work. As long as faults are injected operations may fail for good; a workload goes on
/// then with the next thing to do. Where it returns an error, the run has failed.
#[derive(Clone)]
pub struct Workload(Arc<dyn Fn(Client) -> Running + Send + Sync>);

impl Workload {
    /// The workload that calls this function once for each life of each client.
    pub fn new<F, Fut>(run: F) -> Self
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self(Arc::new(move |client| Box::pin(run(client))))
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload").finish_non_exhaustive()
    }
}

/// What the clients of a run share: the history, the clock, and whether there are still faults.
///
/// Cheap to clone: clones are the same run.
#[derive(Clone)]
pub struct Run {
    shared: Arc<Shared>,
}

struct Shared {
    /// Where the history is written and resources are used, if not here.
    remote: Option<Arc<dyn Remote>>,
    began: Instant,
    history: Mutex<History>,
    violation: Mutex<Option<Violation>>,
    failed: CancellationToken,
    faults_over: CancellationToken,
    /// One future in so many is cancelled; zero for none.
    cancelling: AtomicU32,
    cancelled: AtomicU64,
    numbers: AtomicU64,
    resources: Mutex<BTreeMap<Name, Arc<FencedResource>>>,
}

impl Default for Run {
    fn default() -> Self {
        Self::new()
    }
}

impl Run {
    /// A run that begins now, with faults.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None)
    }

    /// The part of a run that is in this process.
    #[must_use]
    pub fn remote(remote: Arc<dyn Remote>) -> Self {
        Self::with(Some(remote))
    }

    fn with(remote: Option<Arc<dyn Remote>>) -> Self {
        let shared = Shared {
            remote,
            began: Instant::now(),
            history: Mutex::default(),
            violation: Mutex::default(),
            failed: CancellationToken::new(),
            faults_over: CancellationToken::new(),
            cancelling: AtomicU32::new(0),
            cancelled: AtomicU64::new(0),
            numbers: AtomicU64::new(1),
            resources: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Writes down what happens to somebody now.
    pub fn record(&self, who: ProcessId, event: Event) {
        match &self.shared.remote {
            Some(remote) => remote.record(who, event),
            None => lock(&self.shared.history).record(self.elapsed(), who, event),
        }
    }

    /// The time since the run has begun.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.began.elapsed()
    }

    /// What was written down so far.
    #[must_use]
    pub fn history(&self) -> History {
        lock(&self.shared.history).clone()
    }

    /// The place that the next record gets.
    pub(crate) fn place(&self) -> usize {
        lock(&self.shared.history).records().len()
    }

    /// A number that no other call in this run returns: for holds, calls and items.
    #[must_use]
    pub fn number(&self) -> u64 {
        match &self.shared.remote {
            Some(remote) => remote.number(),
            None => self.shared.numbers.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// There will be no more faults: [`Client::faults_are_over`].
    pub fn end_faults(&self) {
        if !self.shared.faults_over.is_cancelled() {
            self.record(ProcessId::World, Event::FaultsOver);
            self.shared.faults_over.cancel();
        }
    }

    /// Makes [`Client::maybe_cancel`] cancel one future in so many; none if that is zero, as it is at first.
    pub fn set_cancelling(&self, one_in: u32) {
        self.shared.cancelling.store(one_in, Ordering::Relaxed);
    }

    /// How many futures [`Client::maybe_cancel`] has cancelled.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.shared.cancelled.load(Ordering::Relaxed)
    }

    /// Something is wrong. The first time counts.
    pub fn fail(&self, violation: Violation) {
        lock(&self.shared.violation).get_or_insert(violation);
        self.shared.failed.cancel();
    }

    /// What is wrong, if anything is.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        lock(&self.shared.violation).clone()
    }

    /// Completes when something is wrong.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn failed(&self) {
        self.shared.failed.cancelled().await;
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}

/// How many rounds of its work a client has begun, and which of its lives have closed all that they had connected: kept on
/// its disk, so to say, from one life to the next.
#[derive(Debug, Clone, Default)]
pub struct Rounds {
    begun: Arc<AtomicU32>,
    closed: Arc<Mutex<BTreeSet<u32>>>,
}

impl Rounds {
    /// The next round is this one.
    pub fn skip_to(&self, round: u32) {
        self.begun.store(round, Ordering::Relaxed);
    }
}

/// How a life is ended before its work is done.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// Whether what it has acquired is dropped only after the frameworks are closed.
    late: AtomicBool,
    asked: CancellationToken,
    /// Its tasks are not run any more.
    frozen: CancellationToken,
    /// Its tasks are dropped.
    over: CancellationToken,
}

impl Ending {
    /// Lets it close what it has connected, now.
    pub(crate) fn ask(&self, late: bool) {
        self.late.store(late, Ordering::Relaxed);
        self.asked.cancel();
    }
}

/// The ids of runs that have few.
const FEW_IDS: [&str; 3] = ["a", "b", "c"];

/// How a life has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lived {
    /// Its work is done, or there is a violation.
    ToTheEnd,
    /// It was asked to close what it had connected, or was ended by a deadline: another one begins.
    Closed,
}

/// What a [`Client`] is made of: by [`Sim`](super::Sim), or by whoever runs workloads elsewhere.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "made by whoever runs workloads: every part is needed")]
pub struct ClientParts {
    /// Who it is: the number, and the life.
    pub who: ProcessId,
    /// How many clients run.
    pub clients: u32,
    /// How many rounds of its work each of them does.
    pub rounds: u32,
    /// How many it has begun in earlier lives.
    pub begun: Rounds,
    /// How it is set up, beside the defaults.
    pub manner: Manner,
    /// Of this life.
    pub seed: u64,
    /// The servers.
    pub connect_string: String,
    /// How they are reached; `None` for TCP.
    pub connector: Option<Arc<dyn Connector>>,
    /// Where its tasks run; `None` for the present runtime.
    pub spawner: Option<Arc<dyn Spawn>>,
    /// Asked of the servers.
    pub session_timeout: Duration,
    /// What it shares with the others.
    pub run: Run,
}

/// One life of a process that works with ZooKeeper: all that a [`Workload`] needs to know of the world.
///
/// Whatever it does is to go through here: its tasks are started with [`Client::spawn`], its random choices come from
/// [`Client::rng`], its time is tokio's. Then it runs in simulated time, the same way every time, and in real time
/// alike. Cheap to clone: clones are the same life.
#[derive(Clone)]
pub struct Client {
    parts: Arc<ClientParts>,
    rng: Arc<Mutex<Rng>>,
    connected: Arc<Mutex<Vec<CuratorFramework>>>,
    ending: Arc<Ending>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of these parts.
    #[must_use]
    pub fn new(parts: ClientParts) -> Self {
        let rng = Arc::new(Mutex::new(seed::rng(parts.seed, "workload", 0)));
        Self { parts: Arc::new(parts), rng, connected: Arc::default(), ending: Arc::default() }
    }

    /// Does the work of one life: the workload, and then [closes](CuratorFramework::close) what it has
    /// [connected](Client::connect). The history tells when it starts and finishes; an error of the workload
    /// [fails](Run::fail) the run.
    ///
    /// # Cancel safety
    /// Dropping the future drops the workload.
    pub async fn live(&self, workload: &Workload) {
        self.live_until_asked(workload).await;
    }

    /// The same, or until it is asked to close what it has connected.
    pub(crate) async fn live_until_asked(&self, workload: &Workload) -> Lived {
        self.record(Event::Started);
        let mut work = (workload.0)(self.clone());
        let done = tokio::select! {
            biased;
            done = &mut work => done,
            () = self.ending.asked.cancelled() => {
                self.close_in_the_middle(work).await;
                return Lived::Closed;
            }
        };
        if let Err(error) = done {
            // A workload need not be prepared for deadlines: it begins again, as after a close in the middle. So does a service.
            let is_of_a_deadline = || self.parts.manner.has_deadline() && may_be_of_a_deadline(&*error);
            if error.is::<Ended>() || is_of_a_deadline() {
                self.note(format!("begins again: {}", in_one_line(&*error)));
                self.close_in_the_middle(work).await;
                return Lived::Closed;
            }
            let broken = format!("{} cannot go on: {}", self.who(), in_one_line(&*error));
            self.run().fail(Violation::new("workload", broken, Vec::new()));
            return Lived::ToTheEnd;
        }
        drop(work);
        self.close().await;
        self.record(Event::Finished);
        Lived::ToTheEnd
    }

    async fn close_in_the_middle(&self, work: Running) {
        self.ending.frozen.cancel();
        self.record(Event::Killed);
        if self.ending.late.load(Ordering::Relaxed) {
            self.close().await;
            self.ending.over.cancel();
            drop(work);
        } else {
            self.ending.over.cancel();
            drop(work);
            self.close().await;
        }
    }

    /// Closes all that was connected. Whether all of it said that nothing is left is kept.
    async fn close(&self) {
        let connected = std::mem::take(&mut *lock(&self.connected));
        let mut all = true;
        for zk in connected {
            if let Err(error) = zk.close().await {
                self.note(format!("closed without an answer: {error}"));
                all = false;
            }
        }
        if let (true, ProcessId::Client { incarnation, .. }) = (all, self.who()) {
            lock(&self.parts.begun.closed).insert(incarnation);
        }
    }

    /// How to end this life before its work is done.
    pub(crate) fn ending(&self) -> &Arc<Ending> {
        &self.ending
    }

    /// Whether an earlier life of this client has closed all that it had connected, and was told that nothing of it is left.
    #[must_use]
    pub fn has_closed(&self, incarnation: u32) -> bool {
        lock(&self.parts.begun.closed).contains(&incarnation)
    }

    /// Who it is.
    #[must_use]
    pub fn who(&self) -> ProcessId {
        self.parts.who
    }

    /// Its number, from zero.
    #[must_use]
    pub fn number(&self) -> u32 {
        match self.parts.who {
            ProcessId::Client { number, .. } => number,
            ProcessId::World => 0,
        }
    }

    /// How many clients run, this one included. Their numbers need not be consecutive.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.parts.clients
    }

    /// The next round of its work, from zero; `None` when all are done. Rounds of earlier lives count: a round in which
    /// the process was killed is not done again.
    #[must_use]
    pub fn next_round(&self) -> Option<u32> {
        let next = |begun| (begun < self.parts.rounds).then_some(begun + 1);
        self.parts.begun.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }

    /// How many rounds there are.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.parts.rounds
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.parts.run
    }

    /// Writes down what it does or has seen. An `…ing` is written down before the call that it announces, everything
    /// else after the answer: see [`history`](super::history).
    pub fn record(&self, event: Event) {
        self.run().record(self.who(), event);
    }

    /// Writes down something for the reader of the history.
    pub fn note(&self, text: impl Into<String>) {
        self.record(Event::Note { text: text.into() });
    }

    /// A number that is unique in the run: for holds, calls and items.
    #[must_use]
    pub fn unique(&self) -> u64 {
        self.run().number()
    }

    /// An id: unique in the run, or [one of a few](crate::Setting::FewIds).
    #[must_use]
    pub fn id(&self) -> String {
        if self.has_few_ids() {
            FEW_IDS[self.rng().usize(..FEW_IDS.len())].to_owned()
        } else {
            format!("i{}", self.unique())
        }
    }

    /// Whether [ids](Self::id) are used again.
    #[must_use]
    pub fn has_few_ids(&self) -> bool {
        self.parts.manner.has_few_ids()
    }

    /// Whether its operations may [end early](crate::Setting::Deadline).
    #[must_use]
    pub fn has_deadline(&self) -> bool {
        self.parts.manner.has_deadline()
    }

    /// A generator of random numbers: the same ones in every run with the same seed. Calls return different ones.
    #[must_use]
    pub fn rng(&self) -> Rng {
        lock(&self.rng).fork()
    }

    /// A random time from zero to `most`, both included.
    #[must_use]
    pub fn moment(&self, most: Duration) -> Duration {
        Duration::from_micros(self.rng().u64(0..=u64::try_from(most.as_micros()).unwrap_or(u64::MAX)))
    }

    /// A time of day that is the same for all clients, also those in other processes. It begins in 1970.
    #[must_use]
    pub fn time_of_day(&self) -> SystemTime {
        let remote = self.run().shared.remote.as_ref();
        SystemTime::UNIX_EPOCH + remote.map_or_else(|| self.run().elapsed(), |remote| remote.now())
    }

    /// The timeout of its sessions.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.parts.session_timeout
    }

    /// A framework with everything set that the simulation needs, and patient enough for short faults: to add what
    /// else the service under test sets.
    pub fn framework(&self) -> CuratorFrameworkBuilder {
        let parts = &*self.parts;
        let mut builder = parts
            .manner
            .apply(CuratorFramework::builder(), &parts.connect_string)
            .session_timeout(parts.session_timeout)
            .connection_timeout(parts.session_timeout * 2)
            .retry(BoundedExponentialBackoffRetry::new(
                Duration::from_millis(20),
                Duration::from_millis(500),
                10,
            ))
            .clock(Arc::<NeverSuspended>::default())
            .seed(self.rng().u64(..));
        if let Some(connector) = &parts.connector {
            builder = builder.connector(Arc::clone(connector));
        }
        if let Some(spawner) = &parts.spawner {
            builder = builder.spawner(Arc::clone(spawner));
        }
        builder
    }

    /// A [`framework`](Self::framework) that is started and has reached a server. It is closed when the workload has
    /// ended, if not before.
    ///
    /// # Errors
    /// When it cannot be built or started for another reason than that no server is reached.
    ///
    /// # Cancel safety
    /// Dropping the future only ends the waiting.
    pub async fn connect(&self) -> Result<CuratorFramework, zk_curator::Error> {
        self.connect_with(self.framework()).await
    }

    /// The same with settings of the workload's own, beside those of [`framework`](Self::framework).
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Dropping the future only ends the waiting.
    pub async fn connect_with(
        &self,
        settings: CuratorFrameworkBuilder,
    ) -> Result<CuratorFramework, zk_curator::Error> {
        let zk = settings.build()?;
        lock(&self.connected).push(zk.clone());
        match zk.start().await {
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionLoss | ErrorKind::ReadOnly) => {
                zk.wait_connected().await?;
            }
            started => started?,
        }
        if let Some(session) = zk.session() {
            self.note(format!("session {}", session.id));
        }
        Ok(self.parts.manner.handle(zk))
    }

    /// Starts a task of this process. It ends with the process, if not before; a panic in it fails the run.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Task<T> {
        let (done, result) = oneshot::channel();
        let ending = Arc::clone(&self.ending);
        let task = Box::pin(async move {
            let mut task = Box::pin(task);
            tokio::select! {
                biased;
                () = ending.frozen.cancelled() => ending.over.cancelled().await,
                // Nobody may wait for it.
                output = &mut task => drop(done.send(output)),
            }
        });
        match &self.parts.spawner {
            Some(spawner) => spawner.spawn(task),
            None => drop(tokio::spawn(task)),
        }
        Task(result)
    }

    /// Awaits a future, or drops it somewhere on its way: after a random number of polls, or a random time up to a
    /// session timeout. Returns `None` then. How often it does is part of the faults of the run; most of the time it
    /// only awaits.
    ///
    /// # Cancel safety
    /// That of the future.
    pub async fn maybe_cancel<F: Future>(&self, future: F) -> Option<F::Output> {
        let one_in = self.run().shared.cancelling.load(Ordering::Relaxed);
        let mut rng = self.rng();
        if one_in == 0 || rng.u32(..one_in) > 0 {
            return Some(future.await);
        }
        let output = if rng.bool() {
            polled(future, rng.u32(0..8)).await
        } else {
            timeout(self.moment(self.session_timeout()), future).await.ok()
        };
        if output.is_none() {
            self.run().shared.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        output
    }

    /// Completes when there will be no more faults, and no framework is connected to a server that is read-only: from then on
    /// everything has to succeed in its time.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn faults_are_over(&self) {
        self.run().shared.faults_over.cancelled().await;
        let connected = lock(&self.connected).clone();
        for zk in connected {
            let mut states = zk.states();
            while zk.state() == ConnectionState::ReadOnly && states.next().await.is_some() {}
        }
    }

    /// Whether there will be no more faults.
    #[must_use]
    pub fn no_more_faults(&self) -> bool {
        self.run().shared.faults_over.is_cancelled()
    }

    /// Uses a resource that is not in ZooKeeper, such as a storage service, on the strength of a hold, and writes down
    /// what becomes of it. The [resource](FencedResource) of this name is the same for all clients of the run, and refuses
    /// tokens that are too old. The request is on the way for up to 20 ms, and arrives whatever has happened to the hold
    /// meanwhile.
    ///
    /// # Cancel safety
    /// The request has arrived or not.
    pub async fn use_resource(&self, resource: &Name, mode: Mode, hold: u64, token: FencingToken) {
        sleep(self.moment(Duration::from_millis(20))).await;
        if let Some(remote) = &self.run().shared.remote {
            let used = remote.use_resource(resource, mode, hold, token.get()).await;
            return self.record(used);
        }
        let resource = {
            let mut resources = lock(&self.run().shared.resources);
            let new = || Arc::new(FencedResource::new(Name::clone(resource)));
            Arc::clone(resources.entry(Name::clone(resource)).or_insert_with(new))
        };
        self.record(resource.use_as(mode, hold, token.get()));
    }
}

/// A task of a [`Client`]: a future of its result, which is `None` when it has panicked or the process was killed.
/// Dropping it leaves the task alone.
#[derive(Debug)]
#[must_use = "the task runs on without it, but nobody knows its result"]
pub struct Task<T>(oneshot::Receiver<T>);

impl<T> Future for Task<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

/// Polls a future at most so often.
async fn polled<F: Future>(future: F, mut polls: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match future.as_mut().poll(cx) {
            Poll::Pending if polls == 0 => Poll::Ready(None),
            poll => poll.map(Some),
        }
    })
    .await
}

/// An error with its causes.
fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line += &format!(": {error}");
        cause = error.source();
    }
    line
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
