//! The targets, and whether they are met.

use super::figures::{Figure, Figures, Value};
use super::matrix::{Client, Setting};
use super::options::Page;
use super::plan::{WORKLOADS, Workload};
use super::tables::{Table, advantage, compared, megabytes, number, ratio};

/// A speed above this part of the other client's does not count as slower: small machines cannot
/// measure the difference.
const NOISE: f64 = 0.8;

fn workload(name: &str, size: usize) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| (workload.name, workload.size) == (name, size))
}

/// The table of targets of a page.
#[expect(clippy::too_many_lines, reason = "one story")]
pub(super) fn table(figures: &Figures, page: Page) -> String {
    let mut table = Table::new(&["target", "measured", ""]);
    // `about` is a workload of the target; all pages have single writes.
    let mut row = |target: &str, about: &str, measured: Option<(String, bool)>| {
        if !page.has(about) {
            return;
        }
        let (measured, met) = measured.map_or_else(
            || ("—".to_owned(), "not measured"),
            |(measured, met)| (measured, if met { "met" } else { "**missed**" }),
        );
        table.row(&[target.to_owned(), measured, met.to_owned()]);
    };
    row(
        "2 ms away: every recipe within 1.1 × of its fewest round trips",
        ANY,
        few_round_trips(figures),
    );
    for (target, setting, name, size, least) in RATIOS {
        let measured = workload(name, *size)
            .and_then(|workload| advantage(figures, *setting, workload, Client::Java))
            .map(|ratio| (format!("{} ×", number(ratio)), ratio >= *least));
        row(target, name, measured);
    }
    for (target, setting, name, size, most) in REQUESTS {
        let requests = figures
            .of(*setting, (name, *size), Client::Rust)
            .and_then(|figure| Some(figure.requests?.median));
        row(target, name, requests.map(|requests| (number(requests), requests <= *most)));
    }
    for (target, setting, name, size, most) in TIMES {
        let key = (*name, *size);
        let time = figures.of(*setting, key, Client::Rust).and_then(|figure| figure.time);
        row(
            target,
            name,
            time.map(|time| (format!("{} µs", number(time.median)), time.median <= *most)),
        );
    }
    for (target, (name, size), counted, most) in NUMBERS {
        let numbers = figures.of(Setting::Loopback, (name, *size), Client::Rust);
        let value = numbers.and_then(|figure| figure.numbers.get(*counted));
        row(target, name, value.map(|value| (number(value.median), value.median <= *most)));
    }
    row(
        "cache, load of 1,000 nodes: 2 ms away at most three round trips longer than near",
        "cache-load",
        load_round_trips(figures),
    );
    let window = |setting| window(figures, setting);
    row("queue, take with a window of deletes: 5 ×", "queue-take", window(Setting::Loopback));
    row("the same, 2 ms away", "queue-take", window(Setting::Distant));
    row("client CPU an operation: at most 0.2 × Curator's", ANY, cpu(figures));
    row(
        "process start to first result: at most 10 ms more than a plain socket needs",
        "startup",
        startup(figures),
    );
    row("embedded server: starts within 10 ms", "embedded-server", embedded_start(figures));
    row(
        "embedded server: at most 0.1 × of the memory of Curator's `TestingServer`",
        "embedded-server",
        embedded_memory(figures),
    );
    row("nothing slower than Curator or kazoo", ANY, nothing_slower(figures));
    table.text()
}

/// A workload of every page.
const ANY: &str = "raw-set";

/// The least speeds, as multiples of Curator's.
const RATIOS: &[(&str, Setting, &str, usize, f64)] = &[
    ("mutex without contention: 1.3 × as fast as Curator", Setting::Loopback, "mutex", 1, 1.3),
    ("the same, 2 ms away: 1.6 ×", Setting::Distant, "mutex", 1, 1.6),
    ("the same, 2 ms away, released by drop: 1.6 ×", Setting::Distant, "mutex-drop", 1, 1.6),
    ("hand-over among 64: 1.5 ×", Setting::Loopback, "handover", 64, 1.5),
    ("the same, 2 ms away", Setting::Distant, "handover", 64, 1.5),
    (
        "lock of 2 × 64 tasks, in batches, 2 ms away: 10 ×",
        Setting::Distant,
        "shared-mutex",
        64,
        10.0,
    ),
    ("queue, take with single deletes: 2 ×", Setting::Loopback, "queue-take", 1, 2.0),
    ("the same, 2 ms away", Setting::Distant, "queue-take", 1, 2.0),
    ("`getData`, 128 in flight: 1.2 × the throughput", Setting::Loopback, "raw-get", 128, 1.2),
    ("`setData`, 128 in flight: 1.2 ×", Setting::Loopback, "raw-set", 128, 1.2),
    ("create and delete, 128 in flight: 1.2 ×", Setting::Loopback, "raw-create-delete", 128, 1.2),
    ("counter, one writer: 1.9 × Curator's rate", Setting::Loopback, "counter", 1, 1.9),
    ("the same, 2 ms away", Setting::Distant, "counter", 1, 1.9),
    ("counter, 64 tasks of one process: 20 ×", Setting::Loopback, "counter-tasks", 64, 20.0),
    ("the same, 2 ms away", Setting::Distant, "counter-tasks", 64, 20.0),
];

