//! Programs of the user that `zkc` runs besides its work: hooks, and the commands of a schedule.

use std::ffi::OsString;
use std::io;

use crate::exit::Exit;

/// A program, which is started without a shell.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    /// The program, and its arguments.
    pub(crate) command: &'a [OsString],
    /// The variables in addition to those of this process.
    pub(crate) environment: &'a [(&'static str, OsString)],
    /// The bytes on its standard input; `None` for no standard input.
    pub(crate) input: Option<Vec<u8>>,
}

impl Program<'_> {
    /// Runs the program to its end, and returns its exit code. It is asked to end (TERM) when
    /// `stop` resolves. If the future is dropped, the program is killed, and so are all processes
    /// that it has started in its process group.
    #[cfg(unix)]
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) -> io::Result<u8> {
        use nix::sys::signal::Signal;
        use tokio::io::AsyncWriteExt;

        use crate::supervise::process::{CommandSpec, ProcessEvent, ProcessGroup};

        let Self { command, environment, input } = self;
        let start = CommandSpec { command, environment, no_stdin: true };
        let mut group = match input {
            None => ProcessGroup::start(&start)?,
            Some(input) => {
                let (group, mut stdin) = ProcessGroup::start_with_input(&start)?;
                // A program may end without reading its input.
                drop(stdin.write_all(&input).await);
                group
            }
        };
        let mut stop = std::pin::pin!(stop);
        let mut is_stopped = false;
        loop {
            tokio::select! {
                biased;
                event = group.next() => match event? {
                    ProcessEvent::Exited(code) => return Ok(code),
                    ProcessEvent::HungUp => group.signal(Signal::SIGHUP)?,
                    ProcessEvent::Continued | ProcessEvent::InBackground => {}
                },
                () = &mut stop, if !is_stopped => {
                    is_stopped = true;
                    group.signal(Signal::SIGTERM)?;
                }
            }
        }
    }

    /// Runs the program to its end, and returns its exit code. If the future is dropped, or `stop`
    /// resolves, the program is killed.
    #[cfg(not(unix))]
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) -> io::Result<u8> {
        use std::process::Stdio;

        use tokio::io::AsyncWriteExt;

        let mut words = self.command.iter();
        let program = words.next().ok_or_else(|| io::Error::other("no command"))?;
        let mut child = tokio::process::Command::new(program)
            .args(words)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .kill_on_drop(true)
            .spawn()?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), &self.input) {
            // A program may end without reading its input.
            drop(stdin.write_all(input).await);
        }
        tokio::select! {
            status = child.wait() => {
                Ok(status?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
            }
            () = stop => Ok(u8::MAX),
        }
    }
}

/// Says what an exit code other than 0 means.
pub(crate) fn explain(code: u8) -> String {
    match Exit::of_command(code) {
        Exit::NOT_EXECUTABLE => "cannot be executed".to_owned(),
        Exit::NOT_FOUND => "not found".to_owned(),
        _ if (129..=192).contains(&code) => format!("exit code {code} (signal {})", code - 128),
        _ => format!("exit code {code}"),
    }
}
