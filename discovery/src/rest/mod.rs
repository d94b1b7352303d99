//! Curator's REST interface, for programs without a ZooKeeper client
//! (`curator-x-discovery-server`).
//!
//! | request | response |
//! |---|---|
//! | `GET v1/service` | 200: the names of the services, sorted: `[{"name":"orders"}]` |
//! | `GET v1/service/{name}` | 200: an array of the instances, the drained ones included |
//! | `GET v1/service/{name}/{id}` | 200: the instance; 404 |
//! | `PUT v1/service/{name}/{id}` | 201: a static or permanent instance is registered, or replaced |
//! | `DELETE v1/service/{name}/{id}` | 200: the instance is not registered, or no longer |
//! | `GET v1/anyservice/{name}` | 200: an enabled instance, chosen at random; 404 |
//!
//! The array leaves out nodes that are not readable instances, for example because their payload
//! has another type. The path `GET {name}/{id}`, which Curator has deprecated, does not exist.
//!
//! # Bodies
//! An instance has the fields of the [record](crate::json) in the form of Curator's server: a port
//! is left out instead of `null`, and the payload has no Java class. Unlike in Curator, `uriSpec`,
//! `enabled` and fields that this version does not know are included. A number in a payload is a
//! number, where Curator's `IntegerDiscoveryContext` writes text.
//!
//! ```json
//! {"name":"orders","id":"7","address":"10.0.0.1","port":8040,"registrationTimeUTC":1553592092875,
//!  "serviceType":"STATIC","payload":null,"uriSpec":null,"enabled":true}
//! ```
//! The body of a `PUT` needs only `serviceType`. Name and id default to those of the path, and the
//! time of the registration to now. If a `PUT` replaces an instance, the payload keeps its Java
//! class. Without `enabled` in the body, a drained instance stays drained, and a new one is
//! enabled.
//!
//! A body cannot choose the Java class of a payload, because consumers in Java would create an
//! object of it. So `@class` is accepted only if it is the class of the instance that is replaced.
//!
//! # Errors
//! `{"error":"record","reason":"…","byte":12}`. `byte` is the position of a fault in the body.
//!
//! | status | `error` | reason |
//! |---|---|---|
//! | 400 | `record` | the body is not an instance |
//! | 400 | `path` | the name or the id in the body differs from the path |
//! | 400 | `dynamic` | the instance is dynamic, which would need a session of its own |
//! | 400 | `name` | a name or an id is not the name of a node, also with [`paths`] of your own |
//! | 400 | `class` | the payload has a Java class other than that of the present instance |
//! | 404 | `missing` | there is no such instance |
//! | 409 | `registered` | a process has registered a dynamic instance with this id |
//! | 409 | `children` | the node to delete has children |
//! | 413 | `size` | the body is larger than [`MAX_BYTES`] |
//! | 415 | `media` | the body is not `application/json` |
//! | 500 | `node` | the node is not a readable instance |
//! | 500 | `zookeeper` | ZooKeeper refuses the operation, with `NoAuth` for example |
//! | 503 | `unavailable` | there is no connection, or too much contention; retry later |
//!
//! Clients see only the kind of an error of ZooKeeper. The log has the whole error.
//!
//! # Differences from Curator
//! | Curator | here |
//! |---|---|
//! | `DELETE` of an instance that another process has registered does nothing, and returns 200 | removes it, or fails |
//! | the cleanup removes only instances of its own process, by the clocks of two machines | removes all old instances, by the clock of the servers |
//! | `uriSpec` and `enabled` are lost, and a missing address is an error | every field is kept |
//! | `PUT` of an existing instance deletes and creates its node | writes to the node |
//! | `PUT` with the id of a dynamic instance replaces it | 409 |
//! | `PUT` ends the drain of an instance | keeps it, unless the body has `enabled` |
//!
//! # Guarantees
//! * A `PUT` that replaces an instance writes to its node, so the instance never disappears. It
//!   also renews the instance for [`Purge`].
//! * After a successful `DELETE` the instance is gone, even if another process has registered it.
//!   The process of a dynamic instance may register it again: see [`OnDeleted`](crate::OnDeleted).
//!
//! # Assumptions
//! **The service that mounts the router has to authorise requests.** Without a layer for that,
//! every client that reaches the router can register and remove instances:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use axum::extract::Request;
//! use axum::http::{Method, StatusCode, header};
//! use axum::middleware::{Next, from_fn};
//! use axum::response::{IntoResponse, Response};
//! use zk_curator_discovery::{ServiceDiscovery, rest};
//!
//! /// Everybody may read. Writers need a token.
//! async fn authorise(request: Request, next: Next) -> Response {
//!     let token = request.headers().get(header::AUTHORIZATION);
//!     // Of a secret of your own, compared in constant time.
//!     if request.method() == Method::GET || token.is_some_and(|token| token == "Bearer s3cret") {
//!         next.run(request).await
//!     } else {
//!         StatusCode::UNAUTHORIZED.into_response()
//!     }
//! }
//!
//! let discovery = ServiceDiscovery::<serde_json::Value>::new(&zk, "/services");
//! let router = rest::discovery_router(&discovery).layer(from_fn(authorise));
//! // axum::serve(listener, router).await?;
//!
//! # use axum::body::Body;
//! # use tower::ServiceExt;
//! # let put = |token: &str| {
//! #     let request = Request::put("/v1/service/orders/7").header("authorization", token);
//! #     request.body(Body::from(r#"{"serviceType":"STATIC"}"#)).unwrap()
//! # };
//! # assert_eq!(router.clone().oneshot(put("Bearer guess")).await?.status(), 401);
//! # assert_eq!(router.clone().oneshot(put("Bearer s3cret")).await?.status(), 201);
//! # let names = router.oneshot(Request::get("/v1/service").body(Body::empty())?).await?;
//! # assert_eq!(axum::body::to_bytes(names.into_body(), 99).await?, r#"[{"name":"orders"}]"#);
//! # Ok(()) }
//! ```
//! Run [`Purge`] to remove static instances that are no longer renewed.
//!
//! # Cancel safety
//! If a client disconnects, its request may or may not have been applied. Every request may be
//! repeated.
//!
//! [`paths`]: crate::ServiceDiscovery::paths

