//! Sessions that are detached, resumed, moved, limited in time, or begun on a read-only server.

use std::time::Duration;

use bytes::Bytes;
use zk_curator_client::{
    ConnectStringError, CreateMode, Error, ErrorCode, EventType, ExpiredBy, SessionCredentials,
    SessionState, WatchEnded, ZooKeeper,
};
use zk_curator_testing::{FaultProxy, Flow};

use super::{Case, TIMEOUT, refused};
use crate::common::{create, history, id, is_connected, open, start, until};

const EXPIRED: SessionState = SessionState::Expired(ExpiredBy::Server);

async fn ephemeral(zk: &ZooKeeper, path: &str) {
    zk.create(path, b"", &open(), CreateMode::Ephemeral).await.unwrap();
}

/// Returns the session that owns a node, as the leader knows it.
async fn owner(zk: &ZooKeeper, path: &str) -> Option<i64> {
    zk.sync("/").await.unwrap();
    zk.exists(path).await.unwrap().map(|stat| stat.ephemeral_owner)
}

pub(crate) async fn a_resumed_session_has_its_nodes_and_not_its_watches(case: Case) {
    let zk = case.client().await;
    let session = id(&zk);
    ephemeral(&zk, "/e").await;
    let (_, watch) = zk.get_data_watched("/e").await.unwrap();
    let before: Vec<_> = (0..100)
        .map(|n| zk.create(&format!("/e{n}"), b"", &open(), CreateMode::Ephemeral))
        .collect();
    let credentials = zk.detach().await.unwrap();
    for answer in before {
        answer.await.unwrap();
    }
    assert_eq!(watch.await, Err(WatchEnded::Closed));
    assert_eq!(zk.state(), SessionState::Detached);
    assert_eq!(create(&zk, "/late").await, Err(Error::Closed { sent: false }));
    assert_eq!(credentials.id.get(), session);

    let heir = start(case.builder().resume(credentials)).await;
    assert_eq!(id(&heir), session);
    assert_eq!(heir.get_ephemerals("/").await.unwrap().len(), 101);
    heir.close().await.unwrap();
    assert_eq!(owner(&case.client().await, "/e").await, None);
}

pub(crate) async fn a_wrong_password_ends_the_client_and_not_the_session(case: Case) {
    let (zk, witness) = (case.client().await, case.client().await);
    let session = id(&zk);
    ephemeral(&zk, "/e").await;
    let credentials = zk.detach().await.unwrap();
    let password = Bytes::from_static(&[7; 16]);
    let forged = SessionCredentials::new(credentials.id, password, credentials.last_zxid);
    let thief = case.builder().resume(forged).connect().unwrap();
    let waiting = create(&thief, "/stolen");
    assert_eq!(waiting.await, Err(Error::SessionExpired { sent: false }));
    assert_eq!(thief.state(), EXPIRED);
    assert_eq!(owner(&witness, "/e").await, Some(session));
    assert_eq!(witness.exists("/stolen").await, Ok(None));
    let heir = start(case.builder().resume(credentials)).await;
    assert_eq!(heir.get_ephemerals("/").await.unwrap(), ["/e"]);
    heir.close().await.unwrap();
}

pub(crate) async fn a_session_that_has_expired_is_not_taken_up(case: Case) {
    let witness = case.client().await;
    let zk = start(case.builder().session_timeout(Duration::from_secs(2))).await;
    ephemeral(&zk, "/e").await;
    witness.sync("/").await.unwrap();
    let (_, gone) = witness.exists_watched("/e").await.unwrap();
    let credentials = zk.detach().await.unwrap();
    assert_eq!(gone.await.unwrap().event_type, EventType::NodeDeleted);
    let late = case.builder().resume(credentials).connect().unwrap();
    let states = late.states();
    assert_eq!(late.exists("/e").await, Err(Error::SessionExpired { sent: false }));
    let states = history(states).await;
    // The first state may be over before the stream begins.
    assert_eq!(states.last(), Some(&EXPIRED));
    assert!(!states.iter().copied().any(is_connected), "{states:?}");
}

pub(crate) async fn a_session_moves_to_the_servers_that_are_listed_now(case: Case) {
    let (here, there) = (case.relay().await, case.relay().await);
    let other = case.client().await;
    let zk = start(case.through(&here)).await;
    let session = id(&zk);
    ephemeral(&zk, "/e").await;
    let (_, watch) = zk.get_data_watched("/e").await.unwrap();
    let elsewhere = format!("{}/other", there.connect_string());
    assert_eq!(zk.update_server_list(&elsewhere), Err(ConnectStringError::OtherChroot));

    let mut states = zk.states();
    until(&mut states, is_connected).await;
    zk.update_server_list(&format!("{}{}", there.connect_string(), case.chroot)).unwrap();
    let abandoned = here.counts().connections;
    for _ in 0..3 {
        until(&mut states, |state| state == SessionState::Disconnected).await;
        until(&mut states, is_connected).await;
        // A response shows that the server works, so the next connection is not delayed.
        assert_eq!(owner(&zk, "/e").await, Some(session));
        there.cut();
    }
    other.sync("/").await.unwrap();
    other.set_data("/e", b"2", None).await.unwrap();
    assert_eq!(watch.await.unwrap().event_type, EventType::NodeDataChanged);
    assert_eq!((id(&zk), here.counts().connections), (session, abandoned));
    zk.close().await.unwrap();
}

