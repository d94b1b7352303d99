//! [`InterProcessSemaphore`]: clients acquire one permit or several at a time, with a constant limit,
//! with a changing one, and in the layout of kazoo.

use tokio::time::sleep;
use zk_curator_recipes::lock::{InterProcessSemaphore, Permit};
use zk_curator_recipes::shared::{Error, SharedCount};

use super::Scenario;
use super::support::calling::{Caller, started};
use super::support::holding::{Attempt, Held, Pauses, acquire, ends, last_visit};
use crate::checkers::Exclusion;
use crate::history::{Answer, HoldMode, Operation};
use crate::{Client, Failure};

const SEMAPHORE: &str = "/locks/printers";
const LEASES: u32 = 3;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "semaphore",
    "InterProcessSemaphore: three permits",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(print)
            .operator(["/locks/printers/leases/*"])
            .checker(Exclusion::at_most(LEASES as usize))
            .sequences(["/locks/printers/locks", "/locks/printers/leases"])
    },
);

/// The path of the shared limit.
const LIMIT: &str = "/limits/printers";

pub(super) const LIMITED: Scenario = Scenario::new(
    "semaphore_shared_count",
    "InterProcessSemaphore: its limit is a SharedCount that changes",
    &["acquisitions", "responses", "uses"],
    |sim| {
        sim.workload(print_limited)
            .operator(["/locks/printers/leases/*", "/limits/printers/_r_*"])
            .checker(Exclusion::at_most(LEASES as usize).limited_by(LIMIT))
            .sequences(["/locks/printers/locks", "/locks/printers/leases"])
            .leaves(["/limits", LIMIT])
    },
);

/// The lock of kazoo's semaphore.
const KAZOO_LOCK: &str = "/locks/printers-__lock__";

pub(super) const KAZOO: Scenario = Scenario::new(
    "semaphore_kazoo",
    "InterProcessSemaphore: three permits in the layout of kazoo",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(print_with_kazoo)
            .operator(["/locks/printers/*"])
            .checker(Exclusion::at_most(LEASES as usize))
            .sequences([KAZOO_LOCK])
            .leaves(["/locks", SEMAPHORE, KAZOO_LOCK])
    },
);

async fn print(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    print_at(client, InterProcessSemaphore::new(&zk, SEMAPHORE, LEASES)).await
}

async fn print_with_kazoo(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    print_at(client, InterProcessSemaphore::with_kazoo(&zk, SEMAPHORE, LEASES)).await
}

async fn print_at(client: Client, semaphore: InterProcessSemaphore) -> Result<(), Failure> {
    let mut rng = client.rng();
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        visit(&client, &semaphore, [1, 1, 1, 2, 3][rng.usize(..5)]).await;
    }
    visit_at_last(&client, &semaphore, LEASES).await
}

async fn print_limited(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let start = || SharedCount::open(&zk, LIMIT, LEASES as i32);
    let Some(limit) = started(&client, start).await else { return Ok(()) };
    let caller = Caller::new(&client, &zk, LIMIT);
    let semaphore = InterProcessSemaphore::with_shared_count(&zk, SEMAPHORE, LIMIT);
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        if rng.u8(..3) == 0 {
            let new = rng.i32(1..=LEASES as i32);
            let set = async { limit.set(new).await.map(|()| Answer::Done) };
            caller.call(Operation::Set(new.into()), set, Error::may_have_applied).await;
        }
        // Several permits would wait until the limit allows them.
        visit(&client, &semaphore, 1).await;
    }
    visit_at_last(&client, &semaphore, 1).await
}

async fn visit(client: &Client, semaphore: &InterProcessSemaphore, count: u32) {
    let attempts = begin(client, count);
    let some = semaphore.acquire_many(count);
    let leases = Box::pin(acquire(client, some, semaphore.try_acquire_many(count))).await;
    hold(client, attempts, leases).await;
}

async fn visit_at_last(
    client: &Client,
    semaphore: &InterProcessSemaphore,
    count: u32,
) -> Result<(), Failure> {
    let attempts = begin(client, count);
    let leases = last_visit(client, semaphore.acquire_many(count)).await?;
    hold(client, attempts, leases).await;
    Ok(())
}

fn begin(client: &Client, count: u32) -> Vec<Attempt<'_>> {
    (0..count).map(|_| Attempt::begin(client, SEMAPHORE, HoldMode::Permit)).collect()
}

/// Uses the acquired permits, if there are any, and releases them.
async fn hold(client: &Client, attempts: Vec<Attempt<'_>>, leases: Option<Vec<Permit>>) {
    let Some(leases) = leases else { return };
    let held = attempts.into_iter().zip(&leases);
    let held: Vec<Held<'_>> =
        held.map(|(attempt, lease)| attempt.acquired(lease.fencing_token())).collect();
    let work = async {
        for held in &held {
            client.use_resource(held).await;
        }
        sleep(client.moment(client.session_timeout() / 10)).await;
    };
    tokio::select! {
        biased;
        // All permits belong to one session.
        () = leases[0].lost() => return held.iter().for_each(Held::lost),
        () = work => {}
    }
    held.iter().for_each(Held::releasing);
    for (held, lease) in held.iter().zip(leases) {
        if ends(client, lease.release()).await {
            held.released();
        }
    }
}
