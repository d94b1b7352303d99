//! [`TimedLease`] and [`MultiLease`]: holders by time, with servers whose clocks differ.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator_recipes::lease::{Error, MultiLease, TimedLease, TimedLeaseGuard};

use super::Scenario;
use super::support::holding::{Attempt, Held};
use crate::checkers::Exclusion;
use crate::history::HoldMode;
use crate::{Client, Failure};

const LEASE: &str = "/leases/orders";
/// The parent of several leases, and their number.
const CRAWLERS: &str = "/leases/crawlers";
const HOLDERS: u16 = 2;
/// The largest difference between the clocks of two servers.
const CLOCKS: Duration = Duration::from_millis(1500);
/// The shortest lease; its end is rounded up to a whole second.
const SHORT: Duration = Duration::from_millis(200);
/// The most takes of one round.
const TAKES: usize = 8;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "timed_lease",
    "TimedLease: one holder, even if servers' clocks differ",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(work)
            .checker(Exclusion::mutual().notice(Duration::ZERO))
            .server_clocks_differ(CLOCKS)
            .leaves(["/leases", LEASE, "/leases/orders/lease_holder", "/leases/orders/_i_*"])
    },
);

pub(super) const MULTI: Scenario = Scenario::new(
    "multi_lease",
    "MultiLease: a number of holders, even if servers' clocks differ",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(work_with_several)
            .checker(Exclusion::at_most(HOLDERS.into()).notice(Duration::ZERO))
            .server_clocks_differ(CLOCKS)
            .leaves(["/leases", CRAWLERS, "/leases/crawlers/**"])
    },
);

/// A lease for one, or several of them.
enum Leases {
    One(TimedLease),
    Several(MultiLease),
}

impl Leases {
    async fn try_take(&self, time: Duration) -> Result<Option<TimedLeaseGuard>, Error> {
        match self {
            Self::One(lease) => lease.try_take(time).await,
            Self::Several(leases) => leases.try_take(time).await,
        }
    }

    const fn mode(&self) -> HoldMode {
        match self {
            Self::One(_) => HoldMode::Exclusive,
            Self::Several(_) => HoldMode::Permit,
        }
    }
}

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let lease = TimedLease::new(&zk, LEASE, client.who().to_string()).margin(CLOCKS);
    rounds(&client, &Leases::One(lease)).await;
    Ok(())
}

async fn work_with_several(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let leases = MultiLease::new(&zk, CRAWLERS, HOLDERS, client.who().to_string()).margin(CLOCKS);
    rounds(&client, &Leases::Several(leases)).await;
    Ok(())
}

/// Takes a lease in each round, and uses the resource under it.
async fn rounds(client: &Client, leases: &Leases) {
    while client.next_round().is_some() {
        for _ in 0..TAKES {
            sleep(client.moment(Duration::from_millis(500))).await;
            if round(client, leases).await {
                break;
            }
        }
    }
}

/// Takes a lease, and uses the resource under it. Returns `false` if there is none.
async fn round(client: &Client, leases: &Leases) -> bool {
    let attempt = Attempt::begin(client, "orders", leases.mode());
    let take = leases.try_take(SHORT * client.rng().u32(1..5));
    let Some(Ok(Some(guard))) = client.maybe_cancel(take).await else { return false };
    let held = attempt.acquired(guard.fencing_token());
    use_while_held(client, &held, guard).await;
    true
}

/// Uses the resource, and renews the lease by chance, until the lease is over or lost.
async fn use_while_held(client: &Client, held: &Held<'_>, mut guard: TimedLeaseGuard) {
    let mut rng = client.rng();
    for _ in 0..rng.u8(1..4) {
        let work = async {
            sleep(client.moment(SHORT * 2)).await;
            client.use_resource(held).await;
        };
        tokio::select! {
            biased;
            () = guard.expired() => return held.lost(),
            () = work => {}
        }
        if rng.bool() {
            let left = guard.expires_in();
            let renewed = timeout(left, guard.renew(SHORT * rng.u32(1..5)));
            match client.maybe_cancel(renewed).await {
                Some(Ok(Err(Error::Lost { .. }))) => return held.lost(),
                // The earlier end counts.
                _ if guard.is_expired() => return held.lost(),
                _ => {}
            }
        }
    }
    match rng.u8(..4) {
        0 => {
            guard.expired().await;
            held.lost();
        }
        // It stays taken until its end.
        1 => {
            held.releasing();
            drop(guard);
        }
        _ => {
            held.releasing();
            drop(client.maybe_cancel(guard.release()).await);
        }
    }
}
