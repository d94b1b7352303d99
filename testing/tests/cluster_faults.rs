//! Members of an ensemble that stop, are partitioned, are suspended, or lose the leadership.

#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::time::Duration;

use crate::common::{RawClient, create, new_session, set_data};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zk_curator_client::Connector;
use zk_curator_proto::records::{ConnectRequest, CreateMode};
use zk_curator_proto::{ErrorCode, Response};
use zk_curator_testing::wait::{idle, past, spend};
use zk_curator_testing::{ClusterProbe, Direction, MemberRole, TestCluster, TestServer, Verdict};

const A_MOMENT: Duration = Duration::from_secs(1);

use MemberRole::{Follower, Leader, Looking, ReadOnly, Stopped};

fn roles(probe: &ClusterProbe) -> Vec<MemberRole> {
    probe.members().iter().map(|member| member.role).collect()
}

/// Connects a client to each member.
async fn clients(cluster: &TestCluster) -> Vec<RawClient> {
    let mut clients = Vec::new();
    for member in cluster.members() {
        clients.push(RawClient::new(member).await);
    }
    clients
}

/// Returns `true` if a member accepts a new session in time.
async fn accepts(server: &TestServer) -> bool {
    let request = ConnectRequest { timeout: 1000, ..new_session() };
    let Ok(stream) = server.connector().connect("", 0).await else { return false };
    RawClient::open(stream, request).await.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_stopped_follower_affects_only_its_clients_and_catches_up() {
    let cluster = TestCluster::in_memory(3).await;
    let mut clients = clients(&cluster).await;
    cluster.kill(0).await;
    clients[0].closed().await;
    assert_eq!(roles(&cluster.probe()), [Stopped, Follower, Leader]);
    clients[1].create("/a", CreateMode::Persistent).await.unwrap();
    assert!(!cluster.probe().member(0).exists("/a"));
    cluster.restart(0).await.unwrap();
    assert_eq!(roles(&cluster.probe()), [Follower, Follower, Leader]);
    assert!(cluster.probe().member(0).exists("/a"));
    let mut back = clients[0].reattach(cluster.member(0)).await.unwrap();
    assert!(back.exists("/a", false).await.is_ok());
    clients[2].ping().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_is_replaced_and_all_clients_reconnect() {
    let cluster = TestCluster::in_memory(3).await;
    let mut clients = clients(&cluster).await;
    clients[0].create("/e", CreateMode::Ephemeral).await.unwrap();
    let zxid = cluster.probe().zxid();
    cluster.kill(2).await;
    for zk in &mut clients {
        zk.closed().await;
    }
    assert_eq!(roles(&cluster.probe()), [Follower, Leader, Stopped]);
    assert_eq!((zxid >> 32, cluster.probe().zxid(), cluster.probe().epoch()), (1, 2 << 32, 2));
    let mut back = clients[0].reattach(cluster.member(1)).await.unwrap();
    assert_eq!(back.exists("/e", false).await.unwrap().ephemeral_owner, back.id());
    back.create("/b", CreateMode::Persistent).await.unwrap();
    assert_eq!(cluster.probe().zxid(), (2 << 32) + 1);
    cluster.restart(2).await.unwrap();
    assert_eq!(cluster.leader(), Some(1), "a restarted member follows");
    assert!(cluster.probe().member(2).exists("/b"));
}

#[tokio::test(start_paused = true)]
async fn sessions_have_their_whole_timeout_under_a_new_leader() {
    let cluster = TestCluster::in_memory(3).await;
    let mut zk = RawClient::with_timeout(cluster.member(0), 1000).await;
    spend(Duration::from_millis(900)).await;
    assert_eq!(cluster.change_leader(), Some(1));
    zk.closed().await;
    idle(Duration::from_millis(900)).await;
    assert_eq!(cluster.probe().latest().sessions().len(), 1);
    past(Duration::from_millis(200)).await;
    assert_eq!(cluster.probe().latest().sessions().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_no_member_serves_and_no_session_expires() {
    let cluster = TestCluster::in_memory(3).await;
    let mut zk = RawClient::with_timeout(cluster.member(0), 1000).await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    cluster.kill(1).await;
    cluster.kill(2).await;
    zk.closed().await;
    assert_eq!(roles(&cluster.probe()), [Looking, Stopped, Stopped]);
    assert!(!accepts(cluster.member(0)).await && !accepts(cluster.member(1)).await);
    assert_eq!(
        (cluster.leader(), cluster.expire(zk.id()), cluster.change_leader()),
        (None, false, None)
    );
    assert_eq!(cluster.set_sequence("/a", 1), Err(ErrorCode::NotReadOnly));
    idle(Duration::from_secs(60)).await;
    assert_eq!(cluster.probe().latest().sessions().len(), 1);
    cluster.restart(1).await.unwrap();
    let mut back = zk.reattach(cluster.member(1)).await.unwrap();
    assert!(back.exists("/a", false).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn only_the_member_with_the_longest_log_is_elected() {
    let cluster = TestCluster::in_memory(3).await;
    let mut zk = RawClient::new(cluster.member(0)).await;
    cluster.kill(1).await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    cluster.kill(0).await;
    cluster.kill(2).await;
    cluster.restart(1).await.unwrap();
    assert_eq!((cluster.leader(), cluster.probe().member(1).exists("/a")), (None, false));
    cluster.restart(0).await.unwrap();
    assert_eq!(cluster.leader(), Some(0), "the other member has missed a transaction");
    assert!(cluster.probe().member(1).exists("/a"));
}

#[tokio::test(start_paused = true)]
async fn the_majority_goes_on_without_a_leader_that_is_cut_off() {
    let cluster = TestCluster::in_memory(5).await;
    let mut clients = clients(&cluster).await;
    assert_eq!(cluster.leader(), Some(4));
    cluster.partition(&[&[3, 4]]);
    assert_eq!(roles(&cluster.probe()), [Follower, Follower, Leader, Looking, Looking]);
    clients[4].closed().await;
    assert!(!accepts(cluster.member(4)).await && accepts(cluster.member(0)).await);
    let mut moved = clients[4].reattach(cluster.member(0)).await.unwrap();
    moved.create("/a", CreateMode::Persistent).await.unwrap();
    assert!(!cluster.probe().member(4).exists("/a"));
    cluster.heal();
    assert_eq!(roles(&cluster.probe()), [Follower, Follower, Leader, Follower, Follower]);
    assert!(cluster.probe().member(4).exists("/a"));
    moved.ping().await;

    // No side has three members.
    cluster.partition(&[&[0, 1], &[2, 3]]);
    assert_eq!(roles(&cluster.probe()), [Looking; 5]);
    cluster.heal();
    assert!(cluster.leader().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_member_without_a_majority_serves_stale_reads_when_it_may() {
    let cluster = TestCluster::builder(3).tcp(false).read_only(true).start().await.unwrap();
    let mut clients = clients(&cluster).await;
    clients[0].create("/a", CreateMode::Persistent).await.unwrap();
    cluster.partition(&[&[0]]);
    assert_eq!(roles(&cluster.probe()), [ReadOnly, Follower, Leader]);
    clients[0].closed().await;
    clients[1].set_data("/a", b"new").await.unwrap();
    assert!(!accepts(cluster.member(0)).await, "a client that wants to write");
    let request = ConnectRequest { timeout: 1000, read_only: true, ..new_session() };
    let mut reader = RawClient::handshake(cluster.member(0), request).await.unwrap();
    assert!(reader.session.read_only);
    assert_eq!(reader.get_data("/a", false).await, Ok(Some(Bytes::from_static(b"data"))));
    assert_eq!(reader.call(set_data("/a", b"", -1)).await, Err(ErrorCode::NotReadOnly));
    // The other members do not know a local session, and their sessions cannot continue here.
    let elsewhere = reader.reattach(cluster.member(1)).await.unwrap();
    assert_eq!(elsewhere.id(), 0, "expired");
    let global = ConnectRequest { read_only: true, ..clients[1].reattach_request() };
    assert!(RawClient::handshake(cluster.member(0), global).await.is_none());
    cluster.heal();
    reader.closed().await;
    assert_eq!(cluster.probe().latest().sessions().len(), 3, "the local session has ended");
    assert!(accepts(cluster.member(0)).await);
}

#[tokio::test(start_paused = true)]
async fn a_member_set_to_read_only_has_left_the_ensemble() {
    let cluster = TestCluster::in_memory(3).await;
    cluster.member(2).set_read_only(true);
    assert_eq!(roles(&cluster.probe()), [Follower, Leader, ReadOnly]);
    cluster.member(2).set_read_only(false);
    assert_eq!(roles(&cluster.probe()), [Follower, Leader, Follower]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_suspended_is_deposed_and_notices_afterwards() {
    let cluster = TestCluster::in_memory(3).await;
    let mut clients = clients(&cluster).await;
    cluster.member(2).hold();
    assert_eq!(cluster.leader(), Some(1));
    clients[2].send(create("/late", CreateMode::Persistent)).await;
    assert!(timeout(A_MOMENT, clients[2].frame()).await.is_err(), "a suspended member responds");
    clients[0].closed().await;
    let mut back = clients[0].reattach(cluster.member(0)).await.unwrap();
    back.create("/a", CreateMode::Persistent).await.unwrap();
    cluster.member(2).release();
    clients[2].closed().await;
    assert_eq!(roles(&cluster.probe()), [Follower, Leader, Follower]);
    assert_eq!(
        cluster.probe().member(2).paths(),
        ["/a"],
        "the requests that it had not read are lost"
    );
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_is_suspended_catches_up_with_its_clients() {
    let cluster = TestCluster::in_memory(3).await;
    let mut clients = clients(&cluster).await;
    cluster.member(0).hold();
    clients[1].create("/a", CreateMode::Persistent).await.unwrap();
    assert!(!cluster.probe().member(0).exists("/a"));
    cluster.member(0).release();
    assert!(clients[0].exists("/a", false).await.is_ok());
    assert_eq!(cluster.leader(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn when_all_are_suspended_time_stands_still() {
    let cluster = TestCluster::in_memory(3).await;
    let mut zk = RawClient::with_timeout(cluster.member(0), 1000).await;
    cluster.hold();
    zk.send(create("/a", CreateMode::Persistent)).await;
    assert!(timeout(Duration::from_secs(10), zk.frame()).await.is_err());
    cluster.release();
    assert_eq!(zk.reply().await, Some(Ok(Response::Path("/a".into()))));
    assert_eq!((cluster.leader(), cluster.probe().epoch()), (Some(2), 1));
}

#[tokio::test(start_paused = true)]
async fn a_member_made_leader_catches_up_and_leads() {
    let cluster = TestCluster::in_memory(3).await;
    let mut clients = clients(&cluster).await;
    let _lag = cluster.lag(0);
    clients[1].create("/a", CreateMode::Persistent).await.unwrap();
    assert_eq!(cluster.change_leader(), Some(1), "the leader is a member that does not lag");
    assert!(cluster.make_leader(0) && !cluster.make_leader(0));
    assert!(cluster.probe().member(0).exists("/a"));
    let mut back = clients[1].reattach(cluster.member(0)).await.unwrap();
    back.create("/b", CreateMode::Persistent).await.unwrap();
    assert!(cluster.make_leader(2));
    let mut back = clients[2].reattach(cluster.member(2)).await.unwrap();
    back.create("/c", CreateMode::Persistent).await.unwrap();
    assert!(!cluster.probe().member(0).exists("/c"), "it lags again");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_away_for_long_gets_a_copy_of_the_tree() {
    let cluster = TestCluster::in_memory(3).await;
    let mut zk = RawClient::new(cluster.member(1)).await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    cluster.kill(0).await;
    for version in 0..12_000 {
        zk.send(set_data("/a", b"again", version)).await;
        assert!(zk.reply().await.unwrap().is_ok());
    }
    cluster.restart(0).await.unwrap();
    let probe = cluster.probe();
    assert_eq!(probe.member(0).stat("/a"), probe.member(1).stat("/a"));
    assert_eq!(probe.members()[0].behind, 0);
    let mut there = RawClient::new(cluster.member(0)).await;
    there.set_data("/a", b"more").await.unwrap();
    assert_eq!(cluster.probe().member(2).stat("/a").unwrap().version, 12_001);
}

#[tokio::test(start_paused = true)]
async fn a_link_is_cut_for_one_host_either_way_or_both() {
    let cluster = TestCluster::in_memory(3).await;
    let (host, other) = (cluster.connector(), cluster.connector());
    let connect = |host: &zk_curator_testing::MemoryConnector| {
        let host = host.clone();
        async move {
            let stream = host.connect("zk1", 2181).await.unwrap();
            RawClient::open(stream, new_session()).await.unwrap()
        }
    };
    let (mut zk, mut unharmed) = (connect(&host).await, connect(&other).await);
    host.cut(0, Direction::ToClient);
    zk.send(create("/a", CreateMode::Persistent)).await;
    assert!(timeout(A_MOMENT, zk.frame()).await.is_err());
    assert!(unharmed.exists("/a", false).await.is_ok(), "the request arrived");
    host.mend(0);
    assert!(zk.reply().await.unwrap().is_ok());

    host.cut(0, Direction::ToServer);
    zk.send(create("/b", CreateMode::Persistent)).await;
    idle(A_MOMENT).await;
    assert_eq!(unharmed.exists("/b", false).await, Err(ErrorCode::NoNode));
    host.mend(0);
    assert!(zk.reply().await.unwrap().is_ok());

    host.cut(0, Direction::Both);
    assert!(timeout(A_MOMENT, connect(&host)).await.is_err(), "connecting hangs");
    assert!(cluster.disconnect(zk.id()));
    assert!(timeout(A_MOMENT, zk.frame()).await.is_err(), "the end does not arrive");
    host.mend(0);
    zk.closed().await;
}

#[tokio::test(start_paused = true)]
async fn the_journal_of_two_runs_is_the_same() {
    async fn run() -> (String, String) {
        let clock = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let settings = TestServer::builder().tcp(false).wall_clock(clock);
        let cluster = TestCluster::builder(3).settings(settings).start().await.unwrap();
        let mut zk = RawClient::new(cluster.member(0)).await;
        let rule = |request: &zk_curator_testing::RuleRequest<'_>| {
            if request.matches("/b*") {
                Verdict::Delay(Duration::from_millis(30))
            } else {
                Verdict::Pass
            }
        };
        let _rule = cluster.rule(rule);
        let lag = cluster.lag_by(1, Duration::from_millis(5));
        for n in 0..10 {
            zk.create(&format!("/b{n}"), CreateMode::Persistent).await.unwrap();
        }
        drop(lag);
        cluster.partition(&[&[2]]);
        zk.closed().await;
        cluster.kill(0).await;
        cluster.heal();
        cluster.restart(0).await.unwrap();
        cluster.change_leader();
        let mut zk = zk.reattach(cluster.member(0)).await.unwrap();
        zk.create("/c", CreateMode::Ephemeral).await.unwrap();
        cluster.expire(zk.id());
        let probe = cluster.probe().to_string();
        (cluster.journal().to_string(), probe.replace(&format!("{:#x}", zk.id()), "#"))
    }
    let (first, second) = (run().await, run().await);
    assert_eq!(first, second);
    assert_eq!(
        first.0.lines().filter(|line| line.contains("zk1: Delay(30ms)")).count(),
        10,
        "{}",
        first.0
    );
    for line in
        ["zk2: lags by 5ms", "zk2: lags no longer", "split into [[2]] and the rest", "zk1: stopped"]
    {
        assert!(first.0.contains(line), "{line} in\n{}", first.0);
    }
}

async fn ask(server: &TestServer, word: &str) -> String {
    let mut stream = server.connector().connect("", 0).await.unwrap();
    stream.write_all(word.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// As in Apache ZooKeeper, which makes a new server object for each role.
#[tokio::test(start_paused = true)]
async fn the_uptime_of_a_member_begins_with_its_role() {
    let cluster = TestCluster::in_memory(3).await;
    let uptime = async |member: usize| -> u64 {
        let answer = ask(cluster.member(member), "mntr").await;
        let line = answer.lines().find_map(|line| line.strip_prefix("zk_uptime\t"));
        line.and_then(|line| line.parse().ok()).unwrap()
    };
    cluster.advance(Duration::from_secs(60));
    assert!(uptime(0).await >= 60_000);
    cluster.restart(0).await.unwrap();
    assert!(uptime(0).await < 60_000);
    assert!(uptime(1).await >= 60_000);
    cluster.change_leader().unwrap();
    assert!(uptime(1).await < 60_000);
}

#[tokio::test(start_paused = true)]
async fn the_words_show_the_leader_and_the_members() {
    let cluster = TestCluster::in_memory(3).await;
    for (member, mode) in [(0, "follower"), (1, "follower"), (2, "leader")] {
        let server = cluster.member(member);
        for word in ["srvr", "stat"] {
            let answer = ask(server, word).await;
            assert!(answer.contains(&format!("\nMode: {mode}\n")), "{answer}");
        }
        assert!(ask(server, "mntr").await.contains(&format!("zk_server_state\t{mode}\n")));
        assert_eq!(ask(server, "isro").await, "rw");
        let conf = ask(server, "conf").await;
        assert!(conf.contains(&format!("serverId={}\n", member + 1)), "{conf}");
        assert!(conf.contains("server.2=zk2:2888:3888:participant;zk2:2181\n"), "{conf}");
    }
    assert!(ask(cluster.member(2), "mntr").await.contains("zk_synced_followers\t2\n"));
    let mut zk = RawClient::new(cluster.member(0)).await;
    let config = zk.get_data("/zookeeper/config", false).await.unwrap().unwrap();
    let lines: Vec<_> = std::str::from_utf8(&config).unwrap().lines().collect();
    assert_eq!(
        (lines.len(), lines[2], lines[3]),
        (4, "server.3=zk3:2888:3888:participant;zk3:2181", "version=0")
    );

    cluster.partition(&[&[0]]);
    let server = cluster.member(0);
    assert_eq!(ask(server, "ruok").await, "imok");
    assert_eq!(ask(server, "isro").await, "null");
    assert_eq!(
        ask(server, "srvr").await,
        "This ZooKeeper instance is not currently serving requests\n"
    );
}

#[tokio::test]
async fn members_listen_on_tcp_and_come_back_at_their_ports() {
    let cluster = TestCluster::start(3).await;
    let addresses: Vec<_> = cluster.members().iter().map(|server| server.addr().unwrap()).collect();
    assert_eq!(cluster.connect_string().split(',').count(), 3);
    let mut first = RawClient::over_tcp(&addresses[0].to_string()).await;
    first.create("/a", CreateMode::Persistent).await.unwrap();
    cluster.kill(2).await;
    cluster.restart(2).await.unwrap();
    assert_eq!(cluster.member(2).addr(), Some(addresses[2]));
    let mut third = RawClient::over_tcp(&addresses[2].to_string()).await;
    assert!(third.exists("/a", false).await.is_ok());
    let config = String::from_utf8(
        third.get_data("/zookeeper/config", false).await.unwrap().unwrap().to_vec(),
    );
    assert!(config.unwrap().contains(&format!(";{}\n", addresses[0])));
    // The port of a stopped member stays reserved.
    cluster.kill(1).await;
    assert_eq!(cluster.probe().members()[1].role, Stopped);
    if cfg!(target_os = "linux") {
        assert!(tokio::net::TcpListener::bind(addresses[1]).await.is_err());
    }
    cluster.restart(1).await.unwrap();
    let taken = TestCluster::builder(2).ports([0, addresses[0].port()]).start().await;
    assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}
