//! Four workers sort in phases. No worker begins a phase before all have arrived, and none
//! continues before all are done. One of them dies in the middle of a phase.
//!
//! Run `cargo run --example barrier`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

mod support;

use std::time::{Duration, Instant};

use support::{Result, Stage};
use tokio::task::JoinSet;
use zk_curator_recipes::barrier::{DistributedBarrier, DistributedDoubleBarrier, Error};

const WORKERS: u32 = 4;

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("barrier").await;
    let zk = stage.client().await?;
    // No worker begins before the gate is open.
    let gate = DistributedBarrier::new(&zk, format!("{}/gate", stage.root));
    gate.set().await?;

    let began = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 1..=WORKERS {
        let zk = stage.client().await?;
        let gate = DistributedBarrier::new(&zk, gate.path());
        let phases =
            DistributedDoubleBarrier::new(&zk, format!("{}/phases", stage.root), WORKERS as usize);
        let phases = phases.label(format!("worker {worker}"));
        workers.spawn(async move {
            let say = |what: &str| {
                println!("{:5.2} s  worker {worker}  {what}", began.elapsed().as_secs_f32());
            };
            gate.wait().await?;
            for phase in 1..=2 {
                let round = phases.enter().await?;
                say(&format!("begins phase {phase}, round {}", round.token()));
                tokio::time::sleep(Duration::from_millis(100 * u64::from(worker))).await; // the work
                if phase == 2 && worker == 3 {
                    say("DIES");
                    drop(round);
                    break;
                }
                say(&format!("is done with phase {phase}"));
                round.leave().await?;
                say(&format!("knows that all are done with phase {phase}"));
            }
            Result::Ok(zk)
        });
    }
    println!("{:5.2} s  the gate opens", began.elapsed().as_secs_f32());
    gate.remove().await?;
    let mut clients = Vec::new();
    while let Some(worker) = workers.join_next().await {
        clients.push(worker??);
    }

    // A client beyond the number of members is refused.
    let one = DistributedDoubleBarrier::new(&clients[0], format!("{}/alone", stage.root), 1);
    let round = one.enter().await?;
    match one.enter().await {
        Err(error @ Error::OverSubscribed { .. }) => println!("refused: {error}"),
        other => println!("not refused: {other:?}"),
    }
    round.leave().await?;
    for zk in clients {
        zk.close().await?;
    }
    stage.clear(&zk).await
}
