//! The side of the caller: it waits for one response.

use std::fmt;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};

use super::{Answer, Inner, Place, RequestQueue, Stage, wake_driver};
use crate::Error;

/// The right to a response. It keeps the session open. Dropping it abandons the response.
pub(crate) struct Ticket {
    queue: Arc<RequestQueue>,
    /// The slot; `None` once the response was taken.
    key: Option<usize>,
}

impl Ticket {
    pub(super) const fn new(queue: Arc<RequestQueue>, key: usize) -> Self {
        Self { queue, key: Some(key) }
    }

    pub(crate) fn chroot(&self) -> &str {
        &self.queue.chroot
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Answer> {
        let Some(key) = self.key else {
            // Polled again after the response: the outcome was returned, and is no longer known.
            return Poll::Ready(Err(Error::Closed { sent: true }));
        };
        let mut inner = self.queue.lock();
        let ended = inner.ended;
        if let Some(Place::Awaited { waker, .. }) = inner.places.get_mut(key)
            && !ended
        {
            let known = waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
            let before = if known { None } else { waker.replace(cx.waker().clone()) };
            drop(inner);
            drop(before);
            return Poll::Pending;
        }
        self.key = None;
        Poll::Ready(redeem(inner, key))
    }

    /// Abandons the wait. Returns the response if it has already arrived, or else `Err` with `true`
    /// if the request was sent.
    pub(crate) fn give_up(&mut self) -> Result<Answer, bool> {
        let Some(key) = self.key.take() else {
            return Err(false);
        };
        let inner = self.queue.lock();
        match leave(inner, key) {
            Ok(stage) => Err(stage == Stage::Sent),
            Err(inner) => Ok(redeem(inner, key)),
        }
    }

    /// Withdraws the request if it is certain that it was not sent. It never is sent then.
    pub(crate) fn withdraw(&mut self) -> bool {
        let Some(key) = self.key else { return false };
        let inner = self.queue.lock();
        let Some(Place::Awaited {
            stage: Stage::Queued(_) | Stage::Handed { has_deadline: true },
            ..
        }) = inner.places.get(key)
        else {
            return false;
        };
        self.key = None;
        leave(inner, key).is_ok()
    }
}

/// Abandons this response and returns the progress of the request. Fails if the response has
/// arrived.
///
/// A queued request no longer counts towards the limits, and the driver drops it.
fn leave(mut inner: MutexGuard<'_, Inner>, key: usize) -> Result<Stage, MutexGuard<'_, Inner>> {
    let Some(place @ &mut Place::Awaited { cost, stage, .. }) = inner.places.get_mut(key) else {
        return Err(inner);
    };
    let is_queued = matches!(stage, Stage::Queued(_));
    let before =
        std::mem::replace(place, Place::Left { cost: if is_queued { None } else { cost } });
    if let Stage::Queued(number) = stage {
        inner.release(cost);
        inner.batch.withdrawn.push(number);
    }
    inner.awaited -= 1;
    if is_queued || (inner.awaited == 0 && !inner.handles) {
        wake_driver(inner);
    } else {
        drop(inner);
    }
    // A waker is foreign code.
    drop(before);
    Ok(stage)
}

/// Returns the response, or the error that there will be none.
fn redeem(mut inner: MutexGuard<'_, Inner>, key: usize) -> Answer {
    let place = inner.remove(key);
    settle(inner);
    match place {
        Some(Place::Answered(answer)) => answer,
        // The client's task is gone, with its runtime. It is not known if the request was sent.
        _ => Err(Error::Closed { sent: true }),
    }
}

/// Notes that one response less is pending.
fn settle(mut inner: MutexGuard<'_, Inner>) {
    inner.awaited -= 1;
    if inner.awaited == 0 && !inner.handles {
        wake_driver(inner);
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.key).finish()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.key.is_some() {
            drop(self.give_up());
        }
    }
}
