use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rings(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// Returns a queue with room for two requests of a hundred bytes together.
fn queue() -> Arc<RequestQueue> {
    Arc::new(RequestQueue::new("", 80, 2, 100))
}

/// Submits a request of this many bytes, including the header.
fn submit(
    queue: &Arc<RequestQueue>,
    length: usize,
    has_deadline: bool,
) -> Result<ResponseTicket, Option<Error>> {
    queue.submit(OpCode::Sync, None, has_deadline, |body| {
        (8..length).for_each(|_| body.bool(true));
    })
}

fn requests(batch: &mut RequestBatch) -> Vec<(ReplySlot, usize)> {
    let request = |command| match command {
        SessionCommand::Request { submission, body, .. } => (submission.reply, body.len()),
        other => panic!("{other:?}"),
    };
    batch.commands.drain(..).map(request).collect()
}

fn poll(ticket: &mut ResponseTicket) -> Poll<QueuedAnswer> {
    ticket.poll(&Context::from_waker(Waker::noop()))
}

fn answer(queue: &RequestQueue, reply: ReplySlot) {
    let mut answers = QueuedAnswers::default();
    answers.push(reply, Ok(Response::Empty));
    queue.deliver(&mut answers);
}

#[test]
fn too_much_is_refused_and_leaves_nothing() {
    let (queue, mut batch) = (queue(), RequestBatch::default());
    assert_eq!(
        submit(&queue, 81, false).err(),
        Some(Some(Error::TooLarge { length: 81, limit: 80 }))
    );
    let _first = submit(&queue, 60, false).ok().unwrap();
    let full = |requests, bytes| Some(Some(Error::QueueFull { requests, bytes }));
    assert_eq!(submit(&queue, 60, false).err(), full(1, 60));
    let second = submit(&queue, 40, false).ok().unwrap();
    assert_eq!(submit(&queue, 8, false).err(), full(2, 100));
    // It has no caller, but the server has yet to respond.
    drop(second);
    assert_eq!(queue.waiting(), (2, 100));
    assert!(queue.take(&mut batch));
    let mut taken = requests(&mut batch);
    assert_eq!(taken.iter().map(|(_, body)| *body).collect::<Vec<_>>(), [52, 32]);
    answer(&queue, taken.remove(1).0);
    assert_eq!(queue.waiting(), (1, 60));
    // A response that was not picked up is not a waiting request.
    answer(&queue, taken.remove(0).0);
    assert_eq!(queue.waiting(), (0, 0));
}

#[test]
fn responses_wake_their_callers_once() {
    let (queue, mut batch, bell) = (queue(), RequestBatch::default(), Arc::new(Bell::default()));
    let waker = Waker::from(Arc::clone(&bell));
    let mut tickets = [8, 9].map(|length| submit(&queue, length, false).ok().unwrap());
    queue.take(&mut batch);
    for ticket in &mut tickets {
        assert!(ticket.poll(&Context::from_waker(&waker)).is_pending());
        assert!(ticket.poll(&Context::from_waker(&waker)).is_pending());
    }
    let mut replies = requests(&mut batch).into_iter().map(|(reply, _)| reply);
    answer(&queue, replies.next().unwrap());
    assert_eq!(bell.rings(), 1);
    assert_eq!(poll(&mut tickets[0]), Poll::Ready(Ok(Response::Empty)));
    assert!(poll(&mut tickets[1]).is_pending());
    assert_eq!(queue.lock().places.len(), 1);
}

#[test]
fn the_driver_is_woken_when_it_sleeps_and_only_then() {
    let (queue, mut batch, bell) = (queue(), RequestBatch::default(), Arc::new(Bell::default()));
    let waker = Waker::from(Arc::clone(&bell));
    let context = Context::from_waker(&waker);
    let first = submit(&queue, 8, false).ok().unwrap();
    assert!(queue.poll_take(&mut batch, false, &context).is_ready());
    assert!(queue.poll_take(&mut batch, false, &context).is_pending());
    let second = submit(&queue, 8, false).ok().unwrap();
    assert_eq!(bell.rings(), 1);
    assert!(submit(&queue, 8, false).is_err());
    assert_eq!(bell.rings(), 0);
    assert!(queue.take(&mut batch));
    // The last handle is dropped, and then the last ticket.
    assert!(queue.poll_take(&mut batch, false, &context).is_pending());
    queue.on_last_handle_dropped();
    drop(first);
    assert_eq!((bell.rings(), batch.is_unused), (0, false));
    drop(second);
    assert_eq!(bell.rings(), 1);
    assert!(queue.poll_take(&mut batch, false, &context).is_ready());
    assert!(batch.is_unused);
    assert!(queue.poll_take(&mut batch, true, &context).is_pending());
}

#[test]
fn a_caller_that_gives_up_learns_if_it_was_sent() {
    let (queue, mut batch) = (queue(), RequestBatch::default());
    let mut tickets = [8, 9].map(|length| submit(&queue, length, true).ok().unwrap());
    queue.take(&mut batch);
    let mut replies = requests(&mut batch).into_iter().map(|(reply, _)| reply);
    assert_eq!(tickets[0].give_up(), Err(false));
    let left = replies.next().unwrap();
    assert!(queue.is_left(&left));
    assert!(queue.mark_sent(left).is_none());
    let sent = queue.mark_sent(replies.next().unwrap()).unwrap();
    assert_eq!(tickets[1].give_up(), Err(true));
    assert_eq!(queue.waiting(), (1, 9));
    answer(&queue, sent);
    assert_eq!(queue.waiting(), (0, 0));
    assert!(queue.lock().places.is_empty());

    // It had already arrived.
    let mut ticket = submit(&queue, 8, true).ok().unwrap();
    queue.take(&mut batch);
    answer(&queue, requests(&mut batch).remove(0).0);
    assert_eq!(ticket.give_up(), Ok(Ok(Response::Empty)));
}

#[test]
fn a_queued_request_that_is_given_up_costs_nothing() {
    let (queue, mut batch, bell) = (queue(), RequestBatch::default(), Arc::new(Bell::default()));
    let mut tickets = [50, 50].map(|length| submit(&queue, length, false).ok().unwrap());
    queue.take(&mut batch);
    let mut replies = requests(&mut batch).into_iter().zip(7..);
    let mut enqueue = || {
        replies.next().and_then(|((reply, _), number)| queue.mark_queued(reply, number)).unwrap()
    };
    let queued = [enqueue(), enqueue()];
    let waker = Waker::from(Arc::clone(&bell));
    assert!(queue.poll_take(&mut batch, false, &Context::from_waker(&waker)).is_pending());
    assert!(tickets[0].withdraw());
    assert_eq!((queue.waiting(), bell.rings()), ((1, 50), 1));
    assert_eq!(tickets[1].give_up(), Err(false));
    assert_eq!(queue.waiting(), (0, 0));
    assert!(queue.take(&mut batch));
    assert_eq!(batch.withdrawn, [7, 8]);
    queued.into_iter().for_each(|reply| queue.discard(reply));
    assert!(queue.lock().places.is_empty());
    assert!(!queue.take(&mut batch));
}

#[test]
fn only_certainly_unsent_requests_are_withdrawn() {
    let (queue, mut batch) = (queue(), RequestBatch::default());
    let mut tickets =
        [false, true].map(|has_deadline| submit(&queue, 8, has_deadline).ok().unwrap());
    queue.take(&mut batch);
    let [plain, has_deadline] = &mut tickets;
    // The driver sends a plain request without marking it.
    assert!(!plain.withdraw());
    assert!(has_deadline.withdraw());
    assert!(!has_deadline.withdraw());
    let mut replies = requests(&mut batch).into_iter().map(|(reply, _)| reply);
    let sent = queue.mark_sent(replies.next().unwrap()).unwrap();
    assert!(!plain.withdraw());
    answer(&queue, sent);
    assert!(!plain.withdraw());
    assert_eq!(poll(plain), Poll::Ready(Ok(Response::Empty)));
    assert!(queue.mark_sent(replies.next().unwrap()).is_none());
    assert!(queue.lock().places.is_empty());
    assert_eq!(queue.waiting(), (0, 0));
}

#[test]
fn the_end_reaches_all_waiters() {
    let (queue, mut batch, bell) = (queue(), RequestBatch::default(), Arc::new(Bell::default()));
    let mut ticket = submit(&queue, 8, false).ok().unwrap();
    assert!(ticket.poll(&Context::from_waker(&Waker::from(Arc::clone(&bell)))).is_pending());
    let mut late = submit(&queue, 8, false).ok().unwrap();
    queue.close(&mut batch);
    assert_eq!(submit(&queue, 8, false).err(), Some(None));
    assert!(queue.ask(|_| SessionCommand::ForgetWatch { path: "/".into() }).is_none());
    assert!(queue.send(SessionCommand::ForgetWatch { path: "/".into() }).is_err());
    answer(&queue, requests(&mut batch).remove(1).0);
    queue.end();
    assert_eq!(bell.rings(), 1);
    assert_eq!(poll(&mut ticket), Poll::Ready(Err(Error::Closed { sent: true })));
    assert_eq!(poll(&mut late), Poll::Ready(Ok(Response::Empty)));
}

struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a waker of another task");
    }
}

