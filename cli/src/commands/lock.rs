use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use nix::unistd::gethostname;
use serde_json::json;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_client::internal::sleep;
use zk_curator_recipes::lock::{
    AnyGuard, Error, InterProcessLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore,
};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport};
use crate::supervise::process::{CommandSpec, ProcessGroup};
use crate::supervise::{
    Signals, SupervisedHold, Supervision, Talk, before_the_command, environment, mark_within,
    supervise,
};
use crate::{node, path};

/// The time after which a waiting client says so.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pause after a failure while it waits.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest wait for the response to a release.
const RELEASE: Duration = Duration::from_secs(5);

const AFTER_HELP: &str = "\
A lock is a node with a child for each client that holds it or waits for it, in the layout of \
Apache Curator: InterProcessMutex, with --shared or --exclusive InterProcessReadWriteLock, with \
--permits InterProcessSemaphoreV2. Java services and scripts exclude each other.

The command runs without a shell, in a process group of its own, and gets INT, TERM, HUP, QUIT, \
USR1, USR2 and WINCH. The second INT is KILL. If standard input is a terminal, the command has it, \
and Ctrl-C goes to the command directly. Ctrl-Z is refused: a suspended holder would block all \
others. Processes that the command leaves behind when it ends by itself are not stopped. If zkc is \
killed, the process group of the command is killed too.

Signals that zkc was started to ignore, as HUP by nohup, or INT and QUIT by a script with `&`, stay \
ignored in zkc and in the command. TERM always ends them.

Without a connection, the lock is certainly held until the session timeout has passed since the \
last request to which a server responded. With `--on-suspend guard`, the command gets TERM the grace \
time before that moment, and KILL at it, so that no other client holds the lock while the command \
runs. If zkc itself does not run, the process that watches it does the same. That relies on the \
rates of clocks, and on a machine that runs: after a pause of the whole machine, another client may \
hold the lock for a moment. Writes with `zkc set --fenced` are refused then.

Environment of the command:
  ZKC_LOCK_PATH      the lock
  ZKC_LOCK_NODE      the node of the holder; `zkc set --fenced` needs it
  ZKC_FENCING_TOKEN  a number that grows from holder to holder, in decimal. Output has it in
                     hexadecimal (0x2f); `zkc break --token` and `zkc revoke --token` accept both
  ZKC_SESSION        the session; a `zkc lock` below names it in its label, and a `zkc elect` in
                     its id, for `zkc deadlocks`
  ZKC_DEADLINE_FD    a descriptor for reading, at its end when the command should stop
  ZK_CONNECT, ZKC_CONFIG, ZKC_CONTEXT, ZKC_NAMESPACE, ZKC_JUTE_MAXBUFFER, as used by zkc";

fn after_help() -> String {
    let codes = crate::exit::around_a_command(
        "the code of the command, 128+n if signal n has ended it",
        &[
            (Exit::DONE, "without a command: released by a signal"),
            (Exit::NO, "not obtained with --try"),
            (Exit::LOCK_LOST, "the lock was lost or revoked, and the command was stopped"),
            (Exit::NOT_OBTAINED, "not obtained within --wait"),
        ],
    );
    format!("{AFTER_HELP}\n\n{codes}")
}

/// The arguments of `zkc lock`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct LockCommand {
    /// Lock
    #[arg(value_parser = path::parse)]
    path: String,
    /// Longest time to wait for the lock [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
    /// Do not wait for other clients
    #[arg(long = "try", conflicts_with = "wait")]
    at_once: bool,
    /// Share the lock with other readers of a read/write lock
    #[arg(long, conflicts_with_all = ["exclusive", "permits"])]
    shared: bool,
    /// Write lock of a read/write lock
    #[arg(long, conflicts_with = "permits")]
    exclusive: bool,
    /// One permit of a semaphore with this number of permits, which Curator calls leases
    #[arg(short = 'n', long, alias = "leases", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    permits: Option<u32>,
    /// Text in the node, for people; by default `user@host:pid` and the name of the command
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Reaction to a client that asks for the lock, as `zkc revoke` and Curator's Revoker do
    #[arg(long, value_enum, value_name = "HOW", default_value = "stop")]
    on_revoke: OnRevoke,
    #[command(flatten)]
    supervision: Supervision,
    /// Command with its arguments; without one, the lock is held until a signal
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnRevoke {
    /// Acknowledge, and stop the command
    Stop,
    /// Continue
    Ignore,
}

