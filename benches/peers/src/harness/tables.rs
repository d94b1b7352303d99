//! Tables of results, in Markdown.

use std::fmt::Write;

use super::plan::{Client, Measure, Setting, WORKLOADS, Workload};
use super::results::{Results, Run};
use crate::common::Spread;

/// What nobody has measured.
const NOTHING: &str = "—";
/// A spread of numbers of requests that is not told, in percent.
const LITTLE: f64 = 2.0;

/// A table: the first column to the left, the others to the right.
pub(super) struct Table {
    text: String,
    rows: usize,
}

impl Table {
    pub(super) fn new(columns: &[&str]) -> Self {
        let mut text = format!("| {} |\n|---|", columns.join(" | "));
        for _ in 1..columns.len() {
            text.push_str("---:|");
        }
        text.push('\n');
        Self { text, rows: 0 }
    }

    pub(super) fn row(&mut self, cells: &[String]) {
        self.rows += 1;
        // A string never refuses to be written to.
        let Ok(()) = writeln!(self.text, "| {} |", cells.join(" | ")) else { return };
    }

    /// The table; nothing when it has no rows.
    pub(super) fn text(self) -> String {
        if self.rows == 0 { String::new() } else { self.text }
    }
}

/// Three digits, and no more than one after the point.
pub(super) fn number(value: f64) -> String {
    match value {
        v if v >= 10_000.0 => thousands(v),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), number)
}

fn with_spread(spread: Option<&Spread>) -> String {
    spread.map_or_else(
        || NOTHING.to_owned(),
        |spread| format!("{} ±{:.0} %", number(spread.median), spread.percent),
    )
}

/// A number that is the same on every machine, unless something is wrong: its spread only where there is one.
fn counted(spread: Option<&Spread>) -> String {
    match spread {
        Some(spread) if spread.percent <= LITTLE => number(spread.median),
        other => with_spread(other),
    }
}

pub(super) fn times(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{} ×", number(value)))
}

/// Those of a setting that anybody has run, without scale, starts and servers.
pub(super) fn compared(results: &Results, setting: Setting) -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().filter(move |workload| {
        !workload.is_scale()
            && !matches!(workload.name, "startup" | "embedded-server")
            && results.time(setting, workload, Client::Rust).is_some()
    })
}

/// What a workload of Curator or kazoo is compared with: they have one way to release, and we several.
pub(super) fn counterpart(workload: &Workload) -> Option<&'static Workload> {
    let (name, size) = match workload.name {
        "mutex-drop" => ("mutex", 1),
        name => (name, workload.size),
    };
    WORKLOADS.iter().find(|workload| workload.name == name && workload.size == size)
}

/// How many times as long the other one takes.
pub(super) fn advantage(
    results: &Results,
    setting: Setting,
    workload: &Workload,
    other: Client,
) -> Option<f64> {
    ratio(results, setting, workload, counterpart(workload)?, other)
}

/// How many times as long the other one takes for `theirs` as we for `ours`.
pub(super) fn ratio(
    results: &Results,
    setting: Setting,
    ours: &Workload,
    theirs: &Workload,
    other: Client,
) -> Option<f64> {
    let ours = results.time(setting, ours, Client::Rust)?.median;
    Some(results.time(setting, theirs, other)?.median / ours)
}

/// Microseconds an operation.
pub(super) fn time(results: &Results, setting: Setting) -> String {
    let columns = ["µs an operation", "zk-curator", "Curator", "kazoo", "Curator / ours", "kazoo / ours"];
    let mut table = Table::new(&columns);
    for workload in compared(results, setting) {
        let mut cells = vec![workload.title.to_owned()];
        for client in Client::ALL {
            cells.push(with_spread(results.time(setting, workload, client).as_ref()));
        }
        for client in [Client::Java, Client::Python] {
            cells.push(times(advantage(results, setting, workload, client)));
        }
        table.row(&cells);
    }
    table.text()
}

/// Microseconds on the CPU an operation, near the server, and requests, near and 2 ms away.
pub(super) fn cost(results: &Results) -> String {
    let columns = [
        "",
        "CPU µs: zk-curator",
        "Curator",
        "kazoo",
        "ours / Curator",
        "requests: zk-curator",
        "Curator",
        "kazoo",
        "requests 2 ms away: zk-curator",
        "Curator",
        "kazoo",
    ];
    let mut table = Table::new(&columns);
    for workload in compared(results, Setting::Loopback) {
        let key = (workload.name, workload.size);
        let cpu = Client::ALL.map(|client| results.median(Setting::Loopback, key, client, |run| run.cpu_us));
        let requests = |setting| {
            Client::ALL
                .map(|client| counted(results.spread(setting, key, client, |run| run.requests).as_ref()))
        };
        let mut cells = vec![workload.title.to_owned()];
        cells.extend(cpu.map(cell));
        cells.push(times(cpu[0].zip(cpu[1]).map(|(ours, theirs)| ours / theirs)));
        cells.extend([Setting::Loopback, Setting::Distant].into_iter().flat_map(requests));
        table.row(&cells);
    }
    table.text()
}

