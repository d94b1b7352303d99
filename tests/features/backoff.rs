//! Any policy of the crate `backoff` is a retry policy.

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::{Backoff, Constant, Stop, Zero};
use tokio::time::Instant;
use zk_curator::ErrorKind;
use zk_curator::retry::{BackoffRetry, RetryPolicy, SessionFailedRetryPolicy};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{always, builder, simulated};

/// Returns how long a read takes that is refused `refusals` times and then finds no node, and how
/// often it was refused.
async fn read(policy: impl RetryPolicy, refusals: u64) -> (ErrorKind, u64, Duration) {
    let server = TestServer::in_memory().await;
    let zk = builder(&server).retry(policy).build().expect("a framework");
    zk.start().await.expect("a connection");
    let refused = always(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout));
    let refused = refused.times(refusals);
    let began = Instant::now();
    let kind = zk.get_data("/a").await.expect_err("no node").kind();
    (kind, refused.hits(), began.elapsed())
}

/// Doubles from 10 ms on, three times, without jitter.
#[derive(Clone)]
struct Doubling(u32);

impl Backoff for Doubling {
    fn next_backoff(&mut self) -> Option<Duration> {
        self.0 += 1;
        (self.0 <= 3).then(|| Duration::from_millis(5) * 2_u32.pow(self.0))
    }
}

#[test]
fn every_backoff_is_a_policy() {
    simulated(async {
        let second = Duration::from_secs(1);
        let constant = read(BackoffRetry::new(move || Constant::new(second)), 4).await;
        assert_eq!(constant, (ErrorKind::NoNode, 4, 4 * second));
        let zero = read(BackoffRetry::new(|| Zero {}), 100).await;
        assert_eq!((zero.0, zero.1), (ErrorKind::NoNode, 100));
        let stop = read(BackoffRetry::new(|| Stop {}), 4).await;
        assert_eq!((stop.0, stop.1), (ErrorKind::OperationTimeout, 1));
        let boxed =
            || -> Box<dyn Backoff + Send> { Box::new(Constant::new(Duration::from_secs(2))) };
        assert_eq!(read(BackoffRetry::new(boxed), 2).await, (ErrorKind::NoNode, 2, 4 * second));
        let (kind, refused, took) = read(BackoffRetry::new(ExponentialBackoff::default), 3).await;
        assert_eq!((kind, refused), (ErrorKind::NoNode, 3));
        // 500 ms, 750 ms and 1,125 ms, each by up to a half more or less.
        let millis = Duration::from_millis;
        assert!((millis(1_187)..=millis(3_570)).contains(&took), "{took:?}");
    });
}

#[test]
fn every_operation_has_a_backoff_of_its_own() {
    simulated(async {
        let policy = || BackoffRetry::new(|| Doubling(0));
        assert_eq!(
            read(policy(), 9).await,
            (ErrorKind::OperationTimeout, 4, Duration::from_millis(70))
        );
        let server = TestServer::in_memory().await;
        let zk = builder(&server).retry(policy()).build().expect("a framework");
        zk.start().await.expect("a connection");
        let _refused =
            always(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout));
        for _ in 0..3 {
            let began = Instant::now();
            let (one, two) =
                tokio::join!(zk.get_data("/a").into_future(), zk.get_data("/b").into_future(),);
            assert!(one.is_err() && two.is_err());
            assert_eq!(began.elapsed(), Duration::from_millis(70));
        }
    });
}

/// Asked without an operation it has no memory, as other policies.
#[test]
fn a_delegate_keeps_its_memory_and_a_question_needs_none() {
    simulated(async {
        let policy = SessionFailedRetryPolicy::new(BackoffRetry::new(|| Doubling(0)));
        assert_eq!(read(policy, 9).await.2, Duration::from_millis(70));
        let policy = BackoffRetry::new(|| Doubling(0));
        let server = TestServer::in_memory().await;
        let zk = builder(&server).build().expect("a framework");
        let error = zk.get_data("/a").await.expect_err("not started");
        let asked: Vec<_> =
            (0..5).map(|retries| policy.next_delay(retries, Duration::ZERO, &error)).collect();
        let millis = |millis| Some(Duration::from_millis(millis));
        assert_eq!(asked, [millis(10), millis(20), millis(40), None, None]);
    });
}
