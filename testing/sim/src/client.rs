//! The interface of a workload to its run: a [`Client`], the same in simulated and in real time.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use tokio_util::sync::CancellationToken;
use zk_curator::observe::{Held, Recorder, Step};
use zk_curator::retry::BoundedExponentialBackoffRetry;
use zk_curator::{ConnectionState, CuratorFramework, CuratorFrameworkBuilder};
use zk_curator_client::internal::{Locked, sleep};
use zk_curator_client::{Connector, NeverSuspended, Spawn};
use zk_curator_testing::with_causes;

use super::checkers::Violation;
use super::deadline::may_be_of_a_deadline;
use super::history::{Event, Lifecycle, Name, ProcessId};
use super::options::ClientSettings;
use super::seed;
use super::shared_run::{EPOCH, Run};

/// An error that ends a workload: a bug of the code under test or of the workload.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A running workload.
pub type Running = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// The work of every client of a run.
///
/// It ends when its work is done. While faults are injected, operations may fail permanently; the
/// workload should then continue with its next step. If it returns an error, the run fails.
#[derive(Clone)]
pub struct Workload(Arc<dyn Fn(Client) -> Running + Send + Sync>);

impl Workload {
    /// Creates a workload that calls this function once for each life of each client.
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

/// The number of rounds that a client has begun, and the lives that have closed all their
/// frameworks. They outlast a life, like data on the disk of the client.
#[derive(Debug, Clone, Default)]
pub struct Rounds {
    begun: Arc<AtomicU32>,
    closed: Arc<Locked<BTreeSet<u32>>>,
}

impl Rounds {
    /// Makes this round the next one.
    pub fn skip_to(&self, round: u32) {
        self.begun.store(round, Ordering::Relaxed);
    }
}

/// The early end of a life, before its work is done.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// `true` if the client drops what it has acquired only after the frameworks are closed.
    late: AtomicBool,
    /// `true` if the process was killed: it records nothing more, although its values are dropped.
    is_silent: AtomicBool,
    asked: CancellationToken,
    /// Stops the tasks of the life.
    pub(crate) frozen: CancellationToken,
    /// Drops the tasks of the life.
    pub(crate) over: CancellationToken,
}

impl Ending {
    /// Makes the life close its frameworks now.
    pub(crate) fn ask(&self, late: bool) {
        self.late.store(late, Ordering::Relaxed);
        self.asked.cancel();
    }

    /// Makes the life record nothing from now on.
    pub(crate) fn silence(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }
}

/// The connection timeout of frameworks, in session timeouts.
pub(crate) const CONNECTION_TIMEOUT: u32 = 2;
/// The longest pause between two retries, and their number.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(500);
pub(crate) const MAX_RETRIES: u32 = 10;
/// The ids of runs with few ids.
const FEW_IDS: [&str; 3] = ["a", "b", "c"];

/// The end of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lived {
    /// The work is done, or there is a violation.
    ToTheEnd,
    /// The life closed its frameworks on request, or ended by a deadline. Another life begins.
    Closed,
}

/// A service has ended with an error that the faults may explain. It is restarted.
#[derive(Debug, thiserror::Error)]
#[error("the service has ended")]
pub(super) struct Ended(#[source] pub(super) Failure);

/// The parts of a [`Client`]. [`Sim`](super::Sim) makes them, and so does a host that runs
/// workloads elsewhere.
#[derive(Debug, Clone)]
#[expect(
    clippy::exhaustive_structs,
    reason = "made by hosts that run workloads: every part is needed"
)]
pub struct ClientParts {
    /// The number of the client, and of the life.
    pub who: ProcessId,
    /// The number of clients that run.
    pub clients: u32,
    /// The number of rounds of each client.
    pub rounds: u32,
    /// The rounds that the client has begun in earlier lives.
    pub begun: Rounds,
    /// The settings that differ from the defaults.
    pub manner: ClientSettings,
    /// The seed of this life.
    pub seed: u64,
    /// The connect string of the servers.
    pub connect_string: String,
    /// The connector to the servers; `None` for TCP.
    pub connector: Option<Arc<dyn Connector>>,
    /// The place where the tasks of the client run; `None` for the present runtime.
    pub spawner: Option<Arc<dyn Spawn>>,
    /// The session timeout that the client requests.
    pub session_timeout: Duration,
    /// The state that the client shares with the other clients.
    pub run: Run,
}

/// One life of a process that works with ZooKeeper: the interface of a [`Workload`] to the world.
///
/// A workload has to start its tasks with [`Client::spawn`], draw its random choices from
/// [`Client::rng`], and use tokio's time. Then it runs the same way every time in simulated time,
/// and also runs in real time. Cheap to clone: clones are the same life.
#[derive(Clone)]
pub struct Client {
    pub(crate) parts: Arc<ClientParts>,
    rng: Arc<Locked<Rng>>,
    connected: Arc<Locked<Vec<CuratorFramework>>>,
    ending: Arc<Ending>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client of these parts.
    #[must_use]
    pub fn new(parts: ClientParts) -> Self {
        let rng = Arc::new(Locked::new(seed::rng(parts.seed, "workload", 0)));
        Self { parts: Arc::new(parts), rng, connected: Arc::default(), ending: Arc::default() }
    }

