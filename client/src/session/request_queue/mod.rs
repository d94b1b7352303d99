//! The queue of requests and responses between the handles of a session and its driver.

#[cfg(test)]
mod tests;
#[cfg(all(test, zk_threads))]
mod threads;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use slab::Slab;
use zk_curator_proto::{Encoder, OpCode, Response};

use super::{ReplySlot, RequestSubmission, SessionCommand, WatchEffect};
use crate::Error;
use crate::locked::{Locked, LockedGuard};

/// The largest buffers that are kept when they are empty: bytes of bodies; commands, responses and
/// slots for them.
const KEPT_BODIES: usize = 256 * 1024;
const KEPT_PLACES: usize = 4096;

type QueuedAnswer = Result<Response, Error>;

/// Requests on the way to the driver, in call order, and the responses to them.
///
/// One lock guards both. A request takes it once for the call and once for the response. The driver
/// takes it once for each batch of requests and each batch of responses. Wakers are called after
/// the lock is released.
pub(crate) struct RequestQueue {
    pub(crate) chroot: Box<str>,
    pub(crate) max_frame: usize,
    max_requests: usize,
    max_bytes: usize,
    inner: Locked<QueueState>,
}

struct QueueState {
    batch: RequestBatch,
    /// The waker of the driver while it sleeps.
    driver: Option<Waker>,
    /// `true` if there are handles; and the number of responses that callers wait for. Both keep
    /// the session open.
    handles: bool,
    awaited: usize,
    /// `true` if no more commands are accepted; `true` if no more responses follow.
    closed: bool,
    ended: bool,
    /// The number of requests that wait for responses.
    requests: usize,
    bytes: usize,
    places: Slab<ResponseSlot>,
}

/// The slot of the response to a request.
enum ResponseSlot {
    /// A caller waits for it. `cost` is its share of the byte limit, if it counts.
    Awaited { waker: Option<Waker>, cost: Option<usize>, stage: RequestStage },
    /// No caller waits for it any more.
    Left { cost: Option<usize> },
    /// The response has arrived.
    Answered(QueuedAnswer),
}

/// The progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestStage {
    /// The driver has the request. It marks it as sent only if it is `has_deadline`.
    Handed { has_deadline: bool },
    /// It waits for a connection, under this number.
    Queued(u64),
    /// It was sent.
    Sent,
}

/// The commands since the driver last took a batch.
#[derive(Debug, Default)]
pub(crate) struct RequestBatch {
    pub(crate) commands: Vec<SessionCommand>,
    /// The numbers of queued requests whose callers no longer wait.
    pub(crate) withdrawn: Vec<u64>,
    /// The bodies of the requests among the commands.
    pub(crate) bodies: Encoder,
    /// No more requests will come.
    pub(crate) is_unused: bool,
}

/// Responses on the way to their callers, in order.
#[derive(Debug, Default)]
pub(crate) struct QueuedAnswers {
    ready: Vec<(ReplySlot, QueuedAnswer)>,
    wakers: Vec<Waker>,
}

impl QueuedAnswers {
    fn shrink(&mut self) {
        shrink(&mut self.ready);
        shrink(&mut self.wakers);
    }

    pub(crate) fn push(&mut self, reply: ReplySlot, answer: QueuedAnswer) {
        self.ready.push((reply, answer));
    }
}

impl RequestQueue {
    pub(crate) fn new(
        chroot: &str,
        max_frame: usize,
        max_requests: usize,
        max_bytes: usize,
    ) -> Self {
        let inner = QueueState {
            batch: RequestBatch::default(),
            driver: None,
            handles: true,
            awaited: 0,
            closed: false,
            ended: false,
            requests: 0,
            bytes: 0,
            places: Slab::new(),
        };
        Self {
            chroot: chroot.into(),
            max_frame,
            max_requests,
            max_bytes,
            inner: Locked::new(inner),
        }
    }

    /// Refuses a request whose body is too long.
    pub(crate) const fn admit(&self, body: usize) -> Result<(), Error> {
        let (length, limit) = (length_of(body), self.max_frame);
        if length > limit { Err(Error::TooLarge { length, limit }) } else { Ok(()) }
    }