/// The largest numbers of requests an operation.
const REQUESTS: &[(&str, Setting, &str, usize, f64)] = &[
    ("counter: at most one request an increment", Setting::Loopback, "counter", 1, 1.01),
    ("counter, 8 sessions: at most 3 requests an increment", Setting::Loopback, "counter", 8, 3.0),
    ("the same, 2 ms away", Setting::Distant, "counter", 8, 3.0),
    (
        "cache, load of 50,000 nodes: at most N/400 + 4 requests",
        Setting::Loopback,
        "cache-load",
        50_000,
        129.0,
    ),
    (
        "cache, a change: with the write, at most 2 requests",
        Setting::Loopback,
        "cache-change",
        1,
        2.01,
    ),
    (
        "cache of 50,000 nodes, a new connection without changes: at most 1 request",
        Setting::Loopback,
        "cache-reconnect",
        50_000,
        1.0,
    ),
    (
        "the same with 10 changes: at most 110 requests",
        Setting::Loopback,
        "cache-reconnect-changed",
        50_000,
        110.0,
    ),
    (
        "discovery, query of 1,000 instances: at most 3 requests",
        Setting::Loopback,
        "discovery-query",
        1000,
        3.0,
    ),
    (
        "discovery, cache of 1,000 instances: at most 5 requests",
        Setting::Loopback,
        "discovery-load",
        1000,
        5.0,
    ),
    (
        "200 caches of 5,000 nodes, new connections and 10 changes: at most 2,600 requests",
        Setting::Loopback,
        "scale-cache-reconnect",
        200,
        2600.0,
    ),
    ("migrations, none missing: at most 2 requests", Setting::Loopback, "migrate-none", 20, 2.02),
    (
        "migrations, 20 processes at the same time, 3 missing: at most 80 requests of all",
        Setting::Loopback,
        "migrate-fleet",
        20,
        80.0,
    ),
    (
        "1,000 children with their data: at most 4 requests",
        Setting::Loopback,
        "children-with-data",
        1000,
        4.02,
    ),
    ("transaction of 2 reads and 2 writes: at most 2 requests", Setting::Loopback, "stm", 1, 2.02),
    ("timed lease, taken again: at most 3 requests", Setting::Loopback, "lease", 1, 3.02),
    (
        "once per slot, 2 processes: at most one request of each",
        Setting::Loopback,
        "once-per",
        2,
        2.02,
    ),
];

/// The longest times of an operation, in microseconds.
const TIMES: &[(&str, Setting, &str, usize, f64)] = &[
    (
        "typed cache, a value that is decoded: at most 0.2 µs",
        Setting::Loopback,
        "typed-get",
        100,
        0.2,
    ),
    ("watched data, a change: at most 200 µs", Setting::Loopback, "watch-data", 1, 200.0),
];

/// The largest numbers of a workload, near the server.
const NUMBERS: &[(&str, (&str, usize), &str, f64)] = &[
    (
        "transactions of 8 sessions on one node: at most 3 attempts on average",
        ("stm-contended", 8),
        "attempts, mean",
        3.0,
    ),
    (
        "the same: at most 20 attempts for 99 of 100",
        ("stm-contended", 8),
        "attempts, 99th percentile",
        20.0,
    ),
    (
        "1,000 parts, a member joins 10: at most 110 parts move",
        ("partition-join", 1000),
        "parts that moved",
        110.0,
    ),
    (
        "the same: parts that stay are not disturbed",
        ("partition-join", 1000),
        "parts that stayed and were disturbed",
        0.0,
    ),
];

/// Several deletes at a time, to Curator's one; and to several threads of Curator, which keep no
/// order.
fn window(figures: &Figures, setting: Setting) -> Option<(String, bool)> {
    let ours = workload("queue-take-window", 64)?;
    let one = ratio(figures, setting, ours, workload("queue-take", 1)?, Client::Java)?;
    let threads = ratio(figures, setting, ours, ours, Client::Java)
        .map_or_else(String::new, |ratio| {
            format!("; {} × of Curator's with 64 threads, which keep no order", number(ratio))
        });
    Some((format!("{} ×{threads}", number(one)), one >= 5.0))
}

