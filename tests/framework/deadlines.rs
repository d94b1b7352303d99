//! No operation hangs: whatever the server does, each builder ends by its deadline, with the right
//! error and the right `may_have_applied`; and without a deadline by the timeouts of the framework.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::op::{CheckOp, CreateOp, DeleteOp, SetDataOp};
use zk_curator::retry::RetryForever;
use zk_curator::{Acl, ConnectionState, CreateMode, CuratorFramework, Error, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, builder, closes_clean, in_memory, once, simulated,
    simulated_each, simulated_on, simulated_with, start, until, until_state,
};

const DEADLINE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

type Ends = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

fn ends<T: 'static>(builder: impl IntoFuture<Output = Result<T, Error>> + 'static) -> Ends {
    Box::pin(async move { builder.await.map(drop) })
}

/// Returns `true` if the first request of an operation can change anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sends {
    Read,
    Write,
}

/// Every builder, with its options, on the node `/a`, which exists.
fn every_builder(zk: &CuratorFramework) -> Vec<(&'static str, Sends, Ends)> {
    use Sends::{Read, Write};
    let acl = Acl::open_unsafe;
    vec![
        ("create", Write, ends(zk.create("/a/n"))),
        ("create", Write, ends(zk.create("/a/n").protected())),
        ("create", Write, ends(zk.create("/a/n").mode(CreateMode::Ephemeral).protected().owned())),
        ("create", Write, ends(zk.create("/a/n").owned_with_siblings())),
        ("create", Write, ends(zk.create("/a/n").owned_with_data("/a"))),
        ("create", Write, ends(zk.create("/a/b/c").creating_parents().acl_of_parents(acl()))),
        ("create", Write, ends(zk.create("/a/b/c").creating_parents_as_containers().idempotent())),
        ("create", Write, ends(zk.create("/a").data("2").or_set_data())),
        ("create_containers", Write, ends(zk.create_containers("/a/b/c").acl(acl()))),
        ("delete", Write, ends(zk.delete("/a"))),
        ("delete", Write, ends(zk.delete("/a").quietly())),
        ("delete", Write, ends(zk.delete("/a").version(0))),
        ("delete", Write, ends(zk.delete("/a").guaranteed().deleting_children())),
        ("exists", Read, ends(zk.exists("/a"))),
        ("exists", Read, ends(zk.exists("/a").watched())),
        ("exists", Read, ends(zk.exists("/x/y").creating_parents())),
        ("get_data", Read, ends(zk.get_data("/a"))),
        ("get_data", Read, ends(zk.get_data("/a").with_stat())),
        ("get_data", Read, ends(zk.get_data("/a").watched())),
        ("set_data", Write, ends(zk.set_data("/a", ""))),
        ("set_data", Write, ends(zk.set_data("/a", "").version(0))),
        ("set_data", Write, ends(zk.set_data("/a", "").version(0).idempotent())),
        ("children", Read, ends(zk.children("/a"))),
        ("children", Read, ends(zk.children("/a").with_stat())),
        ("children", Read, ends(zk.children("/a").watched())),
        ("get_acl", Read, ends(zk.get_acl("/a"))),
        ("get_acl", Read, ends(zk.get_acl("/a").with_stat())),
        ("set_acl", Write, ends(zk.set_acl("/a", acl()))),
        ("set_acl", Write, ends(zk.set_acl("/a", acl()).version(0))),
        ("sync", Read, ends(zk.sync("/a"))),
        ("add_watch", Read, ends(zk.add_watch("/a"))),
        ("add_watch", Read, ends(zk.add_watch("/a").recursive())),
        ("remove_watches", Write, ends(zk.remove_watches("/a").quietly())),
        ("get_config", Read, ends(zk.get_config())),
        ("get_config", Read, ends(zk.get_config().watched())),
        ("reconfig", Write, ends(zk.reconfig().leaving(["1"]))),
        ("reconfig", Write, ends(zk.reconfig().members(["server.1=a:1:2;3"]).from_config(0))),
        (
            "transaction",
            Write,
            ends(
                zk.transaction()
                    .with(CheckOp::new("/a"))
                    .with(CreateOp::new("/a/n"))
                    .with(SetDataOp::new("/a", ""))
                    .with(DeleteOp::new("/a/n")),
            ),
        ),
    ]
}

