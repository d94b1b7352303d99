//! What is run: clients, settings, workloads and their sizes.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::options::{Extent, Options};

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Client {
    Rust,
    Java,
    Python,
    /// A plain socket of the harness: what nobody can be faster than.
    Socket,
}

impl Client {
    pub(super) const ALL: [Self; 3] = [Self::Rust, Self::Java, Self::Python];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Java => "java",
            Self::Python => "python",
            Self::Socket => "socket",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Rust => "zk-curator",
            Self::Java => "Curator",
            Self::Python => "kazoo",
            Self::Socket => "a plain socket",
        }
    }
}

impl FromStr for Client {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|client| client.name() == text);
        found.ok_or_else(|| format!("there is no client {text}"))
    }
}

/// Between clients and server, and below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Setting {
    /// The same machine; the server does not wait for its disk.
    Loopback,
    /// The same machine; every write waits for the disk.
    Fsync,
    /// Every packet is 1 ms on its way, in each direction; the server does not wait for its disk.
    Distant,
}

impl Setting {
    pub(super) const ALL: [Self; 3] = [Self::Loopback, Self::Distant, Self::Fsync];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Fsync => "fsync",
            Self::Distant => "distant",
        }
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|setting| setting.name() == text);
        found.ok_or_else(|| format!("there is no setting {text}"))
    }
}

/// Which number is the one of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Time of the whole, divided by the operations.
    PerOperation,
    /// The median of the latencies.
    Latency,
}

/// A workload, as it is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) size: usize,
    /// On the loopback interface.
    pub(super) operations: usize,
    /// With each setting; 0 is not at all.
    distant: usize,
    fsync: usize,
    pub(super) measure: Measure,
    /// How often the network has to be waited for, at least, for what is measured.
    pub(super) flights: Option<f64>,
    /// For the tables.
    pub(super) title: &'static str,
}

const fn row(
    (name, size, title): (&'static str, usize, &'static str),
    [operations, distant, fsync]: [usize; 3],
    measure: Measure,
    flights: f64,
) -> Workload {
    let flights = if flights > 0.0 { Some(flights) } else { None };
    Workload { name, size, operations, distant, fsync, measure, flights, title }
}

use Measure::{Latency, PerOperation};

/// Everything. Operations with each setting, and flights at least (0: it does not apply).
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
    row(("raw-create-delete", 16, "create + delete, 16 in flight"), [3000, 0, 2000], PerOperation, 0.0),
    row(("raw-create-delete", 128, "create + delete, 128 in flight"), [5000, 0, 2000], PerOperation, 0.0),
    row(("raw-create-delete", 1024, "create + delete, 1,024 in flight"), [5000, 0, 2000], PerOperation, 0.0),
    row(("mutex", 1, "mutex, acquire + release"), [1000, 200, 100], Latency, 2.0),
    row(("mutex-drop", 1, "mutex, acquire, release by drop"), [1000, 200, 200], Latency, 1.0),
    row(("handover", 2, "mutex, hand-over among 2"), [1000, 200, 200], Latency, 1.0),
    row(("handover", 8, "mutex, hand-over among 8"), [1000, 200, 160], Latency, 1.0),
    row(("handover", 64, "mutex, hand-over among 64"), [1280, 320, 320], Latency, 1.0),
    row(("read-write", 8, "read/write lock, 90 % reads, 8 contenders"), [800, 160, 160], PerOperation, 0.0),
    // Grants follow each other: the turn is given on, and a lease is created and looked at.
    row(("semaphore", 8, "semaphore, 4 leases, grant to grant among 8"), [400, 120, 120], PerOperation, 2.0),
    row(("semaphore", 1, "semaphore, acquire of a free lease"), [400, 120, 120], Latency, 2.0),
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
    row(("queue-locking-put", 128, "queue with a lock path, put"), [4000, 1000, 1000], PerOperation, 0.0),
    row(("queue-locking-take", 1, "queue with a lock path, take"), [500, 150, 150], PerOperation, 2.0),
    row(("queue-own-locking-take", 1, "our locking queue, take"), [500, 150, 150], PerOperation, 2.0),
    row(("queue-fifo-take", 1, "our FIFO queue, take"), [1000, 200, 200], PerOperation, 1.0),
    // Begin, join, vote, decide, and read the decision.
    row(("two-phase", 3, "two-phase commit, 3 sites"), [100, 30, 30], Latency, 5.0),
    row(("two-phase", 10, "two-phase commit, 10 sites"), [50, 20, 20], Latency, 5.0),
    row(("counter", 1, "counter, increment"), [2000, 300, 200], Latency, 1.0),
    row(("counter", 8, "counter, increments of 8 sessions"), [1600, 320, 0], PerOperation, 0.0),
    row(("counter-tasks", 64, "counter, increments of 64 tasks"), [6400, 640, 0], PerOperation, 0.0),
    row(("cache-load", 1000, "cache, load of 1,000 nodes"), [20, 10, 0], Latency, 0.0),
    row(("cache-load", 10_000, "cache, load of 10,000 nodes"), [4, 0, 0], Latency, 0.0),
    row(("cache-load", 50_000, "cache, load of 50,000 nodes"), [1, 0, 0], Latency, 0.0),
    // The write, and the read of the subscriber, which begins with the event.
    row(("cache-change", 1, "cache, change to subscriber"), [1000, 200, 200], Latency, 2.0),
    row(("cache-reconnect", 50_000, "cache of 50,000 nodes, a new connection"), [1, 0, 0], Latency, 0.0),
    row(
        ("cache-reconnect-changed", 50_000, "cache of 50,000 nodes, a new connection and 10 changes"),
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
    row(("startup", 1, "process start to first result"), [1, 0, 0], Latency, 0.0),
    row(("embedded-server", 1, "embedded server"), [20, 0, 0], Latency, 0.0),
    row(("scale-waiters", 100, "100 waiters on a lock, hand-over"), [100, 0, 0], Latency, 0.0),
    row(("scale-waiters", 1000, "1,000 waiters on a lock, hand-over"), [500, 0, 0], Latency, 0.0),
    row(("scale-waiters", 10_000, "10,000 waiters on a lock, hand-over"), [500, 0, 0], Latency, 0.0),
    row(("scale-sessions", 10, "10 sessions, getData"), [10_000, 0, 0], PerOperation, 0.0),
    row(("scale-sessions", 100, "100 sessions, getData"), [10_000, 0, 0], PerOperation, 0.0),
    row(("scale-sessions", 1000, "1,000 sessions, getData"), [10_000, 0, 0], PerOperation, 0.0),
    row(("scale-queue", 1000, "1,000 items in the queue, take"), [1000, 0, 0], PerOperation, 0.0),
    row(("scale-queue", 10_000, "10,000 items in the queue, take"), [4000, 0, 0], PerOperation, 0.0),
    row(("scale-queue", 100_000, "100,000 items in the queue, take"), [10_000, 0, 0], PerOperation, 0.0),
    row(("scale-cache", 50_000, "50,000 nodes in a cache, change to subscriber"), [500, 0, 0], Latency, 0.0),
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
    row(("scale-watches", 1000, "1,000 watches, write and event"), [500, 0, 0], Latency, 0.0),
    row(("scale-watches", 100_000, "100,000 watches, write and event"), [500, 0, 0], Latency, 0.0),
];

