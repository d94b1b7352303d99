//! Java Curator and we contend for every lock that both have, and processes of both are killed meanwhile.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod common;

use std::path::Path;
use std::time::Duration;

use common::builder_for;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};
use zk_curator_recipes::lock::{
    Error, InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, InterProcessSemaphoreMutex, attempt_revoke,
};
use zk_curator_testing::real::java::{self, Program};
use zk_curator_testing::{TestServer, real};

const BASE: &str = "/locks";
const KINDS: [&str; 5] = ["mutex", "semaphore-mutex", "read-write", "semaphore", "multi"];
const LEASES: usize = 2;
/// For each contender and kind.
const ROUNDS: usize = 40;
const ENDLESS: usize = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(180);

async fn compiled() -> Program {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/CuratorLocksContender.java");
    Program::compile(source).await.unwrap()
}

async fn framework(connect_string: &str) -> CuratorFramework {
    let zk = builder_for(connect_string).session_timeout(Duration::from_secs(4)).build().unwrap();
    zk.start().await.unwrap();
    zk
}

/// One of ours: the same as the Java program does, with the same witnesses.
#[derive(Clone)]
struct Contender {
    zk: CuratorFramework,
    label: String,
}

impl Contender {
    async fn contend(self, kind: &'static str, rounds: usize) {
        let mut rng = fastrand::Rng::new();
        for _ in 0..rounds {
            let done = self.round(kind, &mut rng).await;
            // A session may be lost where everything is slow: the witness is gone with it.
            let lost = |error: &Error| match error {
                Error::Lost => true,
                Error::Framework(error) => {
                    error.is_session_lost() || error.kind() == ErrorKind::NoNode || error.is_retryable()
                }
                _ => false,
            };
            assert!(done.is_ok() || done.as_ref().is_err_and(lost), "{kind}: {done:?}");
        }
    }

    async fn round(&self, kind: &'static str, rng: &mut fastrand::Rng) -> Result<(), Error> {
        let zk = &self.zk;
        let path = format!("{BASE}/{kind}");
        match kind {
            "mutex" => self.alone(kind, &InterProcessMutex::new(zk, path)).await,
            "semaphore-mutex" => self.alone(kind, &InterProcessSemaphoreMutex::new(zk, path)).await,
            "multi" => {
                let mut paths = vec![format!("{path}/a"), format!("{path}/b"), format!("{path}/c")];
                paths.swap_remove(rng.usize(..3));
                let guard = InterProcessMultiLock::of_mutexes(zk, paths)?.acquire().await?;
                self.enter(kind, "writer").await?;
                self.leave(kind, "writer").await?;
                guard.release().await
            }
            "semaphore" => {
                let lease = InterProcessSemaphore::new(zk, path, LEASES as u32).acquire().await?;
                self.enter(kind, "lease").await?;
                self.leave(kind, "lease").await?;
                lease.release().await
            }
            _ => self.read_write(kind, &InterProcessReadWriteLock::new(zk, path), rng).await,
        }
    }

    async fn alone(&self, kind: &str, lock: &dyn InterProcessLock) -> Result<(), Error> {
        let guard = lock.acquire().await?;
        self.enter(kind, "writer").await?;
        self.leave(kind, "writer").await?;
        guard.release().await
    }

    async fn read_write(
        &self,
        kind: &str,
        lock: &InterProcessReadWriteLock,
        rng: &mut fastrand::Rng,
    ) -> Result<(), Error> {
        let reader = if rng.bool() {
            lock.read_lock().acquire().await?
        } else {
            let writer = lock.write_lock().acquire().await?;
            self.enter(kind, "writer").await?;
            self.leave(kind, "writer").await?;
            if rng.bool() {
                return writer.release().await;
            }
            writer.downgrade().await.map_err(|unchanged| unchanged.why)?
        };
        self.enter(kind, "reader").await?;
        self.leave(kind, "reader").await?;
        match reader.try_upgrade().await {
            Ok(writer) => {
                self.enter(kind, "writer").await?;
                self.leave(kind, "writer").await?;
                writer.release().await
            }
            Err(unchanged) => unchanged.guard.release().await,
        }
    }

    async fn enter(&self, kind: &str, role: &str) -> Result<(), Error> {
        let place = format!("{BASE}/witness/{kind}");
        let witness = format!("{place}/{role}-{}", self.label);
        let created = self.zk.create(&witness).mode(CreateMode::Ephemeral).await;
        assert!(!created.as_ref().is_err_and(|error| error.kind() == ErrorKind::NodeExists), "{witness}");
        created?;
        let inside = self.zk.children(&place).await?;
        let violated = match role {
            "writer" => inside.len() > 1,
            "reader" => inside.iter().any(|name| name.starts_with("writer")),
            _ => inside.len() > LEASES,
        };
        assert!(!violated, "{witness} among {inside:?}");
        Ok(())
    }

