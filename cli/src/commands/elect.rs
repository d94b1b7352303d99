use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_client::internal::sleep;
use zk_curator_recipes::leader::{Error, LatchState, LeaderLatch, Leadership};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport, printable};
use crate::supervise::process::{CommandSpec, ProcessGroup};
use crate::supervise::{
    CommandEnding, Environment, Signals, SupervisedHold, Supervision, Talk, before_the_command,
    environment, mark_within, supervise,
};
use crate::{node, path};

/// The pause between two terms.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest wait for the end of a candidacy.
const PATIENCE: Duration = Duration::from_secs(5);

const AFTER_HELP: &str = "\
An election is a node with a child for each candidate, in the layout of Apache Curator's \
LeaderLatch: Java services and scripts can be in one election. The leader runs the command. When \
the command ends, the candidate leaves the election, and joins it again a second later at its end, \
unless --once is given or a signal has asked for the end. After a lost leadership it also joins \
again.

The command is started and stopped as by `zkc lock`, with the same environment and the same ignored \
signals; ZKC_LOCK_PATH is the election. See `zkc lock --help`.

If it runs under a `zkc lock` or another `zkc elect`, the id in the node ends with the session of that \
one, as in `host-1 (within 0x1f)`, so that `zkc deadlocks` finds processes that wait for each other.

With --observe, a line is printed for each leader: `leader`, its id and its token, with tabs between \
them, and `none` when there is no leader. The first line is the present state.";

fn after_help() -> String {
    let codes = crate::exit::around_a_command(
        "the code of the command with --once, or if a signal has asked for the end",
        &[(Exit::LOCK_LOST, "with --once: the leadership was lost, and the command was stopped")],
    );
    format!("{AFTER_HELP}\n\n{codes}")
}

/// The arguments of `zkc elect`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Elect {
    /// Election
    #[arg(value_parser = path::parse)]
    path: String,
    /// Print the leaders, without taking part
    #[arg(long, conflicts_with_all = ["id", "once", "command"])]
    observe: bool,
    /// Id of this candidate, which other clients see
    #[arg(long, required_unless_present = "observe")]
    id: Option<String>,
    /// End with the command, after one term
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    supervision: Supervision,
    /// Command with its arguments
    #[arg(last = true, required_unless_present = "observe", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The end of a term.
enum TermEnd {
    /// A signal came while the candidate waited.
    Interrupted(Exit),
    Ended {
        ending: CommandEnding,
        environment: Environment,
    },
}

impl Elect {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        if self.observe {
            let zk = app.zk().await?;
            let mut signals = Signals::catch()?;
            return tokio::select! {
                biased;
                _ = signals.end() => Ok(CommandOutput::nothing()),
                printed = self.print_leaders(app, zk) => printed.map(|()| CommandOutput::nothing()),
            };
        }
        // It may ask for a confirmation, which Ctrl-C ends.
        let zk = app.zk_to_change().await.map_err(before_the_command)?;
        let mut signals = Signals::catch()?;
        let talk = Talk::new(app.out());
        loop {
            let ending = match self.term(app, zk, &mut signals, &talk).await? {
                TermEnd::Interrupted(exit) => return Ok(exit.into()),
                TermEnd::Ended { ending, .. } => ending,
            };
            let exit = Exit::of_command(ending.code);
            if self.once
                || ending.by_user
                || [Exit::NOT_EXECUTABLE, Exit::NOT_FOUND].contains(&exit)
            {
                return Ok(exit.into());
            }
            talk.say(format!("the command has ended with code {}; joins again", ending.code));
            tokio::select! {
                biased;
                signal = signals.end() => return Ok(Exit::of_command(signal.code()).into()),
                () = sleep(PAUSE) => {}
            }
        }
    }

    /// Joins the election, and runs the command as the leader.
    async fn term(
        &self,
        app: &App,
        zk: &CuratorFramework,
        signals: &mut Signals,
        talk: &Talk,
    ) -> Result<TermEnd, CommandFailure> {
        let mut id = self.id.clone().unwrap_or_default();
        mark_within(&mut id);
        let candidate = LeaderLatch::new(zk, &self.path).id(id).join();
        let elected = async {
            loop {
                match candidate.await_leadership().await {
                    Err(Error::Framework(error)) if error.is_retryable() => {
                        talk.say(format!("not elected yet: {error}"));
                        sleep(PAUSE).await;
                    }
                    elected => return elected,
                }
            }
        };
        let leadership = tokio::select! {
            biased;
            signal = signals.end() => Err(signal),
            elected = elected => Ok(elected.map_err(|error| before_the_command(error.into()))?),
        };
        let term = match leadership {
            Err(signal) => TermEnd::Interrupted(Exit::of_command(signal.code())),
            Ok(leadership) => {
                let token = leadership.fencing_token();
                talk.say(format!("leads {} token={token}", self.path));
                let environment = environment(app, &self.path, leadership.ownership());
                // The candidate watches its node: no request.
                let mut states = candidate.states();
                let over =
                    async move { while let Some(LatchState::Leader(_)) = states.next().await {} };
                let ending = self.lead(&leadership, over, &environment, signals, talk).await?;
                TermEnd::Ended { ending, environment }
            }
        };
        match timeout(PATIENCE, candidate.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => talk.say(format!("the end of the candidacy: {error}")),
            Err(_) => talk.say("the end of the candidacy is not confirmed yet"),
        }
        if let TermEnd::Ended { ending: CommandEnding { stopped: Some(_), .. }, environment } =
            &term
        {
            self.supervision.run_on_lost(environment, signals, talk).await;
        }
        Ok(term)
    }

    async fn lead(
        &self,
        leadership: &Leadership,
        over: impl Future<Output = ()> + Send,
        environment: &Environment,
        signals: &mut Signals,
        talk: &Talk,
    ) -> Result<CommandEnding, CommandFailure> {
        let ownership = leadership.ownership();
        let start = CommandSpec {
            command: &self.command,
            environment,
            no_stdin: self.supervision.no_stdin(),
        };
        let group = ProcessGroup::start(&start).map_err(|error| {
            before_the_command(CommandFailure::usage(format!("not started: {error}")))
        })?;
        let hold =
            SupervisedHold { asked: Box::pin(over), ..SupervisedHold::of(ownership, "leadership") };
        let plan = self.supervision.plan(ownership.framework(), talk);
        Ok(supervise(hold, group, plan, signals, talk).await)
    }

    /// Prints each leader, until the reader of the pipe is gone.
    async fn print_leaders(&self, app: &App, zk: &CuratorFramework) -> Result<(), CommandFailure> {
        let mut leaders = LeaderLatch::new(zk, &self.path).observe();
        loop {
            let answer = match leaders.next().await? {
                Some(leader) => {
                    let (id, token) = (leader.label_str(), leader.fencing_token);
                    let value = json!({
                        "leader": id,
                        "token": node::hex(token.get()),
                        "node": leader.path,
                    });
                    let id = printable(&id);
                    TextReport::new(format!("leader\t{id}\t{token}"), value)
                        .names([id])
                        .in_one_line()
                }
                None => TextReport::new("none", json!({ "leader": null })).in_one_line(),
            };
            if !app.out().print_next(&answer.into())? {
                return Ok(());
            }
        }
    }
}
