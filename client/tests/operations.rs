//! The operations of the client on a server, without faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    builder, connected, create, id, open, real_time, simulated, simulated_with, start, suite,
};
use zk_curator_client::{
    AddWatchMode, CreateMode, Error, ErrorCode, EventType, Op, PersistentEvent, Read, ReadResponse,
    SessionState, WatchedEvent, WatcherType, ZooKeeper,
};
use zk_curator_testing::TestServer;

/// Runs the suite in memory, under a paused clock; `conformance_embedded` runs it over TCP.
macro_rules! in_memory {
    (suite { $($name:ident)* } $($others:tt)*) => {
        mod in_memory {
            $(#[test] fn $name() {
                crate::common::simulated(async {
                    let server = zk_curator_testing::TestServer::in_memory().await;
                    crate::common::suite::$name(crate::common::connected(&server).await).await;
                });
            })*
        }
    };
}
crate::conformance::for_each_case!(in_memory);

#[test]
fn the_server_sees_the_kinds_that_stats_do_not_show() {
    simulated_with(async |server| {
        suite::every_kind_of_node_is_created(connected(&server).await).await;
        let probe = server.probe();
        assert!(probe.is_container("/c"), "{probe}");
        assert_eq!(probe.ttl("/t").unwrap().as_secs(), 600);
        assert!(probe.sessions().is_empty(), "{probe}");
    });
}

#[test]
fn everything_is_below_the_chroot() {
    simulated_with(async |server| {
        let outside = connected(&server).await;
        create(&outside, "/app").await.unwrap();
        create(&outside, "/app/deep").await.unwrap();
        let chrooted =
            || ZooKeeper::builder("memory/app/deep").connector(Arc::new(server.connector()));
        let zk = start(chrooted()).await;

        assert_eq!(create(&zk, "/a").await.unwrap(), "/a");
        let first = zk.create("/", b"", &open(), CreateMode::PersistentSequential).await.unwrap();
        let second = zk.create("/a/", b"", &open(), CreateMode::EphemeralSequential).await.unwrap();
        assert_eq!((first.path.as_str(), second.path.as_str()), ("/0000000001", "/a/0000000000"));
        assert_eq!(zk.get_children("/").await.unwrap().names.len(), 2);
        let (_, watch) = zk.get_children_watched("/").await.unwrap();
        create(&outside, "/app/deep/b").await.unwrap();
        assert_eq!(watch.await.unwrap().path, "/");
        let (_, watch) = zk.exists_watched("/c").await.unwrap();
        create(&outside, "/app/deep/c").await.unwrap();
        assert_eq!(watch.await.unwrap().path, "/c");
        let paths = [
            "/app",
            "/app/deep",
            "/app/deep/0000000001",
            "/app/deep/a",
            "/app/deep/a/0000000000",
            "/app/deep/b",
            "/app/deep/c",
        ];
        assert_eq!(server.probe().paths(), paths);
        zk.close().await.unwrap();

        outside.close().await.unwrap();
        let server = TestServer::in_memory().await;
        let zk =
            start(ZooKeeper::builder("memory/app").connector(Arc::new(server.connector()))).await;
        create(&connected(&server).await, "/app").await.unwrap();
        suite::transactions_apply_all_or_name_the_failure(zk).await;
        assert!(server.probe().exists("/app/m/s-0000000000"));
    });
}

/// Java's client does the same for a delete of the root; its create returns the path `""`.
#[test]
fn the_root_below_a_chroot_is_created_and_never_deleted() {
    simulated_with(async |server| {
        let outside = connected(&server).await;
        let zk =
            start(ZooKeeper::builder("memory/app").connector(Arc::new(server.connector()))).await;
        assert_eq!(create(&zk, "/").await.unwrap(), "/");
        assert_eq!(zk.get_data("/").await.unwrap().data, "data");
        let refused = Error::Refused(ErrorCode::BadArguments);
        for client in [&zk, &outside] {
            for version in [None, Some(0), Some(7)] {
                assert_eq!(client.delete("/", version).await, Err(refused.clone()));
                let delete = Op::Delete { path: "/".to_owned(), version: version.into() };
                let failed = Error::TransactionFailed { index: 0, code: ErrorCode::BadArguments };
                assert_eq!(client.multi(&[delete]).await, Err(failed));
            }
        }
        assert_eq!(server.probe().paths(), ["/app"]);

        // All other requests concern the node of the chroot.
        let (_, data) = zk.get_data_watched("/").await.unwrap();
        let (_, exists) = zk.exists_watched("/").await.unwrap();
        let (_, mut persistent) = zk.add_watch("/", AddWatchMode::Persistent).await.unwrap();
        let set = Op::SetData { path: "/".to_owned(), data: Some("x".into()), version: 0.into() };
        let check = Op::Check { path: "/".to_owned(), version: 1.into() };
        zk.multi(&[set, check]).await.unwrap();
        let zxid = zk.exists("/").await.unwrap().map(|stat| stat.mzxid);
        let changed = WatchedEvent::new(EventType::NodeDataChanged, "/".to_owned()).with_zxid(zxid);
        assert_eq!((data.await, exists.await), (Ok(changed.clone()), Ok(changed.clone())));
        assert_eq!(persistent.next().await, Some(PersistentEvent::Changed(changed)));
        zk.sync("/").await.unwrap();
        zk.set_data("/", b"y", Some(1)).await.unwrap();
        let acl = zk.get_acl("/").await.unwrap();
        assert_eq!(zk.set_acl("/", &acl.acl, Some(0)).await.unwrap().aversion, 1);
        let reads = zk
            .multi_read(&[Read::Data("/".to_owned()), Read::Children("/".to_owned())])
            .await
            .unwrap();
        assert!(matches!(&reads[0], Ok(ReadResponse::Data(read)) if read.data == "y"), "{reads:?}");
        assert!(
            matches!(&reads[1], Ok(ReadResponse::Children(names)) if names.is_empty()),
            "{reads:?}"
        );
        assert_eq!(zk.get_all_children_number("/").await.unwrap(), 0);
        zk.remove_watches("/", WatcherType::Any).await.unwrap();
    });
}

