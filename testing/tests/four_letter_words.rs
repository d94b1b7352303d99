//! The four-letter words. Their lines have the same form as Apache ZooKeeper's.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::collections::BTreeSet;

use crate::common::RawClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_curator_proto::Request;
use zk_curator_proto::records::{AddWatchRequest, CreateMode};
use zk_curator_real as real;
use zk_curator_testing::{TestCluster, TestServer};

const WORDS: [&str; 17] = [
    "gtmk",
    "stmk\0\0\0\0\0\0\0\x07",
    "ruok",
    "isro",
    "srvr",
    "stat",
    "cons",
    "mntr",
    "dump",
    "wchs",
    "wchc",
    "wchp",
    "conf",
    "envi",
    "dirs",
    "crst",
    "srst",
];

async fn ask(address: &str, word: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(word.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(crate::common::LONG, stream.read_to_string(&mut answer))
        .await
        .expect("an end")
        .unwrap();
    answer
}

/// Returns the line with `#` for every number, without the parts that depend on the machine.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let (number, is_digit): (_, fn(char) -> bool) = match rest.strip_prefix("0x") {
            Some(digits) => (digits, |c| c.is_ascii_hexdigit()),
            None => (rest, |c| c.is_ascii_digit() || c == '.'),
        };
        if c.is_ascii_digit() {
            shape.push('#');
            rest = number.trim_start_matches(is_digit);
        } else {
            shape.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    for until in
        ["expire at ", "ersion: ", "zk_version\t", "zookeeper.version=", "dataDir=", "dataLogDir="]
    {
        if let Some(at) = shape.find(until) {
            shape.truncate(at + until.len());
        }
    }
    let environment =
        ["java.", "os.", "user.", "host."].iter().any(|prefix| shape.starts_with(prefix));
    if let Some((name, _)) = shape.split_once('=').filter(|_| environment) {
        return name.to_owned();
    }
    shape
}

fn shapes(answer: &str) -> Vec<String> {
    answer.split('\n').map(shape).collect()
}

