//! The program `zk-test-server`, run as a process.

use std::process::Output;

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use zk_curator_proto::records::{ConnectRequest, CreateMode};
use zk_curator_proto::{ErrorCode, Request};

use crate::common::{LONG_SESSION, RawClient};
use crate::program::{CONTROL, Program, output, refusal};
use zk_curator_real::TempDir;

#[tokio::test]
async fn it_serves_until_a_signal() {
    for signal in ["TERM", "INT", "HUP"] {
        let server = Program::start(&[]).await;
        let mut zk = server.client().await;
        zk.create("/a", CreateMode::Persistent).await.unwrap();
        assert_eq!(zk.children("/", false).await.unwrap(), ["a", "zookeeper"]);
        server.end(signal).await;
        zk.closed().await;
    }
}

// Only Linux says which signals are ignored.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn ignored_signals_stay_ignored_except_term() {
    let server = Program::start_ignoring("HUP INT TERM").await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    let ignored = u64::from_str_radix(mask, 16).unwrap();
    let is_ignored = |signal: u32| ignored & 1 << (signal - 1) != 0;
    assert_eq!([1, 2, 15].map(is_ignored), [true, true, false], "HUP, INT and TERM: {mask}");
    server.client().await.ping().await;
    server.end("TERM").await;
}

#[tokio::test]
async fn it_serves_every_word_and_grants_two_to_twenty_ticks() {
    let server = Program::start(&["--tick-time", "100"]).await;
    for (word, part) in [
        ("ruok", "imok"),
        ("wchc", "\n"),
        ("wchp", "\n"),
        ("dump", "SessionTracker"),
        ("mntr", "zk_znode_count"),
        ("envi", "zookeeper.version=3.9."),
        ("conf", "maxClientCnxns=0\nminSessionTimeout=200\nmaxSessionTimeout=2000\n"),
    ] {
        let answer = server.ask(word.as_bytes()).await;
        assert!(answer.contains(part), "{word}: {answer}");
    }
    for (asked, granted) in [(1, 200), (500, 500), (60_000, 2000)] {
        assert_eq!(RawClient::over_tcp_for(server.address(), asked).await.session.timeout, granted);
    }
}

#[tokio::test]
async fn containers_and_outlived_nodes_are_removed_soon() {
    let server = Program::start(&["--container-interval", "10"]).await;
    let mut zk = server.client().await;
    let container = crate::common::create_body("/c", CreateMode::Container);
    zk.call(Request::CreateContainer(container)).await.unwrap();
    zk.create("/c/child", CreateMode::Persistent).await.unwrap();
    zk.exists("/c", true).await.unwrap();
    zk.delete("/c/child").await.unwrap();
    assert_eq!(zk.event().await.1, "/c");
    assert_eq!(zk.exists("/c", false).await, Err(ErrorCode::NoNode));
}

#[tokio::test]
async fn options_change_what_it_is() {
    let digest = zk_curator_testing::digest("super:secret");
    let server = Program::start(&[
        "--zookeeper-version=3.8",
        "--super-digest",
        &digest,
        "--jute-max-buffer",
        "1000",
        "--max-client-connections",
        "2",
        "--min-session-timeout",
        "3000",
        "--max-session-timeout",
        "5000",
    ])
    .await;
    let conf = server.ask(b"conf").await;
    assert!(conf.contains("tickTime=2000\nmaxClientCnxns=2\n"), "{conf}");
    assert!(conf.contains("minSessionTimeout=3000\nmaxSessionTimeout=5000\n"), "{conf}");
    assert!(server.ask(b"srvr").await.starts_with("Zookeeper version: 3.8."));
    // Only the super user may write there.
    let mut zk = server.client().await;
    assert_eq!(zk.set_data("/zookeeper/config", b"").await, Err(ErrorCode::NoAuth));
    zk.call(crate::common::auth("digest", b"super:secret")).await.unwrap();
    zk.set_data("/zookeeper/config", b"").await.unwrap();
    let mut other = server.client().await;
    assert_eq!(server.ask(b"ruok").await, "", "a third connection");
    other.write(&1001_i32.to_be_bytes()).await;
    other.closed().await;
}

#[tokio::test]
async fn a_read_only_server_serves_those_content_with_it() {
    let server = Program::start(&["--read-only"]).await;
    assert_eq!(server.ask(b"isro").await, "ro");
    let stream = TcpStream::connect(server.address()).await.unwrap();
    assert!(RawClient::open(Box::new(stream), crate::common::new_session()).await.is_none());
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let request = ConnectRequest { read_only: true, ..crate::common::new_session() };
    let mut zk = RawClient::open(Box::new(stream), request).await.expect("a session");
    assert_eq!(zk.create("/a", CreateMode::Persistent).await, Err(ErrorCode::NotReadOnly));
}

