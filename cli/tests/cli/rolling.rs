//! `rolling-restart`, against embedded ensembles, and against Apache ZooKeeper under load.
//!
//! The command of `--exec` asks the test to restart a server: it creates a node on a control server
//! and waits until the test has created another one.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Child;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_real as real;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::{TestCluster, TestServer};

use crate::support::{Outcome, Zkc, end, signal};

/// Starts a rolling restart whose commands ask this test.
fn start(zkc: &Zkc, servers: &str, options: &[&str]) -> Child {
    let control = zkc.server.connect_string();
    let exec = format!(
        "zkc -s {control} create -p /asked/{{port}} && \
         zkc -s {control} wait /done/$ZK_PORT --exists --for 4m"
    );
    let arguments = ["rolling-restart", "--exec", &exec, "--interval", "200ms"];
    let arguments = [&arguments[..], options].concat();
    zkc.command(&arguments).env("ZK_CONNECT", servers).spawn().expect("zkc")
}

/// Waits for a server that a command asks for, other than these. Returns its port.
async fn asked(control: &TestServer, before: &BTreeSet<u16>) -> u16 {
    let ports = |names: Vec<&str>| -> Vec<u16> {
        names.into_iter().filter_map(|name| name.parse().ok()).collect()
    };
    let is_new = |port: &u16| !before.contains(port);
    let probe = control.until(|probe| ports(probe.children("/asked")).iter().any(is_new)).await;
    let port = ports(probe.children("/asked")).into_iter().find(is_new);
    port.expect("a port")
}

/// Ends the command that has asked for a server.
async fn done(zkc: &Zkc, port: u16) {
    zkc.run(&["create", "-p", &format!("/done/{port}")]).await.ok();
}

/// Restarts the servers that commands ask for.
async fn obey(zkc: &Zkc, mut restart: impl AsyncFnMut(u16)) -> Infallible {
    let mut restarted = BTreeSet::new();
    loop {
        let port = asked(&zkc.server, &restarted).await;
        restarted.insert(port);
        restart(port).await;
        done(zkc, port).await;
    }
}

/// Runs a rolling restart to its end.
async fn rolling_restart(
    zkc: &Zkc,
    servers: &str,
    options: &[&str],
    restart: impl AsyncFnMut(u16),
) -> Outcome {
    let child = start(zkc, servers, options);
    tokio::select! {
        outcome = end(child, "") => outcome,
        never = obey(zkc, restart) => match never {},
    }
}

/// Returns the member of a cluster with this port.
fn member(cluster: &TestCluster, port: u16) -> usize {
    let address = format!("127.0.0.1:{port}");
    let place = cluster.members().iter().position(|member| member.connect_string() == address);
    place.expect("a member")
}

/// An ensemble whose members have had their roles for long.
async fn ensemble(members: usize) -> TestCluster {
    let cluster = TestCluster::start(members).await;
    cluster.advance(Duration::from_secs(3_600));
    cluster
}

/// Returns the results of the servers by the table.
fn results(outcome: &Outcome) -> Vec<String> {
    let rows: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let rows = rows.as_array().expect("rows").iter();
    rows.map(|row| row["result"].as_str().expect("a result").to_owned()).collect()
}

#[tokio::test]
async fn all_servers_are_restarted_and_the_leader_is_the_last() {
    let zkc = Zkc::start().await;
    let cluster = ensemble(3).await;
    let leader = cluster.leader().expect("a leader");
    let mut order = Vec::new();
    // The others are found from one.
    let one = cluster.member(0).connect_string();
    let outcome = rolling_restart(&zkc, &one, &["--yes", "-o", "json"], async |port| {
        assert!(cluster.members().iter().all(TestServer::is_running), "{}", cluster.probe());
        let member = member(&cluster, port);
        order.push(member);
        cluster.restart(member).await.expect("a restart");
    });
    let outcome = outcome.await;
    assert_eq!(results(&outcome), ["restarted"; 3]);
    assert!(outcome.stderr.contains("(leader): restart"), "{outcome:?}");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let expected: Vec<_> = (0..3).filter(|member| *member != leader).chain([leader]).collect();
    assert_eq!(order, expected);
}

