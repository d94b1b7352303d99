//! kazoo's leases, parties, elections and semaphores, and ours in the same nodes.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::group::{Group, GroupEvent, GroupMember};
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lease::{MultiLease, TimedLease};
use zk_curator_recipes::lock::{Error, InterProcessSemaphore};
use zk_curator_testing::wait;
use zk_curator_tests::{builder_for, start};

const PATIENCE: Duration = Duration::from_secs(120);
const HOUR: Duration = Duration::from_secs(3600);

/// A process with kazoo that runs commands.
struct Kazoo {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Kazoo {
    fn start(python: &Path, connect_string: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/kazoo_names.py");
        let mut command = Command::new(python);
        command.arg("-B").arg(&script).arg(connect_string);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { _process: process, input, output }
    }

    async fn send(&mut self, command: &str) {
        self.input.write_all(format!("{command}\n").as_bytes()).await.unwrap();
    }

    async fn answer(&mut self) -> String {
        self.output.next_line().await.unwrap().expect("a response")
    }

    async fn run(&mut self, command: &str) -> String {
        self.send(command).await;
        self.answer().await
    }

    /// Runs a command again until it has this answer.
    async fn until(&mut self, command: &str, expected: &str) {
        let kazoo = Mutex::new(self);
        wait::until(async || kazoo.lock().await.run(command).await == expected).await;
    }
}

async fn leases(kazoo: &mut Kazoo, zk: &CuratorFramework) {
    let ours = TimedLease::new(zk, "/leases/a", "rust").with_kazoo();
    assert_eq!(kazoo.run("lease /leases/a 3600 'h\u{f6}st 1'").await, "true");
    let holder = ours.holder().await.unwrap().unwrap();
    assert_eq!(holder.id, "h\u{f6}st 1");
    assert!(ours.try_take(HOUR).await.unwrap().is_none());
    // The same holder, in the other language.
    let same = TimedLease::new(zk, "/leases/a", "h\u{f6}st 1").with_kazoo();
    let mut guard = same.try_take(HOUR).await.unwrap().unwrap();
    guard.renew(HOUR).await.unwrap();
    assert_eq!(kazoo.run("lease /leases/a 3600 other").await, "false");
    assert_eq!(kazoo.run("lease /leases/a 3600 'h\u{f6}st 1'").await, "true");
    // kazoo has replaced the node.
    assert!(guard.fence(zk.transaction().create("/late", "")).commit().await.is_err());
    assert!(guard.renew(HOUR).await.is_err());
    let guard = same.try_take(HOUR).await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert_eq!(kazoo.run("lease /leases/a 1 other").await, "true");
    let guard = wait::until_some(async || ours.try_take(HOUR).await.unwrap()).await;
    assert_eq!(kazoo.run("lease /leases/a 3600 other").await, "false");
    drop(guard);

    // Exactly one of two contenders gets each lease.
    let mut ours_taken = 0;
    for round in 0..30 {
        let path = format!("/leases/contest-{round}");
        kazoo.send(&format!("lease {path} 3600 kazoo")).await;
        let ours = TimedLease::new(zk, &path, "rust").with_kazoo();
        let taken = ours.try_take(HOUR).await.unwrap().is_some();
        let theirs = kazoo.answer().await == "true";
        assert!(taken != theirs, "{round}: {taken} {theirs}");
        ours_taken += u32::from(taken);
    }
    assert!((0..=30).contains(&ours_taken));

    // Several holders.
    let several = MultiLease::new(zk, "/leases/multi", 2, "rust").with_kazoo();
    assert_eq!(kazoo.run("multi_lease 2 /leases/multi 3600 one").await, "true");
    assert_eq!(several.try_take(HOUR).await.unwrap().unwrap().path(), "/leases/multi/1");
    assert_eq!(kazoo.run("multi_lease 2 /leases/multi 3600 two").await, "false");
    assert_eq!(several.holders().await.unwrap().len(), 2);
}

async fn parties(kazoo: &mut Kazoo, zk: &CuratorFramework) {
    for (kind, path) in [("Party", "/party"), ("ShallowParty", "/shallow")] {
        let is_shallow = kind == "ShallowParty";
        let group = Group::new(zk, path);
        let group =
            if is_shallow { group.with_kazoo_shallow_party() } else { group.with_kazoo_party() };
        let member = GroupMember::builder(zk, path, "w-1").data("ignored");
        let member =
            if is_shallow { member.with_kazoo_shallow_party() } else { member.with_kazoo_party() }
                .start();
        member.joined().await.unwrap();
        assert_eq!(kazoo.run(&format!("party {kind} {path} k-1")).await, r#"["k-1", "w-1"]"#);
        let members = group.wait_for(2).await.unwrap();
        assert_eq!(group.members().await.unwrap(), members);
        let mut ids: Vec<_> = members.values().cloned().collect();
        ids.sort();
        assert_eq!(ids, ["k-1", "w-1"]);

        let mut changes = group.follow();
        let mut joined = Vec::new();
        for _ in 0..2 {
            let GroupEvent::Joined { id, data } = changes.next().await.unwrap() else { panic!() };
            joined.push((id, data));
        }
        let (theirs, _) = joined.iter().find(|(_, data)| data == "k-1").unwrap();
        assert_eq!(kazoo.run(&format!("leave {path}")).await, "true");
        assert_eq!(changes.next().await.unwrap(), GroupEvent::Left { id: theirs.clone() });
        member.leave().await.unwrap();
        // The parent stays for kazoo, which does not create it again.
        assert_eq!(kazoo.run(&format!("members {path}")).await, "[]");
        assert_eq!(zk.exists(path).await.unwrap().unwrap().ephemeral_owner, 0);
    }
}

async fn elections(kazoo: &mut Kazoo, zk: &CuratorFramework) {
    let election = Election::new(zk, "/election").with_kazoo();
    let elected = election.campaign("rust-1").await.unwrap();
    kazoo.run("campaign /election kazoo-1").await;
    kazoo.until("contenders /election", r#"["rust-1", "kazoo-1"]"#).await;
    assert_eq!(kazoo.run("leaders").await, "[]");

    let latch = LeaderLatch::new(zk, "/election").id("rust-2").with_kazoo();
    let mut observer = latch.observe();
    assert_eq!(observer.next().await.unwrap().unwrap().label, "rust-1");
    let candidate = latch.join();
    kazoo.until("contenders /election", r#"["rust-1", "kazoo-1", "rust-2"]"#).await;
    elected.resign().await.unwrap();
    kazoo.until("leaders", r#"["kazoo-1"]"#).await;
    assert_eq!(election.leader().await.unwrap().unwrap().value, "kazoo-1");
    assert!(!candidate.has_leadership());
    let selector = LeaderSelector::new(zk, "/election").id("rust-3").with_kazoo();
    assert_eq!(selector.participants().await.unwrap().len(), 2);
    kazoo.run("resign /election").await;
    candidate.await_leadership().await.unwrap();
    assert_eq!(observer.next().await.unwrap().unwrap().label, "rust-2");
    candidate.close().await.unwrap();
    let led = selector.run_once(|_| async { "led" }).await.unwrap();
    assert_eq!(led, "led");
}

async fn semaphores(kazoo: &mut Kazoo, zk: &CuratorFramework) {
    let ours = InterProcessSemaphore::with_kazoo(zk, "/semaphore", 2).label("rust");
    let one = ours.acquire().await.unwrap();
    assert_eq!(kazoo.run("semaphore /semaphore 2 kazoo").await, "true");
    assert_eq!(kazoo.run("lease_holders /semaphore").await, r#"["kazoo", "rust"]"#);
    assert!(ours.try_acquire().await.unwrap().is_none());
    let holders = ours.participants().await.unwrap();
    let labels: Vec<_> = holders.iter().map(|holder| holder.label_str().into_owned()).collect();
    assert_eq!(labels, ["rust", "kazoo"]);

    // Each waits for the other.
    let is_awaited = async || !zk.children("/semaphore-__lock__").await.unwrap().is_empty();
    let (waited, answer) = tokio::join!(ours.acquire(), async {
        wait::until(&is_awaited).await;
        kazoo.run("release /semaphore").await
    });
    assert_eq!(answer, "true");
    let two = waited.unwrap();
    kazoo.send("wait_semaphore /semaphore 2 kazoo").await;
    wait::until(&is_awaited).await;
    one.release().await.unwrap();
    assert_eq!(kazoo.answer().await, "true");
    two.release().await.unwrap();
    assert_eq!(kazoo.run("release /semaphore").await, "true");

    // Both refuse another limit.
    let other = InterProcessSemaphore::with_kazoo(zk, "/semaphore", 3);
    let refused = other.acquire().await.unwrap_err();
    assert!(matches!(refused, Error::OtherLimit { stored: 2, limit: 3, .. }), "{refused:?}");
    assert!(kazoo.run("semaphore /semaphore 3 kazoo").await.contains("Inconsistent max leases"));
    // The node of kazoo.
    assert_eq!(kazoo.run("semaphore /theirs 1 kazoo").await, "true");
    let ours = InterProcessSemaphore::with_kazoo(zk, "/theirs", 1);
    assert!(ours.try_acquire().await.unwrap().is_none());
}

async fn all(python: &Path, connect_string: &str) {
    let zk = start(builder_for(connect_string)).await;
    let mut kazoo = Kazoo::start(python, connect_string);
    leases(&mut kazoo, &zk).await;
    parties(&mut kazoo, &zk).await;
    elections(&mut kazoo, &zk).await;
    semaphores(&mut kazoo, &zk).await;
    zk.close().await.unwrap();
}

on_each_with_kazoo! {
    kazoo_and_rust_share_leases_parties_and_semaphores,
    |python, servers| timeout(PATIENCE, all(&python, &servers)).await.unwrap()
}
