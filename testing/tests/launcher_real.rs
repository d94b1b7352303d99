//! The launcher of Apache ZooKeeper, against Apache ZooKeeper.

use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use zk_curator_real::{self as real, RealError, RealZooKeeper, Session};

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn it_serves_every_word_when_start_returns() {
    let Some(zookeeper) = real::or_skip("it_serves_every_word_when_start_returns").await else {
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

/// Makes a process of these tests start servers, and wait.
const VICTIM: &str = "ZK_CURATOR_TESTS_VICTIM";

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_servers_of_a_killed_process_end() {
    let name = "the_servers_of_a_killed_process_end";
    let Some(own) = real::or_skip(name).await else { return };
    let Some(shared) = real::chroot_or_skip(name).await else { return };
    if std::env::var_os(VICTIM).is_some() {
        println!("\nSERVERS {} {}", own.addr(), shared.addr());
        return std::future::pending().await;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([name, "--ignored", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let servers = loop {
        let line = lines.next_line().await.unwrap().expect("the addresses of servers");
        if let Some(servers) = line.strip_prefix("SERVERS ") {
            break servers.to_owned();
        }
    };
    victim.kill().await.unwrap();
    for server in servers.split(' ') {
        while tokio::net::TcpStream::connect(server).await.is_ok() {}
    }
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn tests_of_one_process_share_a_server_and_no_nodes() {
    let name = "tests_of_one_process_share_a_server_and_no_nodes";
    let Some(one) = real::chroot_or_skip(name).await else { return };
    let Some(two) = real::chroot_or_skip(name).await else { return };
    assert_eq!(one.addr(), two.addr());
    assert_ne!(one.path(), two.path());
    assert_eq!(one.connect_string(), format!("{}{}", one.addr(), one.path()));
    let mut session = Session::open(one.addr(), 4000);
    for chroot in [&one, &two] {
        assert_eq!(session.get_data(chroot.path()).as_deref(), Some(&b""[..]));
    }
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
async fn restart_reports_that_the_port_was_taken() {
    let Some(mut zookeeper) = real::or_skip("restart_reports_that_the_port_was_taken").await else {
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
