//! Lost requests and responses, and the errors that the client returns for them.

use std::sync::Mutex;
use std::time::Duration;

use crate::common::{
    TIMEOUT, builder, connected, create, id, open, reconnect, simulated, simulated_with, start,
    until,
};
use zk_curator_client::{
    CreateMode, Error, ErrorCode, ExpiredBy, Op, SessionState, WatchEnded, ZooKeeper,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{settled, spend};
use zk_curator_testing::{TestServer, Verdict};

#[test]
fn a_lost_request_or_response_may_have_been_applied() {
    simulated(async {
        for (verdict, applied) in [
            (Verdict::LoseReply, true),
            (Verdict::LoseRequest, false),
            (Verdict::Disconnect, false),
        ] {
            let server = TestServer::in_memory().await;
            let zk = connected(&server).await;
            let _lost = server
                .rule(move |request| if request.is_create() { verdict } else { Verdict::Pass })
                .times(1);
            let error = create(&zk, "/a").await.unwrap_err();
            assert_eq!(error, Error::ConnectionLoss { sent: true });
            assert!(error.may_have_applied());
            assert_eq!(zk.exists("/a").await.unwrap().is_some(), applied, "{verdict:?}");
        }
    });
}

#[test]
fn responses_before_a_loss_are_kept_and_no_request_is_resent() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let _lost = server
            .rule(
                |request| {
                    if request.is_about("/lost") { Verdict::LoseRequest } else { Verdict::Pass }
                },
            )
            .times(1);
        let create = |path| zk.create(path, b"", &open(), CreateMode::Persistent);
        let (before, lost, after) = (create("/before"), create("/lost"), create("/after"));
        assert_eq!(before.await.unwrap().path, "/before");
        assert_eq!(lost.await, Err(Error::ConnectionLoss { sent: true }));
        assert_eq!(after.await, Err(Error::ConnectionLoss { sent: true }));
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().paths(), ["/before"]);
    });
}

/// Every failed create reports correctly if it may have been applied, whatever the fault is.
#[test]
fn applied_requests_may_have_applied_others_never_count() {
    simulated(async {
        for seed in 0..30 {
            let server = TestServer::in_memory().await;
            let zk = start(builder(&server).seed(seed)).await;
            let random = Mutex::new(fastrand::Rng::with_seed(seed));
            let _faults = server.rule(move |request| {
                if !request.is_create() {
                    return Verdict::Pass;
                }
                match random.lock().unwrap().u8(..24) {
                    0 => Verdict::LoseReply,
                    1 => Verdict::LoseRequest,
                    2 => Verdict::Disconnect,
                    3 => Verdict::Refuse(ErrorCode::SystemError),
                    4 => Verdict::Delay(Duration::from_millis(30)),
                    _ => Verdict::Pass,
                }
            });
            let mut outcomes = Vec::new();
            for batch in 0..40 {
                let paths: Vec<_> = (0..10).map(|n| format!("/{batch}-{n}")).collect();
                let create = |path| zk.create(path, b"", &open(), CreateMode::Persistent);
                let pending: Vec<_> = paths.iter().map(|path| create(path)).collect();
                for (path, pending) in paths.into_iter().zip(pending) {
                    outcomes.push((path, pending.await));
                }
            }
            zk.sync("/").await.unwrap();
            let probe = server.probe();
            let mut lost = 0;
            for (path, outcome) in outcomes {
                match (probe.exists(&path), outcome) {
                    (true, Ok(_)) => {}
                    (_, Err(error)) if error.may_have_applied() => lost += 1,
                    (false, Err(_)) => {}
                    (exists, outcome) => {
                        panic!("seed {seed}: {path} exists: {exists}, but {outcome:?}")
                    }
                }
            }
            assert!(lost > 0, "seed {seed} lost nothing");
        }
    });
}

#[test]
fn an_expired_session_is_a_final_state_and_a_typed_error() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let session = zk.session();
        zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        let (_, watch) = zk.get_data_watched("/e").await.unwrap();
        let mut states = zk.states();
        server.expire(id(&zk)).await;
        let expired = SessionState::Expired(ExpiredBy::Server);
        until(&mut states, |state| state == expired).await;
        assert_eq!(states.next().await, None);
        assert_eq!((zk.state(), zk.session()), (expired, session));
        // The event of the deletion may still have arrived.
        if let Err(ended) = watch.await {
            assert_eq!(ended, WatchEnded::SessionLost);
        }
        let gone = Error::SessionExpired { sent: false };
        assert_eq!(create(&zk, "/a").await, Err(gone.clone()));
        assert_eq!(zk.exists_watched("/a").await.unwrap_err(), gone);
        assert_eq!(zk.add_auth("digest", b"a:b").await, Err(gone.clone()));
        assert_eq!(zk.connected().await, Err(gone.clone()));
        assert_eq!(gone.code(), Some(ErrorCode::SessionExpired));
        assert_eq!(zk.close().await, Ok(()));
        assert_eq!(zk.state(), expired);
        assert_eq!(crate::common::history(zk.states()).await, [expired]);
        assert!(server.probe().sessions().is_empty());
    });
}

