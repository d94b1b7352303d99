//! Responses that are larger than the limit of the client: clients make a parent with more children
//! than a response may list, list it, and create protected nodes in it. After the last fault, a
//! large response must fail only its request, not the connection.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};

use super::Scenario;
use crate::{Client, Failure};

const CROWD: &str = "/crowd";
/// The maximum size of a response that a client accepts, in bytes.
const LIMIT: usize = 2_000;
/// The number of children with long names that each client adds.
const CHILDREN: usize = 30;
const NAME: usize = 80;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "large_responses",
    "a response over the limit fails a request, not the connection",
    &["checks"],
    |sim| sim.workload(work).leaves(["/crowd", "/crowd/*"]),
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect_with(client.framework().max_frame(LIMIT).max_response(LIMIT)).await?;
    let mut rng = client.rng();
    crowd(&client, &zk).await;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            drop(client.maybe_cancel(zk.children(CROWD).into_future()).await);
            continue;
        }
        let create =
            zk.create(format!("{CROWD}/one-")).mode(CreateMode::EphemeralSequential).protected();
        // After a lost response, the client looks for the node in a list that is too long.
        drop(client.maybe_cancel(create.owned().into_future()).await);
    }
    client.faults_are_over().await;
    crowd(&client, &zk).await;
    sleep(client.session_timeout() * 4).await;
    let mut lasts = false;
    for _ in 0..3 {
        let before = zk.status().epoch;
        match zk.children(CROWD).await {
            Err(error) if error.kind() == ErrorKind::ResponseTooLarge => {
                client.checked("that a list over the limit fails alone");
            }
            answer => return Err(format!("a list over the limit: {answer:?}").into()),
        }
        // The janitor must not repeat its request without end either.
        sleep(client.session_timeout()).await;
        lasts |= zk.status().epoch == before;
    }
    // A busy machine may end one connection, but a large response would end each of them.
    if !lasts {
        return Err("the connection has ended with a large response".into());
    }
    Ok(())
}

/// Adds the missing children of this client.
async fn crowd(client: &Client, zk: &CuratorFramework) {
    for child in 0..CHILDREN {
        let path = format!("{CROWD}/{:0NAME$}", u64::from(client.number()) * 1000 + child as u64);
        drop(zk.create(path).creating_parents_as_containers().idempotent().await);
    }
}
