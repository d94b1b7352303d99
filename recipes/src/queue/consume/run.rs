use std::fmt;
use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{FuturesUnordered, Stream, unfold};
use tokio::time::timeout;
use tracing::warn;
use zk_curator::internal::CancellationToken;
use zk_curator::{CuratorFramework, Ownership};

use super::consumer::Consumer;
use super::kind::{Finish, ItemSource, QueueKind, TakenItem};
use super::redelivery::{MOST_HELD, RedeliveryBackoff};
use crate::queue::error::Error;
use crate::queue::wire::layout::at_least_one;
use crate::run::Run;
use crate::shutdown::Shutdown;

impl<K: QueueKind> Consumer<K> {
    /// Passes every item to `body`, at most `limit` deliveries at a time, from 1. Items that were
    /// [put together](crate::queue::CuratorQueue::put_multi) are one delivery: `body` gets them one
    /// after another.
    ///
    /// | kind | `body` succeeds | `body` fails |
    /// |---|---|---|
    /// | [`AutoAck`](crate::queue::AutoAck) | – | logged as a warning: the item is gone already |
    /// | [`LockPath`](crate::queue::LockPath) | acknowledged | as [`on_error`](Self::on_error) says |
    /// | [`Locking`](crate::queue::Locking) | acknowledged | back at its place; after the [last delivery](crate::queue::LockingQueue::max_deliveries) it becomes a dead letter, with the error as the reason |
    /// | [`Claimed`](crate::queue::jobs::Claimed) | completed, with the result that it returns, if any | the attempt has [failed](crate::queue::Delivery::fail), or is retried at the time that it [asked for](crate::queue::jobs::JobTask::retry_after) |
    ///
    /// If `body` fails, its item is held back for [a while](Self::redeliver_after), during which
    /// the items behind it are delivered. While 64 items are held back, no further item is taken.
    /// `body` is dropped when the claim is lost.
    ///
    /// [Until a stop](Run::until): after it no further item is taken, and running bodies may
    /// continue for the time to drain. An item is settled immediately if its body fails. After this
    /// time the remaining bodies are dropped, and their items return to their places; for a job
    /// this counts as an attempt. Items that an `AutoAck` consumer is removing at the stop are
    /// still delivered; those of dropped bodies are lost. The run returns when all claims are
    /// released, or the session is over. See [the graceful stop](crate::queue#a-graceful-stop).
    ///
    /// # Errors
    /// [`Error::Framework`] with `Closed`, and any other error that a retry cannot overcome;
    /// [`Error::Zero`] for a setting that is 0. Errors of single items, and items whose claim was
    /// lost, are logged as warnings.
    ///
    /// # Cancel safety
    /// The items of `body` return to the queue; those of an `AutoAck` consumer are lost.
    pub fn run<F, Fut, E>(
        self,
        limit: usize,
        body: F,
    ) -> Run<impl Future<Output = Result<(), Error>>>
    where
        F: Fn(K::Message) -> Fut,
        Fut: Future<Output = Result<K::Done, E>>,
        E: fmt::Display,
    {
        Run::new(|stop| async move { run(self, limit, stop.shutdown(), body).await })
    }
}

/// Passes the items to `body`, at most `limit` at a time, through every temporary failure. After
/// the stop nothing is taken, and running bodies may continue for the time to drain. Items that are
/// held back do not count towards `limit`.
#[expect(clippy::too_many_lines, reason = "the steps of a run in their order")]
async fn run<K, B, Fut, E>(
    mut consumer: Consumer<K>,
    limit: usize,
    shutdown: Shutdown,
    body: B,
) -> Result<(), Error>
where
    K: QueueKind,
    B: Fn(K::Message) -> Fut,
    Fut: Future<Output = Result<K::Done, E>>,
    E: fmt::Display,
{
    let limit = at_least_one(&consumer.source.layout().path, "limit", limit)?;
    let (zk, backoff) = (consumer.source.layout().zk.clone(), consumer.backoff);
    let stopped = CancellationToken::new();
    let (mut running, mut held) = (FuturesUnordered::new(), FuturesUnordered::new());
    let work = |delivery| work::<K, _, _, _>(delivery, &body, backoff, &zk);
    let hold = |HeldBack { label, pause, settle }| {
        let stopped = &stopped;
        async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = pause => {}
            }
            log_unsettled(&label, settle.await);
        }
    };
    // `true` while an item is being taken. Its future is kept until there is an item. If it were
    // dropped, this consumer would leave the line and list the queue again, and its claim might
    // count as a delivery.
    let mut is_taking = false;
    {
        let mut items = pin!(through_failures(&mut consumer, zk.clone()));
        loop {
            is_taking |= running.len() < limit && held.len() < MOST_HELD;
            tokio::select! {
                biased;
                () = shutdown.begun() => break,
                Some(back) = running.next(), if !running.is_empty() => {
                    held.extend(Option::map(back, hold));
                }
                Some(()) = held.next(), if !held.is_empty() => {}
                Some(item) = items.next(), if is_taking => {
                    is_taking = false;
                    running.extend(item?.map(work));
                }
            }
        }
    }
    // Items that are held back are settled now, with their reasons.
    stopped.cancel();
    let most = match (K::Source::LOSES_UNDELIVERED, is_taking && !shutdown.time().is_zero()) {
        (true, _) => usize::MAX,
        // The item that was being claimed. Its claim may count as a delivery.
        (false, is_owed) => usize::from(is_owed),
    };
    let rest =
        async {
            let items = unfold(&mut consumer, |consumer| async move {
                Some((consumer.rest().await?, consumer))
            });
            let mut items = pin!(items.take(most).fuse());
            loop {
                let is_free = running.len() < limit;
                tokio::select! {
                    biased;
                    Some(back) = running.next(), if !running.is_empty() => {
                        held.extend(Option::map(back, hold));
                    }
                    Some(()) = held.next(), if !held.is_empty() => {}
                    Some(delivery) = items.next(), if is_free => running.push(work(delivery)),
                    else => break,
                }
            }
        };
    if timeout(shutdown.time(), rest).await.is_err() {
        warn!(
            items = running.len() + held.len(),
            "the time to drain has passed: items are given back"
        );
    }
    drop((running, held, consumer));
    if !zk.wait_until_released().await {
        warn!("items are given back in the background");
    }
    Ok(())
}

