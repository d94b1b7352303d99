//! Sessions from one framework to the next, and from one session to the next: hand-over, certainty,
//! history, credentials.

use std::error::Error as StdError;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout};
use zk_curator::retry::RetryNTimes;
use zk_curator::{
    ConnectionState, CreateMode, Credentials, CredentialsProvider, CuratorFramework, ErrorKind,
    OwnedNode,
};
use zk_curator_client::{Connector, Transport};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{idle, past, settled, spend};
use zk_curator_testing::{Direction, TestCluster, TestServer, Verdict};
use zk_curator_tests::{
    SESSION_TIMEOUT, assert_matches, builder, builder_for, closes_clean, cluster_of_three,
    connected, expire, gated, poll_then_drop, session_id, simulated, simulated_on, simulated_steps,
    simulated_with, start, until, until_state,
};

async fn owned(zk: &CuratorFramework, path: &str) -> OwnedNode {
    zk.create(path).mode(CreateMode::Ephemeral).owned().await.unwrap()
}

async fn error_told(zk: &CuratorFramework, of: impl Future<Output = ()>) -> ErrorKind {
    let mut errors = zk.background_errors();
    of.await;
    timeout(Duration::from_secs(60), errors.next()).await.unwrap().unwrap().kind()
}

#[test]
fn a_session_is_transferred_with_its_ephemeral_nodes() {
    simulated_with(async |server, zk| {
        let session = session_id(&zk);
        zk.create("/plain").mode(CreateMode::Ephemeral).await.unwrap();
        let node = owned(&zk, "/guarded").await;
        // A node that was given up before is deleted before.
        drop(owned(&zk, "/given-up").await);
        assert_eq!(zk.session_credentials().unwrap().id, session);
        let credentials = zk.detach().await.unwrap();
        assert_eq!((credentials.id, credentials.last_zxid), (session, server.probe().zxid()));
        assert_eq!(zk.state(), ConnectionState::Closed);
        assert!(node.ownership().is_over());
        drop(node);
        assert_eq!(zk.detach().await.unwrap_err().kind(), ErrorKind::Closed);

        spend(SESSION_TIMEOUT / 2).await;
        let heir = start(builder(&server).resume(credentials)).await;
        assert_eq!((session_id(&heir), heir.state()), (session, ConnectionState::Connected));
        for path in ["/plain", "/guarded"] {
            assert_eq!(
                heir.exists(path).await.unwrap().unwrap().ephemeral_owner,
                session.get(),
                "{path}"
            );
        }
        assert_eq!(heir.exists("/given-up").await.unwrap(), None);
        // It is an ordinary session from now on.
        idle(SESSION_TIMEOUT * 3).await;
        assert_eq!(session_id(&heir), session);
        let mut states = heir.states();
        expire(&server, &heir).await;
        states
            .until(|status| status.state == ConnectionState::Reconnected { same_session: false })
            .await;
        assert_ne!(session_id(&heir), session);
        closes_clean(&server, &heir).await;
    });
}

#[test]
fn an_expired_session_is_not_resumed_and_is_reported() {
    simulated_with(async |server, zk| {
        let credentials = zk.detach().await.unwrap();
        assert!(server.expire(credentials.id.get()).await);
        let heir = builder(&server).resume(credentials.clone()).build().unwrap();
        let told = error_told(&heir, async { heir.start().await.unwrap() }).await;
        assert_eq!(told, ErrorKind::SessionExpired);
        assert_ne!(session_id(&heir), credentials.id);
    });
}

