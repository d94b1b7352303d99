use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use futures_util::future::join_all;

use crate::app::App;
use crate::captured;
use crate::ensemble::doctor::disks;
use crate::ensemble::flw::Word;
use crate::ensemble::members::{self, EnsembleMembers};
use crate::ensemble::probe::{self, ProbeOptions, Server};
use crate::ensemble::rolling::command::{self, RestartCommand};
use crate::ensemble::rolling::driver::{self, RollingMeans};
use crate::ensemble::rolling::events::{
    RestartResult, RestartRow, RollingEnd, RollingProgress, RollingRules,
};
use crate::ensemble::rolling::observation::{self, Observation};
use crate::ensemble::rolling::plan::Rolling;
use crate::ensemble::rolling::{Doubt, RestartError};
use crate::ensemble::sessions;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, number, text, time};
use crate::stop::{Handled, StopRequest, Stops};

/// The shortest time between two observations.
const SHORTEST: Duration = Duration::from_millis(200);

/// The words of an observation, and of a thorough one: those of `zkc doctor`.
const LIGHT: [Word; 3] = [Word::Srvr, Word::Mntr, Word::Conf];
const THOROUGH: [Word; 6] =
    [Word::Srvr, Word::Mntr, Word::Conf, Word::Cons, Word::Wchs, Word::Dump];

const AFTER_HELP: &str = "\
Without --yes, it only shows the plan. Observers are restarted first, then the followers, and the \
leader last. A server is restarted only if all members serve, the others are a quorum, none is \
behind, and zkc doctor finds no error. Then it has to restart, to be the same member, and to catch \
up, and all of this has to be true several times in a row before the next restart. A doubt stops \
the run, which prints the servers that are left. Ctrl-C stops it before the next restart.

The command runs without input and without a terminal, so it cannot ask for a password. Its \
output is shown if it fails, or with --verbose. If it starts a server in the background, it has to \
redirect the output of the server.";

/// The arguments of `zkc rolling-restart`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RollingRestart {
    /// Command for `sh -c` that restarts one server. `{host}`, `{port}`, `{id}` and `{server}`
    /// (host:port) are replaced; the variables ZK_HOST, ZK_PORT, ZK_ID and ZK_SERVER have the same
    /// values
    #[arg(long, value_name = "COMMAND")]
    exec: RestartCommand,
    /// Time limit of the command; it is killed then
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    exec_timeout: Duration,
    /// Restart only this server: HOST:PORT, or its id. Repeatable
    #[arg(long = "server", value_name = "SERVER")]
    only: Vec<String>,
    /// Leave out the servers whose role began after this time: they have restarted, or taken part
    /// in an election. A time such as 2026-11-30T14:00:00Z, or a duration such as 2h. Servers
    /// before 3.6 do not report it
    #[arg(long, value_name = "TIME", value_parser = since, conflicts_with = "only")]
    since: Option<Duration>,
    /// Time after a restart in which the ensemble has to be in order again
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    wait: Duration,
    /// Least time between an ensemble in order and the next restart
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pause: Duration,
    /// Time between two observations, from 200ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// Continue in spite of errors that zkc doctor finds. Quorum, members and lag are still checked
    #[arg(long)]
    ignore_doctor: bool,
    #[command(flatten)]
    options: ProbeOptions,
}

const COLUMNS: &[OutputColumn] = &[
    text("server"),
    number("step"),
    text("role"),
    number("up"),
    text("result"),
    number("took"),
    number("id").wide(),
    text("reason").wide(),
];

/// Parses a time, or the time since then.
fn since(text: &str) -> Result<Duration, String> {
    if let Ok(duration) = humantime::parse_duration(text) {
        return Ok(duration);
    }
    let time = humantime::parse_rfc3339_weak(text);
    let time = time.map_err(|_| "not a time in UTC, and not a duration".to_owned())?;
    SystemTime::now().duration_since(time).map_err(|_| "the time is in the future".to_owned())
}

