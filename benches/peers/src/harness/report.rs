//! Writes the tables and the pictures.

use std::fs;
use std::path::{Path, PathBuf};

use super::chart::Chart;
use super::options::{Options, Page};
use super::plan::{Client, Setting, WORKLOADS, Workload};
use super::results::Results;
use super::{tables, targets};
use crate::peer::Result;

const BEGIN: &str = "<!-- written by zk-curator-peers: begin -->\n";
const END: &str = "<!-- written by zk-curator-peers: end -->";

/// Puts the results into the page, in the place of earlier ones, and the pictures into `benchmarks/`; returns the file.
///
/// # Errors
/// Those of the file system, and when the file has no place for them.
pub(super) fn write(results: &Results, about: &str, options: &Options) -> Result<PathBuf> {
    let mut drawn = Vec::new();
    if options.page == Page::Benchmarks {
        let pictures = options.docs.join("benchmarks");
        fs::create_dir_all(&pictures)?;
        drawn = draw(results, &pictures)?;
    }
    let file = options.docs.join(format!("{}.md", options.page.name()));
    let text = fs::read_to_string(&file)?;
    fs::write(&file, replaced(&text, &told(results, about, &drawn, options))?)?;
    Ok(file)
}

/// The text with something else between the marks.
fn replaced(text: &str, between: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).ok_or("the page has no mark where the tables begin")?;
    let (_, after) = rest.split_once(END).ok_or("the page has no mark where the tables end")?;
    Ok(format!("{before}{BEGIN}{between}{END}{after}"))
}

fn told(results: &Results, about: &str, drawn: &[&str], options: &Options) -> String {
    let (least, most) = results.rounds();
    let rounds = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let mut text = format!("\nMedians of {rounds} rounds; ± is half the range. {about}.\n");
    let mut part = |title: &str, words: &str, table: String, picture: &str| {
        if table.is_empty() {
            return;
        }
        text.push_str(&format!(
            "\n### {title}\n\n{words}{}{table}",
            if words.is_empty() { "" } else { "\n\n" }
        ));
        if drawn.contains(&picture) {
            text.push_str(&format!("\n![{title}](benchmarks/{picture})\n"));
        }
    };
    part("What was asked for", "", targets::table(results, options), "");
    part("2 ms away: flights", FLIGHTS, tables::all_flights(results), "flights.png");
    part("2 ms away: time", "", tables::time(results, Setting::Distant), "distant.png");
    part("Requests and CPU", COST, tables::cost(results), "cpu.png");
    part("On one machine", LOOPBACK, tables::time(results, Setting::Loopback), "loopback.png");
    part("When every write waits for the disk", FSYNC, tables::time(results, Setting::Fsync), "fsync.png");
    part("Beginnings, and the embedded server", BEGINNINGS, tables::beginnings(results), "");
    part("What grows", SCALE, tables::scale(results), "scale.png");
    text.push('\n');
    text
}

const FLIGHTS: &str = "\
The median time of an operation, divided by that of one `setData` of ours in the same run, through a relay in which every
packet is 1 ms on its way; of each the best round, because what else the machine does only adds to it. *At least* is
what the protocol of the recipe allows; a window of puts or deletes has less than one flight an operation.";
const COST: &str = "\
CPU is that of the whole process of the client, user and system; requests are those that the server has received, divided
by the operations, with a spread where it is over 2 %. On the loopback interface; requests also through the relay, because
who meets whom, and so how many there are, depends on how long they are on their way.";
const LOOPBACK: &str = "\
Client, server and the harness share the machine; the server does not wait for its disk. *Curator / ours*: how many
times as long Curator takes. A release by drop is compared with Curator's and kazoo's only way; a take with a window with
as many threads of Curator, which keep no order.";
const FSYNC: &str = "`forceSync=yes`, on whatever disk the machine has.";
const BEGINNINGS: &str = "\
*A plain socket* opens a session and asks one question, without a process to start. The embedded servers are asked by the
same loop on a plain socket.";
const SCALE: &str = "zk-curator alone, one process.";

/// Draws what there is something to draw of; their names.
fn draw(results: &Results, pictures: &Path) -> Result<Vec<&'static str>> {
    let mut drawn = Vec::new();
    let mut write = |name: &'static str, chart: &Chart<'_>| -> Result<()> {
        if !chart.groups.is_empty() {
            chart.write(&pictures.join(name))?;
            drawn.push(name);
        }
        Ok(())
    };
    let names = Client::ALL.map(Client::title);
    for (name, setting, title) in [
        ("loopback.png", Setting::Loopback, "µs an operation, on one machine (less is better)"),
        ("distant.png", Setting::Distant, "µs an operation, 2 ms away (less is better)"),
        ("fsync.png", Setting::Fsync, "µs an operation, every write waits for the disk (less is better)"),
    ] {
        let time =
            |workload: &Workload, client| results.time(setting, workload, client).map(|time| time.median);
        let groups = by_client(results, setting, time);
        write(name, &Chart { title, series: &names, groups, logarithmic: true, mark: None })?;
    }
    let cpu = |workload: &Workload, client| {
        results.median(Setting::Loopback, (workload.name, workload.size), client, |run| run.cpu_us)
    };
    let groups = by_client(results, Setting::Loopback, cpu);
    let title = "µs on the CPU an operation, client only (less is better)";
    write("cpu.png", &Chart { title, series: &names, groups, logarithmic: true, mark: None })?;

    let flights = |workload: &Workload, client| tables::flights(results, workload, client);
    let mut groups = by_client(results, Setting::Distant, flights);
    // 100 members of a barrier would make all others small.
    groups.retain(|(_, values)| values.iter().flatten().all(|value| *value < 40.0));
    let title = "flights an operation: how often the network is waited for (less is better)";
    write("flights.png", &Chart { title, series: &names, groups, logarithmic: false, mark: Some(1.0) })?;

    let scale = WORKLOADS.iter().filter(|workload| workload.is_scale()).filter_map(|workload| {
        let time = results.time(Setting::Loopback, workload, Client::Rust)?.median;
        Some((workload.title.to_owned(), vec![Some(time)]))
    });
    let title = "µs an operation, as something grows (flat is better)";
    let chart = Chart { title, series: &names[..1], groups: scale.collect(), logarithmic: false, mark: None };
    write("scale.png", &chart)?;
    Ok(drawn)
}

fn by_client(
    results: &Results,
    setting: Setting,
    of: impl Fn(&Workload, Client) -> Option<f64>,
) -> Vec<(String, Vec<Option<f64>>)> {
    let group = |workload: &'static Workload| {
        (workload.title.to_owned(), Client::ALL.map(|client| of(workload, client)).to_vec())
    };
    tables::compared(results, setting).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_the_marks_is_replaced_and_nothing_else() {
        let text = format!("# Title\n{BEGIN}old\n{END}\nby hand\n");
        let once = replaced(&text, "new\n").unwrap();
        assert_eq!(once, format!("# Title\n{BEGIN}new\n{END}\nby hand\n"));
        assert_eq!(replaced(&once, "new\n").unwrap(), once);
        assert!(replaced("# Title\n", "new\n").is_err());
    }
}
