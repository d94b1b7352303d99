//! `status`, `servers`, `sessions`, `ephemerals`, `watches`, `flw`, `metrics`, `reconfig`, `doctor`
//! and `top --once`, against one embedded server and against three.

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Child;
use zk_curator_real as real;
use zk_curator_testing::{TestCluster, TestServer};

use crate::support::{Outcome, Zkc, end};

/// Runs a command against other servers than those of `zkc`.
async fn on(zkc: &Zkc, servers: &str, arguments: &[&str]) -> Outcome {
    let child = zkc.command(arguments).env("ZK_CONNECT", servers).spawn().expect("zkc");
    end(child, "").await
}

/// Starts a session that owns the ephemeral node `/e`, and waits until it does.
async fn owner(zkc: &Zkc, servers: &str, server: &TestServer) -> Child {
    let owner = zkc.command(&["create", "-e", "/e"]).env("ZK_CONNECT", servers).spawn();
    let owner = owner.expect("zkc");
    server.until(|probe| probe.exists("/e")).await;
    owner
}

/// Serves one response to every connection, after the request came.
async fn saying(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut word = [0; 4];
            drop(tokio::io::AsyncReadExt::read_exact(&mut stream, &mut word).await);
            drop(stream.write_all(response.as_bytes()).await);
        }
    });
    address
}

const REFUSED: &str = "srvr is not executed because it is not in the whitelist.\n";
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

#[tokio::test]
async fn a_healthy_server_has_status_0() {
    let zkc = Zkc::start().await;
    let told = zkc.run(&["status"]).await.ok();
    assert!(told.contains("standalone"), "{told}");
    let rows = zkc.run(&["status", "-o", "json"]).await.json();
    assert_eq!(rows[0]["role"], "standalone");
    assert!(rows[0]["znodes"].as_u64().is_some_and(|nodes| nodes > 3), "{rows}");
    assert_eq!(rows[0]["lag"], Value::Null);
}

#[tokio::test]
async fn status_finds_all_members_from_one() {
    let zkc = Zkc::start().await;
    let cluster = TestCluster::start(3).await;
    let one = cluster.member(0).connect_string();
    let rows = on(&zkc, &one, &["status", "-o", "json"]).await.json();
    let roles: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["role"].clone()).collect();
    assert_eq!(roles, ["follower", "follower", "leader"]);
    let named: Vec<_> = rows.as_array().unwrap().iter().map(|row| &row["server"]).collect();
    assert_eq!(named[0], &Value::from(one.as_str()));
    let servers = on(&zkc, &one, &["servers", "-o", "json"]).await.json();
    assert_eq!(servers[2]["id"], 3);
    assert_eq!(servers[2]["kind"], "participant");
}

#[tokio::test]
async fn a_degraded_ensemble_has_status_1() {
    let zkc = Zkc::start().await;
    let cluster = TestCluster::start(3).await;
    let all = cluster.connect_string();
    cluster.kill(0).await;
    let outcome = on(&zkc, &all, &["status", "-o", "json"]).await;
    assert!(outcome.stdout.contains("\"unreachable\""), "{outcome:?}");
    let told = outcome.fails(1);
    assert!(told.contains("unreachable: connection refused"), "{told}");
    cluster.kill(1).await;
    let told = on(&zkc, &all, &["status"]).await.fails(1);
    assert!(told.contains("degraded: no quorum among the named servers"), "{told}");
    assert!(told.contains("not serving"), "{told}");
    let told = on(&zkc, &all, &["doctor", "-o", "json"]).await;
    assert_eq!(told.code, 1, "{told:?}");
}

#[tokio::test]
async fn a_quorum_that_cannot_be_asked_is_unknown() {
    let zkc = Zkc::start().await;
    let cluster = TestCluster::start(3).await;
    let one = cluster.member(0).connect_string();
    cluster.kill(0).await;
    let full = TestServer::builder().max_client_connections(1).start().await.unwrap();
    let _first = owner(&zkc, &full.connect_string(), &full).await;
    for servers in [one, full.connect_string()] {
        let told = on(&zkc, &servers, &["status"]).await.fails(1);
        assert!(told.contains("unknown if there is a quorum"), "{told}");
        assert!(!told.contains("no quorum"), "{told}");
        let told = on(&zkc, &servers, &["--timeout", "100ms", "doctor"]).await;
        assert!(!told.stdout.contains("no quorum"), "{told:?}");
        assert!(!told.stdout.contains("one server"), "{told:?}");
    }
    let told = on(&zkc, &full.connect_string(), &["status"]).await.fails(1);
    assert!(told.contains("maxClientCnxns"), "{told}");
}

