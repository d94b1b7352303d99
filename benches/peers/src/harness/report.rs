//! Writes a page: the answer first, then the tables and the pictures.

use std::fs;
use std::path::{Path, PathBuf};

use super::chart::{Bar, Chart};
use super::figures::Figures;
use super::matrix::{Client, Setting};
use super::options::Page;
use super::plan::Workload;
use super::tables::{self, Table, share};
use super::targets;
use crate::peer::Result;

const BEGIN: &str = "<!-- written by zk-curator-peers: begin -->\n";
const END: &str = "<!-- written by zk-curator-peers: end -->";
/// The folder of the pictures and the figures, next to the pages.
const FOLDER: &str = "benchmarks";

/// The file of the figures of a page.
pub(super) fn figures_file(docs: &Path, page: Page) -> PathBuf {
    docs.join(FOLDER).join(format!("{}.jsonl", page.name()))
}

/// The rows of the round trips that the README shows.
const README_ROWS: [&str; 5] = [
    "mutex, acquire + release",
    "mutex, hand-over among 64",
    "leader fail-over, 8 participants",
    "double barrier, a round of 8",
    "queue with a lock path, take",
];

/// Puts the figures into the page, in place of earlier ones, and draws the pictures; five of them
/// also into the README of the repository. Returns the file of the page.
///
/// # Errors
/// Errors of the file system, and a page without the marks.
pub(super) fn write(figures: &Figures, docs: &Path, page: Page) -> Result<PathBuf> {
    let pictures = pictures(figures, page);
    for (name, chart) in &pictures {
        chart.write(&docs.join(FOLDER).join(name))?;
    }
    let file = docs.join(format!("{}.md", page.name()));
    let text = fs::read_to_string(&file)?;
    fs::write(&file, replaced(&text, &generated(figures, page, &pictures))?)?;
    let readme = docs.join("../README.md");
    if page == Page::Benchmarks && readme.exists() {
        let text = fs::read_to_string(&readme)?;
        fs::write(&readme, replaced(&text, &of_readme(figures))?)?;
    }
    Ok(file)
}

/// What the README shows of the figures.
fn of_readme(figures: &Figures) -> String {
    let columns = "| round trips | zk-curator | Curator | kazoo |\n|---|---:|---:|---:|\n";
    let all = tables::all_round_trips(figures);
    let rows = README_ROWS.iter().filter_map(|title| {
        let row = all.lines().find(|row| row.starts_with(&format!("| {title} |")))?;
        let cells: Vec<&str> = row.split(" | ").take(4).collect();
        Some(format!("{} |\n", cells.join(" | ")))
    });
    format!("\n{columns}{}\n", rows.collect::<String>())
}

/// The text with something else between the marks.
fn replaced(text: &str, between: &str) -> Result<String> {
    let (before, rest) =
        text.split_once(BEGIN).ok_or("the page has no mark where the tables begin")?;
    let (_, after) = rest.split_once(END).ok_or("the page has no mark where the tables end")?;
    Ok(format!("{before}{BEGIN}{between}{END}{after}"))
}

