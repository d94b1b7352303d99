//! [`OwnedNode`], protected creates and guaranteed deletes. Clients compete for ephemeral nodes of
//! a few names, and create persistent nodes of their own. After the last fault, every node that was
//! given up must be gone while its session lives, and after a `close`.

use std::future::{Future, IntoFuture, poll_fn};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::{CreateMode, CuratorFramework, ErrorKind, OwnedNode};

use super::Scenario;
use super::support::holding::{Attempt, hold_on, let_go};
use crate::checkers::Exclusion;
use crate::history::{HoldMode, ProcessId};
use crate::{Client, Failure};

const SHARED: &str = "/owned/shared";
const LASTING: &str = "/owned/persistent";
/// The names that all clients compete for.
const NAMES: usize = 2;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "owned",
    "OwnedNode, protected creates, guaranteed deletes: no node is left, and none of another client is deleted",
    &["acquisitions", "uses"],
    |sim| sim.workload(work).checker(Exclusion::mutual()).operator(["/owned/shared/*"]),
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    // The paths and czxids of the nodes that were given up.
    let mut given_up = Vec::new();
    let mut kept = Vec::new();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis([5, 50, 300][rng.usize(..3)]))).await;
        match rng.u8(..8) {
            0..4 => given_up.extend(hold_shared(&client, &zk).await),
            4 | 5 => given_up.extend(own_persistent(&client, &zk).await),
            6 => doom(&client, &zk).await,
            // These nodes are dropped at the end of this life.
            _ => kept.extend(persistent(&client, &zk).await),
        }
    }
    client.faults_are_over().await;
    drop(kept);
    // Waits until the requests from before have ended.
    sleep(client.session_timeout() * 4).await;
    for (path, czxid) in given_up {
        goes(&client, &zk, &path, czxid).await?;
    }
    sweep(&client, &zk).await
}

/// Owns a node of a contended name for a while.
async fn hold_shared(client: &Client, zk: &CuratorFramework) -> Option<(String, i64)> {
    let mut rng = client.rng();
    let path = format!("{SHARED}/{}", rng.usize(..NAMES));
    let create =
        zk.create(path.as_str()).mode(CreateMode::Ephemeral).data(client.unique().to_string());
    let create = create.creating_parents_as_containers();
    let create = match rng.u8(..3) {
        0 => create,
        1 => create.idempotent(),
        _ => create.protected_by_data(),
    };
    let attempt = Attempt::begin(client, path.as_str(), HoldMode::Exclusive);
    let node = client.maybe_cancel(create.owned().into_future()).await?.ok()?;
    let held = attempt.acquired(node.ownership().fencing_token());
    let given_up = (path, node.stat().czxid);
    let uses = async {
        for _ in 0..rng.u8(..3) {
            sleep(client.moment(Duration::from_millis([20, 200, 1000][rng.usize(..3)]))).await;
            client.use_resource(&held).await;
        }
    };
    // Some clients watch the node. The others learn only of the end of their session.
    let watches = client.rng().bool();
    let lost = async {
        match watches {
            true => node.ownership().lost().await,
            false => node.ownership().over().await,
        }
    };
    if hold_on(&held, lost, uses).await {
        let_go(client, &held, node.delete()).await;
    }
    Some(given_up)
}

/// Creates a persistent node that is deleted with its guard.
async fn persistent(client: &Client, zk: &CuratorFramework) -> Option<OwnedNode> {
    let create = zk.create(own_path(client)).data(client.unique().to_string());
    let create = create.creating_parents_as_containers();
    let create = if client.rng().bool() { create.protected() } else { create.protected_by_data() };
    client.maybe_cancel(create.owned().into_future()).await.and_then(Result::ok)
}

async fn own_persistent(client: &Client, zk: &CuratorFramework) -> Option<(String, i64)> {
    let node = persistent(client, zk).await?;
    let given_up = (node.path().to_owned(), node.stat().czxid);
    sleep(client.moment(Duration::from_millis(50))).await;
    if client.rng().bool() {
        drop(client.maybe_cancel(node.delete()).await);
    }
    Some(given_up)
}

/// Creates a node, and deletes it by a guaranteed delete.
async fn doom(client: &Client, zk: &CuratorFramework) {
    let create = zk.create(own_path(client)).creating_parents_as_containers().protected();
    let Some(Ok(created)) = client.maybe_cancel(create.into_future()).await else { return };
    let mut delete = Box::pin(zk.delete(created.path).guaranteed().into_future());
    // The guarantee begins with the first poll, so this one is not cancelled.
    if !poll_fn(|cx| Poll::Ready(delete.as_mut().poll(cx).is_ready())).await {
        drop(client.maybe_cancel(delete).await);
    }
}

/// Returns a unique path that names the client and its life.
fn own_path(client: &Client) -> String {
    let ProcessId::Client { number, incarnation } = client.who() else { return LASTING.to_owned() };
    format!("{LASTING}/n.{number}.{incarnation}.{}", client.unique())
}

/// Waits until a node that was given up is gone, at most for two session timeouts. Counts reads
/// with a pause before the next, because the time of a client that does not run does not count.
async fn goes(
    client: &Client,
    zk: &CuratorFramework,
    path: &str,
    czxid: i64,
) -> Result<(), Failure> {
    let pause = Duration::from_millis(100);
    let reads = (client.session_timeout() * 2).as_millis() / pause.as_millis();
    for _ in 0..=reads {
        zk.sync(path).await?;
        match zk.exists(path).await? {
            Some(stat) if stat.czxid == czxid => sleep(pause).await,
            _ => return Ok(()),
        }
    }
    let broken = format!("{path} of {czxid:#x} was given up two session timeouts ago, and exists");
    Err(broken.into())
}

/// Deletes the nodes of earlier lives that were killed, or whose `close` reported nodes that may be
/// left.
async fn sweep(client: &Client, zk: &CuratorFramework) -> Result<(), Failure> {
    let ProcessId::Client { incarnation: mine, .. } = client.who() else { return Ok(()) };
    zk.sync(LASTING).await?;
    let names = match zk.children(LASTING).await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(()),
        names => names?,
    };
    for name in names {
        let Some(at) = name.find("n.") else { continue };
        let mut parts =
            name[at..].split('.').skip(1).map(|part| part.parse::<u32>().unwrap_or(u32::MAX));
        let (number, incarnation) = (parts.next(), parts.next().unwrap_or(u32::MAX));
        if number == Some(client.number()) && incarnation < mine && !client.has_closed(incarnation)
        {
            timeout(
                client.session_timeout() * 10,
                zk.delete(format!("{LASTING}/{name}")).quietly(),
            )
            .await??;
        }
    }
    Ok(())
}
