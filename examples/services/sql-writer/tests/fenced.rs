//! The database refuses the write of a leader that was paused for longer than its session.

use std::time::Duration;

use rusqlite::Connection;
use services_support::Service;
use zk_curator_testing::TestServer;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sql-writer");

/// Returns the tokens of the entries, in order.
fn tokens(database: &str) -> Vec<i64> {
    let database = Connection::open(database).expect("it exists");
    let mut query =
        database.prepare("SELECT token FROM entries ORDER BY number").expect("it has the table");
    let rows = query.query_map([], |row| row.get(0)).expect("it can be read");
    rows.map(|token| token.expect("a number")).collect()
}

/// Stops a writer between two transactions: one that is stopped within a transaction locks the
/// database.
async fn stop(writer: &Service, database: &str) {
    let database = Connection::open(database).expect("it exists");
    database.busy_timeout(Duration::ZERO).expect("a setting");
    loop {
        writer.signal("STOP").await;
        if database.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
            return;
        }
        writer.signal("CONT").await;
    }
}

#[tokio::test]
async fn a_writer_that_stood_still_writes_nothing_any_more() {
    let server = TestServer::start().await;
    let database = format!("{}/ledger-{}.db", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let mut first = Service::start(PROGRAM, &server, &[&database]);
    let old = first.line("wrote with ").await;
    let mut second = Service::start(PROGRAM, &server, &[&database]);
    server.until(|probe| probe.children("/leaders/ledger").len() == 2).await;

    // Its session expires during the pause.
    stop(&first, &database).await;
    let new = second.line("wrote with ").await;
    assert!(new.parse::<i64>().expect("a number") > old.parse().expect("a number"));
    let before = tokens(&database);
    first.signal("CONT").await;

    // It learns of its loss, or its write is refused, and it joins the election again with a new
    // token.
    server.until(|probe| probe.children("/leaders/ledger").len() == 2).await;
    second.line("wrote with ").await;
    second.signal("TERM").await;
    assert!(second.ended().await.success());
    let last = first.line("leads with ").await;
    assert!(last.parse::<i64>().expect("a number") > new.parse().expect("a number"));
    assert_eq!(first.line("wrote with ").await, last);
    first.signal("TERM").await;
    assert!(first.ended().await.success());

    let after = tokens(&database);
    assert!(after.starts_with(&before));
    assert!(after.is_sorted(), "an older token after a newer one: {after:?}");
    assert_eq!(after.last(), last.parse().ok().as_ref());
    std::fs::remove_file(database).expect("it is there");
}
