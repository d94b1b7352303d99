//! Errors say what to change.

use std::future::IntoFuture;
use std::time::Duration;

use zk_curator::retry::RetryNTimes;
use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind};
use zk_curator_client::ConnectionFailure;
use zk_curator_proto::OpCode;
use zk_curator_testing::Verdict;
use zk_curator_tests::{SESSION_TIMEOUT, builder, server, simulated_on, simulated_with, start};

#[test]
fn error_of_an_old_server_names_the_version_it_needs() {
    simulated_with(async |server, zk| {
        // As ZooKeeper 3.4: it knows none of these.
        let _old = server.rule(|request| {
            let known = [
                OpCode::Create2,
                OpCode::CreateContainer,
                OpCode::CreateTtl,
                OpCode::AddWatch,
                OpCode::WhoAmI,
            ];
            match known.into_iter().any(|opcode| request.is(opcode)) {
                true => Verdict::Refuse(ErrorCode::Unimplemented),
                false => Verdict::Pass,
            }
        });
        let minute = Duration::from_secs(60);
        let extended = "3.5.4 with zookeeper.extendedTypesEnabled=true on every server";
        for (result, request, needs) in [
            (zk.create("/a").await.map(drop), "create \"/a\"", ("Create2", "3.5")),
            (
                zk.create("/a").mode(CreateMode::Container).await.map(drop),
                "create \"/a\"",
                ("CreateContainer", "3.5.1"),
            ),
            (
                zk.create("/a").mode(CreateMode::PersistentWithTtl).ttl(minute).await.map(drop),
                "create \"/a\"",
                ("CreateTtl", extended),
            ),
            (zk.who_am_i().await.map(drop), "who_am_i \"/\"", ("WhoAmI", "3.7")),
        ] {
            let error = result.unwrap_err();
            assert_eq!(
                (error.kind(), error.code()),
                (ErrorKind::Unsupported, Some(ErrorCode::Unimplemented))
            );
            let (opcode, version) = needs;
            let told = format!(
                "the server does not know the request {opcode}, which needs ZooKeeper {version}"
            );
            assert_eq!(error.to_string(), format!("{request}: not supported ({told})"));
            assert!(!error.may_have_applied());
        }
    });
}

#[test]
fn error_of_a_wrong_address_says_what_to_write() {
    for (connect_string, told) in [
        (
            "http://zk1:2181",
            "connect string begins with \"http://\": leave that out, and write \"host:port\"",
        ),
        (
            "zk1:2181/app/",
            "connect string has the chroot \"/app/\": leave out the slash at its end",
        ),
    ] {
        let error = CuratorFramework::builder().connect_string(connect_string).build().unwrap_err();
        assert_eq!(error.to_string(), format!("build: invalid argument ({told})"));
    }
    let error =
        CuratorFramework::builder().connect_string("zk1").namespace("/app").build().unwrap_err();
    let told = "a namespace is a name, not a path: leave out the slash at its beginning";
    assert_eq!(error.to_string(), format!("build \"/app\": invalid path ({told})"));
}

/// Time jumps without any task having run: a task blocks the runtime, or the process was stopped.
#[test]
fn a_starved_process_is_reported_and_not_the_server() {
    simulated_on(server, async |server| {
        let zk = start(builder(&server).retry(RetryNTimes::new(0, Duration::ZERO))).await;
        zk.create("/a").await.unwrap();
        // In flight, so that it learns of the end of the connection.
        server.hold();
        let read = zk.set_data("/a", "x").version(0);
        let mut read = Box::pin(read.into_future());
        assert!(futures_util::poll!(&mut read).is_pending());
        tokio::task::yield_now().await;
        tokio::time::advance(SESSION_TIMEOUT * 9 / 10).await;
        let error = read.await.unwrap_err();
        let failure = zk.last_failure().unwrap();
        let stalled =
            ConnectionFailure::of(&failure).and_then(ConnectionFailure::stalled).expect("a stall");
        // A ping was due after a third of the timeout.
        assert!(stalled >= SESSION_TIMEOUT / 2, "{stalled:?}");
        assert!(error.to_string().contains("this process did not run for"), "{error}");
        assert!(!error.to_string().contains("silent"), "{error}");
    });
}
