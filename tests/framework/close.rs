//! `close` and pending cleanup: the cleanup of futures and guards at the time of the call, nodes
//! that it cannot delete, and its duration.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::retry::RetryNTimes;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, Error, ErrorCode, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{idle, settled};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{builder, once, simulated, simulated_on, start, until_state};

const CLOSE_TIMEOUT: Duration = Duration::from_secs(4);
/// The pause before a retry: longer than anything here takes.
const PAUSE: Duration = Duration::from_secs(3600);

type Operation = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

async fn patient() -> (TestServer, CuratorFramework) {
    let server = TestServer::in_memory().await;
    let zk = builder(&server).close_timeout(CLOSE_TIMEOUT).retry(RetryNTimes::new(3, PAUSE));
    let zk = start(zk).await;
    (server, zk)
}

/// Operations that leave a persistent node behind if they are abandoned, with the request that
/// fails.
async fn operations(zk: &CuratorFramework) -> Vec<(OpCode, Operation)> {
    zk.create("/deleted").await.unwrap();
    zk.create("/tree/child").creating_parents().await.unwrap();
    let owned = zk.create("/owned").owned().await.unwrap();
    let numbered =
        zk.create("/numbered-").mode(CreateMode::PersistentSequential).owned().await.unwrap();
    let create = |path: &str| zk.create(path).data("ours");
    let plain = create("/plain").protected().into_future();
    let protected = create("/protected").protected().owned().into_future();
    let by_data = create("/by-data").protected_by_data().owned().into_future();
    vec![
        (OpCode::Delete, Box::pin(zk.delete("/deleted").guaranteed().into_future())),
        (
            OpCode::Delete,
            Box::pin(zk.delete("/tree").guaranteed().deleting_children().into_future()),
        ),
        (OpCode::Delete, Box::pin(owned.delete())),
        (OpCode::Delete, Box::pin(numbered.delete())),
        (OpCode::Create2, Box::pin(async { plain.await.map(|_| ()) })),
        (OpCode::Create2, Box::pin(async { protected.await.map(drop) })),
        (OpCode::Create2, Box::pin(async { by_data.await.map(drop) })),
    ]
}

/// One operation, in the pause after its first request was lost, or the response to it.
async fn paused(
    which: usize,
    verdict: Verdict,
) -> Option<(TestServer, CuratorFramework, Operation)> {
    let (server, zk) = patient().await;
    let (opcode, mut operation) = operations(&zk).await.into_iter().nth(which)?;
    let lost = once(&server, opcode, verdict);
    tokio::select! {
        biased;
        _ = &mut operation => panic!("it has not failed"),
        () = idle(PAUSE / 2) => {}
    }
    assert_eq!(lost.hits(), 1, "{which} {verdict:?}");
    zk.wait_connected().await.unwrap();
    Some((server, zk, operation))
}

/// The nodes of operations that were dropped without a poll. Only the node of `which` is checked.
fn assert_gone(server: &TestServer, which: usize) {
    let prefix = ["/deleted", "/tree", "/owned", "/numbered-", "/_c_", "/_c_", "/by-data"][which];
    let left: Vec<_> =
        server.probe().paths().into_iter().filter(|path| path.starts_with(prefix)).collect();
    assert!(left.is_empty(), "{left:?}");
}

const LOST: [Verdict; 2] = [Verdict::LoseRequest, Verdict::LoseReply];

#[test]
fn close_settles_operations_in_a_retry_pause() {
    simulated(async {
        for (which, verdict) in (0..).flat_map(|which| LOST.map(|verdict| (which, verdict))) {
            let Some((server, zk, operation)) = paused(which, verdict).await else { break };
            // It is the janitor that hears of the close first.
            let operation = tokio::spawn(operation);
            settled().await;
            let began = Instant::now();
            zk.close().await.unwrap();
            assert!(began.elapsed() < CLOSE_TIMEOUT / 4, "{which}: close waited in vain");
            operation.await.unwrap().unwrap_err();
            assert_gone(&server, which);
        }
    });
}

#[test]
fn close_settles_operations_that_are_dropped_while_it_runs() {
    simulated(async {
        for (which, verdict) in (0..).flat_map(|which| LOST.map(|verdict| (which, verdict))) {
            let Some((server, zk, operation)) = paused(which, verdict).await else { break };
            let mut close = Box::pin(zk.close());
            // Closing, and everything that can happen has happened.
            tokio::select! {
                biased;
                _ = &mut close => panic!("{which}: closed with a debt"),
                () = settled() => {}
            }
            drop(operation);
            close.await.unwrap();
            assert_gone(&server, which);
        }
    });
}

/// As in `select!` loops: the future exists, but is not polled while the framework is closed.
#[test]
fn close_settles_operations_that_are_not_polled() {
    simulated(async {
        for (which, verdict) in (0..).flat_map(|which| LOST.map(|verdict| (which, verdict))) {
            let Some((server, zk, operation)) = paused(which, verdict).await else { break };
            zk.close().await.unwrap();
            assert_gone(&server, which);
            operation.await.unwrap_err();
            assert_gone(&server, which);
        }
    });
}

#[test]
fn close_settles_operations_in_flight() {
    simulated(async {
        for polled in [true, false] {
            for which in 0.. {
                let (server, zk) = patient().await;
                let Some((opcode, mut operation)) = operations(&zk).await.into_iter().nth(which)
                else {
                    break;
                };
                let slow = once(&server, opcode, Verdict::Delay(Duration::from_millis(100)));
                assert!(poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx).is_pending())).await);
                if polled {
                    let operation = tokio::spawn(operation);
                    zk.close().await.unwrap();
                    // It has its response, or learns that nothing will come of it.
                    if let Err(error) = operation.await.unwrap() {
                        assert_eq!(error.kind(), ErrorKind::Closed, "{which}");
                    }
                } else {
                    zk.close().await.unwrap();
                    drop(operation);
                }
                assert!(slow.hits() <= 1);
                let kept =
                    polled && server.probe().paths().iter().any(|path| path.ends_with("-plain"));
                if !kept {
                    assert_gone(&server, which);
                }
            }
        }
    });
}

