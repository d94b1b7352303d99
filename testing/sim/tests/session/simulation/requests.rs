//! The requests of the client under test: each has one response, in order, and the right one.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zk_curator_client::{CreateMode, Error, ErrorCode, Op, WatcherType, ZooKeeper};
use zk_curator_testing::wait::{reached, spend};

use super::world::{World, create};
use zk_curator_client::Acl;

/// The maximum number of requests in flight.
const MOST: usize = 48;

/// The relevant part of the response to a request.
type Answer = Result<Option<i32>, Error>;
type Waiting = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A path, and the outcome of its create.
type Outcome = (String, Result<(), Error>);

/// A request in flight.
#[derive(Debug, Clone)]
enum Asked {
    /// A create of a unique node.
    Create(String),
    /// A write or a read of the data of `/own`. The response is the version.
    Write,
    Read,
    /// A request whose response is an error.
    Refused(ErrorCode),
    Other,
}

pub(crate) struct Requests {
    paused: watch::Sender<bool>,
    in_flight: watch::Receiver<usize>,
    /// The outcomes of the creates since the last checkpoint.
    outcomes: Arc<Mutex<Vec<Outcome>>>,
    task: JoinHandle<()>,
}

impl Requests {
    pub(crate) fn start(world: &Arc<World>, zk: &ZooKeeper, seed: u64) -> Self {
        let paused = watch::Sender::new(false);
        let (count, in_flight) = watch::channel(0);
        let outcomes = Arc::default();
        let requester = Requester {
            world: Arc::clone(world),
            zk: zk.clone(),
            rng: Rng::with_seed(seed ^ 0xa5c),
            waiting: VecDeque::new(),
            number: 0,
            prefix: seed,
            acknowledged: -1,
            outcomes: Arc::clone(&outcomes),
        };
        let task = tokio::spawn(requester.run(paused.subscribe(), count));
        Self { paused, in_flight, outcomes, task }
    }

    /// Stops or resumes making requests. A stop waits until all requests have responses.
    pub(crate) async fn pause(&self, pause: bool) {
        self.paused.send_replace(pause);
        if pause {
            // An error means that the session, and so all requests, have ended.
            drop(self.in_flight.clone().wait_for(|count| *count == 0).await);
        }
    }

    /// Checks that acknowledged creates exist, and refused ones do not.
    pub(crate) fn check(&self, world: &World) {
        let probe = world.server.probe();
        for (path, outcome) in self.outcomes.lock().unwrap().drain(..) {
            match (probe.exists(&path), outcome) {
                (true, Ok(())) => {}
                (_, Err(error)) if error.may_have_applied() => {}
                (false, Err(_)) => {}
                (exists, outcome) => panic!("{path} exists: {exists}, but {outcome:?}"),
            }
        }
    }

    pub(crate) async fn ended(self) {
        self.task.await.unwrap();
    }
}

struct Requester {
    world: Arc<World>,
    zk: ZooKeeper,
    rng: Rng,
    waiting: VecDeque<(Asked, Waiting)>,
    number: u64,
    /// The prefix of the names of its nodes.
    prefix: u64,
    /// The last acknowledged version of `/own`.
    acknowledged: i32,
    outcomes: Arc<Mutex<Vec<Outcome>>>,
}

impl Requester {
    async fn run(mut self, mut paused: watch::Receiver<bool>, count: watch::Sender<usize>) {
        let mut next = Instant::now();
        // Requests from before the end have responses too.
        while self.zk.state().end().is_none() || !self.waiting.is_empty() {
            count.send_replace(self.waiting.len());
            let idle = *paused.borrow_and_update()
                || self.waiting.len() >= MOST
                || self.zk.state().end().is_some();
            let answers = tokio::select! {
                biased;
                answers = poll_fn(|cx| poll(&mut self.waiting, cx)) => answers,
                () = reached(next), if !idle => {
                    for _ in 0..self.rng.u32(1..8) {
                        self.ask();
                    }
                    let pause = [50, 5_000, 60_000][self.rng.usize(..3)];
                    next = Instant::now() + Duration::from_millis(self.rng.u64(1..pause));
                    continue;
                }
                _ = paused.changed() => continue,
                // The session may end while no request is made.
                () = spend(Duration::from_secs(1)), if idle => continue,
            };
            for (asked, answer) in answers {
                self.judge(asked, answer);
            }
        }
    }

