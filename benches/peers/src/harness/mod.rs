//! Starts the server and then the clients, interleaved; stores their results, and writes the pages.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its terminal")]

mod chart;
mod check;
mod distance;
mod figures;
mod matrix;
mod options;
mod outage;
mod plan;
mod programs;
mod reconnect;
mod report;
mod results;
mod run;
mod tables;
mod targets;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use lexopt::Parser;
use zk_curator_real::{self as real, RealZooKeeper};

use crate::peer::Result;
use distance::Distance;
use figures::Figures;
use matrix::Setting;
use options::{Extent, Options};
use plan::Case;
use programs::Peer;
use results::Results;
use run::Place;

/// The delay of a packet to a distant server, and of one back.
const ONE_WAY: Duration = Duration::from_millis(1);
/// The number of warm-ups of the server with every kind of request. Without them the compiler of
/// its virtual machine would use CPU time during the first measurements.
const WARM_UPS: usize = 5;

pub(crate) async fn main() -> ExitCode {
    let options = match Options::parse(Parser::from_env()) {
        Ok(Ok(options)) => options,
        Ok(Err(help)) => {
            println!("{help}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("zk-curator-peers: {error}");
            return ExitCode::from(2);
        }
    };
    match compare(&options).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("zk-curator-peers: {failures} runs failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("zk-curator-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs and reports. Returns the number of failed runs.
async fn compare(options: &Options) -> Result<usize> {
    let kept = kept()?;
    let (file, about_file) = (kept.join("runs.jsonl"), kept.join("about.txt"));
    let mut comparison =
        Comparison { options, peers: Vec::new(), results: Results::default(), failures: 0 };
    let mut about = String::new();
    if let Some(runs) = &options.runs {
        comparison.results = Results::load(runs)?;
        about = fs::read_to_string(runs.with_file_name("about.txt"))?.trim_end().to_owned();
    } else if options.run {
        comparison.find_peers().await?;
        let began = (Instant::now(), load());
        let mut versions = String::new();
        for (settings, fsync) in
            [(&[Setting::Loopback, Setting::Distant][..], "no"), (&[Setting::Fsync], "yes")]
        {
            versions = comparison.on_a_server(settings, fsync).await?.unwrap_or(versions);
        }
        println!("{} runs failed; {:.0?} in all", comparison.failures, began.0.elapsed());
        if options.extent == Extent::Smoke {
            return Ok(comparison.failures);
        }
        about = self::about(&versions, &began.1);
        let mut all = Results::default();
        all.add_missing(&comparison.results);
        if options.add {
            all.add_missing(&Results::load(&file)?);
        }
        all.save(&file)?;
        fs::write(&about_file, &about)?;
    }
    let file = report::figures_file(&options.docs, options.page);
    let mut figures = Figures::load(&file)?;
    if options.run || options.runs.is_some() {
        let (least, most) = comparison.results.rounds();
        let rounds = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        let about = format!("medians of {rounds} rounds; {about}");
        figures.add(|run| comparison.results.figures(run), today(), about);
        figures.save(&file)?;
    }
    let page = report::write(&figures, &options.docs, options.page)?;
    println!("written: {}", page.display());
    Ok(comparison.failures)
}

/// The date in UTC, as `YYYY-MM-DD`.
fn today() -> String {
    let date = Command::new("date").args(["-u", "+%F"]).output();
    date.map_or_else(
        |_| "?".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim_end().to_owned(),
    )
}

/// The folder of the runs, in the target directory.
fn kept() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.ancestors().nth(2).ok_or("no target directory")?.join("peers"))
}

struct Comparison<'a> {
    options: &'a Options,
    peers: Vec<Peer>,
    results: Results,
    failures: usize,
}

impl Comparison<'_> {
    /// Finds the wanted clients.
    ///
    /// # Errors
    /// A missing client, in an environment that requires all of them.
    async fn find_peers(&mut self) -> Result<()> {
        for client in &self.options.clients {
            match Peer::find(*client).await {
                Ok(peer) => self.peers.push(peer),
                Err(error) if real::required() => return Err(error),
                Err(error) => eprintln!("{} does not take part: {error}", client.title()),
            }
        }
        Ok(())
    }

    /// Runs all cases of one server. Returns the server's version.
    #[expect(clippy::too_many_lines, reason = "one story")]
    async fn on_a_server(&mut self, settings: &[Setting], fsync: &str) -> Result<Option<String>> {
        let wanted = settings.iter().filter(|setting| self.options.settings.contains(setting));
        let cases: Vec<Case> =
            wanted.flat_map(|setting| plan::cases(self.options, *setting)).collect();
        if cases.is_empty() {
            return Ok(None);
        }
        let builder = RealZooKeeper::builder()
            .jvm_option("-Xmx2g")
            .jvm_property("zookeeper.forceSync", fsync);
        let server = builder.start().await?;
        let distance = Distance::to(server.addr(), ONE_WAY)?;
        println!("Apache ZooKeeper at {}, waits for its disk: {fsync}", server.connect_string());
        let place = |setting| match setting {
            Setting::Distant => Place { server: &server, connect: distance.addr() },
            Setting::Loopback | Setting::Fsync => Place { server: &server, connect: server.addr() },
        };
        let mut number = 0;
        if self.options.extent != Extent::Smoke {
            for _ in 0..WARM_UPS {
                for (case, peer) in plan::warming().zip(self.peers.iter().cycle()) {
                    number += 1;
                    place(Setting::Loopback).run(peer, &case, number).await?;
                }
            }
        }
        for round in 0..self.options.rounds {
            for (index, case) in cases.iter().enumerate() {
                for turn in 0..self.peers.len() {
                    // Each client is first in turn.
                    let peer = &self.peers[(turn + index + round) % self.peers.len()];
                    if !peer.knows(case.workload.name) {
                        continue;
                    }
                    number += 1;
                    let what = format!(
                        "round {}/{}, {:>2}/{}: {:<8} {:<20} {:>6} {:<16}",
                        round + 1,
                        self.options.rounds,
                        index + 1,
                        cases.len(),
                        case.setting.name(),
                        case.workload.name,
                        case.size,
                        peer.client.name(),
                    );
                    match place(case.setting).run(peer, case, number).await {
                        Ok(runs) => {
                            let told: Vec<_> = runs.iter().map(results::Run::summary).collect();
                            println!("{what} {}", told.join("; "));
                            runs.into_iter().for_each(|run| self.results.push(run));
                        }
                        Err(error) => {
                            self.failures += 1;
                            println!("{what} FAILED: {error}");
                        }
                    }
                }
            }
        }
        let version = server.four_letter_word("srvr").await?;
        let version =
            version.lines().next().and_then(|line| line.strip_prefix("Zookeeper version: "));
        Ok(version.and_then(|version| version.split('-').next()).map(str::to_owned))
    }
}

/// The machine, the server and the load.
fn about(zookeeper: &str, load_before: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = Command::new("uname").arg("-sr").output();
    let kernel = kernel.map_or_else(
        |_| "?".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    format!(
        "{cores} cores, {}; Apache ZooKeeper {zookeeper} with 2 GB of heap; load average {load_before} before and {} after",
        kernel.trim(),
        load()
    )
}

/// The load of the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
