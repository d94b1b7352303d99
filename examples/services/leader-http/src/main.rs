//! An HTTP service of several processes, one of which leads. It also responds without ZooKeeper,
//! and leaves the election before it ends.
//!
//! | request | response |
//! |---|---|
//! | `GET /live` | 200 as long as the process responds |
//! | `GET /ready` | 200 if the process should get requests, otherwise 503, with the health of the connection |
//! | `GET /leader` | `true` if this process leads |
//! | `GET /metrics` | the metrics of this process, for Prometheus |
//! | `POST /orders/{id}` | 201 if the order is stored. 409 if there is another order with this id. 503 with `Retry-After` in an outage: the client repeats the request with the same id |

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::interval;
use zk_curator_recipes::leader::{Candidate, LeaderLatch};
use zk_curator_recipes::zk_curator::{self, ConnectionHealth, CuratorFramework, ErrorKind};
use zk_curator_recipes::{Shutdown, observe};

zk_curator::path_template!(OrderPath = "/orders/{id}": id: &str);

/// The time that a request may wait for ZooKeeper. By default, an operation waits for 15 s until
/// there is a server.
const DEADLINE: Duration = Duration::from_secs(2);
/// The time in seconds after which clients should repeat a request that was refused in an outage.
const RETRY_AFTER: &str = "2";

struct Service {
    zk: CuratorFramework,
    candidate: Candidate,
    /// `true` as soon as the nodes exist that requests need.
    is_prepared: AtomicBool,
    shutdown: Shutdown,
}

impl Service {
    /// Creates the nodes that requests need, as soon as there is a server.
    async fn prepare(&self) -> Result<(), zk_curator::Error> {
        let create = || self.zk.create("/orders").idempotent().into_future();
        self.zk.through_outages(create).await?;
        self.is_prepared.store(true, Ordering::Release);
        Ok(())
    }

    fn is_ready(&self, health: &ConnectionHealth) -> bool {
        health.is_ready() && self.is_prepared.load(Ordering::Acquire) && !self.shutdown.has_begun()
    }
}

async fn ready(State(service): State<Arc<Service>>) -> (StatusCode, Json<ConnectionHealth>) {
    let health = service.zk.connection_health();
    let status =
        if service.is_ready(&health) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health))
}

async fn leader(State(service): State<Arc<Service>>) -> Json<Value> {
    let token = service.candidate.leadership().map(|term| term.fencing_token().to_string());
    Json(json!({ "leads": token.is_some(), "token": token }))
}

async fn order(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
    order: Bytes,
) -> Response {
    let health = service.zk.connection_health();
    if !health.is_ready() && health.lasted >= DEADLINE {
        // Requests before this one have waited for the server in vain.
        return unavailable(&format!("no server: {health}"));
    }
    let Ok(path) = OrderPath::path(&id) else {
        return (StatusCode::BAD_REQUEST, "not an id").into_response();
    };
    // A client that got no response sends the request again. It succeeds again if the data are the
    // same.
    let create = service.zk.create(path).data(order).idempotent().deadline(DEADLINE);
    match create.await {
        Ok(_) => StatusCode::CREATED.into_response(),
        Err(error) if error.kind() == ErrorKind::NodeExists => StatusCode::CONFLICT.into_response(),
        // It may have been stored. The client repeats the request in any case.
        Err(error) if error.is_transient() => unavailable(&error.to_string()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

// ANCHOR: observed
/// Writes the log to stderr, and collects metrics. Call it before the framework is started.
fn observed() -> Result<PrometheusHandle, BuildError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init(); // INFO, WARN and ERROR
    let metrics = PrometheusBuilder::new().install_recorder()?;
    observe::describe(); // units and help, also of the framework
    let upkeep = metrics.clone();
    tokio::spawn(async move {
        let mut every = interval(Duration::from_secs(5));
        loop {
            every.tick().await;
            upkeep.run_upkeep(); // keeps histograms small, even if nothing scrapes
        }
    });
    Ok(metrics)
}
// ANCHOR_END: observed

fn unavailable(why: &str) -> Response {
    let retry = [(header::RETRY_AFTER, RETRY_AFTER)];
    (StatusCode::SERVICE_UNAVAILABLE, retry, why.to_owned()).into_response()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let metrics = observed()?;
    let timeout =
        std::env::var("SESSION_TIMEOUT_MS").map_or(Ok(10_000), |millis| millis.parse())?;
    let zk = CuratorFramework::builder()
        .connect_string(std::env::var("ZOOKEEPER")?)
        .session_timeout(Duration::from_millis(timeout))
        .namespace("shop")
        .name("orders") // the label `framework` of all series
        .build()?;
    zk.start_in_background()?;
    let shutdown = Shutdown::on_signals()?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    println!("listening on {address}");
    let candidate = LeaderLatch::new(&zk, "/leaders/orders").id(address).join();
    let is_prepared = AtomicBool::new(false);
    let service = Arc::new(Service { zk, candidate, is_prepared, shutdown: shutdown.clone() });
    tokio::spawn({
        let service = Arc::clone(&service);
        async move {
            if let Err(error) = service.prepare().await {
                // Not an outage, but for example a missing permission: it stays unready.
                eprintln!("cannot prepare: {error}");
            }
        }
    });
    let routes = Router::new()
        .route("/live", get(|| async { "alive" }))
        .route("/ready", get(ready))
        .route("/leader", get(leader))
        .route("/metrics", get(move || async move { metrics.render() }))
        .route("/orders/{id}", post(order))
        .with_state(Arc::clone(&service));
    let stopped = shutdown.clone();
    let serving = axum::serve(listener, routes)
        .with_graceful_shutdown(async move { stopped.begun().await })
        .into_future();
    let mut serving = pin!(serving);
    tokio::select! {
        ended = &mut serving => ended?,
        // Requests in progress may end, but all that follows has one deadline.
        () = shutdown.begun() => {
            if let Some(ended) = shutdown.step(&mut serving).await {
                ended?;
            }
        }
    }

    // The next leader need not wait until this session expires.
    if let Some(Err(error)) = shutdown.step(service.candidate.close()).await {
        eprintln!("cannot leave the election: {error}");
    }
    shutdown.close(&service.zk).await;
    println!("ended");
    Ok(())
}
