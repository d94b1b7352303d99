//! The instances of a provider as changes, for the balancers of tower.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, Stream, unfold};
use tower::discover::Change;

use super::{Choice, ServiceProvider};
use crate::instance::ServiceInstance;
use crate::uri_spec::UriSpec;

impl<P: Send + Sync + 'static> ServiceProvider<P> {
    /// Returns a stream of the changes of the instances, for `tower::balance` and others that take
    /// a [`Discover`](tower::discover::Discover). `service` makes the service for an instance, such
    /// as a client for its address. It is called while the stream is polled, so it must not block:
    /// the service itself should connect, when it is first polled.
    ///
    /// The key of an instance is the name of its node.
    ///
    /// | the instance | change |
    /// |---|---|
    /// | is registered or resumed, or now passes the filter | `Insert` |
    /// | is unregistered or drained, or no longer passes the filter | `Remove` |
    /// | has a new address, port or URI template, or was registered again | `Insert` with the same key, which replaces the service |
    /// | has a new payload | none: the service stays |
    /// | may have changed, but there is no connection (**fail-static**) | none until the cache has caught up |
    ///
    /// A balancer drops a service whose `poll_ready` fails. The next registration of the instance
    /// brings it back; services that reconnect by themselves are never dropped. The balancer picks,
    /// so the provider's strategy, down policy and `max_staleness` have no effect.
    ///
    /// The stream keeps the cache alive, and ends when the framework is closed.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower::BoxError> {
    /// # let server = zk_curator_testing::TestServer::start().await;
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
    /// # zk.start().await?;
    /// # use zk_curator_discovery::{ServiceDiscovery, ServiceInstance};
    /// use tower::balance::p2c::Balance;
    /// use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
    /// use tower::{Service, ServiceExt, service_fn};
    ///
    /// # let discovery = ServiceDiscovery::<()>::new(&zk, "/services");
    /// # let orders = ServiceInstance::builder("orders").address("10.0.0.1").port(8040).build()?;
    /// # let _me = discovery.register(orders).await?;
    /// let provider = discovery.provider("orders").start();
    /// let services = provider.discover(|instance| {
    ///     let address = instance.address.clone();
    ///     service_fn(move |call: u32| {
    ///         let response = format!("{call} by {address:?}"); // a client of the address
    ///         async move { Ok::<_, std::io::Error>(response) }
    ///     })
    /// });
    /// let services = PendingRequestsDiscover::new(services, CompleteOnResponse::default());
    /// let mut orders = Balance::new(services);
    /// assert_eq!(orders.ready().await?.call(7).await?, "7 by Some(\"10.0.0.1\")");
    /// # Ok(()) }
    /// ```
    /// For a balanced channel of tonic, make an `Endpoint` for each instance, and forward the
    /// changes to the sender that `Channel::balance_channel` returns.
    pub fn discover<S: Send + 'static>(
        &self,
        service: impl FnMut(&ServiceInstance<P>) -> S + Send + 'static,
    ) -> InstanceChanges<S> {
        let follower = Follower {
            provider: self.clone(),
            service,
            version: None,
            inserted: BTreeMap::new(),
            ready: VecDeque::new(),
        };
        let changes =
            unfold(follower, async |mut follower| Some((follower.next().await?, follower)));
        InstanceChanges(changes.fuse().boxed())
    }
}

/// The properties of an instance that require a new service when they change.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    czxid: i64,
    address: Option<String>,
    ports: (Option<u16>, Option<u16>),
    uri_spec: Option<UriSpec>,
}

struct Follower<P, F, S> {
    provider: ServiceProvider<P>,
    service: F,
    /// The version of the cache up to which the changes are known.
    version: Option<u64>,
    inserted: BTreeMap<Arc<str>, Target>,
    ready: VecDeque<Change<Arc<str>, S>>,
}

impl<P: 'static, S, F: FnMut(&ServiceInstance<P>) -> S> Follower<P, F, S> {
    async fn next(&mut self) -> Option<Change<Arc<str>, S>> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Some(change);
            }
            let choice = self.provider.0.choice();
            if choice.version == self.version {
                let cache = self.provider.cache();
                if cache.has_ended() {
                    return None;
                }
                cache.changed_since(self.version.unwrap_or_default()).await;
            } else {
                self.compare(&choice);
                self.version = choice.version;
            }
        }
    }

    /// Queues the changes that lead to these instances.
    fn compare(&mut self, choice: &Choice<P>) {
        let mut gone = std::mem::take(&mut self.inserted);
        for candidate in &choice.pool {
            let ServiceInstance { address, port, ssl_port, uri_spec, .. } = &*candidate.instance;
            let target = Target {
                czxid: candidate.czxid,
                address: address.clone(),
                ports: (*port, *ssl_port),
                uri_spec: uri_spec.clone(),
            };
            let name = candidate.path.rsplit('/').next().unwrap_or_default();
            let (key, before) = gone
                .remove_entry(name)
                .map_or_else(|| (name.into(), None), |(key, before)| (key, Some(before)));
            if before.as_ref() != Some(&target) {
                let service = (self.service)(&candidate.instance);
                self.ready.push_back(Change::Insert(Arc::clone(&key), service));
            }
            self.inserted.insert(key, target);
        }
        self.ready.extend(gone.into_keys().map(Change::Remove));
    }
}

/// The changes of the instances of a provider, see [`ServiceProvider::discover`]: a
/// [`Discover`](tower::discover::Discover) with the name of the node as the key.
#[must_use = "nothing is followed until it is polled"]
pub struct InstanceChanges<S>(BoxStream<'static, Change<Arc<str>, S>>);

impl<S> Stream for InstanceChanges<S> {
    type Item = Result<Change<Arc<str>, S>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx).map(|change| change.map(Ok))
    }
}

impl<S> fmt::Debug for InstanceChanges<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceChanges").finish_non_exhaustive()
    }
}
