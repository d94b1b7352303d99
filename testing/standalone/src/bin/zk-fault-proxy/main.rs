//! Forwards clients to ZooKeeper servers, with faults, until a signal ends it. `--help` lists the
//! options.

mod diagnostics;
mod options;
mod target;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use diagnostics::Diagnostics;
use options::{Options, Task};
use target::Proxied;
use zk_curator_testing::{FaultProxy, stop_signal};
use zk_test_server::control::Service;
use zk_test_server::program::{complain, print, run};
use zk_test_server::scenario::Scenario;
use zk_test_server::serve::{Control, Tasks};

const NAME: &str = "zk-fault-proxy";

/// The exit code of wrong options, and of a proxy that cannot start.
const CANNOT_START: u8 = 2;

fn main() -> ExitCode {
    run(start()).unwrap_or_else(|error| complain(NAME, &error, CANNOT_START))
}

async fn start() -> ExitCode {
    let task = match options::parse(lexopt::Parser::from_env()) {
        Ok(task) => task,
        Err(error) => {
            let error: Box<dyn Error> = format!("{error}; see --help").into();
            return complain(NAME, &*error, CANNOT_START);
        }
    };
    let done = match task {
        Task::Print(text) => print(&text).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Task::Serve(options) => serve(options).await,
    };
    done.unwrap_or_else(|error| complain(NAME, &*error, CANNOT_START))
}

async fn serve(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    tracing::subscriber::set_global_default(Diagnostics::new(NAME))?;
    // Registers the handler before a user can know that the proxy runs, and send a signal.
    let stopped = stop_signal().map_err(|error| format!("cannot receive signals: {error}"))?;
    let control = match options.control {
        Some(port) => Some(Control::open(port).await?),
        None => None,
    };
    let mut scenario = options.scenario.as_deref().map(Scenario::load).transpose()?;
    // Down until the rules are installed.
    let mut builder = FaultProxy::builder().down();
    if let Some(bytes) = options.max_frame {
        builder = builder.frame_limit(bytes);
    }
    if let Some(connections) = options.max_connections {
        builder = builder.connection_limit(connections);
    }
    for (server, listen) in options.servers {
        builder = builder.server_at(listen, server);
    }
    let service = Arc::new(Service::new(Proxied::new(builder.start().await?)));
    if let Some(scenario) = &mut scenario {
        scenario.install(&service)?;
    }
    let proxy = service.target().proxy();
    proxy.up();
    for server in proxy.servers() {
        print(&format!("listening on {}", server.address()))?;
    }
    if let Some(control) = &control {
        control.announce()?;
    }
    let Options { until_scenario_ends, until_eof, .. } = options;
    let tasks = Tasks { name: NAME, control, scenario, until_scenario_ends, until_eof };
    Ok(tasks.run(&service, stopped).await)
}
