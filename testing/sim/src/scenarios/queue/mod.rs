//! [`queue`](zk_curator_recipes::queue): every client puts items, and takes the items of all
//! clients. After the last fault, every client takes the remaining items.

mod claiming;
mod taking;

use zk_curator_recipes::queue::PutMode;

use self::claiming::{Kind, MOST_DELIVERIES, consume};
use self::taking::{MOST_AT_HAND, Taken, take};
use super::Scenario;
use super::support::items::{DEAD, DEAD_LOCKS, QUEUE};
use crate::checkers::{Delivery, PutAside};

/// The claims that an operator may delete.
const CLAIMS: &[&str] = &["/queue-locks/*"];
/// An acknowledgement cannot tell its own claim from another one at the same path.
/// [`Consumer`](zk_curator_recipes::queue::Consumer#guarantees) documents this window.
const SETTLED: &[(&str, &str)] = &[("/queue-locks/*", QUEUE)];
/// Nodes that may be left. Consumers with claims leave the queue node, and processes that die leave
/// ids, which are collected much later.
const LEAVES: &[&str] = &["/queue", "/queue-locks", "/queue-ids", "/queue-ids/put-*"];
/// As [`LEAVES`], with containers that a killed client has created: the servers keep a container
/// that never had a child.
const LEAVES_OF_FIFO: &[&str] =
    &["/queue", "/queue/items", "/queue/items/b-*", "/queue/ids", "/queue/ids/put-*"];

pub(super) const BOUNDED: Scenario =
    Scenario::new("bounded_queue", "DistributedQueue with a maximum number of items", |sim| {
        sim.workload(|client| consume(client, Kind::Bounded))
            .checker(exactly_once())
            .leaves(LEAVES.iter().copied())
            .operator(CLAIMS.iter().copied())
            .settled(SETTLED.iter().copied())
    });

pub(super) const DEAD_LETTERS: Scenario = Scenario::new(
    "dead_letters",
    "DistributedQueue under claims: items that fail too often become dead letters",
    |sim| {
        sim.workload(|client| consume(client, Kind::Counted))
            .checker(Delivery::exactly_once().in_order())
            .checker(PutAside::after(MOST_DELIVERIES))
            .leaves(["/queue", "/queue-locks", DEAD, DEAD_LOCKS])
            .operator(CLAIMS.iter().copied())
            .settled(SETTLED.iter().copied())
    },
);

pub(super) const DELAY: Scenario = Scenario::new(
    "delay_queue",
    "DistributedDelayQueue under claims: no item before its time",
    |sim| {
        sim.workload(|client| consume(client, Kind::Delay))
            .checker(exactly_once())
            .leaves(LEAVES.iter().copied())
            .operator(CLAIMS.iter().copied())
            .settled(SETTLED.iter().copied())
    },
);

pub(super) const EXACTLY_ONCE: Scenario = Scenario::new(
    "exactly_once",
    "DistributedQueue with ids and prefetch: each put is processed once",
    |sim| {
        sim.workload(|client| consume(client, Kind::WithIds))
            .checker(Delivery::exactly_once().in_order().equals())
            .leaves(LEAVES.iter().copied())
            .operator(CLAIMS.iter().copied())
            .settled(SETTLED.iter().copied())
    },
);

pub(super) const FIFO: Scenario =
    Scenario::new("fifo_queue", "FifoQueue: put once, taken at most once, in order", |sim| {
        sim.workload(|client| take(client, Taken::Fifo(PutMode::Transaction)))
            .checker(at_most_once())
            .leaves(LEAVES_OF_FIFO.iter().copied())
    });

pub(super) const FIFO_TWO_PHASE: Scenario =
    Scenario::new("fifo_two_phase", "FifoQueue, put in two phases", |sim| {
        sim.workload(|client| take(client, Taken::Fifo(PutMode::TwoPhase)))
            .checker(at_most_once())
            .leaves(LEAVES_OF_FIFO.iter().copied())
    });

pub(super) const IDENTIFIED: Scenario = Scenario::new(
    "id_queue",
    "DistributedIdQueue under claims: items are removed by their id",
    |sim| {
        sim.workload(|client| consume(client, Kind::Identified))
            .checker(exactly_once())
            .leaves(LEAVES.iter().copied())
            .operator(CLAIMS.iter().copied())
            .settled(SETTLED.iter().copied())
    },
);

pub(super) const PRIORITY: Scenario =
    Scenario::new("priority_queue", "DistributedPriorityQueue under claims", |sim| {
        sim.workload(|client| consume(client, Kind::Priority))
            .checker(exactly_once())
            .leaves(LEAVES.iter().copied())
            .operator(CLAIMS.iter().copied())
            .settled(SETTLED.iter().copied())
    });

pub(super) const PLAIN: Scenario = Scenario::new("queue", "DistributedQueue under claims", |sim| {
    sim.workload(|client| consume(client, Kind::Plain))
        .checker(exactly_once())
        .leaves(LEAVES.iter().copied())
        .operator(CLAIMS.iter().copied())
        .settled(SETTLED.iter().copied())
        .crowd()
});

pub(super) const TAKER: Scenario =
    Scenario::new("queue_taker", "DistributedQueue without claims: taken at most once", |sim| {
        sim.workload(|client| take(client, Taken::Plain))
            .checker(Delivery::at_most_once(MOST_AT_HAND).in_order())
            .leaves([QUEUE])
    });

pub(super) const SIMPLE: Scenario =
    Scenario::new("simple_queue", "SimpleDistributedQueue: taken at most once, in order", |sim| {
        sim.workload(|client| take(client, Taken::Simple)).checker(at_most_once()).leaves([QUEUE])
    });

/// A consumer verifies its claim with every removal, so no item is processed twice.
fn exactly_once() -> Delivery {
    Delivery::exactly_once().in_order()
}

/// Items are removed one by one, each after the previous one was delivered.
fn at_most_once() -> Delivery {
    Delivery::at_most_once(1).in_order()
}
