//! A path that ZooKeeper does not allow.

use tokio::time::timeout;
use zk_curator::ErrorKind;
use zk_curator_tests::catalogue::Stage;

use super::{Disturbed, LONG, WITHOUT_PATH, as_usual, each};

#[test]
fn a_bad_path_is_named_and_not_sent() {
    each(async |row| {
        if WITHOUT_PATH.contains(&row.name) {
            return Ok(());
        }
        let stage = Stage::new("/a//b", as_usual).await;
        let sent = Disturbed::nothing(&stage);
        let failure = match (row.set_up)(stage.clone()).await {
            // The set-up is a call with a row of its own.
            Err(failure) => failure,
            Ok(call) => match timeout(LONG, call).await {
                Err(_) => return Err("it waits".to_owned()),
                Ok(Ok(_)) => return Err("it succeeds".to_owned()),
                Ok(Err(failure)) => failure,
            },
        };
        if failure.kind != Some(ErrorKind::InvalidPath) || !failure.path.contains("/a//b") {
            return Err(format!("{failure}, path {:?}", failure.path));
        }
        if sent.requests() > 0 { Err("something is sent".to_owned()) } else { Ok(()) }
    });
}