mod model;
mod problem;
mod purge;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use zk_curator::certain::is_receipt;
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, ErrorKind};

pub use self::purge::Purge;

use self::model::{InstanceView, JsonBody, Name};
use self::problem::{Problem, RestResult};
use crate::config::child;
use crate::discovery::ServiceDiscovery;
use crate::instance::{ServiceInstance, ServiceType, now};
use crate::json::{MAX_BYTES, WriteError, read, read_body};

/// The number of attempts of a write when other writers interfere.
const ROUNDS: usize = 20;

/// Returns the routes of the [interface](self), for a service that uses axum.
///
/// Payloads have the type `P` of the discovery. `serde_json::Value` accepts every payload.
pub fn discovery_router<P>(discovery: &ServiceDiscovery<P>) -> Router
where
    P: DeserializeOwned + Serialize + Send + Sync + 'static,
{
    Router::new()
        .route("/v1/service", get(names))
        .route("/v1/service/{name}", get(instances))
        .route("/v1/service/{name}/{id}", get(instance).put(put).delete(delete))
        .route("/v1/anyservice/{name}", get(any))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        .with_state(discovery.clone())
}

type Discovery<P> = State<ServiceDiscovery<P>>;
type Segments<T> = RestResult<Path<T>, PathRejection>;

async fn names<P: DeserializeOwned>(
    State(discovery): Discovery<P>,
) -> RestResult<JsonBody<Vec<Name>>> {
    let names = discovery.names().await?;
    Ok(JsonBody(names.into_iter().map(|name| Name { name }).collect()))
}

async fn instances<P: DeserializeOwned + Serialize>(
    State(discovery): Discovery<P>,
    name: Segments<String>,
) -> RestResult<JsonBody<Vec<InstanceView<P>>>> {
    let found = discovery.instances(&service(name)?).await?;
    Ok(JsonBody(found.instances.into_iter().map(InstanceView).collect()))
}

async fn any<P: DeserializeOwned + Serialize>(
    State(discovery): Discovery<P>,
    name: Segments<String>,
) -> RestResult<JsonBody<InstanceView<P>>> {
    let mut found = discovery.instances(&service(name)?).await?.instances;
    found.retain(|instance| instance.enabled);
    let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
    let picked = discovery.zk.random_u64().checked_rem(count).ok_or_else(Problem::missing)?;
    Ok(JsonBody(InstanceView(found.swap_remove(usize::try_from(picked).unwrap_or_default()))))
}

async fn instance<P: DeserializeOwned + Serialize>(
    State(discovery): Discovery<P>,
    segments: Segments<(String, String)>,
) -> RestResult<JsonBody<InstanceView<P>>> {
    let (name, id) = node(segments)?;
    let (instance, _) = discovery.instance(&name, &id).await?.ok_or_else(Problem::missing)?;
    Ok(JsonBody(InstanceView(instance.into())))
}

