//! The launcher of Apache ZooKeeper, against Apache ZooKeeper.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::blocking_session::Session;
use zk_curator_real::{self as real, RealError, RealZooKeeper};

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn it_serves_when_start_returns_and_answers_every_word() {
    let Some(zookeeper) =
        real::or_skip("it_serves_when_start_returns_and_answers_every_word").await
    else {
        return;
    };
    assert_eq!(zookeeper.four_letter_word("ruok").await.unwrap(), "imok");
    assert!(zookeeper.four_letter_word("srvr").await.unwrap().contains("Mode: standalone"));
    assert!(zookeeper.four_letter_word("wchs").await.unwrap().contains("Total watches:0"));
    assert_eq!(zookeeper.connect_string(), format!("127.0.0.1:{}", zookeeper.addr().port()));
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn data_and_port_survive_kill_and_stop() {
    let Some(mut zookeeper) = real::or_skip("data_and_port_survive_kill_and_stop").await else {
        return;
    };
    let addr = zookeeper.addr();
    Session::open(addr, 4000).create("/kept", b"v");

    zookeeper.kill().await.unwrap();
    assert_eq!(zookeeper.process_id(), None);
    assert!(TcpStream::connect(addr).is_err());
    zookeeper.kill().await.unwrap();

    zookeeper.restart().await.unwrap();
    assert_eq!(zookeeper.addr(), addr);
    assert_eq!(Session::open(addr, 4000).get_data("/kept").as_deref(), Some(&b"v"[..]));

    let before = zookeeper.process_id().unwrap();
    zookeeper.stop().await.unwrap();
    zookeeper.restart().await.unwrap();
    assert_ne!(zookeeper.process_id(), Some(before));
    assert_eq!(Session::open(addr, 4000).get_data("/kept").as_deref(), Some(&b"v"[..]));

    zookeeper.restart().await.unwrap();
    assert_eq!(Session::open(addr, 4000).get_data("/kept").as_deref(), Some(&b"v"[..]));
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn session_timeouts_are_negotiated_within_the_settings() {
    let builder = RealZooKeeper::builder()
        .tick_time(Duration::from_millis(200))
        .min_session_timeout(Duration::from_millis(700))
        .max_session_timeout(Duration::from_secs(9));
    let name = "session_timeouts_are_negotiated_within_the_settings";
    let Some(zookeeper) = real::or_skip_with(name, builder).await else { return };
    assert_eq!(Session::negotiate(zookeeper.addr(), 1).1, 700);
    assert_eq!(Session::negotiate(zookeeper.addr(), 3000).1, 3000);
    assert_eq!(Session::negotiate(zookeeper.addr(), 60_000).1, 9000);
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn drop_leaves_neither_process_nor_data() {
    let Some(zookeeper) = real::or_skip("drop_leaves_neither_process_nor_data").await else {
        return;
    };
    let addr = zookeeper.addr();
    let conf = zookeeper.four_letter_word("conf").await.unwrap();
    let data = conf.lines().find_map(|line| line.strip_prefix("dataDir=")).unwrap().to_owned();
    assert!(Path::new(&data).is_dir());
    drop(zookeeper);
    assert!(TcpStream::connect(addr).is_err());
    assert!(!Path::new(&data).exists());
    assert!(!Path::new(&data).parent().unwrap().parent().unwrap().exists());
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn several_start_at_once_on_ports_of_their_own() {
    let name = "several_start_at_once_on_ports_of_their_own";
    if !real::runs(name, RealZooKeeper::available()) {
        return;
    }
    let (one, two, three) =
        tokio::try_join!(RealZooKeeper::start(), RealZooKeeper::start(), RealZooKeeper::start())
            .unwrap();
    let mut session = Session::open(one.addr(), 4000);
    session.create("/one", b"");
    assert!(session.get_data("/one").is_some());
    assert_eq!(Session::open(two.addr(), 4000).get_data("/one"), None);
    assert_eq!(Session::open(three.addr(), 4000).get_data("/one"), None);
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn restart_says_that_somebody_took_the_port() {
    let Some(mut zookeeper) = real::or_skip("restart_says_that_somebody_took_the_port").await
    else {
        return;
    };
    let port = zookeeper.addr().port();
    zookeeper.kill().await.unwrap();
    // The listener sends no response, and must not be mistaken for our server.
    let thief = std::net::TcpListener::bind(zookeeper.addr()).unwrap();
    let error = zookeeper.restart().await.unwrap_err();
    assert!(matches!(error, RealError::PortTaken { port: taken } if taken == port), "{error}");
    assert_eq!(zookeeper.process_id(), None);
    drop(thief);
    zookeeper.restart().await.unwrap();
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_server_that_cannot_start_says_why_with_its_log() {
    let name = "a_server_that_cannot_start_says_why_with_its_log";
    if !real::runs(name, RealZooKeeper::available()) {
        return;
    }
    let error = RealZooKeeper::builder().setting("tickTime", "soon").start().await.unwrap_err();
    assert!(matches!(&error, RealError::Exited { log, .. } if log.contains("soon")), "{error}");

    let error = RealZooKeeper::builder().start_timeout(Duration::ZERO).start().await.unwrap_err();
    assert!(matches!(error, RealError::DidNotServe { .. }), "{error}");
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_missing_library_is_named() {
    let builder = RealZooKeeper::builder().jar_directories(["/nonexistent"]);
    let error = builder.available().unwrap_err();
    // A machine without Java reports the missing Java first.
    if !matches!(error, RealError::JavaMissing { .. }) {
        assert_eq!(error.to_string(), "zookeeper.jar was not found in [\"/nonexistent\"]");
    }
    builder.start().await.unwrap_err();
}
