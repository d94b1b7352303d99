//! Connections that are cut, silent or never opened, and the end of the session.

use std::time::Duration;

use tokio::time::Instant;
use zk_curator_client::{
    Acl, CreateMode, DisconnectedPolicy, Error, ErrorCode, ExpiredBy, SessionState, WatchEnded,
    ZooKeeper,
};
use zk_curator_testing::{FaultProxy, Flow};

use super::{Case, away, refused};
use crate::common::{NOWHERE, create, history, id, is_connected, open, start, until};

pub(crate) async fn identities_survive_cuts(case: Case) {
    let ((zk, relay), other) = (case.relayed().await, case.client().await);
    zk.add_auth("digest", b"alice:secret").await.unwrap();
    zk.create("/mine", b"", &Acl::creator_all(), CreateMode::Persistent).await.unwrap();
    // The watch is granted only to clients that may read, so identities come first.
    let (_, watch) = zk.get_data_watched("/mine").await.unwrap();
    for round in 0..4 {
        away(&zk, &relay, async {}).await;
        assert_eq!(zk.get_data("/mine").await.unwrap().data, "");
        if round == 1 {
            zk.add_auth("digest", b"bob:secret").await.unwrap();
        }
        if let Some(identities) = case.identities(&zk).await {
            let users = identities.iter().filter(|identity| identity.scheme == "digest").count();
            assert_eq!(users, if round == 0 { 1 } else { 2 });
        }
    }
    other.sync("/").await.unwrap();
    assert_eq!(refused(other.get_data("/mine").await), ErrorCode::NoAuth);
    zk.set_data("/mine", b"2", None).await.unwrap();
    watch.await.unwrap();
}

pub(crate) async fn a_burst_of_forty_transitions_is_seen_whole(case: Case) {
    let relay = case.relay().await;
    let zk = case.through(&relay).connect().unwrap();
    let all = zk.states();
    let info = zk.connected().await.unwrap();
    let mut states = zk.states();
    until(&mut states, is_connected).await;
    for _ in 0..20 {
        relay.cut();
        until(&mut states, |state| state == SessionState::Disconnected).await;
        until(&mut states, is_connected).await;
        // The client treats a server that never responds as bad, and pauses longer every time.
        zk.exists("/").await.unwrap();
    }
    zk.close().await.unwrap();
    let mut expected = vec![SessionState::Connecting, SessionState::Connected(info)];
    for _ in 0..20 {
        expected.extend([SessionState::Disconnected, SessionState::Connected(info)]);
    }
    expected.push(SessionState::Closed);
    assert_eq!(history(all).await, expected);
}

pub(crate) async fn requests_without_a_connection_follow_the_policy(case: Case) {
    let (relay, patience) = (case.relay().await, Duration::from_millis(600));
    let policy = |policy| start(case.through(&relay).disconnected(policy));
    let fast = policy(DisconnectedPolicy::FailFast).await;
    let patient = policy(DisconnectedPolicy::Wait(patience)).await;
    let sure = policy(DisconnectedPolicy::Wait(Duration::from_secs(60))).await;
    let clients = [&fast, &patient, &sure];
    let mut states = clients.map(ZooKeeper::states);
    relay.down();
    for states in &mut states {
        until(states, |state| state == SessionState::Disconnected).await;
    }
    let started = Instant::now();
    let kept = create(&sure, "/kept");
    let lost = [create(&fast, "/fast").await, create(&patient, "/patient").await];
    assert!(started.elapsed() >= patience, "{:?}", started.elapsed());
    for error in lost {
        assert_eq!(error, Err(Error::NotConnected));
        assert!(!Error::NotConnected.may_have_applied());
    }
    let up = async { relay.up() };
    let (kept, ()) = tokio::join!(kept, up);
    assert_eq!(kept.as_deref(), Ok("/kept"));
    assert_eq!(sure.get_children("/").await.unwrap().names, ["kept"]);
}