    /// Submits a request whose body `fill` writes. Fails with `None` if the client has ended.
    ///
    /// With `has_deadline`, the caller may give up, and then learns if the request was sent.
    pub(crate) fn submit(
        self: &Arc<Self>,
        opcode: OpCode,
        watch: Option<Box<WatchEffect>>,
        has_deadline: bool,
        fill: impl FnOnce(&mut Encoder),
    ) -> Result<ResponseTicket, Option<Error>> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(None);
        }
        let bodies = &mut inner.batch.bodies;
        let start = bodies.len();
        fill(bodies);
        let body = start..bodies.len();
        let length = length_of(body.len());
        let (requests, bytes) = (inner.requests, inner.bytes);
        let refusal = if let Err(error) = self.admit(body.len()) {
            Some(error)
        } else if requests >= self.max_requests || bytes.saturating_add(length) > self.max_bytes {
            Some(Error::QueueFull { requests, bytes })
        } else {
            None
        };
        if refusal.is_some() {
            inner.batch.bodies.truncate(start);
            inner.batch.shrink();
            return Err(refusal);
        }
        inner.requests += 1;
        inner.bytes += length;
        let (reply, ticket) =
            self.place(&mut inner, Some(length), RequestStage::Handed { has_deadline });
        let submission = RequestSubmission { opcode, reply, watch };
        inner.batch.commands.push(SessionCommand::Request { submission, body, has_deadline });
        wake_driver(inner);
        Ok(ticket)
    }

    /// Submits another command. Returns it if the client has ended.
    pub(crate) fn send(&self, command: SessionCommand) -> Result<(), SessionCommand> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(command);
        }
        inner.batch.commands.push(command);
        wake_driver(inner);
        Ok(())
    }

    /// Does the same as [`RequestQueue::send`], for a command that has a response, without a time
    /// limit, and that cannot be withdrawn.
    pub(crate) fn ask(
        self: &Arc<Self>,
        command: impl FnOnce(ReplySlot) -> SessionCommand,
    ) -> Option<ResponseTicket> {
        let mut inner = self.lock();
        if inner.closed {
            return None;
        }
        let (reply, ticket) = self.place(&mut inner, None, RequestStage::Sent);
        inner.batch.commands.push(command(reply));
        wake_driver(inner);
        Some(ticket)
    }

    fn place(
        self: &Arc<Self>,
        inner: &mut QueueState,
        cost: Option<usize>,
        stage: RequestStage,
    ) -> (ReplySlot, ResponseTicket) {
        let key = inner.places.insert(ResponseSlot::Awaited { waker: None, cost, stage });
        inner.awaited += 1;
        (ReplySlot(key), ResponseTicket::new(Arc::clone(self), key))
    }

    /// Notes that the last handle was dropped.
    pub(crate) fn on_last_handle_dropped(&self) {
        let mut inner = self.lock();
        inner.handles = false;
        if inner.awaited == 0 {
            wake_driver(inner);
        }
    }

    /// Takes the submitted commands into a batch whose previous contents are done. Returns `true`
    /// if there were any.
    pub(crate) fn take(&self, batch: &mut RequestBatch) -> bool {
        batch.reset();
        self.lock().take(batch)
    }

    /// Does the same as [`RequestQueue::take`], for a driver that sleeps if there is nothing.
    /// `known` is `true` if the driver already knows that all handles were dropped.
    pub(crate) fn poll_take(
        &self,
        batch: &mut RequestBatch,
        known: bool,
        cx: &Context<'_>,
    ) -> Poll<()> {
        batch.reset();
        let mut inner = self.lock();
        if inner.take(batch) || (batch.is_unused && !known) {
            return Poll::Ready(());
        }
        inner.driver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Accepts no more commands; the rest of them is in the batch.
    pub(crate) fn close(&self, batch: &mut RequestBatch) {
        batch.reset();
        let mut inner = self.lock();
        inner.closed = true;
        inner.take(batch);
    }

    /// Fails all waiting callers: no more responses follow.
    pub(crate) fn end(&self) {
        let mut left = RequestBatch::default();
        let mut inner = self.lock();
        inner.closed = true;
        inner.ended = true;
        inner.take(&mut left);
        let waker = |(_, place): (usize, &mut ResponseSlot)| match place {
            ResponseSlot::Awaited { waker, .. } => waker.take(),
            _ => None,
        };
        let mut wakers: Vec<_> = inner.places.iter_mut().filter_map(waker).collect();
        drop(inner);
        wake_all(&mut wakers);
    }

    /// Marks a request as sent. Returns `None` if its ticket was dropped.
    pub(crate) fn mark_sent(&self, reply: ReplySlot) -> Option<ReplySlot> {
        self.advance(reply, RequestStage::Sent)
    }

    /// Marks a request as waiting for a connection, under a number. Returns `None` if its ticket
    /// was dropped.
    pub(crate) fn mark_queued(&self, reply: ReplySlot, number: u64) -> Option<ReplySlot> {
        self.advance(reply, RequestStage::Queued(number))
    }

    /// Discards a request that has no caller and that is not sent.
    pub(crate) fn discard(&self, reply: ReplySlot) {
        drop(self.lock().remove(reply.0));
    }

    fn advance(&self, reply: ReplySlot, next: RequestStage) -> Option<ReplySlot> {
        let mut inner = self.lock();
        match inner.places.get_mut(reply.0) {
            Some(ResponseSlot::Awaited { stage, .. }) => {
                *stage = next;
                Some(reply)
            }
            _ => {
                inner.remove(reply.0);
                None
            }
        }
    }

    /// Returns `true` if no caller waits for the response.
    pub(crate) fn is_left(&self, reply: &ReplySlot) -> bool {
        matches!(self.lock().places.get(reply.0), Some(ResponseSlot::Left { .. }))
    }

    /// Delivers responses to their callers.
    pub(crate) fn deliver(&self, answers: &mut QueuedAnswers) {
        if answers.ready.is_empty() {
            return;
        }
        let mut inner = self.lock();
        for (ReplySlot(key), answer) in answers.ready.drain(..) {
            match inner.places.get_mut(key) {
                Some(place @ ResponseSlot::Awaited { .. }) => {
                    let before = std::mem::replace(place, ResponseSlot::Answered(answer));
                    let cost = before.cost();
                    inner.release(cost);
                    if let ResponseSlot::Awaited { waker: Some(waker), .. } = before {
                        answers.wakers.push(waker);
                    }
                }
                _ => drop(inner.remove(key)),
            }
        }
        drop(inner);
        wake_all(&mut answers.wakers);
        answers.shrink();
    }

    /// Returns the number of requests that wait for a response, and their bytes.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.requests, inner.bytes)
    }

    fn lock(&self) -> LockedGuard<'_, QueueState> {
        self.inner.lock()
    }
}