#[test]
fn requests_in_flight_at_expiry_may_have_been_applied() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let _slow = server.rule(|request| {
            if request.is_create() { Verdict::Delay(Duration::from_secs(1)) } else { Verdict::Pass }
        });
        let in_flight = zk.create("/a", b"", &open(), CreateMode::Persistent);
        let session = id(&zk);
        let expire = async {
            settled().await;
            server.expire(session).await
        };
        let (error, expired) = tokio::join!(in_flight, expire);
        assert!(expired);
        assert!(error.unwrap_err().may_have_applied());
        assert_eq!(zk.connected().await, Err(Error::SessionExpired { sent: false }));
    });
}

#[test]
fn a_refused_identity_ends_the_client_now_or_after_a_reconnect() {
    simulated(async {
        for at_reconnect in [false, true] {
            let server = TestServer::in_memory().await;
            let zk = connected(&server).await;
            if at_reconnect {
                zk.add_auth("digest", b"a:b").await.unwrap();
            }
            let _refused = server.rule(|request| {
                if request.is(OpCode::Auth) {
                    Verdict::Refuse(ErrorCode::AuthFailed)
                } else {
                    Verdict::Pass
                }
            });
            let mut states = zk.states();
            if at_reconnect {
                server.disconnect(id(&zk));
            } else {
                assert_eq!(
                    zk.add_auth("digest", b"a:b").await,
                    Err(Error::AuthFailed { sent: false })
                );
            }
            until(&mut states, |state| state == SessionState::AuthFailed).await;
            assert_eq!(create(&zk, "/a").await, Err(Error::AuthFailed { sent: false }));
            assert_eq!(zk.connected().await, Err(Error::AuthFailed { sent: false }));
        }
    });
}

#[test]
fn an_identity_waits_for_a_server_and_is_kept() {
    simulated_with(async |server| {
        let (zk, network) = crate::common::on_network(&server).await;
        network.down();
        crate::common::cut(&server, &zk).await;
        let added = zk.add_auth("digest", b"late:x");
        drop(zk.add_auth("digest", b"dropped:x"));
        network.up();
        added.await.unwrap();
        reconnect(&server, &zk).await;
        zk.sync("/").await.unwrap();
        let mut identities = server.probe().session(id(&zk)).unwrap().identities.clone();
        identities.sort();
        assert_eq!(identities, ["digest:dropped", "digest:late"]);
        let huge = vec![0; 1 << 20];
        assert!(matches!(zk.add_auth("digest", &huge).await, Err(Error::TooLarge { .. })));
    });
}

#[test]
fn the_queue_is_bounded_in_requests_and_bytes() {
    simulated_with(async |server| {
        let zk = start(builder(&server).queue_limits(3, 1000)).await;
        server.hold();
        let waiting: Vec<_> = (0..3).map(|_| zk.sync("/")).collect();
        let full = zk.sync("/").await.unwrap_err();
        assert!(matches!(full, Error::QueueFull { requests: 3, .. }), "{full:?}");
        assert!(!full.may_have_applied());
        server.release();
        for waiting in waiting {
            waiting.await.unwrap();
        }
        server.hold();
        let large = zk.create("/a", &[0; 900], &open(), CreateMode::Persistent);
        let full = zk.create("/b", &[0; 900], &open(), CreateMode::Persistent).await.unwrap_err();
        assert!(matches!(full, Error::QueueFull { requests: 1, .. }), "{full:?}");
        server.release();
        large.await.unwrap();
        assert_eq!(server.probe().paths(), ["/a"]);
        // A request that was dropped in the queue of a disconnected client eventually frees its
        // slot.
        zk.sync("/").await.unwrap();
    });
}

