//! The server refuses one request, or several in a row: for a lack of rights, or because it has
//! too much to do.

use std::time::Duration;

use zk_curator::retry::RetryNTimes;
use zk_curator::{CuratorFrameworkBuilder, ErrorKind};
use zk_curator_testing::{ErrorCode, TestServer, Verdict};

use zk_curator_tests::size;

use super::{WITHOUT_PATH, as_usual, disturbed, each, same};

/// Waits for what cannot be read: they end with the session, or when it can be read again.
const WAIT: [&str; 5] = ["lost", "lost_or", "over", "revoked", "wait_ready"];
/// An event of an instance that cannot be read does not come.
const LEFT_OUT: &str = "discovery::ServiceEvents::next";

#[test]
fn a_call_without_rights_ends_and_names_a_path() {
    each(async |row| {
        if WAIT.contains(&row.method()) || row.name == LEFT_OUT || WITHOUT_PATH.contains(&row.name)
        {
            return Ok(());
        }
        let refused = (Verdict::Refuse(ErrorCode::NoAuth), 1);
        disturbed(row, as_usual, refused, |played, _| match &played.result {
            Err(failure) if failure.kind != Some(ErrorKind::NoAuth) => Err(failure.to_string()),
            Err(failure) if failure.path.is_empty() => Err(format!("without a path: {failure}")),
            _ => Ok(()),
        })
        .await
    });
}

/// Outlasts a burst.
fn patient(builder: CuratorFrameworkBuilder, _: &TestServer) -> CuratorFrameworkBuilder {
    builder.retry(RetryNTimes::new(20, Duration::from_millis(10)))
}

#[test]
fn a_throttled_call_succeeds_as_without_it() {
    each(async |row| {
        for burst in [8, 1].into_iter().take(size(1, 2)) {
            let refused = (Verdict::Refuse(ErrorCode::Throttled), burst);
            disturbed(row, patient, refused, |played, expected| match &played.result {
                Ok(()) => same(played, expected),
                Err(failure) => Err(failure.to_string()),
            })
            .await?;
        }
        Ok(())
    });
}
