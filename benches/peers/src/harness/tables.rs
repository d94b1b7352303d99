//! Tables of figures, in Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::figures::{Figure, Figures, Value};
use super::matrix::{Client, Setting};
use super::plan::{WORKLOADS, Workload};

/// A cell without a measurement.
const NOTHING: &str = "—";
/// Spreads of numbers of requests up to this are not shown, in percent.
const LITTLE: f64 = 2.0;

/// A table: the first column is aligned to the left, the others to the right.
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

/// Three digits, and at most one after the point.
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

/// A ratio. Small ones have three digits after the point, and more if these are all zero.
pub(super) fn share(value: f64) -> String {
    if value < 0.1 {
        let mut texts = (3..10).map(|digits| format!("{value:.digits$}"));
        let is_shown = |text: &String| text.contains(|digit: char| ('1'..='9').contains(&digit));
        texts.find(is_shown).unwrap_or_else(|| format!("{value:.3}"))
    } else {
        number(value)
    }
}

pub(super) fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), number)
}

fn ratio_cell(ratio: Option<(f64, Option<f64>)>) -> String {
    ratio.map_or_else(|| NOTHING.to_owned(), |(ratio, _)| share(ratio))
}

fn with_spread(value: Option<Value>) -> String {
    match value {
        Some(Value { median, percent: Some(percent) }) => {
            format!("{} ±{percent:.0} %", number(median))
        }
        Some(Value { median, percent: None }) => number(median),
        None => NOTHING.to_owned(),
    }
}

/// A number that is the same on every machine, unless something is wrong: its spread only where
/// there is one.
fn counted(value: Option<Value>) -> String {
    match value {
        Some(Value { median, percent: Some(percent) }) if percent <= LITTLE => number(median),
        other => with_spread(other),
    }
}

/// As [`counted`], without digits after the point where there are none.
fn whole(value: Option<Value>) -> String {
    match value {
        Some(Value { median, percent: Some(percent) })
            if percent <= LITTLE && median.fract() == 0.0 =>
        {
            thousands(median)
        }
        other => counted(other),
    }
}

/// The measured workloads of a setting, except those with a table of their own.
pub(super) fn compared(
    figures: &Figures,
    setting: Setting,
) -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().filter(move |workload| {
        !workload.is_scale()
            && workload.outage().is_none()
            && !matches!(workload.name, "startup" | "embedded-server" | "fleet-return")
            && figures.time(setting, workload, Client::Rust).is_some()
    })
}

/// The workload of Curator or kazoo that ours is compared with: they have one way to release, and
/// we have two.
pub(super) fn counterpart(workload: &Workload) -> Option<&'static Workload> {
    let (name, size) = match workload.name {
        "mutex-drop" => ("mutex", 1),
        name => (name, workload.size),
    };
    WORKLOADS.iter().find(|workload| workload.name == name && workload.size == size)
}

/// Our time divided by the other client's, with the relative error: the spreads of both, added as
/// independent ones.
pub(super) fn relative(
    figures: &Figures,
    setting: Setting,
    workload: &Workload,
    other: Client,
) -> Option<(f64, Option<f64>)> {
    let ours = figures.time(setting, workload, Client::Rust)?;
    quotient(ours, figures.time(setting, counterpart(workload)?, other)?)
}

pub(super) fn quotient(ours: Value, theirs: Value) -> Option<(f64, Option<f64>)> {
    let error = ours.percent.zip(theirs.percent).map(|(ours, theirs)| ours.hypot(theirs) / 100.0);
    (theirs.median > 0.0).then(|| (ours.median / theirs.median, error))
}

/// Our speed, as a multiple of the other client's.
pub(super) fn advantage(
    figures: &Figures,
    setting: Setting,
    workload: &Workload,
    other: Client,
) -> Option<f64> {
    ratio(figures, setting, workload, counterpart(workload)?, other)
}