#[test]
fn close_names_what_it_could_not_clean_up_within_its_timeout() {
    simulated_on(patient, async |(server, zk)| {
        let mut errors = zk.background_errors();
        let ephemeral = zk.create("/e").mode(CreateMode::Ephemeral).owned().await.unwrap();
        let node = zk.create("/n").owned().await.unwrap();
        zk.create("/d").await.unwrap();
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        let delete = tokio::spawn(zk.delete("/d").guaranteed().into_future());
        // It has waited for a connection, and its delete is pending.
        settled().await;
        drop((ephemeral, node));
        let began = Instant::now();
        let error = zk.close().await.unwrap_err();
        assert!(began.elapsed() <= CLOSE_TIMEOUT, "{:?}", began.elapsed());
        assert_eq!((error.kind(), error.operation()), (ErrorKind::LeftBehind, "close"));
        let left = error.left_behind().unwrap();
        assert_eq!((left.paths(), left.nodes()), (&["/n".to_owned(), "/d".to_owned()][..], 2));
        assert!(left.session_failure().is_some());
        assert!(error.to_string().contains("2 nodes may be left: /n, /d"), "{error}");
        let told = errors.next().await.unwrap();
        assert_eq!(told.to_string(), error.to_string());
        assert!(errors.next().await.is_none());
        delete.await.unwrap().unwrap_err();
        // A second call returns the same error.
        assert_eq!(zk.close().await.unwrap_err().to_string(), error.to_string());
    });
}

#[test]
fn close_goes_on_when_its_future_is_dropped() {
    simulated(async {
        let (server, zk, operation) = paused(0, Verdict::LoseRequest).await.unwrap();
        let mut close = Box::pin(zk.close());
        assert!(poll_fn(|cx| Poll::Ready(close.as_mut().poll(cx).is_pending())).await);
        drop(close);
        settled().await;
        drop(operation);
        zk.close().await.unwrap();
        assert_gone(&server, 0);
    });
}

#[test]
fn close_counts_what_it_does_not_list() {
    simulated_on(patient, async |(server, zk)| {
        let mut nodes = Vec::new();
        for n in 0..100 {
            nodes.push(zk.create(format!("/n{n:02}")).owned().await.unwrap());
        }
        server.stop().await;
        drop(nodes);
        let error = zk.close().await.unwrap_err();
        let left = error.left_behind().unwrap();
        assert_eq!((left.paths().len(), left.nodes()), (32, 100));
        assert!(error.to_string().contains("100 nodes may be left: /n00, /n01"), "{error}");
        assert!(error.to_string().contains("and 68 more"), "{error}");
    });
}

#[test]
fn close_names_what_a_server_refuses_to_delete() {
    simulated_on(patient, async |(server, zk)| {
        let mut errors = zk.background_errors();
        let node = zk.create("/n").owned().await.unwrap();
        let refused = once(&server, OpCode::Delete, Verdict::Refuse(ErrorCode::NoAuth));
        let mut close = Box::pin(zk.close());
        assert!(poll_fn(|cx| Poll::Ready(close.as_mut().poll(cx).is_pending())).await);
        drop(node);
        let error = close.await.unwrap_err();
        assert_eq!(
            (refused.hits(), error.left_behind().unwrap().paths()),
            (1, &["/n".to_owned()][..])
        );
        assert!(error.left_behind().unwrap().session_failure().is_none());
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::NoAuth);
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::LeftBehind);
    });
}

/// The holder may still keep the node, with `leak`, so it is not deleted under it.
#[test]
fn close_names_the_persistent_nodes_of_guards_that_outlive_it() {
    simulated_on(patient, async |(server, zk)| {
        let kept = zk.create("/kept").owned().await.unwrap();
        let session_bound = zk.create("/e").mode(CreateMode::Ephemeral).owned().await.unwrap();
        let error = zk.close().await.unwrap_err();
        assert_eq!(error.left_behind().unwrap().paths(), ["/kept"]);
        drop((kept, session_bound));
        assert_eq!(server.probe().paths(), ["/kept"]);
    });
}

#[test]
fn close_waits_a_moment_for_guards_that_hear_of_it() {
    simulated_on(patient, async |(server, zk)| {
        let (dropped, leaked) = tokio::join!(
            zk.create("/dropped").owned().into_future(),
            zk.create("/leaked").owned().into_future(),
        );
        let mut close = Box::pin(zk.close());
        assert!(poll_fn(|cx| Poll::Ready(close.as_mut().poll(cx).is_pending())).await);
        drop(dropped.unwrap());
        drop(leaked.unwrap().leak());
        close.await.unwrap();
        assert_eq!(server.probe().paths(), ["/leaked"]);
    });
}

#[test]
fn an_abandoned_create_with_a_lost_response_is_reported() {
    simulated_on(patient, async |(server, zk)| {
        let mut errors = zk.background_errors();
        let held = once(&server, OpCode::Create2, Verdict::Delay(PAUSE));
        let mut create = Box::pin(zk.create("/n").owned().into_future());
        tokio::select! {
            biased;
            _ = &mut create => panic!("it has a response"),
            () = held.fired() => {}
        }
        drop(create);
        server.stop().await;
        let error = errors.next().await.unwrap();
        assert_eq!((held.hits(), error.path(), error.may_have_applied()), (1, "/n", true));
    });
}
