//! Bad input and unreachable servers: typed errors that name the operation and the path, never a
//! hang.

use std::time::Duration;

use tokio::time::Instant;
use zk_curator::op::{CreateOp, DeleteOp, SetDataOp};
use zk_curator::path::PathError;
use zk_curator::retry::{RetryForever, RetryNTimes};
use zk_curator::{Acl, CreateMode, CuratorFramework, Error, ErrorKind, Version};
use zk_curator_proto::OpCode;
use zk_curator_testing::TestServer;
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, builder, builder_for, real_time, simulated_each,
    simulated_on, simulated_with, start,
};

/// The result of every operation for a path, by the operation's name.
async fn every_operation(
    zk: &CuratorFramework,
    path: &str,
) -> Vec<(&'static str, Result<(), Error>)> {
    vec![
        ("create", zk.create(path).await.map(drop)),
        ("create", zk.create(path).creating_parents().protected().owned().await.map(drop)),
        (
            "create",
            zk.create(path)
                .mode(CreateMode::EphemeralSequential)
                .owned_with_siblings()
                .await
                .map(drop),
        ),
        ("delete", zk.delete(path).await),
        ("delete", zk.delete(path).guaranteed().deleting_children().quietly().await),
        ("exists", zk.exists(path).await.map(drop)),
        ("exists", zk.exists(path).watched().await.map(drop)),
        ("get_data", zk.get_data(path).await.map(drop)),
        ("get_data", zk.get_data(path).with_stat().await.map(drop)),
        ("get_data", zk.get_data(path).watched().await.map(drop)),
        ("set_data", zk.set_data(path, "").await.map(drop)),
        ("set_data", zk.set_data(path, "").version(0).await.map(drop)),
        ("children", zk.children(path).await.map(drop)),
        ("children", zk.children(path).with_stat().await.map(drop)),
        ("children", zk.children(path).watched().await.map(drop)),
        (
            "create",
            zk.create(path).idempotent().acl_of_parents(vec![]).creating_parents().await.map(drop),
        ),
        ("create", zk.create(path).or_set_data().await.map(drop)),
        ("create_containers", zk.create_containers(path).await),
        ("delete", zk.delete(path).deleting_children().max_in_flight(2).idempotent().await),
        ("exists", zk.exists(path).creating_parents().await.map(drop)),
        ("exists", zk.exists(path).creating_parents_as_containers().watched().await.map(drop)),
        ("set_data", zk.set_data(path, "").version(0).idempotent().await.map(drop)),
        ("get_acl", zk.get_acl(path).await.map(drop)),
        ("get_acl", zk.get_acl(path).with_stat().await.map(drop)),
        ("set_acl", zk.set_acl(path, vec![]).await.map(drop)),
        ("set_acl", zk.set_acl(path, vec![]).version(0).await.map(drop)),
        ("add_watch", zk.add_watch(path).await.map(drop)),
        ("add_watch", zk.add_watch(path).recursive().await.map(drop)),
        ("remove_watches", zk.remove_watches(path).await),
        ("transaction", zk.transaction().with(CreateOp::new(path)).commit().await.map(drop)),
        ("transaction", zk.transaction().with(SetDataOp::new(path, "")).commit().await.map(drop)),
        ("sync", zk.sync(path).await),
        ("transaction", zk.transaction().check(path, None).commit().await.map(drop)),
        ("transaction", zk.transaction().create(path, "").commit().await.map(drop)),
        ("transaction", zk.transaction().set_data(path, "").commit().await.map(drop)),
        ("transaction", zk.transaction().delete(path).commit().await.map(drop)),
    ]
}