/// Cancelled at every step, it leaves the session nevertheless.
#[test]
fn a_dropped_detach_leaves_the_session_in_the_background() {
    simulated_steps(0, async |step, server, zk| {
        let credentials = zk.session_credentials().unwrap();
        zk.create("/e").mode(CreateMode::Ephemeral).await.unwrap();
        let done = poll_then_drop(zk.detach(), step).await.is_some();
        // It was polled.
        if step > 1 {
            zk.states().until(|status| status.state == ConnectionState::Closed).await;
        }
        until(&server, |probe| {
            step < 2 || !probe.sessions().iter().any(|session| session.connected)
        })
        .await;
        assert!(server.probe().exists("/e"), "step {step}");
        assert!(server.probe().session(credentials.id.get()).is_some(), "step {step}");
        done
    });
}

#[test]
fn a_second_user_moves_the_session_and_the_first_is_notified() {
    simulated_on(cluster_of_three, async |cluster| {
        let at = |member: usize| {
            builder_for(&format!("zk{}:2181", member + 1))
                .connector(Arc::new(cluster.connector()))
                .retry(RetryNTimes::new(0, Duration::ZERO))
                .seed(7)
        };
        let first = start(at(0)).await;
        let second = start(at(1).resume(first.session_credentials().unwrap())).await;
        assert_eq!(session_id(&second), session_id(&first));
        assert_eq!(first.state(), ConnectionState::Connected);
        // The server says so, or ends the connection.
        let refused = first.create("/a").await.unwrap_err().kind();
        assert_matches!(refused, ErrorKind::SessionMoved | ErrorKind::ConnectionLoss);
        assert!(!cluster.probe().latest().exists("/a"));
        until_state(&first, ConnectionState::Suspended).await;
    });
}

#[test]
fn a_framework_that_never_had_a_session_has_none_to_leave() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = builder(&server).build().unwrap();
        assert_eq!(zk.session_credentials(), None);
        assert_eq!(zk.detach().await.unwrap_err().kind(), ErrorKind::NotStarted);
        server.stop().await;
        zk.start().await.unwrap_err();
        assert_eq!(zk.detach().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(zk.state(), ConnectionState::Closed);
    });
}

#[test]
fn a_guard_sees_a_long_stop_before_the_framework_does() {
    simulated_on(TestServer::in_memory, async |server| {
        let (zk, gate) = gated(&server).await;
        let node = owned(&zk, "/e").await;
        let ownership = node.ownership().clone();
        let certain = ownership.valid_until().unwrap();
        assert!(certain > Instant::now() && certain <= Instant::now() + SESSION_TIMEOUT);
        gate.close();
        idle(SESSION_TIMEOUT / 2).await;
        assert!(!ownership.is_over());
        past(SESSION_TIMEOUT / 2).await;
        assert_eq!(zk.state(), ConnectionState::Connected);
        assert!(ownership.is_over());
        timeout(Duration::ZERO, ownership.lost()).await.expect("it is over");
        let fenced = ownership.fenced().delete("/other").await.unwrap_err();
        assert_eq!(fenced.kind(), ErrorKind::OwnershipLost);
        gate.open();
        until_state(&zk, ConnectionState::Lost).await;
        assert!(ownership.is_over() && ownership.valid_until().unwrap() <= Instant::now());
    });
}

#[test]
fn a_session_is_certain_for_its_timeout() {
    simulated_with(async |server, zk| {
        let bound = zk.bound_to_session().unwrap();
        let until = zk.session_valid_until().unwrap();
        assert!(until > Instant::now() && until <= Instant::now() + SESSION_TIMEOUT);
        assert_eq!(bound.session_valid_until(), Some(until));
        let mut states = zk.states();
        expire(&server, &zk).await;
        states
            .until(|status| status.state == ConnectionState::Reconnected { same_session: false })
            .await;
        assert_eq!(bound.session_valid_until(), None);
        assert!(zk.session_valid_until().unwrap() > Instant::now());
    });
}

