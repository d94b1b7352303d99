//! Several services contend for one lock. One of them is killed while it holds the lock, and the
//! next one takes over.
//!
//! Run `cargo run --release --example quickstart` for the embedded server; set
//! `ZK_CONNECT=host:port` to use Apache ZooKeeper. Every service is a separate process, so that one
//! can really be killed. The exit code is 0 only if two services never held the lock at the same
//! time, and every service except the killed one had its turn.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

#[path = "support/process.rs"]
mod process;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use process::start;
use tokio::sync::mpsc;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::TestServer;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The service that comes first, works for a long time, and is killed while it holds the lock.
const VICTIM: &str = "ada";
const OTHERS: [&str; 3] = ["ben", "cleo", "dan"];
/// The time limit. Servers with default settings take up to 6 s to notice a killed service; the
/// embedded server takes 1 s.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [servers, root, name] => service(servers, root, name).await,
        _ => tokio::time::timeout(PATIENCE, stage()).await?,
    }
}

async fn connect(servers: &str) -> Result<CuratorFramework> {
    let zk = CuratorFramework::builder()
        .connect_string(servers)
        .session_timeout(Duration::from_secs(1)) // how long a dead holder keeps the lock; servers may ask for more
        .build()?;
    zk.start().await?;
    Ok(zk)
}

/// Runs a service: it acquires the lock, works, and releases it. The other half of this file only
/// watches.
async fn service(servers: &str, root: &str, name: &str) -> Result<ExitCode> {
    let zk = connect(servers).await?;
    let lock = InterProcessMutex::new(&zk, format!("{root}/lock")).label(name.to_owned());
    let began = Instant::now();
    println!("waits for the lock");
    let guard = lock.acquire().await?;

    // An independent check of the lock: two services must never be here at the same time.
    let witness = format!("{root}/holder");
    match zk.create(&witness).mode(CreateMode::Ephemeral).data(name.to_owned()).await {
        Err(error) if error.kind() == ErrorKind::NodeExists => {
            println!("VIOLATION: another service holds the lock as well");
            return Ok(ExitCode::from(3));
        }
        other => other?,
    };
    println!(
        "HOLDS the lock after {} ms, token {}",
        began.elapsed().as_millis(),
        guard.fencing_token()
    );

    // The work. Its result is written only if the lock is still held.
    tokio::time::sleep(Duration::from_millis(if name == VICTIM { 60_000 } else { 300 })).await;
    guard
        .fenced()
        .create(format!("{root}/done/{name}"), guard.fencing_token().to_string())
        .delete(&witness)
        .commit()
        .await?;
    guard.release().await?;
    println!("released the lock");
    zk.close().await?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a server if there is none, then the services. Prints their lines, and kills one of them.
#[expect(clippy::too_many_lines, reason = "one story")]
async fn stage() -> Result<ExitCode> {
    let (embedded, servers) = match std::env::var("ZK_CONNECT") {
        Ok(servers) => (None, servers),
        Err(_) => {
            let server = TestServer::start().await;
            let servers = server.connect_string();
            (Some(server), servers)
        }
    };
    let kind = if embedded.is_some() { "embedded server" } else { "Apache ZooKeeper" };
    println!("{} services contend for one lock on the {kind} at {servers}\n", OTHERS.len() + 1);

    let zk = connect(&servers).await?;
    let root = zk.create("/quickstart-").mode(CreateMode::PersistentSequential).await?.path;
    zk.create(format!("{root}/done")).await?;
    let lock = InterProcessMutex::new(&zk, format!("{root}/lock"));
    let began = Instant::now();
    let (lines, mut heard) = mpsc::unbounded_channel();
    let mut victim = start(&servers, &root, VICTIM, lines.clone())?;
    let mut others = Vec::new();
    let mut lines = Some(lines);
    let (mut waiting, mut violation) = (0, false);
    while let Some((name, line)) = heard.recv().await {
        println!("{:5.2} s  {name:<5} {line}", began.elapsed().as_secs_f64());
        violation |= line.contains("VIOLATION");
        if name == VICTIM
            && line.contains("HOLDS")
            && let Some(lines) = lines.take()
        {
            for name in OTHERS {
                others.push(start(&servers, &root, name, lines.clone())?);
            }
        }
        waiting += usize::from(name != VICTIM && line.contains("waits"));
        if waiting == OTHERS.len() && victim.id().is_some() {
            victim.kill().await?;
            println!(
                "{:5.2} s  {VICTIM:<5} is KILLED while it holds the lock",
                began.elapsed().as_secs_f64()
            );
            for (place, member) in lock.participants().await?.iter().enumerate() {
                let role = if place == 0 { "its node is still there:" } else { "next in line:" };
                println!("               {role} {}", String::from_utf8_lossy(&member.label));
            }
        }
    }

    let mut failed = false;
    for process in &mut others {
        failed |= !process.wait().await?.success();
    }
    let mut done = zk.children(format!("{root}/done")).await?;
    done.sort();
    zk.delete(&root).deleting_children().await?;
    zk.close().await?;
    let good = !violation && !failed && done == OTHERS;
    println!(
        "\n{}: done by {}; never two at once: {}",
        if good { "OK" } else { "FAILED" },
        done.join(", "),
        !violation
    );
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
