//! The balancers of tower over the instances of a provider.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tower::balance::p2c::Balance;
use tower::discover::Change;
use tower::load::{CompleteOnResponse, Constant, PendingRequestsDiscover};
use tower::{BoxError, Service, ServiceExt};
use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_discovery::provider::InstanceChanges;
use zk_curator_discovery::{ServiceInstance, ServiceProvider, UriSpec};
use zk_curator_testing::wait::{idle, past};
use zk_curator_tests::{closes_clean, expire, simulated_on, until_state};

use crate::support::{
    discovery, registered, registered_again, simulated_with, state, two_in_memory,
};

/// Responds with the id and the port of the instance. Fails when it is polled, if its port is among
/// the broken ones.
struct Server {
    at: (String, u16),
    broken: Arc<Mutex<BTreeSet<u16>>>,
}

impl Service<()> for Server {
    type Response = (String, u16);
    type Error = BoxError;
    type Future = Ready<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let is_broken = self.broken.lock().unwrap().contains(&self.at.1);
        Poll::Ready(if is_broken { Err("connection refused".into()) } else { Ok(()) })
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(self.at.clone()))
    }
}

type Balanced = Balance<Loaded, ()>;
type Loaded = futures_util::stream::BoxStream<
    'static,
    Result<Change<Arc<str>, Constant<Server, usize>>, Infallible>,
>;

/// A balancer over servers of the same load.
fn balanced(provider: &ServiceProvider<u32>, broken: &Arc<Mutex<BTreeSet<u16>>>) -> Balanced {
    let broken = Arc::clone(broken);
    let servers = provider.discover(move |instance| {
        let at = (instance.id.clone(), instance.port.unwrap_or_default());
        Constant::new(Server { at, broken: Arc::clone(&broken) }, 1)
    });
    Balance::new(servers.boxed())
}

/// The servers that respond to calls.
async fn servers(balance: &mut Balanced) -> BTreeSet<(String, u16)> {
    let mut servers = BTreeSet::new();
    for _ in 0..300 {
        servers.insert(balance.ready().await.unwrap().call(()).await.unwrap());
    }
    servers
}

fn at<const N: usize>(servers: [(&str, u16); N]) -> BTreeSet<(String, u16)> {
    servers.map(|(id, port)| (id.to_owned(), port)).into()
}

#[test]
fn tower_balance_follows_the_cache() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut a = registered(&other, "a").await;
        let mut b = registered(&other, "b").await;
        let provider = discovery(&zk).provider("orders").filter(|i| i.payload < 5).start();
        let broken = Arc::default();
        let mut balance = balanced(&provider, &broken);
        assert_eq!(servers(&mut balance).await, at([("a", 8040), ("b", 8040)]));

        let follows = async |balance: &mut Balanced, expected| {
            provider.cache().synced().await.unwrap();
            assert_eq!(servers(balance).await, expected);
        };
        // Moved, drained, filtered out, and back.
        b.update(|b| b.port = Some(9000)).await.unwrap();
        follows(&mut balance, at([("a", 8040), ("b", 9000)])).await;
        a.drain().await.unwrap();
        follows(&mut balance, at([("b", 9000)])).await;
        a.resume().await.unwrap();
        b.update(|b| b.payload = 9).await.unwrap();
        follows(&mut balance, at([("a", 8040)])).await;
        b.update(|b| b.payload = 1).await.unwrap();
        follows(&mut balance, at([("a", 8040), ("b", 9000)])).await;

        // A server breaks: the balancer drops it, until it is registered again.
        broken.lock().unwrap().insert(9000);
        assert_eq!(servers(&mut balance).await, at([("a", 8040)]));
        broken.lock().unwrap().clear();
        b.update(|b| b.payload = 2).await.unwrap();
        follows(&mut balance, at([("a", 8040)])).await;
        registered_again(&server, &other, &b).await;
        a.registered().await.unwrap();
        follows(&mut balance, at([("a", 8040), ("b", 9000)])).await;

        a.unregister().await.unwrap();
        follows(&mut balance, at([("b", 9000)])).await;
        // Without instances, calls wait.
        b.unregister().await.unwrap();
        provider.cache().synced().await.unwrap();
        assert!(balance.ready().now_or_never().is_none());
        let _again = registered(&other, "a").await;
        assert_eq!(servers(&mut balance).await, at([("a", 8040)]));
    });
}

/// Fails every call of the killed instance.
struct Killable(String, Arc<AtomicUsize>);

impl Service<()> for Killable {
    type Response = ();
    type Error = BoxError;
    type Future = Ready<Result<(), BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        if self.0 != "b" {
            return ready(Ok(()));
        }
        self.1.fetch_add(1, Ordering::Relaxed);
        ready(Err("connection reset".into()))
    }
}

