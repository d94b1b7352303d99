//! The options of the command line.

use std::fmt::Display;
use std::num::NonZero;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::{Arg, Parser};
use zk_curator_sim::{FaultKind, FaultPlan, Faults, PointFault, Scenario, Sim, scenarios};

const HELP: &str = "\
Simulates clients of the scenarios while faults happen, and looks for violations.

usage: zk-sim [OPTION…]

A seed decides everything about a run: the same seed gives the same history. Runs all seeds from A to B, without B.
A run with a violation is shrunk, and printed with the command that repeats it.
The exit code is 0 without a violation, 1 with one, 2 for wrong options.

  --scenario NAME[,NAME…]     the scenarios to run, or `all` [all]
  --without NAME[,NAME…]      the scenarios to leave out
  --seeds A..B                the seeds of each scenario [0..1000]
  --seed N                    only this seed
  --servers N                 the number of servers [3]
  --clients N                 the number of clients [5; with some seeds, 50]
  --rounds N                  the number of rounds of work of each client [20]
  --faults KIND[,KIND…]       the kinds of faults, see --list; `all` or `none` [all]
  --keep-faults N[,N…]        inject only the faults of the seed with these numbers; or `none`
  --settings all|none         set up clients and servers in the ways that the seed draws, or not [all]
  --keep-settings N[,N…]      use only the settings of the seed with these numbers; or `none`
  --keep-clients N[,N…]       run only the clients with these numbers
  --jobs N                    the number of threads [1]
  --timeline                  print every history
  --coverage                  print how many faults of each kind hit between each two events
  --no-shrink                 print a run with a violation without shrinking it
  --keep-going                continue after a violation, and count the violations
  --exhaust                   play every set of faults at the decision points of each seed, in place of random faults;
                              without --seed, of the first ones the busiest, or the smallest with more than one fault
  --faults N                  with --exhaust: the largest number of faults of a run [1]
  --part I/N                  with --exhaust: only this part, from 0, of N parts of the runs with the most faults [0/1]
  --most N                    with --exhaust: if there are more runs with some number of faults, play one of as many parts as that
                              takes; `--part I` chooses the part, I modulo the number of parts
  --kinds KIND[,KIND…]        with --exhaust: play only faults of these kinds, such as `disconnect,hesitate` [all]
  --choose N                  with --exhaust and without --seed: choose the seed among the first N [64]
  --progress FILE             with --exhaust and one scenario: continue where an earlier exploration has stopped
  --plan POINT:FAULT[,…]      play only these faults at decision points; or `none`
  --list                      print the scenarios and the kinds of faults
  -h, --help                  print this
  -V, --version               print the version";

const VERSION: &str = concat!("zk-sim ", env!("CARGO_PKG_VERSION"));

/// The request of the command line.
#[derive(Debug)]
pub(crate) enum Task {
    /// A text for standard output.
    Print(String),
    Run(Box<Options>),
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) scenarios: Vec<&'static Scenario>,
    pub(crate) seeds: Range<u64>,
    pub(crate) jobs: usize,
    pub(crate) timeline: bool,
    pub(crate) coverage: bool,
    pub(crate) shrink: bool,
    pub(crate) keep_going: bool,
    /// The text of the option, for the command that repeats a run.
    faults: Option<String>,
    servers: Option<usize>,
    clients: Option<u32>,
    rounds: u32,
    keep_faults: Option<Vec<usize>>,
    keep_clients: Option<Vec<u32>>,
    settings: bool,
    keep_settings: Option<Vec<usize>>,
    pub(crate) exhaust: Option<Exhaust>,
    pub(crate) plan: Option<FaultPlan>,
}

/// The options of an exploration of all faults.
#[derive(Debug)]
pub(crate) struct Exhaust {
    pub(crate) faults: usize,
    pub(crate) part: (u64, u64),
    pub(crate) most: NonZero<u64>,
    pub(crate) kinds: Option<Vec<String>>,
    pub(crate) progress: Option<PathBuf>,
    /// The number of seeds of which one is chosen; `None` if the seeds are given.
    pub(crate) choose: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scenarios: sound(),
            seeds: 0..1000,
            jobs: 1,
            timeline: false,
            coverage: false,
            shrink: true,
            keep_going: false,
            faults: None,
            servers: None,
            clients: None,
            rounds: 20,
            keep_faults: None,
            keep_clients: None,
            settings: true,
            keep_settings: None,
            exhaust: None,
            plan: None,
        }
    }
}

impl Options {
    /// Returns the run of a scenario with a seed.
    pub(crate) fn sim(&self, scenario: &Scenario, seed: u64) -> Result<Sim, lexopt::Error> {
        let mut sim = Sim::seed(seed).rounds(self.rounds).scenario(scenario);
        if let Some(clients) = self.clients {
            sim = sim.clients(clients);
        }
        if let Some(servers) = self.servers {
            sim = sim.servers(servers);
        }
        if let Some(faults) = self.faults.as_ref().filter(|_| self.exhaust.is_none()) {
            sim = sim.faults(mix(faults)?);
        }
        if let Some(kept) = &self.keep_faults {
            sim = sim.keep_faults(kept.iter().copied());
        }
        sim = sim.settings(self.settings);
        if let Some(kept) = &self.keep_settings {
            sim = sim.keep_settings(kept.iter().copied());
        }
        if let Some(kept) = &self.keep_clients {
            sim = sim.keep_clients(kept.iter().copied());
        }
        Ok(sim)
    }

