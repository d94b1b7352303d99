use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use clap::Args;
use zk_curator_ops::ensemble::probe::ProbedServer;
use zk_curator_ops::ensemble::rolling::{
    self, RollingDoubt, RollingEnd, RollingMeans, RollingOutcome, RollingProgress, RollingReport,
    RollingRestartError, RollingRow,
};
use zk_curator_ops::ensemble::words::FourLetterWord;
use zk_curator_ops::past::TimeOrAge;
use zk_curator_ops::text::shell_word;

use crate::app::App;
use crate::captured;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, OutputColumn, Rows, number, text, time};
use crate::probe::{self, ProbeArguments};
use crate::restart_command::{self, RestartCommand};
use crate::stop::{Handled, StopRequest, Stops};

/// The shortest time between two observations.
const SHORTEST: Duration = Duration::from_millis(200);

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
    options: ProbeArguments,
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
    match text.parse::<TimeOrAge>().map_err(|error| error.to_string())? {
        TimeOrAge::Age(age) => Ok(age),
        TimeOrAge::Time(time) => SystemTime::now()
            .duration_since(time)
            .map_err(|_| "the time is in the future".to_owned()),
    }
}

impl RollingRestart {
    /// Exits with 1 if a doubt stops it before the first restart, and with 8 after it.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let is_plan = !app.global().yes;
        if !is_plan {
            app.allow_change().await?;
        }
        let mut rolling = rolling::RollingRestart::find(self.options.of(app)?)
            .await?
            .wait(self.wait)
            .pause(self.pause)
            .interval(self.interval.max(SHORTEST))
            .ignore_doctor(self.ignore_doctor);
        if let Some(age) = self.since {
            rolling = rolling.least_age(age);
        }
        if !self.only.is_empty() {
            let ids = self.ids(&rolling.members().servers)?;
            rolling = rolling.only(ids);
        }
        self.check_commands(&rolling.targets().collect::<Vec<_>>())?;
        if is_plan {
            return Ok(self.output(app, &rolling.plan().await, None));
        }
        let means = CommandMeans { app, arguments: &self };
        let (mut stops, handled) = (Stops::catch()?, Handled::begin());
        let mut stop = None;
        let stopped = async || {
            stop = Some(stops.next().await);
        };
        let report = rolling.run(&means, stopped).await;
        drop(handled);
        Ok(self.output(app, &report, stop))
    }

    /// Checks that the command can be run for these servers, and differs from server to server.
    fn check_commands(&self, targets: &[&ProbedServer]) -> Result<(), CommandFailure> {
        for (place, server) in targets.iter().enumerate() {
            self.exec.of(server).map_err(|error| CommandFailure::usage(error.to_string()))?;
            let mut before = targets.iter().take(place);
            if let Some(other) = before.find(|other| self.exec.is_same_for(other, server)) {
                let text = format!("the command is the same for {other} and {server}");
                return Err(CommandFailure::usage(text).hint("use {port}, {id} or {server}"));
            }
        }
        Ok(())
    }

    /// Returns the ids of the servers that `--server` names.
    fn ids(&self, servers: &[ProbedServer]) -> Result<BTreeSet<u64>, CommandFailure> {
        let mut ids = BTreeSet::new();
        for name in &self.only {
            let is_named = |server: &&ProbedServer| {
                server.to_string() == *name || server.id.is_some_and(|id| id.to_string() == *name)
            };
            let named = servers.iter().find(is_named).ok_or_else(|| {
                let servers: Vec<_> = servers.iter().map(ProbedServer::to_string).collect();
                CommandFailure::usage(format!("no server {name}"))
                    .hint(format!("the servers: {}", servers.join(", ")))
            })?;
            let id = named.id.ok_or_else(|| {
                CommandFailure::usage(format!("{name} is not in the configuration of the ensemble"))
            })?;
            ids.insert(id);
        }
        Ok(ids)
    }

    fn output(
        &self,
        app: &App,
        report: &RollingReport,
        stop: Option<StopRequest>,
    ) -> CommandOutput {
        let (end, rows) = (&report.end, &report.rows);
        if self.since.is_some() {
            let left_out = rows.iter().filter(|row| row.outcome == RollingOutcome::LeftOut);
            left_out.for_each(|row| app.out().say(left_out_note(row)));
        }
        let reasons = end.reasons();
        for reason in &reasons {
            app.out().warn(format!("stopped: {reason}"));
        }
        if let RollingEnd::Doubtful(doubts) = end {
            advice(doubts).iter().for_each(|line| app.out().warn(line));
        }
        say_what_is_left(app, report);
        let exit = match (end, stop) {
            (RollingEnd::Done | RollingEnd::Planned, _) => Exit::DONE,
            _ if report.has_begun() => Exit::PARTLY,
            (RollingEnd::Stopped, Some(stop)) => Exit::of_command(stop.code()),
            _ => Exit::NO,
        };
        CommandOutput::from(table(rows, end, &reasons)).with_exit(exit)
    }
}