#[test]
fn every_operation_refuses_an_invalid_path_unsent() {
    simulated_with(async |server, zk| {
        let namespaced = zk.using_namespace("ns").unwrap();
        let before = server.probe().total_requests();
        for (path, why) in [
            ("", PathError::Empty),
            ("relative", PathError::Relative),
            ("/a//b", PathError::EmptyComponent),
            ("//a", PathError::EmptyComponent),
            ("/a/./b", PathError::RelativeComponent),
            ("/..", PathError::RelativeComponent),
            ("/a\0b", PathError::InvalidCharacter('\0')),
            ("/a\u{f000}", PathError::InvalidCharacter('\u{f000}')),
            ("/a//", PathError::TrailingSlash),
        ] {
            for zk in [&zk, &namespaced] {
                for (operation, result) in every_operation(zk, path).await {
                    let error = result.expect_err(path);
                    assert_eq!(error.kind(), ErrorKind::InvalidPath, "{operation} {path:?}");
                    assert_eq!((error.operation(), error.path()), (operation, path));
                    assert_eq!(error.cause().unwrap().to_string(), why.to_string());
                    assert!(!error.may_have_applied() && !error.is_retryable());
                }
            }
        }
        assert_eq!(server.probe().total_requests(), before);
    });
}

#[test]
fn a_trailing_slash_is_only_for_sequential_creates() {
    simulated_with(async |server, zk| {
        assert_eq!(zk.create("/q/").await.unwrap_err().kind(), ErrorKind::InvalidPath);
        assert_eq!(zk.get_data("/q/").await.unwrap_err().kind(), ErrorKind::InvalidPath);
        let mode = CreateMode::PersistentSequential;
        let created = zk.create("/q/").mode(mode).creating_parents().await.unwrap();
        assert_eq!(created.path, "/q/0000000000");
        assert_eq!(zk.create("/").mode(mode).await.unwrap().path, "/0000000001");
        assert_eq!(server.probe().paths(), ["/0000000001", "/q", "/q/0000000000"]);
    });
}

#[test]
fn data_over_the_limit_are_refused_before_they_are_sent() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        let before = server.probe().total_requests();
        let large = vec![0; 1 << 20];
        for (operation, result) in [
            ("create", zk.create("/a").data(large.clone()).await.map(drop)),
            ("create", zk.create("/a").data(large.clone()).protected().owned().await.map(drop)),
            ("set_data", zk.set_data("/a", large.clone()).await.map(drop)),
            ("set_data", zk.set_data("/a", large.clone()).version(0).await.map(drop)),
            (
                "transaction",
                zk.transaction().set_data("/a", large.clone()).commit().await.map(drop),
            ),
        ] {
            let error = result.unwrap_err();
            let why = error.cause().unwrap();
            assert_eq!(error.to_string(), format!("{operation} \"/a\": request too large ({why})"));
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            assert!(!error.may_have_applied());
        }
        assert_eq!(server.probe().total_requests(), before, "the connection continues");
        // A request of exactly the largest size is sent.
        let fits = vec![1; (1 << 20) - 100];
        zk.set_data("/a", fits.clone()).await.unwrap();
        assert_eq!(zk.get_data("/a").await.unwrap(), fits);
    });
}

#[test]
fn exactly_version_minus_one_is_refused_and_never_sent() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        let before = server.probe().total_requests();
        let impossible = Version::Exactly(-1);
        for (operation, result) in [
            ("set_data", zk.set_data("/a", "").version(impossible).await.map(drop)),
            ("delete", zk.delete("/a").version(impossible).guaranteed().await),
            ("delete", zk.delete("/a").version(impossible).deleting_children().await),
            ("set_acl", zk.set_acl("/a", Acl::open_unsafe()).version(impossible).await.map(drop)),
            (
                "reconfig",
                zk.reconfig().leaving(["1"]).from_config(Version::Exactly(-1)).await.map(drop),
            ),
            ("transaction", zk.transaction().check("/a", impossible).await.map(drop)),
            ("transaction", zk.transaction().set_data_if("/a", "", impossible).await.map(drop)),
            (
                "transaction",
                zk.transaction().with(DeleteOp::new("/a").version(impossible)).await.map(drop),
            ),
        ] {
            let error = result.unwrap_err();
            let seen = (error.operation(), error.kind(), error.may_have_applied());
            assert_eq!(seen, (operation, ErrorKind::InvalidArgument, false), "{error}");
        }
        assert_eq!(server.probe().total_requests(), before);
        // Servers count on below -1 after the highest number.
        let error = zk.set_data("/a", "").version(i32::MIN).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadVersion);
        let error = zk.create("/a").or_set_data_if(impossible).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    });
}