#[test]
fn a_waker_that_panics_leaves_no_other_task_asleep() {
    for ends in [false, true] {
        let (queue, mut batch, bell) =
            (queue(), RequestBatch::default(), Arc::new(Bell::default()));
        let mut tickets = [8, 9].map(|length| submit(&queue, length, false).ok().unwrap());
        queue.take(&mut batch);
        let wakers = [Waker::from(Arc::new(Bomb)), Waker::from(Arc::clone(&bell))];
        for (ticket, waker) in tickets.iter_mut().zip(&wakers) {
            assert!(ticket.poll(&Context::from_waker(waker)).is_pending());
        }
        let mut answers = QueuedAnswers::default();
        for (reply, _) in requests(&mut batch) {
            answers.push(reply, Ok(Response::Empty));
        }
        let wake = || if ends { queue.end() } else { queue.deliver(&mut answers) };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(wake)).is_err());
        assert_eq!(bell.rings(), 1);
        let expected = if ends { Err(Error::Closed { sent: true }) } else { Ok(Response::Empty) };
        for ticket in &mut tickets {
            assert_eq!(poll(ticket), Poll::Ready(expected.clone()));
        }
    }
}

#[test]
fn the_slot_of_a_dropped_ticket_is_reused_after_its_response() {
    let (queue, mut batch) = (queue(), RequestBatch::default());
    let first = submit(&queue, 8, false).ok().unwrap();
    queue.take(&mut batch);
    let (left, _) = requests(&mut batch).remove(0);
    drop(first);
    let mut second = submit(&queue, 8, false).ok().unwrap();
    answer(&queue, left);
    assert!(poll(&mut second).is_pending());
    // Now the slot is free, and its next user gets the response to its own request.
    let mut third = submit(&queue, 8, false).ok().unwrap();
    queue.take(&mut batch);
    let mut replies = requests(&mut batch).into_iter().map(|(reply, _)| reply);
    let (second_reply, third_reply) = (replies.next().unwrap(), replies.next().unwrap());
    answer(&queue, third_reply);
    assert!(poll(&mut second).is_pending());
    assert_eq!(poll(&mut third), Poll::Ready(Ok(Response::Empty)));
    answer(&queue, second_reply);
    assert_eq!(poll(&mut second), Poll::Ready(Ok(Response::Empty)));
    assert!(queue.lock().places.is_empty());
    // A second poll must not report the request as never sent.
    assert_eq!(poll(&mut second), Poll::Ready(Err(Error::Closed { sent: true })));
}

