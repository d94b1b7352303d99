use clap::Args;
use serde_json::json;
use zk_curator_testing::{TestCluster, TestServer};

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, TextReport};

/// The arguments of `zkc serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Port; 0 is a free one. A cluster uses this port and the next ones
    #[arg(short, long, default_value_t = 2181)]
    port: u16,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=9))]
    cluster: u16,
}

impl Serve {
    /// Prints the connect string, and serves until Ctrl-C.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let failed = |error: std::io::Error| {
            CommandFailure::usage(format!("port {}: {error}", self.port))
                .hint("--port 0 is a free one")
        };
        app.out().say("a server for tests and development: data are lost when it ends");
        let stop = crate::stop::requested();
        if self.cluster == 1 {
            let server = TestServer::builder().port(self.port).start().await.map_err(failed)?;
            tell(app, &server.connect_string())?;
            stop.await?;
            return Ok(CommandOutput::nothing());
        }
        let ports = (0..self.cluster).map(|member| match self.port {
            0 => 0,
            first => first.saturating_add(member),
        });
        let cluster = TestCluster::builder(self.cluster.into()).ports(ports).start().await;
        let cluster = cluster.map_err(failed)?;
        tell(app, &cluster.connect_string())?;
        stop.await?;
        Ok(CommandOutput::nothing())
    }
}

fn tell(app: &App, servers: &str) -> Result<(), CommandFailure> {
    let report = TextReport::new(servers, json!({ "servers": servers }));
    app.out().print(&report.names([servers.to_owned()]).in_one_line().into())
}
