//! Compares the embedded server with Apache ZooKeeper. Both get the same random operations, one at
//! a time or many in flight, and must return the same responses, comparable fields, errors and
//! watch events in the same order.
//!
//! The test of the night has two variables:
//!
//! * `ZK_DIFFERENTIAL_OPERATIONS`: the number of operations. Default: 100,000.
//! * `ZK_DIFFERENTIAL_SEED`: the seed of the first round. A failure prints the seed of its round;
//!   with that seed and 400 operations, only that round runs. Default: 1.
//!
//! Skipped where Apache ZooKeeper is missing, see [`zk_curator_real`].
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::differential::generator::{self, SUPERUSER, Step};
use crate::differential::run::run;
use zk_curator_real::{self as real, RealZooKeeper};
use zk_curator_testing::{TestServer, ZooKeeperVersion, digest};

/// The number of steps of a round. A step is one request or a burst of requests. A round begins
/// with an empty tree and new sessions.
const ROUND: usize = 400;

/// The number of shorter rounds that are tried to shrink a failure.
const SHRINK_ATTEMPTS: usize = 150;

/// The interval at which no container is removed during the test.
const NEVER: Duration = Duration::from_secs(1_000_000);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn every_response_and_event_is_that_of_apache_zookeeper() {
    all_agree("every_response_and_event_is_that_of_apache_zookeeper", 8_000, 1).await;
}

mod night {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "night: scripts/night"]
    async fn many_more_operations_agree() {
        let (operations, first_seed) = (setting("OPERATIONS", 100_000), setting("SEED", 1));
        all_agree("many_more_operations_agree", operations, first_seed).await;
    }
}

/// Compares at least this number of operations, in rounds with a seed each.
#[expect(clippy::print_stdout, reason = "the figures are for people")]
async fn all_agree(test: &str, operations: u64, first_seed: u64) {
    let builder = RealZooKeeper::builder()
        .jvm_property("zookeeper.DigestAuthenticationProvider.superDigest", digest(SUPERUSER))
        .jvm_property("zookeeper.enforceQuota", true)
        .jvm_property("znode.container.checkIntervalMs", NEVER.as_millis());
    let Some(zookeeper) = real::or_skip_with(test, builder).await else { return };
    let (real, version) = (zookeeper.connect_string(), zookeeper.version().await.unwrap());
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut done = 0;
    let mut seed = first_seed;
    while done < operations {
        let steps = generator::steps(seed, ROUND);
        let operations_of_round: u64 = steps.iter().map(Step::operations).sum();
        let round = {
            let (real, steps) = (real.clone(), steps.clone());
            tokio::spawn(async move { compare(&real, version, &steps).await }).await
        };
        match round.unwrap_or_else(|_| panic!("seed {seed} ends with {}", zookeeper.log_tail())) {
            Ok(transcript) => tally.add(&transcript),
            Err(difference) => {
                let (steps, difference) = shrink(&real, version, steps, difference).await;
                panic!("seed {seed}:\n{}", report(&steps, &difference));
            }
        }
        done += operations_of_round;
        seed += 1;
    }
    println!(
        "{done} operations agree, in {:?}, seeds {first_seed}..{seed}: {tally:?}",
        started.elapsed()
    );
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(format!("ZK_DIFFERENTIAL_{name}")).map_or(default, |value| value.parse().unwrap())
}

/// The first difference between two servers.
struct Difference {
    step: usize,
    expected: Vec<Vec<String>>,
    found: Vec<Vec<String>>,
}

/// The counts of the transcripts: responses by error code, and events.
#[derive(Debug, Default)]
struct Tally {
    answers: BTreeMap<i32, u64>,
    events: u64,
}

impl Tally {
    fn add(&mut self, transcript: &[Vec<String>]) {
        for line in transcript.iter().flatten() {
            if line.contains("xid: -1,") {
                self.events += 1;
            } else if let Some((_, code)) = line.split_once("err: ") {
                let code = code.split(' ').next().and_then(|code| code.parse().ok()).unwrap();
                *self.answers.entry(code).or_default() += 1;
            }
        }
    }
}

async fn compare(
    real: &str,
    version: ZooKeeperVersion,
    steps: &[Step],
) -> Result<Vec<Vec<String>>, Difference> {
    let embedded = TestServer::builder()
        .version(version)
        .super_digest(digest(SUPERUSER))
        .enforce_quotas(true)
        .container_check_interval(NEVER)
        .start()
        .await
        .unwrap();
    let embedded_address = embedded.connect_string();
    let (expected, found) = tokio::join!(run(real, steps), run(&embedded_address, steps));
    match expected.iter().zip(&found).position(|(expected, found)| expected != found) {
        None => Ok(expected),
        Some(step) => Err(Difference { step, expected, found }),
    }
}

/// Removes steps that the failure does not need: everything after it, and then larger and smaller
/// pieces before it.
async fn shrink(
    real: &str,
    version: ZooKeeperVersion,
    mut steps: Vec<Step>,
    mut difference: Difference,
) -> (Vec<Step>, Difference) {
    steps.truncate(difference.step + 1);
    let mut attempts = 0;
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < steps.len() && attempts < SHRINK_ATTEMPTS {
            let mut fewer = steps.clone();
            fewer.drain(from..(from + size).min(steps.len()));
            attempts += 1;
            match compare(real, version, &fewer).await {
                Err(other) => {
                    fewer.truncate(other.step + 1);
                    (steps, difference) = (fewer, other);
                }
                Ok(_) => from += size,
            }
        }
        size /= 2;
    }
    (steps, difference)
}

fn report(steps: &[Step], difference: &Difference) -> String {
    let mut text = String::new();
    for (index, step) in steps.iter().enumerate() {
        text.push_str(&format!("{index:3} session {}: {:?}\n", step.session, step.action));
        if index < difference.step {
            for line in &difference.expected[index] {
                text.push_str(&format!("      {line}\n"));
            }
        } else {
            text.push_str(&format!("      expected {:#?}\n", difference.expected[index]));
            text.push_str(&format!("      found    {:#?}\n", difference.found[index]));
        }
    }
    text
}