#[test]
fn bad_settings_are_refused_when_the_framework_is_built() {
    for connect_string in
        ["", ",", "host:port", "host:0:1", "host:99999", "host:2181/a//b", ":2181", "a:1/x,b:1/x"]
    {
        let error = CuratorFramework::builder().connect_string(connect_string).build();
        let error = error.expect_err(connect_string);
        let why = error.cause().expect(connect_string);
        assert_eq!(
            error.to_string(),
            format!("build: invalid argument ({why})"),
            "{connect_string:?}"
        );
        assert!(why.to_string().starts_with("connect string "), "{why}");
    }
    for timeout in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(1 << 22)] {
        let builder =
            CuratorFramework::builder().connect_string("localhost").session_timeout(timeout);
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.cause().unwrap().to_string().contains("timeout"), "{error:?}");
    }
    for namespace in ["/a", "a/", "a//b", ".", "a\0"] {
        let error =
            CuratorFramework::builder().connect_string("localhost").namespace(namespace).build();
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidPath, namespace));
    }
}

#[test]
fn operations_without_a_server_fail_at_the_connection_timeout() {
    simulated_on(TestServer::in_memory, async |server| {
        // A policy that counts does not wait that often for a connection.
        let zk =
            builder(&server).retry(RetryNTimes::new(5, Duration::from_millis(10))).build().unwrap();
        server.partition();
        zk.start().await.unwrap_err();
        let began = Instant::now();
        let results = every_operation(&zk, "/a").await;
        let each = began.elapsed() / u32::try_from(results.len()).unwrap();
        for (operation, result) in results {
            let error = result.expect_err(operation);
            let failure = zk.last_failure().map_or_else(String::new, |why| format!(" ({why})"));
            assert_eq!(error.to_string(), format!("{operation} \"/a\": connection loss{failure}"));
            assert!(error.is_retryable() && !error.may_have_applied());
        }
        assert!(each < CONNECTION_TIMEOUT + Duration::from_millis(100), "{each:?}");
        // Nothing of it happens when the server is back, though all of it had been queued.
        server.heal();
        zk.wait_connected().await.unwrap();
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().paths(), [""; 0]);
    });
}

/// A server that is lost with a request in flight: first the silence has to be noticed, or the
/// session is lost; then the connection timeout counts, once.
#[test]
fn operations_on_a_silent_server_fail_after_one_timeout() {
    simulated_each(0..10, async |index, server, zk| {
        zk.create("/a").await.unwrap();
        server.hold();
        let began = Instant::now();
        let (operation, result) = match index {
            0 => ("create", zk.create("/a/b").protected().owned().await.map(drop)),
            1 => ("create", zk.create("/a/b/c").creating_parents().await.map(drop)),
            2 => ("delete", zk.delete("/a").guaranteed().deleting_children().await),
            3 => ("delete", zk.delete("/a").quietly().await),
            4 => ("delete", zk.delete("/a").version(0).await),
            5 => ("get_data", zk.get_data("/a").watched().await.map(drop)),
            6 => ("set_data", zk.set_data("/a", "").version(0).await.map(drop)),
            7 => ("set_data", zk.set_data("/a", "").await.map(drop)),
            8 => ("sync", zk.sync("/a").await),
            9 => ("transaction", zk.transaction().delete("/a").commit().await.map(drop)),
            _ => unreachable!(),
        };
        let error = result.expect_err(operation);
        assert_eq!((error.kind(), error.operation()), (ErrorKind::ConnectionLoss, operation));
        assert_eq!(error.may_have_applied(), !matches!(operation, "get_data" | "sync"), "{error}");
        let limit = SESSION_TIMEOUT + CONNECTION_TIMEOUT + Duration::from_secs(1);
        assert!(began.elapsed() < limit, "{operation} after {:?}", began.elapsed());
    });
}

