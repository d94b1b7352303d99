//! Java Curator puts and we take, and the reverse, for every queue that both have, with and without
//! a lock path.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::{
    CuratorQueue, DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue,
    DistributedQueue, SimpleDistributedQueue,
};
use zk_curator_testing::wait::spend;
use zk_curator_tests::{builder_for, start};

use crate::contest::compiled;
use crate::peer::Peer;

const COUNT: usize = 8;
/// The least number of items that each consumer must get.
const FEW: usize = 5;
const PATIENCE: Duration = Duration::from_secs(240);
const KINDS: [&str; 5] = ["simple", "plain", "priority", "delay", "id"];

/// The program of Java Curator.
struct Java(Peer);

impl Java {
    /// Returns the items that the program has taken.
    async fn run(
        &mut self,
        verb: &str,
        kind: &str,
        path: &str,
        locks: Option<&str>,
    ) -> Vec<String> {
        let command = format!("{verb} {kind} {path} {} {COUNT}", locks.unwrap_or("-"));
        self.0.tell(&command).await.split_whitespace().map(str::to_owned).collect()
    }
}

/// Our side.
struct Rust {
    zk: CuratorFramework,
}

async fn peers(connect_string: &str) -> (Java, Rust) {
    let program = compiled("CuratorQueueWorker.java").await;
    let java = Peer::java(&program, [connect_string], PATIENCE);
    (Java(java), Rust { zk: start(builder_for(connect_string)).await })
}

impl Rust {
    /// The same as the program does.
    async fn put(&self, kind: &str, path: &str) {
        let zk = &self.zk;
        let text = |number: usize| number.to_string();
        let ago = |seconds| SystemTime::now() - Duration::from_secs(100 + seconds as u64);
        for number in 0..COUNT {
            match kind {
                "simple" => SimpleDistributedQueue::new(zk, path).offer(text(number)).await,
                "plain" if number < COUNT - 2 => {
                    DistributedQueue::new(zk, path).put(text(number)).await
                }
                "plain" if number == COUNT - 2 => {
                    let last = [number, number + 1].map(|number| Bytes::from(text(number)));
                    DistributedQueue::new(zk, path).put_multi(last).await
                }
                "plain" => Ok(()),
                "priority" => {
                    let priority = (COUNT / 2) as i32 - number as i32;
                    DistributedPriorityQueue::new(zk, path).put(text(number), priority).await
                }
                "delay" => {
                    DistributedDelayQueue::new(zk, path).put(text(number), ago(number)).await
                }
                _ => {
                    DistributedIdQueue::new(zk, path)
                        .put(text(number), &format!("id{number}"))
                        .await
                }
            }
            .unwrap();
        }
    }

    async fn take(&self, kind: &str, path: &str, locks: Option<&str>) -> Vec<String> {
        let zk = &self.zk;
        match kind {
            "simple" => {
                let queue = SimpleDistributedQueue::new(zk, path);
                let mut taken = Vec::new();
                for _ in 0..COUNT {
                    taken.push(String::from_utf8(queue.take().await.unwrap().to_vec()).unwrap());
                }
                taken
            }
            "plain" => drain(&DistributedQueue::new(zk, path), locks).await,
            "priority" => drain(&DistributedPriorityQueue::new(zk, path), locks).await,
            "delay" => drain(&DistributedDelayQueue::new(zk, path), locks).await,
            _ => drain(&DistributedIdQueue::new(zk, path), locks).await,
        }
    }
}

async fn drain<K>(queue: &CuratorQueue<K>, locks: Option<&str>) -> Vec<String> {
    let mut taken: Vec<Bytes> = Vec::new();
    if let Some(locks) = locks {
        let mut consumer = queue.consumer(locks);
        while taken.len() < COUNT {
            let delivery = consumer.next().await.unwrap();
            taken.extend(delivery.items().iter().cloned());
            delivery.ack().await.unwrap();
        }
    } else {
        let mut auto_ack = queue.auto_ack_consumer();
        while taken.len() < COUNT {
            taken.extend(auto_ack.next().await.unwrap().items);
        }
    }
    taken.iter().map(|item| String::from_utf8(item.to_vec()).unwrap()).collect()
}

