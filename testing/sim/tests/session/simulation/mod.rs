//! The simulation: one server, the client under test behind a network of its own, and a writer
//! whose network has no faults.
//!
//! Invariants, whatever the network does:
//! * every request has one result, in the order of the calls, and errors report correctly what
//!   was applied;
//! * the states of a session are a legal sequence, with one session in it;
//! * no watch is lost: at every checkpoint, each waiting watch has seen the last version of its
//!   node;
//! * no watch fires without a change, and a persistent watch reports all changes, or fewer changes
//!   and [`PersistentEvent::Rearmed`](zk_curator_client::PersistentEvent::Rearmed).
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "shared by tests, which may unwrap"
)]

mod network;
mod requests;
mod trace;
mod watchers;
mod world;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fastrand::Rng;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zk_curator_client::{
    CreateMode, Error, ExpiredBy, NeverSuspended, Op, SessionState, ZooKeeper,
};
use zk_curator_testing::wait::spend;
use zk_curator_testing::{TestServer, Verdict};

use network::{Flow, Network};
use requests::Requests;
pub(crate) use trace::Trace;
use watchers::Watchers;
use world::{NODES, Stats, World, create, node};

use zk_curator_client::Acl;

/// The session timeout of the client under test.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum size of a frame, so small that re-arming the watches takes several frames.
const MAX_FRAME: usize = 420;

pub(crate) struct Report {
    pub(crate) trace: Trace,
    pub(crate) stats: Stats,
}

/// Runs a simulation on a runtime of its own. Keeps the whole trace if `keep` is `true`, and else
/// only its hash.
pub(crate) fn simulate(seed: u64, hours: u64, keep: bool) -> Report {
    // The server draws the ids and passwords of its sessions from this generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(run(seed, Duration::from_secs(hours * 3600), keep))
}

