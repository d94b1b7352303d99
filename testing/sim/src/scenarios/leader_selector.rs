//! [`LeaderSelector`]: bodies that run once or again and again, and are interrupted now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use zk_curator::ErrorKind;
use zk_curator_recipes::leader::{Error, LeaderSelector, Leadership};

use super::Scenario;
use super::leading::{Term, acquiring, connect};
use crate::checkers::Exclusion;
use crate::history::Event;
use crate::{Client, Failure};

pub(super) const SCENARIO: Scenario =
    Scenario::new("leader_selector", "LeaderSelector: one body at a time", |client| Box::pin(work(client)))
        .operator(&["/election/*"])
        .checked_by(|| vec![Arc::new(Exclusion::leader())]);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = connect(&client).await?;
    let selector = LeaderSelector::new(&zk, "/election").id(client.who().to_string());
    if client.rng().bool() {
        again_and_again(&client, selector).await
    } else {
        now_and_then(&client, selector).await
    }
}

/// One turn.
async fn body(client: &Client, hold: u64, leadership: Leadership) {
    let term = Term::begin(client, hold, &leadership);
    term.work().await;
    term.resigns();
}

async fn now_and_then(client: &Client, selector: LeaderSelector) -> Result<(), Failure> {
    let pause = Duration::from_millis([5, 50, 500][client.rng().usize(..3)]);
    while client.next_round().is_some() {
        sleep(client.moment(pause)).await;
        let hold = acquiring(client);
        let began = Notify::new();
        let run = selector.run(|leadership| {
            began.notify_one();
            body(client, hold, leadership)
        });
        let interrupted = async {
            began.notified().await;
            if client.rng().u8(..4) == 0 {
                sleep(client.moment(Duration::from_millis(40))).await;
                selector.interrupt_leadership();
            }
        };
        let until = async {
            tokio::select! {
                biased;
                ended = run => ended,
                () = async {
                    interrupted.await;
                    std::future::pending::<()>().await;
                } => Ok(()),
            }
        };
        match client.maybe_cancel(until).await {
            Some(Ok(()) | Err(Error::Lost | Error::Interrupted)) => {}
            // It may be connected to a server that is read-only.
            Some(Err(Error::Framework(error))) if error.kind() == ErrorKind::ReadOnly => {
                client.record(Event::Missed { hold });
            }
            None => client.record(Event::Missed { hold }),
            Some(Err(error)) => return Err(error.into()),
        }
    }
    selector.close().await;
    Ok(())
}

async fn again_and_again(client: &Client, selector: LeaderSelector) -> Result<(), Failure> {
    let done = Notify::new();
    let next = AtomicU64::new(acquiring(client));
    let turns = selector.run_repeatedly(|leadership| {
        let (round, requeue) = (client.next_round(), Requeue { client, next: &next });
        let done = &done;
        async move {
            if round.is_none() {
                done.notify_one();
                return;
            }
            body(client, requeue.hold(), leadership).await;
        }
    });
    let close = async {
        done.notified().await;
        // The last turn is over by then.
        selector.close().await;
    };
    let ended = tokio::select! {
        biased;
        ended = turns => ended,
        () = async {
            close.await;
            std::future::pending::<()>().await;
        } => Ok(()),
    };
    client.record(Event::Missed { hold: next.into_inner() });
    match ended {
        Err(Error::Framework(error)) if error.kind() == ErrorKind::ReadOnly => {
            // The server that it is connected to; another one may do it.
            sleep(client.moment(Duration::from_millis(100))).await;
            Ok(())
        }
        ended => Ok(ended?),
    }
}

/// Dropped at the end of a turn, whatever ended it, it begins the next attempt.
struct Requeue<'a> {
    client: &'a Client,
    next: &'a AtomicU64,
}

impl Requeue<'_> {
    /// The number of this attempt.
    fn hold(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

impl Drop for Requeue<'_> {
    fn drop(&mut self) {
        self.next.store(acquiring(self.client), Ordering::Relaxed);
    }
}
