//! The stock of some shops: paths from parameters, typed values, a transaction, and a cache whose
//! modifications take one round trip.
//!
//! Run `cargo run --example model`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use zk_curator::model::ModelSpec;
use zk_curator_recipes::cache::TypedCache;

zk_curator::path_template! {
    /// The pieces of an article in a shop.
    StockPath = "/stock/{shop}/{article}": shop: &str, article: u64
}

const STOCK: ModelSpec<StockPath, u32> = StockPath::spec().documentation("pieces in a shop");

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("model").await;
    let zk = stage.client().await?;
    print!("{STOCK}");
    let stock = zk.using_namespace(&stage.root[1..])?.model(STOCK);
    stock.at(("berlin", 7)).put(&10).await?;
    stock.at(("bonn", 7)).put(&0).await?;

    // A slash would be another directory.
    if let Err(error) = stock.at(("berlin/mitte", 7)).get().await {
        println!("refused: {error}");
    }

    // Three pieces move from one shop to another, or none does.
    let (from, to) = (stock.at(("berlin", 7)), stock.at(("bonn", 7)));
    let (there, here) = (from.get().await?, to.get().await?);
    stock
        .typed()
        .framework()
        .transaction()
        .with(from.replace_op(&(there.value - 3), there.stat.version))
        .with(to.replace_op(&(here.value + 3), here.stat.version))
        .commit()
        .await?;

    let berlin = TypedCache::of(&stock.under("berlin")).start()?;
    berlin.cache().loaded().await?;
    let left = berlin.modify("/stock/berlin/7", |pieces| pieces - 1).await?;
    println!("{} pieces are left in Berlin, at version {}", left.value, left.stat.version);
    berlin.put("/stock/berlin/8", &2).await?;
    let scarce = berlin.index_by(|pieces| *pieces < 5);
    for node in scarce.get(&true) {
        println!("order more for {}", node.node.path);
    }
    drop((scarce, berlin));

    for node in stock.typed().framework().tree("/stock").await? {
        println!("{} {:?}", node.path, node.data);
    }
    stage.clear(&zk).await
}
