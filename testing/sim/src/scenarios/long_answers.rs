//! Answers that are longer than a client takes: clients make a parent with more children than an answer may list, list it, and
//! create protected nodes in it. When there are no more faults a long answer costs the request that has asked for it, and
//! not the connection.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};

use super::Scenario;
use crate::{Client, Failure};

const CROWD: &str = "/crowd";
/// The longest answer that a client takes, in bytes.
const LIMIT: usize = 2_000;
/// So many children of so long names each client adds.
const CHILDREN: usize = 30;
const NAME: usize = 80;

pub(super) const SCENARIO: Scenario =
    Scenario::new("long_answers", "an answer over the limit costs a request, not the connection", |client| {
        Box::pin(work(client))
    })
    .leaves(&["/crowd", "/crowd/*"]);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect_with(client.framework().max_frame(LIMIT).max_answer(LIMIT)).await?;
    let mut rng = client.rng();
    crowd(&client, &zk).await;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            drop(client.maybe_cancel(zk.children(CROWD).into_future()).await);
            continue;
        }
        let create = zk.create(format!("{CROWD}/one-")).mode(CreateMode::EphemeralSequential).protected();
        // After a lost answer it is looked for, in a list that is too long.
        drop(client.maybe_cancel(create.owned().into_future()).await);
    }
    client.faults_are_over().await;
    crowd(&client, &zk).await;
    sleep(client.session_timeout() * 4).await;
    let before = zk.status().epoch;
    for _ in 0..3 {
        match zk.children(CROWD).await {
            Err(error) if error.kind() == ErrorKind::AnswerTooLarge => {}
            answer => return Err(format!("a list over the limit: {answer:?}").into()),
        }
        // Nor does the janitor ask again and again.
        sleep(client.session_timeout()).await;
    }
    if zk.status().epoch != before {
        return Err("the connection has ended with a long answer".into());
    }
    Ok(())
}

/// Adds this client's children, those that are missing.
async fn crowd(client: &Client, zk: &CuratorFramework) {
    for child in 0..CHILDREN {
        let path = format!("{CROWD}/{:0NAME$}", u64::from(client.number()) * 1000 + child as u64);
        drop(zk.create(path).creating_parents_as_containers().idempotent().await);
    }
}
