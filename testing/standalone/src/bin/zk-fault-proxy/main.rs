//! Forwards clients to ZooKeeper servers, with faults, until a signal ends it. `--help` lists the
//! options.

mod diagnostics;
mod options;
mod target;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use diagnostics::Diagnostics;
use options::Options;
use target::Proxied;
use zk_curator_testing::{FaultProxy, stop_signal};
use zk_test_server::control::Service;
use zk_test_server::program::{print, run};
use zk_test_server::serve::Tasks;

const NAME: &str = "zk-fault-proxy";

fn main() -> ExitCode {
    run(NAME, options::parse, serve)
}

async fn serve(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    tracing::subscriber::set_global_default(Diagnostics::new(NAME))?;
    // Registers the handler before a user can know that the proxy runs, and send a signal.
    let stopped = stop_signal().map_err(|error| format!("cannot receive signals: {error}"))?;
    let mut tasks = Tasks::open(NAME, options.tasks).await?;
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
    tasks.install(&service)?;
    let proxy = service.target().proxy();
    proxy.up();
    for server in proxy.servers() {
        print(&format!("listening on {}", server.address()))?;
    }
    tasks.announce()?;
    Ok(tasks.run(&service, stopped).await)
}
