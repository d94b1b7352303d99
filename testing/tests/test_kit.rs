//! The tools for tests of services: frameworks of a server, faults of one client, a real ensemble.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_testing::wait::idle;
use zk_curator_testing::{
    ErrorCode, HasSession, OpCode, SERVERS_VARIABLE, TestCluster, TestEnsemble, TestServer,
    Verdict, paused,
};

async fn started(builder: zk_curator::CuratorFrameworkBuilder) -> CuratorFramework {
    let zk = builder.build().expect("valid settings");
    zk.start().await.expect("a server");
    zk
}

#[test]
fn frameworks_of_a_server_in_memory_work_under_a_paused_clock() {
    paused(async {
        let server = TestServer::in_memory().await;
        let (one, two) = (started(server.framework()).await, started(server.framework()).await);
        one.create("/a").await.unwrap();
        assert!(two.exists("/a").await.unwrap().is_some());
        let began = Instant::now();
        idle(Duration::from_secs(24 * 3600)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(24 * 3600));
        assert!(two.state().is_connected());
    });
}

#[tokio::test]
async fn frameworks_of_a_server_on_tcp_use_its_port() {
    let server = TestServer::start().await;
    let zk = started(server.framework()).await;
    assert_eq!(zk.connect_string(), server.connect_string());
    zk.close().await.unwrap();
}

#[test]
fn frameworks_of_a_cluster_survive_its_leader() {
    paused(async {
        let cluster = TestCluster::start(3).await;
        let zk = started(cluster.framework()).await;
        zk.create("/a").await.unwrap();
        let leader = cluster.leader().unwrap();
        cluster.member(leader).stop().await;
        assert!(zk.exists("/a").await.unwrap().is_some());
    });
}

#[test]
fn what_has_a_session_can_be_expired_and_disconnected() {
    paused(async {
        let server = TestServer::in_memory().await;
        let zk = server.framework().build().unwrap();
        assert_eq!(zk.session_id(), None);
        assert!(!server.expire(&zk).await, "the framework has no session yet");
        assert!(!server.disconnect(&zk));
        zk.start().await.unwrap();
        let mut states = zk.states();
        let session = zk.session().unwrap().id;
        assert!(server.disconnect(&zk));
        states
            .until(|now| now.state == ConnectionState::Reconnected { same_session: true })
            .await
            .unwrap();
        assert!(server.disconnect(session));
        states.until(|now| now.state == ConnectionState::Suspended).await.unwrap();
        assert!(server.expire(&zk).await);
        states
            .until(|now| now.state == ConnectionState::Reconnected { same_session: false })
            .await
            .unwrap();
        assert!(!server.expire(session).await, "the session has ended");
        assert!(server.expire(zk.session().unwrap().id.get()).await);
    });
}

#[test]
fn rules_name_opcodes_errors_and_transactions() {
    paused(async {
        let server = TestServer::in_memory().await;
        let zk = started(server.framework()).await;
        let refused = server.rule(|request| match request.is_transaction() {
            true => Verdict::Refuse(ErrorCode::NoAuth),
            false => Verdict::Pass,
        });
        zk.create("/a").await.unwrap();
        let error = zk.transaction().set_data("/a", "1").commit().await.unwrap_err();
        assert_eq!((error.kind(), refused.hits()), (ErrorKind::NoAuth, 1));
        assert!(server.probe().requests(OpCode::Multi) > 0);
    });
}

#[tokio::test]
async fn without_the_variable_a_test_has_an_embedded_server() {
    assert!(std::env::var(SERVERS_VARIABLE).is_err(), "the tests of this project do not set it");
    let ensemble = TestServer::from_env().await;
    let zk = started(ensemble.framework()).await;
    zk.create("/a").await.unwrap();
    assert!(ensemble.embedded().unwrap().probe().exists("/a"));
    zk.close().await.unwrap();
    ensemble.remove().await.unwrap();
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn tests_on_a_real_ensemble_have_chroots_and_leave_nothing() {
    let name = "tests_on_a_real_ensemble_have_chroots_and_leave_nothing";
    let Some(server) = zk_curator_real::chroot_or_skip(name).await else { return };
    let case = async {
        let ensembles = [&server.connect_string(), &format!(" {}/ ", server.connect_string())];
        let ensembles = ensembles.map(|connect_string| TestEnsemble::real(connect_string));
        for ensemble in &ensembles {
            assert!(ensemble.embedded().is_none());
            let zk = started(ensemble.framework()).await;
            zk.create("/a/b").creating_parents().await.unwrap();
            zk.close().await.unwrap();
        }
        let all =
            started(CuratorFramework::builder().connect_string(server.connect_string())).await;
        let ours = async || {
            let children = all.children("/").await.unwrap();
            children.iter().filter(|name| name.starts_with("zk-curator-test-")).count()
        };
        assert_eq!(ours().await, 2);
        for ensemble in ensembles {
            ensemble.remove().await.unwrap();
        }
        assert_eq!(ours().await, 0);
        all.close().await.unwrap();
    };
    timeout(Duration::from_secs(120), case).await.unwrap();
}