#[tokio::test]
async fn without_yes_only_the_plan_is_shown() {
    let zkc = Zkc::start().await;
    let cluster = ensemble(3).await;
    let all = cluster.connect_string();
    let outcome = end(start(&zkc, &all, &["-o", "json"]), "").await;
    assert_eq!(results(&outcome), ["planned"; 3]);
    assert!(outcome.stderr.contains("pass --yes"), "{outcome:?}");
    let rows = outcome.json();
    let roles: Vec<_> = rows.as_array().expect("rows").iter().map(|row| &row["role"]).collect();
    assert_eq!(roles, ["follower", "follower", "leader"]);
    let steps: Vec<_> = rows.as_array().expect("rows").iter().map(|row| &row["step"]).collect();
    assert_eq!(steps, [1, 2, 3]);
    // A table for people has no reasons.
    let table = end(start(&zkc, &all, &[]), "").await.ok();
    assert!(table.contains("planned") && !table.contains("REASON"), "{table}");
    assert!(!zkc.server.probe().exists("/asked"));
}

#[tokio::test]
async fn a_doubt_at_the_start_restarts_nothing() {
    let zkc = Zkc::start().await;
    let cluster = ensemble(3).await;
    let all = cluster.connect_string();
    cluster.kill(0).await;
    for options in [&["-o", "json"][..], &["-o", "json", "--yes"]] {
        let outcome = end(start(&zkc, &all, options), "").await;
        assert_eq!(results(&outcome), ["left"; 3]);
        assert!(outcome.stdout.contains("connection refused"), "{outcome:?}");
        let text = outcome.fails(1);
        assert!(text.contains("unreachable: connection refused"), "{text}");
        assert!(text.contains("no server was restarted"), "{text}");
    }
    assert!(!zkc.server.probe().exists("/asked"));
}

#[tokio::test]
async fn an_ensemble_that_needs_every_server_is_refused() {
    let zkc = Zkc::start().await;
    let alone = zkc.server.connect_string();
    let text = end(start(&zkc, &alone, &["--yes"]), "").await.fails(1);
    assert!(text.contains("a single server: there is no quorum without it"), "{text}");
    let cluster = ensemble(2).await;
    let text = end(start(&zkc, &cluster.connect_string(), &["--yes"]), "").await.fails(1);
    assert!(text.contains("a quorum needs 2 of the 2 voting members"), "{text}");
    assert!(!zkc.server.probe().exists("/asked"));
}

#[tokio::test]
async fn a_failed_command_ends_the_run() {
    let zkc = Zkc::start().await;
    let cluster = ensemble(3).await;
    let all = cluster.connect_string();
    let run = async |exec: &str, options: &[&str]| {
        let arguments = ["rolling-restart", "-y", "-o", "json", "--interval", "200ms", "--exec"];
        let arguments = [&arguments[..], &[exec], options].concat();
        end(zkc.command(&arguments).env("ZK_CONNECT", &all).spawn().expect("zkc"), "").await
    };
    let outcome = run("echo broken {id}; exit 3", &[]).await;
    assert_eq!(results(&outcome), ["failed", "left", "left"]);
    let text = outcome.fails(8);
    assert!(text.contains("| broken 1") && text.contains("exit status: 3"), "{text}");
    let left = text.lines().find(|line| line.starts_with("to continue, pass ")).expect(&text);
    assert_eq!(left.matches("--server 127.0.0.1:").count(), 3, "{text}");

    let outcome = run("sleep 300; : {id}", &["--exec-timeout", "100ms"]).await;
    assert_eq!(results(&outcome), ["failed", "left", "left"]);
    assert!(outcome.fails(8).contains("did not end within 100ms"));

    // It succeeds, and restarts nothing.
    let outcome = run("echo quiet {id}", &["--wait", "500ms"]).await;
    assert_eq!(results(&outcome), ["failed", "left", "left"]);
    let text = outcome.fails(8);
    assert!(text.contains("nothing shows that 127.0.0.1:"), "{text}");
    assert!(!text.contains("quiet"), "{text}");
    let text = run("echo loud {id}", &["--wait", "500ms", "-v"]).await.fails(8);
    assert!(text.contains("| loud 1"), "{text}");
}

