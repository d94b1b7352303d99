//! Two services elect a leader, the leader is killed, and the other service takes over. The output
//! is a timeline.
//!
//! Run `cargo run --release --example leader` for the embedded server; set `ZK_CONNECT=host:port`
//! to use Apache ZooKeeper. Each service is a separate process, so that one can really be killed.
//! The exit code is 0 only if the other service has taken over, with a higher fencing token.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

#[path = "support/process.rs"]
mod process;
mod support;

use std::time::{Duration, Instant};

use process::start;
use support::{Result, Stage};
use tokio::sync::mpsc;
use zk_curator::CuratorFramework;
use zk_curator_recipes::leader::{Candidate, LatchState, LeaderLatch};

/// The time for which a killed leader keeps its node; servers may grant more.
const SESSION: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(40);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [servers, root, name] => service(servers, root, name).await,
        _ => tokio::time::timeout(PATIENCE, stage()).await?,
    }
}

/// Runs a service: it works while it leads, and prints its states. The other half of this file only
/// watches.
async fn service(servers: &str, root: &str, name: &str) -> Result<()> {
    let zk =
        CuratorFramework::builder().connect_string(servers).session_timeout(SESSION).build()?;
    zk.start().await?;
    let candidate = LeaderLatch::new(&zk, format!("{root}/leader")).id(name.to_owned()).join();
    let mut states = candidate.states();
    while let Some(state) = states.next().await {
        match state {
            LatchState::Leader(leadership) => {
                println!("LEADS with token {}", leadership.fencing_token().get());
                work(root, name, &candidate).await?;
            }
            other => println!("{other:?}"),
        }
    }
    Ok(())
}

/// Does the work of the leader. Its result is written only if it still leads.
async fn work(root: &str, name: &str, candidate: &Candidate) -> Result<()> {
    let report = format!("{root}/report");
    let mut written = 0;
    while let Some(leadership) = candidate.leadership() {
        if leadership.fenced().set_data(&report, name.to_owned()).commit().await.is_ok() {
            written += 1;
        }
        if written == 1 {
            println!("has written its first report");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Starts two services, one after the other, kills the leader, and waits for the other.
async fn stage() -> Result<()> {
    let stage = Stage::new("leader").await;
    let zk = stage.client().await?;
    zk.create(format!("{}/report", stage.root)).creating_parents_as_containers().await?;
    let election = LeaderLatch::new(&zk, format!("{}/leader", stage.root));
    let began = Instant::now();
    let say = |who: &str, what: &str| {
        println!("{:5.2} s  {who:<4} {what}", began.elapsed().as_secs_f64());
    };
    let (lines, mut heard) = mpsc::unbounded_channel::<(&str, String)>();
    let mut tokens: Vec<i64> = Vec::new();
    // Prints the lines of the services until one of them is `wanted`.
    let mut until = async |wanted: &str| -> Result<()> {
        loop {
            let (name, line) = heard.recv().await.ok_or("nobody speaks")?;
            say(name, &line);
            if let Some(token) = line.strip_prefix("LEADS with token ") {
                tokens.push(token.parse()?);
            }
            if line.contains(wanted) {
                return Ok(());
            }
        }
    };

    let mut ada = start(&stage.servers, &stage.root, "ada", lines.clone())?;
    until("first report").await?;
    let mut ben = start(&stage.servers, &stage.root, "ben", lines)?;
    until("Waiting").await?;
    while election.participants().await?.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ada.kill().await?;
    let killed = Instant::now();
    say("ada", "is KILLED while it leads");
    until("first report").await?;
    println!("\nBen has taken over {} ms after the death of Ada.", killed.elapsed().as_millis());
    ben.kill().await?;
    assert!(tokens.len() == 2 && tokens[0] < tokens[1], "{tokens:?}");
    stage.clear(&zk).await
}
