//! Serves an embedded ZooKeeper until it is interrupted, for clients in any language.
//!
//! ```text
//! zk-test-server [--port N] [--tick-time MILLISECONDS]
//! ```
#![expect(clippy::print_stdout, reason = "a command line program talks to its terminal")]

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use zk_curator_testing::TestServer;

const USAGE: &str = "usage: zk-test-server [--port N] [--tick-time MILLISECONDS]";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = TestServer::builder();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(USAGE);
        builder = match argument.as_str() {
            "--port" => builder.port(value()?.parse()?),
            "--tick-time" => builder.tick_time(Duration::from_millis(value()?.parse()?)),
            "--help" => {
                println!("{USAGE}");
                return Ok(());
            }
            _ => return Err(USAGE.into()),
        };
    }
    let server = builder.start().await?;
    println!("{}", server.connect_string());
    std::io::stdout().flush()?;
    tokio::signal::ctrl_c().await?;
    server.stop().await;
    Ok(())
}