/// Says how to continue.
fn say_what_is_left(app: &App, report: &RollingReport) {
    for row in report.rows.iter().filter(|row| row.outcome == RollingOutcome::Unchecked) {
        let server = &row.server;
        app.out().say(format!("check {server}: the run ended before all was in order again"));
    }
    let to_do: Vec<_> = report.to_do().collect();
    match report.end {
        RollingEnd::Planned | RollingEnd::Done if to_do.is_empty() && !report.has_begun() => {
            app.out().say("nothing to restart");
        }
        RollingEnd::Planned => app.out().say("pass --yes to restart them in this order"),
        RollingEnd::Done => {}
        _ if !report.has_begun() => app.out().say("no server was restarted"),
        _ if to_do.is_empty() => app.out().say("no server is left; see zkc status"),
        _ => {
            let left = to_do.iter().map(|row| &row.server);
            app.out().say(format!("to continue, pass {}", arguments(left)));
        }
    }
}

/// Returns the arguments for another run. The hosts are data, and the brackets of an address are a
/// pattern of the shell.
fn arguments<'a>(servers: impl Iterator<Item = &'a ProbedServer>) -> String {
    let arguments = servers.map(|server| format!("--server {}", shell_word(&server.to_string())));
    arguments.collect::<Vec<_>>().join(" ")
}

/// Returns how to remove doubts about servers that report too little.
fn advice(doubts: &[RollingDoubt]) -> Vec<String> {
    let mut lines = Vec::new();
    if doubts.iter().any(|doubt| matches!(doubt, RollingDoubt::NoId(_))) {
        lines.push(probe::whitelist(&[FourLetterWord::Conf]));
    }
    if doubts.iter().any(|doubt| matches!(doubt, RollingDoubt::NoUptime(_))) {
        lines.push("servers before 3.6 do not report it: pass --server in place of --since".into());
    }
    lines
}

fn left_out_note(row: &RollingRow) -> String {
    let up = row.uptime.map(|up| format!(" (for {})", time::duration(up))).unwrap_or_default();
    let server = &row.server;
    format!(
        "note: {server} is left out: its role is younger{up}: it has restarted, or taken part in \
         an election"
    )
}

/// Returns the table. The reasons are in the row of the server where the run has stopped.
fn table(rows: &[RollingRow], end: &RollingEnd, reasons: &[String]) -> Rows {
    let is_open = |outcome| matches!(outcome, RollingOutcome::Unchecked | RollingOutcome::Failed);
    let stopped = rows.iter().position(|row| is_open(row.outcome));
    let stopped = stopped.or_else(|| rows.iter().position(|row| row.number.is_some()));
    let mut table = Rows::new(COLUMNS);
    for (place, row) in rows.iter().enumerate() {
        let is_reason = Some(place) == stopped && !reasons.is_empty();
        table.push(vec![
            row.server.to_string().into(),
            row.number.into(),
            row.role.as_ref().map(ToString::to_string).into(),
            row.uptime.map(time::span).into(),
            result(row.outcome, end).into(),
            row.took.map(time::span).into(),
            row.server.id.into(),
            is_reason.then(|| reasons.join("; ")).into(),
        ]);
    }
    table
}

fn result(outcome: RollingOutcome, end: &RollingEnd) -> &'static str {
    match outcome {
        RollingOutcome::Left if *end == RollingEnd::Planned => "planned",
        outcome => outcome.name(),
    }
}

/// Restarts by a command of the user.
struct CommandMeans<'a> {
    app: &'a App,
    arguments: &'a RollingRestart,
}

impl RollingMeans for CommandMeans<'_> {
    async fn restart(&self, server: &ProbedServer) -> Result<(), RollingRestartError> {
        let line = self.arguments.exec.of(server);
        let line = line.map_err(|error| RollingRestartError::not_started(server, error))?;
        let within = self.arguments.exec_timeout;
        let run = captured::run(&line, restart_command::environment(server), within).await;
        let captured = run.map_err(|error| RollingRestartError::not_started(server, error))?;
        let result = match captured.status {
            None => Err(RollingRestartError::timed_out(server, within)),
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(RollingRestartError::failed(server, status)),
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

    fn report(&self, progress: &RollingProgress) {
        self.app.out().say(match progress {
            RollingProgress::Restarting { .. } => progress.to_string(),
            RollingProgress::Finishing(_) => {
                format!("  {progress}; a second Ctrl-C kills the command")
            }
            _ => format!("  {progress}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_that_are_left_are_words_of_a_shell() {
        let servers = ["zk1", "::1", "a;b"].map(|host| ProbedServer::new(host, 2181));
        assert_eq!(
            arguments(servers.iter()),
            "--server zk1:2181 --server '[::1]:2181' --server 'a;b:2181'"
        );
    }

    #[test]
    fn a_time_is_a_date_or_a_duration() {
        assert_eq!(since("2h"), Ok(Duration::from_secs(7_200)));
        assert!(since("2000-01-01T00:00:00Z").is_ok_and(|age| age > Duration::from_secs(1)));
        assert!(since("2000-01-01 00:00:00").is_ok());
        assert_eq!(since("9000-01-01T00:00:00Z"), Err("the time is in the future".to_owned()));
        assert!(since("yesterday").is_err());
    }
}
