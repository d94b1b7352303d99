//! Runs Apache ZooKeeper for the duration of a command, or until a signal.
//!
//! ```text
//! zk-real --exec cargo run --example quickstart    # ZK_CONNECT is set for the command; answers its exit code
//! zk-real                                          # prints ZK_CONNECT=127.0.0.1:PORT, ends with Ctrl-C
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its terminal")]

use std::ffi::OsString;
use std::process::ExitCode;

use tokio::process::Command;
use zk_curator_real::RealZooKeeper;
use zk_curator_testing::stop_signal;

const USAGE: &str = "usage: zk-real [--exec COMMAND [ARGUMENT…]]";
/// The prefixes of the variables by which cargo describes the package of a program.
const OF_OUR_PACKAGE: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let command: Option<Vec<OsString>> = match arguments.next() {
        None => None,
        Some(flag) if flag == "--exec" => Some(arguments.collect()),
        Some(_) => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    // From here on a signal ends the server too, not only this process.
    let stopped = async {
        match stop_signal() {
            Ok(stopped) => stopped.await,
            Err(error) => eprintln!("zk-real: cannot receive signals: {error}"),
        }
        ExitCode::from(130)
    };
    tokio::select! {
        code = stopped => code,
        code = run(command) => code,
    }
}

async fn run(command: Option<Vec<OsString>>) -> ExitCode {
    let zookeeper = match RealZooKeeper::start().await {
        Ok(zookeeper) => zookeeper,
        Err(error) => {
            eprintln!("zk-real: {error}");
            return ExitCode::FAILURE;
        }
    };
    let Some(command) = command else {
        println!("ZK_CONNECT={}", zookeeper.connect_string());
        return std::future::pending().await;
    };
    let Some((program, arguments)) = command.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(arguments).env("ZK_CONNECT", zookeeper.connect_string()).kill_on_drop(true);
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
