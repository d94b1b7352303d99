//! The waits of a test, each with its reason in its name.
//!
//! A test that sleeps does not say why: for a timer, for a quiet hour, or for progress that it
//! hopes for. The last is wrong, because progress takes longer on a busy machine. The functions of
//! this module separate the reasons.
//!
//! | A test that waits because … | calls |
//! |---|---|
//! | nothing may happen for this long | [`idle`] |
//! | a timer is due, and has fired afterwards | [`past`] |
//! | the next step of the scenario has a time of its own | [`reached`] |
//! | other tasks have to get as far as they can | [`settled`] |
//! | the test server has to reach a state | [`TestServer::until`](crate::TestServer::until) |
//! | something else has to reach a state, such as a file or a process | [`until`], [`until_some`] |
//! | the scenario says so: work takes time, an outage lasts | [`spend`] |
//!
//! [`idle`], [`past`], [`reached`] and [`settled`] panic unless the clock is
//! [paused](crate::paused()): in real time, a test waits for a state. A project can forbid all
//! other waits with `disallowed-methods = ["tokio::time::sleep", "std::thread::sleep"]` in its
//! `clippy.toml`.
//!
//! ```
//! use std::time::Duration;
//! use zk_curator_testing::wait::{idle, settled, spend};
//!
//! zk_curator_testing::paused(async {
//!     let worker = tokio::spawn(spend(Duration::from_secs(10)));
//!     idle(Duration::from_secs(9)).await;
//!     assert!(!worker.is_finished());
//!     worker.await.unwrap();
//!
//!     let next = tokio::spawn(async {});
//!     settled().await;
//!     assert!(next.is_finished());
//! });
//! ```

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, advance};
use zk_curator_client::internal::sleep;

/// The pause between two checks of a condition.
const POLL: Duration = Duration::from_millis(5);
/// The shortest time that a timer of tokio measures.
const TICK: Duration = Duration::from_millis(1);

/// Waits for a time in which nothing may happen. The assertions that follow check that nothing did.
///
/// # Panics
/// Panics unless the clock is paused.
pub async fn idle(time: Duration) {
    simulated(time).await;
}

/// Waits until a timer of the code under test has fired. `time` is longer than the timer's.
///
/// # Panics
/// Panics unless the clock is paused.
pub async fn past(time: Duration) {
    simulated(time).await;
}

/// Waits until the clock reaches a time of the scenario, such as the beginning of a minute.
///
/// # Panics
/// Panics unless the clock is paused.
pub async fn reached(time: Instant) {
    simulated(time.saturating_duration_since(Instant::now())).await;
}

/// Waits until every other task waits. Takes a millisecond of the paused clock, which advances only
/// then. Tasks may wait for a timer, such as that of a network with a latency.
///
/// # Panics
/// Panics unless the clock is paused.
pub async fn settled() {
    simulated(TICK).await;
}

/// Spends time as a part of the scenario: in the body of a task in the place of work, between two
/// steps of a client, or between the beginning and the end of a fault. The clock may be paused or
/// not. No assertion depends on what happens elsewhere in that time.
pub async fn spend(time: Duration) {
    sleep(time).await;
}

/// Waits until a condition holds, without a limit: compose it with [`tokio::time::timeout`]. The
/// condition is checked immediately, and then every 5 ms. Use it for a state that no future
/// announces, such as that of a file, of a process or of a server in another process.
///
/// # Cancel safety
/// Dropping the future drops the check that is running, and has no other effect.
pub async fn until<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    while !condition().await {
        sleep(POLL).await;
    }
}

/// Waits until `attempt` returns a value, and returns the value. Otherwise like [`until`].
///
/// # Cancel safety
/// As for [`until`].
pub async fn until_some<T, F: Future<Output = Option<T>>>(mut attempt: impl FnMut() -> F) -> T {
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        sleep(POLL).await;
    }
}

/// Waits on the paused clock.
async fn simulated(time: Duration) {
    // The first poll advances the clock by nothing, or panics because it is not paused. A second
    // poll would be another step of the test.
    let advanced = pin!(advance(Duration::ZERO));
    let (Poll::Ready(()) | Poll::Pending) = advanced.poll(&mut Context::from_waker(Waker::noop()));
    sleep(time).await;
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tokio::runtime::Builder;

    use super::*;
    use crate::paused;

    #[test]
    fn waits_take_exactly_their_time() {
        paused(async {
            let begun = Instant::now();
            idle(Duration::from_secs(3600)).await;
            assert_eq!(begun.elapsed(), Duration::from_secs(3600));
            past(Duration::from_secs(60)).await;
            assert_eq!(begun.elapsed(), Duration::from_secs(3660));
            settled().await;
            assert_eq!(begun.elapsed(), Duration::from_secs(3660) + TICK);
            reached(begun + Duration::from_secs(7200)).await;
            reached(begun).await;
            assert_eq!(begun.elapsed(), Duration::from_secs(7200));
        });
    }

    #[test]
    fn settled_lets_chains_of_tasks_end() {
        paused(async {
            let ended = tokio::spawn(async {
                for _ in 0..100 {
                    tokio::spawn(tokio::task::yield_now()).await.unwrap();
                }
            });
            settled().await;
            assert!(ended.is_finished());
        });
    }

    #[test]
    fn waits_for_time_are_refused_in_real_time() {
        let waits: [fn() -> futures_util::future::BoxFuture<'static, ()>; 4] = [
            || Box::pin(idle(TICK)),
            || Box::pin(past(TICK)),
            || Box::pin(settled()),
            || Box::pin(reached(Instant::now())),
        ];
        for wait in waits {
            let runtime = Builder::new_current_thread().enable_time().build().unwrap();
            let refused = catch_unwind(AssertUnwindSafe(|| runtime.block_on(wait())));
            let panic = refused.unwrap_err();
            // The type of a panic's message depends on how much the compiler optimises.
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            assert_eq!(text, Some("time is not frozen"));
        }
    }

    #[test]
    fn conditions_are_checked_until_they_hold() {
        paused(async {
            let checks = Cell::new(0);
            let count = || {
                checks.set(checks.get() + 1);
                checks.get()
            };
            until(async || count() == 3).await;
            assert_eq!(until_some(async || (count() > 5).then_some("six")).await, "six");
            assert_eq!(checks.get(), 6);
        });
    }
}