// Only on Linux is every 127.x address a loopback address.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_listens_on_the_given_address() {
    // No other test listens at this address, nor at a port that the system does not choose.
    let host = format!("127.{}.{}.2", fastrand::u8(..), fastrand::u8(..));
    let port = fastrand::u16(20_000..32_768).to_string();
    let server = Program::start(&["--host", &host, "--port", &port]).await;
    assert_eq!(server.address(), format!("{host}:{port}"));
    let server = Program::start(&["--host", "localhost"]).await;
    assert_eq!(server.ask(b"ruok").await, "imok");
}

#[tokio::test]
async fn what_a_server_saved_the_next_one_has() {
    let directory = TempDir::new("zk-test-server-saved").unwrap();
    let options = ["--data-dir", directory.path().to_str().unwrap()];
    let server = Program::start(&options).await;
    let mut zk = server.client().await;
    zk.create("/kept", CreateMode::Persistent).await.unwrap();
    zk.create("/mine", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(zk.create("/n-", CreateMode::PersistentSequential).await.unwrap(), "/n-0000000002");
    let stat = zk.set_data("/kept", b"new").await.unwrap();
    let request = zk.reattach_request();
    server.end("TERM").await;

    let server = Program::start(&options).await;
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let mut heir = RawClient::open(Box::new(stream), request).await.expect("the session");
    assert_eq!((heir.id(), heir.session.timeout), (zk.id(), LONG_SESSION));
    assert_eq!(heir.exists("/kept", false).await, Ok(stat));
    assert_eq!(heir.get_data("/kept", false).await.unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(heir.exists("/mine", false).await.unwrap().ephemeral_owner, zk.id());
    assert_eq!(
        heir.create("/n-", CreateMode::PersistentSequential).await.unwrap(),
        "/n-0000000003"
    );
    heir.call(Request::CloseSession).await.unwrap();
    let mut other = server.client().await;
    assert_eq!(other.exists("/mine", false).await, Err(ErrorCode::NoNode));
    assert_ne!(other.id(), zk.id());
}

#[tokio::test]
async fn a_directory_has_one_server_at_a_time() {
    let directory = TempDir::new("zk-test-server-two").unwrap();
    let path = directory.path().to_str().unwrap();
    let options = ["--port", "0", "--data-dir", path];
    let server = Program::start(&options).await;
    server.client().await.create("/kept", CreateMode::Persistent).await.unwrap();
    let text = refusal(&options).await;
    assert!(text.ends_with("belongs to another server\n"), "{text}");
    let same = format!("{path}/.");
    refusal(&["--port", "0", "--data-dir", &same]).await;
    server.end("TERM").await;
    // A server that was killed keeps no lock.
    let mut killed = Program::start(&options).await;
    killed.client().await.exists("/kept", false).await.unwrap();
    killed.signal("KILL").await;
    let server = Program::start(&options).await;
    server.client().await.exists("/kept", false).await.unwrap();
    server.end("TERM").await;
}

#[tokio::test]
async fn an_unusable_directory_is_reported_and_left_unchanged() {
    let directory = TempDir::new("zk-test-server-damaged").unwrap();
    let path = directory.path().to_str().unwrap();
    let options = ["--port", "0", "--data-dir", path];
    Program::start(&options).await.end("TERM").await;
    let file = directory.path().join("snapshot");
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let text = refusal(&options).await;
    assert!(text.contains("snapshot is damaged: its checksum is wrong"), "{text}");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);

    let text = refusal(&["--port", "0", "--data-dir", file.to_str().unwrap()]).await;
    assert!(text.contains("cannot make the directory"), "{text}");
    assert!(refusal(&["--data-dir", ""]).await.contains("'--data-dir'"));
    // A server that cannot start writes nothing.
    std::fs::remove_file(&file).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    refusal(&["--port", &port, "--data-dir", path]).await;
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
}

#[tokio::test]
async fn data_that_cannot_be_saved_are_not_lost_in_silence() {
    let directory = TempDir::new("zk-test-server-gone").unwrap();
    let mut server = Program::start(&["--data-dir", directory.path().to_str().unwrap()]).await;
    std::fs::remove_dir_all(directory.path()).unwrap();
    let (status, errors) = server.signal("TERM").await;
    assert_eq!((status.code(), errors.lines().count()), (Some(1), 1), "{errors}");
    assert!(
        errors.contains("cannot write") && errors.contains("snapshot.new: No such file"),
        "{errors}"
    );
}

#[tokio::test]
async fn members_of_an_ensemble_are_stopped_and_started() {
    let directory = TempDir::new("zk-test-server-ensemble").unwrap();
    let options = ["--ensemble", "3", "--data-dir", directory.path().to_str().unwrap()];
    let servers = Program::start(&[CONTROL, &options].concat()).await;
    let mut control = servers.controlled().await;
    let second = &servers.addresses[1];
    let mut first = servers.client().await;
    first.create("/a", CreateMode::Persistent).await.unwrap();
    for _ in 0..2 {
        control.ok("stop", json!({ "member": 1 })).await;
    }
    crate::common::refuses(second.parse().unwrap()).await;
    first.create("/b", CreateMode::Persistent).await.unwrap();
    for _ in 0..2 {
        control.ok("start", json!({ "member": 1 })).await;
    }
    let mut second = RawClient::over_tcp(second).await;
    assert!(second.exists("/b", false).await.is_ok());
    control.ok("stop", json!({ "member": 0 })).await;
    control.ok("stop", json!({ "member": 2 })).await;
    second.closed().await;
    servers.end("TERM").await;
    let again = Program::start(&options[2..]).await;
    assert!(
        again.client().await.exists("/b", false).await.is_ok(),
        "the single server has the data of the three"
    );
    again.end("TERM").await;
}

#[tokio::test]
async fn members_listen_at_the_ports_they_are_given() {
    let servers = Program::start(&["--ensemble", "2", "--ports", "0, 0"]).await;
    let taken = servers.address().rsplit_once(':').unwrap().1;
    let refused = refusal(&["--ensemble", "2", "--ports", &format!("0,{taken}")]).await;
    assert!(refused.contains(&format!("cannot listen on 127.0.0.1:{taken}: ")), "{refused}");
    servers.end("INT").await;
    for (options, expected) in [
        (&["--ports", "1,2"][..], "'--ports' is for '--ensemble'"),
        (&["--ensemble", "3", "--ports", "1,2"], "2 ports for 3 servers"),
        (&["--ensemble", "2", "--ports", "1,x"], "'1,x'"),
        (&["--ensemble", "0"], "'0'"),
        (&["--ensemble", "3", "--port", "65534"], "ports above 65535"),
    ] {
        let text = refusal(options).await;
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn help_and_version_are_printed() {
    for (option, part) in [
        ("--help", "--tick-time MS"),
        ("-h", "listening on HOST:PORT"),
        ("--version", concat!("zk-test-server ", env!("CARGO_PKG_VERSION"))),
        ("-V", "zk-test-server "),
    ] {
        let Output { status, stdout, stderr } = output(&[option]).await;
        let text = String::from_utf8(stdout).unwrap();
        assert_eq!((status.code(), stderr.len()), (Some(0), 0), "{option}");
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_wrong_option_is_one_line() {
    for (options, part) in [
        (&["--nonsense"][..], "'--nonsense'"),
        (&["-x"], "'-x'"),
        (&["2181"], "\"2181\""),
        (&["--port"], "'--port'"),
        (&["--port", "65536"], "'65536' for option '--port': wants a number from 0 to 65535"),
        (&["--port", "-1"], "'--port'"),
        (&["--port="], "'--port'"),
        (&["--tick-time", "0"], "wants a number from 1 to"),
        (&["--host", "a..b"], "'--host'"),
        (&["--zookeeper-version", "4"], "wants 3.8 or 3.9"),
        (&["--super-digest", "super"], "'--super-digest'"),
        (&["--min-session-timeout", "41000"], "41s"),
        (&["--read-only=yes"], "--read-only"),
    ] {
        let text = refusal(options).await;
        assert!(text.starts_with("zk-test-server: ") && text.contains(part), "{options:?}: {text}");
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_had_is_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = taken.local_addr().unwrap();
    let text = refusal(&["--port", &addr.port().to_string()]).await;
    assert!(text.contains(&format!("cannot listen on {addr}: ")), "{text}");
    // An address of a network for documentation, which no machine has.
    let text = refusal(&["--port", "0", "--host", "192.0.2.1"]).await;
    assert!(text.contains("192.0.2.1"), "{text}");
}
