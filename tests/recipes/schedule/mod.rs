//! Once per period: a slot runs once, whichever process dies, whatever is lost, and whatever clocks
//! say.

mod claims;
mod faults;
mod retries;
mod runners;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout};
use zk_curator::CuratorFramework;
use zk_curator::retry::RetryForever;
use zk_curator_proto::OpCode;
use zk_curator_recipes::schedule::{Error, OncePer, Schedule, Slot, SlotInfo, SlotState};
use zk_curator_testing::wait::spend;
use zk_curator_testing::{Probe, TestServer};
use zk_curator_tests::connected;

const PATH: &str = "/cron/cleanup";
const MINUTE: Duration = Duration::from_secs(60);
/// The pause before a slot is taken over.
const AFTER: Duration = Duration::from_secs(20);
/// 2026-11-22T13:15:00Z, the time at which servers start.
const START: Duration = Duration::from_secs(1_795_353_300);

/// The runs of each slot by its name: the member and the attempt.
type BySlot = BTreeMap<String, Vec<(String, u32)>>;

#[derive(Debug, Clone, Default)]
struct Runs(Arc<Mutex<BySlot>>);

impl Runs {
    fn note(&self, id: &str, slot: &Slot) {
        let run = (id.to_owned(), slot.attempt());
        self.0.lock().unwrap().entry(slot.name().to_owned()).or_default().push(run);
    }

    fn all(&self) -> BySlot {
        self.0.lock().unwrap().clone()
    }

    /// The minutes past 13:00 of the slots, with the number of their runs.
    fn minutes(&self) -> Vec<(u32, usize)> {
        self.all().iter().map(|(slot, runs)| (minute(slot), runs.len())).collect()
    }
}

fn minute(slot: &str) -> u32 {
    let part = |at| slot[at..at + 2].parse::<u32>().unwrap();
    (part(11) - 13) * 60 + part(14)
}

fn slot(minute: u32) -> String {
    format!("{PATH}/2026-11-22T{:02}:{:02}:00Z", 13 + minute / 60, minute % 60)
}

/// A server whose clock begins at a quarter past one, and members with the same clock.
struct Stage {
    server: TestServer,
    since: Instant,
    runs: Runs,
    members: Mutex<Vec<AbortHandle>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.members.lock().unwrap().iter().for_each(AbortHandle::abort);
    }
}

impl Stage {
    async fn new() -> Self {
        let wall_clock = SystemTime::UNIX_EPOCH + START;
        let server = TestServer::builder().tcp(false).wall_clock(wall_clock).start().await.unwrap();
        Self { server, since: Instant::now(), runs: Runs::default(), members: Mutex::default() }
    }

    /// The stage and a client.
    async fn with_one() -> (Self, CuratorFramework) {
        let stage = Self::new().await;
        let zk = connected(&stage.server).await;
        (stage, zk)
    }

    /// The stage and two clients.
    async fn with_two() -> (Self, CuratorFramework, CuratorFramework) {
        let (stage, zk) = Self::with_one().await;
        let other = connected(&stage.server).await;
        (stage, zk, other)
    }

    /// A schedule of one slot a minute.
    fn every_minute(&self, zk: &CuratorFramework, id: &str) -> OncePer {
        self.every(MINUTE, zk, id)
    }

    fn every(&self, period: Duration, zk: &CuratorFramework, id: &str) -> OncePer {
        let since = self.since;
        let clock = move || SystemTime::UNIX_EPOCH + START + since.elapsed();
        OncePer::new(zk, PATH, Schedule::every(period)).id(id).clock(clock)
    }

    /// A clock that is ahead while the switch is on.
    fn switched_clock(
        &self,
        ahead: Duration,
    ) -> (Arc<AtomicBool>, impl Fn() -> SystemTime + use<>) {
        let (since, is_on) = (self.since, Arc::new(AtomicBool::new(true)));
        let switch = Arc::clone(&is_on);
        let clock = move || {
            let ahead = if is_on.load(Ordering::Relaxed) { ahead } else { Duration::ZERO };
            SystemTime::UNIX_EPOCH + START + since.elapsed() + ahead
        };
        (switch, clock)
    }

    /// Runs a schedule with a body that takes some time.
    fn start(&self, once: OncePer, id: &str, takes: Duration) -> JoinHandle<Result<(), Error>> {
        let (runs, id) = (self.runs.clone(), id.to_owned());
        let member = tokio::spawn(async move {
            let body = |slot: Slot| {
                runs.note(&id, &slot);
                async move {
                    spend(takes).await;
                    Ok::<(), String>(())
                }
            };
            once.run(body).await
        });
        self.members.lock().unwrap().push(member.abort_handle());
        member
    }

    /// A moment, in minutes and seconds past 13:00.
    fn at(&self, minute: u64, second: u64) -> Instant {
        self.since + Duration::from_secs((minute - 15) * 60 + second)
    }

    async fn until(&self, condition: impl FnMut(&Probe) -> bool) -> Probe {
        timeout(MINUTE * 600, self.server.until(condition)).await.unwrap_or_else(|_| {
            panic!("never true\n{}\n{:?}", self.server.probe(), self.runs.all());
        })
    }

    async fn until_done(&self, minute: u32) {
        self.until(|probe| is_done(probe, &slot(minute))).await;
    }
}

fn is_done(probe: &Probe, path: &str) -> bool {
    data(probe, path).contains("\ndone\n")
}

fn data(probe: &Probe, path: &str) -> String {
    probe.data(path).map(|data| String::from_utf8(data.to_vec()).unwrap()).unwrap_or_default()
}

async fn slots(once: &OncePer) -> Vec<(u32, String, u32, SlotState)> {
    let slots = once.slots().await.unwrap().into_iter();
    slots
        .map(|SlotInfo { name, claimed_by, attempt, state, .. }| {
            (minute(&name), claimed_by, attempt, state)
        })
        .collect()
}

fn requests(server: &TestServer) -> u64 {
    let probe = server.probe();
    probe.total_requests() - probe.requests(OpCode::Ping)
}
