//! Two versions of a service start at the same time, in several processes. One process migrates the
//! nodes; a process of the older version that starts later refuses to work.
//!
//! Run `cargo run --example migration`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use zk_curator::CuratorFramework;
use zk_curator_recipes::migration::{
    Error, MigrationManager, MigrationSet, MigrationSetBuilder, Operations,
};

/// The nodes of version 1.
fn version_1(root: &str) -> MigrationSetBuilder {
    let orders = format!("{root}/orders");
    MigrationSet::builder("orders").migration("roots", |m| {
        m.create(orders.as_str(), "").create(format!("{orders}/limit"), "10 per second")
    })
}

/// Version 2 keeps the limit as a number, at another path.
fn version_2(root: &str) -> MigrationSetBuilder {
    let (old, new) = (format!("{root}/orders/limit"), format!("{root}/orders/per-second"));
    version_1(root).computed("limit as a number", "1", move |reads| {
        let (old, new) = (old.clone(), new.clone());
        async move {
            let text = String::from_utf8_lossy(&reads.get_data(old.as_str()).await?).into_owned();
            let number = text.split(' ').next().unwrap_or_default().to_owned();
            Ok::<_, zk_curator::Error>(Operations::new().create(new, number).delete(old))
        }
    })
}

/// Starts a process of the service.
async fn process(
    zk: CuratorFramework,
    root: String,
    name: &str,
    set: MigrationSetBuilder,
) -> Result<()> {
    let locks = format!("{root}/migrations/locks");
    let manager = MigrationManager::new(&zk, locks, format!("{root}/migrations/meta")).label(name);
    let set = set.build()?;
    match manager.migrate(&set).await {
        Ok(outcome) => {
            println!("{name}: applied {:?}, {} before", outcome.applied, outcome.already);
        }
        Err(Error::Ahead { found, known, .. }) => {
            println!("{name}: refuses to start, because it knows {known} of {found} migrations");
        }
        Err(error) => return Err(error.into()),
    }
    for migration in manager.applied(set.id()).await? {
        let by = migration.by.unwrap_or_default();
        println!("{name}: sees {:?} by {by}", migration.name.unwrap_or_default());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("migration").await;
    let root = stage.root.clone();
    let (one, two) = (stage.client().await?, stage.client().await?);
    one.create_containers(root.as_str()).await?;
    process(one.clone(), root.clone(), "old-1", version_1(&root)).await?;
    // Two processes of the new version start.
    tokio::try_join!(
        process(one.clone(), root.clone(), "new-1", version_2(&root)),
        process(two.clone(), root.clone(), "new-2", version_2(&root)),
    )?;
    process(two.clone(), root.clone(), "old-2", version_1(&root)).await?;
    let limit = one.get_data(format!("{root}/orders/per-second")).await?;
    println!("the limit is {}", String::from_utf8_lossy(&limit));
    two.close().await?;
    stage.clear(&one).await
}
