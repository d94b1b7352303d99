//! Sessions on Apache ZooKeeper: detached, resumed, used by two clients, given up, moved, and on
//! read-only servers.

use std::time::Duration;

use crate::common::{Network, create, history, id, is_connected, open, real_time, start, until};
use tokio::time::{Instant, timeout_at};
use zk_curator_client::{
    CreateMode, Error, ErrorCode, EventType, ExpiredBy, SessionState, ZooKeeper, ZooKeeperBuilder,
};
use zk_curator_real::{self as real, Chroot, RealEnsemble, RealZooKeeper};
use zk_curator_testing::wait::spend;

const TIMEOUT: Duration = Duration::from_secs(6);
const EXPIRED: Error = Error::SessionExpired { sent: false };

fn builder(server: &RealZooKeeper) -> ZooKeeperBuilder {
    ZooKeeper::builder(server.connect_string()).session_timeout(TIMEOUT)
}

/// A client of a server that other tests use, too.
fn in_chroot(chroot: &Chroot) -> ZooKeeperBuilder {
    ZooKeeper::builder(chroot.connect_string()).session_timeout(TIMEOUT)
}

async fn ephemeral(zk: &ZooKeeper, path: &str) {
    zk.create(path, b"", &open(), CreateMode::Ephemeral).await.expect("a node");
}

/// Returns the owner of an ephemeral node.
async fn owner(zk: &ZooKeeper, path: &str) -> Option<i64> {
    zk.sync("/").await.expect("a server");
    Some(zk.exists(path).await.expect("a server")?.ephemeral_owner)
}

