//! A client balances its calls over the instances of a service. One of them is killed, with its
//! session, and the calls go on; a new one gets its share.
//!
//! Run `cargo run -p zk-curator-discovery --features tower --example discovery`; set
//! `ZK_CONNECT=host:port` to use Apache ZooKeeper. Each server is a separate process, so that one
//! can really be killed. The exit code is 0 only if at most one call has failed.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

mod lines;
#[path = "../../examples/support/process.rs"]
mod process;
#[path = "../../examples/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use support::{Result, Stage};
use tokio::net::TcpListener;
use tower::balance::p2c::Balance;
use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
use zk_curator::CuratorFramework;
use zk_curator_discovery::{ServiceDiscovery, ServiceInstance};

/// A server: registers its address and responds, until it is killed.
async fn serve(servers: &str, root: &str, name: &str) -> Result<()> {
    let zk = CuratorFramework::builder().connect_string(servers);
    let zk = zk.session_timeout(Duration::from_secs(1)).build()?; // servers may ask for more
    zk.start().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let me = ServiceInstance::builder("greeter").id(name).address("127.0.0.1");
    let me = me.port(listener.local_addr()?.port()).build()?;
    let _me = ServiceDiscovery::<()>::new(&zk, root).register(me).await?;
    lines::respond(listener, name).await
}

async fn call() -> Result<()> {
    let stage = Stage::new("discovery").await;
    let zk = stage.client().await?;
    let start = |name| process::start(&stage.servers, &stage.root, name, lines::ignored());
    let mut processes = BTreeMap::new();
    for name in ["ada", "ben", "cleo"] {
        processes.insert(name, start(name)?);
    }
    let provider = ServiceDiscovery::<()>::new(&zk, &stage.root).provider("greeter").start();
    provider.wait_ready(3).await?;
    // ANCHOR: balance
    let clients = provider.discover(lines::Client::of);
    let clients = PendingRequestsDiscover::new(clients, CompleteOnResponse::default());
    let mut calls = lines::Calls::of(Balance::new(clients));
    // ANCHOR_END: balance

    calls.until("three servers", |by| by.len() == 3).await?;
    if let Some(mut ada) = processes.remove("ada") {
        ada.kill().await?;
        calls
            .until("ada is KILLED; until her session has ended", |_| provider.all().len() == 2)
            .await?;
    }
    processes.insert("dan", start("dan")?);
    calls.until("with dan", |by| by.contains_key("dan")).await?;
    assert!(calls.failed <= 1, "{} calls have failed", calls.failed);

    for process in processes.values_mut() {
        process.kill().await?;
    }
    stage.clear(&zk).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [servers, root, name] => serve(servers, root, name).await,
        _ => tokio::time::timeout(Duration::from_secs(50), call()).await?,
    }
}