pub(crate) async fn a_silent_network_is_connection_loss_in_time(case: Case) {
    let (relay, session_timeout) = (case.relay().await, Duration::from_secs(6));
    let zk = start(case.through(&relay).session_timeout(session_timeout)).await;
    let session = id(&zk);
    for (requests, replies, applied) in
        [(Flow::Stalled, Flow::Stalled, false), (Flow::Open, Flow::Lost, true)]
    {
        let path = if applied { "/applied" } else { "/lost" };
        zk.sync("/").await.unwrap();
        relay.requests(requests);
        relay.replies(replies);
        let error = create(&zk, path).await.unwrap_err();
        assert_eq!(error, Error::ConnectionLoss { sent: true });
        assert!(error.may_have_applied());
        // Data held in the relay must not arrive.
        relay.down();
        relay.requests(Flow::Open);
        relay.replies(Flow::Open);
        relay.up();
        zk.sync("/").await.unwrap();
        assert_eq!(zk.exists(path).await.unwrap().is_some(), applied);
    }
    assert_eq!(id(&zk), session);
}

pub(crate) async fn an_address_without_a_server_fails_in_time(case: Case) {
    let patience = Duration::from_millis(500);
    let builder = ZooKeeper::builder(NOWHERE[0]).disconnected(DisconnectedPolicy::Wait(patience));
    let zk = builder.connect().unwrap();
    let started = Instant::now();
    assert_eq!(create(&zk, "/a").await, Err(Error::NotConnected));
    assert!(started.elapsed() >= patience, "{:?}", started.elapsed());
    assert_eq!(zk.state(), SessionState::Connecting);
    assert!(zk.last_failure().is_some());
    zk.close().await.unwrap();

    // Next to servers that respond, it costs little.
    let hosts = case.target.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    for _ in 0..4 {
        let builder = ZooKeeper::builder(format!("{},{hosts},{}", NOWHERE[0], NOWHERE[1]));
        let zk = start(builder).await;
        zk.close().await.unwrap();
    }
}

pub(crate) async fn an_outage_costs_few_attempts_and_the_session_times_out(case: Case) {
    let (relay, session_timeout) = (case.relay().await, Duration::from_secs(4));
    let zk = start(case.through(&relay).session_timeout(session_timeout)).await;
    let (_, watch) = zk.exists_watched("/a").await.unwrap();
    let states = zk.states();
    let before = Instant::now();
    zk.sync("/").await.unwrap();
    let attempts = relay.counts().connections;
    relay.down();
    let states = history(states).await;
    let expired = SessionState::Expired(ExpiredBy::Clock);
    assert_eq!(states[1..], [SessionState::Disconnected, expired]);
    assert!(before.elapsed() >= session_timeout, "{:?}", before.elapsed());
    let attempts = relay.counts().connections - attempts;
    assert!(attempts <= 10 * case.target.addresses.len() as u64, "{attempts} attempts");
    assert_eq!(watch.await, Err(WatchEnded::SessionLost));
    assert_eq!(create(&zk, "/a").await, Err(Error::SessionExpired { sent: false }));
    relay.up();
    assert_eq!(zk.state(), expired);
}

pub(crate) async fn a_session_that_the_server_ended_is_expired(case: Case) {
    let ((zk, relay), other) = (case.relayed().await, case.client().await);
    zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
    let (_, gone) = other.exists_watched("/e").await.unwrap();
    let (_, watch) = zk.exists_watched("/none").await.unwrap();
    let (states, mut lost) = (zk.states(), zk.states());
    relay.down();
    // Otherwise it could still be sent.
    until(&mut lost, |state| state == SessionState::Disconnected).await;
    end_session(&case, &relay).await;
    gone.await.unwrap();
    let waiting = create(&zk, "/never");
    relay.up();
    assert_eq!(waiting.await, Err(Error::SessionExpired { sent: false }));
    let states = history(states).await;
    assert_eq!(states[1..], [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Server)]);
    assert_eq!(watch.await, Err(WatchEnded::SessionLost));
    other.sync("/").await.unwrap();
    assert_eq!(other.exists("/never").await.unwrap(), None);
}

/// Resumes the session, which requires its password, and closes it.
async fn end_session(case: &Case, relay: &FaultProxy) {
    let session = relay.session().expect("a session");
    start(case.builder().resume(session)).await.close().await.unwrap();
}