#[test]
fn a_closed_port_is_connection_loss_at_the_connection_timeout() {
    real_time(async {
        let timeout = Duration::from_millis(500);
        for connect_string in ["127.0.0.1:1", "no-such-host.invalid:2181"] {
            let zk = CuratorFramework::builder()
                .connect_string(connect_string)
                .connection_timeout(timeout);
            let zk = zk.build().unwrap();
            let error = zk.start().await.unwrap_err();
            let why = error.cause().unwrap().to_string();
            assert_eq!(error.to_string(), format!("start: connection loss ({why})"));
            let error = zk.get_data("/a").await.unwrap_err();
            let failure = zk.last_failure().unwrap();
            assert_eq!(error.to_string(), format!("get_data \"/a\": connection loss ({failure})"));
            assert_eq!(error.cause().unwrap().to_string(), failure.to_string());
            zk.close().await.unwrap();
        }
    });
}

#[test]
fn a_listing_over_the_limit_fails_once_and_alone() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = builder(&server)
            .max_frame(2000)
            .max_response(4000)
            .retry(RetryForever::new(Duration::ZERO));
        let zk = start(zk).await;
        zk.create("/q").await.unwrap();
        for n in 0..200 {
            zk.create(format!("/q/a-name-of-some-length-{n:05}")).await.unwrap();
        }
        let leader = zk.create("/leader").mode(CreateMode::Ephemeral).owned().await.unwrap();
        let listings = server.probe().requests(OpCode::GetChildren2);
        let status = zk.status();
        let (listing, other) =
            tokio::join!(zk.children("/q").into_future(), zk.get_data("/q").into_future());
        let error = listing.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::ResponseTooLarge, "/q"));
        assert!(!error.is_retryable() && !error.may_have_applied() && error.code().is_none());
        other.unwrap();
        assert_eq!(server.probe().requests(OpCode::GetChildren2), listings + 1);
        // No connection state was reported, and nothing is lost.
        assert_eq!(zk.status(), status);
        leader.delete().await.unwrap();
        assert_eq!(server.probe().connections(), 1);

        let error = zk.create("/b").data(vec![0; 2000]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    });
}

#[test]
fn limits_that_admit_no_request_are_refused() {
    let zk = || builder_for("localhost:1");
    for (builder, why) in [
        (zk().queue_limits(0, 1000), "queue_limits: number of requests of 0 is out of range"),
        (zk().queue_limits(1, 0), "queue_limits: number of bytes of 0 is out of range"),
        (zk().max_frame(0), "max_frame of 0 is out of range, from 64 to 2147483647"),
        (zk().max_frame(usize::MAX), "out of range, from 64 to 2147483647"),
        (zk().max_response(0), "max_response of 0 is out of range"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, "build"));
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn the_queue_limits_are_those_of_the_builder() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk =
            builder(&server).queue_limits(3, 1 << 20).retry(RetryNTimes::new(0, Duration::ZERO));
        let zk = start(zk).await;
        server.hold();
        let requests = (0..4).map(|n| zk.exists(format!("/{n}")).into_future());
        let mut answers = futures_util::future::join_all(requests);
        assert!(futures_util::poll!(&mut answers).is_pending());
        server.release();
        let kinds = answers.await.into_iter().map(|answer| answer.map_err(|error| error.kind()));
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds, [Ok(None), Ok(None), Ok(None), Err(ErrorKind::Overloaded)]);
    });
}