    fn ask(&mut self) {
        self.number += 1;
        let path = format!("/w/{:x}-{}", self.prefix, self.number);
        let zk = &self.zk;
        let (asked, waiting): (Asked, Waiting) = match self.rng.u8(..11) {
            0..=2 => {
                let pending = zk.create(&path, b"", &Acl::open_unsafe(), CreateMode::Persistent);
                (Asked::Create(path), Box::pin(async { pending.await.map(|_| None) }))
            }
            3 => {
                let gone = Op::Delete { path: format!("{path}-"), version: None.into() };
                let pending = zk.multi(&[create(&path), create(&format!("{path}-")), gone]);
                (Asked::Create(path), Box::pin(async { pending.await.map(|_| None) }))
            }
            4 | 5 => {
                let data = Bytes::from(vec![b'x'; self.rng.usize(..150)]);
                let pending = zk.set_data("/own", &data, None);
                (Asked::Write, Box::pin(async { pending.await.map(|stat| Some(stat.version)) }))
            }
            6 | 7 => {
                let pending = zk.get_data("/own");
                (Asked::Read, Box::pin(async { pending.await.map(|data| Some(data.stat.version)) }))
            }
            8 => {
                let pending = zk.delete("/none", None);
                (
                    Asked::Refused(ErrorCode::NoNode),
                    Box::pin(async { pending.await.map(|()| None) }),
                )
            }
            9 => {
                // The watch is dropped with the response, and removed on the server.
                let pending = zk.exists_watched("/dropped");
                (Asked::Other, Box::pin(async { pending.await.map(|_| None) }))
            }
            _ => {
                let pending = zk.check_watches("/own", WatcherType::Any);
                (Asked::Other, Box::pin(async { pending.await.map(|_| None) }))
            }
        };
        self.waiting.push_back((asked, waiting));
    }

    fn judge(&mut self, asked: Asked, answer: Answer) {
        self.world.note(|| format!("{asked:?} {answer:?}"));
        let failed = matches!(&answer, Err(error) if !matches!(error, Error::Refused(_)));
        self.world
            .count(|stats| *if failed { &mut stats.failed } else { &mut stats.answered } += 1);
        match (asked, answer) {
            (Asked::Create(path), answer) => {
                self.outcomes.lock().unwrap().push((path, answer.map(drop)));
            }
            (Asked::Write, Ok(Some(version))) => {
                assert!(version > self.acknowledged, "a write was lost");
                self.acknowledged = version;
            }
            (Asked::Read, Ok(Some(version))) => {
                assert!(version >= self.acknowledged, "an old version was read");
            }
            (Asked::Refused(code), Err(Error::Refused(refused))) => assert_eq!(code, refused),
            (Asked::Other, Ok(_)) => {}
            (
                _,
                Err(
                    Error::ConnectionLoss { .. }
                    | Error::NotConnected
                    | Error::SessionExpired { .. }
                    | Error::Closed { .. },
                ),
            ) => {}
            (asked, answer) => panic!("{asked:?} got {answer:?}"),
        }
    }
}

/// Takes the responses that have arrived.
fn poll(all: &mut VecDeque<(Asked, Waiting)>, cx: &mut Context<'_>) -> Poll<Vec<(Asked, Answer)>> {
    let mut ready = Vec::new();
    let mut open = false;
    for (asked, waiting) in all.iter_mut() {
        match waiting.as_mut().poll(cx) {
            Poll::Ready(answer) => {
                assert!(!open, "{asked:?} got its response before an earlier request");
                ready.push((asked.clone(), answer));
            }
            Poll::Pending => open = true,
        }
    }
    all.drain(..ready.len());
    if ready.is_empty() { Poll::Pending } else { Poll::Ready(ready) }
}