/// The round trips that the distance adds to a load. Near the server, most of the time is work on
/// the nodes.
fn load_round_trips(figures: &Figures) -> Option<(String, bool)> {
    let added = |workload| {
        let of = |setting| figures.time(setting, workload, Client::Rust).map(|time| time.median);
        Some(of(Setting::Distant)? - of(Setting::Loopback)?)
    };
    let round_trips = added(workload("cache-load", 1000)?)? / added(workload("raw-set", 1)?)?;
    Some((number(round_trips), round_trips <= 1.1 * 3.0))
}

fn few_round_trips(figures: &Figures) -> Option<(String, bool)> {
    let mut missed = Vec::new();
    let mut count = 0;
    for workload in compared(figures, Setting::Distant) {
        let (Some(least), Some(ours)) =
            (workload.round_trips, figures.round_trips(workload, Client::Rust))
        else {
            continue;
        };
        count += 1;
        if ours > 1.1 * least {
            missed.push(format!(
                "{}: {} instead of {}",
                workload.title,
                number(ours),
                number(least)
            ));
        }
    }
    let met = count - missed.len();
    (count > 0).then(|| (with_missed(format!("{met} of {count}"), &missed), missed.is_empty()))
}

fn cpu(figures: &Figures) -> Option<(String, bool)> {
    let mut ratios = Vec::new();
    for workload in compared(figures, Setting::Loopback) {
        let key = (workload.name, workload.size);
        let of = |client| Some(figures.of(Setting::Loopback, key, client)?.cpu?.median);
        let (Some(ours), Some(theirs)) = (of(Client::Rust), of(Client::Java)) else { continue };
        ratios.push(ours / theirs);
    }
    ratios.sort_by(f64::total_cmp);
    let median = *ratios.get(ratios.len() / 2)?;
    let missed = ratios.iter().filter(|ratio| **ratio > 0.2).count();
    let all = ratios.len();
    let text = format!("median {} ×; more than 0.2 × in {missed} of {all}", number(median));
    Some((text, missed == 0))
}

fn startup(figures: &Figures) -> Option<(String, bool)> {
    let of =
        |client| Some(figures.of(Setting::Loopback, ("startup", 1), client)?.time?.median / 1e3);
    let (ours, socket) = (of(Client::Rust)?, of(Client::Socket)?);
    let theirs = of(Client::Java)
        .map_or_else(String::new, |theirs| format!("; Curator {} ms", number(theirs)));
    Some((
        format!("{} ms, of {} ms{theirs}", number(ours - socket), number(ours)),
        ours - socket <= 10.0,
    ))
}

fn embedded(figures: &Figures, client: Client, of: fn(&Figure) -> Option<Value>) -> Option<f64> {
    let figure = figures.of(Setting::Loopback, ("embedded-start", 1), client)?;
    Some(of(figure)?.median)
}

fn embedded_start(figures: &Figures) -> Option<(String, bool)> {
    let of = |client| Some(embedded(figures, client, |figure| figure.time)? / 1e3);
    let ours = of(Client::Rust)?;
    let theirs = of(Client::Java).map_or_else(String::new, |theirs| {
        format!("; Curator's `TestingServer` {} ms", number(theirs))
    });
    Some((format!("{} ms, with the start of its process{theirs}", number(ours)), ours <= 10.0))
}

fn embedded_memory(figures: &Figures) -> Option<(String, bool)> {
    let of = |client| embedded(figures, client, |figure| figure.memory.map(megabytes));
    let (ours, theirs) = (of(Client::Rust)?, of(Client::Java)?);
    Some((format!("{} MB; {} MB", number(ours), number(theirs)), ours <= 0.1 * theirs))
}

fn nothing_slower(figures: &Figures) -> Option<(String, bool)> {
    let (mut count, mut slower) = (0, Vec::new());
    for setting in figures.settings() {
        for workload in compared(figures, setting) {
            for other in [Client::Java, Client::Python] {
                let Some(ratio) = advantage(figures, setting, workload, other) else { continue };
                count += 1;
                if ratio < NOISE {
                    let other = other.title();
                    slower.push(format!(
                        "{}, {}: {} × of {other}",
                        setting.name(),
                        workload.title,
                        number(ratio)
                    ));
                }
            }
        }
    }
    let text =
        format!("{} of {count} comparisons, differences below 20 % aside", count - slower.len());
    (count > 0).then(|| (with_missed(text, &slower), slower.is_empty()))
}

/// The text, and what misses the target.
fn with_missed(text: String, missed: &[String]) -> String {
    if missed.is_empty() { text } else { format!("{text}; missed by {}", missed.join("; ")) }
}
