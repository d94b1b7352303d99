//! The queue between threads: shuttle decides which thread comes next.

use std::future::poll_fn;

use shuttle::{future, thread};

use super::*;

fn queue() -> Arc<RequestQueue> {
    Arc::new(RequestQueue::new("", 80, 8, 1000))
}

fn submit(queue: &Arc<RequestQueue>) -> ResponseTicket {
    queue.submit(OpCode::Sync, None, true, |body| body.bool(true)).ok().expect("it is open")
}

async fn answered(mut ticket: ResponseTicket) -> QueuedAnswer {
    poll_fn(|cx| ticket.poll(cx)).await
}

/// Drives the queue until nobody uses it: sends what is submitted, and responds. Returns the number
/// of requests that were sent.
async fn drive(queue: Arc<RequestQueue>) -> usize {
    let (mut batch, mut sent, mut is_unused) = (RequestBatch::default(), 0, false);
    while !is_unused {
        poll_fn(|cx| queue.poll_take(&mut batch, is_unused, cx)).await;
        is_unused = batch.is_unused;
        let mut answers = QueuedAnswers::default();
        for command in batch.commands.drain(..) {
            let SessionCommand::Request { submission, .. } = command else { continue };
            if let Some(reply) = queue.mark_sent(submission.reply) {
                sent += 1;
                answers.push(reply, Ok(Response::Empty));
            }
        }
        queue.deliver(&mut answers);
    }
    queue.end();
    sent
}

/// Every caller gets its response, and the driver learns that nobody is left: shuttle finds a
/// wake-up that is missed.
#[test]
fn every_caller_gets_its_response() {
    shuttle::check_random(
        || {
            let queue = queue();
            let driver = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || future::block_on(drive(queue)))
            };
            let callers = [(); 2].map(|()| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    future::block_on(answered(submit(&queue))).is_ok()
                        && future::block_on(answered(submit(&queue))).is_ok()
                })
            });
            for caller in callers {
                assert!(caller.join().expect("no panic"));
            }
            queue.on_last_handle_dropped();
            assert_eq!(driver.join().expect("no panic"), 4);
            assert_eq!(queue.waiting(), (0, 0));
            assert!(queue.lock().places.is_empty());
        },
        2_000,
    );
}

/// A caller that gives up learns if its request was sent. One that was withdrawn never is.
#[test]
fn a_caller_that_gives_up_knows_if_its_request_was_sent() {
    shuttle::check_dfs(
        || {
            let queue = queue();
            let mut ticket = submit(&queue);
            let driver = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || future::block_on(drive(queue)))
            };
            let withdrawn = ticket.withdraw();
            let was_sent = if withdrawn {
                false
            } else {
                match ticket.give_up() {
                    Ok(_) => true,
                    Err(was_sent) => was_sent,
                }
            };
            drop(ticket);
            queue.on_last_handle_dropped();
            assert_eq!(driver.join().expect("no panic"), usize::from(was_sent));
            assert_eq!(queue.waiting(), (0, 0));
        },
        None,
    );
}

/// The end of the driver fails all callers, whenever it comes.
#[test]
fn no_task_waits_after_the_end() {
    shuttle::check_random(
        || {
            let queue = queue();
            let callers = [(); 2].map(|()| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    let submitted = queue.submit(OpCode::Sync, None, false, |_| ());
                    let Ok(ticket) = submitted else { return };
                    assert!(future::block_on(answered(ticket)).is_err());
                })
            });
            queue.end();
            for caller in callers {
                caller.join().expect("no panic");
            }
            assert_eq!(queue.waiting(), (0, 0));
        },
        2_000,
    );
}
