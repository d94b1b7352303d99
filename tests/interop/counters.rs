//! Counters and shared values of Java's Curator, of kazoo and of ours: each reads and changes what
//! the others have written, and all of them count together while our connections are cut.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_real::java::{self, Program};
use zk_curator_real::{self as real};
use zk_curator_recipes::counter::{
    Counter, DistributedAtomicInteger, DistributedAtomicLong, Encoding, IdBlocks, Number,
};
use zk_curator_recipes::shared::{SharedCount, SharedValue};
use zk_curator_testing::{FaultProxy, Flow, TestServer};
use zk_curator_tests::{builder_for, start};

use crate::contest::compiled;
use crate::kazoo::python_or_skip;
use crate::peer::Peer;

const PATIENCE: Duration = Duration::from_secs(120);
/// The increments of each client in a mixed run.
const EACH: usize = 1_000;
/// The time within which a request arrives, if the client sends one.
const SOON: Duration = Duration::from_millis(50);

/// The programs of the other clients, ready to start.
struct Others {
    java: Program,
    python: PathBuf,
}

impl Others {
    /// `None` if they are not installed.
    async fn or_skip(test: &str) -> Option<Self> {
        if !real::runs(test, java::available()) {
            return None;
        }
        let python = python_or_skip(test).await?;
        Some(Self { java: compiled("CuratorCounters.java").await, python })
    }

    fn java(&self, connect_string: &str) -> Peer {
        Peer::java(&self.java, [connect_string], PATIENCE)
    }

    fn kazoo(&self, connect_string: &str) -> Peer {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/kazoo_counters.py");
        let mut command = Command::new(&self.python);
        command.arg("-B").arg(script).arg(connect_string);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        Peer::of(command.spawn().unwrap(), PATIENCE)
    }
}

async fn connected(connect_string: &str) -> CuratorFramework {
    // Longer than every disturbance of its connections.
    start(builder_for(connect_string).session_timeout(Duration::from_secs(30))).await
}

/// Each side creates a counter once, and then both change it.
async fn count_in_turns<N: Number + From<i8> + std::fmt::Debug + PartialEq>(
    peer: &mut Peer,
    kind: &str,
    ours: impl Fn(&str) -> Counter<N>,
) {
    let n = |value: i8| N::from(value);
    let text = |value: i64| if kind == "float" { format!("{value}.0") } else { value.to_string() };
    let change = |pre, post| format!("{} {}", text(pre), text(post));
    let path = format!("/{kind}/ours-first");
    let counter = ours(&path);
    assert_eq!(counter.add(n(5)).await.unwrap().post, n(5));
    assert_eq!(peer.tell(&format!("{kind} get {path}")).await, text(5));
    assert_eq!(peer.tell(&format!("{kind} add {path} 3")).await, change(5, 8));
    assert_eq!(counter.add(n(-20)).await.unwrap().pre, n(8));
    assert_eq!(peer.tell(&format!("{kind} add {path} -100")).await, change(-12, -112));
    assert_eq!(counter.get().await.unwrap(), n(-112));
    assert_eq!(counter.compare_and_set(n(-112), n(7)).await.unwrap().unwrap().post, n(7));

    let path = format!("/{kind}/theirs-first");
    assert_eq!(peer.tell(&format!("{kind} add {path} 7")).await, change(0, 7));
    let counter = ours(&path);
    assert!(!counter.initialize(n(1)).await.unwrap());
    assert_eq!(counter.increment().await.unwrap(), n(8));
    assert_eq!(peer.tell(&format!("{kind} get {path}")).await, text(8));
    assert_eq!(counter.set(n(-1)).await.unwrap(), Some(n(8)));
    assert_eq!(peer.tell(&format!("{kind} add {path} 1")).await, change(-1, 0));
    assert_eq!(counter.decrement().await.unwrap(), n(-1));
}