/// A workload with a setting: what each client runs once a round.
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
            Extent::Smoke if self.name == "cache-reconnect-many" => (self.size.min(10), full),
            Extent::Smoke => (self.size.min(1000), full.min(20)),
        };
        // Everybody contends as often.
        let each =
            if matches!(self.name, "handover" | "read-write" | "semaphore" | "counter" | "counter-tasks") {
                size
            } else {
                1
            };
        let whole = |operations: usize| operations.div_ceil(each) * each;
        let warmup = match extent {
            Extent::Smoke => whole(operations / 10),
            // The virtual machine compiles what is called often.
            _ => whole(operations / 2),
        };
        let case = Case { workload: self, setting, size, operations: whole(operations), warmup };
        let is_cold = matches!(self.name, "startup" | "embedded-server") || reconnect(&case).is_some();
        Some(Case { warmup: if is_cold { 0 } else { warmup }, ..case })
    }
}

/// Clients that lose their connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reconnect {
    /// Each has one connection, and a cache of the tree.
    pub(super) clients: usize,
    pub(super) nodes: usize,
    /// The number of nodes that the harness writes while they are away.
    pub(super) changes: usize,
}

/// How the connections are cut, in the workloads in which they are.
pub(super) fn reconnect(case: &Case) -> Option<Reconnect> {
    let (clients, nodes, changes) = match case.workload.name {
        "cache-reconnect" => (1, case.size, 0),
        "cache-reconnect-changed" => (1, case.size, 10),
        "cache-reconnect-many" => (case.size, 1000, 10),
        "scale-cache-reconnect" => (case.size, 5000, 10),
        _ => return None,
    };
    Some(Reconnect { clients, nodes, changes })
}

/// What a server is warmed up with, so that whoever comes first is not at a disadvantage.
pub(super) fn warming() -> impl Iterator<Item = Case> {
    let many = |workload: &&Workload| workload.size == 128 && workload.name.starts_with("raw-");
    WORKLOADS.iter().filter(many).filter_map(|workload| workload.case(Setting::Loopback, Extent::Full))
}

/// What is to be run with a setting.
pub(super) fn cases(options: &Options, setting: Setting) -> Vec<Case> {
    let wanted = |workload: &Workload| {
        (options.extent == Extent::Smoke || options.page.has(workload.name))
            && (options.scale || !workload.is_scale())
            && (options.workloads.is_empty()
                || options.workloads.iter().any(|text| workload.name.contains(text.as_str())))
    };
    let wanted = WORKLOADS.iter().filter(|workload| wanted(workload));
    let mut cases: Vec<Case> = wanted.filter_map(|workload| workload.case(setting, options.extent)).collect();
    if options.extent == Extent::Smoke {
        // One size of each shows whether the results are right, and a few whether the relay is.
        cases.dedup_by_key(|case| case.workload.name);
        let near = setting == Setting::Loopback;
        cases.retain(|case| near || matches!(case.workload.name, "raw-get" | "handover" | "queue-take"));
    }
    cases
}
