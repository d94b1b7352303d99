//! Serves an embedded ZooKeeper for clients in any language until a signal ends it. `--help` lists
//! the options.
#![expect(clippy::print_stderr, reason = "a program talks to its terminal")]

mod control;
mod options;
mod output;
mod store;

use std::error::Error;
use std::process::ExitCode;

use options::{Options, Task};
use output::{complain_of, print};
use store::Store;
use zk_curator_testing::{TestCluster, TestServer, stop_signal};

/// The exit code of wrong options, and of a server that cannot start.
const CANNOT_START: u8 = 2;
/// The exit code of a server that ran, but could not save its state.
const CANNOT_SAVE: u8 = 1;

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
        Task::Print(text) => print(&text).map(|()| ExitCode::SUCCESS),
        Task::Serve(options) => serve(*options).await,
    };
    done.unwrap_or_else(|error| complain(error.as_ref(), CANNOT_START))
}

/// Prints an error and its causes in one line.
fn complain(error: &dyn Error, code: u8) -> ExitCode {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line += &format!(": {error}");
        cause = error.source();
    }
    complain_of(&line);
    ExitCode::from(code)
}

async fn serve(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    // Registers the handler before a user can know that the server runs, and send a signal.
    let stopped = stop_signal().map_err(|error| format!("cannot receive signals: {error}"))?;
    let store = options.data_dir.map(Store::open).transpose()?;
    let mut builder = options.builder.host(options.host);
    if let Some(snapshot) = store.as_ref().map(Store::load).transpose()?.flatten() {
        builder = builder.snapshot(snapshot);
    }
    let members = options.ports.len();
    let servers =
        TestCluster::builder(members).settings(builder).ports(options.ports).start().await?;
    if let Some(store) = &store {
        // Saves once now, so that a failure shows at the start, not at the end.
        store.save(&servers)?;
    }
    for addr in servers.members().iter().filter_map(TestServer::addr) {
        print(&format!("listening on {addr}"))?;
    }
    if members == 1 {
        stopped.await;
    } else {
        tokio::select! {
            () = stopped => {}
            error = control::obey(&servers) => return Err(error),
        }
    }
    for server in servers.members() {
        server.stop().await;
    }
    let saved = store.map_or(Ok(()), |store| store.save(&servers));
    Ok(saved.map_or_else(|error| complain(&error, CANNOT_SAVE), |()| ExitCode::SUCCESS))
}
