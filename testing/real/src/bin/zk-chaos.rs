//! Disturbs clients of the scenarios, and their Apache ZooKeeper, in real time. `--help` lists the
//! options.
#![cfg_attr(
    unix,
    expect(clippy::print_stderr, clippy::print_stdout, reason = "a program talks to its terminal")
)]

use std::process::ExitCode;

#[cfg(unix)]
#[cfg(not(unix))]
fn main() -> ExitCode {
    // Chaos needs SIGSTOP.
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
    use tokio::runtime::Runtime;
    use zk_curator_real::chaos::{Chaos, Report};
    use zk_curator_sim::{Scenario, Sim, scenarios};
    use zk_curator_testing::{stop_signal, with_causes};

    const HELP: &str = "\
Runs clients of the scenarios, each in a process of its own, on an ensemble of Apache ZooKeeper. Kills, stops and
partitions servers and clients, and ends sessions. Checks the histories of the clients, as zk-sim does.

usage: zk-chaos [OPTION…]

The exit code is 1 after a violation, or if a run of at least a minute has achieved nothing in a scenario; and 2 if the
run could not be made, or no round could be judged, because ZooKeeper before 3.9.4 may lose acknowledged transactions.

  --scenario NAME[,NAME…]|all   the scenarios, which run together on one ensemble [all]
  --without NAME[,NAME…]      the scenarios to leave out
  --duration TIME             the total duration of the faults: 90s, 30m, 2h [1m]
  --round TIME                the duration of the faults of a round, after which all clients finish and are judged [1m]
  --clients N                 the number of client processes of each scenario [4]
  --servers N                 the number of servers [3]
  --seed N                    the seed of the faults and of the clients' choices; incremented for each round [0]
  --list                      print the names of the scenarios
  -h, --help                  print this";

    /// The time that the start of servers has to notice the end of the program. It would otherwise
    /// last until they serve, which they may never do. Servers that it has started end with this
    /// process.
    const END_TIMEOUT: Duration = Duration::from_secs(1);

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
            eprintln!("zk-chaos: {}", with_causes(&*error));
            ExitCode::from(2)
        })
    }

    fn run(chaos: &Chaos) -> Result<ExitCode, Box<dyn Error>> {
        let runtime = Runtime::new()?;
        let code = runtime.block_on(run_until_stopped(chaos));
        runtime.shutdown_timeout(END_TIMEOUT);
        code
    }

    async fn run_until_stopped(chaos: &Chaos) -> Result<ExitCode, Box<dyn Error>> {
        // Without this handler, a signal would leave servers and clients behind.
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
        let judged = usize::try_from(report.rounds).is_ok_and(|rounds| rounds > report.void.len());
        let is_sound = report.found.is_empty() && report.missing.is_empty();
        Ok(match (is_sound, judged) {
            (false, _) => ExitCode::FAILURE,
            (true, true) => ExitCode::SUCCESS,
            (true, false) => ExitCode::from(2),
        })
    }

    fn all() -> impl Iterator<Item = (&'static str, Sim)> {
        scenarios::ALL.iter().map(subject)
    }

    /// Returns the scenarios that must not fail.
    fn sound() -> impl Iterator<Item = (&'static str, Sim)> {
        scenarios::ALL.iter().filter(|scenario| !scenario.is_demonstration()).map(subject)
    }

    fn subject(scenario: &Scenario) -> (&'static str, Sim) {
        (scenario.name(), Sim::seed(0).scenario(scenario))
    }

    fn parse(mut arguments: Parser) -> Result<Task, lexopt::Error> {
        let mut subjects: Vec<(&str, Sim)> = sound().collect();
        let mut without = Vec::new();
        let mut change: Vec<Box<dyn FnOnce(Chaos) -> Chaos>> = Vec::new();
        while let Some(argument) = arguments.next()? {
            match argument {
                Arg::Long("help") | Arg::Short('h') => return Ok(Task::Print(HELP.to_owned())),
                Arg::Long("list") => {
                    let names: Vec<&str> = all().map(|(name, _)| name).collect();
                    return Ok(Task::Print(names.join("\n")));
                }
                Arg::Long("scenario") => subjects = named(&arguments.value()?.string()?)?,
                Arg::Long("without") => without = named(&arguments.value()?.string()?)?,
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
        subjects.retain(|(name, _)| without.iter().all(|(other, _)| other != name));
        if subjects.is_empty() {
            return Err("no scenario is left".into());
        }
        let chaos = change.into_iter().fold(Chaos::of(subjects), |chaos, change| change(chaos));
        Ok(Task::Run(chaos))
    }

    fn named(names: &str) -> Result<Vec<(&'static str, Sim)>, lexopt::Error> {
        if names == "all" {
            return Ok(sound().collect());
        }
        let named = |name: &str| {
            let scenario = scenarios::named(name)
                .ok_or_else(|| format!("there is no scenario {name}; see --list"))?;
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

    /// Parses a time such as `90s`, `30m` or `2h`.
    fn time(text: &str) -> Result<Duration, lexopt::Error> {
        let units = [('s', 1), ('m', 60), ('h', 3600)];
        let parsed = units.iter().find_map(|(unit, seconds)| {
            let count: u64 = text.strip_suffix(*unit)?.parse().ok()?;
            Some(Duration::from_secs(count.checked_mul(*seconds)?))
        });
        let valid = parsed.filter(|time| !time.is_zero());
        valid.ok_or_else(|| format!("{text:?} is not a time such as 90s, 30m or 2h").into())
    }
}
