//! [`InterProcessSemaphoreMutex`]: a mutex that is a semaphore with one lease.

use std::sync::Arc;

use zk_curator_recipes::lock::InterProcessSemaphoreMutex;

use super::Scenario;
use super::support::exclusive;
use crate::checkers::Exclusion;

const NODE: &str = "/data/orders";

pub(super) const SCENARIO: Scenario =
    Scenario::new("semaphore_mutex", "InterProcessSemaphoreMutex: one holder at a time", |sim| {
        sim.workload(|client| {
            let lock =
                |zk: &_| Arc::new(InterProcessSemaphoreMutex::new(zk, "/locks/orders")) as Arc<_>;
            exclusive::contend(client, NODE, lock)
        })
        .operator(["/locks/orders/leases/*"])
        .checker(Exclusion::mutual())
        .nodes([NODE])
        .sequences(["/locks/orders/locks", "/locks/orders/leases"])
    });