#[test]
fn a_request_over_the_limit_is_refused_before_it_is_sent() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let path = "/a";
        // Headers, lengths, path, ACL and flags use the rest.
        let mut fits = 0xf_ffff - 8 - 4 - path.len() - 4 - 4 - (4 + 4 + 5 + 4 + 6) - 4;
        let op = |length| {
            let data = Some(vec![0; length].into());
            Op::Create {
                path: path.into(),
                data,
                acl: open(),
                mode: CreateMode::Persistent,
                ttl: None,
            }
        };
        zk.create(path, &vec![0; fits], &open(), CreateMode::Persistent).await.unwrap();
        zk.delete(path, None).await.unwrap();
        fits += 1;
        let refused =
            zk.create(path, &vec![0; fits], &open(), CreateMode::Persistent).await.unwrap_err();
        assert_eq!(refused, Error::TooLarge { length: 0x10_0000, limit: 0xf_ffff });
        assert!(matches!(zk.multi(&[op(fits)]).await, Err(Error::TooLarge { .. })));
        assert!(!refused.may_have_applied());
        assert_eq!(server.probe().connections(), 1);
    });
}

#[test]
fn a_slow_server_is_awaited_while_the_session_lives() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let _slow = server.rule(|request| {
            if request.is(OpCode::Sync) { Verdict::Delay(TIMEOUT / 2) } else { Verdict::Pass }
        });
        let session = id(&zk);
        for _ in 0..6 {
            zk.sync("/").await.unwrap();
        }
        // A backlog that takes longer than the session timeout: the pings wait behind it.
        let syncs: Vec<_> = (0..6).map(|_| zk.sync("/")).collect();
        let mut outcomes = Vec::new();
        for sync in syncs {
            outcomes.push(sync.await);
        }
        assert_eq!(
            (&outcomes[0], &outcomes[5]),
            (&Ok(()), &Err(Error::ConnectionLoss { sent: true }))
        );
        zk.connected().await.unwrap();
        assert_eq!(id(&zk), session);
    });
}

#[test]
fn a_chain_of_faults_leaves_one_client_and_one_session() {
    simulated_with(async |server| {
        let zk: ZooKeeper = connected(&server).await;
        let session = id(&zk);
        for round in 0..20 {
            match round % 4 {
                0 => {
                    server.disconnect_all();
                }
                1 => server.restart().await.unwrap(),
                2 => {
                    server.partition();
                    spend(Duration::from_secs(1)).await;
                    server.heal();
                }
                _ => {
                    server.hold();
                    spend(TIMEOUT / 2).await;
                    server.release();
                }
            }
            while zk.sync("/").await.is_err() {}
        }
        assert_eq!(id(&zk), session);
        assert_eq!(server.probe().sessions().len(), 1);
        zk.close().await.unwrap();
        assert!(server.probe().sessions().is_empty());
    });
}

#[test]
fn writes_under_constant_cuts_are_neither_lost_nor_invented() {
    let count = |seed| async move {
        let server = TestServer::in_memory().await;
        let zk = start(builder(&server).seed(seed)).await;
        create(&zk, "/n").await.unwrap();
        let writers: Vec<_> = (0..8)
            .map(|_| {
                let zk = zk.clone();
                tokio::spawn(async move {
                    let (mut applied, mut unknown) = (0, 0);
                    for _ in 0..100 {
                        match zk.set_data("/n", b"", None).await {
                            Ok(_) => applied += 1,
                            Err(error) if error.may_have_applied() => unknown += 1,
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                    (applied, unknown)
                })
            })
            .collect();
        let cutter = async {
            let mut random = fastrand::Rng::with_seed(seed);
            loop {
                // Every time it is served again, or a little later.
                zk.connected().await.unwrap();
                for _ in 0..random.u8(..4) {
                    tokio::task::yield_now().await;
                }
                server.disconnect_all();
                tokio::task::yield_now().await;
            }
        };
        let writes = async {
            let (mut applied, mut unknown) = (0, 0);
            for writer in writers {
                let (more_applied, more_unknown) = writer.await.unwrap();
                (applied, unknown) = (applied + more_applied, unknown + more_unknown);
            }
            (applied, unknown)
        };
        let (applied, unknown): (i32, i32) = tokio::select! {
            counts = writes => counts,
            () = cutter => unreachable!("it never ends"),
        };
        // The last cut may still be in progress.
        while zk.sync("/n").await.is_err() {}
        let version = zk.exists("/n").await.unwrap().unwrap().version;
        assert!(
            (applied..=applied + unknown).contains(&version),
            "seed {seed}: {applied} + {unknown}, not {version}"
        );
        assert_eq!(server.probe().sessions().len(), 1);
        zk.close().await.unwrap();
        (applied, unknown)
    };
    let counts = (0..10).map(|seed| simulated(count(seed)));
    let (applied, unknown) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    assert!(
        applied > 500 && unknown > 500,
        "the cuts come in the midst of it: {applied} {unknown}"
    );
}
