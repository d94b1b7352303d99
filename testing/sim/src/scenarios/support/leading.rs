//! The common part of the workloads of elections.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use zk_curator::{ConnectionStateErrorPolicy, CuratorFramework};
use zk_curator_recipes::leader::{LeaderObserver, Leadership};

use super::holding::Held;
use crate::history::{Leader, Name};
use crate::{Client, Failure};

/// The name of the resource that the leader uses, and of the election.
pub(in crate::scenarios) const ORDERS: &str = "orders";

/// Connects a framework with either policy for suspended connections.
pub(in crate::scenarios) async fn connect(client: &Client) -> Result<CuratorFramework, Failure> {
    let policies = [ConnectionStateErrorPolicy::Standard, ConnectionStateErrorPolicy::Session];
    let policy = policies[client.rng().usize(..2)];
    client.note(format!("policy {policy:?}"));
    Ok(client.connect_with(client.framework().connection_state_error_policy(policy)).await?)
}

/// Does the work of a leader for a while.
pub(in crate::scenarios) async fn work_as_leader(client: &Client, held: &Held<'_>) {
    for _ in 0..client.rng().u8(..4) {
        sleep(client.moment(Duration::from_millis(20))).await;
        client.use_resource(held).await;
    }
}

/// Does the work. Next to the work of every second client, an observer is notified of the leader,
/// until the work is done and there is no leader.
pub(in crate::scenarios) async fn observed(
    client: &Client,
    observe: impl Fn() -> LeaderObserver + Send + Sync + 'static,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    if !client.number().is_multiple_of(2) {
        return work.await;
    }
    let done = Arc::new(Notify::new());
    let observing = client.spawn(follow(client.clone(), observe, Arc::clone(&done)));
    let worked = work.await;
    done.notify_one();
    match observing.await {
        Some(observed) => worked.and(observed),
        None => worked,
    }
}

async fn follow(
    client: Client,
    observe: impl Fn() -> LeaderObserver + Sync,
    done: Arc<Notify>,
) -> Result<(), Failure> {
    let election = Name::from(ORDERS);
    let mut rng = client.rng();
    let begin = || {
        let number = client.unique();
        client.record(Leader::Observing { election: Name::clone(&election), observer: number });
        (number, observe())
    };
    let (mut leads, mut is_done) = (true, false);
    let mut observer = None;
    while leads || !is_done {
        // A new observer is notified of the present leader.
        observer = observer.filter(|_| rng.u8(..4) > 0);
        let (number, observer) = observer.get_or_insert_with(begin);
        let seen = tokio::select! {
            biased;
            () = done.notified(), if !is_done => {
                is_done = true;
                continue;
            }
            // The future is sometimes dropped. No notification may be lost by that.
            seen = client.maybe_cancel(observer.next()) => match seen {
                Some(seen) => seen?,
                None => continue,
            }
        };
        leads = seen.is_some();
        let leader = seen.map(|leader| leader.fencing_token.get());
        client.record(Leader::Observed {
            election: Name::clone(&election),
            observer: *number,
            leader,
        });
    }
    Ok(())
}

/// Waits until an observer is notified of this leader, or the term ends.
pub(in crate::scenarios) async fn is_observed(
    mut observer: LeaderObserver,
    leadership: &Leadership,
) -> Result<(), Failure> {
    let told = async {
        loop {
            let leader = observer.next().await?;
            if leader.is_some_and(|leader| leader.fencing_token == leadership.fencing_token()) {
                return Ok(());
            }
        }
    };
    tokio::select! {
        biased;
        () = leadership.lost() => Ok(()),
        told = told => told,
    }
}