/// The other client's time for `theirs`, divided by ours for `ours`.
pub(super) fn ratio(
    figures: &Figures,
    setting: Setting,
    ours: &Workload,
    theirs: &Workload,
    other: Client,
) -> Option<f64> {
    let ours = figures.time(setting, ours, Client::Rust)?.median;
    Some(figures.time(setting, theirs, other)?.median / ours)
}

/// Microseconds an operation.
pub(super) fn time(figures: &Figures, setting: Setting) -> String {
    let columns = [
        "µs an operation",
        "zk-curator",
        "Curator",
        "kazoo",
        "ours, Curator = 1",
        "ours, kazoo = 1",
    ];
    let mut table = Table::new(&columns);
    for workload in compared(figures, setting) {
        let mut cells = vec![figures.title(setting, workload)];
        for client in Client::FRAMEWORKS {
            cells.push(with_spread(figures.time(setting, workload, client)));
        }
        for client in [Client::Java, Client::Python] {
            cells.push(ratio_cell(relative(figures, setting, workload, client)));
        }
        table.row(&cells);
    }
    table.text()
}

/// Microseconds on the CPU an operation, near the server.
pub(super) fn cpu(figures: &Figures) -> String {
    let columns = ["CPU µs an operation", "zk-curator", "Curator", "kazoo", "ours, Curator = 1"];
    let mut table = Table::new(&columns);
    for workload in compared(figures, Setting::Loopback) {
        let key = (workload.name, workload.size);
        let cpu = Client::FRAMEWORKS
            .map(|client| figures.of(Setting::Loopback, key, client).and_then(|figure| figure.cpu));
        let mut cells = vec![figures.title(Setting::Loopback, workload)];
        cells.extend(cpu.map(with_spread));
        let relative = cpu[0].zip(cpu[1]).and_then(|(ours, theirs)| quotient(ours, theirs));
        cells.push(ratio_cell(relative));
        table.row(&cells);
    }
    table.text()
}

/// Requests an operation, near the server and 2 ms away.
pub(super) fn requests(figures: &Figures) -> String {
    let columns = [
        "requests an operation",
        "zk-curator",
        "Curator",
        "kazoo",
        "2 ms away: zk-curator",
        "Curator",
        "kazoo",
    ];
    let mut table = Table::new(&columns);
    for workload in compared(figures, Setting::Loopback) {
        let key = (workload.name, workload.size);
        let requests = |setting| {
            Client::FRAMEWORKS.map(|client| {
                counted(figures.of(setting, key, client).and_then(|figure| figure.requests))
            })
        };
        let mut cells = vec![figures.title(Setting::Loopback, workload)];
        cells.extend([Setting::Loopback, Setting::Distant].into_iter().flat_map(requests));
        table.row(&cells);
    }
    table.text()
}

/// Round trips, and the fewest that the protocol allows.
pub(super) fn all_round_trips(figures: &Figures) -> String {
    let columns =
        ["round trips", "zk-curator", "Curator", "kazoo", "fewest possible", "within 1.1 × of it"];
    let mut table = Table::new(&columns);
    for workload in compared(figures, Setting::Distant) {
        let of = |client| figures.round_trips(workload, client);
        let Some(ours) = of(Client::Rust) else { continue };
        let mut cells = vec![figures.title(Setting::Distant, workload)];
        cells.extend(Client::FRAMEWORKS.map(|client| cell(of(client))));
        cells.push(cell(workload.round_trips));
        let met = workload.round_trips.map(|least| ours <= 1.1 * least);
        cells.push(met.map_or("", |met| if met { "met" } else { "**missed**" }).to_owned());
        table.row(&cells);
    }
    table.text()
}

/// Takes one value of a figure.
type Of = fn(&Figure) -> Option<Value>;

