//! The workloads, with their sizes and settings.

use std::time::Duration;

use super::matrix::Setting;
use super::options::{Extent, Options};

/// The number that stands for a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Time of the whole, divided by the operations.
    PerOperation,
    /// The median of the latencies.
    Latency,
}

/// A workload with its size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) size: usize,
    /// On the loopback interface.
    pub(super) operations: usize,
    /// The operations with the other settings. 0: the workload is not run there.
    distant: usize,
    fsync: usize,
    pub(super) measure: Measure,
    /// The fewest round trips that the measured operation can take.
    pub(super) round_trips: Option<f64>,
    /// For the tables.
    pub(super) title: &'static str,
}

const fn row(
    (name, size, title): (&'static str, usize, &'static str),
    [operations, distant, fsync]: [usize; 3],
    measure: Measure,
    round_trips: f64,
) -> Workload {
    let round_trips = if round_trips > 0.0 { Some(round_trips) } else { None };
    Workload { name, size, operations, distant, fsync, measure, round_trips, title }
}

use Measure::{Latency, PerOperation};

/// All workloads. The three numbers are the operations on one machine, 2 ms away and with a disk
/// that is waited for; the last is the fewest round trips (0: it does not apply).
pub(super) const WORKLOADS: &[Workload] = &[
    row(("raw-get", 1, "getData, 1 in flight"), [3000, 300, 0], Latency, 1.0),
    row(("raw-get", 16, "getData, 16 in flight"), [10_000, 0, 0], PerOperation, 0.0),
    row(("raw-get", 128, "getData, 128 in flight"), [20_000, 0, 0], PerOperation, 0.0),
    row(("raw-get", 1024, "getData, 1,024 in flight"), [20_000, 0, 0], PerOperation, 0.0),
    row(("raw-set", 1, "setData, 1 in flight"), [2000, 300, 200], Latency, 1.0),
    row(("raw-set", 16, "setData, 16 in flight"), [6000, 0, 1000], PerOperation, 0.0),
    row(("raw-set", 128, "setData, 128 in flight"), [10_000, 0, 4000], PerOperation, 0.0),
    row(("raw-set", 1024, "setData, 1,024 in flight"), [10_000, 0, 4000], PerOperation, 0.0),
    row(("raw-create-delete", 1, "create + delete, 1 in flight"), [1000, 150, 100], Latency, 2.0),
    row(
        ("raw-create-delete", 16, "create + delete, 16 in flight"),
        [3000, 0, 2000],
        PerOperation,
        0.0,
    ),
    row(
        ("raw-create-delete", 128, "create + delete, 128 in flight"),
        [5000, 0, 2000],
        PerOperation,
        0.0,
    ),
    row(
        ("raw-create-delete", 1024, "create + delete, 1,024 in flight"),
        [5000, 0, 2000],
        PerOperation,
        0.0,
    ),
    row(("mutex", 1, "mutex, acquire + release"), [1000, 200, 100], Latency, 2.0),
    row(("mutex-drop", 1, "mutex, acquire, release by drop"), [1000, 200, 200], Latency, 1.0),
    row(
        ("many-locks", 256, "1,000 locks used at random by 256 tasks of one process"),
        [5120, 2560, 1280],
        PerOperation,
        0.0,
    ),
    row(
        ("shared-mutex", 64, "mutex of 64 tasks in each of 2 sessions, ours in batches of 65"),
        [2560, 256, 0],
        PerOperation,
        0.0,
    ),
    row(
        ("shared-mutex-plain", 64, "mutex of 64 tasks in each of 2 sessions, ours without batches"),
        [2560, 256, 0],
        PerOperation,
        0.0,
    ),
    row(("handover", 2, "mutex, hand-over among 2"), [1000, 200, 200], Latency, 1.0),
    row(("handover", 8, "mutex, hand-over among 8"), [1000, 200, 160], Latency, 1.0),
    row(("handover", 64, "mutex, hand-over among 64"), [1280, 320, 320], Latency, 1.0),
    row(
        ("read-write", 8, "read/write lock, 90 % reads, 8 contenders"),
        [800, 160, 160],
        PerOperation,
        0.0,
    ),
    // Consecutive grants: the turn is handed over, and a permit is created and read.
    row(
        ("semaphore", 8, "semaphore, 4 permits, grant to grant among 8"),
        [400, 120, 120],
        PerOperation,
        2.0,
    ),
    row(("semaphore", 1, "semaphore, acquire of a free permit"), [400, 120, 120], Latency, 2.0),
    row(("leader", 8, "leader fail-over, 8 participants"), [100, 40, 40], Latency, 1.0),
    row(("double-barrier", 8, "double barrier, a round of 8"), [60, 20, 20], Latency, 6.0),
    row(("double-barrier", 100, "double barrier, a round of 100"), [5, 4, 4], Latency, 0.0),
    row(("queue-simple-put", 1, "simple queue, put"), [1000, 200, 200], PerOperation, 1.0),
    row(("queue-simple-take", 1, "simple queue, take"), [1000, 200, 200], PerOperation, 1.0),
    row(("queue-put", 128, "queue, put"), [4000, 1000, 1000], PerOperation, 0.0),
    row(("queue-take", 1, "queue, take, a delete each"), [1000, 200, 100], PerOperation, 1.0),
    row(
        ("queue-take-window", 64, "queue, take, 64 deletes at a time"),
        [4000, 2000, 1000],
        PerOperation,
        0.0,
    ),
    row(("queue-priority-put", 128, "priority queue, put"), [4000, 1000, 1000], PerOperation, 0.0),
    row(("queue-priority-take", 1, "priority queue, take"), [1000, 200, 200], PerOperation, 1.0),
    row(
        ("queue-locking-put", 128, "queue with a lock path, put"),
        [4000, 1000, 1000],
        PerOperation,
        0.0,
    ),
    row(
        ("queue-locking-take", 1, "queue with a lock path, take"),
        [500, 150, 150],
        PerOperation,
        2.0,
    ),
    row(
        ("queue-own-locking-take", 1, "our locking queue, take"),
        [500, 150, 150],
        PerOperation,
        2.0,
    ),
    row(("queue-fifo-take", 1, "our FIFO queue, take"), [1000, 200, 200], PerOperation, 1.0),
    // Begin, join, vote, decide, and read the decision.
    row(("two-phase", 3, "two-phase commit, 3 sites"), [100, 30, 30], Latency, 5.0),
    row(("two-phase", 10, "two-phase commit, 10 sites"), [50, 20, 20], Latency, 5.0),
    row(("counter", 1, "counter, increment"), [2000, 300, 200], Latency, 1.0),
    row(("counter", 8, "counter, increments of 8 sessions"), [1600, 320, 0], PerOperation, 0.0),
    row(
        ("counter-tasks", 64, "counter, increments of 64 tasks"),
        [6400, 640, 0],
        PerOperation,
        0.0,
    ),
    row(("cache-load", 1000, "cache, load of 1,000 nodes"), [20, 10, 0], Latency, 0.0),
    row(("cache-load", 10_000, "cache, load of 10,000 nodes"), [4, 0, 0], Latency, 0.0),
    row(("cache-load", 50_000, "cache, load of 50,000 nodes"), [1, 0, 0], Latency, 0.0),
    // The write, and the read of the subscriber, which begins with the event.
    row(("cache-change", 1, "cache, change to subscriber"), [1000, 200, 200], Latency, 2.0),
    row(
        ("cache-reconnect", 50_000, "cache of 50,000 nodes, a new connection"),
        [1, 0, 0],
        Latency,
        0.0,
    ),
    row(
        (
            "cache-reconnect-changed",
            50_000,
            "cache of 50,000 nodes, a new connection and 10 changes",
        ),
        [1, 0, 0],
        Latency,
        0.0,
    ),
    row(
        ("cache-reconnect-many", 200, "200 caches of 1,000 nodes, new connections and 10 changes"),
        [1, 0, 0],
        Latency,
        0.0,
    ),
    row(
        ("fleet-return", 200, "200 sessions, back after an outage of 3 s"),
        [3, 0, 0],
        Latency,
        0.0,
    ),
    row(("cut", 1, "connection cut for 1 s"), [1, 0, 0], Latency, 0.0),
    row(("expiry", 1, "session of 2 s, cut for 6 s"), [1, 0, 0], Latency, 0.0),
    row(
        ("discovery-register", 1, "discovery, register an instance"),
        [500, 150, 100],
        Latency,
        1.0,
    ),
    row(
        ("discovery-query", 1000, "discovery, query of 1,000 instances"),
        [30, 10, 0],
        Latency,
        2.0,
    ),
    row(("discovery-load", 1000, "discovery, cache of 1,000 instances"), [20, 10, 0], Latency, 0.0),
    // The present record is read, then written, and read by the consumer.
    row(
        ("discovery-change", 100, "discovery, change of an instance to its consumer"),
        [500, 150, 100],
        Latency,
        3.0,
    ),
    row(
        ("discovery-pick", 100, "discovery, the instance for a call, of 100"),
        [1_000_000, 0, 0],
        PerOperation,
        0.0,
    ),
    row(("migrate-none", 20, "migrations, none of 20 missing"), [300, 100, 0], Latency, 2.0),
    // The lock, the list and the reads, and the transaction; the lock is released behind it.
    row(("migrate-missing", 3, "migrations, all 3 missing"), [200, 60, 0], Latency, 5.0),
    row(
        ("migrate-fleet", 20, "migrations, 20 processes at the same time, 3 missing"),
        [20, 10, 0],
        Latency,
        0.0,
    ),
    row(("children-with-data", 1000, "1,000 children with their data"), [40, 20, 0], Latency, 2.0),
    row(
        ("typed-get", 100, "typed cache, a value that is decoded"),
        [1_000_000, 0, 0],
        PerOperation,
        0.0,
    ),
    row(("typed-modify", 1, "typed cache, a number and one"), [1000, 200, 0], Latency, 1.0),
    row(("watch-data", 1, "watched data, change to subscriber"), [1000, 200, 0], Latency, 2.0),
    row(("stm", 1, "transaction of 2 reads and 2 writes"), [500, 150, 0], Latency, 2.0),
    row(
        ("stm-contended", 8, "transactions of 8 sessions on one node"),
        [800, 160, 0],
        PerOperation,
        0.0,
    ),
    row(("lease", 1, "timed lease, taken again by its holder"), [300, 100, 0], Latency, 2.0),
    row(("once-per", 2, "once per slot, from its start to the body"), [12, 8, 0], Latency, 1.0),
    row(("partition-join", 1000, "1,000 parts, a member joins 10"), [3, 0, 0], Latency, 0.0),
    row(
        ("partition-leave", 1000, "1,000 parts, the session of one of 11 ends"),
        [3, 0, 0],
        Latency,
        0.0,
    ),
    row(("startup", 1, "process start to first result"), [1, 0, 0], Latency, 0.0),
    row(("embedded-server", 1, "embedded server"), [20, 0, 0], Latency, 0.0),
    row(("scale-waiters", 100, "100 waiters on a lock, hand-over"), [100, 0, 0], Latency, 0.0),
    row(("scale-waiters", 1000, "1,000 waiters on a lock, hand-over"), [500, 0, 0], Latency, 0.0),
    row(
        ("scale-waiters", 10_000, "10,000 waiters on a lock, hand-over"),
        [500, 0, 0],
        Latency,
        0.0,
    ),
    row(("scale-sessions", 10, "10 sessions, getData"), [10_000, 0, 0], PerOperation, 0.0),
    row(("scale-sessions", 100, "100 sessions, getData"), [10_000, 0, 0], PerOperation, 0.0),
    row(("scale-sessions", 1000, "1,000 sessions, getData"), [10_000, 0, 0], PerOperation, 0.0),
    row(("scale-queue", 1000, "1,000 items in the queue, take"), [1000, 0, 0], PerOperation, 0.0),
    row(
        ("scale-queue", 10_000, "10,000 items in the queue, take"),
        [4000, 0, 0],
        PerOperation,
        0.0,
    ),
    row(
        ("scale-queue", 100_000, "100,000 items in the queue, take"),
        [10_000, 0, 0],
        PerOperation,
        0.0,
    ),
    row(
        ("scale-cache", 50_000, "50,000 nodes in a cache, change to subscriber"),
        [500, 0, 0],
        Latency,
        0.0,
    ),
    row(
        ("scale-cache", 1_000_000, "1,000,000 nodes in a cache, change to subscriber"),
        [500, 0, 0],
        Latency,
        0.0,
    ),
    row(
        ("scale-cache-reconnect", 200, "200 caches of 5,000 nodes, new connections and 10 changes"),
        [1, 0, 0],
        Latency,
        0.0,
    ),
    row(
        ("scale-registrations", 1000, "1,000 registrations in a process, update of one"),
        [500, 0, 0],
        Latency,
        0.0,
    ),
    row(("scale-watches", 1000, "1,000 watches, write and event"), [500, 0, 0], Latency, 0.0),
    row(("scale-watches", 100_000, "100,000 watches, write and event"), [500, 0, 0], Latency, 0.0),
];

