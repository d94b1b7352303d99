//! Before `start`, and after `close`.

use tokio::time::timeout;
use zk_curator::{CreateMode, ErrorKind};
use zk_curator_recipes::cache::CuratorCache;
use zk_curator_recipes::leader::LeaderLatch;
use zk_curator_recipes::node::PersistentNode;
use zk_curator_tests::catalogue::{Failure, Row, Stage};
use zk_curator_tests::{builder, server, simulated_on};

use super::{AS_USUAL, AT, Judged, LONG, WITHOUT_ERRORS, each, set_up};

/// The call fails with this kind, and names the operation.
async fn fails(row: Row, stage: Stage, kind: ErrorKind) -> Judged {
    let call = match (row.set_up)(stage).await {
        Ok(call) => call,
        // The set-up is a call with a row of its own.
        Err(failure) if failure.kind == Some(kind) => return Ok(()),
        Err(failure) => return Err(format!("the set-up fails: {failure}")),
    };
    match timeout(LONG, call).await {
        Err(_) => Err("it waits".to_owned()),
        Ok(Ok(_)) => Err("it succeeds".to_owned()),
        Ok(Err(failure)) if failure.kind == Some(kind) && !failure.operation.is_empty() => Ok(()),
        Ok(Err(failure)) => Err(failure.to_string()),
    }
}

#[test]
fn a_call_before_start_says_so() {
    each(async |row| {
        if WITHOUT_ERRORS.contains(&row.name) {
            return Ok(());
        }
        let stage = Stage::latent(AT, AS_USUAL).await;
        let wrong = fails(row, stage.clone(), ErrorKind::NotStarted).await;
        drop(stage.other.close().await);
        wrong
    });
}

/// Calls that end what is over already, or wait for its end.
pub(super) const ENDS: [&str; 19] = [
    "changed",
    "close",
    // `None`: it is not ours any more.
    "confirm",
    "expired",
    "flush",
    "leave",
    "lost",
    "lost_by",
    "lost_or",
    "next",
    "over",
    "release",
    "resign",
    "revoke",
    "revoked",
    "run",
    "unbind",
    "unregister",
    "until",
];

/// The error says that a guard was lost, or that a task has ended.
pub(super) fn is_of_the_handle(failure: &Failure) -> bool {
    ["lost", "has ended", "it ends"].iter().any(|end| failure.text.contains(end))
}

#[test]
fn a_call_after_close_says_so() {
    each(async |row| {
        let (stage, call) = set_up(row, AS_USUAL).await?;
        stage.zk.close().await.map_err(|why| why.to_string())?;
        let ended = timeout(LONG, call).await;
        drop(stage.other.close().await);
        match ended {
            Err(_) => Err("it waits".to_owned()),
            Ok(Ok(_)) if ENDS.contains(&row.method()) => Ok(()),
            Ok(Ok(_)) => Err("it succeeds".to_owned()),
            Ok(Err(failure)) if failure.kind == Some(ErrorKind::Closed) => Ok(()),
            Ok(Err(failure)) if is_of_the_handle(&failure) => Ok(()),
            Ok(Err(failure)) => Err(failure.to_string()),
        }
    });
}

/// Operations that began before `start` continue after it.
#[test]
fn what_waits_in_the_background_waits_for_the_start() {
    simulated_on(server, async |server| {
        let zk = builder(&server).build().unwrap();
        let mut errors = zk.background_errors();
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        let cache = CuratorCache::tree(&zk, "/").start();
        let node = PersistentNode::builder(&zk, "/node", CreateMode::Ephemeral).start();
        assert!(candidate.await_leadership().await.is_err());
        assert!(timeout(LONG, errors.next()).await.is_err());
        zk.start().await.unwrap();
        candidate.await_leadership().await.unwrap();
        cache.loaded().await.unwrap();
        node.created().await.unwrap();
        candidate.close().await.unwrap();
        zk.close().await.unwrap();
    });
}