#[test]
fn the_last_waker_is_woken() {
    let (queue, mut batch) = (queue(), RequestBatch::default());
    let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
    let mut ticket = submit(&queue, 8, false).ok().unwrap();
    for bell in &bells {
        assert!(ticket.poll(&Context::from_waker(&Waker::from(Arc::clone(bell)))).is_pending());
    }
    queue.take(&mut batch);
    answer(&queue, requests(&mut batch).remove(0).0);
    assert_eq!(bells.map(|bell| bell.rings()), [0, 1]);
}

#[test]
fn memory_that_was_needed_once_is_let_go() {
    let queue = Arc::new(RequestQueue::new("", usize::MAX, usize::MAX, usize::MAX));
    let mut batch = RequestBatch::default();
    let tickets: Vec<_> =
        (0..2 * KEPT_PLACES).map(|_| submit(&queue, 8, false).ok().unwrap()).collect();
    let large = submit(&queue, 2 * KEPT_BODIES, false).ok().unwrap();
    queue.take(&mut batch);
    let mut answers = QueuedAnswers::default();
    for (reply, _) in requests(&mut batch) {
        answers.push(reply, Ok(Response::Empty));
    }
    queue.deliver(&mut answers);
    drop((tickets, large));
    queue.take(&mut batch);
    assert!(batch.bodies.capacity() < KEPT_BODIES);
    assert_eq!((batch.commands.capacity(), answers.ready.capacity()), (0, 0));
    assert_eq!(queue.lock().places.capacity(), 0);
}