/// A request that reached the server before the stop is read after it.
#[test]
fn a_guard_that_was_over_stays_over_though_its_session_lives() {
    simulated_on(TestServer::in_memory, async |server| {
        let (zk, gate) = gated(&server).await;
        let (node, session) = (owned(&zk, "/e").await, session_id(&zk));
        spend(SESSION_TIMEOUT / 4).await;
        server.hold();
        let read = tokio::spawn(zk.exists("/e").into_future());
        tokio::task::yield_now().await;
        settled().await;
        gate.close();
        server.release();
        past(SESSION_TIMEOUT * 9 / 10).await;
        assert!(node.ownership().is_over());
        gate.open();
        assert!(read.await.unwrap().unwrap().is_some());
        assert_eq!((session_id(&zk), zk.state().is_connected()), (session, true));
        assert!(node.ownership().valid_until().unwrap() > Instant::now());
        assert!(node.ownership().is_over());
        // So it is deleted, because the session lives on.
        drop(node);
        until(&server, |probe| !probe.exists("/e")).await;
    });
}

/// Leads to a server that can be replaced by another one.
#[derive(Debug, Clone)]
struct Switch(Arc<Mutex<Arc<dyn Connector>>>);

impl Switch {
    fn to(server: &TestServer) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(server.connector()))))
    }

    fn switch(&self, server: &TestServer) {
        *self.0.lock().unwrap() = Arc::new(server.connector());
    }
}

#[async_trait]
impl Connector for Switch {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let connector = Arc::clone(&self.0.lock().unwrap());
        connector.connect(host, port).await
    }
}

#[test]
fn after_a_restore_the_framework_gets_in_and_tells() {
    simulated(async {
        let (server, restored) = (TestServer::in_memory().await, TestServer::in_memory().await);
        let switch = Switch::to(&server);
        let zk = start(builder(&server).connector(Arc::new(switch.clone()))).await;
        for n in 0..10 {
            zk.create(format!("/{n}")).await.unwrap();
        }
        let mut followed = zk.watch_data("/9");
        assert!(followed.next().await.unwrap().is_some());
        let begun = Instant::now();
        let told = error_told(&zk, async {
            switch.switch(&restored);
            server.stop().await;
            until_state(&zk, ConnectionState::Lost).await;
            zk.wait_connected().await.unwrap();
        });
        assert_eq!(told.await, ErrorKind::HistoryLost);
        // One session timeout for the session, and one for its history.
        assert!(begun.elapsed() >= SESSION_TIMEOUT * 2, "{:?}", begun.elapsed());
        assert!(begun.elapsed() < SESSION_TIMEOUT * 3, "{:?}", begun.elapsed());
        assert_eq!(zk.exists("/1").await.unwrap(), None);
        // A followed read returns the state of a quorum, even if it is older.
        assert_eq!(followed.next().await.unwrap(), None);
        // The data of the restored servers is the history now.
        let mut errors = zk.background_errors();
        expire(&restored, &zk).await;
        until_state(&zk, ConnectionState::Lost).await;
        zk.wait_connected().await.unwrap();
        assert!(futures_util::poll!(Box::pin(errors.next())).is_pending());
    });
}

/// Sessions of a read-only server take no transaction, so this server may be behind the reads of an
/// earlier session.
#[test]
fn a_read_in_the_next_session_does_not_go_back() {
    simulated(async {
        let cluster = TestCluster::builder(3).tcp(false).read_only(true).start().await.unwrap();
        let host = cluster.connector();
        let zk = builder_for(&cluster.connect_string())
            .connector(Arc::new(host.clone()))
            .read_only(true);
        let zk = zk.seed(7).build().unwrap();
        (0..1).for_each(|member| host.cut(member, Direction::Both));
        zk.start().await.unwrap();
        zk.create("/a").await.unwrap();
        cluster.partition(&[&[0]]);
        let version = zk.set_data("/a", "new").await.unwrap().version;
        // The session ends while the client reaches only the server that has missed the write.
        (1..3).for_each(|member| host.cut(member, Direction::Both));
        until_state(&zk, ConnectionState::Lost).await;
        host.mend(0);
        let stale = timeout(SESSION_TIMEOUT / 2, zk.wait_connected()).await;
        assert!(stale.is_err(), "connected to a server that is behind");
        (1..3).for_each(|member| host.mend(member));
        zk.wait_connected().await.unwrap();
        let (_, stat) = zk.get_data("/a").with_stat().await.unwrap();
        assert_eq!(stat.version, version);
    });
}

