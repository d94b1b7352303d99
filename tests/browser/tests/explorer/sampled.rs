//! An explorer that has sampled three servers for a quarter of an hour.
//!
//! That time is simulated. The servers, their clients and the explorer share a runtime with a
//! paused clock; then the clock goes on in real time, and the same runtime serves the browser.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, header};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::resume;
use tower::ServiceExt;
use zk_curator::CuratorFramework;
use zk_curator_browser::connect;
use zk_curator_ops::ensemble::probe::ProbeOptions;
use zk_curator_testing::{LagGuard, TestCluster, paused, wait};
use zk_curator_web::{WebOptions, router};

/// The time between two samples, and between two loads.
const STEP: Duration = Duration::from_secs(5);
/// The steps before the browser comes: 14 minutes.
const STEPS: usize = 168;
/// The steps in which a follower applies transactions late.
const LATE: Range<usize> = 48..90;
/// The delay of this follower.
const DELAY: Duration = Duration::from_secs(40);
/// The step in which it is stopped.
const STOPPED: usize = 138;
/// The steps between two new clients.
const JOINS: usize = 24;
const NODE: &str = "/orders";

/// The explorer and its servers. Dropping it ends them.
pub(super) struct SampledEnsemble {
    url: String,
    leader: String,
    stopped: String,
    /// Dropped to end the runtime.
    _end: oneshot::Sender<()>,
}

impl SampledEnsemble {
    /// Starts the explorer. Returns when the time has passed.
    pub(super) async fn start() -> Self {
        let (ready, scene) = oneshot::channel();
        thread::spawn(move || paused(Box::pin(run(ready))));
        scene.await.expect("the servers were sampled")
    }

    /// Returns the address of the page.
    pub(super) fn url(&self) -> String {
        format!("{}/ensemble", self.url)
    }

    /// Returns the name of the server that leads.
    pub(super) fn leader(&self) -> &str {
        &self.leader
    }

    /// Returns the name of the server that was stopped.
    pub(super) fn stopped(&self) -> &str {
        &self.stopped
    }
}

async fn run(ready: oneshot::Sender<SampledEnsemble>) {
    let cluster = TestCluster::start(3).await;
    let zk = client(&cluster, &cluster.connect_string()).await;
    zk.create(NODE).await.expect("the node is created");
    let probe = ProbeOptions::new().connector(Arc::new(cluster.connector()));
    let router = router(&zk, WebOptions::new().probe(probe).sample_every(STEP));
    // The stream is a viewer, without whom nothing is sampled.
    let viewed = get(&router, "/api/v1/ensemble/watch").await;
    let leader = cluster.leader().expect("there is a quorum");
    let own = cluster.attached_to(zk.session().expect("it is connected").id.get());
    let stopped = (0..3).find(|member| *member != leader && Some(*member) != own);
    let stopped = stopped.expect("there are three servers");
    let clients = work(&cluster, &zk, stopped).await;
    resume();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let [leader, stopped] = [leader, stopped].map(|member| cluster.member(member).connect_string());
    let (end, ended) = oneshot::channel();
    if ready.send(SampledEnsemble { url, leader, stopped, _end: end }).is_ok() {
        tokio::select! {
            served = async { axum::serve(listener, router).await } => served.expect("it serves"),
            _ = ended => {}
        }
    }
    drop((viewed, clients));
}

/// Lets clients work, more and fewer of them, while one server falls behind and is stopped later.
/// Returns the clients.
async fn work(
    cluster: &TestCluster,
    zk: &CuratorFramework,
    stopped: usize,
) -> Vec<CuratorFramework> {
    let healthy = (0..3).filter(|member| *member != stopped);
    let healthy: Vec<_> = healthy.map(|member| cluster.member(member).connect_string()).collect();
    let healthy = healthy.join(",");
    let mut clients = Vec::new();
    let mut late: Option<LagGuard> = None;
    for step in 0..STEPS {
        if step == LATE.start {
            late = Some(cluster.lag_by(stopped, DELAY));
        } else if step == LATE.end {
            drop(late.take());
        } else if step == STOPPED {
            cluster.kill(stopped).await;
        }
        if step.is_multiple_of(JOINS) {
            clients.push(client(cluster, &healthy).await);
        }
        // It rises and falls every four minutes.
        let writes = 4 + (step % 48).min(48 - step % 48) / 2;
        for number in 0..writes {
            zk.set_data(NODE, number.to_string()).await.expect("there is a quorum");
            for client in &clients {
                client.get_data(NODE).await.expect("the node is there");
            }
        }
        wait::spend(STEP).await;
    }
    clients
}

async fn client(cluster: &TestCluster, servers: &str) -> CuratorFramework {
    let builder = CuratorFramework::builder().connect_string(servers);
    connect(builder.connector(Arc::new(cluster.connector()))).await.expect("it connects")
}

async fn get(router: &Router, address: &str) -> Response<Body> {
    let request = Request::get(address).header(header::HOST, "localhost:9181").body(Body::empty());
    let request = request.expect("invariant: the address is valid");
    let Ok(response) = router.clone().oneshot(request).await;
    response
}
