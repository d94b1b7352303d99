//! Handles on several threads that give up while connections are cut and deadlines pass: every
//! reported outcome is correct.

#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::common::{builder, id, open, real_time, start};
use fastrand::Rng;
use tokio::task::yield_now;
use tokio::time::timeout;
use zk_curator_client::{CreateMode, Created, Error, Pending, ZooKeeper};
use zk_curator_testing::{TestServer, Verdict};

const WORKERS: u64 = 8;
const ROUNDS: u64 = 300;
/// The number of requests that may wait: fewer than all workers together would send.
const ROOM: usize = 24;

/// The results of a worker for its nodes.
#[derive(Default)]
struct Ledger {
    created: BTreeSet<String>,
    refused: BTreeSet<String>,
    unknown: u64,
}

impl Ledger {
    fn note(&mut self, path: String, result: Result<Created, Error>) {
        match result {
            Ok(created) => {
                assert_eq!(created.path, path, "the response to another request");
                assert!(self.created.insert(path));
            }
            Err(error) if error.may_have_applied() => self.unknown += 1,
            Err(error) => {
                let expected = matches!(
                    error,
                    Error::NotConnected
                        | Error::QueueFull { .. }
                        | Error::DeadlineExceeded { sent: false }
                );
                assert!(expected, "{error:?}");
                assert!(self.refused.insert(path));
            }
        }
    }
}

async fn worker(server: Arc<TestServer>, zk: ZooKeeper, seed: u64) -> Ledger {
    let mut rng = Rng::with_seed(seed);
    let mut ledger = Ledger::default();
    for round in 0..ROUNDS {
        let hasty = zk.with_deadline(Duration::from_micros(rng.u64(0..2000)));
        let handle = if rng.bool() { &zk } else { &hasty };
        let mut pending: Vec<_> = (0..rng.u8(1..6))
            .map(|n| {
                let path = format!("/{seed}-{round}-{n}");
                (
                    handle.create(
                        &path,
                        &path.clone().into_bytes(),
                        &open(),
                        CreateMode::Persistent,
                    ),
                    path,
                )
            })
            .collect();
        if rng.u8(0..120) == 0 {
            server.disconnect(id(&zk));
        }
        rng.shuffle(&mut pending);
        for (pending, path) in pending {
            match rng.u8(0..5) {
                // Never polled.
                0 => drop(pending),
                1 => give_up(pending, rng.u8(0..4)).await,
                // Polled here, and awaited elsewhere.
                2 => {
                    let mut pending = pending;
                    if let std::task::Poll::Ready(result) =
                        Pin::new(&mut pending).poll(&mut Context::from_waker(Waker::noop()))
                    {
                        ledger.note(path, result);
                    } else {
                        let result = tokio::spawn(pending).await.unwrap();
                        ledger.note(path, result);
                    }
                }
                3 => {
                    if let Ok(result) =
                        timeout(Duration::from_micros(rng.u64(0..500)), pending).await
                    {
                        ledger.note(path, result);
                    }
                }
                _ => ledger.note(path, pending.await),
            }
        }
    }
    ledger
}

/// Drops the future after `looks` polls.
async fn give_up(pending: Pending<Created>, looks: u8) {
    let mut pending = pin!(pending);
    for _ in 0..looks {
        if pending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        yield_now().await;
    }
}

#[test]
fn outcomes_are_correct_with_races_and_cuts() {
    real_time(async {
        let server = Arc::new(TestServer::in_memory().await);
        let seen = AtomicU64::new(1);
        let faults = server.rule(move |request| {
            match seen.fetch_add(u64::from(request.is_create()), Ordering::Relaxed) {
                n if n % 30 == 0 => Verdict::Delay(Duration::from_millis(4)),
                n if n % 401 == 0 => Verdict::LoseReply,
                n if n % 409 == 0 => Verdict::LoseRequest,
                _ => Verdict::Pass,
            }
        });
        let zk = start(builder(&server).queue_limits(ROOM, 1 << 20)).await;
        let workers: Vec<_> = (1..=WORKERS)
            .map(|seed| tokio::spawn(worker(Arc::clone(&server), zk.clone(), seed)))
            .collect();
        let mut ledgers = Vec::new();
        for worker in workers {
            ledgers.push(worker.await.unwrap());
        }
        drop(faults);
        // The response to this request comes after all others, including those of dropped requests.
        while zk.sync("/").await.is_err() {}

        let paths: BTreeSet<_> = server.probe().paths().into_iter().collect();
        for Ledger { created, refused, .. } in &ledgers {
            assert_eq!(created.difference(&paths).next(), None, "created, but not there");
            assert_eq!(refused.intersection(&paths).next(), None, "never sent, but there");
        }
        let count = |of: fn(&Ledger) -> usize| ledgers.iter().map(of).sum::<usize>();
        assert!(count(|ledger| ledger.created.len()) > 0);
        assert!(count(|ledger| ledger.refused.len()) > 0);
        assert!(ledgers.iter().any(|ledger| ledger.unknown > 0));

        // The limits are intact: exactly the full number of requests fits.
        server.hold();
        let waiting: Vec<_> = (0..ROOM).map(|_| zk.exists("/")).collect();
        let full = zk.exists("/").await;
        assert!(matches!(full, Err(Error::QueueFull { requests: ROOM, .. })), "{full:?}");
        server.release();
        for answer in waiting {
            answer.await.unwrap();
        }
        zk.close().await.unwrap();
        assert!(server.probe().sessions().is_empty());
    });
}
