//! [`DistributedDoubleBarrier`]: rounds follow each other without a pause, with exactly the members
//! that they need, or with some too many. A member that was refused, lost its place or was killed
//! comes again.
//!
//! All members end together: after the last fault, one of them creates a node within a round, and
//! every member that has left the round, or waits for another one, then stops.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::barrier::{DistributedDoubleBarrier, RoundPlace};

use super::Scenario;
use super::support::holding::{Attempt, Held};
use crate::checkers::BarrierRounds;
use crate::history::HoldMode;
use crate::{Client, Failure};

const BARRIER: &str = "/barriers/sort";
const MEMBERS: usize = 5;
/// The node that tells the members to stop.
const HOME: &str = "/home";
/// The time for which the node of a departed member may exist: several session timeouts, because a
/// new leader starts them again.
const GRACE: Duration = Duration::from_secs(10);

pub(super) const SCENARIO: Scenario = Scenario::new(
    "double_barrier",
    "DistributedDoubleBarrier: whole rounds, back to back",
    &["acquisitions"],
    |sim| {
        sim.workload(work)
            .checker(BarrierRounds::of(MEMBERS, GRACE))
            .leaves([HOME])
            // Some rounds. The later ones are as these.
            .faults_begin_within(Duration::from_millis(500))
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let clients = usize::try_from(client.clients())?;
    // Exactly enough members for a round, and now and then too many.
    let too_many = usize::from(client.rng().u8(..8) == 0);
    let members = MEMBERS.div_ceil(clients) + too_many;
    let home = CancellationToken::new();
    let members: Vec<_> = (0..members)
        .map(|_| client.spawn(member(client.clone(), zk.clone(), home.clone())))
        .collect();
    home_time(&client, &zk).await;
    home.cancel();
    for member in members {
        member.await;
    }
    Ok(())
}

async fn member(client: Client, zk: CuratorFramework, home: CancellationToken) {
    let barrier =
        DistributedDoubleBarrier::new(&zk, BARRIER, MEMBERS).label(client.who().to_string());
    let mut rng = client.rng();
    // Some members work in a round, some leave immediately.
    let pause = Duration::from_millis([0, 100, 500][rng.usize(..3)]);
    while !home.is_cancelled() {
        sleep(client.moment(pause)).await;
        let attempt = Attempt::begin(&client, BARRIER, HoldMode::Permit);
        let entered = tokio::select! {
            biased;
            () = home.cancelled() => None,
            entered = client.maybe_cancel(barrier.enter()) => entered.and_then(Result::ok),
        };
        let Some(round) = entered else {
            drop(attempt);
            sleep(client.moment(Duration::from_millis(200))).await;
            continue;
        };
        let held = attempt.acquired(round.token());
        let work = async {
            sleep(client.moment(pause)).await;
            if client.no_more_faults() && client.next_round().is_none() {
                say_home_time(&client, &zk).await;
            }
        };
        tokio::select! {
            biased;
            () = round.lost() => held.lost(),
            () = work => leave(&client, &held, round).await,
        }
    }
}

async fn leave(client: &Client, held: &Held<'_>, round: RoundPlace) {
    held.releasing();
    if client.rng().u8(..8) == 0 && !client.no_more_faults() {
        drop(round);
    } else if let Some(Ok(())) = client.maybe_cancel(round.leave()).await {
        held.released();
    }
}

/// Creates the node that tells the members to stop, however long it takes.
async fn say_home_time(client: &Client, zk: &CuratorFramework) {
    loop {
        match zk.create(HOME).await {
            Ok(_) => return,
            Err(error) if error.kind() == ErrorKind::NodeExists => return,
            Err(_) => sleep(client.moment(Duration::from_millis(100))).await,
        }
    }
}

/// Waits until the node exists.
async fn home_time(client: &Client, zk: &CuratorFramework) {
    loop {
        match zk.exists(HOME).watched().await {
            Ok(home) if home.value.is_some() => return,
            Ok(home) => drop(home.watch.await),
            Err(_) => sleep(client.moment(Duration::from_millis(100))).await,
        }
    }
}