    /// Describes the size of a run, and if it is a part of a run.
    pub(crate) fn size(&self) -> String {
        let mut size = format!("{} rounds", self.rounds);
        if let Some(clients) = self.clients {
            size += &format!(", {clients} clients");
        }
        if let Some(servers) = self.servers {
            size += &format!(", {servers} servers");
        }
        if let Some(faults) = &self.faults {
            size += &format!(", faults {faults}");
        }
        if !self.settings {
            size += ", no settings";
        }
        if self.is_part() {
            size += ", parts of runs";
        }
        size
    }

    /// Returns `true` if parts of the runs are left out.
    pub(crate) fn is_part(&self) -> bool {
        self.keep_faults.is_some() || self.keep_clients.is_some() || self.keep_settings.is_some()
    }

    /// Returns the command that repeats a run of a scenario.
    pub(crate) fn command(&self, scenario: &Scenario, sim: &Sim) -> String {
        let mut command = format!(
            "cargo run --release -p zk-curator-sim --bin zk-sim -- --scenario {} {}",
            scenario.name(),
            sim.arguments()
        );
        if let Some(servers) = self.servers {
            command += &format!(" --servers {servers}");
        }
        if let Some(faults) = &self.faults {
            command += &format!(" --faults {faults}");
        }
        command
    }
}

/// The options of an exploration, as they were given.
#[derive(Debug, Default)]
struct ExhaustArguments {
    is_wanted: bool,
    part: Option<(u64, Option<u64>)>,
    most: Option<NonZero<u64>>,
    kinds: Option<Vec<String>>,
    choose: Option<u64>,
    progress: Option<PathBuf>,
}

impl ExhaustArguments {
    fn check(self, options: &mut Options, has_seeds: bool) -> Result<Exhaust, lexopt::Error> {
        let Self { part, most, kinds, choose, progress, .. } = self;
        let unknown = |kind: &&String| PointFault::kinds().all(|known| known != kind.as_str());
        if let Some(unknown) = kinds.iter().flatten().find(unknown) {
            return Err(format!("there is no fault {unknown:?}").into());
        }
        if options.plan.is_some() {
            return Err("--exhaust and --plan exclude each other".into());
        }
        if progress.is_some() && options.scenarios.len() > 1 {
            return Err("--progress needs one scenario".into());
        }
        let faults = match options.faults.take() {
            None => 1,
            Some(text) => text.parse().map_err(|error| format!("--faults {text}: {error}"))?,
        };
        let part = match part {
            None => (0, 1),
            Some((part, Some(_))) if most.is_some() => {
                return Err(format!("with --most, --part {part} has no number of parts").into());
            }
            Some((part, Some(of))) => (part, of),
            Some((part, None)) if most.is_some() => (part, 1),
            Some((part, None)) => return Err(format!("--part {part} needs --most").into()),
        };
        let most = most.unwrap_or(NonZero::<u64>::MAX);
        let choose = (!has_seeds).then_some(choose.unwrap_or(64));
        Ok(Exhaust { faults, part, most, kinds, progress, choose })
    }
}