/// A workload with a setting. Each client runs it once a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) workload: &'static Workload,
    pub(super) setting: Setting,
    pub(super) size: usize,
    pub(super) operations: usize,
    pub(super) warmup: usize,
}

impl Workload {
    pub(super) fn is_scale(&self) -> bool {
        self.name.starts_with("scale-")
    }

    /// Returns the length of the outage, if reads during one are measured.
    pub(super) fn outage(&self) -> Option<Duration> {
        match self.name {
            "cut" => Some(Duration::from_secs(1)),
            "expiry" => Some(3 * SHORT_SESSION),
            _ => None,
        }
    }

    fn is_partition(&self) -> bool {
        self.name.starts_with("partition-")
    }

    fn case(&'static self, setting: Setting, extent: Extent) -> Option<Case> {
        let full = match setting {
            Setting::Loopback => self.operations,
            Setting::Distant => self.distant,
            Setting::Fsync => self.fsync,
        };
        if full == 0 {
            return None;
        }
        let (size, operations) = match extent {
            Extent::Full => (self.size, full),
            Extent::Quick => (self.size, full.div_ceil(10)),
            Extent::Smoke if self.is_scale() => (self.size.min(50), full.min(20)),
            Extent::Smoke if matches!(self.name, "cache-reconnect-many" | "fleet-return") => {
                (self.size.min(10), full.min(2))
            }
            Extent::Smoke if self.is_partition() => (self.size.min(100), 1),
            Extent::Smoke => (self.size.min(1000), full.min(20)),
        };
        // Every contender does the same number of operations.
        let each = match self.name {
            "handover" | "read-write" | "semaphore" | "counter" | "counter-tasks"
            | "stm-contended" => size,
            "shared-mutex" | "shared-mutex-plain" => 2 * size,
            _ => 1,
        };
        let whole = |operations: usize| operations.div_ceil(each) * each;
        let warmup = match extent {
            Extent::Smoke => whole(operations / 10),
            // The virtual machine compiles methods that are called often.
            _ => whole(operations / 2),
        };
        let case = Case { workload: self, setting, size, operations: whole(operations), warmup };
        let is_cold = matches!(self.name, "startup" | "embedded-server")
            || self.is_partition()
            || self.outage().is_some()
            || reconnect(&case).is_some();
        Some(Case { warmup: if is_cold { 0 } else { warmup }, ..case })
    }
}

