//! Bugs of Curator that are not at home in another file, each by its number. The other bugs are in
//! the tests of the feature concerned: `grep -rn curator_ tests`.

use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::time::Instant;
use zk_curator::retry::RetryUntilElapsed;
use zk_curator::{ConnectionState, CreateMode, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::wait::past;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::cancel::each_step;
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, always, builder, connected, expire, impatient, once,
    poll_then_drop, rule_if, simulated, simulated_on, simulated_with, start, until, until_state,
};

const HOUR: Duration = Duration::from_secs(3600);

/// CURATOR-208/205/228/109/375: an interrupt was swallowed, wrapped, or reported twice. A dropped
/// future is reported to no one, affects nothing else, and leaves the framework unchanged.
#[test]
fn curator_208_an_operation_that_is_dropped_disturbs_no_other() {
    simulated_with(async |server, zk| {
        zk.create("/a").data("1").await.unwrap();
        let states = zk.status().epoch;
        let mut errors = zk.background_errors();
        each_step(async |step| {
            let _slow = server.rule(|_| Verdict::Delay(Duration::from_millis(1)));
            let others = [zk.get_data("/a").into_future(), zk.get_data("/a").into_future()];
            let [before, after] = others;
            let before = tokio::spawn(before);
            let dropped = poll_then_drop(zk.set_data("/a", "1").into_future(), step).await;
            assert_eq!(
                (before.await.unwrap().unwrap(), after.await.unwrap()),
                ("1".into(), "1".into())
            );
            dropped.is_some()
        })
        .await;
        assert_eq!(zk.status().epoch, states);
        assert!(tokio::time::timeout(HOUR, errors.next()).await.is_err(), "nothing has failed");
    });
}

/// CURATOR-675: an error for the unhandled-error listener hung the stage that it belonged to. Here
/// an error has one way: to the caller that waits, or to the background errors.
#[test]
fn curator_675_an_error_is_reported_exactly_once() {
    simulated_on(impatient, async |(server, zk)| {
        let mut errors = zk.background_errors();
        let refused =
            rule_if(&server, |request| request.is_delete(), Verdict::Refuse(ErrorCode::NoAuth));
        assert_eq!(zk.delete("/a").guaranteed().await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert!(tokio::time::timeout(HOUR, errors.next()).await.is_err(), "reported already");
        drop(zk.create("/a").owned().await.unwrap());
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::NoAuth);
        assert_eq!(refused.hits(), 2);
    });
}

/// CURATOR-442 and defect r: timeouts by the wall clock. All clocks here are monotonic, so the
/// clocks of the servers do not matter, even if they are set back by an hour in the middle.
#[test]
fn curator_442_defect_r_wall_clocks_change_no_timeout() {
    simulated(async {
        let mut took = Vec::new();
        for clock in [SystemTime::UNIX_EPOCH, SystemTime::now(), SystemTime::now() + 10_000 * HOUR]
        {
            let server = TestServer::builder().tcp(false).wall_clock(clock).start().await.unwrap();
            let zk = start(builder(&server).retry(RetryUntilElapsed::new(HOUR, HOUR / 4))).await;
            let created = zk.create("/a").await.unwrap().stat.ctime;
            let shown = clock.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
            assert!(
                i128::from(created) - i128::try_from(shown).unwrap() < 1_000,
                "the server's own clock"
            );
            let refused =
                always(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout));
            let began = Instant::now();
            zk.get_data("/a").await.unwrap_err();
            assert_eq!((refused.hits(), began.elapsed()), (5, HOUR));
            server.stop().await;
            zk.get_data("/a").deadline(Duration::from_secs(3)).await.unwrap_err();
            until_state(&zk, ConnectionState::Lost).await;
            took.push(began.elapsed());
        }
        assert!(
            took.windows(2).all(|pair| pair[0].abs_diff(pair[1]) < SESSION_TIMEOUT / 3),
            "{took:?}"
        );
    });
}

/// Defect n: Curator's guaranteed deletes call themselves, without a pause of their own. Here a
/// hundred of them are one task, each with a pause that grows.
#[test]
fn curator_defect_n_guaranteed_deletes_pause_and_do_not_pile_up() {
    simulated_on(impatient, async |(server, zk)| {
        for n in 0..100 {
            zk.create(format!("/{n}")).await.unwrap();
        }
        let refused = rule_if(
            &server,
            |request| request.is_delete(),
            Verdict::Refuse(ErrorCode::OperationTimeout),
        );
        let tasks = Handle::current().metrics().num_alive_tasks();
        for n in 0..100 {
            zk.delete(format!("/{n}")).guaranteed().await.unwrap_err();
        }
        let tried = refused.hits();
        past(HOUR / 6).await;
        assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks);
        // Every three seconds once the pauses have grown.
        let each = (refused.hits() - tried) / 100;
        assert!((195..=210).contains(&each), "{each}");
        drop(refused);
        until(&server, |probe| probe.paths().is_empty()).await;
    });
}

