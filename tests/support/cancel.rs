//! Dropping futures at every step: after each poll, and with a response that they have not seen.

use std::future::{Future, poll_fn};
use std::task::Poll;

/// More steps than any future has.
const TOO_MANY: usize = 1000;

/// Polls a future and drops it at a step. Returns its output if it was ready before.
///
/// Even steps drop it right after `step / 2` polls, in the middle of a wait. Odd steps wait until
/// the future is woken for another poll and then drop it, with an unseen response.
pub async fn poll_then_drop<F: Future>(future: F, step: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let (mut polls, at_once) = (step / 2, step.is_multiple_of(2));
    poll_fn(move |cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == 0 && at_once => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Cancels a future at every step: sets up a stage, runs the future on it for one more step each
/// time, and checks the leftovers, until the future completes. Returns the number of steps.
///
/// # Panics
/// If the future is not done after a thousand steps.
pub async fn at_every_step<S, T>(
    mut setup: impl AsyncFnMut() -> S,
    mut run: impl AsyncFnMut(&S) -> T,
    mut check: impl AsyncFnMut(S, Option<T>),
) -> usize {
    each_step(async |step| {
        let stage = setup().await;
        let output = poll_then_drop(run(&stage), step).await;
        let is_done = output.is_some();
        check(stage, output).await;
        is_done
    })
    .await
}

/// Calls `run` with the number of each step until it returns that nothing was cancelled. For tests
/// of more than one future.
///
/// # Panics
/// If that takes a thousand steps.
pub async fn each_step(mut run: impl AsyncFnMut(usize) -> bool) -> usize {
    for step in 0..TOO_MANY {
        if run(step).await {
            return step;
        }
    }
    panic!("not done after {TOO_MANY} steps");
}
