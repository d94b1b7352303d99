//! A path that ZooKeeper does not allow.

use tokio::time::timeout;
use zk_curator::ErrorKind;
use zk_curator_testing::Verdict;
use zk_curator_tests::catalogue::{Failure, Row, Stage};
use zk_curator_tests::rule_if;

use super::latent::is_of_the_handle;
use super::{AS_USUAL, AT, Judged, LONG, WITHOUT_ERRORS, WITHOUT_PATH, each, ended, set_up};

const BAD: &str = "/at//b";

/// The error says that this path is not valid.
fn names(failure: Failure) -> Judged {
    if failure.kind == Some(ErrorKind::InvalidPath) && failure.path.starts_with(AT) {
        return Ok(());
    }
    Err(format!("{failure}, path {:?}", failure.path))
}

#[test]
fn a_handle_with_a_bad_path_says_so() {
    each(async |row| {
        if WITHOUT_PATH.contains(&row.name) || WITHOUT_ERRORS.contains(&row.name) {
            return Ok(());
        }
        let stage = Stage::new(BAD, AS_USUAL).await;
        match (row.set_up)(stage.clone()).await {
            // The set-up is a call with a row of its own.
            Err(failure) => names(failure),
            Ok(call) => match timeout(LONG, call).await {
                Err(_) => Err("it waits".to_owned()),
                Ok(Ok(_)) => Err("it succeeds".to_owned()),
                Ok(Err(failure)) => names(failure),
            },
        }
    });
}

/// The set-up has a good path. A call of a handle that it has made keeps that.
#[test]
fn a_bad_path_is_never_sent() {
    each(async |row: Row| {
        let (stage, call) = set_up(row, AS_USUAL).await?;
        stage.move_to(BAD);
        let bad = rule_if(
            &stage.server,
            |request| request.paths().any(|path| path.contains("//")),
            Verdict::Disconnect,
        );
        match timeout(LONG, call).await {
            Err(_) => return Err("it waits".to_owned()),
            Ok(Err(failure)) if is_of_the_handle(&failure) => {}
            Ok(Err(failure)) => names(failure)?,
            Ok(Ok(_)) => {}
        }
        if bad.hits() > 0 { Err("it is sent".to_owned()) } else { ended(&stage).await }
    });
}