/// Sessions that come back after an outage.
pub(super) fn fleet(figures: &Figures) -> String {
    let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == "fleet-return") else {
        return String::new();
    };
    let title = figures.title(Setting::Loopback, workload);
    let columns = [&*title, "zk-curator", "Curator", "ours, Curator = 1"];
    let mut table = Table::new(&columns);
    let rows: [(&str, Of); 4] = [
        ("until the last session has read, ms", |figure| {
            figure.time.map(|time| time.map(|us| us / 1e3))
        }),
        ("packets that the server received", |figure| figure.requests),
        ("CPU of the client's process from the cut on, ms", |figure| {
            figure.cpu.map(|cpu| cpu.map(|us| us / 1e3))
        }),
        ("memory of that process, MB", |figure| figure.memory.map(megabytes)),
    ];
    for (name, of) in rows {
        let values = [Client::Rust, Client::Java].map(|client| {
            let key = (workload.name, workload.size);
            figures.of(Setting::Loopback, key, client).and_then(of)
        });
        let [Some(ours), Some(theirs)] = values else { continue };
        table.row(&[
            name.to_owned(),
            with_spread(Some(ours)),
            with_spread(Some(theirs)),
            ratio_cell(quotient(ours, theirs)),
        ]);
    }
    table.text()
}

/// The start of clients, and their servers for tests.
pub(super) fn starts(figures: &Figures) -> String {
    let mut table = Table::new(&["", "zk-curator", "Curator", "kazoo", "a plain socket"]);
    let clients = [Client::Rust, Client::Java, Client::Python, Client::Socket];
    let mut row = |title: &str, name: &str, of: &dyn Fn(&Figure) -> Option<Value>| {
        let values =
            clients.map(|client| figures.of(Setting::Loopback, (name, 1), client).and_then(of));
        if values.iter().any(Option::is_some) {
            let mut cells = vec![title.to_owned()];
            cells.extend(values.map(with_spread));
            table.row(&cells);
        }
    };
    let millis = |figure: &Figure| figure.time.map(|time| time.map(|us| us / 1e3));
    let memory = |figure: &Figure| figure.memory.map(megabytes);
    let rate = |figure: &Figure| figure.time.map(|time| time.map(|us| 1e6 / us));
    row("process start to first `getData`, ms", "startup", &millis);
    row("memory of that process, MB", "startup", &memory);
    row("process start to an embedded server that has answered, ms", "embedded-start", &millis);
    row("memory of that process, MB", "embedded-start", &memory);
    row("another server in the same process, ms", "embedded-again", &millis);
    row("embedded server, `getData`, 128 in flight, requests/s", "embedded-get", &rate);
    row("embedded server, `setData`, 128 in flight, requests/s", "embedded-set", &rate);
    table.text()
}

/// The numbers that workloads count themselves.
pub(super) fn numbers(figures: &Figures) -> String {
    let mut table = Table::new(&["", "zk-curator", "Curator", "kazoo", "2 ms away: zk-curator"]);
    for workload in compared(figures, Setting::Loopback) {
        let key = (workload.name, workload.size);
        let of = |setting, client| figures.of(setting, key, client).map(|figure| &figure.numbers);
        let Some(ours) = of(Setting::Loopback, Client::Rust) else { continue };
        for name in ours.keys() {
            let number = |setting, client| {
                with_spread(of(setting, client).and_then(|numbers| numbers.get(name).copied()))
            };
            let mut cells = vec![format!("{}: {name}", figures.title(Setting::Loopback, workload))];
            cells.extend(Client::FRAMEWORKS.map(|client| number(Setting::Loopback, client)));
            cells.push(number(Setting::Distant, Client::Rust));
            table.row(&cells);
        }
    }
    table.text()
}

/// Workloads that grow.
pub(super) fn scale(figures: &Figures) -> String {
    let columns =
        ["", "µs an operation", "CPU µs", "requests", "bytes of memory each", "process, MB"];
    let mut table = Table::new(&columns);
    for workload in WORKLOADS.iter().filter(|workload| workload.is_scale()) {
        let key = (workload.name, workload.size);
        let Some(figure) = figures.of(Setting::Loopback, key, Client::Rust) else { continue };
        let median = |value: Option<Value>| cell(value.map(|value| value.median));
        table.row(&[
            figures.title(Setting::Loopback, workload),
            with_spread(figure.time),
            median(figure.cpu),
            median(figure.requests),
            median(figure.bytes_each),
            median(figure.memory.map(megabytes)),
        ]);
    }
    table.text()
}

