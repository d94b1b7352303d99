//! What was asked for, and how it stands.

use super::options::Options;
use super::plan::{Client, Setting, WORKLOADS, Workload};
use super::results::{Results, Run};
use super::tables::{Table, advantage, bytes_to_mb, compared, flights, number, ratio};

/// The factor by which something may be missed before it counts as slower: what small machines cannot tell.
const NOISE: f64 = 0.8;

fn workload(name: &str, size: usize) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| (workload.name, workload.size) == (name, size))
}

/// The table of targets. One that is not measured is left out, where not everything was to be run.
pub(super) fn table(results: &Results, options: &Options) -> String {
    let mut table = Table::new(&["asked for", "measured", ""]);
    // By a workload that it is about; all pages have single writes.
    let mut row = |asked: &str, about: &str, measured: Option<(String, bool)>| {
        if !options.page.has(about) || (measured.is_none() && !options.workloads.is_empty()) {
            return;
        }
        let (measured, met) = measured.map_or_else(
            || ("—".to_owned(), "not measured"),
            |(measured, met)| (measured, if met { "met" } else { "**missed**" }),
        );
        table.row(&[asked.to_owned(), measured, met.to_owned()]);
    };
    row("2 ms away: every recipe within 1.1 × of its fewest flights", ANY, few_flights(results));
    for (asked, setting, name, size, least) in RATIOS {
        let measured = workload(name, *size)
            .and_then(|workload| advantage(results, *setting, workload, Client::Java))
            .map(|ratio| (format!("{} ×", number(ratio)), ratio >= *least));
        row(asked, name, measured);
    }
    for (asked, setting, name, size, most) in REQUESTS {
        let requests = results.median(*setting, (name, *size), Client::Rust, |run| run.requests);
        row(asked, name, requests.map(|requests| (number(requests), requests <= *most)));
    }
    row(
        "cache, load of 1,000 nodes: 2 ms away at most three flights longer than near",
        "cache-load",
        load_flights(results),
    );
    let window = |setting| window(results, setting);
    row("queue, take with a window of deletes: 5 ×", "queue-take", window(Setting::Loopback));
    row("the same, 2 ms away", "queue-take", window(Setting::Distant));
    row("client CPU an operation: at most 0.2 × Curator's", ANY, cpu(results));
    row(
        "process start to first result: at most 10 ms more than a plain socket needs",
        "startup",
        startup(results),
    );
    row("embedded server: starts within 10 ms", "embedded-server", embedded_start(results));
    row(
        "embedded server: at most 0.1 × of the memory of Curator's `TestingServer`",
        "embedded-server",
        embedded_memory(results),
    );
    row("nothing slower than Curator or kazoo", ANY, nothing_slower(results));
    table.text()
}

/// A workload that every page has.
const ANY: &str = "raw-set";

/// How many times as fast as Curator.
const RATIOS: &[(&str, Setting, &str, usize, f64)] = &[
    ("mutex without contention: 1.3 × as fast as Curator", Setting::Loopback, "mutex", 1, 1.3),
    ("the same, 2 ms away: 1.6 ×", Setting::Distant, "mutex", 1, 1.6),
    ("the same, 2 ms away, released by drop: 1.6 ×", Setting::Distant, "mutex-drop", 1, 1.6),
    ("hand-over among 64: 1.5 ×", Setting::Loopback, "handover", 64, 1.5),
    ("the same, 2 ms away", Setting::Distant, "handover", 64, 1.5),
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

/// The most requests an operation.
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
    ("cache, a change: with the write, at most 2 requests", Setting::Loopback, "cache-change", 1, 2.01),
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
        "200 caches of 5,000 nodes, new connections and 10 changes: at most 2,600 requests",
        Setting::Loopback,
        "scale-cache-reconnect",
        200,
        2600.0,
    ),
];

/// Several deletes at a time, to Curator's one; and to several threads of Curator, which keep no order.
fn window(results: &Results, setting: Setting) -> Option<(String, bool)> {
    let ours = workload("queue-take-window", 64)?;
    let one = ratio(results, setting, ours, workload("queue-take", 1)?, Client::Java)?;
    let threads = ratio(results, setting, ours, ours, Client::Java).map_or_else(String::new, |ratio| {
        format!("; {} × of Curator's with 64 threads, which keep no order", number(ratio))
    });
    Some((format!("{} ×{threads}", number(one)), one >= 5.0))
}

