//! Two workers execute jobs, one worker is killed in the middle of a job, and the cleaner gives the
//! job to the other worker. The output is a timeline.
//!
//! Run `cargo run --release --example jobs` for the embedded server; set `ZK_CONNECT=host:port` to
//! use Apache ZooKeeper. Each worker is a separate process, so that one can really be killed. The
//! exit code is 0 only if the other worker has done all jobs, including the job of the killed one
//! at its second attempt.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

#[path = "support/process.rs"]
mod process;
mod support;

use std::time::{Duration, Instant};

use bytes::Bytes;
use process::start;
use support::{Result, Stage};
use tokio::sync::mpsc;
use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::jobs::{JobState, Jobs};

/// The time for which a killed worker keeps its jobs; servers may grant more.
const SESSION: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(40);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [servers, root, name] => work(servers, root, name).await,
        _ => tokio::time::timeout(PATIENCE, stage()).await?,
    }
}

/// Runs a worker. The slow worker never finishes its first job. The other half of this file only
/// watches.
async fn work(servers: &str, root: &str, name: &str) -> Result<()> {
    let zk =
        CuratorFramework::builder().connect_string(servers).session_timeout(SESSION).build()?;
    zk.start().await?;
    let worker = Jobs::new(&zk, format!("{root}/jobs")).worker(name);
    let slow = name == "slow";
    worker
        .run(1, |task| async move {
            println!("executes {:?}, attempt {}", task.id, task.attempt);
            if slow {
                std::future::pending::<()>().await;
            }
            Ok::<_, String>(Some(Bytes::from(format!("{} at attempt {}", task.id, task.attempt))))
        })
        .await?;
    Ok(())
}

async fn stage() -> Result<()> {
    let stage = Stage::new("jobs").await;
    let zk = stage.client().await?;
    let jobs = Jobs::new(&zk, format!("{}/jobs", stage.root));
    let began = Instant::now();
    let say =
        |who: &str, what: &str| println!("{:>7.3}  {who:<5} {what}", began.elapsed().as_secs_f64());

    for id in ["cat.png", "dog.png", "owl.png"] {
        jobs.submit("resize").id(id).await?;
        say("", &format!("submits {id:?}"));
    }
    let (sender, mut lines) = mpsc::unbounded_channel();
    let mut slow = start(&stage.servers, &stage.root, "slow", sender.clone())?;
    let Some((name, line)) = lines.recv().await else {
        return Err("the worker has not begun".into());
    };
    say(name, &line);
    for job in jobs.list().all().await? {
        if let JobState::Executing { worker, session, .. } = &job.state {
            say("", &format!("{:?} is executed by {worker} in session {session:#x}", job.id));
        }
    }
    slow.kill().await?;
    say("slow", "is KILLED");

    let mut other = start(&stage.servers, &stage.root, "other", sender)?;
    let mut executed = 0;
    while executed < 3 {
        let Some((name, line)) = lines.recv().await else {
            return Err("the other worker has ended".into());
        };
        say(name, &line);
        executed += usize::from(name == "other");
    }
    let mut expected = 2;
    for id in ["cat.png", "dog.png", "owl.png"] {
        let result = loop {
            match jobs.result(id).await? {
                Some(result) => break result,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        if result != format!("{id} at attempt {expected}") {
            return Err(format!("not as expected: {result:?}").into());
        }
        expected = 1;
        say("", &format!("result: {}", String::from_utf8_lossy(&result)));
    }
    other.kill().await?;
    stage.clear(&zk).await
}