    /// Does the work of one life: runs the workload, and then [closes](CuratorFramework::close) the
    /// frameworks that it [connected](Client::connect). The history records the start and the end.
    /// If the workload returns an error, the run [fails](Run::fail).
    ///
    /// # Cancel safety
    /// Dropping the future drops the workload.
    pub async fn live(&self, workload: &Workload) {
        self.live_until_asked(workload).await;
    }

    /// Does the same, or stops early when asked to close the frameworks.
    pub(crate) async fn live_until_asked(&self, workload: &Workload) -> Lived {
        self.record(Lifecycle::Started);
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
            // A workload need not handle passed deadlines. It begins again, as after an early
            // close. So does a service.
            let is_of_a_deadline =
                || self.parts.manner.has_deadline() && may_be_of_a_deadline(&*error);
            if error.is::<Ended>() || is_of_a_deadline() {
                self.note(format!("begins again: {}", with_causes(&*error)));
                self.close_in_the_middle(work).await;
                return Lived::Closed;
            }
            let broken = format!("{} cannot continue: {}", self.who(), with_causes(&*error));
            self.run().fail(Violation::new("workload", broken, Vec::new()));
            return Lived::ToTheEnd;
        }
        drop(work);
        self.close().await;
        self.record(Lifecycle::Finished);
        Lived::ToTheEnd
    }

    async fn close_in_the_middle(&self, work: Running) {
        self.ending.frozen.cancel();
        self.record(Lifecycle::Killed);
        self.ending.silence();
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

    /// Closes all frameworks. Remembers if all of them confirmed that nothing is left.
    async fn close(&self) {
        let connected = std::mem::take(&mut *self.connected.lock());
        let mut all = true;
        for zk in connected {
            if let Err(error) = zk.close().await {
                let text = format!("closed without an answer: {error}");
                self.run().record(self.who(), Event::Note { text });
                all = false;
            }
        }
        if let (true, ProcessId::Client { incarnation, .. }) = (all, self.who()) {
            self.parts.begun.closed.lock().insert(incarnation);
        }
    }

    /// Returns the handle that ends this life before its work is done.
    pub(crate) fn ending(&self) -> &Arc<Ending> {
        &self.ending
    }

    /// Returns `true` if an earlier life of this client has closed all its frameworks, and every
    /// close confirmed that nothing is left.
    #[must_use]
    pub fn has_closed(&self, incarnation: u32) -> bool {
        self.parts.begun.closed.lock().contains(&incarnation)
    }

    /// Returns the number of the client and of the life.
    #[must_use]
    pub fn who(&self) -> ProcessId {
        self.parts.who
    }

    /// Returns the number of the client, from zero.
    #[must_use]
    pub fn number(&self) -> u32 {
        match self.parts.who {
            ProcessId::Client { number, .. } => number,
            ProcessId::World => 0,
        }
    }

    /// Returns the number of clients that run, including this one. Their numbers need not be
    /// consecutive.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.parts.clients
    }

    /// Begins the next round of work, and returns its number, from zero; `None` after the last
    /// round. Rounds of earlier lives count: a round in which the process was killed is not
    /// repeated.
    #[must_use]
    pub fn next_round(&self) -> Option<u32> {
        let next = |begun| (begun < self.parts.rounds).then_some(begun + 1);
        self.parts.begun.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }

    /// Returns the number of rounds.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.parts.rounds
    }

    /// Returns the run.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.parts.run
    }

    /// Records an event of this client. Record an `…ing` event before the call that it announces,
    /// and every other event after the response: see [`history`](super::history). A life that was
    /// killed records nothing more.
    pub fn record(&self, event: impl Into<Event>) {
        if !self.ending.is_silent.load(Ordering::Relaxed) {
            self.run().record(self.who(), event);
        }
    }

    /// Records a note for the reader of the history.
    pub fn note(&self, text: impl Into<String>) {
        self.record(Event::Note { text: text.into() });
    }

    /// Records that the workload has compared what it sees with what must be.
    pub fn checked(&self, what: impl Into<Name>) {
        self.record(Event::Checked { what: what.into() });
    }

    /// Returns a number that is unique in the run: for holds, calls and items.
    #[must_use]
    pub fn unique(&self) -> u64 {
        self.run().number()
    }

    /// Returns an id that is unique in the run, or [one of a few](crate::Setting::FewIds).
    #[must_use]
    pub fn id(&self) -> String {
        if self.has_few_ids() {
            FEW_IDS[self.rng().usize(..FEW_IDS.len())].to_owned()
        } else {
            format!("i{}", self.unique())
        }
    }

    /// Returns `true` if [ids](Self::id) are used repeatedly.
    #[must_use]
    pub fn has_few_ids(&self) -> bool {
        self.parts.manner.has_few_ids()
    }

    /// Returns `true` if the operations of the client may [end early](crate::Setting::Deadline).
    #[must_use]
    pub fn has_deadline(&self) -> bool {
        self.parts.manner.has_deadline()
    }

    /// Returns a generator of random numbers, different ones at each call. Runs with the same seed
    /// get the same numbers.
    #[must_use]
    pub fn rng(&self) -> Rng {
        self.rng.lock().fork()
    }

    /// Draws a random time from zero to `most`, both included.
    #[must_use]
    pub fn moment(&self, most: Duration) -> Duration {
        Duration::from_micros(
            self.rng().u64(0..=u64::try_from(most.as_micros()).unwrap_or(u64::MAX)),
        )
    }

    /// Returns the time of day by the clock of the servers. It is the same for all clients, also in
    /// other processes.
    #[must_use]
    pub fn time_of_day(&self) -> SystemTime {
        let remote = self.run().shared.remote.as_ref();
        let simulated = || SystemTime::UNIX_EPOCH + EPOCH + self.run().elapsed();
        remote.map_or_else(simulated, |remote| remote.time_of_day())
    }

    /// Returns the session timeout of the client.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.parts.session_timeout
    }

    /// Returns the builder of a framework with the settings that the simulation needs, and with
    /// retries that outlast short faults. The caller may add the settings of the service under
    /// test.
    pub fn framework(&self) -> CuratorFrameworkBuilder {
        let parts = &*self.parts;
        let mut builder = parts
            .manner
            .apply(CuratorFramework::builder(), &parts.connect_string)
            .session_timeout(parts.session_timeout)
            .connection_timeout(parts.session_timeout * CONNECTION_TIMEOUT)
            .retry(BoundedExponentialBackoffRetry::new(
                Duration::from_millis(20),
                LONGEST_PAUSE,
                MAX_RETRIES,
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

    /// Starts a [`framework`](Self::framework) and waits until it has reached a server. The
    /// framework is closed after the workload has ended, if the workload does not close it.
    ///
    /// # Errors
    /// Any error of building or starting the framework, except that no server is reached: then it
    /// keeps waiting.
    ///
    /// # Cancel safety
    /// Dropping the future only stops the wait. The framework stays started, and is closed at the
    /// end.
    pub async fn connect(&self) -> Result<CuratorFramework, zk_curator::Error> {
        self.connect_with(self.framework()).await
    }

    /// Does the same as [`connect`](Self::connect), with additional settings on the builder that
    /// [`framework`](Self::framework) returned.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Dropping the future only stops the wait. The framework stays started, and is closed at the
    /// end.
    pub async fn connect_with(
        &self,
        settings: CuratorFrameworkBuilder,
    ) -> Result<CuratorFramework, zk_curator::Error> {
        let zk = settings.build()?;
        self.connected.lock().push(zk.clone());
        match zk.start().await {
            Err(error) if error.is_transient() => {
                zk.wait_connected().await?;
            }
            started => started?,
        }
        if let Some(session) = zk.session() {
            self.note(format!("session {}", session.id));
        }
        Ok(self.parts.manner.handle(zk))
    }

    /// Completes when there will be no more faults, and no framework is connected to a read-only
    /// server. From then on every operation has to succeed within its time.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn faults_are_over(&self) {
        let points = self.run().shared.points.as_ref();
        let rest = points.map(|points| points.rest(self.number()));
        self.run().shared.faults_over.cancelled().await;
        drop(rest);
        let connected = self.connected.lock().clone();
        for zk in connected {
            let mut states = zk.states();
            while zk.state() == ConnectionState::ReadOnly && states.next().await.is_some() {}
        }
    }

    /// Returns `true` if there will be no more faults.
    #[must_use]
    pub fn no_more_faults(&self) -> bool {
        self.run().shared.faults_over.is_cancelled()
    }

    /// Uses a resource outside ZooKeeper, such as a storage service, by a hold, and records the
    /// result. The [resource](super::FencedResource) of this name is the same for all clients of
    /// the run. It refuses tokens that are too old. The request takes up to 20 ms, and arrives even
    /// if the hold has ended in between.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not have arrived.
    pub async fn use_resource<R: Recorder>(&self, held: &Held<R>) {
        sleep(self.moment(Duration::from_millis(20))).await;
        let (name, mode) = (Name::from(held.resource()), held.mode());
        let token = held.token().get();
        let outcome = match &self.run().shared.remote {
            Some(remote) => remote.use_resource(&name, mode, token).await,
            None => {
                let mut resources = self.run().shared.resources.lock();
                resources.entry(name).or_default().use_as(mode, token)
            }
        };
        held.used(outcome);
    }
}

/// Records the steps in the history of the run.
impl Recorder for Client {
    fn record(&self, step: Step<'_>) {
        Self::record(self, step);
    }

    fn next_attempt(&self) -> u64 {
        self.unique()
    }
}
