use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{FuturesUnordered, Stream, unfold};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use zk_curator::CuratorFramework;

use super::feed::{FeedDriver, Turn};
use crate::measure;
use crate::queue::error::Error;
use crate::queue::layout::at_least_one;
use crate::queue::redelivery::MOST_HELD;

/// A source of deliveries: works through a list of items, and lists the queue again at its end.
pub(in crate::queue) trait Source: Send + Sized {
    type Delivery: Send;

    fn feed(&mut self) -> &mut FeedDriver;

    /// Which delivery of the item it is, as far as that is counted.
    fn attempt(_delivery: &Self::Delivery) -> u32 {
        1
    }

    /// Refuses settings that make no sense, and makes sure of what is needed.
    fn prepare(&mut self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Returns the next item of the list; `None` at its end.
    fn of_list(
        &mut self,
        turn: &mut Turn,
    ) -> impl Future<Output = Result<Option<Self::Delivery>, Error>> + Send;

    /// Prepares a call that does not wait.
    fn begin_poll(&mut self) {}

    /// Decides whether a call that does not wait lists the queue at the end of the list.
    fn looks_again(&mut self, has_looked: bool) -> bool;

    /// Returns an item that was taken from the queue already, so that it would be lost; `None` if there is none.
    fn rest(&mut self) -> impl Future<Output = Option<Self::Delivery>> + Send {
        async { None }
    }

    /// Takes note of a listing, or of an event, while it is our turn in line, if there is a line.
    fn listed(&mut self, _was_first: bool, _is_first: bool) {}
}

/// Returns the next item, however long it takes until there is one. Dropping the future loses nothing.
pub(in crate::queue) async fn next<S: Source>(source: &mut S) -> Result<S::Delivery, Error> {
    source.prepare().await?;
    let mut turn = None;
    loop {
        if let Some(delivery) = source.of_list(&mut turn).await? {
            count(source, &delivery);
            return Ok(delivery);
        }
        let was_first = turn.is_some();
        source.feed().more(&mut turn).await?;
        source.listed(was_first, turn.is_some());
    }
}

/// Returns the next item if there is one. Never waits for others.
pub(in crate::queue) async fn try_next<S: Source>(source: &mut S) -> Result<Option<S::Delivery>, Error> {
    source.prepare().await?;
    source.begin_poll();
    let mut has_looked = false;
    loop {
        if let Some(delivery) = source.of_list(&mut None).await? {
            count(source, &delivery);
            return Ok(Some(delivery));
        }
        if !source.looks_again(has_looked) || !source.feed().look().await? {
            return Ok(None);
        }
        has_looked = true;
    }
}

fn count<S: Source>(source: &mut S, delivery: &S::Delivery) {
    measure::delivered(source.feed().layout.kind.recipe(), S::attempt(delivery));
}

/// Returns the items as a stream, which does not end.
pub(in crate::queue) fn into_stream<S: Source>(
    source: S,
) -> impl Stream<Item = Result<S::Delivery, Error>> + Send {
    unfold(source, |mut source| async move { Some((next(&mut source).await, source)) })
}

/// Hands the items to `body`, so many at a time, through every failure that passes. Nothing new begins after `stop`, and what runs
/// by then may go on for as long as `drain`. `body` may return how long an item is held
/// back, and what gives it back then: both go on beside the others and do not count among them.
pub(in crate::queue) async fn run<S, B, Fut, H, W>(
    mut source: S,
    limit: usize,
    (stop, drain): (impl Future<Output = ()>, Duration),
    body: B,
) -> Result<(), Error>
where
    S: Source,
    B: Fn(S::Delivery) -> Fut,
    Fut: Future<Output = Option<(H, W)>>,
    H: Future<Output = ()>,
    W: Future<Output = ()>,
{
    let limit = at_least_one("limit", limit)?;
    let zk = source.feed().layout.zk.clone();
    let stopped = CancellationToken::new();
    let (mut running, mut held) = (FuturesUnordered::new(), FuturesUnordered::new());
    let hold = |(time, back): (H, W)| async {
        tokio::select! {
            biased;
            () = stopped.cancelled() => {}
            () = time => {}
        }
        back.await;
    };
    let mut stop = pin!(stop);
    let mut failed = None;
    loop {
        let is_free = running.len() < limit && held.len() < MOST_HELD;
        let next = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(back) = running.next(), if !running.is_empty() => {
                held.extend(Option::<(H, W)>::map(back, hold));
                continue;
            }
            Some(()) = held.next(), if !held.is_empty() => continue,
            next = next_after(&mut source, &zk, &mut failed), if is_free => next,
        };
        match next {
            Ok(delivery) => running.push(body(delivery)),
            Err(Error::Framework(error)) if error.is_transient() => {
                warn!(%error, "consuming goes on when that has passed");
                failed = Some(error);
            }
            Err(error @ (Error::Framework(_) | Error::Zero { .. })) => return Err(error),
            Err(error) => warn!(%error, "an item was not handed out"),
        }
    }
    // What is held back goes back now, with its reason.
    stopped.cancel();
    let rest = async {
        loop {
            let is_free = running.len() < limit;
            tokio::select! {
                biased;
                Some(back) = running.next(), if !running.is_empty() => held.extend(Option::<(H, W)>::map(back, hold)),
                Some(()) = held.next(), if !held.is_empty() => {}
                Some(delivery) = source.rest(), if is_free => {
                    count(&mut source, &delivery);
                    running.push(body(delivery));
                }
                else => break,
            }
        }
    };
    if timeout(drain, rest).await.is_err() {
        warn!(items = running.len() + held.len(), "the time to drain has passed: items are given back");
    }
    drop((running, held, source));
    if !zk.wait_released().await {
        warn!("items are given back in the background");
    }
    Ok(())
}

/// Returns the next item. If the last attempt has `failed`, waits before until that has passed.
async fn next_after<S: Source>(
    source: &mut S,
    zk: &CuratorFramework,
    failed: &mut Option<zk_curator::Error>,
) -> Result<S::Delivery, Error> {
    if let Some(error) = failed.clone() {
        zk.ride_out(error).await?;
        *failed = None;
    }
    next(source).await
}

/// Returns what comes of the work on an item, or `None` if the claim to the item is lost by then.
pub(in crate::queue) async fn unless_lost<T>(
    item: &str,
    lost: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        () = lost => {
            warn!(item, "the claim to an item was lost");
            None
        }
        done = work => Some(done),
    }
}

/// Logs that an item could not be settled.
pub(in crate::queue) fn log_unsettled(item: &str, settled: Result<(), Error>) {
    if let Err(error) = settled {
        warn!(item, %error, "an item may be handed out again");
    }
}