/// The flights that the distance adds to a load. Near the server, most of the time is work on the nodes.
fn load_flights(results: &Results) -> Option<(String, bool)> {
    let added = |workload| {
        let of = |setting| results.time(setting, workload, Client::Rust).map(|time| time.median);
        Some(of(Setting::Distant)? - of(Setting::Loopback)?)
    };
    let flights = added(workload("cache-load", 1000)?)? / added(workload("raw-set", 1)?)?;
    Some((number(flights), flights <= 1.1 * 3.0))
}

fn few_flights(results: &Results) -> Option<(String, bool)> {
    let mut missed = Vec::new();
    let mut count = 0;
    for workload in compared(results, Setting::Distant) {
        let (Some(least), Some(ours)) = (workload.flights, flights(results, workload, Client::Rust)) else {
            continue;
        };
        count += 1;
        if ours > 1.1 * least {
            missed.push(format!("{}: {} instead of {}", workload.title, number(ours), number(least)));
        }
    }
    let met = count - missed.len();
    (count > 0).then(|| (told(format!("{met} of {count}"), &missed), missed.is_empty()))
}

fn cpu(results: &Results) -> Option<(String, bool)> {
    let mut missed = Vec::new();
    let mut ratios = Vec::new();
    for workload in compared(results, Setting::Loopback) {
        let key = (workload.name, workload.size);
        let of = |client| results.median(Setting::Loopback, key, client, |run| run.cpu_us);
        let (Some(ours), Some(theirs)) = (of(Client::Rust), of(Client::Java)) else { continue };
        ratios.push(ours / theirs);
        if ours > 0.2 * theirs {
            missed.push(format!("{}: {}", workload.title, number(ours / theirs)));
        }
    }
    ratios.sort_by(f64::total_cmp);
    let median = *ratios.get(ratios.len() / 2)?;
    let text = format!("{} × in the middle of {} workloads", number(median), ratios.len());
    Some((told(text, &missed), missed.is_empty()))
}

fn startup(results: &Results) -> Option<(String, bool)> {
    let of = |client| {
        results.median(Setting::Loopback, ("startup", 1), client, |run| Some(run.per_operation_us / 1e3))
    };
    let (ours, socket) = (of(Client::Rust)?, of(Client::Socket)?);
    let theirs =
        of(Client::Java).map_or_else(String::new, |theirs| format!("; Curator {} ms", number(theirs)));
    Some((format!("{} ms, of {} ms{theirs}", number(ours - socket), number(ours)), ours - socket <= 10.0))
}

fn embedded(results: &Results, client: Client, of: fn(&Run) -> Option<f64>) -> Option<f64> {
    results.median(Setting::Loopback, ("embedded-start", 1), client, of)
}

fn embedded_start(results: &Results) -> Option<(String, bool)> {
    let of = |client| embedded(results, client, |run| Some(run.per_operation_us / 1e3));
    let ours = of(Client::Rust)?;
    let theirs = of(Client::Java)
        .map_or_else(String::new, |theirs| format!("; Curator's `TestingServer` {} ms", number(theirs)));
    Some((format!("{} ms, with the start of its process{theirs}", number(ours)), ours <= 10.0))
}

fn embedded_memory(results: &Results) -> Option<(String, bool)> {
    let of = |client| embedded(results, client, |run| run.memory.map(bytes_to_mb));
    let (ours, theirs) = (of(Client::Rust)?, of(Client::Java)?);
    Some((format!("{} MB; {} MB", number(ours), number(theirs)), ours <= 0.1 * theirs))
}

fn nothing_slower(results: &Results) -> Option<(String, bool)> {
    let (mut count, mut slower) = (0, Vec::new());
    for setting in results.settings() {
        for workload in compared(results, setting) {
            for other in [Client::Java, Client::Python] {
                let Some(ratio) = advantage(results, setting, workload, other) else { continue };
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
    let text = format!("{} of {count} comparisons, but for differences below 20 %", count - slower.len());
    (count > 0).then(|| (told(text, &slower), slower.is_empty()))
}

/// What holds, and what does not.
fn told(text: String, missed: &[String]) -> String {
    if missed.is_empty() { text } else { format!("{text}; not: {}", missed.join("; ")) }
}