/// The server compares strings, and not the names of nodes.
#[test]
fn ephemeral_nodes_beside_the_chroot_are_not_listed() {
    simulated_with(async |server| {
        let zk =
            start(ZooKeeper::builder("memory/app").connector(Arc::new(server.connector()))).await;
        create(&zk, "/").await.unwrap();
        zk.create("/a", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        // The same session, resumed without the chroot.
        let resumed = zk.detach().await.unwrap();
        let outside = start(builder(&server).resume(resumed)).await;
        outside.create("/application", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        let resumed = outside.detach().await.unwrap();
        let builder = ZooKeeper::builder("memory/app").connector(Arc::new(server.connector()));
        let zk = start(builder.resume(resumed)).await;
        assert_eq!(zk.get_ephemerals("/").await.unwrap(), ["/a"]);
    });
}

#[test]
fn a_listing_over_the_limit_fails_and_the_connection_stays() {
    simulated_with(async |server| {
        let zk = start(builder(&server).max_frame(1024).max_response(4096)).await;
        create(&zk, "/q").await.unwrap();
        for n in 0..200 {
            create(&zk, &format!("/q/a-name-of-some-length-{n:05}")).await.unwrap();
        }
        let mut states = zk.states();
        states.next().await;
        let (before, long, watched, after) = (
            zk.exists("/q"),
            zk.get_children("/q"),
            zk.get_children_watched("/q"),
            zk.get_data("/q"),
        );
        assert_eq!(before.await.unwrap().unwrap().num_children, 200);
        for error in [long.await.unwrap_err(), watched.await.map(drop).unwrap_err()] {
            let Error::ResponseTooLarge { path, length, limit: 4096 } = error else {
                panic!("{error:?}")
            };
            assert_eq!((path.as_str(), length > 5000), ("/q", true));
        }
        assert_eq!(after.await.unwrap().data, "data");
        // The watch of the abandoned response does not stay behind.
        server.until(|probe| probe.watches().is_empty()).await;
        assert_eq!(server.probe().connections(), 1);
        zk.close().await.unwrap();
        assert_eq!(states.next().await, Some(SessionState::Closed));
    });
}

#[test]
fn a_session_has_the_granted_timeout() {
    simulated(async {
        let longest = std::time::Duration::from_secs(3);
        let server =
            TestServer::builder().tcp(false).max_session_timeout(longest).start().await.unwrap();
        let zk = connected(&server).await;
        let session = zk.connected().await.unwrap();
        assert_eq!(session.timeout, longest);
        assert_eq!(server.probe().session(id(&zk)).unwrap().timeout, longest);
        zk.close().await.unwrap();
    });
}

#[test]
fn many_tasks_share_one_session() {
    real_time(async {
        let server = TestServer::start().await;
        let zk = start(ZooKeeper::builder(server.connect_string())).await;
        create(&zk, "/n").await.unwrap();
        let tasks: Vec<_> = (0..50)
            .map(|task| {
                let zk = zk.clone();
                tokio::spawn(async move {
                    for n in 0..40 {
                        let path = format!("/n/{task}-{n}");
                        let (created, read) = (
                            zk.create(&path, b"", &open(), CreateMode::Ephemeral),
                            zk.exists(&path),
                        );
                        created.await.unwrap();
                        assert!(read.await.unwrap().is_some());
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(zk.get_children("/n").await.unwrap().names.len(), 2000);
        assert_eq!(server.probe().connections(), 1);
        zk.close().await.unwrap();
        assert_eq!(server.probe().children("/n").len(), 0);
    });
}

#[test]
fn a_client_needs_a_runtime_and_sane_settings() {
    use zk_curator_client::ConnectError;
    let no_runtime = ZooKeeper::builder("h").connect().unwrap_err();
    assert!(matches!(no_runtime, ConnectError::NoRuntime));
    simulated(async {
        assert!(matches!(ZooKeeper::builder("").connect(), Err(ConnectError::ConnectString(_))));
        for timeout in [std::time::Duration::ZERO, std::time::Duration::MAX] {
            let refused = ZooKeeper::builder("h").session_timeout(timeout).connect().unwrap_err();
            assert!(matches!(refused, ConnectError::SessionTimeout(_)));
        }
        let server = TestServer::in_memory().await;
        let never_polled = builder(&server).connect().unwrap();
        drop(never_polled);
        server.until(|probe| probe.sessions().is_empty()).await;
    });
}

#[test]
fn limits_that_admit_no_request_are_refused() {
    use zk_curator_client::ConnectError;
    let longest = i32::MAX as usize;
    let client = || ZooKeeper::builder("h");
    simulated(async {
        for (builder, setting, value) in [
            (client().queue_limits(0, 1000), "queue_limits: number of requests", 0),
            (client().queue_limits(1, 0), "queue_limits: number of bytes", 0),
            (client().queue_limits(1, 63), "queue_limits: number of bytes", 63),
            (client().max_frame(0), "max_frame", 0),
            (client().max_frame(63), "max_frame", 63),
            (client().max_frame(longest + 1), "max_frame", longest + 1),
            (client().max_response(0), "max_response", 0),
            (client().expiration_percent(0), "expiration_percent", 0),
            (client().expiration_percent(101), "expiration_percent", 101),
        ] {
            let refused = builder.validate().unwrap_err();
            assert_eq!(builder.connect().unwrap_err(), refused);
            let ConnectError::OutOfRange { setting: refused, value: seen, .. } = refused else {
                panic!("{refused}")
            };
            assert_eq!((refused, seen), (setting, value));
        }
        for builder in [
            client().queue_limits(1, 64),
            client().max_frame(64),
            client().max_frame(longest),
            // The value is raised to the size of a request.
            client().max_response(1),
            client().max_response(usize::MAX),
            client().expiration_percent(1),
        ] {
            builder.validate().unwrap();
            drop(builder.connect().unwrap());
        }
    });
}

#[test]
fn a_client_with_the_least_limits_works() {
    simulated_with(async |server| {
        let zk = start(builder(&server).queue_limits(1, 64).max_frame(64)).await;
        zk.create("/a", b"", &open(), CreateMode::Persistent).await.unwrap();
        let watch = zk.exists_watched("/a").await.unwrap().1;
        for session in server.probe().sessions() {
            server.disconnect(session.id);
        }
        zk.delete("/a", None).await.unwrap();
        watch.await.unwrap();
        zk.close().await.unwrap();
    });
}

#[test]
fn buffered_responses_leave_other_tasks_their_turn() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let answers: Vec<_> = (0..1000).map(|_| zk.exists("/a")).collect();
        zk.sync("/").await.unwrap();
        let turn = Arc::new(AtomicBool::new(false));
        let taken = Arc::clone(&turn);
        let other = tokio::spawn(async move { taken.store(true, Ordering::Relaxed) });
        for answer in answers {
            assert_eq!(answer.await, Ok(None));
        }
        assert!(turn.load(Ordering::Relaxed));
        other.await.unwrap();
    });
}

#[test]
fn the_configuration_is_outside_the_chroot_and_so_is_its_event() {
    simulated(async {
        let digest = zk_curator_testing::digest("root:toor");
        let server = TestServer::builder().tcp(false).super_digest(digest).start().await.unwrap();
        let admin = connected(&server).await;
        admin.add_auth("digest", b"root:toor").await.unwrap();
        // A chroot that is a prefix of the configuration's path, and a chroot that is longer than
        // that path.
        for chroot in ["/zookeeper", "/a-chroot-that-is-longer-than-the-path"] {
            if chroot != "/zookeeper" {
                create(&admin, chroot).await.unwrap();
            }
            let zk = ZooKeeper::builder(format!("memory{chroot}"))
                .connector(Arc::new(server.connector()));
            let zk = start(zk).await;
            let (before, watch) = zk.get_config_watched().await.unwrap();
            assert_eq!(zk.get_config().await.unwrap(), before);
            assert_eq!(watch.path(), "/zookeeper/config");
            admin.set_data("/zookeeper/config", chroot.as_bytes(), None).await.unwrap();
            let event = watch.await.unwrap();
            assert_eq!(
                (event.event_type, &*event.path),
                (EventType::NodeDataChanged, "/zookeeper/config")
            );
            assert_eq!(zk.get_config().await.unwrap().data, chroot);
            zk.close().await.unwrap();
        }
    });
}