async fn gone(zk: &ZooKeeper, path: &str) {
    if let (Some(_), watch) = zk.exists_watched(path).await.expect("a server") {
        assert_eq!(watch.await.expect("an event").event_type, EventType::NodeDeleted);
    }
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_session_is_left_and_taken_up_until_it_expires() {
    real_time(async {
        let name = "a_session_is_left_and_taken_up_until_it_expires";
        let Some(server) = real::chroot_or_skip(name).await else { return };
        let witness = start(in_chroot(&server)).await;
        let zk = start(in_chroot(&server)).await;
        let session = id(&zk);
        ephemeral(&zk, "/e").await;
        let before: Vec<_> = (0..100)
            .map(|n| zk.create(&format!("/e{n}"), b"", &open(), CreateMode::Ephemeral))
            .collect();
        let credentials = zk.detach().await.unwrap();
        for answer in before {
            answer.await.unwrap();
        }
        assert_eq!(zk.state(), SessionState::Detached);
        assert_eq!(credentials.id.get(), session);
        assert!(credentials.last_zxid > 0);

        let heir = start(in_chroot(&server).resume(credentials).session_timeout(TIMEOUT / 2)).await;
        assert_eq!(id(&heir), session);
        assert_eq!(heir.session().unwrap().timeout, TIMEOUT / 2);
        assert_eq!(heir.get_ephemerals("/").await.unwrap().len(), 101);
        let credentials = heir.detach().await.unwrap();

        // No client resumes it in time: the timeout that was requested last counts.
        let left = Instant::now();
        gone(&witness, "/e").await;
        let after = left.elapsed();
        assert!(after >= TIMEOUT / 3, "{after:?}");
        let late = in_chroot(&server).resume(credentials).connect().unwrap();
        let states = late.states();
        assert_eq!(late.exists("/e").await, Err(EXPIRED));
        assert_eq!(history(states).await.last(), Some(&SessionState::Expired(ExpiredBy::Server)));
        witness.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn two_clients_that_share_a_session_cause_no_storm() {
    real_time(async {
        let name = "two_clients_that_share_a_session_cause_no_storm";
        let Some(server) = real::chroot_or_skip(name).await else { return };
        let (networks, time) = ([Network::tcp(), Network::tcp()], Duration::from_secs(4));
        let builder = |network: &Network| {
            in_chroot(&server).session_timeout(TIMEOUT * 5).connector(network.connector())
        };
        let first = start(builder(&networks[0])).await;
        ephemeral(&first, "/e").await;
        let mut states = first.states();
        let second = start(builder(&networks[1]).resume(first.credentials().unwrap())).await;
        assert_eq!(id(&second), id(&first));
        until(&mut states, |state| state == SessionState::Disconnected).await;
        until(&mut states, is_connected).await;

        let end = Instant::now() + time;
        let ask = async |zk: &ZooKeeper| {
            // One of the clients may be kept out for a long time.
            while let Ok(answer) = timeout_at(end, zk.exists("/e")).await {
                match answer {
                    Ok(stat) => assert!(stat.is_some()),
                    Err(error) => assert_eq!(error, Error::ConnectionLoss { sent: true }),
                }
                spend(Duration::from_millis(5)).await;
            }
        };
        let before: u64 = networks.iter().map(Network::attempts).sum();
        tokio::join!(ask(&first), ask(&second));
        let attempts = networks.iter().map(Network::attempts).sum::<u64>() - before;
        assert!(attempts < 60, "{attempts} connections in {time:?}");

        // The client that closes the session ends it for both.
        networks[1].down();
        until(&mut first.states(), is_connected).await;
        first.close().await.unwrap();
        networks[1].up();
        let end = history(second.states()).await;
        assert_eq!(end.last(), Some(&SessionState::Expired(ExpiredBy::Server)));
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_returning_server_closes_the_session_our_clock_ended() {
    real_time(async {
        let name = "a_returning_server_closes_the_session_our_clock_ended";
        let Some(mut server) = real::or_skip(name).await else { return };
        let zk = start(builder(&server)).await;
        ephemeral(&zk, "/e").await;
        // No client closes this session.
        let left = start(builder(&server)).await;
        ephemeral(&left, "/left").await;
        left.detach().await.unwrap();
        let states = zk.states();
        server.kill().await.unwrap();
        let end = history(states).await;
        assert_eq!(end[1..], [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Clock)]);
        server.restart().await.unwrap();
        // By itself, the server would wait for the whole timeout again, as for the other session.
        let witness = start(builder(&server)).await;
        gone(&witness, "/e").await;
        assert!(owner(&witness, "/left").await.is_some(), "the server has waited for both");
        assert_eq!(zk.state(), SessionState::Expired(ExpiredBy::Clock));
        assert_eq!(create(&zk, "/a").await, Err(EXPIRED));
        witness.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn sessions_move_in_an_ensemble() {
    real_time(async {
        let name = "sessions_move_in_an_ensemble";
        // On a busy machine a member may be silent for longer than ten of the short ticks. Then the
        // other members would disconnect it, and it would disconnect its clients.
        let settings = RealEnsemble::builder(3)
            .tick_time(Duration::from_secs(1))
            .setting("localSessionsEnabled", true)
            .setting("localSessionsUpgradingEnabled", true);
        let Some(ensemble) = real::or_skip_ensemble_with(name, settings).await else { return };
        a_client_moves_with_its_session_from_an_unlisted_server(&ensemble).await;
        a_session_taken_over_at_another_member_is_lost_with_the_next_write(&ensemble).await;
    });
}

async fn a_client_moves_with_its_session_from_an_unlisted_server(ensemble: &RealEnsemble) {
    let list = |members: &[usize]| {
        members.iter().map(|n| ensemble.server(*n).connect_string()).collect::<Vec<_>>().join(",")
    };
    let zk = start(ZooKeeper::builder(list(&[0])).session_timeout(TIMEOUT)).await;
    let session = id(&zk);
    // The first ephemeral node makes the session known to the ensemble, and not only to this
    // member.
    ephemeral(&zk, "/e").await;
    let (_, watch) = zk.get_data_watched("/e").await.expect("a node");
    let mut states = zk.states();
    for members in [&[1, 2][..], &[0], &[1]] {
        zk.update_server_list(&list(members)).expect("a valid list");
        until(&mut states, |state| state == SessionState::Disconnected).await;
        until(&mut states, is_connected).await;
        assert_eq!(id(&zk), session);
        assert_eq!(owner(&zk, "/e").await, Some(session));
    }
    zk.set_data("/e", b"2", None).await.expect("a node");
    assert_eq!(watch.await.expect("an event").event_type, EventType::NodeDataChanged);
    zk.close().await.expect("a server");

    // A local session is known only to its member.
    let local = start(ZooKeeper::builder(list(&[0])).session_timeout(TIMEOUT)).await;
    let states = local.states();
    local.update_server_list(&list(&[1])).expect("a valid list");
    let end = history(states).await;
    assert_eq!(end.last(), Some(&SessionState::Expired(ExpiredBy::Server)), "{end:?}");
}

async fn a_session_taken_over_at_another_member_is_lost_with_the_next_write(
    ensemble: &RealEnsemble,
) {
    let networks = [Network::tcp(), Network::tcp()];
    // The leader knows which member has the session, and refuses reads too.
    let leader = ensemble.leader().await.expect("a leader");
    let followers: Vec<usize> =
        (0..ensemble.servers().len()).filter(|member| *member != leader).collect();
    let builder = |member: usize, network: &Network| {
        builder(ensemble.server(followers[member]))
            .session_timeout(TIMEOUT * 5)
            .connector(network.connector())
    };
    let first = start(builder(0, &networks[0])).await;
    ephemeral(&first, "/e").await;
    let credentials = first.credentials().expect("a session");
    let second = start(builder(1, &networks[1]).resume(credentials)).await;
    assert_eq!(id(&second), id(&first));
    second.set_data("/e", b"of the second", None).await.expect("a server");

    // The first member does not know it, and continues to respond to reads.
    let mut states = first.states();
    assert!(first.exists("/e").await.expect("a server").is_some());
    assert!(is_connected(first.state()));
    let refused =
        first.set_data("/e", b"of the first", None).await.expect_err("the session has moved");
    let moved = Error::Refused(ErrorCode::SessionMoved);
    assert!(refused == Error::ConnectionLoss { sent: true } || refused == moved, "{refused:?}");
    if refused != moved {
        until(&mut states, |state| state == SessionState::Disconnected).await;
        until(&mut states, is_connected).await;
    }
    assert_eq!(second.get_data("/e").await.expect("a server").data, "of the second");

    // Both write, so each resumes the session in turn.
    let time = Duration::from_secs(3);
    let end = Instant::now() + time;
    let write = async |zk: &ZooKeeper| {
        let mut done = 0;
        while let Ok(answer) = timeout_at(end, zk.set_data("/e", b"", None)).await {
            done += u32::from(answer.is_ok());
            spend(Duration::from_millis(5)).await;
        }
        done
    };
    let before: u64 = networks.iter().map(Network::attempts).sum();
    let done = tokio::join!(write(&first), write(&second));
    let attempts = networks.iter().map(Network::attempts).sum::<u64>() - before;
    assert!(attempts < 60, "{attempts} connections in {time:?}");
    assert!(done.0 + done.1 > 0);
    drop((first, second));
}