    async fn leave(&self, kind: &str, role: &str) -> Result<(), Error> {
        Ok(self.zk.delete(format!("{BASE}/witness/{kind}/{role}-{}", self.label)).guaranteed().await?)
    }
}

async fn contend(connect_string: &str, label: String, rounds: usize) {
    let zk = framework(connect_string).await;
    let mut kinds = JoinSet::new();
    for kind in KINDS {
        kinds.spawn(Contender { zk: zk.clone(), label: label.clone() }.contend(kind, rounds));
    }
    while let Some(kind) = kinds.join_next().await {
        kind.unwrap();
    }
    zk.close().await.unwrap();
}

/// One of ours that is killed: everything it does stops between two instructions, and its sockets are closed. It ends
/// when `killed` does.
fn victim(connect_string: String, label: String, killed: tokio::sync::oneshot::Receiver<()>) {
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move { contend(&connect_string, label, ENDLESS).await });
        drop(killed.blocking_recv());
        runtime.shutdown_background();
    });
}

struct Java {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Java {
    fn start(program: &Program, connect_string: &str, rounds: usize, label: &str) -> Self {
        let mut child = program.spawn(["contend", connect_string, BASE, &rounds.to_string(), label]).unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads until it has held so many locks.
    async fn held(&mut self, count: usize) {
        for _ in 0..count {
            let line = self.lines.next_line().await.unwrap().unwrap();
            assert!(line.starts_with("HELD "), "{line}");
        }
    }

    /// Reads on until it is done.
    async fn done(mut self) -> usize {
        let mut held = 0;
        while let Some(line) = self.lines.next_line().await.unwrap() {
            if line == "DONE" {
                assert!(self.child.wait().await.unwrap().success());
                return held;
            }
            assert!(line.starts_with("HELD "), "{line}");
            held += 1;
        }
        panic!("it ended before it was done");
    }
}

async fn java_and_rust_contend(connect_string: &str) {
    let program = compiled().await;
    let zk = framework(connect_string).await;
    for kind in KINDS {
        zk.create(format!("{BASE}/witness/{kind}")).creating_parents().await.unwrap();
    }
    let java = Java::start(&program, connect_string, ROUNDS, "java");
    let mut ours = JoinSet::new();
    for label in ["rust-1", "rust-2"] {
        let connect_string = connect_string.to_owned();
        ours.spawn(async move { contend(&connect_string, label.to_owned(), ROUNDS).await });
    }
    for life in 0..2 {
        let (kill, killed) = tokio::sync::oneshot::channel();
        victim(connect_string.to_owned(), format!("rust-victim-{life}"), killed);
        let mut victim = Java::start(&program, connect_string, ENDLESS, &format!("java-victim-{life}"));
        victim.held(fastrand::usize(20..60)).await;
        kill.send(()).unwrap();
        victim.child.kill().await.unwrap();
    }
    while let Some(contender) = ours.join_next().await {
        contender.unwrap();
    }
    assert!(java.done().await >= KINDS.len() * ROUNDS);
    zk.close().await.unwrap();
}

/// Each asks the other to let go, and is heard.
async fn java_and_rust_revoke(connect_string: &str) {
    let program = compiled().await;
    let zk = framework(connect_string).await;
    let mut java = program.spawn(["revoke", connect_string, "/revocable"]).unwrap();
    let mut lines = BufReader::new(java.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "HELD revocable writer");
    let lock = InterProcessMutex::new(&zk, "/revocable");
    let holder = lock.participants().await.unwrap().remove(0);
    assert!(attempt_revoke(&zk, holder.path).await.unwrap());
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "ASKED");
    let guard = lock.acquire().await.unwrap();
    guard.revoked().await;
    guard.release().await.unwrap();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "HELD again writer");
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "DONE");
    assert!(java.wait().await.unwrap().success());
    zk.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_apache_zookeeper_every_lock_keeps_its_promise() {
    let name = "on_apache_zookeeper_every_lock_keeps_its_promise";
    if !real::runs(name, java::available()) {
        return;
    }
    let Some(zookeeper) = real::or_skip(name).await else { return };
    timeout(PATIENCE, java_and_rust_contend(&zookeeper.connect_string())).await.unwrap();
    timeout(PATIENCE, java_and_rust_revoke(&zookeeper.connect_string())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_server_every_lock_keeps_its_promise() {
    if !real::runs("on_the_embedded_server_every_lock_keeps_its_promise", java::available()) {
        return;
    }
    let server = TestServer::start().await;
    timeout(PATIENCE, java_and_rust_contend(&server.connect_string())).await.unwrap();
    timeout(PATIENCE, java_and_rust_revoke(&server.connect_string())).await.unwrap();
}
