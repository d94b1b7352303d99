//! Java Curator's migrations and ours, on one set: each continues where the other one has stopped.

use std::time::Duration;

use futures_util::future::join;
use tokio::time::timeout;
use zk_curator::op::{CreateOp, DeleteOp};
use zk_curator::{Acl, CreateMode, CuratorFramework};
use zk_curator_real::java::{self, Program};
use zk_curator_recipes::migration::{Error, MigrationManager, MigrationSet};
use zk_curator_tests::{builder_for, start};

use crate::contest::compiled;
use crate::peer::Peer;

const PATIENCE: Duration = Duration::from_secs(120);
/// The time for one response of the Java program.
const ANSWER: Duration = Duration::from_secs(60);
const ALL: usize = 4;

/// The first migrations of `MigrationSets.java`.
fn set(count: usize, altered: bool) -> MigrationSet {
    let container = || CreateOp::new("/app/c").data("x").mode(CreateMode::Container);
    let sequential = || CreateOp::new("/app/s-").data("x").mode(CreateMode::PersistentSequential);
    let odd = || CreateOp::new("/app/odd,name}%").data("ä").acl(Acl::read_unsafe());
    (0..count)
        .fold(MigrationSet::builder("orders").compatible(), |set, index| {
            let is_altered = altered && index + 1 == count;
            set.migration(format!("m{index}"), |m| match index {
                _ if is_altered => m.set_data("/app", "altered"),
                0 => m.create("/app", "").create("/app/a", "hello"),
                1 => m.set_data("/app", &b"\xc3\x05"[..]).check("/app", 1).with(container()),
                2 => m.with(sequential()).delete("/app/a"),
                _ => m.with(odd()).with(DeleteOp::new("/app/c").version(0)),
            })
        })
        .build()
        .unwrap()
}

/// Returns `true` if all migrations have had their effects.
async fn is_complete(zk: &CuratorFramework) -> bool {
    let mut names = zk.children("/app").await.unwrap();
    names.sort_unstable();
    let (data, stat) = zk.get_data("/app").with_stat().await.unwrap();
    names == ["odd,name}%", "s-0000000002"] && &data[..] == b"\xc3\x05" && stat.version == 1
}

/// Java applies the first ones, Rust the next ones, and so on.
async fn in_turns(program: &Program, connect_string: &str, java_begins: bool) {
    let zk = start(builder_for(connect_string)).await;
    let manager = MigrationManager::new(&zk, "/migrations/locks", "/migrations/meta");
    let mut java = Peer::java(program, [connect_string], ANSWER);
    let mut applied = 0;
    for (turn, count) in [2, 3, ALL].into_iter().enumerate() {
        if (turn % 2 == 0) == java_begins {
            assert_eq!(java.tell(&format!("migrate {count}")).await, "ok");
        } else {
            let outcome = manager.migrate(&set(count, false)).await.unwrap();
            assert_eq!((outcome.applied.len(), outcome.already), (count - applied, applied));
        }
        applied = count;
        // Both find it complete, and both notice a difference.
        assert_eq!(java.tell(&format!("migrate {count}")).await, "ok");
        assert_eq!(manager.migrate(&set(count, false)).await.unwrap().already, count);
        assert_eq!(java.tell(&format!("altered {count}")).await, "mismatch");
        let altered = manager.migrate(&set(count, true)).await.unwrap_err();
        assert!(matches!(altered, Error::Mismatch { index, .. } if index + 1 == count));
        assert_eq!(java.tell(&format!("migrate {}", count - 1)).await, "more");
        let ahead = manager.migrate(&set(count - 1, false)).await.unwrap_err();
        assert!(matches!(ahead, Error::Ahead { found, .. } if found == count), "{ahead}");
    }
    assert!(is_complete(&zk).await);
    java.end().await;
    clean_up(&zk).await;
}

/// Both start at the same time.
async fn at_the_same_time(program: &Program, connect_string: &str) {
    let zk = start(builder_for(connect_string)).await;
    let manager = MigrationManager::new(&zk, "/migrations/locks", "/migrations/meta");
    let mut java = Peer::java(program, [connect_string], ANSWER);
    let count = format!("migrate {ALL}");
    let all = set(ALL, false);
    let (answer, outcome) = join(java.tell(&count), manager.migrate(&all)).await;
    assert_eq!((answer.as_str(), outcome.unwrap().already % ALL), ("ok", 0));
    assert!(is_complete(&zk).await);
    assert_eq!(zk.children("/migrations/meta/orders").await.unwrap().len(), ALL);
    java.end().await;
    clean_up(&zk).await;
}

async fn clean_up(zk: &CuratorFramework) {
    for path in ["/app", "/migrations"] {
        zk.delete(path).deleting_children().quietly().await.unwrap();
    }
    zk.close().await.unwrap();
}

async fn with_java(connect_string: &str) {
    // Curator's own manager, where its library is installed.
    let has_manager = java::has_library("curator-x-async");
    let sources =
        if has_manager { "CuratorAsyncMigrations.java" } else { "CuratorMigrations.java" };
    let program = compiled(sources).await;
    timeout(PATIENCE, async {
        in_turns(&program, connect_string, true).await;
        in_turns(&program, connect_string, false).await;
        at_the_same_time(&program, connect_string).await;
    })
    .await
    .unwrap();
}

on_each_with_java! {
    migrations_are_shared_with_curator,
    |servers| with_java(&servers).await
}
