//! The embedded server.

use std::time::Instant;

use zk_curator_testing::TestServer;

use super::stage::{Outcome, Result, Samples, Stage, say};

pub(crate) async fn embedded(stage: &mut Stage) -> Result<()> {
    let server = TestServer::start().await;
    say(&format!("listening {}", server.connect_string()));
    let run = async |operations| {
        let mut latencies = Samples::new();
        for _ in 0..operations {
            let began = Instant::now();
            let another = TestServer::start().await;
            if another.addr().is_some() {
                latencies.push(began.elapsed());
            }
            drop(another);
        }
        Ok(Outcome {
            operations: latencies.len(),
            check: format!("started={}", latencies.len()),
            latencies,
        })
    };
    stage.measure(None, run).await?;
    drop(server);
    Ok(())
}