/// One request to a distant server that writes, in microseconds.
fn one_request(results: &Results) -> Option<f64> {
    results.best(Setting::Distant, ("raw-set", 1), Client::Rust, |run| run.p50_us)
}

/// How often an operation waits for the network: in the best round, for what else the machine does only adds to it.
pub(super) fn flights(results: &Results, workload: &Workload, client: Client) -> Option<f64> {
    // Where operations follow each other, the median is not disturbed by the few that something has held up.
    let alone = workload.size == 1 || workload.measure == Measure::Latency;
    let of = |run: &Run| run.p50_us.filter(|_| alone).or(Some(run.per_operation_us));
    Some(results.best(Setting::Distant, (workload.name, workload.size), client, of)? / one_request(results)?)
}

/// Flights, and the fewest there can be.
pub(super) fn all_flights(results: &Results) -> String {
    let mut table = Table::new(&["flights", "zk-curator", "Curator", "kazoo", "at least", "to 1.1 × of it"]);
    for workload in compared(results, Setting::Distant) {
        let of = |client| flights(results, workload, client);
        let mut cells = vec![workload.title.to_owned()];
        cells.extend(Client::ALL.map(|client| cell(of(client))));
        cells.push(cell(workload.flights));
        let met = workload.flights.zip(of(Client::Rust)).map(|(least, ours)| ours <= 1.1 * least);
        cells.push(met.map_or("", |met| if met { "met" } else { "**missed**" }).to_owned());
        table.row(&cells);
    }
    table.text()
}

/// The start of clients, and their servers for tests.
pub(super) fn beginnings(results: &Results) -> String {
    let mut table = Table::new(&["", "zk-curator", "Curator", "kazoo", "a plain socket"]);
    let clients = [Client::Rust, Client::Java, Client::Python, Client::Socket];
    let mut row = |title: &str, name: &str, of: &dyn Fn(&Run) -> Option<f64>| {
        let values = clients.map(|client| results.spread(Setting::Loopback, (name, 1), client, of));
        if values.iter().any(Option::is_some) {
            let mut cells = vec![title.to_owned()];
            cells.extend(values.iter().map(|value| with_spread(value.as_ref())));
            table.row(&cells);
        }
    };
    let millis = |run: &Run| Some(run.per_operation_us / 1e3);
    let megabytes = |run: &Run| run.memory.map(bytes_to_mb);
    let rate = |run: &Run| Some(1e6 / run.per_operation_us);
    row("process start to first `getData`, ms", "startup", &millis);
    row("memory of that process, MB", "startup", &megabytes);
    row("process start to an embedded server that has answered, ms", "embedded-start", &millis);
    row("memory of that process, MB", "embedded-start", &megabytes);
    row("another server in the same process, ms", "embedded-again", &|run| run.p50_us.map(|us| us / 1e3));
    row("embedded server, `getData`, 128 in flight, requests/s", "embedded-get", &rate);
    row("embedded server, `setData`, 128 in flight, requests/s", "embedded-set", &rate);
    table.text()
}

/// What grows.
pub(super) fn scale(results: &Results) -> String {
    let columns = ["", "µs an operation", "CPU µs", "requests", "bytes of memory each", "process, MB"];
    let mut table = Table::new(&columns);
    for workload in WORKLOADS.iter().filter(|workload| workload.is_scale()) {
        let key = (workload.name, workload.size);
        let of = |value: fn(&Run) -> Option<f64>| results.median(Setting::Loopback, key, Client::Rust, value);
        let Some(time) = results.time(Setting::Loopback, workload, Client::Rust) else { continue };
        table.row(&[
            workload.title.to_owned(),
            with_spread(Some(&time)),
            cell(of(|run| run.cpu_us)),
            cell(of(|run| run.requests)),
            cell(of(|run| run.bytes_each)),
            cell(of(|run| run.memory.map(bytes_to_mb))),
        ]);
    }
    table.text()
}

#[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
pub(super) fn bytes_to_mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::plan::Case;
    use super::*;

    /// What the server has counted for the first workload in some rounds.
    fn requests(results: &mut Results, setting: Setting, rounds: &[f64]) {
        let workload = &WORKLOADS[0];
        let case = Case { workload, setting, size: workload.size, operations: 1, warmup: 0 };
        for requests in rounds {
            let run = Run::once(Client::Rust, &case, workload.name, Duration::from_micros(100));
            results.push(Run { requests: Some(*requests), cpu_us: Some(7.0), ..run });
        }
    }

    #[test]
    fn requests_are_told_near_and_away_with_a_spread_where_there_is_one() {
        let mut results = Results::default();
        requests(&mut results, Setting::Loopback, &[2.0, 2.04, 2.01]);
        let row = |results: &Results| cost(results).lines().nth(2).unwrap().to_owned();
        let near = "| getData, 1 in flight | 7.00 | — | — | — | 2.01 | — | — |";
        assert_eq!(row(&results), format!("{near} — | — | — |"));
        requests(&mut results, Setting::Distant, &[3.0, 4.0, 5.0]);
        assert_eq!(row(&results), format!("{near} 4.00 ±25 % | — | — |"));
    }
}