impl fmt::Debug for RequestQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestQueue").field("chroot", &self.chroot).finish_non_exhaustive()
    }
}

/// Calls the wakers in order. It continues after one that panics, because the others would not be
/// called later.
fn wake_all(wakers: &mut Vec<Waker>) {
    struct Rest<'a>(std::vec::Drain<'a, Waker>);

    impl Rest<'_> {
        fn wake(&mut self) {
            self.0.by_ref().for_each(Waker::wake);
        }
    }

    impl Drop for Rest<'_> {
        fn drop(&mut self) {
            self.wake();
        }
    }

    Rest(wakers.drain(..)).wake();
}

/// Frees memory that was once needed for many elements.
fn shrink<T>(empty: &mut Vec<T>) {
    if empty.capacity() > KEPT_PLACES {
        *empty = Vec::new();
    }
}

fn wake_driver(mut inner: LockedGuard<'_, QueueState>) {
    let driver = inner.driver.take();
    drop(inner);
    if let Some(driver) = driver {
        driver.wake();
    }
}

impl QueueState {
    fn take(&mut self, batch: &mut RequestBatch) -> bool {
        batch.is_unused = !self.handles && self.awaited == 0;
        if self.batch.commands.is_empty() && self.batch.withdrawn.is_empty() {
            return false;
        }
        let is_unused = batch.is_unused;
        std::mem::swap(&mut self.batch, batch);
        batch.is_unused = is_unused;
        true
    }

    /// Notes that a request does not wait any more.
    fn release(&mut self, cost: Option<usize>) {
        if let Some(cost) = cost {
            self.requests -= 1;
            self.bytes -= cost;
        }
    }