async fn with_node(deadline: Option<Duration>) -> (TestServer, CuratorFramework) {
    let (server, zk) = in_memory().await;
    zk.create("/a").await.unwrap();
    let zk = deadline.map_or_else(|| zk.clone(), |deadline| zk.with_deadline(deadline));
    (server, zk)
}

#[test]
fn every_builder_ends_at_its_deadline_on_a_silent_server() {
    simulated(async {
        let count = every_builder(&with_node(None).await.1).len();
        for index in 0..count {
            let (server, zk) = with_node(Some(DEADLINE)).await;
            let (operation, sends, ends) = every_builder(&zk).swap_remove(index);
            server.hold();
            let began = Instant::now();
            let error = ends.await.expect_err(operation);
            assert_eq!(began.elapsed(), DEADLINE, "{index} {error}");
            assert_eq!((error.kind(), error.operation()), (ErrorKind::OperationTimeout, operation));
            // It was sent, and its outcome is unknown.
            assert_eq!(error.may_have_applied(), sends == Sends::Write, "{index} {error}");
        }
    });
}

#[test]
fn every_builder_without_a_connection_expires_unapplied() {
    let setup = async || with_node(Some(DEADLINE)).await;
    simulated_on(setup, async |(server, zk)| {
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        let began = Instant::now();
        let mut all = tokio::task::JoinSet::new();
        let local = tokio::task::LocalSet::new();
        for (operation, _, ends) in every_builder(&zk) {
            all.spawn_local_on(async move { (operation, ends.await) }, &local);
        }
        local.await;
        assert_eq!(began.elapsed(), DEADLINE);
        while let Some(ended) = all.join_next().await {
            let (operation, result) = ended.unwrap();
            let error = result.expect_err(operation);
            assert_eq!((error.kind(), error.operation()), (ErrorKind::OperationTimeout, operation));
            assert!(!error.may_have_applied(), "it was never sent: {error}");
        }
        server.restart().await.unwrap();
        zk.wait_connected().await.unwrap();
        zk.sync("/").await.unwrap();
        // The guaranteed delete continues in the background, as its error has said.
        until(&server, |probe| probe.paths().is_empty()).await;
        closes_clean(&server, &zk).await;
    });
}

/// Curator: background retries continue long after LOST (CURATOR-184).
#[test]
fn curator_184_a_policy_without_end_ends_at_the_deadline() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk =
            start(builder(&server).retry(RetryForever::new(PAUSE)).operation_deadline(DEADLINE))
                .await;
        zk.create("/a").await.unwrap();
        let _refused = server.rule(|request| match request.is(OpCode::Ping) {
            true => Verdict::Pass,
            false => Verdict::Refuse(ErrorCode::Throttled),
        });
        for (operation, _, ends) in every_builder(&zk) {
            let began = Instant::now();
            let error = ends.await.expect_err(operation);
            // No attempt could be made in the last pause: it fails when that would begin.
            assert!(
                (DEADLINE - PAUSE..=DEADLINE).contains(&began.elapsed()),
                "{:?}",
                began.elapsed()
            );
            assert_eq!((error.kind(), error.operation()), (ErrorKind::Throttled, operation));
            assert!(!error.may_have_applied());
        }
    });
}

#[test]
fn the_timeouts_of_the_framework_end_builders_without_deadline() {
    simulated(async {
        let count = every_builder(&with_node(None).await.1).len();
        for index in 0..count {
            let (server, zk) = with_node(None).await;
            let (operation, sends, ends) = every_builder(&zk).swap_remove(index);
            server.hold();
            let began = Instant::now();
            let error = ends.await.expect_err(operation);
            let limit = SESSION_TIMEOUT + CONNECTION_TIMEOUT + Duration::from_secs(1);
            assert!(began.elapsed() < limit, "{error} after {:?}", began.elapsed());
            assert_eq!((error.kind(), error.operation()), (ErrorKind::ConnectionLoss, operation));
            assert_eq!(error.may_have_applied(), sends == Sends::Write, "{index} {error}");
        }
    });
}