#[tokio::test]
async fn a_refusal_is_not_an_outage() {
    let zkc = Zkc::start().await;
    let (refusing, waiting) = (saying(REFUSED).await, saying(NOT_SERVING).await);
    let outcome =
        on(&zkc, &format!("{refusing},{waiting},127.0.0.1:1"), &["status", "-o", "json"]).await;
    let rows: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let roles: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["role"].clone()).collect();
    assert_eq!(roles, ["refused", "not-serving", "unreachable"]);
    outcome.fails(1);
    let told = on(&zkc, &refusing, &["flw", "srvr"]).await.fails(1);
    assert!(told.contains("set 4lw.commands.whitelist=srvr"), "{told}");
    let told = on(&zkc, "127.0.0.1:1", &["flw", "srvr"]).await.fails(3);
    assert!(told.contains("unreachable"), "{told}");
}

#[tokio::test]
async fn a_silent_server_is_late() {
    let zkc = Zkc::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let told = on(&zkc, &address, &["status", "--within", "100ms"]).await.fails(1);
    assert!(told.contains("no response in time"), "{told}");
}

#[tokio::test]
async fn prometheus_has_a_line_for_each_server() {
    let zkc = Zkc::start().await;
    let told = zkc.run(&["status", "--prometheus"]).await.ok();
    let server = zkc.server.connect_string();
    assert!(told.contains(&format!("zkc_server_up{{server=\"{server}\"}} 1\n")), "{told}");
    assert!(told.contains(&format!("zkc_server_leader{{server=\"{server}\"}} 1\n")), "{told}");
    assert!(told.ends_with("zkc_healthy 1\n"), "{told}");
    for line in told.lines() {
        let is_sample = line.split(' ').nth(1).is_some_and(|value| value.parse::<f64>().is_ok());
        assert!(line.starts_with("# HELP ") || line.starts_with("# TYPE ") || is_sample, "{line}");
    }
}

#[tokio::test]
async fn sessions_and_their_nodes_are_found_on_any_server() {
    let zkc = Zkc::start().await;
    let cluster = TestCluster::start(3).await;
    let follower = cluster.member(0).connect_string();
    let _owner = owner(&zkc, &follower, cluster.member(0)).await;
    let owner = cluster.member(0).probe().stat("/e").expect("a node").ephemeral_owner;
    let session = format!("{owner:#x}");
    let leader = cluster.member(2).connect_string();

    let rows = on(&zkc, &leader, &["sessions", "-o", "json"]).await.json();
    let row = rows.as_array().unwrap().iter().find(|row| row["session"] == session.as_str());
    let row = row.unwrap_or_else(|| panic!("no {session} in {rows}"));
    assert_eq!(row["server"], follower.as_str());
    assert_eq!(row["ephemerals"], 1);
    assert_eq!(row["timeout"], 30_000);
    assert!(row["client"].as_str().is_some_and(|client| client.starts_with("127.0.0.1:")));

    let told = on(&zkc, &leader, &["ephemerals", "--session", &session, "-o", "name"]).await.ok();
    assert_eq!(told, "/e\n");
    let told = on(&zkc, &leader, &["ephemerals", "--session", "0x1", "-o", "name"]).await.ok();
    assert_eq!(told, "");
    on(&zkc, &leader, &["ephemerals", "--session", "me"]).await.fails(2);
}

#[tokio::test]
async fn servers_that_hide_sessions_are_named() {
    let zkc = Zkc::start().await;
    let refusing = saying(REFUSED).await;
    let told = on(&zkc, &refusing, &["ephemerals", "--timeout", "200ms"]).await.fails(5);
    assert!(told.contains("no server lists its ephemeral nodes"), "{told}");
    assert!(told.contains("refuses cons, dump, srvr: set 4lw.commands.whitelist=srvr, mntr, conf, cons, dump, wchs in zoo.cfg"), "{told}");
}