async fn layouts(others: &Others, connect_string: &str) {
    let zk = connected(connect_string).await;
    let (mut java, mut kazoo) = (others.java(connect_string), others.kazoo(connect_string));
    let text = |encoding| {
        let zk = zk.clone();
        move |path: &str| DistributedAtomicLong::builder(&zk, path).encoding(encoding).build()
    };
    count_in_turns(&mut java, "long", |path| DistributedAtomicLong::new(&zk, path)).await;
    count_in_turns(&mut java, "int", |path| DistributedAtomicInteger::new(&zk, path)).await;
    count_in_turns(&mut kazoo, "curator", |path| DistributedAtomicInteger::new(&zk, path)).await;
    zk.delete("/int").deleting_children().await.unwrap();
    count_in_turns(&mut kazoo, "int", text(Encoding::Text)).await;
    count_in_turns(&mut kazoo, "float", text(Encoding::TextFloat)).await;
    comparisons(&zk, &mut java).await;
    numbers_in_blocks(&zk, &mut java).await;
    shared(&zk, &mut java).await;
    java.end().await;
    kazoo.end().await;
    zk.close().await.unwrap();
}

async fn comparisons(zk: &CuratorFramework, java: &mut Peer) {
    let least = DistributedAtomicLong::new(zk, "/least");
    least.set(i64::MIN).await.unwrap();
    assert_eq!(java.tell("long get /least").await, i64::MIN.to_string());
    assert_eq!(java.tell(&format!("long cas /least {} {}", i64::MIN, i64::MAX)).await, "true");
    assert_eq!(least.get().await.unwrap(), i64::MAX);
    assert_eq!(java.tell("long cas /least 1 2").await, "false");
    assert_eq!(least.compare_and_set(1, 2).await.unwrap(), Err(i64::MAX));
}

async fn numbers_in_blocks(zk: &CuratorFramework, java: &mut Peer) {
    let ids = IdBlocks::new(&DistributedAtomicLong::new(zk, "/ids"), 3);
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        for _ in 0..4 {
            assert!(seen.insert(ids.next().await.unwrap()), "{seen:?}");
        }
        for id in java.tell("ids next /ids 6").await.split(' ') {
            assert!(seen.insert(id.parse().unwrap()), "{id} among {seen:?}");
        }
    }
    assert_eq!(seen.len(), 50);
    assert!(seen.first() > Some(&0));
}

async fn shared(zk: &CuratorFramework, java: &mut Peer) {
    let count = SharedCount::open(zk, "/count", 8).await.unwrap();
    assert_eq!(java.tell("count get /count").await, "8");
    assert_eq!(java.tell("count set /count -9").await, "-9");
    count.cache().synced().await.unwrap();
    let seen = count.get().unwrap().unwrap();
    assert_eq!(seen.value, -9);
    assert!(count.try_set(&seen, 10).await.unwrap());
    assert_eq!(java.tell("count get /count").await, "10");
    // A counter with the same bytes.
    assert_eq!(java.tell("int add /count 1").await, "10 11");
    assert_eq!(DistributedAtomicInteger::new(zk, "/count").increment().await.unwrap(), 12);
    assert_eq!(java.tell("count get /count").await, "12");
    assert_eq!(java.tell("count get /count-of-java").await, "0");
    let theirs = SharedCount::open(zk, "/count-of-java", 5).await.unwrap();
    assert_eq!(theirs.get().unwrap().unwrap().value, 0);

    let value = SharedValue::open(zk, "/value", &"ours".to_owned()).await.unwrap();
    assert_eq!(java.tell("value get /value").await, "ours");
    assert_eq!(java.tell("value set /value theirs").await, "theirs");
    value.cache().synced().await.unwrap();
    assert_eq!(value.get().unwrap().unwrap().value, "theirs");
    value.set(&"again".to_owned()).await.unwrap();
    assert_eq!(java.tell("value get /value").await, "again");
    assert_eq!(java.tell("value get /value-of-java").await, "seed");
    let theirs = SharedValue::open(zk, "/value-of-java", &"ours".to_owned()).await.unwrap();
    assert_eq!(theirs.get().unwrap().unwrap().value, "seed");
}

/// Cuts connections, sometimes with a response in flight.
async fn disturb(proxy: &FaultProxy) {
    let coming = |requests: u64| proxy.passed(proxy.counts().requests + requests);
    for number in 0_u64.. {
        coming(20 + number % 23).await;
        if number % 3 > 0 {
            proxy.replies(Flow::Lost);
            drop(timeout(SOON, coming(1)).await);
        }
        proxy.cut();
        proxy.replies(Flow::Open);
    }
}

