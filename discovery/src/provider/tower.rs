//! The instances of a provider as changes, for the balancers of tower.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, Stream, unfold};
use tower::Service;
use tower::discover::Change;

use super::{Candidate, CandidateSet, Picked, ProviderInner, ServiceProvider};
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
    /// | is unregistered or drained, no longer passes the filter, or is [down](super::DownInstancePolicy) | `Remove` |
    /// | is no longer down | `Insert` |
    /// | has a new address, port or URI template, or was registered again | `Insert` with the same key, which replaces the service |
    /// | has a new payload | none: the service stays |
    /// | may have changed, but there is no connection (**fail-static**) | none until the cache has caught up |
    ///
    /// A balancer drops a service whose `poll_ready` fails. The next registration of the instance
    /// brings it back; services that reconnect by themselves are never dropped. The balancer picks,
    /// so the provider's strategy and `max_staleness` have no effect. An instance is down only if
    /// its failed calls are reported: see [`discover_reported`](Self::discover_reported).
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
        mut service: impl FnMut(&ServiceInstance<P>) -> S + Send + 'static,
    ) -> InstanceChanges<S> {
        self.changes(move |candidate, _| service(&candidate.instance))
    }

    /// As [`discover`](Self::discover), with services that report to this provider how their calls
    /// end: a response as [`ok`](super::Picked::ok), an error of `poll_ready` or of a call as
    /// [`failed`](super::Picked::failed). Instances whose calls fail leave the balancer by the
    /// [policy](super::DownInstancePolicy) of the provider, and return when their time is over.
    ///
    /// A balancer drops a service whose `poll_ready` fails. If the instance is not down then, the
    /// next registration brings it back, or the end of a time in which it was down.
    pub fn discover_reported<S: Send + 'static>(
        &self,
        mut service: impl FnMut(&ServiceInstance<P>) -> S + Send + 'static,
    ) -> InstanceChanges<Reported<S, P>> {
        self.changes(move |candidate, provider| Reported {
            service: service(&candidate.instance),
            candidate: Arc::clone(candidate),
            provider: Arc::clone(provider),
        })
    }

    fn changes<S: Send + 'static>(
        &self,
        service: impl FnMut(&Arc<Candidate<P>>, &Arc<ProviderInner<P>>) -> S + Send + 'static,
    ) -> InstanceChanges<S> {
        let (provider, inserted, ready) = (Arc::clone(&self.0), BTreeMap::new(), VecDeque::new());
        let follower = DiscoverFollower { provider, service, inserted, ready };
        let changes =
            unfold(follower, async |mut follower| Some((follower.next().await?, follower)));
        InstanceChanges(changes.fuse().boxed())
    }
}

/// A service that reports to its provider how its calls end, see
/// [`ServiceProvider::discover_reported`].
pub struct Reported<S, P> {
    service: S,
    candidate: Arc<Candidate<P>>,
    provider: Arc<ProviderInner<P>>,
}

impl<S, P> Reported<S, P> {
    /// Returns the service.
    pub const fn get_ref(&self) -> &S {
        &self.service
    }

    fn begin(&self) -> Picked<P> {
        Picked::new(Arc::clone(&self.candidate), Arc::clone(&self.provider))
    }
}

impl<S, P, R> Service<R> for Reported<S, P>
where
    S: Service<R, Future: Send + 'static>,
    P: Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let polled = self.service.poll_ready(cx);
        if let Poll::Ready(Err(_)) = polled {
            self.begin().failed();
        }
        polled
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (call, picked) = (self.service.call(request), self.begin());
        Box::pin(async move {
            let response = call.await;
            match response {
                Ok(_) => picked.ok(),
                Err(_) => picked.failed(),
            }
            response
        })
    }
}

impl<S: fmt::Debug, P> fmt::Debug for Reported<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.candidate.path;
        f.debug_struct("Reported")
            .field("service", &self.service)
            .field("path", path)
            .finish_non_exhaustive()
    }
}

/// The properties of an instance that require a new service when they change.
#[derive(Debug, PartialEq, Eq)]
struct BalancedTarget {
    czxid: i64,
    address: Option<String>,
    ports: (Option<u16>, Option<u16>),
    uri_spec: Option<UriSpec>,
}

struct DiscoverFollower<P, F, S> {
    provider: Arc<ProviderInner<P>>,
    service: F,
    inserted: BTreeMap<Arc<str>, BalancedTarget>,
    ready: VecDeque<Change<Arc<str>, S>>,
}

impl<P, S, F: FnMut(&Arc<Candidate<P>>, &Arc<ProviderInner<P>>) -> S> DiscoverFollower<P, F, S> {
    /// Returns the next change; `None` when the cache has ended.
    async fn next(&mut self) -> Option<Change<Arc<str>, S>> {
        let Self { provider, service, inserted, ready } = self;
        if ready.is_empty() {
            let changed = provider.until("discover", |choice| {
                compare(choice, inserted, ready, |candidate| service(candidate, provider));
                (!ready.is_empty()).then_some(())
            });
            changed.await.ok()?;
        }
        ready.pop_front()
    }
}

/// Queues the changes that lead to the instances of a choice.
fn compare<P, S>(
    choice: &CandidateSet<P>,
    inserted: &mut BTreeMap<Arc<str>, BalancedTarget>,
    ready: &mut VecDeque<Change<Arc<str>, S>>,
    mut service: impl FnMut(&Arc<Candidate<P>>) -> S,
) {
    let mut gone = std::mem::take(inserted);
    for candidate in &choice.candidates {
        let ServiceInstance { address, port, ssl_port, uri_spec, .. } = &*candidate.instance;
        let target = BalancedTarget {
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
            ready.push_back(Change::Insert(Arc::clone(&key), service(candidate)));
        }
        inserted.insert(key, target);
    }
    ready.extend(gone.into_keys().map(Change::Remove));
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