    fn remove(&mut self, key: usize) -> Option<ResponseSlot> {
        let place = self.places.try_remove(key)?;
        self.release(place.cost());
        if self.places.is_empty() && self.places.capacity() > KEPT_PLACES {
            self.places = Slab::new();
        }
        Some(place)
    }
}

impl ResponseSlot {
    const fn cost(&self) -> Option<usize> {
        match self {
            Self::Awaited { cost, .. } | Self::Left { cost } => *cost,
            Self::Answered(_) => None,
        }
    }
}

impl RequestBatch {
    fn reset(&mut self) {
        self.commands.clear();
        shrink(&mut self.commands);
        self.withdrawn.clear();
        shrink(&mut self.withdrawn);
        self.bodies.truncate(0);
        self.shrink();
    }

    /// Frees memory that was once needed for something large.
    fn shrink(&mut self) {
        if self.bodies.is_empty() && self.bodies.capacity() > KEPT_BODIES {
            self.bodies = Encoder::new();
        }
    }
}

/// Returns the length of a request with a body of this size: the header adds eight bytes.
pub(super) const fn length_of(body: usize) -> usize {
    body + 8
}

/// The right to a response. It keeps the session open. Dropping it abandons the response.
pub(crate) struct ResponseTicket {
    queue: Arc<RequestQueue>,
    /// The slot; `None` once the response was taken.
    key: Option<usize>,
}

impl ResponseTicket {
    pub(super) const fn new(queue: Arc<RequestQueue>, key: usize) -> Self {
        Self { queue, key: Some(key) }
    }

    pub(crate) fn chroot(&self) -> &str {
        &self.queue.chroot
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<QueuedAnswer> {
        let Some(key) = self.key else {
            // Polled again after the response: the outcome was returned, and is no longer known.
            return Poll::Ready(Err(Error::Closed { sent: true }));
        };
        let mut inner = self.queue.lock();
        let ended = inner.ended;
        if let Some(ResponseSlot::Awaited { waker, .. }) = inner.places.get_mut(key)
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
    pub(crate) fn give_up(&mut self) -> Result<QueuedAnswer, bool> {
        let Some(key) = self.key.take() else {
            return Err(false);
        };
        let inner = self.queue.lock();
        match leave(inner, key) {
            Ok(stage) => Err(stage == RequestStage::Sent),
            Err(inner) => Ok(redeem(inner, key)),
        }
    }

    /// Withdraws the request if it is certain that it was not sent. It never is sent then.
    pub(crate) fn withdraw(&mut self) -> bool {
        let Some(key) = self.key else { return false };
        let inner = self.queue.lock();
        let Some(ResponseSlot::Awaited {
            stage: RequestStage::Queued(_) | RequestStage::Handed { has_deadline: true },
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
fn leave(
    mut inner: LockedGuard<'_, QueueState>,
    key: usize,
) -> Result<RequestStage, LockedGuard<'_, QueueState>> {
    let Some(place @ &mut ResponseSlot::Awaited { cost, stage, .. }) = inner.places.get_mut(key)
    else {
        return Err(inner);
    };
    let is_queued = matches!(stage, RequestStage::Queued(_));
    let before =
        std::mem::replace(place, ResponseSlot::Left { cost: if is_queued { None } else { cost } });
    if let RequestStage::Queued(number) = stage {
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
fn redeem(mut inner: LockedGuard<'_, QueueState>, key: usize) -> QueuedAnswer {
    let place = inner.remove(key);
    settle(inner);
    match place {
        Some(ResponseSlot::Answered(answer)) => answer,
        // The client's task is gone, with its runtime. It is not known if the request was sent.
        _ => Err(Error::Closed { sent: true }),
    }
}

/// Notes that one response less is pending.
fn settle(mut inner: LockedGuard<'_, QueueState>) {
    inner.awaited -= 1;
    if inner.awaited == 0 && !inner.handles {
        wake_driver(inner);
    }
}

impl fmt::Debug for ResponseTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestTicket").field(&self.key).finish()
    }
}

impl Drop for ResponseTicket {
    fn drop(&mut self) {
        if self.key.is_some() {
            drop(self.give_up());
        }
    }
}