/// An item that is held back under its claim, and settled after the pause.
struct HeldBack<P, S> {
    label: String,
    pause: P,
    settle: S,
}

/// Passes an item to `body` and settles it, unless the claim is lost first. Returns the item if it
/// must be held back before it is settled.
async fn work<K, B, Fut, E>(
    delivery: K::Delivery,
    body: &B,
    backoff: RedeliveryBackoff,
    zk: &CuratorFramework,
) -> Option<HeldBack<impl Future<Output = ()>, impl Future<Output = Result<(), Error>>>>
where
    K: QueueKind,
    B: Fn(K::Message) -> Fut,
    Fut: Future<Output = Result<K::Done, E>>,
    E: fmt::Display,
{
    let (label, attempt) = (delivery.label().to_owned(), delivery.attempt());
    let claim = delivery.claim().cloned();
    let work = async {
        let mut done = K::Done::default();
        for message in delivery.messages() {
            match body(message).await {
                Ok(result) => done = result,
                // The other items of the delivery were removed from the queue, too.
                Err(error) if K::Source::LOSES_UNDELIVERED => {
                    warn!(item = label, %error, "an item is lost: it was removed, and its body failed");
                }
                Err(error) => return Err(error),
            }
        }
        Ok::<_, E>(done)
    };
    let done = tokio::select! {
        biased;
        () = lost(claim.as_ref(), K::Source::WATCHES_CLAIM) => {
            warn!(item = label, "the claim to an item was lost");
            return None;
        }
        done = work => done.map_err(|error| error.to_string()),
    };
    let error = done.as_ref().err().cloned();
    let Finish { fate, is_held, settle } = delivery.finish(done);
    let pause = if is_held { backoff.after(attempt, zk) } else { Duration::ZERO };
    if let Some(error) = error {
        warn!(item = label, attempt, ?pause, %error, "{fate}");
    }
    if is_held {
        let pause = async move { drop(timeout(pause, lost(claim.as_ref(), false)).await) };
        return Some(HeldBack { label, pause, settle });
    }
    log_unsettled(&label, settle.await);
    None
}

/// Resolves when a claim is lost; never without one.
async fn lost(claim: Option<&Ownership>, is_watched: bool) {
    match claim {
        Some(claim) if is_watched => claim.lost().await,
        Some(claim) => claim.over().await,
        None => pending().await,
    }
}

/// Logs that an item could not be settled.
fn log_unsettled(item: &str, settled: Result<(), Error>) {
    if let Err(error) = settled {
        warn!(item, %error, "an item may be delivered again");
    }
}

/// Returns the items as a stream that does not end by itself. It contains `Ok(None)` for a
/// temporary failure, or for an item that is not delivered. After a failure it waits until the
/// failure is over.
fn through_failures<K: QueueKind>(
    consumer: &mut Consumer<K>,
    zk: CuratorFramework,
) -> impl Stream<Item = Result<Option<K::Delivery>, Error>> {
    let failed = None::<zk_curator::Error>;
    unfold((consumer, zk, failed), |(consumer, zk, failed)| async move {
        if let Some(error) = failed
            && let Err(error) = zk.wait_for_recovery(error).await
        {
            return Some((Err(error.into()), (consumer, zk, None)));
        }
        let (item, failed) = match consumer.next().await {
            Ok(delivery) => (Ok(Some(delivery)), None),
            Err(Error::Framework(error)) if error.is_transient() => {
                warn!(%error, "the consumer pauses until the error is over");
                (Ok(None), Some(error))
            }
            Err(error @ (Error::Framework(_) | Error::Zero { .. })) => (Err(error), None),
            Err(error) => {
                warn!(%error, "an item could not be delivered");
                (Ok(None), None)
            }
        };
        Some((item, (consumer, zk, failed)))
    })
}
