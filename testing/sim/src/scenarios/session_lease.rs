//! [`SessionLease`]: clients hold an exclusive node of a lease, next to the session of their
//! framework. A lease must end for its client before it ends for the servers, all its nodes must
//! end together, and a lease that is over must stay over.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{CuratorFramework, FencingToken};
use zk_curator_recipes::lease::SessionLease;

use super::Scenario;
use super::support::holding::{Attempt, Held};
use crate::checkers::Exclusion;
use crate::history::HoldMode;
use crate::{Client, Failure};

/// The node that all leases compete for.
const HELD: &str = "/leases/held";
/// The parent of the other nodes of leases.
const PAIRS: &str = "/leases/pairs";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "session_lease",
    "SessionLease: it ends for its client before the servers, and with all its nodes",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(work).checker(Exclusion::mutual()).operator([HELD]).nodes(["/leases", PAIRS])
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(300))).await;
        let ttl = client.session_timeout() * client.rng().u32(1..4) / 2;
        let started = client.maybe_cancel(SessionLease::builder(&zk).ttl(ttl).open()).await;
        let Some(Ok(lease)) = started else { continue };
        client.note(format!("lease {}", lease.session_id()));
        let (client, zk) = (client.clone(), zk.clone());
        Box::pin(Visit { client, zk, lease, was_over: AtomicBool::new(false) }.run()).await?;
    }
    Ok(())
}

struct Visit {
    client: Client,
    /// The framework next to the lease.
    zk: CuratorFramework,
    lease: SessionLease,
    /// `true` if the lease was found to be over.
    was_over: AtomicBool,
}

impl Visit {
    async fn run(self) -> Result<(), Failure> {
        let client = &self.client;
        let attempt = Attempt::begin(client, HELD, HoldMode::Exclusive);
        let create = self.lease.create(HELD).data(client.who().to_string()).idempotent();
        let Some(Ok(created)) = client.maybe_cancel(create.into_future()).await else {
            return Ok(());
        };
        let held = attempt.acquired(FencingToken::new(created.stat.czxid));
        let number = client.unique();
        let pair = ["a", "b"].map(|end| format!("{PAIRS}/{number}.{end}"));
        let worked = tokio::select! {
            biased;
            () = self.lease.lost() => false,
            worked = self.work(&held, &pair) => worked?,
        };
        if !worked || self.is_over()? {
            held.lost();
            return self.stays_over(&pair).await;
        }
        held.releasing();
        if client.rng().u8(..3) == 0 {
            return Ok(());
        }
        // A call that is dropped before its first poll revokes nothing.
        let Some(revoked) = client.maybe_cancel(self.lease.revoke()).await else { return Ok(()) };
        if revoked.is_ok()
            && let Some(left @ 1..) = self.present(&pair).await
        {
            return Err(format!("{left} nodes are left of a revoked lease").into());
        }
        self.stays_over(&pair).await
    }

    /// Creates two more nodes, and uses the resource. Returns `false` if the lease was over.
    async fn work(&self, held: &Held<'_>, pair: &[String; 2]) -> Result<bool, Failure> {
        let mut are_created = true;
        for path in pair {
            are_created &= self.lease.create(path).idempotent().await.is_ok();
        }
        let mut rng = self.client.rng();
        for _ in 0..rng.u8(1..4) {
            sleep(self.client.moment(self.lease.ttl() / 2)).await;
            if self.is_over()? {
                return Ok(false);
            }
            self.client.use_resource(held).await;
            if are_created && self.present(pair).await == Some(1) {
                return Err("a lease has lost one node of two".into());
            }
        }
        Ok(true)
    }

    /// Returns the number of these nodes that exist, in one state of the servers. `None` if it
    /// could not be read.
    async fn present(&self, pair: &[String; 2]) -> Option<usize> {
        let reads = self.zk.multi_read().in_one_request().linearizable();
        let reads = pair.iter().fold(reads, |reads, path| reads.get_data(path));
        Some(reads.await.ok()?.iter().filter(|read| read.is_ok()).count())
    }

    fn is_over(&self) -> Result<bool, Failure> {
        let is_over = self.lease.is_over();
        if self.was_over.swap(is_over, Ordering::Relaxed) && !is_over {
            return Err("a lease that was over lives again".into());
        }
        Ok(is_over)
    }

    /// Checks that the lease is over, and that no other session continues it.
    async fn stays_over(&self, pair: &[String; 2]) -> Result<(), Failure> {
        for _ in 0..3 {
            if !self.is_over()? || !self.lease.remaining().is_zero() {
                return Err("a lease lives on after its end".into());
            }
            // Until it is closed, the session may live on. No other one may take its place.
            if let Ok(created) = self.lease.create(&pair[0]).await
                && created.stat.ephemeral_owner != self.lease.session_id().get()
            {
                return Err("a lease continues in another session".into());
            }
            sleep(self.client.moment(self.client.session_timeout())).await;
        }
        Ok(())
    }
}