/// Curator's `unfixForNamespace` takes away the prefix `/foo` of `/foobar` (CURATOR-379, defect p):
/// in what watches and transactions return, too.
#[test]
fn curator_379_defect_p_results_never_strip_a_neighbours_path() {
    simulated_with(async |_server, root| {
        let foo = root.using_namespace("foo").unwrap();
        foo.create("/bar").await.unwrap();
        root.create("/foobar").await.unwrap();
        let mut everything = root.add_watch("/").recursive().await.unwrap();
        let mut within = foo.add_watch("/").recursive().await.unwrap();
        root.set_data("/foobar", "x").await.unwrap();
        let results = foo.transaction().set_data("/bar", "x").create("/foobar", "").await.unwrap();
        assert_eq!(results[1].created_path(), Some("/foobar"));
        let mut seen = Vec::new();
        for _ in 0..3 {
            let Some(zk_curator::PersistentEvent::Changed(event)) = everything.next().await else {
                panic!()
            };
            seen.push(event.path);
        }
        assert_eq!(seen, ["/foobar", "/foo/bar", "/foo/foobar"]);
        for path in ["/bar", "/foobar"] {
            let Some(zk_curator::PersistentEvent::Changed(event)) = within.next().await else {
                panic!()
            };
            assert_eq!(event.path, path);
        }
    });
}

/// CURATOR-190/489: the prefix was put in front of the prefixed name at each new attempt, or its id
/// was missing.
#[test]
fn curator_489_retries_do_not_repeat_the_protection_prefix() {
    simulated_with(async |server, zk| {
        let lost = rule_if(&server, |request| request.is_create(), Verdict::LoseRequest).times(4);
        let created =
            zk.create("/a-").mode(CreateMode::EphemeralSequential).protected().await.unwrap();
        assert_eq!(lost.hits(), 4);
        // The node that is found belongs to a session that is over: another one is created under a
        // new name.
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let again = tokio::spawn(
            zk.create("/b-").mode(CreateMode::EphemeralSequential).protected().into_future(),
        );
        lost.fired().await;
        expire(&server, &zk).await;
        let again = again.await.unwrap().unwrap();
        for (path, name) in [(&created.path, "a-"), (&again.path, "b-")] {
            let name_and_number = path.strip_prefix("/_c_").unwrap().split_at(36).1;
            assert!(
                name_and_number.starts_with(&format!("-{name}")) && name_and_number.len() == 13,
                "{path}"
            );
            assert_eq!(path.matches("_c_").count(), 1, "{path}");
        }
    });
}

/// CURATOR-506: closing a node's owner also deleted its parent.
#[test]
fn curator_506_a_guard_deletes_its_own_node_and_no_other() {
    simulated_with(async |server, zk| {
        zk.create("/p/a").creating_parents().await.unwrap();
        let node = zk.create("/p/n").owned().await.unwrap();
        node.delete().await.unwrap();
        drop(zk.create("/p/m").protected().owned().await.unwrap());
        zk.delete("/p/a").guaranteed().await.unwrap();
        zk.close().await.unwrap();
        assert_eq!(server.probe().paths(), ["/p"]);
    });
}

/// CURATOR-590/643: deleted parents were created again, empty.
#[test]
fn curator_590_parents_are_recreated_only_if_requested() {
    simulated_with(async |server, zk| {
        zk.create("/p").data("important").await.unwrap();
        let node = zk.create("/p/n").mode(CreateMode::Ephemeral).protected().owned().await.unwrap();
        connected(&server).await.delete("/p").deleting_children().await.unwrap();
        let error = zk.create("/p/n").mode(CreateMode::Ephemeral).protected().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoNode);
        assert_eq!(node.delete().await.unwrap_err().kind(), ErrorKind::NoNode);
        assert_eq!(server.probe().paths(), [""; 0]);
    });
}

/// Curator: operations that wait while the connection is down wait in slices, one after the other,
/// and wake late. Here all of them wait at the same time, and end in the first second of the
/// connection or with the connection timeout.
#[test]
fn operations_that_wait_for_a_connection_wait_together() {
    simulated_with(async |server, zk| {
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        let began = Instant::now();
        let writes = (0..1_000).map(|n| zk.create(format!("/{n}")));
        let results = zk_curator::op::fan_out(1_000, writes).await;
        assert!(results.iter().all(|result| result.is_err()));
        let took = began.elapsed();
        assert!(
            took >= CONNECTION_TIMEOUT && took < CONNECTION_TIMEOUT + Duration::from_secs(1),
            "{took:?}"
        );
    });
}
