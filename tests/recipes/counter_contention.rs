//! Counters that several processes write at the same time, from afar.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::counter::{DistributedAtomicLong, Error};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::spend;
use zk_curator_tests::{builder, simulated_from, start, try_join_all};

const PATH: &str = "/counters/orders";
const SESSIONS: u64 = 8;
const EACH: usize = 100;

/// A framework that is about 2 ms away.
async fn far(server: &TestServer, seed: u64) -> CuratorFramework {
    let connector = server.connector();
    connector.set_latency(0, Duration::from_micros(1000)..=Duration::from_micros(1300), seed);
    start(builder(server).connector(Arc::new(connector))).await
}

/// Adds one as Curator's `DistributedAtomicLong` does: reads, writes at the version, and tries
/// again as `ExponentialBackoffRetry(1, 29, 50)` says, as in `benches/peers/java/Counters.java`.
async fn as_curator_does(zk: &CuratorFramework, rng: &mut fastrand::Rng) {
    for retry in (0..30).cycle() {
        let (data, stat) = zk.get_data(PATH).with_stat().await.unwrap();
        let value = i64::from_be_bytes(data[..].try_into().unwrap());
        match zk.set_data(PATH, (value + 1).to_be_bytes().to_vec()).version(stat.version).await {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::BadVersion),
        }
        spend(Duration::from_millis(rng.u64(..1 << (retry + 1)).clamp(1, 50))).await;
    }
}

/// The time and the requests of all increments.
async fn measured(
    seed: u64,
    increment: impl AsyncFn(
        &CuratorFramework,
        &DistributedAtomicLong,
        &mut fastrand::Rng,
    ) -> Result<(), Error>,
) -> Result<(Duration, u64), Error> {
    let server = TestServer::in_memory().await;
    let mut clients = Vec::new();
    for number in 0..SESSIONS {
        clients.push((far(&server, seed + number).await, fastrand::Rng::with_seed(seed + number)));
    }
    DistributedAtomicLong::new(&clients[0].0, PATH).set(0).await?;
    let (before, began) = (server.probe().total_requests(), Instant::now());
    try_join_all(clients.iter_mut().map(async |(zk, rng)| {
        let counter = DistributedAtomicLong::new(zk, PATH);
        for _ in 0..EACH {
            increment(zk, &counter, rng).await?;
        }
        Ok::<_, Error>(())
    }))
    .await?;
    let (took, requests) = (began.elapsed(), server.probe().total_requests() - before);
    let all = i64::try_from(SESSIONS).unwrap() * i64::try_from(EACH).unwrap();
    assert_eq!(DistributedAtomicLong::new(&clients[0].0, PATH).get().await?, all);
    Ok((took, requests))
}

#[test]
fn eight_distant_sessions_count_faster_than_with_curator() {
    for seed in [1, 1000, 2000] {
        let (ours, requests) = simulated_from(seed, async {
            measured(seed, async |_, counter, _| counter.increment().await.map(drop)).await
        })
        .expect("no client gives up");
        let (theirs, _) = simulated_from(seed, async {
            measured(seed, async |zk, _, rng| {
                as_curator_does(zk, rng).await;
                Ok(())
            })
            .await
        })
        .unwrap();
        assert!(ours.mul_f64(1.1) < theirs, "{ours:?}, and {theirs:?} as Curator does");
        assert!(requests < 4 * SESSIONS * EACH as u64, "{requests} requests");
    }
}