impl RollingRestart {
    /// Exits with 1 if a doubt stops it before the first restart, and with 8 after it.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let is_dry_run = !app.global().yes;
        if !is_dry_run {
            app.allow_change().await?;
        }
        let found = members::find(app, &self.options).await?;
        let targets = self.targets(&found.servers)?;
        let chosen = |server: &&Server| server.id.is_some_and(|id| targets.contains(&id));
        for server in found.servers.iter().filter(chosen) {
            self.exec.of(server).map_err(|error| CommandFailure::usage(error.to_string()))?;
        }
        let rules = RollingRules {
            targets,
            least_age: self.since,
            wait: self.wait,
            pause: self.pause,
            is_dry_run,
        };
        let mut rolling = Rolling::new(&found, rules);
        let means = CommandMeans { app, arguments: &self, found: &found, started: Instant::now() };
        let mut stops = Stops::catch()?;
        let handled = Handled::begin();
        let mut stop = None;
        let stopped = async || {
            stop = Some(stops.next().await);
        };
        let every = self.interval.max(SHORTEST);
        driver::run(&mut rolling, &means, every, stopped).await;
        drop(handled);
        Ok(self.output(app, &rolling, stop))
    }

    /// Returns the ids of the servers to restart.
    fn targets(&self, servers: &[Server]) -> Result<BTreeSet<u64>, CommandFailure> {
        if self.only.is_empty() {
            return Ok(servers.iter().filter_map(|server| server.id).collect());
        }
        let mut targets = BTreeSet::new();
        for name in &self.only {
            let is_named = |server: &&Server| {
                server.to_string() == *name || server.id.is_some_and(|id| id.to_string() == *name)
            };
            let named = servers.iter().find(is_named).ok_or_else(|| {
                let servers: Vec<_> = servers.iter().map(Server::to_string).collect();
                CommandFailure::usage(format!("no server {name}"))
                    .hint(format!("the servers: {}", servers.join(", ")))
            })?;
            targets.extend(named.id);
        }
        Ok(targets)
    }

    fn output(&self, app: &App, rolling: &Rolling, stop: Option<StopRequest>) -> CommandOutput {
        let end = rolling.end().unwrap_or(&RollingEnd::Stopped);
        let rows = rolling.rows();
        if self.since.is_some() {
            let left_out = rows.iter().filter(|row| row.result == RestartResult::LeftOut);
            left_out.for_each(|row| app.out().say(left_out_note(row)));
        }
        let reasons = reasons(end);
        for reason in &reasons {
            app.out().warn(format!("stopped: {reason}"));
        }
        if let RollingEnd::Doubtful(doubts) = end {
            advice(doubts).iter().for_each(|line| app.out().warn(line));
        }
        say_what_is_left(app, end, &rows, rolling.has_begun());
        let exit = match (end, stop) {
            (RollingEnd::Done | RollingEnd::Planned, _) => Exit::DONE,
            _ if rolling.has_begun() => Exit::PARTLY,
            (RollingEnd::Stopped, Some(stop)) => Exit::of_command(stop.code()),
            _ => Exit::NO,
        };
        CommandOutput::from(table(&rows, end, &reasons)).with_exit(exit)
    }
}

/// Says how to continue.
fn say_what_is_left(app: &App, end: &RollingEnd, rows: &[RestartRow], has_begun: bool) {
    for row in rows.iter().filter(|row| row.result == RestartResult::Unchecked) {
        let server = &row.server;
        app.out().say(format!("check {server}: its command has ended, and the run ended early"));
    }
    let is_to_do =
        |row: &&RestartRow| matches!(row.result, RestartResult::Left | RestartResult::Failed);
    let to_do: Vec<_> = rows.iter().filter(is_to_do).collect();
    match end {
        RollingEnd::Planned | RollingEnd::Done if to_do.is_empty() && !has_begun => {
            app.out().say("nothing to restart");
        }
        RollingEnd::Planned => app.out().say("pass --yes to restart them in this order"),
        RollingEnd::Done => {}
        _ if !has_begun => app.out().say("no server was restarted"),
        _ if to_do.is_empty() => app.out().say("no server is left; see zkc status"),
        _ => {
            let left: Vec<_> = to_do.iter().map(|row| format!("--server {}", row.server)).collect();
            app.out().say(format!("to continue, pass {}", left.join(" ")));
        }
    }
}

/// Returns the reasons of an end before the last restart.
fn reasons(end: &RollingEnd) -> Vec<String> {
    match end {
        RollingEnd::Done | RollingEnd::Planned => Vec::new(),
        RollingEnd::Doubtful(doubts) => doubts.iter().map(Doubt::to_string).collect(),
        RollingEnd::CommandFailed(error) => vec![error.to_string()],
        RollingEnd::Stopped => vec!["interrupted".to_owned()],
    }
}

/// Returns how to remove doubts about servers that report too little.
fn advice(doubts: &[Doubt]) -> Vec<String> {
    let mut lines = Vec::new();
    if doubts.iter().any(|doubt| matches!(doubt, Doubt::NoId(_))) {
        lines.push(sessions::whitelist(&["conf"]));
    }
    if doubts.iter().any(|doubt| matches!(doubt, Doubt::NoUptime(_))) {
        lines.push("servers before 3.6 do not report it: pass --server in place of --since".into());
    }
    lines
}

fn left_out_note(row: &RestartRow) -> String {
    let up = row.uptime.map(|up| format!(" (for {})", time::duration(up))).unwrap_or_default();
    let server = &row.server;
    format!(
        "note: {server} is left out: its role is younger{up}: it has restarted, or taken part in \
         an election"
    )
}