/// The time for which a fleet is cut off.
const OUTAGE: Duration = Duration::from_secs(3);

/// Clients that lose their connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reconnect {
    /// Each has one connection.
    pub(super) clients: usize,
    /// The nodes of the tree of which each client has a cache. 0: without a cache; every client
    /// reads when its session is back.
    pub(super) nodes: usize,
    /// The number of nodes that the harness writes while they are away.
    pub(super) changes: usize,
    /// The least time between the cut and the next connection.
    pub(super) outage: Duration,
}

/// The clients and the outage of a case, if its connections are cut.
pub(super) fn reconnect(case: &Case) -> Option<Reconnect> {
    let (clients, nodes, changes) = match case.workload.name {
        "cache-reconnect" => (1, case.size, 0),
        "cache-reconnect-changed" => (1, case.size, 10),
        "cache-reconnect-many" => (case.size, 1000, 10),
        "scale-cache-reconnect" => (case.size, 5000, 10),
        "fleet-return" => (case.size, 0, 0),
        _ => return None,
    };
    let outage = if nodes == 0 { OUTAGE } else { Duration::ZERO };
    Some(Reconnect { clients, nodes, changes, outage })
}

/// Long enough that pings hardly count.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
/// A session that ends in a longer outage.
const SHORT_SESSION: Duration = Duration::from_secs(2);

