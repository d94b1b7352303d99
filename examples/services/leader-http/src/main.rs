//! An HTTP service of several processes, one of which leads. `GET /healthz` returns the health of
//! the service. `GET /leader` returns `true` if this process leads.
//!
//! It also serves requests without ZooKeeper, and leaves the election before it ends.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use zk_curator_recipes::leader::{Candidate, LeaderLatch};
use zk_curator_recipes::zk_curator::{CuratorFramework, Health};

struct Service {
    zk: CuratorFramework,
    candidate: Candidate,
}

async fn healthz(State(service): State<Arc<Service>>) -> (StatusCode, Json<Health>) {
    let health = service.zk.health();
    let status = if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health))
}

async fn leader(State(service): State<Arc<Service>>) -> Json<Value> {
    let token = service.candidate.leadership().map(|term| term.fencing_token().to_string());
    Json(json!({ "leads": token.is_some(), "token": token }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let timeout =
        std::env::var("SESSION_TIMEOUT_MS").map_or(Ok(10_000), |millis| millis.parse())?;
    let zk = CuratorFramework::builder()
        .connect_string(std::env::var("ZOOKEEPER")?)
        .session_timeout(Duration::from_millis(timeout))
        .namespace("shop")
        .build()?;
    zk.start_in_background()?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    println!("listening on {address}");
    let candidate = LeaderLatch::new(&zk, "/leaders/orders").id(address).join();
    let service = Arc::new(Service { zk, candidate });
    let routes = Router::new().route("/healthz", get(healthz)).route("/leader", get(leader));

    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        terminate.recv().await;
    };
    axum::serve(listener, routes.with_state(Arc::clone(&service)))
        .with_graceful_shutdown(stop)
        .await?;

    // The next leader need not wait until this session expires.
    service.candidate.close().await?;
    service.zk.close().await?;
    println!("ended");
    Ok(())
}