#[tokio::test]
async fn watches_are_counted_by_server_path_and_session() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a"]).await.ok();
    let _waiter = zkc.command(&["wait", "/a", "--gone"]).spawn().expect("zkc");
    zkc.server.until(|probe| !probe.watches().is_empty()).await;
    let rows = zkc.run(&["watches", "-o", "json"]).await.json();
    assert_eq!(rows[0]["watches"], 1, "{rows}");
    let rows = zkc.run(&["watches", "--by-path", "-o", "json"]).await.json();
    assert_eq!((&rows[0]["path"], &rows[0]["watches"]), (&"/a".into(), &1.into()), "{rows}");
    let rows = zkc.run(&["watches", "--by-session", "--top", "1", "-o", "json"]).await.json();
    assert_eq!(rows.as_array().map(Vec::len), Some(1));
    assert!(rows[0]["session"].as_str().is_some_and(|session| session.starts_with("0x")));
}

#[tokio::test]
async fn words_are_raw_and_only_those_that_read() {
    let zkc = Zkc::start().await;
    assert_eq!(zkc.run(&["flw", "ruok"]).await.ok(), "imok\n");
    assert_eq!(zkc.run(&["flw", "ruok", "-o", "raw"]).await.ok(), "imok");
    let server = zkc.server.connect_string();
    assert_eq!(zkc.run(&["flw", "isro", &server]).await.ok(), "rw\n");
    for word in ["srst", "crst", "nope"] {
        let told = zkc.run(&["flw", word]).await.fails(2);
        assert!(told.contains("not a word that only reads"), "{told}");
    }
    let cluster = TestCluster::start(2).await;
    let told = on(&zkc, &cluster.connect_string(), &["flw", "ruok"]).await.ok();
    let names: Vec<_> = cluster.members().iter().map(TestServer::connect_string).collect();
    assert_eq!(told, format!("# {}\nimok\n# {}\nimok\n", names[0], names[1]));
}

#[tokio::test]
async fn nothing_resets_the_counters() {
    let zkc = Zkc::start().await;
    let received = || async {
        let text = zkc.run(&["flw", "srvr"]).await.ok();
        let line =
            text.lines().find_map(|line| line.strip_prefix("Received: ")).unwrap().to_owned();
        line.parse::<u64>().unwrap()
    };
    zkc.run(&["create", "/a"]).await.ok();
    let mut before = received().await;
    for command in [&["status"][..], &["sessions"], &["watches"], &["metrics"], &["doctor"]] {
        zkc.run(command).await.ok();
        let after = received().await;
        assert!(after > before, "{command:?}: {after} after {before}");
        before = after;
    }
}

#[tokio::test]
async fn metrics_are_numbers_by_name() {
    let zkc = Zkc::start().await;
    let rows = zkc.run(&["metrics", "--match", "*_latency", "-o", "json"]).await.json();
    let names: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["metric"].clone()).collect();
    assert_eq!(names, ["avg_latency", "max_latency", "min_latency"]);
    assert!(rows.as_array().unwrap().iter().all(|row| row["value"].is_number()), "{rows}");
}

#[tokio::test]
async fn a_doctor_finds_nodes_and_members() {
    let zkc = Zkc::start().await;
    let cluster = TestCluster::start(2).await;
    let all = cluster.connect_string();
    let rows = on(&zkc, &all, &["doctor", "-o", "json"]).await.json();
    assert!(
        rows.to_string().contains("2 voting servers tolerate as few failures as 1 do"),
        "{rows}"
    );
    let big = "x".repeat(600 * 1024);
    let child = zkc.command(&["create", "/big", "-"]).stdin(std::process::Stdio::piped()).spawn();
    end(child.expect("zkc"), &big).await.ok();
    let rows = zkc.run(&["doctor", "--tree", "/", "-o", "json"]).await.json();
    let found = rows.as_array().unwrap().iter().find(|row| row["subject"] == "/big");
    let found = found.unwrap_or_else(|| panic!("{rows}"));
    assert_eq!(found["severity"], "warning");
    assert!(!zkc.run(&["doctor"]).await.ok().contains("/big"));

    zkc.run(&["create", "/worn"]).await.ok();
    zkc.server.set_sequence("/worn", 2_100_000_000).expect("a node");
    let told = zkc.run(&["doctor", "--tree", "/worn", "-o", "json"]).await.ok();
    assert!(told.contains("the next sequential child has the number 2100000000"), "{told}");
}