impl LockCommand {
    /// Returns `true` for a permit of a semaphore.
    pub(super) const fn has_permits(&self) -> bool {
        self.permits.is_some()
    }

    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let early = |failure| match self.command.is_empty() {
            true => failure,
            false => before_the_command(failure),
        };
        // It may ask for a confirmation, which Ctrl-C ends.
        let zk = app.zk_to_change().await.map_err(early)?;
        let mut signals = Signals::catch()?;
        let talk = Talk::new(app.out());
        let obtained = tokio::select! {
            biased;
            signal = signals.end() => return Ok(Exit::of_command(signal.code()).into()),
            obtained = self.obtain(zk, &talk) => obtained.map_err(early)?,
        };
        let Some(guard) = obtained else {
            talk.say(format!("not obtained: {}", self.path));
            let exit = if self.at_once { Exit::NO } else { Exit::NOT_OBTAINED };
            return Ok(exit.into());
        };
        if self.command.is_empty() {
            return self.hold(app, guard, &mut signals, &talk).await;
        }
        self.run_command(app, guard, &mut signals, &talk).await
    }

    /// Acquires the lock, through every outage. Returns `None` if it was not obtained in time.
    async fn obtain(
        &self,
        zk: &CuratorFramework,
        talk: &Talk,
    ) -> Result<Option<AnyGuard>, CommandFailure> {
        let acquire = async {
            loop {
                match self.attempt(zk).await {
                    Err(error) if error.is_retryable() && !self.at_once => {
                        talk.say(format!("not obtained yet: {error}"));
                        sleep(PAUSE).await;
                    }
                    attempt => return attempt,
                }
            }
        };
        let mut acquire = std::pin::pin!(acquire);
        let wait = async {
            if let Ok(early) = timeout(PATIENCE, &mut acquire).await {
                return early;
            }
            talk.say(format!("waiting for {}", self.path));
            acquire.await
        };
        match timeout(self.wait.unwrap_or(Duration::MAX), wait).await {
            Ok(obtained) => Ok(obtained?),
            Err(_) => Ok(None),
        }
    }

    async fn attempt(&self, zk: &CuratorFramework) -> Result<Option<AnyGuard>, Error> {
        let mut label = self.label.clone().unwrap_or_else(|| label(self.command.first()));
        mark_within(&mut label);
        if let Some(permits) = self.permits {
            let semaphore = InterProcessSemaphore::new(zk, &self.path, permits).label(label);
            let permit = match self.at_once {
                true => semaphore.try_acquire().await?,
                false => Some(semaphore.acquire().await?),
            };
            return Ok(permit.map(|permit| permit.into_any()));
        }
        let read_write = InterProcessReadWriteLock::new(zk, &self.path);
        let lock: Box<dyn InterProcessLock> = if self.shared {
            Box::new(read_write.label(label).read_lock())
        } else if self.exclusive {
            Box::new(read_write.label(label).write_lock())
        } else {
            Box::new(InterProcessMutex::new(zk, &self.path).label(label))
        };
        if self.at_once { lock.try_acquire().await } else { lock.acquire().await.map(Some) }
    }

    /// Resolves when the lock is lost or, unless that is ignored, asked for.
    async fn asked(&self, guard: &AnyGuard) {
        match self.on_revoke {
            OnRevoke::Stop => guard.revoked().await,
            OnRevoke::Ignore => guard.lost().await,
        }
    }

    /// Holds the lock until a signal, or until it is lost.
    async fn hold(
        &self,
        app: &App,
        guard: AnyGuard,
        signals: &mut Signals,
        talk: &Talk,
    ) -> Result<CommandOutput, CommandFailure> {
        let (token, lock_node) = (guard.fencing_token(), guard.path().to_owned());
        let value =
            json!({ "path": self.path, "node": lock_node, "token": node::hex(token.get()) });
        let text = format!("held {} token={token}", self.path);
        app.out().print(&TextReport::new(text, value).names([lock_node]).into())?;
        let lost = tokio::select! {
            biased;
            () = self.asked(&guard) => true,
            _ = signals.end() => false,
        };
        if !lost {
            release(guard, talk).await;
            return Ok(CommandOutput::nothing());
        }
        if guard.is_over() {
            talk.say(format!("lost: {}", self.path));
        } else {
            talk.say(format!("released, because another client asks for it: {}", self.path));
            drop(guard.acknowledge().await);
        }
        let environment = environment(app, &self.path, guard.ownership());
        release(guard, talk).await;
        self.supervision.run_on_lost(&environment, signals, talk).await;
        Ok(Exit::LOCK_LOST.into())
    }

    async fn run_command(
        &self,
        app: &App,
        guard: AnyGuard,
        signals: &mut Signals,
        talk: &Talk,
    ) -> Result<CommandOutput, CommandFailure> {
        let plan = self.supervision.plan(guard.ownership().framework(), talk);
        let environment = environment(app, &self.path, guard.ownership());
        let start = CommandSpec {
            command: &self.command,
            environment: &environment,
            no_stdin: self.supervision.no_stdin(),
        };
        let group = ProcessGroup::start(&start).map_err(|error| {
            before_the_command(CommandFailure::usage(format!("not started: {error}")))
        })?;
        let hold = SupervisedHold {
            asked: Box::pin(self.asked(&guard)),
            acknowledge: Box::pin(async { drop(guard.acknowledge().await) }),
            ..SupervisedHold::of(guard.ownership(), "lock")
        };
        let ending = supervise(hold, group, plan, signals, talk).await;
        if ending.stopped.is_none() && guard.is_over() {
            talk.say("the lock was lost when the command ended");
        }
        release(guard, talk).await;
        if ending.stopped.is_some() {
            self.supervision.run_on_lost(&environment, signals, talk).await;
        }
        Ok(Exit::of_command(ending.code).into())
    }
}

/// Releases the lock. Without a connection, the session ends it.
async fn release(guard: AnyGuard, talk: &Talk) {
    if guard.is_over() {
        return;
    }
    let is_connected = guard.ownership().framework().state().is_connected();
    if !is_connected {
        return talk.say("the release is not confirmed; the lock ends with its session");
    }
    match timeout(RELEASE, guard.release()).await {
        Ok(Ok(()) | Err(Error::Lost { .. })) => {}
        Ok(Err(error)) => talk.say(format!("the release is not confirmed: {error}")),
        Err(_) => talk.say("the release is not confirmed; the lock ends with its session"),
    }
}

/// Returns the default label. The arguments of the command may be secret.
fn label(program: Option<&OsString>) -> String {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = user.unwrap_or_else(|| "?".to_owned());
    let host = gethostname().map_or_else(|_| "?".to_owned(), |host| host.display().to_string());
    let program = program.map_or_else(String::new, |program| format!(" {}", program.display()));
    format!("{user}@{host}:{}{program}", std::process::id())
}