/// Returns the table. The reasons are in the row of the server where the run has stopped.
fn table(rows: &[RestartRow], end: &RollingEnd, reasons: &[String]) -> Rows {
    let is_open = |result| matches!(result, RestartResult::Unchecked | RestartResult::Failed);
    let stopped = rows.iter().position(|row| is_open(row.result));
    let stopped = stopped.or_else(|| rows.iter().position(|row| row.number.is_some()));
    let mut table = Rows::new(COLUMNS);
    for (place, row) in rows.iter().enumerate() {
        let is_reason = Some(place) == stopped && !reasons.is_empty();
        table.push(vec![
            row.server.to_string().into(),
            row.number.into(),
            row.role.as_ref().map(ToString::to_string).into(),
            row.uptime.map(span).into(),
            result_name(row.result, end).into(),
            row.took.map(span).into(),
            row.server.id.into(),
            is_reason.then(|| reasons.join("; ")).into(),
        ]);
    }
    table
}

fn span(span: Duration) -> Cell {
    let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Cell::new(time::duration(span), ms)
}

fn result_name(result: RestartResult, end: &RollingEnd) -> &'static str {
    match result {
        RestartResult::Restarted => "restarted",
        RestartResult::Unchecked => "unchecked",
        RestartResult::Failed => "failed",
        RestartResult::Left if *end == RollingEnd::Planned => "planned",
        RestartResult::Left => "left",
        RestartResult::LeftOut => "left-out",
    }
}

/// Asks by words, and restarts by a command.
struct CommandMeans<'a> {
    app: &'a App,
    arguments: &'a RollingRestart,
    found: &'a EnsembleMembers,
    started: Instant,
}

impl RollingMeans for CommandMeans<'_> {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    async fn observe(&self, is_thorough: bool) -> Observation {
        let (options, servers) = (&self.arguments.options, &self.found.servers);
        let words: &[Word] = if is_thorough { &THOROUGH } else { &LIGHT };
        let config = async {
            if !is_thorough {
                return None;
            }
            members::find(self.app, options).await.ok()?.config
        };
        let asked = servers.iter().filter(|_| is_thorough);
        let settings = join_all(asked.map(|server| probe::settings(server, options)));
        let reports = probe::ask_all(servers, words, options);
        let (config, settings, reports) = tokio::join!(config, settings, reports);
        let findings = if self.arguments.ignore_doctor {
            Vec::new()
        } else {
            let max_packet = disks::max_packet(settings.iter());
            observation::findings(&reports, self.found.voters(), max_packet)
        };
        Observation::of(self.now(), &reports, config.as_ref(), findings, is_thorough)
    }

    async fn restart(&self, server: &Server) -> Result<(), RestartError> {
        let not_started = |why: String| RestartError::NotStarted { server: server.clone(), why };
        let line =
            self.arguments.exec.of(server).map_err(|error| not_started(error.to_string()))?;
        let within = self.arguments.exec_timeout;
        let run = captured::run(&line, command::environment(server), within).await;
        let captured = run.map_err(|error| not_started(error.to_string()))?;
        let result = match captured.status {
            None => Err(RestartError::TimedOut { server: server.clone(), within }),
            Some(status) if status.success() => Ok(()),
            Some(status) => {
                Err(RestartError::Failed { server: server.clone(), why: status.to_string() })
            }
        };
        for line in captured.output.lines() {
            let line = format!("  | {line}");
            if result.is_err() {
                self.app.out().warn(line);
            } else {
                self.app.out().detail(line);
            }
        }
        result
    }

    fn report(&self, news: &RollingProgress) {
        self.app.out().say(match news {
            RollingProgress::Restarting { server, role, number, total } => {
                format!("{number}/{total} {server} ({role}): restart")
            }
            RollingProgress::Waiting(doubts) => {
                let doubts: Vec<_> = doubts.iter().map(Doubt::to_string).collect();
                format!("  waiting: {}", doubts.join("; "))
            }
            RollingProgress::Back { server, took } => {
                format!("  {server} serves again after {}", time::duration(*took))
            }
            RollingProgress::Finishing(server) => format!(
                "  stopping after the command of {server}; a second Ctrl-C kills the command"
            ),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_a_duration() {
        assert_eq!(since("2h"), Ok(Duration::from_secs(7_200)));
        assert!(since("2000-01-01T00:00:00Z").is_ok_and(|age| age > Duration::from_secs(1)));
        assert!(since("2000-01-01 00:00:00").is_ok());
        assert_eq!(since("9000-01-01T00:00:00Z"), Err("the time is in the future".to_owned()));
        assert!(since("yesterday").is_err());
    }
}