/// Makes all increments of one client. Returns the number of cut connections.
async fn ours<N: Number + Ord>(
    connect_string: &str,
    counter: impl FnOnce(&CuratorFramework) -> Counter<N>,
) -> u64 {
    let end = connect_string.find('/').unwrap_or(connect_string.len());
    let (server, chroot) = connect_string.split_at(end);
    let proxy = FaultProxy::start(&[server.parse().unwrap()]).await.unwrap();
    let zk = connected(&format!("{}{chroot}", proxy.connect_string())).await;
    let counter = counter(&zk);
    let work = async {
        let mut seen = BTreeSet::new();
        while seen.len() < EACH {
            match counter.increment().await {
                Ok(value) => assert!(seen.insert(value)),
                // The increment was not applied: other clients were faster, or the outage was too
                // long.
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
    };
    tokio::select! {
        biased;
        () = work => {}
        () = disturb(&proxy) => {}
    }
    let connections = proxy.counts().connections;
    drop(counter);
    zk.close().await.unwrap();
    connections
}

/// With cuts on the side of Curator or kazoo the sum would be too large: they repeat increments
/// whose responses were lost.
async fn mixed(others: &Others, connect_string: &str) {
    let (mut java, mut kazoo) = (others.java(connect_string), others.kazoo(connect_string));
    let zk = connected(connect_string).await;

    let (count, increments) = (EACH.to_string(), "increment /mixed/int");
    let (theirs, python) =
        (format!("int {increments} {count}"), format!("curator {increments} {count}"));
    let (java_says, kazoo_says, cuts) = tokio::join!(
        biased;
        java.tell(&theirs),
        kazoo.tell(&python),
        ours(connect_string, |zk| DistributedAtomicInteger::new(zk, "/mixed/int")),
    );
    assert_eq!((java_says.as_str(), kazoo_says.as_str()), ("ok", "ok"));
    let value = DistributedAtomicInteger::new(&zk, "/mixed/int").get().await.unwrap();
    assert_eq!(value, 3 * EACH as i32, "after {cuts} connections");
    assert!(cuts > 10, "only {cuts} connections");

    let theirs = format!("long increment /mixed/long {count}");
    let (java_says, cuts) = tokio::join!(
        biased;
        java.tell(&theirs),
        ours(connect_string, |zk| DistributedAtomicLong::new(zk, "/mixed/long")),
    );
    assert_eq!(java_says, "ok");
    let value = DistributedAtomicLong::new(&zk, "/mixed/long").get().await.unwrap();
    assert_eq!(value, 2 * EACH as i64, "after {cuts} connections");
    assert!(cuts > 10, "only {cuts} connections");

    java.end().await;
    kazoo.end().await;
    zk.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn on_apache_zookeeper_all_read_and_change_the_counters_of_all() {
    let test = "on_apache_zookeeper_all_read_and_change_the_counters_of_all";
    let Some(others) = Others::or_skip(test).await else { return };
    let Some(chroot) = real::chroot_or_skip(test).await else { return };
    timeout(PATIENCE, layouts(&others, &chroot.connect_string())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn on_apache_all_clients_count_while_our_responses_are_lost() {
    let test = "on_apache_all_clients_count_while_our_responses_are_lost";
    let Some(others) = Others::or_skip(test).await else { return };
    let Some(chroot) = real::chroot_or_skip(test).await else { return };
    timeout(PATIENCE * 2, mixed(&others, &chroot.connect_string())).await.unwrap();
}

mod night {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "night: scripts/night"]
    async fn embedded_all_clients_share_their_counters() {
        let test = "embedded_all_clients_share_their_counters";
        let Some(others) = Others::or_skip(test).await else { return };
        let server = TestServer::start().await;
        timeout(PATIENCE, layouts(&others, &server.connect_string())).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "night: scripts/night"]
    async fn embedded_all_clients_count_while_our_responses_are_lost() {
        let test = "embedded_all_clients_count_while_our_responses_are_lost";
        let Some(others) = Others::or_skip(test).await else { return };
        let server = TestServer::start().await;
        timeout(PATIENCE * 2, mixed(&others, &server.connect_string())).await.unwrap();
    }
}