/// Everything between the marks.
fn generated(figures: &Figures, page: Page, pictures: &[Picture]) -> String {
    let mut text = format!("\n{}", answer(figures, page));
    let mut part = |title: &str, words: &str, table: String, names: &[&str]| {
        if table.is_empty() {
            return;
        }
        text.push_str(&format!("\n## {title}\n\n{words}\n"));
        for (name, chart) in pictures {
            if names.iter().any(|part| name.ends_with(part)) {
                text.push_str(&format!("\n![{}]({FOLDER}/{name})\n", chart.title));
            }
        }
        text.push_str(&format!("\n{table}"));
    };
    part("Time, 2 ms away", AWAY, tables::time(figures, Setting::Distant), &["recipes-away.svg"]);
    part("Round trips", ROUND_TRIPS, tables::all_round_trips(figures), &[]);
    part(
        "Time, on one machine",
        NEAR,
        tables::time(figures, Setting::Loopback),
        &["recipes-near.svg", "requests-near.svg"],
    );
    part(
        "Time, when every write waits for the disk",
        FSYNC,
        tables::time(figures, Setting::Fsync),
        &[],
    );
    part("A fleet that comes back", FLEET, tables::fleet(figures), &[]);
    part("Rust clients", RUST, tables::rust_clients(figures), &[]);
    part("Rust clients in an outage", OUTAGE, tables::outages(figures), &[]);
    part("CPU of the client", CPU, tables::cpu(figures), &["cpu.svg"]);
    part("Requests", REQUESTS, tables::requests(figures), &[]);
    part("Other numbers", NUMBERS, tables::numbers(figures), &[]);
    part("Starts, and the embedded server", STARTS, tables::starts(figures), &[]);
    part("Growth", SCALE, tables::scale(figures), &[]);
    part("Targets", TARGETS, targets::table(figures, page), &[]);
    part("When and where it was measured", RUNS, origins(figures), &[]);
    text.push('\n');
    text
}

const AWAY: &str = "\
Client and server talk through a relay in which every packet is 1 ms on its way. The table shows medians over the rounds;
± is half the range. The last columns are our time divided by the other client's: less than 1 is faster. A release by
drop is compared with the only release that Curator and kazoo have, and a take with a window of deletes with as many
threads of Curator, which keep no order.";
const ROUND_TRIPS: &str = "\
The median time of an operation, divided by that of one `setData` of ours in the same run, 2 ms away. Each value is that of
the best round, because other work on the machine only adds to it. *Fewest possible* is what the protocol of the recipe
allows. With a window of puts or deletes, an operation takes less than one round trip.";
const NEAR: &str = "\
Client, server and harness share one machine, and the server does not wait for its disk.";
const FSYNC: &str = "The server runs with `forceSync=yes`, on the disk of the machine.";
const FLEET: &str = "\
One process has 200 sessions. The harness cuts their connections, lets no connection through for 3 s, and then measures
until the last session is connected again and has read a node. All sessions survive. The packets are those that the server
receives from the end of the outage until nothing more comes: they open the sessions again, and carry the reads and what a
client sends of its own accord. They are the sum of all sessions.";
const RUST: &str = "\
Rust clients of other authors, on the same server. A dash is a workload that a client cannot do. The last column is our value
divided by the smallest of theirs.

* `zookeeper-client` 0.11.2 (MIT, released on 18 July 2026) has a lock, and no other recipe.
* `zookeeper-async` 5.0.0 (MIT) has a lock, a leader latch, a queue and a cache of one level. Its lock panics among more than
  two contenders, so it is measured without contention. Its latch has no way to wait, so the program asks it repeatedly, and
  its CPU time is that of the questions.
* `tokio-zookeeper` 0.4.0 (MIT or Apache-2.0) has no recipes, and does not report lost and new connections.

The locks of the first two are released by the drop of their guard alone. The memory of our process includes the harness and all
workloads, which are one program.";
const OUTAGE: &str = "\
A client reads a node every 10 ms. The harness cuts its connection for a while, and closes new connections immediately until
the outage is over. In the longer outage the session ends on the server. A client works again by itself if 100 reads that
began after the outage succeed within 20 s. 1 is yes, and 0 is no.

`zookeeper-client` ends with its session: the program has to connect again. `zookeeper-async` continues with a new session,
without an error. `tokio-zookeeper` panics in its background task when it connects again. The last two try the next
connection without a pause, which `zookeeper-async` can change.";
const CPU: &str = "\
User and system time of the whole process of the client, on one machine. Older runs did not keep the spread.";
const REQUESTS: &str = "\
The requests that the server received, divided by the operations. A spread is shown if it is more than 2 %. The numbers 2 ms
away differ, because they depend on how many clients meet.";
const NUMBERS: &str = "Workloads also count these.";
const STARTS: &str = "\
*A plain socket* opens a session and sends one request, without a process to start. The embedded servers are asked by the
same loop on a plain socket.";
const SCALE: &str = "zk-curator alone, in one process.";
const TARGETS: &str = "\
Speeds are multiples of Curator's, so that more is better: 2 × is half the time.";
const RUNS: &str = "\
In each run all clients took turns on one server, round after round. Compare figures of one run only: other work on a shared
machine changes times from run to run, but much less the ratios of clients that take turns. Rows are of the run with most
figures unless they name another one.";