/// The deadline is one for the whole operation, not for each of its steps.
#[test]
fn all_steps_of_an_operation_share_its_deadline() {
    simulated_with(async |server, zk| {
        let _slow = server.rule(|_| Verdict::Delay(Duration::from_millis(700)));
        let began = Instant::now();
        // The node, three parents that are not there, those again, and the node again.
        let error = zk.create("/a/b/c/d").creating_parents().deadline(DEADLINE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OperationTimeout);
        assert_eq!(began.elapsed(), DEADLINE);
        let began = Instant::now();
        zk.create("/x/y").creating_parents().deadline(10 * DEADLINE).await.unwrap();
        assert!(began.elapsed() > DEADLINE);
    });
}

#[test]
fn the_deadline_of_a_builder_overrides_handle_and_framework() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).operation_deadline(DEADLINE)).await;
        server.hold();
        for (zk, own, expected) in [
            (zk.clone(), None, DEADLINE),
            (zk.with_deadline(DEADLINE / 2), None, DEADLINE / 2),
            (zk.with_deadline(DEADLINE / 2), Some(DEADLINE / 4), DEADLINE / 4),
            (zk.clone(), Some(Duration::ZERO), Duration::ZERO),
        ] {
            let began = Instant::now();
            let read = zk.get_data("/a");
            let read = match own {
                Some(own) => read.deadline(own).await,
                None => read.await,
            };
            assert_eq!(read.unwrap_err().kind(), ErrorKind::OperationTimeout);
            assert_eq!(began.elapsed(), expected);
        }
    });
}

#[test]
fn a_protected_create_that_ends_at_its_deadline_leaves_nothing() {
    simulated_with(async |server, zk| {
        let slow = once(&server, OpCode::Create2, Verdict::Delay(2 * DEADLINE));
        let create =
            zk.create("/a-").mode(CreateMode::EphemeralSequential).protected().deadline(DEADLINE);
        let error = create.await.unwrap_err();
        assert!(error.may_have_applied() && error.kind() == ErrorKind::OperationTimeout);
        assert_eq!(slow.hits(), 1);
        closes_clean(&server, &zk).await;
    });
}

/// A guard that was created under a deadline is not bound by it.
/// The response comes on the same connection, after the deadline: the janitor hears it.
#[test]
fn an_owned_create_that_ends_at_its_deadline_leaves_nothing() {
    let cases = [
        (CreateMode::Ephemeral, false),
        (CreateMode::Ephemeral, true),
        (CreateMode::PersistentSequential, false),
    ];
    simulated_each(cases, async |(mode, idempotent), server, zk| {
        let late = once(&server, OpCode::Create2, Verdict::Delay(Duration::from_secs(2)));
        let create = zk.create("/n").mode(mode).data("x").deadline(Duration::from_secs(1));
        let create = if idempotent { create.idempotent() } else { create };
        let error = create.owned().await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::OperationTimeout, true));
        assert_eq!((late.hits(), zk.inspect().owed.len()), (1, 1));
        until(&server, |probe| probe.requests(OpCode::Create2) == 1).await;
        until(&server, |probe| probe.paths().is_empty()).await;
        // The request was not sent, so there is nothing to wait for.
        server.stop().await;
        let create = zk.create("/n").mode(mode).deadline(Duration::from_secs(1)).owned();
        let error = create.await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::OperationTimeout, false));
        assert!(zk.inspect().owed.is_empty());
    });
}

#[test]
fn the_deadline_of_a_create_is_not_that_of_its_guard() {
    simulated_with(async |server, zk| {
        let node = zk.with_deadline(DEADLINE).create("/a").owned().await.unwrap();
        let slow = once(&server, OpCode::Delete, Verdict::Delay(2 * DEADLINE));
        node.delete().await.unwrap();
        assert_eq!((slow.hits(), server.probe().exists("/a")), (1, false));
    });
}
