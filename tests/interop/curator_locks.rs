//! Java Curator and we contend for every lock that both have while processes of both are killed.

use crate::contest::{
    Java, PATIENCE, comes_with_a_lost_session, compiled, enter, framework, leave,
};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::{
    Error, InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, InterProcessSemaphoreMutex, attempt_revoke,
};

const BASE: &str = "/locks";
const KINDS: [&str; 5] = ["mutex", "semaphore-mutex", "read-write", "semaphore", "multi"];
const LEASES: usize = 2;
/// For each contender and kind.
const ROUNDS: usize = 40;
const SOURCE: &str = "CuratorLocksContender.java";

/// A Rust contender: it does the same as the Java program, with the same witnesses.
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
                Error::Lost { .. } => true,
                Error::Framework(error) => comes_with_a_lost_session(error),
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
                let guard = InterProcessMultiLock::of_mutexes(zk, paths).acquire().await?;
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
        let is_violated = |inside: &[String]| match role {
            "writer" => inside.len() > 1,
            "reader" => inside.iter().any(|name| name.starts_with("writer")),
            _ => inside.len() > LEASES,
        };
        Ok(enter(&self.zk, &place(kind), &format!("{role}-{}", self.label), is_violated).await?)
    }

    async fn leave(&self, kind: &str, role: &str) -> Result<(), Error> {
        Ok(leave(&self.zk, &place(kind), &format!("{role}-{}", self.label)).await?)
    }
}

fn place(kind: &str) -> String {
    format!("{BASE}/witness/{kind}")
}

async fn contend(connect_string: String, label: String, rounds: usize) {
    let zk = framework(&connect_string).await;
    let mut kinds = JoinSet::new();
    for kind in KINDS {
        kinds.spawn(Contender { zk: zk.clone(), label: label.clone() }.contend(kind, rounds));
    }
    while let Some(kind) = kinds.join_next().await {
        kind.unwrap();
    }
    zk.close().await.unwrap();
}

async fn java_and_rust_contend(connect_string: &str) {
    let program = compiled(SOURCE).await;
    let zk = framework(connect_string).await;
    for kind in KINDS {
        zk.create(place(kind)).creating_parents().await.unwrap();
    }
    let ours = |label, rounds| contend(connect_string.to_owned(), label, rounds);
    let java = ["contend", connect_string, BASE];
    let held = crate::contest::java_and_rust_contend(&program, java, ROUNDS, ours).await;
    assert!(held >= KINDS.len() * ROUNDS);
    zk.close().await.unwrap();
}

/// Each asks the other to let go, and is heard.
async fn java_and_rust_revoke(connect_string: &str) {
    let program = compiled(SOURCE).await;
    let zk = framework(connect_string).await;
    let mut java = Java::start(&program, ["revoke", connect_string, "/revocable"]);
    java.says("HELD revocable writer").await;
    let lock = InterProcessMutex::new(&zk, "/revocable");
    let holder = lock.participants().await.unwrap().remove(0);
    assert!(attempt_revoke(&zk, holder.path).await.unwrap());
    java.says("ASKED").await;
    let guard = lock.acquire().await.unwrap();
    guard.revoked().await;
    guard.release().await.unwrap();
    java.says("HELD again writer").await;
    assert_eq!(java.done().await, 0);
    zk.close().await.unwrap();
}

on_each_with_java! {
    every_lock_keeps_its_promise,
    |servers| {
        timeout(PATIENCE, java_and_rust_contend(&servers)).await.unwrap();
        timeout(PATIENCE, java_and_rust_revoke(&servers)).await.unwrap();
    }
}