async fn run(seed: u64, length: Duration, keep: bool) -> Report {
    let server = TestServer::builder()
        .tcp(false)
        .tick_time(Duration::from_millis(500))
        .wall_clock(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
        .start()
        .await
        .unwrap();
    let trace = Arc::new(Mutex::new(Trace::new(keep)));
    let world = Arc::new(World {
        network: Network::new(server.connector(), Arc::clone(&trace), seed),
        server,
        trace,
        stats: Mutex::default(),
        model: Mutex::default(),
        session: AtomicI64::new(0),
        forced: AtomicBool::new(false),
        seed,
    });
    let writer = Writer::start(&world).await;
    let mut rng = Rng::with_seed(seed);
    let mut client = Client::start(&world, 0).await;
    let end = Instant::now() + length;
    let mut epoch = 0;
    while Instant::now() < end {
        for _ in 0..rng.u32(3..12) {
            weather(&world, &mut rng, &writer).await;
            if client.zk.state().end().is_some() {
                client.ended().await;
                epoch += 1;
                client = Client::start(&world, epoch).await;
            }
        }
        if checkpoint(&world, &client, &writer).await {
            world.count(|stats| stats.checkpoints += 1);
        }
    }
    client.close().await;
    let stats = *world.stats.lock().unwrap();
    let trace = std::mem::take(&mut *world.trace.lock().unwrap());
    Report { trace, stats }
}

/// Causes a random event of the network or the server, while the writer writes.
#[expect(clippy::too_many_lines, reason = "one story")]
async fn weather(world: &World, rng: &mut Rng, writer: &Writer) {
    let (network, server) = (&world.network, &world.server);
    let session = world.session.load(Ordering::Relaxed);
    let seconds = |rng: &mut Rng, most: u64| Duration::from_millis(rng.u64(1..most * 1000));
    let kind = rng.u8(..16);
    world.note(|| format!("weather {kind}"));
    let most = [300, 5_000, 400_000][rng.usize(..3)];
    network.latency(Duration::from_micros(rng.u64(..most)));
    match kind {
        0..=2 => network.cut(),
        3 => {
            for _ in 0..rng.u32(2..8) {
                network.cut();
                writer.write(world, rng).await;
                spend(seconds(rng, 1)).await;
            }
        }
        4 | 5 => {
            network.set_down(true);
            writer.write(world, rng).await;
            spend(seconds(rng, 25)).await;
            network.set_down(false);
        }
        6..=8 => {
            let (requests, replies) = [
                (Flow::Silent, Flow::Silent),
                (Flow::Silent, Flow::Open),
                (Flow::Open, Flow::Silent),
            ][usize::from(kind - 6)];
            network.flow(requests, replies);
            writer.write(world, rng).await;
            spend(seconds(rng, 25)).await;
            network.flow(Flow::Open, Flow::Open);
        }
        9 => {
            server.hold();
            spend(seconds(rng, 15)).await;
            server.release();
        }
        10 if rng.u8(..3) == 0 => {
            world.forced.store(true, Ordering::Relaxed);
            server.expire(session).await;
        }
        11 => server.restart().await.unwrap(),
        12 | 13 => {
            let faults = Mutex::new(Rng::with_seed(rng.u64(..)));
            let verdicts = [
                Verdict::LoseReply,
                Verdict::LoseRequest,
                Verdict::Disconnect,
                Verdict::Delay(Duration::from_millis(900)),
            ];
            let rule = server.rule(move |request| {
                if request.session_id() != session {
                    return Verdict::Pass;
                }
                let mut faults = faults.lock().unwrap();
                if faults.u8(..8) == 0 { verdicts[faults.usize(..4)] } else { Verdict::Pass }
            });
            for _ in 0..rng.u32(1..6) {
                writer.write(world, rng).await;
                spend(seconds(rng, 10)).await;
            }
            drop(rule);
        }
        _ => spend(seconds(rng, 600)).await,
    }
    for _ in 0..rng.u32(0..4) {
        writer.write(world, rng).await;
        spend(seconds(rng, 20)).await;
    }
}

/// Lets everything come to rest, and compares. Returns `true` if the client had a session to
/// compare.
async fn checkpoint(world: &World, client: &Client, writer: &Writer) -> bool {
    world.note(|| "checkpoint".to_owned());
    world.network.latency(Duration::from_micros(100));
    client.requests.pause(true).await;
    writer.zk.sync("/").await.unwrap();
    let rested = match client.zk.connected().await {
        Ok(_) => client.zk.sync("/").await.is_ok(),
        Err(_) => false,
    };
    if rested {
        client.watchers.check(world).await;
    }
    client.requests.check(world);
    writer.clean(world).await;
    client.requests.pause(false).await;
    rested
}

/// A session of the client under test.
struct Client {
    zk: ZooKeeper,
    watchers: Watchers,
    requests: Requests,
    states: JoinHandle<()>,
}

impl Client {
    async fn start(world: &Arc<World>, epoch: u64) -> Self {
        let seed = world.seed << 20 | epoch;
        let builder = ZooKeeper::builder("simulated:1")
            .connector(Arc::new(world.network.clone()))
            .session_timeout(TIMEOUT)
            .max_frame(MAX_FRAME)
            .clock(Arc::<NeverSuspended>::default())
            .seed(seed);
        world.forced.store(false, Ordering::Relaxed);
        let zk = builder.connect().unwrap();
        let states = tokio::spawn(follow(Arc::clone(world), zk.clone()));
        zk.connected().await.unwrap();
        let watchers = Watchers::start(world, &zk);
        let requests = Requests::start(world, &zk, seed);
        Self { zk, watchers, requests, states }
    }

    /// Waits until all tasks of the session have ended.
    async fn ended(self) {
        self.states.await.unwrap();
        self.watchers.ended().await;
        self.requests.ended().await;
    }

    async fn close(self) {
        // The close may fail. Another test covers it.
        drop(self.zk.close().await);
        self.ended().await;
    }
}

/// Follows the states of a session until its end.
async fn follow(world: Arc<World>, zk: ZooKeeper) {
    let mut states = zk.states();
    // A handle would keep the session open.
    drop(zk);
    let mut before: Option<SessionState> = None;
    let mut session = None;
    while let Some(state) = states.next().await {
        world.note(|| format!("{state:?}"));
        let legal = match (before, state) {
            (None, SessionState::Connecting) => true,
            (Some(SessionState::Connecting), SessionState::Connected(_) | SessionState::Closed) => {
                true
            }
            (
                Some(SessionState::Connected(_)),
                SessionState::Disconnected | SessionState::Closed,
            ) => true,
            (
                Some(SessionState::Disconnected),
                SessionState::Connected(_) | SessionState::Expired(_) | SessionState::Closed,
            ) => true,
            // The server may respond to a request with this error.
            (Some(SessionState::Connected(_)), SessionState::Expired(ExpiredBy::Server)) => true,
            _ => false,
        };
        assert!(legal, "{state:?} after {before:?}");
        match state {
            SessionState::Connected(info) => {
                assert_eq!(*session.get_or_insert(info), info, "another session");
                assert_eq!(info.timeout, TIMEOUT);
                world.session.store(info.id.get(), Ordering::Relaxed);
                world.count(|stats| {
                    stats.reconnects += u64::from(before == Some(SessionState::Disconnected));
                });
            }
            SessionState::Expired(by) => {
                world.count(|stats| stats.expired += 1);
                let lives = session
                    .is_some_and(|info| world.server.probe().session(info.id.get()).is_some());
                if by == ExpiredBy::Clock && !world.forced.load(Ordering::Relaxed) {
                    assert!(
                        lives,
                        "the server has ended the session before the client took it as expired"
                    );
                }
            }
            _ => {}
        }
        before = Some(state);
    }
    assert!(before.is_some_and(|state| state.end().is_some()), "{before:?} is not an end");
}

/// Changes the watched nodes, over a network without faults.
struct Writer {
    zk: ZooKeeper,
}

impl Writer {
    async fn start(world: &World) -> Self {
        let builder = ZooKeeper::builder("writer:1")
            .clock(Arc::<NeverSuspended>::default())
            .connector(Arc::new(world.server.connector()));
        let zk =
            builder.session_timeout(Duration::from_secs(40)).seed(world.seed).connect().unwrap();
        for path in ["/v", "/t", "/c", "/w", "/own"] {
            zk.create(path, b"", &Acl::open_unsafe(), CreateMode::Persistent).await.unwrap();
        }
        for n in 0..NODES {
            zk.create(&node("v", n), b"", &Acl::open_unsafe(), CreateMode::Persistent)
                .await
                .unwrap();
        }
        Self { zk }
    }

    /// Changes a few nodes, each of them once.
    async fn write(&self, world: &World, rng: &mut Rng) {
        for _ in 0..rng.u32(1..4) {
            let n = rng.usize(..NODES);
            match rng.u8(..4) {
                0 | 1 => {
                    let version = world.model.lock().unwrap().versions[n];
                    world.model.lock().unwrap().writing[n] = version + 1;
                    self.until_done(Op::SetData {
                        path: node("v", n),
                        data: Some(Bytes::new()),
                        version: version.into(),
                    })
                    .await;
                    world.model.lock().unwrap().versions[n] = version + 1;
                }
                2 => self.toggle(&node("t", n)).await,
                _ => self.toggle(&format!("/c/{n}")).await,
            }
            world.count(|stats| stats.written += 1);
        }
    }

    async fn toggle(&self, path: &str) {
        let exists = loop {
            if let Ok(stat) = self.zk.exists(path).await {
                break stat.is_some();
            }
        };
        self.until_done(if exists {
            Op::Delete { path: path.to_owned(), version: None.into() }
        } else {
            create(path)
        })
        .await;
    }

    /// Repeats an operation that can succeed only once. If a repetition fails, the operation was
    /// applied before and its response was lost.
    async fn until_done(&self, op: Op) {
        while let Err(error) = self.zk.multi(std::slice::from_ref(&op)).await {
            if matches!(error, Error::TransactionFailed { .. }) {
                return;
            }
        }
    }

    /// Removes the nodes that the client has created.
    async fn clean(&self, world: &World) {
        let probe = world.server.probe();
        for name in probe.children("/w") {
            self.until_done(Op::Delete { path: format!("/w/{name}"), version: None.into() }).await;
        }
    }
}
