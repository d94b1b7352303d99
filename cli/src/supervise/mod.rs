//! Commands under a lock, a leadership or a membership: `zkc lock`, `zkc elect`, `zkc group join`
//! and `zkc discover register`.
//!
//! [`machine`] decides, without I/O, when a command gets which signal, and [`run`] does it.
//! [`process`] starts the command, through [`exec`], and [`terminal`] lends it the terminal.

mod exec;
mod machine;
mod orders;
pub(crate) mod process;
mod run;
mod signals;
mod talk;
mod tenure;
pub(crate) mod terminal;

use std::ffi::OsString;
use std::future::pending;
use std::time::Duration;

use clap::Args;
use zk_curator::{CuratorFramework, Ownership, SessionId};
use zk_curator_recipes::inspect::within_mark;

pub(crate) use exec::run as run_exec;
pub(crate) use machine::{CommandEnding, OnSuspend, SupervisePlan};
pub(crate) use run::{SupervisedHold, supervise};
pub(crate) use signals::Signals;
pub(crate) use talk::Talk;
pub(crate) use tenure::{InSession, Tenure, Unlimited};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::node;
use crate::program::{self, Program};

/// The longest grace time by default.
const GRACE: Duration = Duration::from_secs(10);

/// The variable with the node of the lock under which a command runs.
pub(crate) const LOCK_NODE: &str = "ZKC_LOCK_NODE";

/// The variable with the session that waits for the end of a command.
const SESSION: &str = "ZKC_SESSION";

/// The variables of a command, in addition to those of this process.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// The options of a command under a lock.
#[derive(Debug, Args)]
pub(crate) struct Supervision {
    /// Time between TERM and KILL when the command is stopped [default: 10s, at most a third of
    /// the session timeout]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    grace: Option<Duration>,
    /// Reaction to a lost connection while the command runs
    #[arg(long, value_enum, value_name = "HOW", default_value = "guard")]
    on_suspend: OnSuspend,
    /// Command for `sh -c` that runs after a loss, when the command was stopped
    #[arg(long, value_name = "COMMAND")]
    on_lost: Option<String>,
    /// Run the command without standard input; Ctrl-C then reaches it through zkc
    #[arg(long)]
    no_stdin: bool,
}

impl Supervision {
    /// Returns the plan for a session.
    pub(crate) fn plan(&self, zk: &CuratorFramework, talk: &Talk) -> SupervisePlan {
        let session = zk.session().map_or(Duration::MAX, |session| session.timeout);
        if self.grace.is_some_and(|grace| grace >= session) {
            let session = humantime::format_duration(session);
            talk.say(format!(
                "--grace is not below the session timeout ({session}): \
                 without a connection, TERM comes at once"
            ));
        }
        let grace = self.grace.unwrap_or_else(|| GRACE.min(session / 3));
        SupervisePlan { on_suspend: self.on_suspend, grace, drain: None }
    }

    pub(crate) const fn no_stdin(&self) -> bool {
        self.no_stdin
    }

    /// Runs the command of `--on-lost`, until a signal asks for the end.
    pub(crate) async fn run_on_lost(
        &self,
        environment: &Environment,
        signals: &mut Signals,
        talk: &Talk,
    ) {
        let Some(command) = &self.on_lost else { return };
        let command = ["sh".into(), "-c".into(), command.into()];
        let program = Program { command: &command, environment, input: None };
        let ended = tokio::select! {
            biased;
            ended = program.run(pending()) => ended,
            _ = signals.end() => return talk.say("--on-lost: interrupted"),
        };
        match ended {
            Ok(0) => {}
            Ok(code) => talk.say(format!("--on-lost: {}", program::explain(code))),
            Err(error) => talk.say(format!("--on-lost: {error}")),
        }
    }
}

/// Returns the environment of a command under a lock.
pub(crate) fn environment(app: &App, path: &str, ownership: &Ownership) -> Environment {
    let mut environment = connection(app, ownership.framework());
    environment.extend([
        ("ZKC_LOCK_PATH", path.into()),
        (LOCK_NODE, ownership.path().into()),
        ("ZKC_FENCING_TOKEN", ownership.fencing_token().get().to_string().into()),
    ]);
    environment
}

/// Returns the variables with which `zkc` in a command finds the same nodes.
fn connection(app: &App, zk: &CuratorFramework) -> Environment {
    let global = app.global();
    let given = [
        ("ZK_CONNECT", global.servers.clone()),
        ("ZKC_CONFIG", app.config_file().map(|file| file.display().to_string())),
        ("ZKC_CONTEXT", app.used_context().map(ToOwned::to_owned)),
        ("ZKC_NAMESPACE", global.namespace.clone()),
        ("ZKC_JUTE_MAXBUFFER", global.jute_maxbuffer.map(|bytes| bytes.to_string())),
        (SESSION, zk.session().map(|session| session.id.to_string())),
    ];
    given.into_iter().filter_map(|(name, value)| Some((name, value?.into()))).collect()
}

/// Returns the variables of a command under a membership. No client waits for the end of a
/// membership, so what runs within the command is within the lock above this process, if any.
pub(crate) fn member_connection(app: &App, zk: &CuratorFramework) -> Environment {
    let mut environment = connection(app, zk);
    if let Some(outer) = std::env::var_os(SESSION)
        && let Some((_, session)) = environment.iter_mut().find(|(name, _)| *name == SESSION)
    {
        *session = outer;
    }
    environment
}

/// Adds the mark of a contender that runs under another `zkc`, which waits for its end.
pub(crate) fn mark_within(label: &mut String) {
    let outer = std::env::var(SESSION).ok().and_then(|id| node::parse_id(&id).ok());
    if let Some(outer) = outer {
        label.push_str(&within_mark(SessionId::new(outer)));
    }
}

/// Turns a failure before a command has run into one with the exit code for that.
pub(crate) fn before_the_command(failure: CommandFailure) -> CommandFailure {
    failure.with_exit(Exit::BEFORE_COMMAND)
}