/// The runs of the figures.
fn origins(figures: &Figures) -> String {
    let mut table = Table::new(&["run", "what, and where", "day"]);
    for origin in figures.origins() {
        table.row(&[origin.run.to_string(), origin.about.clone(), origin.measured.clone()]);
    }
    table.text()
}

/// Which workloads a row of the answer, or a picture, is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A lock, a queue, a cache.
    Recipe,
    /// A single read or write.
    Request,
}

impl Kind {
    fn of(workload: &Workload) -> Self {
        if workload.name.starts_with("raw-") { Self::Request } else { Self::Recipe }
    }
}

/// Our times, with Curator = 1.
fn times(figures: &Figures, setting: Setting, kind: Kind) -> Vec<Bar> {
    let bar = |workload: &'static Workload| {
        let (ratio, error) = tables::relative(figures, setting, workload, Client::Java)?;
        Some(Bar { name: figures.title(setting, workload), ratio, error })
    };
    let compared = tables::compared(figures, setting);
    compared.filter(|workload| Kind::of(workload) == kind).filter_map(bar).collect()
}

/// Our CPU time, with Curator = 1.
fn cpu(figures: &Figures) -> Vec<Bar> {
    let bar = |workload: &'static Workload| {
        let of =
            |client| figures.of(Setting::Loopback, (workload.name, workload.size), client)?.cpu;
        let (ratio, error) = tables::quotient(of(Client::Rust)?, of(Client::Java)?)?;
        Some(Bar { name: figures.title(Setting::Loopback, workload), ratio, error })
    };
    tables::compared(figures, Setting::Loopback).filter_map(bar).collect()
}

/// One value of a workload, Curator = 1.
fn single(figures: &Figures, (name, size): (&str, usize)) -> Vec<Bar> {
    let of = |client| figures.of(Setting::Loopback, (name, size), client)?.time;
    let both = of(Client::Rust).zip(of(Client::Java));
    let ratio = both.and_then(|(ours, theirs)| tables::quotient(ours, theirs));
    ratio.map(|(ratio, error)| Bar { name: name.to_owned(), ratio, error }).into_iter().collect()
}

