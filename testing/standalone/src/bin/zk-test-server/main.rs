//! Serves an embedded ZooKeeper for clients in any language until a signal ends it. `--help` lists
//! the options.

mod options;
mod store;
mod target;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use options::Options;
use store::Store;
use target::Servers;
use zk_curator_testing::{TestCluster, TestServer, stop_signal};
use zk_test_server::control::Service;
use zk_test_server::program::{complain, print, run};
use zk_test_server::serve::Tasks;

const NAME: &str = "zk-test-server";

/// The exit code of a server that ran, but could not save its state.
const CANNOT_SAVE: u8 = 1;

fn main() -> ExitCode {
    run(NAME, options::parse, serve)
}

async fn serve(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    // Registers the handler before a user can know that the server runs, and send a signal.
    let stopped = stop_signal().map_err(|error| format!("cannot receive signals: {error}"))?;
    let mut tasks = Tasks::open(NAME, options.tasks).await?;
    let store = options.data_dir.map(Store::open).transpose()?;
    let mut builder = options.builder.host(options.host);
    if let Some(snapshot) = store.as_ref().map(Store::load).transpose()?.flatten() {
        builder = builder.snapshot(snapshot);
    }
    let members = options.ports.len();
    let builder = TestCluster::builder(members).settings(builder).ports(options.ports);
    let prepare = |cluster: &TestCluster| {
        let service = Service::new(Servers::new(cluster.clone(), options.read_only));
        tasks.install(&service).map(|()| Arc::new(service))
    };
    let (servers, service) = builder.start_prepared(prepare).await?;
    let service = service?;
    if let Some(store) = &store {
        // Saves once now, so that a failure shows at the start, not at the end.
        store.save(&servers)?;
    }
    for addr in servers.members().iter().filter_map(TestServer::addr) {
        print(&format!("listening on {addr}"))?;
    }
    tasks.announce()?;
    let code = tasks.run(&service, stopped).await;
    for server in servers.members() {
        server.stop().await;
    }
    // A million nodes take longer to free than to leave to the system.
    Box::leak(Box::new(servers.clone()));
    let saved = store.map_or(Ok(()), |store| store.save(&servers));
    Ok(saved.map_or_else(|error| complain(NAME, &error, CANNOT_SAVE), |()| code))
}
