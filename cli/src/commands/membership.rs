//! A command while a membership lasts: `zkc group join` and `zkc discover register`.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use clap::Args;
use tokio::time::timeout;
use zk_curator::CuratorFramework;

use crate::exit::{self, CommandFailure, Exit};
use crate::supervise::process::{CommandSpec, ProcessGroup};
use crate::supervise::{
    CommandEnding, Environment, Signals, SupervisePlan, SupervisedHold, Supervision, Talk,
    before_the_command, supervise,
};

/// The longest wait for the response to the end of a membership.
const PATIENCE: Duration = Duration::from_secs(5);

/// The help of both commands.
const HELP: &str = "\
With a command, the membership begins before the command, and ends after it. The command is started \
and stopped as by `zkc lock`: without a shell, in a process group of its own, which gets the signals. \
If the session ends, or another client deletes the node, the command is stopped; without a \
connection it is stopped before other clients can see the membership end. See `zkc lock --help`. With \
--rejoin, the command continues instead, and the membership begins again in the next session.

Environment of the command:
{variables}
  ZKC_SESSION        the session; under a `zkc lock` or `zkc elect`, the session of that one
  ZKC_DEADLINE_FD    a descriptor for reading, at its end when the command should stop
  ZK_CONNECT, ZKC_CONFIG, ZKC_CONTEXT, ZKC_NAMESPACE, ZKC_JUTE_MAXBUFFER, as used by zkc

{codes}";

/// Returns the help of a command with these variables and these exit codes, each with its meaning.
pub(super) fn help(variables: &[(&str, &str)], own: &[(Exit, &str)]) -> String {
    let lines: Vec<_> =
        variables.iter().map(|(name, meaning)| format!("  {name:<18} {meaning}")).collect();
    let mut codes = vec![(Exit::DONE, "without a command: ended by a signal")];
    codes.extend(own);
    codes.push((Exit::LOCK_LOST, "the membership was lost, and the command was stopped"));
    let of_command = "the code of the command, 128+n if signal n has ended it";
    let codes = exit::around_a_command(of_command, &codes);
    HELP.replace("{variables}", &lines.join("\n")).replace("{codes}", &codes)
}

/// The command of a member.
#[derive(Debug, Args)]
pub(crate) struct Under {
    #[command(flatten)]
    supervision: Supervision,
    /// Continue when the session is lost, and begin the membership again in the next one
    #[arg(long, conflicts_with_all = ["grace", "on_suspend", "on_lost"])]
    rejoin: bool,
    /// Command with its arguments; without one, the membership lasts until a signal
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The environment of a command under a membership, and its means to talk.
pub(super) struct Scene<'a> {
    pub(super) zk: &'a CuratorFramework,
    pub(super) environment: Environment,
    pub(super) signals: &'a mut Signals,
    pub(super) talk: &'a Talk,
}

impl Under {
    /// Returns `true` if there is a command.
    pub(super) const fn is_given(&self) -> bool {
        !self.command.is_empty()
    }

    pub(super) const fn rejoins(&self) -> bool {
        self.rejoin
    }

    /// Runs the command to its end.
    pub(super) async fn run(
        &self,
        hold: SupervisedHold<'_>,
        drain: Option<Duration>,
        scene: &mut Scene<'_>,
    ) -> Result<CommandEnding, CommandFailure> {
        let plan = SupervisePlan { drain, ..self.supervision.plan(scene.zk, scene.talk) };
        let start = CommandSpec {
            command: &self.command,
            environment: &scene.environment,
            no_stdin: self.supervision.no_stdin(),
        };
        let group = ProcessGroup::start(&start).map_err(|error| {
            before_the_command(CommandFailure::usage(format!("not started: {error}")))
        })?;
        Ok(supervise(hold, group, plan, scene.signals, scene.talk).await)
    }

    /// Runs the command of `--on-lost`, if the command was stopped.
    pub(super) async fn after(&self, ending: &CommandEnding, scene: &mut Scene<'_>) {
        if ending.stopped.is_some() {
            self.supervision.run_on_lost(&scene.environment, scene.signals, scene.talk).await;
        }
    }
}

/// Ends a membership. Without a connection, the session ends it.
pub(super) async fn end<E: fmt::Display>(
    scene: &Scene<'_>,
    ended: impl Future<Output = Result<(), E>>,
) {
    const UNCONFIRMED: &str = "the end of the membership is not confirmed";
    let talk = scene.talk;
    if !scene.zk.state().is_connected() {
        return talk.say(format!("{UNCONFIRMED}; it ends with its session"));
    }
    match timeout(PATIENCE, ended).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => talk.say(format!("{UNCONFIRMED}: {error}")),
        Err(_) => talk.say(format!("{UNCONFIRMED}; it ends with its session")),
    }
}