async fn both_directions(connect_string: &str) {
    let (mut java, rust) = peers(connect_string).await;
    for kind in KINDS {
        // Those with priorities and times are put in the reverse of their order.
        let in_order: Vec<String> = if ["priority", "delay"].contains(&kind) {
            (0..COUNT).rev().map(|number| number.to_string()).collect()
        } else {
            (0..COUNT).map(|number| number.to_string()).collect()
        };
        let lock_paths: &[bool] = if kind == "simple" { &[false] } else { &[false, true] };
        for with_locks in lock_paths {
            let (ours, theirs) =
                (format!("/{kind}-ours-{with_locks}"), format!("/{kind}-theirs-{with_locks}"));
            let locks = with_locks.then(|| format!("/{kind}-locks"));
            // The same nodes and the same bytes.
            rust.put(kind, &ours).await;
            java.run("put", kind, &theirs, locks.as_deref()).await;
            assert_eq!(nodes(&rust.zk, &ours).await, nodes(&rust.zk, &theirs).await, "{kind}");
            // Each takes the items of the other.
            let by_java = java.run("take", kind, &ours, locks.as_deref()).await;
            let mut sorted = by_java.clone();
            sorted.sort_by_key(|item| in_order.iter().position(|other| other == item));
            assert_eq!(sorted, in_order, "{kind} by Java, with locks: {with_locks}");
            let by_us = rust.take(kind, &theirs, locks.as_deref()).await;
            assert_eq!(by_us, in_order, "{kind} by us, with locks: {with_locks}");
            for path in [&ours, &theirs].into_iter().chain(&locks) {
                assert_eq!(rust.zk.children(path).await.unwrap_or_default(), [""; 0], "{path}");
            }
        }
    }
    java.0.end().await;
    rust.zk.close().await.unwrap();
}

/// Both consume concurrently, under the same lock path, until they have shared some batches: every
/// item once.
async fn side_by_side(connect_string: &str) {
    let (mut java, rust) = peers(connect_string).await;
    for kind in KINDS.into_iter().filter(|kind| *kind != "simple") {
        let (path, locks) = (format!("/{kind}-shared"), format!("/{kind}-shared-locks"));
        let zk = &rust.zk;
        zk.create(&*path).await.unwrap();
        let theirs = java.run("share", kind, &path, Some(&locks));
        let ours = async {
            let (mut put, mut ours, mut shared) = (0, Vec::new(), 0);
            while shared < FEW {
                rust.put(kind, &path).await;
                put += COUNT;
                let before = ours.len();
                match kind {
                    "plain" => share(&DistributedQueue::new(zk, &*path), &locks, &mut ours).await,
                    "priority" => {
                        share(&DistributedPriorityQueue::new(zk, &*path), &locks, &mut ours).await;
                    }
                    "delay" => {
                        share(&DistributedDelayQueue::new(zk, &*path), &locks, &mut ours).await;
                    }
                    _ => share(&DistributedIdQueue::new(zk, &*path), &locks, &mut ours).await,
                }
                shared += usize::from((1..COUNT).contains(&(ours.len() - before)));
            }
            zk.create(format!("{path}-end")).await.unwrap();
            (put, ours)
        };
        let (theirs, (put, ours)) = tokio::join!(theirs, ours);
        let mut all = [ours, theirs].concat();
        all.sort();
        let mut expected: Vec<String> =
            (0..put).map(|number| (number % COUNT).to_string()).collect();
        expected.sort();
        assert_eq!(all, expected, "{kind}");
        assert_eq!(zk.children(&*locks).await.unwrap(), [""; 0], "{kind}");
    }
    java.0.end().await;
    rust.zk.close().await.unwrap();
}

/// Takes the remaining items until there is none.
async fn share<K>(queue: &CuratorQueue<K>, locks: &str, taken: &mut Vec<String>) {
    let mut consumer = queue.consumer(locks);
    while queue.count().await.unwrap() > 0 {
        let Ok(delivery) = timeout(Duration::from_millis(50), consumer.next()).await else {
            continue;
        };
        let delivery = delivery.unwrap();
        let items = delivery.items().iter().map(|item| String::from_utf8(item.to_vec()).unwrap());
        taken.extend(items);
        // As much work as an item is for the other.
        spend(Duration::from_millis(2)).await;
        delivery.ack().await.unwrap();
    }
}

/// The names, without times, and the data.
async fn nodes(zk: &CuratorFramework, path: &str) -> Vec<(String, Bytes)> {
    let mut nodes = Vec::new();
    for name in zk.children(path).await.unwrap() {
        let data = zk.get_data(format!("{path}/{name}")).await.unwrap();
        // A delay queue with times that are due now.
        let is_time =
            |part: &str| part.len() == 11 && part.chars().all(|char| char.is_ascii_hexdigit());
        let parts: Vec<_> =
            name.split('|').map(|part| if is_time(part) { "time" } else { part }).collect();
        nodes.push((parts.join("|"), data));
    }
    nodes.sort();
    nodes
}

on_each_with_java! {
    java_and_rust_take_what_the_other_puts,
    |servers| timeout(PATIENCE, both_directions(&servers)).await.unwrap()
}

on_each_with_java! {
    java_and_rust_consume_side_by_side,
    |servers| timeout(PATIENCE, side_by_side(&servers)).await.unwrap()
}