async fn delete<P>(
    State(discovery): Discovery<P>,
    segments: Segments<(String, String)>,
) -> RestResult<StatusCode> {
    let (name, id) = node(segments)?;
    let path = discovery.paths.instance("delete", &name, &id)?;
    // Without a read before it: a server that lags behind could miss the node.
    discovery.zk.delete(path.as_str()).quietly().await?;
    Ok(StatusCode::OK)
}

async fn put<P: DeserializeOwned + Serialize>(
    State(discovery): Discovery<P>,
    segments: Segments<(String, String)>,
    headers: HeaderMap,
    body: RestResult<Bytes, BytesRejection>,
) -> RestResult<StatusCode> {
    let (name, id) = node(segments)?;
    refuse_other_media(&headers)?;
    let (mut instance, has_enabled) = read_body::<P>(&body?, &name, &id)?;
    if instance.name != name || instance.id != id {
        return Err(Problem::path());
    }
    match &instance.service_type {
        ServiceType::Static | ServiceType::Permanent => {}
        ServiceType::Other(other) => return Err(WriteError::ServiceType(other.clone()).into()),
        ServiceType::Dynamic | ServiceType::DynamicSequential => return Err(Problem::dynamic()),
    }
    if instance.registration_time_utc == 0 {
        instance.registration_time_utc = now();
    }
    write(&discovery, instance, has_enabled).await
}

/// Creates the node of an instance, or writes the present node. What the client does not see or say
/// is that of the present instance: the Java class, and `enabled` unless `has_enabled`.
async fn write<P: Serialize>(
    discovery: &ServiceDiscovery<P>,
    mut instance: ServiceInstance<P>,
    has_enabled: bool,
) -> RestResult<StatusCode> {
    let path = discovery.paths.instance("put", &instance.name, &instance.id)?;
    let (zk, path) = (&discovery.zk, path.as_str());
    let class = instance.extra.tag.take().map(|tag| tag.class);
    for _ in 0..ROUNDS {
        let present = match zk.get_data(path).with_stat().await {
            Ok(present) => Some(present),
            Err(error) if error.kind() == ErrorKind::NoNode => None,
            Err(error) => return Err(error.into()),
        };
        let stored = present.as_ref().and_then(|(data, _)| read::<IgnoredAny>(data, "", "").ok());
        if !has_enabled {
            instance.enabled = stored.as_ref().is_none_or(|stored| stored.enabled);
        }
        instance.extra.tag = stored.and_then(|stored| stored.extra.tag);
        let kept = instance.extra.tag.as_ref().map(|tag| &tag.class);
        if class.is_some() && class.as_ref() != kept {
            return Err(Problem::class());
        }
        let record = discovery.format.write(&instance)?;
        let written = match present {
            Some((_, stat)) if stat.ephemeral_owner != 0 => return Err(Problem::registered()),
            Some((_, stat)) => {
                let write = zk.set_data(path, record).version(stat.version);
                write.idempotent().await.map(drop)
            }
            None => {
                let create = zk.create(path).mode(CreateMode::Persistent).data(record);
                create.creating_parents_as_containers().idempotent().await.map(drop)
            }
        };
        match written {
            Ok(()) => return Ok(StatusCode::CREATED),
            Err(error) if is_conflict(error.kind()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::contended())
}

/// Returns `true` if another client has written in between.
const fn is_conflict(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NoNode | ErrorKind::NodeExists | ErrorKind::BadVersion)
}

/// Returns the name of a service.
fn service(name: Segments<String>) -> RestResult<String> {
    let Path(name) = name?;
    refuse_other_names(&name)?;
    Ok(name)
}

/// Returns the name of a service and the id of an instance.
fn node(segments: Segments<(String, String)>) -> RestResult<(String, String)> {
    let Path((name, id)) = segments?;
    refuse_other_names(&name)?;
    refuse_other_names(&id)?;
    // The receipts of transactions are not instances.
    if is_receipt(&id) { Err(Problem::missing()) } else { Ok((name, id)) }
}

/// Refuses what is not the name of a node, also for paths of the caller's: with a slash in a name,
/// a client would reach nodes that do not belong to any service.
fn refuse_other_names(segment: &str) -> RestResult<()> {
    child("rest", &ZPath::root(), segment, "not the name of a node")?;
    Ok(())
}

fn refuse_other_media(headers: &HeaderMap) -> RestResult<()> {
    let Some(media) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let media = media.to_str().unwrap_or_default();
    let kind = media.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(Problem::media()) }
}