pub(crate) async fn deadlines_tell_whether_a_request_was_sent(case: Case) {
    let (zk, relay) = case.relayed().await;
    let hasty = zk.with_deadline(Duration::from_secs(1));
    let mut states = zk.states();
    relay.replies(Flow::Lost);
    assert_eq!(create(&hasty, "/sent").await, Err(Error::DeadlineExceeded { sent: true }));
    relay.down();
    until(&mut states, |state| state == SessionState::Disconnected).await;
    relay.replies(Flow::Open);
    assert_eq!(create(&hasty, "/unsent").await, Err(Error::DeadlineExceeded { sent: false }));
    relay.up();
    zk.sync("/").await.unwrap();
    assert_eq!(zk.get_children("/").await.unwrap().names, ["sent"]);
    zk.close().await.unwrap();
}

pub(crate) async fn a_client_that_reaches_no_server_in_time_ends(case: Case) {
    let relay = case.relay().await;
    relay.requests(Flow::Stalled);
    let zk = case.through(&relay).connect_deadline(Duration::from_millis(700)).connect().unwrap();
    let (states, waiting) = (zk.states(), zk.exists("/"));
    assert_eq!(zk.connected().await, Err(Error::NotConnected));
    assert_eq!(history(states).await, [SessionState::Connecting, SessionState::Unreachable]);
    assert_eq!(waiting.await, Err(Error::NotConnected));
}

pub(crate) async fn a_session_that_has_moved_is_written_by_its_last_client(case: Case) {
    let addresses = &case.target.addresses;
    let relay = FaultProxy::start(&addresses[..1]).await.unwrap();
    let other_relay = FaultProxy::start(&addresses[addresses.len() - 1..]).await.unwrap();
    let first = start(case.through(&relay)).await;
    ephemeral(&first, "/e").await;
    // Its request is in flight when another client resumes the session, at another member if there
    // is one.
    relay.requests(Flow::Stalled);
    relay.replies(Flow::Stalled);
    let sent = relay.counts().received + 1;
    let late = first.set_data("/e", b"of the first", None);
    // Otherwise it would be sent after the move, when the first client has resumed the session
    // again.
    relay.received(sent).await;
    let credentials = first.credentials().unwrap();
    let second = start(case.through(&other_relay).resume(credentials)).await;
    assert_eq!(id(&second), id(&first));
    second.set_data("/e", b"of the second", None).await.unwrap();

    relay.requests(Flow::Open);
    relay.replies(Flow::Open);
    let error = late.await.unwrap_err();
    let moved = Error::Refused(ErrorCode::SessionMoved);
    assert!(error == Error::ConnectionLoss { sent: true } || error == moved, "{error:?}");
    let witness = case.client().await;
    witness.sync("/").await.unwrap();
    assert_eq!(witness.get_data("/e").await.unwrap().data, "of the second");

    // The client that closes the session ends it for both; the other client cannot resume it first.
    other_relay.down();
    first.close().await.unwrap();
    other_relay.up();
    assert_eq!(history(second.states()).await.last(), Some(&EXPIRED));
    assert_eq!(owner(&witness, "/e").await, None);
}

pub(crate) async fn clients_that_allow_read_only_servers_are_served_as_usual(case: Case) {
    let relay = case.relay().await;
    let zk = start(case.through(&relay).read_only(true)).await;
    let session = id(&zk);
    assert!(is_connected(zk.state()));
    ephemeral(&zk, "/e").await;
    super::away(&zk, &relay, async {}).await;
    zk.set_data("/e", b"2", None).await.unwrap();
    assert_eq!(owner(&zk, "/e").await, Some(session));
    zk.close().await.unwrap();
}

pub(crate) async fn read_only_servers_serve_reads_until_one_is_writable(case: Case) {
    if !case.target.has_read_only {
        return;
    }
    let writer = case.client().await;
    create(&writer, "/a").await.unwrap();
    writer.close().await.unwrap();
    let lonely = async {
        let zk = case.builder().read_only(true).connect().unwrap();
        let strict = case.builder().connect().unwrap();
        let session = zk.connected().await.unwrap();
        assert_eq!(zk.state(), SessionState::ConnectedReadOnly(session));
        assert_eq!(zk.get_data("/a").await.unwrap().data, "data");
        assert_eq!(refused(create(&zk, "/b").await), ErrorCode::NotReadOnly);
        let (_, watch) = zk.get_data_watched("/a").await.unwrap();
        assert_eq!(zk.state(), SessionState::ConnectedReadOnly(session));
        assert_eq!(
            strict.state(),
            SessionState::Connecting,
            "it did not ask for a read-only server"
        );
        (zk.states(), zk, strict, session, watch)
    };
    let (mut states, zk, strict, session, watch) = case.target.read_only(lonely).await;
    until(&mut states, is_connected).await;
    assert_ne!(id(&zk), session.id.get(), "only the read-only server knew that session");
    zk.set_data("/a", b"2", None).await.unwrap();
    assert_eq!(watch.await.unwrap().event_type, EventType::NodeDataChanged);
    strict.connected().await.unwrap();
    for zk in [zk, strict] {
        zk.close().await.unwrap();
    }
}
