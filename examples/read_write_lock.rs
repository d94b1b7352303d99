//! Many clients read a catalogue together. One client writes it alone, and then continues to read
//! without letting another writer in.
//!
//! Run `cargo run --example read_write_lock`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use zk_curator_recipes::lock::InterProcessReadWriteLock;

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("read-write").await;
    let (zk, other) = (stage.client().await?, stage.client().await?);
    let path = format!("{}/catalogue", stage.root);
    let ours = InterProcessReadWriteLock::new(&zk, path.as_str()).label("ours");
    let theirs = InterProcessReadWriteLock::new(&other, path.as_str()).label("theirs");

    let one = ours.read_lock().acquire().await?;
    let two = theirs.read_lock().acquire().await?;
    println!(
        "two read together, a writer has to wait: {}",
        theirs.write_lock().try_acquire().await?.is_none()
    );
    two.release().await?;

    let writer = one.try_upgrade().await?;
    println!("alone, the reader becomes the writer: {}", writer.path());
    let waiting = tokio::spawn(async move { theirs.read_lock().acquire().await });
    let reader = writer.downgrade().await?;
    let shared = waiting.await??;
    println!("a reader again, next to other readers: {}, {}", reader.path(), shared.path());

    reader.release().await?;
    shared.release().await?;
    other.close().await?;
    stage.clear(&zk).await
}
