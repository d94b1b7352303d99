//! [`DistributedAtomicLong::add_once`] and [`CountDownLatch`]: a key counts once, even if several
//! processes count it repeatedly and after lost responses.

use std::ops::Range;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::CuratorFramework;
use zk_curator_recipes::counter::{CountDownLatch, DistributedAtomicLong, Error, Once};

use super::Scenario;
use super::support::calling::Caller;
use super::support::patience::patiently;
use crate::checkers::{BarrierEpochs, CountedOnce, IssuedOnce};
use crate::history::{Answer, Barrier, Name, Operation, Shared};
use crate::{Client, Failure};

const COUNTER: &str = "/counters/once";
const LATCHES: &str = "/latches";
/// The keys that open a latch when all are counted.
const ARRIVALS: [&str; 3] = ["a", "b", "c"];
/// The time in which an open latch lets a client pass after the last fault.
const LAG: Duration = Duration::from_secs(8);
/// The number of earlier rounds that are completed at the end. A run on a real ensemble has
/// unlimited rounds.
const LAST: u32 = 20;

pub(super) const COUNTED: Scenario = Scenario::new(
    "counter_once",
    "DistributedAtomicLong: an addition with an id is applied once",
    &["keys counted", "numbers issued", "responses"],
    |sim| {
        sim.workload(count)
            .checker(CountedOnce)
            .checker(IssuedOnce)
            .operator(["/counters/once/_r_*"])
            .leaves(["/counters", COUNTER, "/counters/once/_o", "/counters/once/_o/**"])
    },
);

pub(super) const LATCH: Scenario = Scenario::new(
    "latch",
    "CountDownLatch: opens for all when every key was counted",
    &["entries", "keys counted", "responses"],
    |sim| {
        sim.workload(arrive)
            .checker(CountedOnce)
            .checker(BarrierEpochs::of(ARRIVALS.len()))
            .operator(["/latches/*/_r_*"])
            .leaves([LATCHES, "/latches/**"])
    },
);

/// Counts keys, and records their numbers.
struct Keys {
    client: Client,
    object: Name,
}

impl Keys {
    fn of(client: &Client, object: &str) -> Self {
        Self { client: client.clone(), object: object.into() }
    }

    fn begin(&self, key: &str) {
        self.client.record(Shared::Counting { object: self.object.clone(), key: key.into() });
    }

    fn counted(&self, key: &str, number: i64) {
        let (object, key) = (self.object.clone(), key.into());
        self.client.record(Shared::Counted { object, key, number });
    }
}

async fn count(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let counter = DistributedAtomicLong::new(&zk, COUNTER);
    let keys = Keys::of(&client, COUNTER);
    let add = async |key: String| {
        keys.begin(&key);
        let added = client.maybe_cancel(counter.add_once(&key, 1)).await;
        match added {
            Some(Ok(Once::Applied(change))) => {
                client.record(Shared::Issued { sequence: COUNTER.into(), number: change.post });
                keys.counted(&key, change.post);
            }
            Some(Ok(Once::Before(change))) => keys.counted(&key, change.post),
            _ => return false,
        }
        true
    };
    let own = |round, nth| format!("c{}-{round}-{nth}", client.number());
    let shared = |round| format!("all-{round}");
    let mut begun = 0..0;
    while let Some(round) = client.next_round() {
        begun = last_of(round);
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            tokio::join!(biased; add(own(round, 0)), add(shared(round)), add(own(round, 1)), add(own(round, 0)));
        } else {
            add(shared(round)).await;
            add(own(round, rng.usize(..2))).await;
        }
    }
    client.faults_are_over().await;
    for round in begun {
        for key in [own(round, 0), own(round, 1), shared(round)] {
            while !add(key.clone()).await {
                sleep(client.moment(Duration::from_millis(100))).await;
            }
        }
    }
    let read = async { counter.get().await.map(Answer::Value) };
    Caller::new(&client, &zk, COUNTER).call(Operation::Get, read, Error::may_have_applied).await;
    Ok(())
}

/// Returns the rounds that are completed at the end: this one, and some before it.
fn last_of(round: u32) -> Range<u32> {
    round.saturating_sub(LAST)..round + 1
}

async fn arrive(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let latch = |round| Latch::of(&client, &zk, round);
    let mut rng = client.rng();
    let mut begun = 0..0;
    while let Some(round) = client.next_round() {
        begun = last_of(round);
        sleep(client.moment(Duration::from_millis(200))).await;
        let (latch, key) = (latch(round), ARRIVALS[rng.usize(..ARRIVALS.len())]);
        latch.count(key).await;
        latch.pass(key, client.moment(Duration::from_secs(1))).await;
    }
    client.faults_are_over().await;
    for latch in begun.map(latch) {
        for key in ARRIVALS {
            while !latch.count(key).await {
                sleep(client.moment(Duration::from_millis(100))).await;
            }
        }
        for key in ARRIVALS {
            // A single attempt may fail by its deadline.
            let passes = async { while !latch.pass(key, LAG).await {} };
            patiently(LAG, passes)
                .await
                .ok_or_else(|| format!("{} does not open", latch.keys.object))?;
        }
        latch.read().await;
    }
    Ok(())
}

/// One latch, with the tools to record its use.
struct Latch {
    keys: Keys,
    caller: Caller,
    latch: CountDownLatch,
}

impl Latch {
    fn of(client: &Client, zk: &CuratorFramework, round: u32) -> Self {
        let path = format!("{LATCHES}/{round}");
        let latch = CountDownLatch::new(zk, path.as_str(), ARRIVALS.len() as u32);
        Self { keys: Keys::of(client, &path), caller: Caller::new(client, zk, &path), latch }
    }

    /// Counts a key, and returns `true` if that is certain.
    async fn count(&self, key: &str) -> bool {
        let (barrier, member) = (self.keys.object.clone(), key.into());
        self.keys.client.record(Barrier::Entering { barrier, member, round: 0 });
        self.keys.begin(key);
        match self.keys.client.maybe_cancel(self.latch.count_down_once(key)).await {
            // The response to the last arrival and to all later ones.
            Some(Ok(0)) => true,
            Some(Ok(missing)) => {
                self.keys.counted(key, arrivals(missing));
                true
            }
            _ => false,
        }
    }

    /// Waits for the latch, at most for this time. Returns `true` if it is open.
    async fn pass(&self, key: &str, most: Duration) -> bool {
        let waited = timeout(most, self.keys.client.maybe_cancel(self.latch.wait())).await;
        let is_open = matches!(waited, Ok(Some(Ok(()))));
        if is_open {
            let (barrier, member) = (self.keys.object.clone(), key.into());
            self.keys.client.record(Barrier::Entered { barrier, member, round: 0 });
        }
        is_open
    }

    async fn read(&self) {
        let read =
            async { self.latch.count().await.map(|missing| Answer::Value(arrivals(missing))) };
        self.caller.call(Operation::Get, read, Error::may_have_applied).await;
    }
}

fn arrivals(missing: u32) -> i64 {
    ARRIVALS.len() as i64 - i64::from(missing)
}
