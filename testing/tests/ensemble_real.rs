//! The launcher of ensembles, against Apache ZooKeeper.

use std::net::TcpStream;
use std::path::PathBuf;

use zk_curator_real::{self as real, RealEnsemble, RealError, Session};

async fn mode(ensemble: &RealEnsemble, server: usize) -> String {
    let answer = ensemble.server(server).four_letter_word("srvr").await.expect("a response");
    answer.lines().find_map(|line| line.strip_prefix("Mode: ")).unwrap_or(&answer).to_owned()
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn three_servers_elect_a_leader_and_replace_a_killed_one() {
    let name = "three_servers_elect_a_leader_and_replace_a_killed_one";
    let Some(mut ensemble) = real::or_skip_ensemble(name, 3).await else { return };
    let leader = ensemble.leader().await.unwrap();
    for server in 0..3 {
        assert_eq!(
            mode(&ensemble, server).await,
            if server == leader { "leader" } else { "follower" }
        );
    }
    let addresses: Vec<_> =
        ensemble.servers().iter().map(|server| server.connect_string()).collect();
    assert_eq!(ensemble.connect_string(), addresses.join(","));
    let follower = (leader + 1) % 3;
    Session::open(ensemble.server(follower).addr(), 4000).create("/kept", b"v");

    ensemble.kill(leader).await.unwrap();
    let next = ensemble.leader().await.unwrap();
    assert_ne!(next, leader);
    ensemble.restart(leader).await.unwrap();
    assert_eq!(mode(&ensemble, leader).await, "follower");
    let mut session = Session::open(ensemble.server(leader).addr(), 4000);
    assert_eq!(session.get_data("/kept").as_deref(), Some(&b"v"[..]));

    // A suspended leader loses the leadership, and follows after the resume.
    ensemble.pause(next).await.unwrap();
    let third = ensemble.leader().await.unwrap();
    assert_ne!(third, next);
    ensemble.resume(next).await.unwrap();
    assert_eq!(ensemble.leader().await.unwrap(), third);
    ensemble.stop(third).await.unwrap();
    assert_ne!(ensemble.leader().await.unwrap(), third);
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn drop_leaves_neither_processes_nor_data() {
    let Some(mut ensemble) =
        real::or_skip_ensemble("drop_leaves_neither_processes_nor_data", 2).await
    else {
        return;
    };
    let mut data = Vec::new();
    for server in ensemble.servers() {
        let conf = server.four_letter_word("conf").await.unwrap();
        data.push(PathBuf::from(
            conf.lines().find_map(|line| line.strip_prefix("dataDir=")).unwrap(),
        ));
    }
    let addresses: Vec<_> = ensemble.servers().iter().map(|server| server.addr()).collect();
    // A suspended server can be stopped too, even by SIGTERM.
    ensemble.pause(0).await.unwrap();
    ensemble.stop(0).await.unwrap();
    ensemble.pause(1).await.unwrap();
    drop(ensemble);
    for (address, data) in addresses.into_iter().zip(data) {
        assert!(TcpStream::connect(address).is_err());
        assert!(!data.exists());
    }
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn settings_reach_every_server_and_a_minority_does_not_serve() {
    let builder = RealEnsemble::builder(3).setting("maxClientCnxns", 17);
    let name = "settings_reach_every_server_and_a_minority_does_not_serve";
    let Some(mut ensemble) = real::or_skip_ensemble_with(name, builder).await else { return };
    for server in ensemble.servers() {
        assert!(server.four_letter_word("conf").await.unwrap().contains("maxClientCnxns=17"));
    }
    ensemble.kill(0).await.unwrap();
    ensemble.kill(1).await.unwrap();
    // The server responds until it notices. During the change it may cut the connection.
    let serves_not = |answer: String| answer.contains("not currently serving");
    while !ensemble.server(2).four_letter_word("srvr").await.is_ok_and(serves_not) {
        tokio::task::yield_now().await;
    }
    ensemble.restart(0).await.unwrap();
    ensemble.leader().await.unwrap();
    ensemble.restart(1).await.unwrap();

    let broken = RealEnsemble::builder(2).setting("tickTime", "soon").start().await.unwrap_err();
    assert!(matches!(broken, RealError::Exited { .. }), "{broken}");
}
