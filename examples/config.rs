//! A service follows its configuration, two administrators change it at the same time, and one of
//! the changes is rolled back.
//!
//! Run `cargo run --example config`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use zk_curator_recipes::config::{ConfigStore, Error};

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("config").await;
    let (zk, other) = (stage.client().await?, stage.client().await?);
    let path = format!("{}/orders", stage.root);
    let store = ConfigStore::new(&zk, path.as_str());
    let first = store
        .update()
        .set("db.host", "10.0.0.7")
        .set("db.port", 5432)
        .set("log", "info")
        .commit()
        .await?;

    // A service: it never sees the host of one database with the port of another.
    let mut database = ConfigStore::new(&other, path).follow_below("db");
    let service = tokio::spawn(async move {
        loop {
            let now = database.next().await?;
            let (host, port) = (now.get::<String>("db.host")?, now.get::<u16>("db.port")?);
            println!("connecting to {}:{}", host.unwrap_or_default(), port.unwrap_or_default());
            if port == Some(5434) {
                return Result::Ok(());
            }
        }
    });

    // Two administrators have seen the same revision.
    let seen = store.snapshot().await?.entry("db.host").map(|entry| entry.revision);
    let moved = |host: &str, port: u16| {
        store.update().if_revision("db.host", seen).set("db.host", host).set("db.port", port)
    };
    moved("10.0.0.8", 5433).commit().await?;
    match moved("10.0.0.9", 5439).commit().await {
        Err(error @ Error::Conflict { .. }) => println!("too late: {error}"),
        other => println!("unexpected: {other:?}"),
    }

    store.roll_back(first).await?;
    for change in store.history().await? {
        let keys: Vec<_> = change.keys.keys().map(String::as_str).collect();
        println!("revision {} has changed {}", change.revision, keys.join(", "));
    }
    store.update().set("db.port", 5434).commit().await?;
    service.await??;
    other.close().await?;
    stage.clear(&zk).await
}
