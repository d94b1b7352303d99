//! Members of kazoo's `SetPartitioner` and ours divide one set alike, each part with one owner.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_curator::CreateMode;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::partition::{Partition, SetPartitioner};
use zk_curator_testing::wait;
use zk_curator_tests::{builder_for, start};

const PATH: &str = "/shards/orders";
const WITNESS: &str = "/witness";
const PARTS: [&str; 10] = ["s0", "s1", "s10", "s2", "s3", "s4", "s5", "s6", "s7", "a-b"];
const PATIENCE: Duration = Duration::from_secs(120);

/// The parts of each member, as it says itself.
type Owned = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

fn rust_member(
    connect_string: &str,
    id: &'static str,
    owned: &Owned,
) -> (Shutdown, JoinHandle<()>) {
    let (stop, connect_string) = (Shutdown::new(), connect_string.to_owned());
    let (stopped, owned) = (stop.clone(), Arc::clone(owned));
    let member = tokio::spawn(async move {
        let zk = start(builder_for(&connect_string)).await;
        let set = SetPartitioner::new(&zk, PATH, PARTS).id(id).with_kazoo();
        let set = set.settle(Duration::from_secs(1));
        let body = async |part: Partition| {
            let witness = format!("{WITNESS}/{}", part.name());
            zk.create(&witness).mode(CreateMode::Ephemeral).data(id).await.unwrap();
            let change = |own: bool| {
                let mut owned = owned.lock().unwrap();
                let parts = owned.entry(id.to_owned()).or_default();
                let name = part.name().to_owned();
                if own { parts.insert(name) } else { parts.remove(&name) }
            };
            change(true);
            part.revoked().await;
            change(false);
            zk.delete(&witness).await.unwrap();
            Ok::<_, String>(())
        };
        set.run(body).until(stopped).await.unwrap();
        zk.close().await.unwrap();
    });
    (stop, member)
}

fn kazoo_member(python: &Path, connect_string: &str, id: &'static str, owned: &Owned) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/kazoo_partition_member.py");
    let mut command = Command::new(python);
    command.arg("-B").arg(&script).args([connect_string, PATH, WITNESS, id]).args(PARTS);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let owned = Arc::clone(owned);
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let parts = match line.strip_prefix("OWNS") {
                Some(parts) => parts.split_whitespace().map(str::to_owned).collect(),
                None => BTreeSet::new(),
            };
            owned.lock().unwrap().insert(id.to_owned(), parts);
        }
    });
    process
}

/// Waits until every n-th part belongs to the n-th of these members.
async fn divided(owned: &Owned, members: &[&str]) {
    let (mut parts, mut members) = (PARTS, members.to_vec());
    parts.sort_unstable();
    members.sort_unstable();
    let every_nth = |at: usize| parts.iter().skip(at).step_by(members.len());
    let share = |at: usize| every_nth(at).map(|part| (*part).to_owned()).collect();
    let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (at, member) in members.iter().enumerate() {
        expected.insert((*member).to_owned(), share(at));
    }
    let is_divided = || {
        let mut owned = owned.lock().unwrap().clone();
        owned.retain(|_, parts| !parts.is_empty());
        owned == expected
    };
    let divided = timeout(PATIENCE, wait::until(async || is_divided()));
    divided.await.unwrap_or_else(|_| panic!("{:?}", owned.lock().unwrap()));
}

async fn kazoo_and_rust_divide(python: &Path, connect_string: &str) {
    let zk = start(builder_for(connect_string)).await;
    zk.create(WITNESS).await.unwrap();
    let owned = Owned::default();
    let kazoo_1 = kazoo_member(python, connect_string, "kazoo-1", &owned);
    divided(&owned, &["kazoo-1"]).await;
    let (stop_1, rust_1) = rust_member(connect_string, "rust-1", &owned);
    divided(&owned, &["kazoo-1", "rust-1"]).await;
    let (stop_2, rust_2) = rust_member(connect_string, "a-rust-2", &owned);
    let mut kazoo_2 = kazoo_member(python, connect_string, "x-kazoo-2", &owned);
    divided(&owned, &["kazoo-1", "rust-1", "a-rust-2", "x-kazoo-2"]).await;

    let view = SetPartitioner::new(&zk, PATH, PARTS).with_kazoo().view().await.unwrap();
    assert_eq!(view.members.len(), 4);
    let theirs = owned.lock().unwrap().clone();
    for (name, part) in view.parts {
        let owner = part.assigned_to.unwrap();
        assert!(theirs[&owner].contains(&name), "{name} of {owner}: {theirs:?}");
    }

    drop(kazoo_2.stdin.take());
    assert!(kazoo_2.wait().await.unwrap().success());
    divided(&owned, &["kazoo-1", "rust-1", "a-rust-2"]).await;
    stop_1.begin();
    rust_1.await.unwrap();
    divided(&owned, &["kazoo-1", "a-rust-2"]).await;
    // Its process dies, and says nothing.
    drop(kazoo_1);
    owned.lock().unwrap().remove("kazoo-1");
    divided(&owned, &["a-rust-2"]).await;
    stop_2.begin();
    rust_2.await.unwrap();
    zk.close().await.unwrap();
}

on_each_with_kazoo! {
    kazoo_members_and_ours_divide_one_set,
    |python, servers| kazoo_and_rust_divide(&python, &servers).await
}