#[tokio::test]
async fn a_server_that_does_not_come_back_ends_the_run() {
    let zkc = Zkc::start().await;
    let cluster = ensemble(3).await;
    let all = cluster.connect_string();
    let options = ["--yes", "-o", "json", "--wait", "1s"];
    let outcome = rolling_restart(&zkc, &all, &options, async |port| {
        cluster.kill(member(&cluster, port)).await;
    });
    let outcome = outcome.await;
    assert_eq!(results(&outcome), ["unchecked", "left", "left"]);
    let text = outcome.fails(8);
    assert!(text.contains("stopped: 127.0.0.1:"), "{text}");
    let left = text.lines().find(|line| line.starts_with("to continue, pass ")).expect(&text);
    assert_eq!(left.matches("--server 127.0.0.1:").count(), 2, "{text}");
}

#[tokio::test]
async fn named_servers_are_restarted_and_others_are_left_out() {
    let zkc = Zkc::start().await;
    let cluster = ensemble(3).await;
    let all = cluster.connect_string();
    let second = cluster.member(1).connect_string();
    let options = ["--yes", "-o", "json", "--server", &second, "--server", "1"];
    let mut order = Vec::new();
    let outcome = rolling_restart(&zkc, &all, &options, async |port| {
        let member = member(&cluster, port);
        order.push(member);
        cluster.restart(member).await.expect("a restart");
    });
    let outcome = outcome.await;
    assert_eq!(results(&outcome), ["restarted", "restarted", "left-out"]);
    outcome.ok();
    assert_eq!(order, [0, 1]);
    let text = end(start(&zkc, &all, &["--server", "zk9:2181"]), "").await.fails(2);
    assert!(text.contains("no server zk9:2181"), "{text}");
}

#[tokio::test]
async fn servers_that_have_restarted_since_a_time_are_left_out() {
    let zkc = Zkc::start().await;
    let cluster = ensemble(3).await;
    let all = cluster.connect_string();
    cluster.restart(0).await.expect("a restart");
    let outcome = end(start(&zkc, &all, &["-o", "json", "--since", "30m"]), "").await;
    assert_eq!(results(&outcome), ["planned", "planned", "left-out"]);
    let first = cluster.member(0).connect_string();
    assert!(outcome.stderr.contains(&format!("note: {first} is left out")), "{outcome:?}");
    outcome.ok();
    let outcome = end(start(&zkc, &all, &["-o", "json", "--since", "2h"]), "").await;
    assert_eq!(results(&outcome), ["left-out"; 3]);
    assert!(outcome.stderr.contains("nothing to restart"), "{outcome:?}");
    outcome.ok();
}

#[tokio::test]
async fn ctrl_c_ends_the_run_before_the_next_restart() {
    let zkc = Zkc::start().await;
    let cluster = ensemble(3).await;
    let options = ["--yes", "-o", "json", "--pause", "4m"];
    let child = start(&zkc, &cluster.connect_string(), &options);
    let port = asked(&zkc.server, &BTreeSet::new()).await;
    cluster.restart(member(&cluster, port)).await.expect("a restart");
    // The command may still run, or the run waits for the end of the pause.
    done(&zkc, port).await;
    signal(&child, "INT").await;
    let outcome = end(child, "").await;
    assert_eq!(results(&outcome), ["unchecked", "left", "left"]);
    assert!(outcome.stderr.contains("stopped: interrupted"), "{outcome:?}");
    outcome.fails(8);
    assert_eq!(zkc.server.probe().children("/asked").len(), 1);
}