#[tokio::test]
async fn a_doctor_compares_the_lists_of_locks() {
    let zkc = Zkc::start().await;
    let zk = zkc.server.framework().build().expect("settings");
    zk.start().await.expect("connected");
    let lock = zk_curator_recipes::lock::InterProcessMutex::new(&zk, "/locks/a");
    let guard = lock.acquire().await.expect("the lock");
    let findings = async || {
        let told = zkc.run(&["doctor", "--tree", "/locks", "-o", "json"]).await;
        let rows: Value = serde_json::from_str(&told.stdout).expect("JSON");
        let rows = rows.as_array().unwrap().clone();
        rows.iter().map(|row| row["finding"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let open = "anyone may delete the contenders of /locks/a (world:anyone)".to_owned();
    assert!(findings().await.contains(&open));
    let own = vec![zk_curator::Acl::new(zk_curator::Permissions::ALL, "digest", "ann:x")];
    zk.set_acl(guard.path(), own).await.expect("set");
    // The contender is also named as a node that may not be read.
    zkc.run(&["doctor", "--tree", "/locks"]).await.fails(8);
    let told = findings().await;
    let hidden = "world:anyone may not read 1 of 1 contenders, such as _c_";
    assert!(told.iter().any(|finding| finding.starts_with(hidden)), "{told:?}");
    zk.close().await.ok();
}

#[tokio::test]
async fn a_doctor_measures_lists_of_children() {
    let zkc = Zkc::start().await;
    let zk = zkc.server.framework().build().expect("settings");
    zk.start().await.expect("connected");
    zk.create("/wide").await.expect("created");
    for batch in 0..6 {
        let names = (0..500).map(|n| format!("/wide/{batch}-{n}-{}", "x".repeat(200)));
        let created = names.fold(zk.transaction(), |all, path| all.create(path, ""));
        created.commit().await.expect("created");
    }
    let told = zkc.run(&["doctor", "--tree", "/wide", "-o", "json"]).await.ok();
    assert!(told.contains("has 3000 children, whose names have"), "{told}");
    zk.close().await.expect("closed");
}

#[tokio::test]
async fn a_doctor_compares_the_clocks() {
    let zkc = Zkc::start().await;
    assert!(!zkc.run(&["doctor"]).await.ok().contains("clock"));
    zkc.server.advance(std::time::Duration::from_secs(3_600));
    let told = zkc.run(&["doctor", "-o", "json"]).await.ok();
    assert!(told.contains("ahead of the clock here"), "{told}");
}

#[tokio::test]
async fn members_are_shown_and_changed_only_on_agreement() {
    let zkc = Zkc::start().await;
    let cluster = TestCluster::start(3).await;
    let all = cluster.connect_string();
    let shown = on(&zkc, &all, &["reconfig", "show", "-o", "name"]).await.ok();
    assert_eq!(shown.lines().count(), 3, "{shown}");
    assert!(shown.starts_with("server.1="), "{shown}");
    let planned =
        on(&zkc, &all, &["reconfig", "remove", "1", "--dry-run", "-o", "name"]).await.ok();
    assert_eq!(planned.lines().count(), 2, "{planned}");
    let told = on(&zkc, &all, &["reconfig", "remove", "1"]).await.fails(2);
    assert!(told.contains("Remove server 1 from the ensemble?"), "{told}");
    let told = on(&zkc, &all, &["reconfig", "remove", "1", "-y"]).await.fails(2);
    assert!(told.contains("set reconfigEnabled=true in zoo.cfg"), "{told}");
    on(&zkc, &all, &["reconfig", "remove", "9"]).await.fails(2);
    on(&zkc, &all, &["reconfig", "add", "server.4"]).await.fails(2);
    on(&zkc, &all, &["--read-only", "reconfig", "remove", "1", "-y"]).await.fails(5);
    assert_eq!(on(&zkc, &all, &["reconfig", "show", "-o", "name"]).await.ok(), shown);
}

#[tokio::test]
async fn top_prints_one_sample_for_scripts() {
    let zkc = Zkc::start().await;
    let rows = zkc.run(&["top", "--once", "--interval", "200ms", "-o", "json"]).await.json();
    assert_eq!(rows[0]["role"], "standalone");
    assert!(rows[0]["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{rows}");
    let told = zkc.run(&["top"]).await.fails(2);
    assert_eq!(told, "not a terminal (pass --once)\n");
    on(&zkc, "127.0.0.1:1", &["top", "--once"]).await.fails(3);
}

/// Commands against three servers of Apache ZooKeeper.
#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_ensemble_is_shown_on_apache_zookeeper() {
    let name = "the_ensemble_is_shown_on_apache_zookeeper";
    let Some(mut ensemble) = real::or_skip_ensemble(name, 3).await else { return };
    let zkc = Zkc::start().await;
    let one = ensemble.server(0).connect_string();
    // Each of these servers knows only its own client port.
    let told = on(&zkc, &one, &["status"]).await;
    assert_eq!(told.stderr.lines().count(), 1, "{told:?}");
    assert!(told.stderr.contains("name it in the connect string"), "{told:?}");
    told.ok();
    let all = ensemble.connect_string();
    let rows = on(&zkc, &all, &["status", "-o", "json"]).await.json();
    let roles: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["role"].as_str()).collect();
    assert_eq!(roles.iter().filter(|role| **role == Some("leader")).count(), 1, "{rows}");
    assert_eq!(roles.iter().filter(|role| **role == Some("follower")).count(), 2, "{rows}");

    let session = zkc.command(&["create", "-e", "/e"]).env("ZK_CONNECT", &one).spawn();
    let _session = session.expect("zkc");
    let exists = on(&zkc, &one, &["wait", "/e", "--exists", "--for", "30s"]).await;
    exists.ok();
    let rows = on(&zkc, &all, &["ephemerals", "-o", "json"]).await.json();
    assert_eq!(rows[0]["path"], "/e", "{rows}");
    assert!(rows[0]["client"].as_str().is_some_and(|client| client.starts_with("127.0.0.1:")));
    // On a busy machine the servers respond late, and the doctor is right to say so.
    let told = on(&zkc, &all, &["doctor", "-o", "json"]).await.ok();
    let findings: Value = serde_json::from_str(&told).expect("JSON");
    let is_late = |row: &&Value| row["finding"].as_str().unwrap().contains("average latency");
    let mut others = findings.as_array().unwrap().iter().filter(|row| !is_late(row));
    assert_eq!(others.next(), None, "{told}");
    let rows = on(&zkc, &all, &["top", "--once", "--interval", "300ms", "-o", "json"]).await.json();
    assert!(rows[2]["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{rows}");

    ensemble.kill(2).await.expect("an end");
    // A follower that lost its leader does not serve until the next one is elected.
    ensemble.leader().await.expect("a leader");
    let told = on(&zkc, &all, &["status"]).await.fails(1);
    assert!(told.contains("unreachable"), "{told}");
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_member_is_removed_on_apache_zookeeper() {
    let name = "a_member_is_removed_on_apache_zookeeper";
    let ensemble = real::RealEnsemble::builder(3)
        .setting("reconfigEnabled", true)
        .jvm_property("zookeeper.skipACL", "yes");
    let Some(ensemble) = real::or_skip_ensemble_with(name, ensemble).await else { return };
    let zkc = Zkc::start().await;
    let follower = (ensemble.leader().await.expect("a leader") + 1) % 3;
    let id = (follower + 1).to_string();
    let all = ensemble.connect_string();
    let told = on(&zkc, &all, &["reconfig", "remove", &id, "-y", "-o", "name"]).await;
    assert!(told.stderr.contains("tolerate as few failures"), "{told:?}");
    let left = told.ok();
    assert_eq!(left.lines().count(), 2, "{left}");
    assert!(!left.contains(&format!("server.{id}=")), "{left}");
    assert_eq!(on(&zkc, &all, &["reconfig", "show", "-o", "name"]).await.ok(), left);
}
