//! [`LeaderSelector`]: bodies that run once or repeatedly and are sometimes interrupted, and
//! observers. Bodies that return immediately are not run without a pause.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use zk_curator::CuratorFramework;
use zk_curator_client::internal::Locked;
use zk_curator_recipes::leader::{Error, LeaderSelector, Leadership};

use super::Scenario;
use super::support::holding::{Attempt, LostIfDropped};
use super::support::leading::{ORDERS, connect, observed, work_as_leader};
use crate::checkers::{Exclusion, Observed};
use crate::history::HoldMode;
use crate::{Client, Failure};

/// How long a body runs that returns immediately, and how often at most: after a second, the pauses
/// have their full length.
const REPEATED: Duration = Duration::from_secs(10);
const MOST_TERMS: u64 = 40;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "leader_selector",
    "LeaderSelector: one body at a time, and what observers see",
    &["acquisitions", "leaders observed", "uses"],
    |sim| {
        sim.workload(work)
            .operator(["/election/*"])
            .checker(Exclusion::leader())
            .checker(Observed::default())
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = connect(&client).await?;
    let selector = LeaderSelector::new(&zk, "/election").id(client.who().to_string());
    let observe = {
        let selector = selector.clone();
        move || selector.observe()
    };
    let lead = async {
        if client.rng().bool() {
            again_and_again(&client, selector).await
        } else {
            Box::pin(now_and_then(&client, selector)).await
        }
    };
    Box::pin(observed(&client, observe, lead)).await?;
    client.faults_are_over().await;
    has_pauses(&client, &zk).await
}

/// Runs a body that returns immediately. It is the only candidate.
async fn has_pauses(client: &Client, zk: &CuratorFramework) -> Result<(), Failure> {
    let selector = LeaderSelector::new(zk, format!("/election-{}", client.unique()));
    let terms = AtomicU64::new(0);
    let turns = selector.run(|_| {
        terms.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    });
    drop(timeout(REPEATED, turns).await);
    let terms = terms.into_inner();
    if terms > MOST_TERMS {
        return Err(format!("{terms} terms in {REPEATED:?}").into());
    }
    Ok(())
}

fn attempt(client: &Client) -> Attempt<'_> {
    Attempt::begin(client, ORDERS, HoldMode::Leader)
}

/// Runs the body of one term.
async fn body(client: &Client, attempt: Attempt<'_>, leadership: Leadership) {
    let term = LostIfDropped(attempt.acquired(leadership.fencing_token()));
    work_as_leader(client, &term.0).await;
    term.0.releasing();
}

async fn now_and_then(client: &Client, selector: LeaderSelector) -> Result<(), Failure> {
    let pause = Duration::from_millis([5, 50, 500][client.rng().usize(..3)]);
    while client.next_round().is_some() {
        sleep(client.moment(pause)).await;
        let (attempt, began) = (attempt(client), Notify::new());
        let run = selector.run_once(|leadership| {
            began.notify_one();
            body(client, attempt, leadership)
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
            None | Some(Ok(()) | Err(Error::Lost { .. } | Error::Interrupted { .. })) => {}
            // The server may be read-only, or refuse requests for a while.
            Some(Err(Error::Framework(error))) if error.is_transient() => {}
            Some(Err(error)) => return Err(error.into()),
        }
    }
    selector.close().await;
    Ok(())
}

async fn again_and_again(client: &Client, selector: LeaderSelector) -> Result<(), Failure> {
    let done = Notify::new();
    let next = Locked::new(Some(attempt(client)));
    let turns = selector.run(|leadership| {
        let (round, requeue) = (client.next_round(), Requeue { client, next: &next });
        let done = &done;
        async move {
            if round.is_none() {
                done.notify_one();
                return;
            }
            if let Some(attempt) = requeue.take() {
                body(client, attempt, leadership).await;
            }
        }
    });
    let close = async {
        done.notified().await;
        // The last term ends before the close returns.
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
    drop(next);
    match ended {
        Err(Error::Framework(error)) if error.is_transient() => {
            // The present server refuses; another one may accept.
            sleep(client.moment(Duration::from_millis(100))).await;
            Ok(())
        }
        ended => Ok(ended?),
    }
}

/// Begins the next attempt when it is dropped, at any end of a term.
struct Requeue<'r, 'c> {
    client: &'c Client,
    next: &'r Locked<Option<Attempt<'c>>>,
}

impl<'c> Requeue<'_, 'c> {
    /// Returns the attempt that has succeeded.
    fn take(&self) -> Option<Attempt<'c>> {
        self.next.lock().take()
    }
}

impl Drop for Requeue<'_, '_> {
    fn drop(&mut self) {
        let next = attempt(self.client);
        *self.next.lock() = Some(next);
    }
}
