//! Runs Apache ZooKeeper for the duration of a command, or until a signal. `--help` lists the
//! options.
//!
//! ```text
//! zk-real --exec cargo run --example quickstart    # ZK_CONNECT is set for the command; returns its exit code
//! zk-real                                          # prints ZK_CONNECT=127.0.0.1:PORT, ends with Ctrl-C
//! zk-real --ensemble 3                             # three servers, and commands such as `kill leader`
//! ```
#![expect(clippy::print_stderr, reason = "a program talks to its terminal")]

mod command;
mod console;
mod options;

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::future::pending;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use std::{slice, thread};

use console::{Console, Response};
use lexopt::Parser;
use options::{Options, Task};
use tokio::process::Command;
use tokio::runtime;
use tokio::sync::mpsc;
use zk_curator_real::{RealEnsemble, RealZooKeeper};
use zk_curator_testing::{stop_signal, with_causes};

/// The prefixes of the variables by which cargo describes the package of a program.
const OF_OUR_PACKAGE: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// The exit code of a wrong option.
const WRONG_OPTION: u8 = 2;

/// The exit code after a signal.
const STOPPED: u8 = 130;

/// The time that the start of servers has to notice the end of the program. It would otherwise last
/// until they serve, which they may never do. Servers that it has started end with this process.
const END_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match options::parse(Parser::from_env()) {
        Ok(Task::Print(text)) => {
            print(&text).map_or_else(|error| complain(&error), |()| ExitCode::SUCCESS)
        }
        Ok(Task::Serve(options)) => start(options).unwrap_or_else(|error| complain(&*error)),
        Err(error) => {
            eprintln!("zk-real: {error}; see --help");
            ExitCode::from(WRONG_OPTION)
        }
    }
}

/// Serves on a new runtime until the end of the program.
fn start(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        // From here on a signal ends the servers too, not only this process.
        let stopped = stop_signal().map_err(|error| format!("cannot receive signals: {error}"))?;
        tokio::select! {
            () = stopped => Ok(ExitCode::from(STOPPED)),
            code = serve(options) => code,
        }
    });
    runtime.shutdown_timeout(END_TIMEOUT);
    code
}

async fn serve(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    let Options { ensemble, until_eof, exec } = options;
    match ensemble {
        None => {
            let server = RealZooKeeper::start().await?;
            if let Some((program, arguments)) = exec {
                let (address, servers) = (server.connect_string(), slice::from_ref(&server));
                return Ok(run(&program, &arguments, &address, servers).await);
            }
            announce(&server.connect_string())?;
            if until_eof {
                let mut lines = lines();
                while lines.recv().await.is_some() {}
                return Ok(ExitCode::SUCCESS);
            }
            pending().await
        }
        Some(members) => {
            let ensemble = RealEnsemble::start(members).await?;
            if let Some((program, arguments)) = exec {
                let (addresses, servers) = (ensemble.connect_string(), ensemble.servers());
                return Ok(run(&program, &arguments, &addresses, servers).await);
            }
            announce(&ensemble.connect_string())?;
            control(Console::new(ensemble), until_eof).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Executes the commands of standard input until `quit`, or until its end if `until_eof`.
async fn control(mut console: Console, until_eof: bool) -> io::Result<()> {
    if io::stdin().is_terminal() {
        eprintln!(
            "zk-real: reads commands; `help` lists them, and `quit` or Ctrl-C ends the program"
        );
    }
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        match console.execute(&line).await {
            None => {}
            Some(Response::Print(text)) => print(&text)?,
            Some(Response::Quit(text)) => return print(&text),
        }
    }
    if until_eof { Ok(()) } else { pending().await }
}

/// Returns the lines of standard input until its end. A thread reads them, which nothing waits for,
/// because a read cannot be cancelled.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        // An input that cannot be read has ended.
        for line in io::stdin().lock().split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Runs a command with `ZK_CONNECT` and `ZK_DATA_DIRS`. Returns its exit code.
async fn run(
    program: &OsStr,
    arguments: &[OsString],
    connect_string: &str,
    servers: &[RealZooKeeper],
) -> ExitCode {
    let directories = servers.iter().map(|server| server.data_directory().as_os_str());
    let directories: Vec<_> = directories.collect();
    let mut command = Command::new(program);
    command.args(arguments).env("ZK_CONNECT", connect_string).kill_on_drop(true);
    command.env("ZK_DATA_DIRS", directories.join(OsStr::new(":")));
    // Removes the variables of `cargo run` that describe our package. A `cargo` in the command
    // would otherwise rebuild every crate that reads them, such as `ring`, and its dependents.
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| OF_OUR_PACKAGE.iter().any(|prefix| name.starts_with(prefix)))
        {
            command.env_remove(name);
        }
    }
    match command.status().await {
        // A process that was ended by a signal has no exit code.
        Ok(status) => {
            ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
        Err(error) => {
            eprintln!("zk-real: cannot run {}: {error}", program.display());
            ExitCode::from(127)
        }
    }
}

fn announce(connect_string: &str) -> io::Result<()> {
    print(&format!("ZK_CONNECT={connect_string}"))
}

/// Prints lines on standard output, for a program that reads them.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

fn complain(error: &dyn Error) -> ExitCode {
    eprintln!("zk-real: {}", with_causes(error));
    ExitCode::FAILURE
}
