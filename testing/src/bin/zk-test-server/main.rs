//! Serves an embedded ZooKeeper until a signal ends it, for clients in any language; `--help` tells the options.
#![expect(clippy::print_stderr, reason = "a program talks to its terminal")]

#[path = "../common/mod.rs"]
mod common;
mod options;

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use options::{Options, Task};

/// The exit code of wrong options, and of a server that cannot start.
const CANNOT_START: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let task = match options::parse(lexopt::Parser::from_env()) {
        Ok(task) => task,
        Err(error) => {
            eprintln!("zk-test-server: {error}; see --help");
            return ExitCode::from(CANNOT_START);
        }
    };
    let done = match task {
        Task::Print(text) => print(&text),
        Task::Serve(options) => serve(*options).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zk-test-server: {error}");
            ExitCode::from(CANNOT_START)
        }
    }
}

fn print(line: &str) -> Result<(), Box<dyn Error>> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    Ok(())
}

async fn serve(options: Options) -> Result<(), Box<dyn Error>> {
    // Before anybody can know that the server runs, and so send it one.
    let stopped = common::stop_signal().map_err(|error| format!("cannot receive signals: {error}"))?;
    let asked = SocketAddr::new(options.host, options.port);
    let server = options.builder.host(options.host).port(options.port).start().await;
    let server = server.map_err(|error| format!("cannot listen on {asked}: {error}"))?;
    if let Some(addr) = server.addr() {
        print(&format!("listening on {addr}"))?;
    }
    stopped.await;
    server.stop().await;
    Ok(())
}