/// Supplies the tokens in turn; fails where there is none.
#[derive(Debug)]
struct Tokens {
    tokens: Vec<Option<&'static str>>,
    asked: AtomicUsize,
}

#[async_trait]
impl CredentialsProvider for Tokens {
    async fn credentials(&self) -> Result<Credentials, Box<dyn StdError + Send + Sync>> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed).min(self.tokens.len() - 1);
        let token = self.tokens[asked].ok_or("the vault is sealed")?;
        let scheme = if token == "wrong" { "unheard-of" } else { "digest" };
        Ok(Credentials::default().authorization(scheme, token))
    }
}

fn with_tokens(server: &TestServer, tokens: &[Option<&'static str>]) -> CuratorFramework {
    let provider = Tokens { tokens: tokens.to_vec(), asked: AtomicUsize::new(0) };
    builder(server)
        .credentials_provider(Arc::new(provider))
        .authorization("digest", "static:1")
        .build()
        .unwrap()
}

fn identities(server: &TestServer, zk: &CuratorFramework) -> Vec<String> {
    let mut identities = server.probe().session(session_id(zk).get()).unwrap().identities.clone();
    identities.sort_unstable();
    identities
}

#[test]
fn the_provider_is_asked_for_every_connection_and_every_session() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = with_tokens(&server, &[None, Some("a:1"), Some("b:1"), Some("c:1")]);
        zk.start().await.unwrap();
        assert!(zk.last_failure().unwrap().to_string().ends_with("the vault is sealed"));
        assert_eq!(identities(&server, &zk), ["digest:a", "digest:static"]);
        server.disconnect(session_id(&zk).get());
        until_state(&zk, ConnectionState::Reconnected { same_session: true }).await;
        zk.sync("/").await.unwrap();
        assert_eq!(identities(&server, &zk), ["digest:b", "digest:static"]);
        expire(&server, &zk).await;
        zk.wait_connected().await.unwrap();
        zk.sync("/").await.unwrap();
        assert_eq!(identities(&server, &zk), ["digest:c", "digest:static"]);
    });
}

#[test]
fn a_provider_with_wrong_credentials_fails_the_start() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = with_tokens(&server, &[Some("wrong")]);
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::AuthFailed);
        let zk = with_tokens(&server, &[None]);
        let error = zk.start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
        assert!(error.to_string().contains("the vault is sealed"), "{error}");
    });
}

/// A server that never re-arms watches: the watch ends, and a task that waits for the node reads
/// again.
#[test]
fn a_server_that_never_rearms_watches_keeps_its_client() {
    simulated_with(async |server, zk| {
        let node = owned(&zk, "/e").await;
        let ownership = node.ownership().clone();
        let lost = tokio::spawn(async move { ownership.lost().await });
        until(&server, |probe| !probe.watches().is_empty()).await;
        let refused = server.rule(|request| {
            let code = zk_curator_proto::ErrorCode::Unimplemented;
            if request.is(OpCode::SetWatches) { Verdict::Refuse(code) } else { Verdict::Pass }
        });
        server.disconnect(session_id(&zk).get());
        until_state(&zk, ConnectionState::Suspended).await;
        past(SESSION_TIMEOUT * 6).await;
        // It read again, with a new watch, and the connection has stayed.
        assert_eq!((refused.hits(), zk.state().is_connected()), (4, true));
        assert!(!lost.is_finished());
        zk.delete("/e").await.unwrap();
        lost.await.unwrap();
        drop(node);
        connected(&server).await.close().await.unwrap();
    });
}
