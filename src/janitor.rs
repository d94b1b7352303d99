//! The task of the framework that performs cleanup, across reconnects. `close` drains it.

use std::pin::pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use zk_curator_client::internal::sleep_until;

use crate::core::{Core, perform};

/// Performs cleanups, concurrently, until the framework is closing and none is left.
///
/// Guards stay unchanged when the framework is closing, because a holder may still keep its node.
///
/// Returns the time at which the close began.
pub(crate) async fn run(core: &Core) -> Instant {
    let queue = core.cleanup_queue.lock().take();
    let Some(mut queue) = queue else {
        return Instant::now();
    };
    let mut running = FuturesUnordered::new();
    let mut is_open = true;
    let mut closing = pin!(handed_over(core));
    let mut began = None;
    while is_open || !running.is_empty() {
        if began.is_some() && running.is_empty() {
            queue.close();
        }
        tokio::select! {
            biased;
            cleanup = queue.recv(), if is_open => match cleanup {
                Some((cleanup, registration)) => running.push(async move { (perform(core, cleanup).await, registration) }),
                None => is_open = false,
            },
            Some((done, registration)) = running.next(), if !running.is_empty() => {
                // Refusals before the shutdown were already logged.
                if done || !core.shutdown.is_cancelled() {
                    registration.settle();
                }
            }
            at = &mut closing, if began.is_none() => began = Some(at),
        }
    }
    began.unwrap_or_else(Instant::now)
}

/// Waits until the framework is closing, and then for futures that may still need cleanup. They are
/// notified, and either hand the cleanup over or get their response. After a part of the close
/// timeout, takes the cleanup from futures that are not polled.
///
/// Returns the time at which the close began.
async fn handed_over(core: &Core) -> Instant {
    core.shutdown.cancelled().await;
    let began = Instant::now();
    tokio::select! {
        biased;
        () = core.resources.quiet() => {}
        () = sleep_until(began + core.close_timeout() / 4) => {
            for cleanup in core.resources.take_pending() {
                core.owe(cleanup);
            }
        }
    }
    began
}
