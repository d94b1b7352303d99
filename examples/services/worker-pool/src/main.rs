//! A pool of workers. `worker-pool submit COUNT` submits jobs that make thumbnails; `worker-pool
//! work` executes jobs until SIGTERM.
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::jobs::{JobTask, Jobs};
use zk_curator_recipes::zk_curator::CuratorFramework;
use zk_curator_recipes::zk_curator::value::Json;

/// A job: the thumbnail to make.
#[derive(Debug, Serialize, Deserialize)]
struct Thumbnail {
    image: String,
    width: u32,
}

/// Makes a thumbnail.
async fn make(task: JobTask) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let Json(Thumbnail { image, width }) = task.value()?;
    println!("begins {image}");
    sleep(Duration::from_millis(200)).await;
    println!("made {image} {width}");
    Ok(Some(format!("{image}-{width}.png").into_bytes()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let timeout =
        std::env::var("SESSION_TIMEOUT_MS").map_or(Ok(10_000), |millis| millis.parse())?;
    let zk = CuratorFramework::builder()
        .connect_string(std::env::var("ZOOKEEPER")?)
        .session_timeout(Duration::from_millis(timeout))
        .build()?;
    zk.start().await?;
    let jobs = Jobs::new(&zk, "/thumbnails");

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["submit", count] => {
            for number in 0..count.parse()? {
                jobs.submit(Json(Thumbnail { image: format!("image-{number}"), width: 64 }))
                    .await?;
            }
            zk.close().await?;
        }
        ["work"] => {
            // Two jobs at a time. At SIGTERM, the running jobs are finished within ten seconds.
            let shutdown = Shutdown::on_signals()?.drain(Duration::from_secs(10));
            println!("works");
            let worker = jobs.worker(format!("worker-{}", std::process::id()));
            worker
                .run(2, |task| async { make(task).await.map(|made| made.map(Into::into)) })
                .until(shutdown.clone())
                .await?;
            println!("drained");
            shutdown.close(&zk).await;
        }
        _ => return Err("usage: worker-pool submit COUNT | work".into()),
    }
    Ok(())
}
