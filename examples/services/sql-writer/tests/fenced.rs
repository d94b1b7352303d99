//! What a leader writes that stood still for longer than its session is refused.

use rusqlite::Connection;
use services_support::Service;
use zk_curator_testing::TestServer;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sql-writer");

/// The tokens of the entries, in their order.
fn tokens(database: &str) -> Vec<i64> {
    let database = Connection::open(database).expect("it exists");
    let mut query = database.prepare("SELECT token FROM entries ORDER BY number").expect("it has the table");
    let rows = query.query_map([], |row| row.get(0)).expect("it can be read");
    rows.map(|token| token.expect("a number")).collect()
}

#[tokio::test]
async fn a_writer_that_stood_still_writes_nothing_any_more() {
    let server = TestServer::start().await;
    let database = format!("{}/ledger-{}.db", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let mut first = Service::start(PROGRAM, &server, &[&database]);
    let old = first.line("wrote with ").await;
    let mut second = Service::start(PROGRAM, &server, &[&database]);
    server.until(|probe| probe.children("/leaders/ledger").len() == 2).await;

    // Its session expires meanwhile.
    first.signal("STOP").await;
    let new = second.line("wrote with ").await;
    assert!(new.parse::<i64>().expect("a number") > old.parse().expect("a number"));
    let before = tokens(&database);
    first.signal("CONT").await;

    // It learns of its loss, or is refused; and it stands for election again with a new token.
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