/// The workloads that a Rust client of another author has as well, without outages.
fn shared_with_rust(
    figures: &Figures,
    setting: Setting,
) -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().filter(move |workload| {
        let key = (workload.name, workload.size);
        workload.outage().is_none()
            && Client::RUST_CLIENTS.iter().any(|client| figures.of(setting, key, *client).is_some())
    })
}

/// The name of a column of Rust clients, its setting, and its values.
type OfRust = (&'static str, Setting, Of, fn(Option<Value>) -> String);

/// All that is measured of Rust clients, a table each, with our value divided by the least of the
/// others.
pub(super) fn rust_clients(figures: &Figures) -> String {
    let kinds: [OfRust; 7] = [
        ("µs an operation, on one machine", Setting::Loopback, |figure| figure.time, with_spread),
        ("µs an operation, 2 ms away", Setting::Distant, |figure| figure.time, with_spread),
        (
            "µs an operation, waiting for the disk",
            Setting::Fsync,
            |figure| figure.time,
            with_spread,
        ),
        ("CPU µs an operation", Setting::Loopback, |figure| figure.cpu, with_spread),
        ("requests an operation", Setting::Loopback, |figure| figure.requests, counted),
        (
            "memory of the process, MB",
            Setting::Loopback,
            |figure| figure.memory.map(megabytes),
            with_spread,
        ),
        (
            "bytes of memory of each session or watch",
            Setting::Loopback,
            |figure| figure.bytes_each,
            with_spread,
        ),
    ];
    let tables = kinds.map(|(title, setting, of, text)| {
        let mut columns = vec![title, Client::Rust.title()];
        columns.extend(Client::RUST_CLIENTS.map(Client::title));
        columns.push("ours, least of them = 1");
        let mut table = Table::new(&columns);
        for workload in shared_with_rust(figures, setting) {
            let key = (workload.name, workload.size);
            let value = |client| figures.of(setting, key, client).and_then(of);
            let (ours, theirs) = (value(Client::Rust), Client::RUST_CLIENTS.map(value));
            let least = theirs.iter().flatten().min_by(|a, b| a.median.total_cmp(&b.median));
            let Some(least) = least else { continue };
            let mut cells = vec![figures.title(setting, workload), text(ours)];
            cells.extend(theirs.map(text));
            cells.push(ratio_cell(ours.and_then(|ours| quotient(ours, *least))));
            table.row(&cells);
        }
        table.text()
    });
    tables.into_iter().filter(|table| !table.is_empty()).collect::<Vec<_>>().join("\n")
}

/// An outage, and the end of a session, with Rust clients.
pub(super) fn outages(figures: &Figures) -> String {
    let clients = [Client::Rust].into_iter().chain(Client::RUST_CLIENTS);
    let mut columns = vec![""];
    columns.extend(clients.clone().map(Client::title));
    let mut table = Table::new(&columns);
    for workload in WORKLOADS.iter().filter(|workload| workload.outage().is_some()) {
        let of = |client| figures.of(Setting::Loopback, (workload.name, workload.size), client);
        let all: Vec<_> = clients.clone().map(of).collect();
        let names: BTreeSet<_> =
            all.iter().flatten().flat_map(|figure| figure.numbers.keys()).collect();
        for name in names {
            let number = |figure: &Option<&Figure>| {
                whole(figure.and_then(|figure| figure.numbers.get(name).copied()))
            };
            let title = figures.title(Setting::Loopback, workload);
            let mut cells = vec![format!("{title}: {name}")];
            cells.extend(all.iter().map(number));
            table.row(&cells);
        }
        let cpu = |figure: &Option<&Figure>| {
            with_spread(figure.and_then(|figure| figure.cpu).map(|cpu| cpu.map(|us| us / 1e3)))
        };
        if all.iter().flatten().next().is_some() {
            let mut cells = vec![format!("{}: CPU of the process, ms", workload.title)];
            cells.extend(all.iter().map(cpu));
            table.row(&cells);
        }
    }
    table.text()
}

pub(super) fn megabytes(bytes: Value) -> Value {
    bytes.map(|bytes| bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn requests_of(setting: Setting, median: f64, percent: f64) -> Figure {
        Figure {
            setting,
            workload: WORKLOADS[0].name.to_owned(),
            size: WORKLOADS[0].size,
            client: Client::Rust,
            run: 0,
            time: Some(Value { median: 100.0, percent: Some(3.0) }),
            cpu: Some(Value { median: 7.0, percent: None }),
            requests: Some(Value { median, percent: Some(percent) }),
            round_trips: None,
            memory: None,
            bytes_each: None,
            numbers: BTreeMap::new(),
        }
    }

    #[test]
    fn requests_are_shown_near_and_away_with_their_spread() {
        let row = |figures| requests(&Figures::with(figures)).lines().nth(2).unwrap().to_owned();
        let near = requests_of(Setting::Loopback, 2.01, 1.0);
        assert_eq!(row(vec![near.clone()]), "| getData, 1 in flight | 2.01 | — | — | — | — | — |");
        let away = requests_of(Setting::Distant, 4.0, 25.0);
        let both = "| getData, 1 in flight | 2.01 | — | — | 4.00 ±25 % | — | — |";
        assert_eq!(row(vec![near, away]), both);
    }

    #[test]
    fn rust_clients_are_compared_with_the_least_of_them() {
        let ours = requests_of(Setting::Loopback, 2.0, 1.0);
        assert_eq!(rust_clients(&Figures::with(vec![ours.clone()])), "");
        let theirs = |client, median| Figure {
            client,
            time: Some(Value { median, percent: Some(1.0) }),
            ..ours.clone()
        };
        let slow = theirs(Client::ZookeeperClient, 400.0);
        let fast = theirs(Client::TokioZookeeper, 50.0);
        let table = rust_clients(&Figures::with(vec![ours.clone(), slow, fast]));
        let row = "| getData, 1 in flight | 100 ±3 % | 400 ±1 % | — | 50.0 ±1 % | 2.00 |";
        assert_eq!(table.lines().nth(2).unwrap(), row);
    }

    #[test]
    fn outages_show_what_each_rust_client_counts() {
        let value = |median| Value { median, percent: Some(0.0) };
        let of = |client, name: &str, median| Figure {
            workload: "cut".to_owned(),
            size: 1,
            client,
            numbers: BTreeMap::from([(name.to_owned(), value(median))]),
            ..requests_of(Setting::Loopback, 2.0, 1.0)
        };
        let ours = of(Client::Rust, "reads that failed", 1200.0);
        let theirs = of(Client::ZookeeperAsync, "ms until a read succeeds", 7.5);
        let figures = Figures::with(vec![ours, theirs]);
        let table = outages(&figures);
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(
            rows[..2],
            [
                "| connection cut for 1 s: ms until a read succeeds | — | — | 7.50 | — |",
                "| connection cut for 1 s: reads that failed | 1,200 | — | — | — |",
            ]
        );
        // Tables of frameworks have no outages.
        assert_eq!(numbers(&figures), "");
    }

    #[test]
    fn a_small_ratio_is_not_shown_as_zero() {
        let texts = [0.45, 0.0123, 0.0012, 0.00041, 0.0].map(share);
        assert_eq!(texts, ["0.45", "0.012", "0.001", "0.0004", "0.000"]);
    }

    #[test]
    fn a_ratio_has_the_error_of_both_sides() {
        let value = |median, percent| Value { median, percent };
        let (ratio, error) = quotient(value(50.0, Some(3.0)), value(100.0, Some(4.0))).unwrap();
        assert!((ratio - 0.5).abs() < 1e-9 && (error.unwrap() - 0.05).abs() < 1e-9);
        assert_eq!(quotient(value(50.0, None), value(100.0, Some(4.0))), Some((0.5, None)));
        assert_eq!(quotient(value(50.0, None), value(0.0, None)), None);
    }
}
