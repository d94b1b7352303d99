//! [`InterProcessMutex`]: the tasks of several clients contend for one lock, and use a resource
//! under it.

use std::sync::Arc;

use zk_curator_recipes::lock::InterProcessMutex;

use super::Scenario;
use super::support::exclusive::{Protected, contend};
use crate::checkers::Exclusion;
use crate::{Client, Failure};

const LOCK: &str = "/locks/orders";
/// The znode that is used as a resource.
const NODE: &str = "/orders";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "mutex",
    "InterProcessMutex, with a resource that checks tokens",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(|client| work(client, Protected::Tokens))
            .checker(Exclusion::mutual())
            .operator([LOCK, "/locks/orders/*"])
    },
);

pub(super) const FENCED: Scenario = Scenario::new(
    "mutex_fenced",
    "InterProcessMutex, fenced transactions",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(|client| work(client, Protected::Node(NODE)))
            .checker(Exclusion::mutual())
            .operator(["/locks/orders/*"])
            .nodes([NODE])
    },
);

pub(super) const UNFENCED: Scenario = Scenario::new(
    "mutex_unfenced",
    "InterProcessMutex, with a resource that accepts any token",
    &["acquisitions", "uses"],
    |sim| sim.workload(|client| work(client, Protected::Nothing)).checker(Exclusion::mutual()),
)
.demonstration();

async fn work(client: Client, protected: Protected) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let lock = InterProcessMutex::new(&zk, LOCK).label(client.who().to_string());
    contend(&client, Arc::new(lock), protected).await;
    Ok(())
}