/// A process was killed, and its session lives for some time yet.
#[test]
fn instances_whose_calls_fail_leave_the_balancer_for_a_time() {
    simulated_with(async |_, zk| {
        let mut all = Vec::new();
        for id in ["a", "b", "c"] {
            all.push(registered(&zk, id).await);
        }
        let provider = provider(&zk).await;
        let failed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&failed);
        let services = provider
            .discover_reported(move |instance| Killable(instance.id.clone(), Arc::clone(&count)));
        let services = PendingRequestsDiscover::new(services, CompleteOnResponse::default());
        let mut balance = Balance::new(services);
        let mut call = async || {
            for _ in 0..300 {
                drop(balance.ready().await.unwrap().call(()).await);
            }
            failed.load(Ordering::Relaxed)
        };
        assert_eq!(call().await, 2);
        // It is tried again after half a minute.
        past(Duration::from_secs(31)).await;
        assert_eq!(call().await, 4);
        assert_eq!(provider.all().len(), 2);
    });
}

type Changes = InstanceChanges<(String, u16)>;

fn changes(provider: &ServiceProvider<u32>) -> (Changes, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let changes = provider.discover(move |instance: &ServiceInstance<u32>| {
        counted.fetch_add(1, Ordering::Relaxed);
        (instance.id.clone(), instance.port.unwrap_or_default())
    });
    (changes, made)
}

/// The changes that are there.
async fn pending(changes: &mut Changes) -> Vec<(String, Option<u16>)> {
    let mut all = Vec::new();
    while let Some(change) = changes.next().now_or_never() {
        all.push(match change.expect("it has ended").unwrap() {
            Change::Insert(key, (id, port)) => {
                assert_eq!(*key, *id);
                (id, Some(port))
            }
            Change::Remove(key) => (key.to_string(), None),
        });
    }
    all
}

async fn provider(zk: &CuratorFramework) -> ServiceProvider<u32> {
    let provider = discovery(zk).provider("orders").start();
    provider.cache().loaded().await.unwrap();
    provider
}

#[test]
fn an_update_of_the_payload_keeps_the_service() {
    simulated_with(async |_, zk| {
        let mut a = registered(&zk, "a").await;
        let provider = provider(&zk).await;
        let (mut changes, made) = changes(&provider);
        provider.wait_ready(1).await.unwrap();
        assert_eq!(pending(&mut changes).await, [("a".to_owned(), Some(8040))]);
        a.update(|a| a.payload = 3).await.unwrap();
        provider.cache().synced().await.unwrap();
        assert_eq!(pending(&mut changes).await, []);
        assert_eq!(made.load(Ordering::Relaxed), 1);
        for change in [
            |a: &mut ServiceInstance<u32>| a.address = Some("10.0.0.2".to_owned()),
            |a: &mut ServiceInstance<u32>| a.ssl_port = Some(443),
            |a: &mut ServiceInstance<u32>| a.uri_spec = UriSpec::parse("{address}").ok(),
        ] {
            a.update(change).await.unwrap();
            provider.cache().synced().await.unwrap();
            assert_eq!(pending(&mut changes).await, [("a".to_owned(), Some(8040))]);
        }
        assert_eq!(made.load(Ordering::Relaxed), 4);
    });
}

/// Fail-static: a lost connection, and the loss of the session of the consumer, change nothing.
#[test]
fn without_a_connection_the_services_stay() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let a = registered(&other, "a").await;
        let provider = provider(&zk).await;
        let mut changes = changes(&provider).0;
        provider.wait_ready(1).await.unwrap();
        assert_eq!(pending(&mut changes).await, [("a".to_owned(), Some(8040))]);
        server.partition();
        until_state(&zk, ConnectionState::Lost).await;
        idle(Duration::from_secs(600)).await;
        assert_eq!(pending(&mut changes).await, []);
        server.heal();
        state(&a, |state| {
            matches!(state, zk_curator_discovery::RegistrationState::Registered { .. })
        })
        .await;
        provider.cache().synced().await.unwrap();
        // The session of the instance was lost, too.
        let seen: BTreeMap<_, _> = pending(&mut changes).await.into_iter().collect();
        assert_eq!(seen, BTreeMap::from([("a".to_owned(), Some(8040))]));
        expire(&server, &zk).await;
        provider.cache().synced().await.unwrap();
        assert_eq!(pending(&mut changes).await, []);
    });
}

#[test]
fn the_changes_end_with_the_framework() {
    simulated_with(async |server, zk| {
        let provider = provider(&zk).await;
        let mut changes = changes(&provider).0;
        closes_clean(&server, &zk).await;
        assert!(changes.next().await.is_none());
        // Balancers poll it again.
        assert!(changes.next().await.is_none());
    });
}
