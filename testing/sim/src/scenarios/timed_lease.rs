//! [`TimedLease`]: holders by time, with servers whose clocks differ.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator_recipes::lease::{Error, TimedLease, TimedLeaseGuard};

use super::Scenario;
use crate::checkers::Exclusion;
use crate::history::{Hold, Mode, Name};
use crate::{Client, Failure};

const LEASE: &str = "/leases/orders";
/// The largest difference between the clocks of two servers.
const CLOCKS: Duration = Duration::from_millis(1500);
/// The shortest lease; its end is rounded up to a whole second.
const SHORT: Duration = Duration::from_millis(200);
/// The most takes of one round.
const TAKES: usize = 8;

pub(super) const SCENARIO: Scenario =
    Scenario::new("timed_lease", "TimedLease: one holder, even if servers' clocks differ", |sim| {
        sim.workload(work)
            .checker(Exclusion::mutual().notice(Duration::ZERO))
            .server_clocks_differ(CLOCKS)
            .leaves(["/leases", LEASE, "/leases/orders/lease_holder", "/leases/orders/_i_*"])
    });

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let lease = TimedLease::new(&zk, LEASE, client.who().to_string()).margin(CLOCKS);
    let holder = Holder { client: client.clone(), lease, resource: Name::from("orders") };
    while client.next_round().is_some() {
        for _ in 0..TAKES {
            sleep(client.moment(Duration::from_millis(500))).await;
            if holder.round().await {
                break;
            }
        }
    }
    Ok(())
}

struct Holder {
    client: Client,
    lease: TimedLease,
    resource: Name,
}

impl Holder {
    /// Takes the lease, and uses the resource under it. Returns `false` if it is held.
    async fn round(&self) -> bool {
        let client = &self.client;
        let (hold, mode) = (client.unique(), Mode::Exclusive);
        client.record(Hold::Acquiring { resource: self.resource.clone(), mode, hold });
        let take = self.lease.try_take(SHORT * client.rng().u32(1..5));
        let Some(Ok(Some(guard))) = client.maybe_cancel(take).await else {
            client.record(Hold::Missed { hold });
            return false;
        };
        let (resource, token) = (self.resource.clone(), guard.fencing_token().get());
        client.record(Hold::Acquired { resource, mode, hold, token });
        if self.use_while_held(guard, hold).await.is_err() {
            client.record(Hold::Lost { hold });
        }
        true
    }

    /// Uses the resource, and renews the lease by chance. Fails when the lease is over or lost.
    async fn use_while_held(&self, mut guard: TimedLeaseGuard, hold: u64) -> Result<(), ()> {
        let client = &self.client;
        let mut rng = client.rng();
        for _ in 0..rng.u8(1..4) {
            let work = async {
                sleep(client.moment(SHORT * 2)).await;
                let token = guard.fencing_token();
                client.use_resource(&self.resource, Mode::Exclusive, hold, token).await;
            };
            tokio::select! {
                biased;
                () = guard.expired() => return Err(()),
                () = work => {}
            }
            if rng.bool() {
                let left = guard.expires_in();
                let renewed = timeout(left, guard.renew(SHORT * rng.u32(1..5)));
                match client.maybe_cancel(renewed).await {
                    Some(Ok(Err(Error::Lost { .. }))) => return Err(()),
                    // The earlier end counts.
                    _ if guard.is_expired() => return Err(()),
                    _ => {}
                }
            }
        }
        match rng.u8(..4) {
            0 => {
                guard.expired().await;
                return Err(());
            }
            // It stays taken until its end.
            1 => {
                client.record(Hold::Releasing { hold });
                drop(guard);
            }
            _ => {
                client.record(Hold::Releasing { hold });
                drop(client.maybe_cancel(guard.release()).await);
            }
        }
        Ok(())
    }
}