/// Opens a session with an ephemeral node and watches, and returns every response.
async fn answers(address: &str) -> Vec<(&'static str, String)> {
    let mut zk = RawClient::over_tcp(address).await;
    zk.create("/e", CreateMode::Ephemeral).await.unwrap();
    zk.exists("/e", true).await.unwrap();
    zk.children("/", true).await.unwrap();
    zk.call(Request::AddWatch(AddWatchRequest { path: "/w".into(), mode: 1 })).await.unwrap();
    zk.ping().await;
    let mut answers = Vec::new();
    for word in WORDS {
        answers.push((word, ask(address, word).await));
    }
    zk.call(Request::CloseSession).await.unwrap();
    answers
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn lines_have_the_form_of_apache_zookeeper() {
    let Some(zookeeper) = real::or_skip("lines_have_the_form_of_apache_zookeeper").await else {
        return;
    };
    let embedded = TestServer::start().await;
    compare(&zookeeper.connect_string(), &embedded.connect_string()).await;
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn lines_have_the_form_of_an_ensemble() {
    let name = "lines_have_the_form_of_an_ensemble";
    let Some(ensemble) = real::or_skip_ensemble(name, 3).await else { return };
    let cluster = TestCluster::start(3).await;
    let (leads, expected) = (cluster.leader().unwrap(), ensemble.leader().await.unwrap());
    let address = |server: usize| ensemble.server(server).connect_string();
    compare(&address(expected), &cluster.member(leads).connect_string()).await;
    compare(&address((expected + 1) % 3), &cluster.member((leads + 1) % 3).connect_string()).await;
}

/// Compares the words of a real server with those of an embedded one.
async fn compare(real: &str, embedded: &str) {
    let expected = answers(real).await;
    for ((word, expected), (_, found)) in expected.iter().zip(answers(embedded).await) {
        if word.ends_with("mk") || word.starts_with("stmk") {
            assert_eq!(*expected, found, "{word}");
        }
        let (expected, found) = (shapes(expected), shapes(&found));
        match *word {
            // The internal metrics of a Java server are not compared.
            "mntr" => {
                let expected: BTreeSet<_> = expected.into_iter().collect();
                let extra: Vec<_> = found.iter().filter(|line| !expected.contains(*line)).collect();
                assert!(extra.is_empty(), "{extra:?}");
                assert!(found.len() > 17);
                let files = |lines: &BTreeSet<String>| {
                    lines.iter().filter(|line| line.contains("file_descriptor_count")).count()
                };
                assert_eq!((files(&expected), files(&found.into_iter().collect())), (2, 2));
            }
            // The expiry times of sessions and connections are not comparable. A leader moves a
            // session from one bucket to another while it prints them, and may leave it out of
            // both.
            "dump" => {
                let comparable = |lines: Vec<String>| {
                    let bucket = |line: &String| {
                        line.contains("expire at") || line.contains("Sets (") || line == "\t#"
                    };
                    lines.into_iter().filter(|line| !bucket(line)).collect::<BTreeSet<_>>()
                };
                assert_eq!(comparable(expected), comparable(found), "{word}");
            }
            // These lines have no order.
            "cons" | "stat" | "wchc" | "wchp" => {
                let sorted = |mut lines: Vec<String>| {
                    lines.sort_unstable();
                    lines
                };
                assert_eq!(sorted(expected), sorted(found), "{word}");
            }
            // The launcher sets the client port in a line of its own.
            "conf" => {
                let found =
                    found.iter().map(|line| line.replace(":participant;#:#", ":participant"));
                assert_eq!(expected, found.collect::<Vec<_>>());
            }
            _ => assert_eq!(expected, found, "{word}"),
        }
    }
}

#[tokio::test]
async fn words_tell_what_the_server_knows() {
    let server = TestServer::start().await;
    let address = server.connect_string();
    let answers = answers(&address).await;
    let answer = |word: &str| answers.iter().find(|(asked, _)| *asked == word).unwrap().1.clone();
    assert_eq!((answer("ruok").as_str(), answer("isro").as_str()), ("imok", "rw"));
    for line in ["Zxid: 0x2", "Mode: standalone", "Node count: 6", "Connections: 2"] {
        assert!(answer("srvr").lines().any(|found| found == line), "{line}: {}", answer("srvr"));
    }
    assert!(answer("mntr").contains("zk_ephemerals_count\t1\n"));
    assert_eq!(answer("wchs"), "1 connections watching 2 paths\nTotal watches:2\n");
    assert!(answer("wchp").contains("/w\n\t0x"));
    assert!(answer("dump").contains("\t/e\n"));

    server.set_read_only(true);
    assert_eq!(ask(&address, "isro").await, "ro");
    let answer = ask(&address, "srvr").await;
    assert!(answer.contains("READ-ONLY mode") && answer.contains("Mode: read-only\n"), "{answer}");
}

#[tokio::test]
async fn the_trace_mask_is_read_and_set() {
    let server = TestServer::start().await;
    let address = server.connect_string();
    assert_eq!(ask(&address, "gtmk").await, "306");
    let mut stream = TcpStream::connect(&address).await.unwrap();
    // Sends the word, and the mask after the server has waited for it.
    stream.write_all(b"stmk\0\0").await.unwrap();
    server.until(|probe| probe.connections() == 1).await;
    stream.write_all(b"\0\0\0\0\x01\x02").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!((answer.as_str(), ask(&address, "gtmk").await.as_str()), ("258", "258"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn numbers_tell_of_open_files() {
    let server = TestServer::start().await;
    let answer = ask(&server.connect_string(), "mntr").await;
    let number = |name: &str| -> u64 {
        let line = answer.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("none");
        line.trim().parse().unwrap_or_else(|_| panic!("{name}: {line}"))
    };
    let (open, most) =
        (number("zk_open_file_descriptor_count"), number("zk_max_file_descriptor_count"));
    assert!(open > 2 && open < most, "{open} of {most}");
}

#[tokio::test]
async fn one_address_has_as_many_connections_as_it_may() {
    let server = TestServer::builder().max_client_connections(2).start().await.unwrap();
    let address = server.connect_string();
    let first = RawClient::over_tcp(&address).await;
    let _second = RawClient::over_tcp(&address).await;
    assert_eq!(ask(&address, "").await, "", "closed immediately");
    drop(first);
    server
        .until(|probe| probe.sessions().iter().filter(|session| session.connected).count() == 1)
        .await;
    assert_eq!(ask(&address, "ruok").await, "imok");
}
