//! Disturbs clients of the scenarios, and the Apache ZooKeeper that they work with, in real time; `--help` tells the
//! options.
#![cfg_attr(
    unix,
    expect(clippy::print_stderr, clippy::print_stdout, reason = "a program talks to its terminal")
)]

use std::process::ExitCode;

#[cfg(unix)]
#[cfg(not(unix))]
fn main() -> ExitCode {
    // Without SIGSTOP there is no chaos.
    ExitCode::from(2)
}

#[cfg(unix)]
fn main() -> ExitCode {
    unix::main()
}

#[cfg(unix)]
mod unix {
    use std::error::Error;
    use std::fmt::Display;
    use std::fs;
    use std::path::PathBuf;
    use std::process::ExitCode;
    use std::str::FromStr;
    use std::time::Duration;

    use lexopt::{Arg, Parser, ValueExt};
    use zk_curator_real::chaos::{Chaos, Report};
    use zk_curator_sim::{Scenario, Sim, scenarios};
    use zk_curator_testing::stop_signal;

    const HELP: &str = "\
Runs clients of the scenarios, each in a process of its own, against an ensemble of Apache ZooKeeper, and kills, stops and
cuts off servers and clients, and ends sessions. Judges what the clients saw, as zk-sim does.

usage: zk-chaos [OPTION…]

Exit code 1 is a violation, 2 that it could not be run.

  --scenario NAME[,NAME…]|all   which, all of them side by side on one ensemble [all]
  --duration TIME             how long there are faults: 90s, 30m, 2h [1m]
  --round TIME                after how long they pause, everybody finishes and is judged, and it begins anew [1m]
  --clients N                 how many processes each scenario has [4]
  --servers N                 how many servers there are [3]
  --seed N                    decides the faults and what the clients choose; one more for each round [0]
  --list                      print the names of the scenarios
  -h, --help                  print this";

    enum Task {
        Print(String),
        Run(Chaos),
    }

    pub(super) fn main() -> ExitCode {
        if let Some(code) = Chaos::of(all()).work_if_client() {
            return code;
        }
        let done = parse(Parser::from_env()).map_err(Into::into).and_then(|task| match task {
            Task::Print(text) => {
                println!("{text}");
                Ok(ExitCode::SUCCESS)
            }
            Task::Run(chaos) => run(&chaos),
        });
        done.unwrap_or_else(|error| {
            eprintln!("zk-chaos: {}", in_one_line(&*error));
            ExitCode::from(2)
        })
    }

    #[tokio::main]
    async fn run(chaos: &Chaos) -> Result<ExitCode, Box<dyn Error>> {
        // Without this, a signal would leave servers and clients behind.
        let stopped = stop_signal()?;
        let report = tokio::select! {
            biased;
            () = stopped => return Ok(ExitCode::from(130)),
            report = chaos.run(|line| println!("{line}")) => report?,
        };
        println!("{report}");
        explain(&report)
    }

    fn explain(report: &Report) -> Result<ExitCode, Box<dyn Error>> {
        for (number, found) in report.found.iter().enumerate() {
            let timeline = PathBuf::from(format!("zk-chaos-{}-{number}.txt", found.seed));
            fs::write(&timeline, found.history.to_string())?;
            println!("VIOLATION with {found}the whole timeline is in {}", timeline.display());
        }
        Ok(if report.found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn all() -> impl Iterator<Item = (&'static str, Sim)> {
        scenarios::ALL.iter().map(subject)
    }

    /// Those that are to be sound.
    fn sound() -> impl Iterator<Item = (&'static str, Sim)> {
        scenarios::ALL.iter().filter(|scenario| !scenario.is_demonstration()).map(subject)
    }

    fn subject(scenario: &Scenario) -> (&'static str, Sim) {
        (scenario.name(), Sim::seed(0).scenario(scenario))
    }

    fn parse(mut arguments: Parser) -> Result<Task, lexopt::Error> {
        let mut subjects: Vec<(&str, Sim)> = sound().collect();
        let mut change: Vec<Box<dyn FnOnce(Chaos) -> Chaos>> = Vec::new();
        while let Some(argument) = arguments.next()? {
            match argument {
                Arg::Long("help") | Arg::Short('h') => return Ok(Task::Print(HELP.to_owned())),
                Arg::Long("list") => {
                    let names: Vec<&str> = all().map(|(name, _)| name).collect();
                    return Ok(Task::Print(names.join("\n")));
                }
                Arg::Long("scenario") => subjects = named(&arguments.value()?.string()?)?,
                Arg::Long("duration") => {
                    let duration = time(&arguments.value()?.string()?)?;
                    change.push(Box::new(move |chaos| chaos.duration(duration)));
                }
                Arg::Long("round") => {
                    let round = time(&arguments.value()?.string()?)?;
                    change.push(Box::new(move |chaos| chaos.round(round)));
                }
                Arg::Long("clients") => {
                    let clients = number(&arguments.value()?.string()?, 1..=100)?;
                    change.push(Box::new(move |chaos| chaos.clients(clients)));
                }
                Arg::Long("servers") => {
                    let servers = number(&arguments.value()?.string()?, 1..=9)?;
                    change.push(Box::new(move |chaos| chaos.servers(servers)));
                }
                Arg::Long("seed") => {
                    let seed = number(&arguments.value()?.string()?, 0..=u64::MAX)?;
                    change.push(Box::new(move |chaos| chaos.seed(seed)));
                }
                _ => return Err(argument.unexpected()),
            }
        }
        let chaos = change.into_iter().fold(Chaos::of(subjects), |chaos, change| change(chaos));
        Ok(Task::Run(chaos))
    }

    fn named(names: &str) -> Result<Vec<(&'static str, Sim)>, lexopt::Error> {
        if names == "all" {
            return Ok(sound().collect());
        }
        let named = |name: &str| {
            let scenario =
                scenarios::named(name).ok_or_else(|| format!("there is no scenario {name}; see --list"))?;
            Ok(subject(scenario))
        };
        names.split(',').map(named).collect()
    }

    fn number<T: FromStr + PartialOrd + Display>(
        text: &str,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<T, lexopt::Error> {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!("{text:?} is not a number from {} to {}", range.start(), range.end()).into()
        })
    }

    /// `90s`, `30m`, `2h`.
    fn time(text: &str) -> Result<Duration, lexopt::Error> {
        let units = [('s', 1), ('m', 60), ('h', 3600)];
        let parsed = units.iter().find_map(|(unit, seconds)| {
            let count: u64 = text.strip_suffix(*unit)?.parse().ok()?;
            Some(Duration::from_secs(count.checked_mul(*seconds)?))
        });
        let valid = parsed.filter(|time| !time.is_zero());
        valid.ok_or_else(|| format!("{text:?} is not a time such as 90s, 30m or 2h").into())
    }

    /// An error with its causes.
    fn in_one_line(error: &dyn Error) -> String {
        let mut line = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            line += &format!(": {error}");
            cause = error.source();
        }
        line
    }
}