#[tokio::test]
async fn a_restart_is_refused_where_changes_are() {
    let zkc = Zkc::start().await;
    let cluster = ensemble(3).await;
    let all = cluster.connect_string();
    let text = end(start(&zkc, &all, &["--yes", "--read-only"]), "").await.fails(5);
    assert!(text.contains("read-only: nothing was changed"), "{text}");
    end(start(&zkc, &all, &["--read-only"]), "").await.ok();
    let arguments = ["rolling-restart", "--exec", "systemctl restart zookeeper"];
    let text = zkc.run(&arguments).await.fails(2);
    assert!(text.contains("the command names no server"), "{text}");
    // All of these servers have the same host.
    let arguments = ["rolling-restart", "-y", "--exec", "ssh {host} systemctl restart zookeeper"];
    let child = zkc.command(&arguments).env("ZK_CONNECT", &all).spawn().expect("zkc");
    let text = end(child, "").await.fails(2);
    assert!(text.contains("the command is the same for 127.0.0.1:"), "{text}");
    assert!(!zkc.server.probe().exists("/asked"));
}

mod night {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "night: scripts/night"]
    async fn three_servers_restart_under_load_on_apache_zookeeper() {
        let name = "three_servers_restart_under_load_on_apache_zookeeper";
        super::servers_restart_under_load(name, 3).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "night: scripts/night"]
    async fn five_servers_restart_under_load_on_apache_zookeeper() {
        let name = "five_servers_restart_under_load_on_apache_zookeeper";
        super::servers_restart_under_load(name, 5).await;
    }
}

/// Restarts every server while a client writes, reads, and holds a lock.
async fn servers_restart_under_load(test: &str, servers: usize) {
    let Some(mut ensemble) = real::or_skip_ensemble(test, servers).await else { return };
    let zkc = Zkc::start().await;
    let all = ensemble.connect_string();
    let builder = CuratorFramework::builder().connect_string(&all);
    let zk = builder.session_timeout(Duration::from_secs(40)).build().expect("settings");
    zk.start().await.expect("connected");
    let session = zk.session().expect("a session").id;
    let mut states = zk.states();
    let lost = tokio::spawn(async move {
        states.until(|status| status.state == ConnectionState::Lost).await.is_some()
    });
    let lock = InterProcessMutex::new(&zk, "/lock");
    let guard = lock.acquire().await.expect("the lock");
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write(zk.clone(), Arc::clone(&is_over)));

    let leader = ensemble.leader().await.expect("a leader");
    let ports: Vec<_> = ensemble.servers().iter().map(|server| server.addr().port()).collect();
    let mut order = Vec::new();
    let options = ["--yes", "-o", "json", "--wait", "4m"];
    let outcome = rolling_restart(&zkc, &all, &options, async |port| {
        let server = ports.iter().position(|of_server| *of_server == port).expect("a server");
        order.push(server);
        ensemble.restart(server).await.expect("a restart");
    });
    let outcome = outcome.await;
    assert_eq!(results(&outcome), vec!["restarted"; servers], "{outcome:?}");
    outcome.ok();
    let expected: Vec<_> =
        (0..servers).filter(|server| *server != leader).chain([leader]).collect();
    assert_eq!(order, expected);

    is_over.store(true, Ordering::Release);
    let written = writing.await.expect("a writer");
    assert!(written.len() > 10, "only {} writes", written.len());
    let names = zk.children("/writes").await.expect("a list");
    for path in &written {
        let name = path.rsplit('/').next().expect("a name");
        assert!(names.iter().any(|other| other == name), "{path} is lost");
    }
    assert!(zk.exists(guard.path()).await.expect("a response").is_some());
    guard.release().await.expect("released");
    assert_eq!(zk.session().map(|info| info.id), Some(session));
    assert!(!lost.is_finished(), "the session was lost");
    zk.close().await.expect("closed");
    assert!(!lost.await.expect("a state"), "the session was lost");
}

/// Creates nodes one after another, and reads each of them. Returns the acknowledged ones.
async fn write(zk: CuratorFramework, is_over: Arc<AtomicBool>) -> Vec<String> {
    zk.create("/writes").await.expect("a node");
    let mut written = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        let mode = CreateMode::PersistentSequential;
        match zk.create("/writes/n-").mode(mode).data("x").await {
            Ok(created) => {
                // A read may fail while the client has no connection.
                if let Ok(data) = zk.get_data(&created.path).await {
                    assert_eq!(data, "x");
                }
                written.push(created.path);
            }
            Err(error) => assert!(error.is_transient() || error.may_have_applied(), "{error}"),
        }
    }
    written
}