/// The session timeout of a case.
pub(super) fn session_timeout(case: &Case) -> Duration {
    if case.workload.name == "expiry" { SHORT_SESSION } else { SESSION_TIMEOUT }
}

/// The cases that warm up a server, so that the first client has no disadvantage.
pub(super) fn warming() -> impl Iterator<Item = Case> {
    let many = |workload: &&Workload| workload.size == 128 && workload.name.starts_with("raw-");
    WORKLOADS
        .iter()
        .filter(many)
        .filter_map(|workload| workload.case(Setting::Loopback, Extent::Full))
}

/// The cases to run with a setting.
pub(super) fn cases(options: &Options, setting: Setting) -> Vec<Case> {
    let wanted = |workload: &Workload| {
        (options.extent == Extent::Smoke || options.page.has(workload.name))
            && (options.scale || !workload.is_scale())
            && (options.workloads.is_empty()
                || options.workloads.iter().any(|text| workload.name.contains(text.as_str())))
    };
    let wanted = WORKLOADS.iter().filter(|workload| wanted(workload));
    let mut cases: Vec<Case> =
        wanted.filter_map(|workload| workload.case(setting, options.extent)).collect();
    if options.extent == Extent::Smoke {
        // One size of each workload is enough to check the clients, and a few to check the relay.
        cases.dedup_by_key(|case| case.workload.name);
        let near = setting == Setting::Loopback;
        cases.retain(|case| {
            near || matches!(case.workload.name, "raw-get" | "handover" | "queue-take")
        });
    }
    cases
}
