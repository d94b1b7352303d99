//! The leader of several processes writes to a database. If a process is paused for too long and
//! continues, the database refuses its writes, because their token is older than the newest one.
//!
//! `sql-writer DATABASE`
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

use std::error::Error;
use std::time::Duration;

use rusqlite::{Connection, params};
use tokio::time::sleep;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::leader::{LeaderSelector, Leadership};
use zk_curator_recipes::zk_curator::{CuratorFramework, FencingToken};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS fence (id INTEGER PRIMARY KEY CHECK (id = 1), token INTEGER NOT NULL);
    INSERT OR IGNORE INTO fence VALUES (1, 0);
    CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER NOT NULL, writer INTEGER NOT NULL);
";

/// Writes an entry in one transaction with the token. Returns `false` if a later leader has
/// written.
fn write(database: &mut Connection, token: FencingToken) -> rusqlite::Result<bool> {
    let token = token.get();
    let transaction =
        database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let is_newest = transaction
        .execute("UPDATE fence SET token = ?1 WHERE id = 1 AND token <= ?1", [token])?
        == 1;
    if is_newest {
        let entry = params![token, std::process::id()];
        transaction.execute("INSERT INTO entries (token, writer) VALUES (?1, ?2)", entry)?;
        transaction.commit()?;
    }
    Ok(is_newest)
}

async fn lead(path: &str, term: Leadership) -> Result<(), Box<dyn Error>> {
    let mut database = Connection::open(path)?;
    let token = term.fencing_token();
    println!("leads with {}", token.get());
    loop {
        // In a thread of its own: a database that keeps the write waiting must not keep the session
        // waiting.
        let writing = move || (write(&mut database, token), database);
        let (written, returned) = tokio::task::spawn_blocking(writing).await?;
        database = returned;
        match written? {
            true => println!("wrote with {}", token.get()),
            false => {
                println!("refused with {}", token.get());
                return Ok(());
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let path = std::env::args().nth(1).ok_or("usage: sql-writer DATABASE")?;
    let timeout =
        std::env::var("SESSION_TIMEOUT_MS").map_or(Ok(10_000), |millis| millis.parse())?;
    let database = Connection::open(&path)?;
    database.busy_timeout(Duration::from_secs(10))?;
    database.execute_batch(SCHEMA)?;
    drop(database);

    let zk = CuratorFramework::builder()
        .connect_string(std::env::var("ZOOKEEPER")?)
        .session_timeout(Duration::from_millis(timeout))
        .build()?;
    zk.start().await?;
    let shutdown = Shutdown::on_signals()?.drain(Duration::ZERO);
    let selector = LeaderSelector::new(&zk, "/leaders/ledger");
    let body = |term| async {
        if let Err(error) = lead(&path, term).await {
            eprintln!("the database: {error}");
        }
    };
    selector.run(body).until(shutdown.clone()).await?;
    shutdown.close(&zk).await;
    Ok(())
}
