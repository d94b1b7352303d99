//! The common part of the workloads of elections.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use zk_curator::{ConnectionStateErrorPolicy, CuratorFramework, FencingToken};
use zk_curator_recipes::leader::{LeaderObserver, Leadership};

use crate::history::{Hold, Leader, Mode, Name};
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

/// Records that a client begins to wait for leadership.
pub(in crate::scenarios) fn acquiring(client: &Client) -> u64 {
    let hold = client.unique();
    client.record(Hold::Acquiring { resource: ORDERS.into(), mode: Mode::Leader, hold });
    hold
}

/// A recorded term of a leader. If it is dropped before it has [resigned](Self::resigns), the
/// leadership was lost.
pub(in crate::scenarios) struct Term<'a> {
    client: &'a Client,
    hold: u64,
    token: FencingToken,
    lasts: bool,
}

impl<'a> Term<'a> {
    pub(in crate::scenarios) fn begin(
        client: &'a Client,
        hold: u64,
        leadership: &Leadership,
    ) -> Self {
        let token = leadership.fencing_token();
        let event = Hold::Acquired {
            resource: ORDERS.into(),
            mode: Mode::Leader,
            hold,
            token: token.get(),
        };
        client.record(event);
        Self { client, hold, token, lasts: true }
    }

    /// Does the work of a leader for a while.
    pub(in crate::scenarios) async fn work(&self) {
        let orders = Name::from(ORDERS);
        for _ in 0..self.client.rng().u8(..4) {
            sleep(self.client.moment(Duration::from_millis(20))).await;
            self.client.use_resource(&orders, Mode::Leader, self.hold, self.token).await;
        }
    }

    /// Records that the client no longer believes to lead.
    pub(in crate::scenarios) fn resigns(mut self) {
        self.lasts = false;
        self.client.record(Hold::Releasing { hold: self.hold });
    }
}

impl Drop for Term<'_> {
    fn drop(&mut self) {
        if self.lasts {
            self.client.record(Hold::Lost { hold: self.hold });
        }
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
