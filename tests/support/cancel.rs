//! Futures that are dropped: after each poll, and with an answer that they have not seen.

use std::future::{Future, poll_fn};
use std::task::Poll;

/// More steps than any future has.
const TOO_MANY: usize = 1000;

/// Polls a future some times and drops it; its output if it was ready before.
///
/// Even steps drop it right after `step / 2` polls, in the middle of whatever it waits for. Odd steps wait
/// until it is woken for one poll more and drop it then, with an answer that it has not seen.
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

/// Cancels a future everywhere: sets a stage up, runs the future on it for one step more each time, and checks what it has left
/// there, until it was not cancelled any more. Answers how many steps there were.
///
/// # Panics
/// When the future is not done after a thousand steps.
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

/// For what is more than one future: calls `run` with the number of each step until it says that nothing was cancelled.
///
/// # Panics
/// When that takes a thousand steps.
pub async fn each_step(mut run: impl AsyncFnMut(usize) -> bool) -> usize {
    for step in 0..TOO_MANY {
        if run(step).await {
            return step;
        }
    }
    panic!("not done after {TOO_MANY} steps");
}