/// The sentence and the small table at the top of the page.
fn answer(figures: &Figures, page: Page) -> String {
    use Kind::{Recipe, Request};
    let recipes = page.recipes();
    let rows = [
        (format!("{recipes}, servers 2 ms away: time"), times(figures, Setting::Distant, Recipe)),
        (format!("{recipes}, on one machine: time"), times(figures, Setting::Loopback, Recipe)),
        (
            format!("{recipes}, every write waits for the disk: time"),
            times(figures, Setting::Fsync, Recipe),
        ),
        (
            "single requests, on one machine: time".to_owned(),
            times(figures, Setting::Loopback, Request),
        ),
        ("client CPU, on one machine".to_owned(), cpu(figures)),
        (
            "200 sessions, back after an outage: time".to_owned(),
            single(figures, ("fleet-return", 200)),
        ),
        ("process start to the first response: time".to_owned(), single(figures, ("startup", 1))),
    ];
    let mut table =
        Table::new(&["zk-curator, where Curator is 1", "median", "best", "worst", "workloads"]);
    let mut medians = Vec::new();
    for (name, bars) in rows {
        let mut ratios: Vec<f64> = bars.iter().map(|bar| bar.ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let median = ratios.get(ratios.len() / 2).copied();
        medians.push(median);
        let (Some(median), Some(best), Some(worst)) = (median, ratios.first(), ratios.last())
        else {
            continue;
        };
        let values = [median, *best, *worst].map(share);
        let [median, best, worst] = values;
        table.row(&[name, format!("**{median}**"), best, worst, ratios.len().to_string()]);
    }
    let of = |row: usize| medians.get(row).copied().flatten().map_or_else(|| "—".to_owned(), share);
    format!(
        "**On the same server, the {recipes} of zk-curator take {} × the time of Apache Curator 5.4's\n\
         with servers 2 ms away, and {} × on one machine, with {} × the CPU time of the client** (medians).\n\n{}",
        of(0),
        of(1),
        of(4),
        table.text()
    )
}

type Picture = (String, Chart<'static>);

const SUBTITLE: &str =
    "zk-curator's time divided by Curator's; shorter is faster; thin lines: the spread of both";

/// The pictures of a page, with the names of their files.
fn pictures(figures: &Figures, page: Page) -> Vec<Picture> {
    let (prefix, away, near, cpu_title) = match page {
        Page::Benchmarks => (
            "",
            "Recipes, servers 2 ms away: time",
            "Recipes, on one machine: time",
            "CPU time of the client, on one machine",
        ),
        Page::Data => (
            "data-",
            "Counters, caches and discovery, servers 2 ms away: time",
            "Counters, caches and discovery, on one machine: time",
            "CPU time of the client, counters, caches and discovery",
        ),
        Page::Transactions => (
            "transactions-",
            "Transactions, migrations, leases and partitions, servers 2 ms away: time",
            "Transactions, migrations, leases and partitions, on one machine: time",
            "CPU time of the client, transactions, migrations, leases and partitions",
        ),
    };
    let cpu_subtitle = "zk-curator's CPU time divided by Curator's; shorter is less";
    let mut all = vec![
        ("recipes-away.svg", away, SUBTITLE, times(figures, Setting::Distant, Kind::Recipe)),
        ("recipes-near.svg", near, SUBTITLE, times(figures, Setting::Loopback, Kind::Recipe)),
        ("cpu.svg", cpu_title, cpu_subtitle, cpu(figures)),
    ];
    if page == Page::Benchmarks {
        let bars = times(figures, Setting::Loopback, Kind::Request);
        all.push(("requests-near.svg", "Single requests, on one machine: time", SUBTITLE, bars));
    }
    all.retain(|(_, _, _, bars)| !bars.is_empty());
    let drawn = |(name, title, subtitle, bars)| {
        (format!("{prefix}{name}"), Chart { title, subtitle, bars })
    };
    all.into_iter().map(drawn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let text = format!("# Title\n{BEGIN}old\n{END}\nby hand\n");
        let once = replaced(&text, "new\n").unwrap();
        assert_eq!(once, format!("# Title\n{BEGIN}new\n{END}\nby hand\n"));
        assert_eq!(replaced(&once, "new\n").unwrap(), once);
        assert!(replaced("# Title\n", "new\n").is_err());
    }

    #[test]
    fn the_pages_are_those_of_their_figures() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for page in Page::ALL {
            let figures = Figures::load(&figures_file(&docs, page)).unwrap();
            let text = fs::read_to_string(docs.join(format!("{}.md", page.name()))).unwrap();
            let generated = generated(&figures, page, &pictures(&figures, page));
            let is_current = replaced(&text, &generated).unwrap() == text;
            assert!(is_current, "zk-curator-peers --page {} --report writes it", page.name());
        }
        let figures = Figures::load(&figures_file(&docs, Page::Benchmarks)).unwrap();
        let of_readme = of_readme(&figures);
        assert_eq!(of_readme.lines().count(), 4 + README_ROWS.len(), "{of_readme}");
        let readme = fs::read_to_string(docs.join("../README.md")).unwrap();
        let is_current = replaced(&readme, &of_readme).unwrap() == readme;
        assert!(is_current, "zk-curator-peers --report writes it");
    }
}
