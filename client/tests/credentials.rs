//! Credentials that a provider supplies for every connection.

#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{
    TIMEOUT, builder, history, id, is_connected, reconnect, simulated_with, start, until,
};
use async_trait::async_trait;
use tokio::time::{Instant, timeout};
use zk_curator_client::{
    Credentials, CredentialsProvider, Error, SessionState, ZooKeeper, ZooKeeperBuilder,
};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::settled;

type Script = dyn Fn(usize) -> Step + Send + Sync;

/// The action of the provider when it is called.
enum Step {
    Token(&'static str),
    /// Supplies a scheme that no server knows.
    Wrong,
    Fail,
    Hang,
}

/// Supplies the credentials of the step with this number, from zero.
struct Provider {
    asked: AtomicUsize,
    script: Box<Script>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").finish_non_exhaustive()
    }
}

impl Provider {
    fn new(script: impl Fn(usize) -> Step + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { asked: AtomicUsize::new(0), script: Box::new(script) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl CredentialsProvider for Provider {
    async fn credentials(&self) -> Result<Credentials, Box<dyn StdError + Send + Sync>> {
        match (self.script)(self.asked.fetch_add(1, Ordering::Relaxed)) {
            Step::Token(token) => Ok(Credentials::default().authorization("digest", token)),
            Step::Wrong => Ok(Credentials::default().authorization("unheard-of", "token")),
            Step::Fail => Err("the vault is sealed".into()),
            Step::Hang => std::future::pending().await,
        }
    }
}

fn with(server: &TestServer, provider: &Arc<Provider>) -> ZooKeeperBuilder {
    builder(server).credentials_provider(Arc::clone(provider) as Arc<dyn CredentialsProvider>)
}

/// Returns the users as which the connection of a client is authenticated.
async fn users(zk: &ZooKeeper) -> Vec<String> {
    let proven = zk.who_am_i().await.unwrap();
    proven.into_iter().filter(|info| info.scheme == "digest").map(|info| info.user).collect()
}

#[test]
fn a_rotated_token_is_used_by_the_next_connection() {
    simulated_with(async |server| {
        let provider = Provider::new(|n| Step::Token(["ann:1", "bob:2"][n]));
        let zk = start(with(&server, &provider)).await;
        zk.add_auth("digest", b"eve:3").await.unwrap();
        let (session, before) = (id(&zk), users(&zk).await);
        reconnect(&server, &zk).await;
        let after = users(&zk).await;
        let has = |users: &[String], name: &str| users.iter().any(|user| user.starts_with(name));
        assert!(has(&before, "ann") && has(&before, "eve") && !has(&before, "bob"), "{before:?}");
        assert!(has(&after, "bob") && has(&after, "eve") && !has(&after, "ann"), "{after:?}");
        assert_eq!((provider.asked(), id(&zk)), (2, session));
    });
}

#[test]
fn a_failure_of_the_provider_is_a_failed_connection() {
    simulated_with(async |server| {
        let provider = Provider::new(|n| if n < 3 { Step::Fail } else { Step::Token("ann:1") });
        let begun = Instant::now();
        let zk = start(with(&server, &provider)).await;
        // The usual pauses apply.
        assert!(begun.elapsed() >= Duration::from_millis(50), "{:?}", begun.elapsed());
        assert_eq!(provider.asked(), 4);
        let failure = zk.last_failure().expect("a failure").to_string();
        assert_eq!(failure, "memory:2181: the vault is sealed");
        // No session was requested without credentials.
        assert_eq!(server.probe().sessions().len(), 1);
    });
}

#[test]
fn a_provider_that_hangs_is_given_up_and_asked_again() {
    simulated_with(async |server| {
        let provider = Provider::new(|n| if n == 1 { Step::Hang } else { Step::Token("ann:1") });
        let zk = start(with(&server, &provider)).await;
        let session = id(&zk);
        let begun = Instant::now();
        reconnect(&server, &zk).await;
        // A third of the session timeout: this does not lose the session.
        assert!(
            begun.elapsed() >= TIMEOUT / 3 && begun.elapsed() < TIMEOUT / 2,
            "{:?}",
            begun.elapsed()
        );
        assert_eq!((provider.asked(), id(&zk)), (3, session));
        let failure = zk.last_failure().expect("a failure").to_string();
        assert!(failure.ends_with("the credentials provider did not respond in time"), "{failure}");
    });
}

#[test]
fn a_client_is_closed_while_its_provider_hangs() {
    simulated_with(async |server| {
        let provider = Provider::new(|_| Step::Hang);
        let zk = with(&server, &provider).connect().unwrap();
        settled().await;
        assert_eq!(provider.asked(), 1);
        let begun = Instant::now();
        assert_eq!(zk.close().await, Ok(()));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(zk.state(), SessionState::Closed);
    });
}

#[test]
fn a_replaced_token_does_not_end_the_session() {
    simulated_with(async |server| {
        let provider = Provider::new(|n| if n == 1 { Step::Wrong } else { Step::Token("ann:1") });
        let zk = start(with(&server, &provider)).await;
        let (session, mut states) = (id(&zk), zk.states());
        server.disconnect(session);
        until(&mut states, |state| state == SessionState::Disconnected).await;
        while provider.asked() < 3 {
            until(&mut states, is_connected).await;
            settled().await;
        }
        assert_eq!(users(&zk).await.len(), 1);
        assert_eq!(id(&zk), session);
    });
}

#[test]
fn credentials_that_stay_wrong_end_the_client() {
    simulated_with(async |server| {
        let provider = Provider::new(|_| Step::Wrong);
        let zk = with(&server, &provider).connect().unwrap();
        let states = timeout(Duration::from_secs(5), history(zk.states())).await.expect("an end");
        assert_eq!(states.last(), Some(&SessionState::AuthFailed));
        assert_eq!(provider.asked(), 2);
        assert_eq!(crate::common::create(&zk, "/a").await, Err(Error::AuthFailed { sent: false }));
    });
}
