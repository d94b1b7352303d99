//! The server refuses one request, or several in a row: for a lack of rights, or because it has
//! too much to do.

use std::time::Duration;

use zk_curator::retry::RetryNTimes;
use zk_curator::{CuratorFrameworkBuilder, ErrorKind};
use zk_curator_testing::{ErrorCode, TestServer, Verdict};

use zk_curator_tests::catalogue::Row;

use super::{AS_USUAL, WITHOUT_PATH, disturbed, each_of, same};

/// Waits for what cannot be read: they end with the session, or when it can be read again.
const WAIT: [&str; 5] = ["lost", "lost_or", "over", "revoked", "wait_ready"];
/// An event of an instance that cannot be read does not come.
const LEFT_OUT: &str = "discovery::ServiceEvents::next";

#[test]
fn a_call_without_rights_ends_and_names_a_path() {
    each_of(0, 3, async |row| {
        if WAIT.contains(&row.method()) || row.name == LEFT_OUT || WITHOUT_PATH.contains(&row.name)
        {
            return Ok(());
        }
        let refused = (Verdict::Refuse(ErrorCode::NoAuth), 1);
        disturbed(row, AS_USUAL, refused, |played, _| match &played.result {
            Err(failure) if failure.kind != Some(ErrorKind::NoAuth) => Err(failure.to_string()),
            Err(failure) if failure.path.is_empty() => Err(format!("without a path: {failure}")),
            _ => Ok(()),
        })
        .await
    });
}

/// Calls that wait, and those of tasks in the background, go on without retries.
const LASTS: [&str; 13] = [
    "await_leadership",
    "bound",
    "created",
    "joined",
    "loaded",
    "lost",
    "lost_or",
    "over",
    "revoked",
    "run",
    "wait_data",
    "wait_exists",
    "wait_gone",
];
/// Streams that go on without retries.
const STREAMS: [&str; 4] = ["Watch::", "Observer::", "Events::", "Watch<"];
/// An item is delivered again if its acknowledgement was refused.
const AGAIN: &str = "queue::Consumer::run";
/// A body that is run by the call, not by a task.
const BY_THE_CALL: &str = "stm::Transaction::run";

/// Outlasts a burst.
fn patient(builder: CuratorFrameworkBuilder, _: &TestServer) -> CuratorFrameworkBuilder {
    builder.retry(RetryNTimes::new(20, Duration::from_millis(10)))
}

#[test]
fn a_throttled_call_succeeds_as_without_it() {
    each_of(1, 3, async |row| {
        for burst in [8, 1] {
            let refused = (Verdict::Refuse(ErrorCode::Throttled), burst);
            disturbed(row, [patient; 2], refused, |played, expected| match &played.result {
                Ok(()) => same(played, expected),
                Err(failure) => Err(failure.to_string()),
            })
            .await?;
        }
        Ok(())
    });
}

fn lasts(row: Row) -> bool {
    let is_stream = STREAMS.iter().any(|stream| row.name.contains(stream));
    (is_stream || LASTS.contains(&row.method())) && row.call() != BY_THE_CALL
}

fn impatient(builder: CuratorFrameworkBuilder, _: &TestServer) -> CuratorFrameworkBuilder {
    builder.retry(RetryNTimes::new(0, Duration::ZERO))
}

#[test]
fn a_throttled_call_without_retries_says_so() {
    each_of(2, 3, async |row| {
        let refused = (Verdict::Refuse(ErrorCode::Throttled), 1);
        disturbed(row, [impatient; 2], refused, |played, expected| match &played.result {
            Ok(()) if row.call() == AGAIN => Ok(()),
            Ok(()) => same(played, expected),
            Err(failure) if lasts(row) => Err(failure.to_string()),
            Err(failure) if failure.kind != Some(ErrorKind::Throttled) || !failure.is_retryable => {
                Err(failure.to_string())
            }
            Err(_) => Ok(()),
        })
        .await
    });
}