pub(crate) fn parse(mut parser: Parser) -> Result<Task, lexopt::Error> {
    let mut options = Options::default();
    let mut exhaust = ExhaustArguments::default();
    let mut has_seeds = false;
    let mut without = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("scenario") => options.scenarios = scenarios_of(&value(&mut parser)?)?,
            Arg::Long("without") => without = scenarios_of(&value(&mut parser)?)?,
            Arg::Long("seeds") => {
                has_seeds = true;
                options.seeds = range(&value(&mut parser)?)?;
            }
            Arg::Long("seed") => {
                has_seeds = true;
                let seed = number(&mut parser)?;
                options.seeds = seed..seed + 1;
            }
            Arg::Long("servers") => options.servers = Some(in_range(number(&mut parser)?, 1..=99)?),
            Arg::Long("clients") => {
                options.clients = Some(in_range(number(&mut parser)?, 1..=1000)?);
            }
            Arg::Long("rounds") => options.rounds = number(&mut parser)?,
            Arg::Long("faults") => options.faults = Some(value(&mut parser)?),
            Arg::Long("keep-faults") => options.keep_faults = Some(numbers(&value(&mut parser)?)?),
            Arg::Long("keep-clients") => {
                options.keep_clients = Some(numbers(&value(&mut parser)?)?);
            }
            Arg::Long("settings") => options.settings = is_all(&value(&mut parser)?)?,
            Arg::Long("keep-settings") => {
                options.keep_settings = Some(numbers(&value(&mut parser)?)?);
            }
            Arg::Long("jobs") => options.jobs = number::<NonZero<usize>>(&mut parser)?.get(),
            Arg::Long("exhaust") => exhaust.is_wanted = true,
            Arg::Long("part") => exhaust.part = Some(part_of(&value(&mut parser)?)?),
            Arg::Long("most") => exhaust.most = Some(number(&mut parser)?),
            Arg::Long("kinds") => exhaust.kinds = Some(words(&value(&mut parser)?)),
            Arg::Long("choose") => {
                exhaust.choose = Some(in_range(number(&mut parser)?, 1..=100_000)?);
            }
            Arg::Long("progress") => exhaust.progress = Some(PathBuf::from(parser.value()?)),
            Arg::Long("plan") => options.plan = Some(value(&mut parser)?.parse()?),
            Arg::Long("timeline") => options.timeline = true,
            Arg::Long("coverage") => options.coverage = true,
            Arg::Long("no-shrink") => options.shrink = false,
            Arg::Long("keep-going") => options.keep_going = true,
            Arg::Long("list") => return Ok(Task::Print(list())),
            Arg::Short('h') | Arg::Long("help") => return Ok(Task::Print(HELP.to_owned())),
            Arg::Short('V') | Arg::Long("version") => return Ok(Task::Print(VERSION.to_owned())),
            other => return Err(other.unexpected()),
        }
    }
    options
        .scenarios
        .retain(|scenario| !without.iter().any(|other| other.name() == scenario.name()));
    if exhaust.is_wanted {
        options.exhaust = Some(exhaust.check(&mut options, has_seeds)?);
    } else if let Some(text) = &options.faults {
        mix(text)?;
    }
    Ok(Task::Run(Box::new(options)))
}

fn list() -> String {
    let line = |scenario: &Scenario| {
        let note =
            if scenario.is_demonstration() { " (fails on purpose; runs only by name)" } else { "" };
        format!("  {:<18} {}{note}\n", scenario.name(), scenario.about())
    };
    let scenarios = scenarios::ALL.iter().map(line);
    let faults: Vec<_> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
    format!("scenarios:\n{}faults:\n  {}", scenarios.collect::<String>(), faults.join(" "))
}

/// Returns the scenarios that do not fail on purpose.
fn sound() -> Vec<&'static Scenario> {
    scenarios::ALL.iter().filter(|scenario| !scenario.is_demonstration()).collect()
}

fn scenarios_of(names: &str) -> Result<Vec<&'static Scenario>, lexopt::Error> {
    if names == "all" {
        return Ok(sound());
    }
    let named = |name| {
        scenarios::named(name).ok_or_else(|| format!("there is no scenario {name:?}").into())
    };
    names.split(',').map(named).collect()
}

fn mix(text: &str) -> Result<Faults, lexopt::Error> {
    let named = |name| {
        FaultKind::named(name)
            .ok_or_else(|| lexopt::Error::from(format!("there is no fault {name:?}")))
    };
    match text {
        "all" => Ok(Faults::random()),
        "none" => Ok(Faults::none()),
        kinds => Ok(Faults::of(kinds.split(',').map(named).collect::<Result<Vec<_>, _>>()?)),
    }
}

fn is_all(text: &str) -> Result<bool, lexopt::Error> {
    match text {
        "all" => Ok(true),
        "none" => Ok(false),
        _ => Err(format!("{text:?} is neither `all` nor `none`").into()),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn range(text: &str) -> Result<Range<u64>, lexopt::Error> {
    let bounds =
        text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let (from, to) = bounds.ok_or_else(|| format!("{text:?} is no range such as 0..1000"))?;
    Ok(from..to)
}

fn numbers<T: FromStr<Err: Display>>(text: &str) -> Result<Vec<T>, lexopt::Error> {
    let parse =
        |number: &str| number.parse().map_err(|error| format!("{number:?}: {error}").into());
    match text {
        "none" => Ok(Vec::new()),
        numbers => numbers.split(',').map(parse).collect(),
    }
}

/// Parses a part, `I/N`, or `I` alone.
fn part_of(text: &str) -> Result<(u64, Option<u64>), lexopt::Error> {
    let parts = match text.split_once('/') {
        Some((part, of)) => part.parse().ok().zip(of.parse().ok().map(Some)),
        None => text.parse().ok().map(|part| (part, None)),
    };
    parts
        .filter(|(part, of)| of.is_none_or(|of| *part < of))
        .ok_or_else(|| format!("{text:?} is no part such as 0/10").into())
}

fn in_range<T: PartialOrd + Display + Copy>(
    number: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, lexopt::Error> {
    if range.contains(&number) {
        return Ok(number);
    }
    Err(format!("{number} is not between {} and {}", range.start(), range.end()).into())
}

fn number<T: FromStr<Err: Display>>(parser: &mut Parser) -> Result<T, lexopt::Error> {
    let text = value(parser)?;
    text.parse().map_err(|error| format!("{text:?}: {error}").into())
}

fn value(parser: &mut Parser) -> Result<String, lexopt::Error> {
    parser.value()?.into_string().map_err(lexopt::Error::NonUnicodeValue)
}
