//! [`queue`](zk_curator_recipes::queue): every client puts items, and takes the items of all
//! clients. After the last fault, every client takes the remaining items.

mod claiming;
mod sharded;
mod taking;

use zk_curator_recipes::queue::PutMode;

use self::claiming::{Kind, MOST_DELIVERIES, consume};
use self::sharded::{FULL_QUEUES, LEADER, QUEUES, shard};
use self::taking::{MOST_AT_HAND, Taken, take};
use super::Scenario;
use super::support::items::{DEAD, DEAD_LOCKS, IDS, LOCKS, QUEUE};
use crate::Sim;
use crate::checkers::{Delivery, PutAside};

pub(super) const BOUNDED: Scenario = Scenario::new(
    "bounded_queue",
    "DistributedQueue with a maximum number of items",
    &["items acknowledged", "items processed by bodies", "items returned"],
    |sim| claimed(sim, Kind::Bounded, exactly_once()),
);

pub(super) const DEAD_LETTERS: Scenario = Scenario::new(
    "dead_letters",
    "DistributedQueue under claims: items that fail too often become dead letters",
    &["dead letters", "items acknowledged", "items processed by bodies", "items returned"],
    |sim| {
        claimed(sim, Kind::Counted, exactly_once())
            .checker(PutAside::after(MOST_DELIVERIES))
            .leaves([DEAD, DEAD_LOCKS])
    },
);

pub(super) const DELAY: Scenario = Scenario::new(
    "delay_queue",
    "DistributedDelayQueue under claims: no item before its time",
    &["items acknowledged", "items processed by bodies", "items returned"],
    |sim| claimed(sim, Kind::Delay, exactly_once()),
);

pub(super) const EXACTLY_ONCE: Scenario = Scenario::new(
    "exactly_once",
    "DistributedQueue with ids and prefetch: each put is processed once",
    &["items acknowledged", "items processed by bodies", "items returned"],
    // Processes that die leave ids, which are collected much later.
    |sim| claimed(sim, Kind::WithIds, exactly_once().equals()).leaves([IDS, "/queue-ids/put-*"]),
);

pub(super) const FIFO: Scenario = Scenario::new(
    "fifo_queue",
    "FifoQueue: put once, taken at most once, in order",
    &["items acknowledged"],
    |sim| fifo(sim, PutMode::Transaction),
);

pub(super) const FIFO_TWO_PHASE: Scenario = Scenario::new(
    "fifo_two_phase",
    "FifoQueue, put in two phases",
    &["items acknowledged"],
    |sim| fifo(sim, PutMode::TwoPhase),
);

pub(super) const IDENTIFIED: Scenario = Scenario::new(
    "id_queue",
    "DistributedIdQueue under claims: items are removed by their id",
    &["items acknowledged", "items processed by bodies", "items returned"],
    |sim| claimed(sim, Kind::Identified, exactly_once()),
);

pub(super) const PRIORITY: Scenario = Scenario::new(
    "priority_queue",
    "DistributedPriorityQueue under claims",
    &["items acknowledged", "items processed by bodies", "items returned"],
    |sim| claimed(sim, Kind::Priority, exactly_once()),
);

pub(super) const PLAIN: Scenario = Scenario::new(
    "queue",
    "DistributedQueue under claims",
    &["items acknowledged", "items processed by bodies", "items returned"],
    |sim| claimed(sim, Kind::Plain, exactly_once()).crowd(),
);

pub(super) const TAKER: Scenario = Scenario::new(
    "queue_taker",
    "DistributedQueue without claims: taken at most once",
    &["items acknowledged"],
    |sim| {
        sim.workload(|client| take(client, Taken::Plain))
            .checker(Delivery::at_most_once(MOST_AT_HAND).in_order())
            .leaves([QUEUE])
    },
);

pub(super) const SHARDED: Scenario = Scenario::new(
    "queue_sharder",
    "QueueSharder: several queues as one, each item processed once",
    &["items acknowledged"],
    |sim| {
        sim.workload(shard).checker(Delivery::exactly_once()).leaves([
            QUEUES,
            "/queues/**",
            LEADER,
            LOCKS,
            "/queue-locks/*",
            FULL_QUEUES,
            "/full-queues/**",
        ])
    },
);

pub(super) const SIMPLE: Scenario = Scenario::new(
    "simple_queue",
    "SimpleDistributedQueue: taken at most once, in order",
    &["items acknowledged"],
    |sim| {
        sim.workload(|client| take(client, Taken::Simple)).checker(at_most_once()).leaves([QUEUE])
    },
);

/// Simulates consumers with claims, which leave the node of the queue. An operator may delete the
/// claims. An acknowledgement cannot tell its own claim from another one at the same path:
/// [`Consumer`](zk_curator_recipes::queue::Consumer#guarantees) documents this window.
fn claimed(sim: Sim, kind: Kind, promise: Delivery) -> Sim {
    sim.workload(move |client| consume(client, kind))
        .checker(promise)
        .leaves([QUEUE, LOCKS])
        .operator(["/queue-locks/*"])
        .settled([("/queue-locks/*", QUEUE)])
}

/// Simulates a `FifoQueue`. The servers keep a container that never had a child, and a killed
/// client may have created one.
fn fifo(sim: Sim, mode: PutMode) -> Sim {
    sim.workload(move |client| take(client, Taken::Fifo(mode))).checker(at_most_once()).leaves([
        QUEUE,
        "/queue/items",
        "/queue/items/b-*",
        "/queue/ids",
        "/queue/ids/put-*",
    ])
}

/// A consumer verifies its claim with every removal, so no item is processed twice.
fn exactly_once() -> Delivery {
    Delivery::exactly_once().in_order()
}

/// Items are removed one by one, each after the previous one was delivered.
fn at_most_once() -> Delivery {
    Delivery::at_most_once(1).in_order()
}
