//! The task of the framework that performs cleanup, across reconnects. `close` drains it.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use zk_curator_client::internal::sleep_until;

use crate::core::{Core, perform};

/// Performs cleanups, concurrently, until the framework is closing and none is left.
///
/// When the framework is closing, it waits for futures that may still need cleanup. They are
/// notified, and either hand the cleanup over or get their response. After a part of the close
/// timeout, it takes the cleanup from futures that are not polled. Guards stay unchanged, because a
/// holder may still keep its node.
///
/// Returns the time at which the close began.
pub(crate) async fn run(core: &Core) -> Instant {
    let queue = core.cleanup_queue.lock().take();
    let Some(mut queue) = queue else {
        return Instant::now();
    };
    let mut running = FuturesUnordered::new();
    let mut open = true;
    let mut closing = None;
    let mut waits = true;
    while open || !running.is_empty() {
        if !waits && running.is_empty() {
            queue.close();
        }
        let patience = closing.map_or(Duration::ZERO, |_| core.close_timeout() / 4);
        let until = closing.unwrap_or_else(Instant::now) + patience;
        tokio::select! {
            biased;
            () = core.shutdown.cancelled(), if closing.is_none() => closing = Some(Instant::now()),
            cleanup = queue.recv(), if open => match cleanup {
                Some((cleanup, registration)) => running.push(async move { (perform(core, cleanup).await, registration) }),
                None => open = false,
            },
            Some((done, registration)) = running.next(), if !running.is_empty() => {
                // Refusals before the shutdown were already logged.
                if done || closing.is_none() {
                    registration.settle();
                }
            }
            () = core.resources.quiet(), if waits && closing.is_some() => waits = false,
            () = sleep_until(until), if waits && closing.is_some() => {
                waits = false;
                for cleanup in core.resources.take_pending() {
                    core.owe(cleanup);
                }
            }
        }
    }
    closing.unwrap_or_else(Instant::now)
}
