//! Migrations whose operations depend on what exists.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::migration::{Error, MigrationSet, Operations, Reads};
use zk_curator_testing::wait::settled;
use zk_curator_testing::{ErrorCode, RuleGuard, Verdict};
use zk_curator_tests::{
    assert_matches, once_on_write_multi, simulated_each, simulated_on, simulated_with,
    two_in_memory,
};

use crate::migration::manager;

type Computed = Result<Operations, Box<dyn std::error::Error + Send + Sync>>;

/// A set with one migration, which runs `change` after its reads for the first `times`.
fn raced<F>(
    other: &CuratorFramework,
    times: usize,
    read: impl Fn(Reads) -> F + Send + Sync + 'static,
    change: impl AsyncChange,
) -> (MigrationSet, Arc<AtomicUsize>)
where
    F: Future<Output = Computed> + Send + 'static,
{
    let (other, runs) = (other.clone(), Arc::new(AtomicUsize::new(0)));
    let (count, change) = (Arc::clone(&runs), Arc::new(change));
    let set = MigrationSet::builder("orders").computed("m", "1", move |reads| {
        let (computing, other) = (read(reads), other.clone());
        let (run, change) = (count.fetch_add(1, Ordering::Relaxed), Arc::clone(&change));
        async move {
            let computed = computing.await;
            if run < times {
                change.run(other).await;
            }
            computed
        }
    });
    (set.build().unwrap(), runs)
}

trait AsyncChange: Send + Sync + 'static {
    fn run(&self, zk: CuratorFramework) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl<F, Fut> AsyncChange for F
where
    F: Fn(CuratorFramework) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    fn run(&self, zk: CuratorFramework) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self(zk))
    }
}

#[test]
fn a_computed_migration_sees_the_results_of_earlier_ones() {
    let set = |revision: &str| {
        MigrationSet::builder("orders")
            .migration("limit", |m| m.create("/limits", "10"))
            .computed("move", revision, |reads| async move {
                let old = reads.get_data("/limits").await?;
                Ok::<_, zk_curator::Error>(Operations::new().create("/limits/v2", old))
            })
            .migration("more", |m| m.create("/limits/v3", ""))
            .build()
            .unwrap()
    };
    simulated_with(async |server, zk| {
        let outcome = manager(&zk).migrate(&set("1")).await.unwrap();
        assert_eq!(outcome.applied, ["limit", "move", "more"]);
        assert_eq!(server.probe().data("/limits/v2").unwrap(), "10");
        // The checksum does not depend on what was computed.
        zk.set_data("/limits", "20").await.unwrap();
        assert_eq!(manager(&zk).migrate(&set("1")).await.unwrap().already, 3);
        let error = manager(&zk).migrate(&set("2")).await.unwrap_err();
        assert!(matches!(error, Error::Mismatch { index: 1, .. }), "{error}");
    });
}

#[test]
fn a_computed_migration_is_repeated_when_what_it_read_changes() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/a").data("1").await.unwrap();
        let read = |reads: Reads| async move {
            let data = reads.get_data("/a").await?;
            Computed::Ok(Operations::new().create("/b", data))
        };
        let (set, runs) = raced(&other, 3, read, |zk: CuratorFramework| async move {
            let (data, _) = zk.get_data("/a").with_stat().await.unwrap();
            zk.set_data("/a", [&data[..], b"1"].concat()).await.unwrap();
        });
        manager(&zk).migrate(&set).await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 4);
        assert_eq!(server.probe().data("/b").unwrap(), "1111");
    });
}

#[test]
fn an_absent_node_is_guarded_with_its_parents() {
    simulated_each(["/x", "/x/y/z"], async |path, server, zk| {
        let read = move |reads: Reads| async move {
            let found = reads.find_data(path).await?;
            let text = if found.is_some() { "found" } else { "absent" };
            Computed::Ok(Operations::new().create("/b", text))
        };
        let (set, runs) = raced(&zk, 1, read, move |zk: CuratorFramework| async move {
            zk.create(path).creating_parents().await.unwrap();
        });
        manager(&zk).migrate(&set).await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        assert_eq!(server.probe().data("/b").unwrap(), "found");
    });
}

/// A body that goes on without a node is repeated when the node is created, whichever method has
/// told it so.
#[test]
fn a_node_that_get_data_did_not_find_is_guarded() {
    simulated_with(async |server, zk| {
        let read = |reads: Reads| async move {
            let found = reads.get_data("/x").await;
            let text = if found.is_ok() { "found" } else { "absent" };
            Computed::Ok(Operations::new().create("/b", text))
        };
        let (set, runs) = raced(&zk, 1, read, |zk: CuratorFramework| async move {
            zk.create("/x").await.unwrap();
        });
        manager(&zk).migrate(&set).await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        assert_eq!(server.probe().data("/b").unwrap(), "found");
    });
}

/// The guards leave nothing, and the migration may create what was absent.
#[test]
fn what_was_absent_may_be_created() {
    let set = MigrationSet::builder("orders").computed("m", "1", |reads| async move {
        let mut operations = Operations::new();
        if !reads.exists("/app/config").await? {
            operations = operations.create("/app", "").create("/app/config", "");
        }
        if reads.children("/none/at/all").await?.is_none() {
            operations = operations.create("/app/none", "");
        }
        Ok::<_, zk_curator::Error>(operations)
    });
    let set = set.build().unwrap();
    simulated_with(async |server, zk| {
        manager(&zk).migrate(&set).await.unwrap();
        let probe = server.probe();
        assert!(probe.exists("/app/config") && probe.exists("/app/none"));
        assert!(!probe.exists("/none"));
    });
}

#[test]
fn listed_children_are_guarded() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        for path in ["/old", "/old/a", "/old/b"] {
            zk.create(path).await.unwrap();
        }
        let read = |reads: Reads| async move {
            let names = reads.children("/old").await?.unwrap_or_default();
            let mut operations = Operations::new().create("/new", names.join(","));
            for name in names {
                operations = operations.delete(format!("/old/{name}"));
            }
            // Fails while there are other children.
            Computed::Ok(operations.delete("/old"))
        };
        let (set, runs) = raced(&other, 2, read, |zk: CuratorFramework| async move {
            match zk.delete("/old/a").await {
                Ok(()) => {}
                Err(_) => drop(zk.create("/old/c").await),
            }
        });
        manager(&zk).migrate(&set).await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        let probe = server.probe();
        assert_eq!(probe.data("/new").unwrap(), "b,c");
        assert!(!probe.exists("/old"));
    });
}

#[test]
fn a_computation_that_always_loses_gives_up() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        let read = |reads: Reads| async move {
            reads.get_data("/a").await?;
            Computed::Ok(Operations::new().create("/b", ""))
        };
        let change =
            |zk: CuratorFramework| async move { assert!(zk.set_data("/a", "").await.is_ok()) };
        let (set, runs) = raced(&zk, usize::MAX, read, change);
        let error = manager(&zk).migrate(&set).await.unwrap_err();
        assert!(matches!(error, Error::Busy { .. }) && error.is_retryable(), "{error}");
        assert_eq!(runs.load(Ordering::Relaxed), 51);
        assert!(!server.probe().exists("/b"));
    });
}

#[test]
fn a_refused_computation_is_repeated_and_reported() {
    simulated_with(async |server, zk| {
        let set = MigrationSet::builder("orders").computed("m", "1", |_reads| async {
            let operations = Operations::new().create("/a", "").create("/none/a", "");
            Ok::<_, zk_curator::Error>(operations)
        });
        let error = manager(&zk).migrate(&set.build().unwrap()).await.unwrap_err();
        assert_matches!(&error, Error::Refused { migration, index: 1, path, code }
            if migration == "m" && path == "/none/a" && *code == ErrorCode::NoNode);
        assert!(!server.probe().exists("/a"));
    });
}

#[test]
fn the_failure_of_a_computation_is_returned() {
    simulated_with(async |server, zk| {
        let failing = |path: &'static str| {
            let set = MigrationSet::builder("orders").computed("m", "1", move |reads| async move {
                let data = reads.get_data(path).await?;
                let number: u32 = std::str::from_utf8(&data)?.parse()?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                    Operations::new().create("/b", number.to_string()),
                )
            });
            set.build().unwrap()
        };
        zk.create("/a").data("x").await.unwrap();
        let error = manager(&zk).migrate(&failing("/a")).await.unwrap_err();
        assert_matches!(&error, Error::Computation { migration, .. } if migration == "m");
        let source = std::error::Error::source(&error).unwrap();
        assert!(source.to_string().contains("invalid digit"), "{source}");
        let error = manager(&zk).migrate(&failing("/none")).await.unwrap_err();
        assert_matches!(&error, Error::Framework(error) if error.kind() == ErrorKind::NoNode);
        // Nothing is left, and the lock is free.
        zk.set_data("/a", "7").await.unwrap();
        manager(&zk).migrate(&failing("/a")).await.unwrap();
        assert_eq!(server.probe().data("/b").unwrap(), "7");
    });
}

#[test]
fn a_torn_read_is_repeated() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/a").data("1").await.unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let set = MigrationSet::builder("orders").computed("m", "1", move |reads| {
            let (run, other) = (count.fetch_add(1, Ordering::Relaxed), other.clone());
            async move {
                let before = reads.get_data("/a").await?;
                if run == 0 {
                    other.set_data("/a", "2").await?;
                }
                let after = reads.get_data("/a").await?;
                let both = [&before[..], &after[..]].concat();
                Ok::<_, zk_curator::Error>(Operations::new().create("/b", both))
            }
        });
        manager(&zk).migrate(&set.build().unwrap()).await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        assert_eq!(server.probe().data("/b").unwrap(), "22");
    });
}

#[test]
fn a_lost_response_applies_a_computed_migration_once() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        zk.create("/n").data("1").await.unwrap();
        let set = MigrationSet::builder("orders").computed("double", "1", |reads| async move {
            let data = String::from_utf8_lossy(&reads.get_data("/n").await?).into_owned();
            let twice = (data.parse::<u32>().unwrap_or(0) * 2).to_string();
            Ok::<_, zk_curator::Error>(Operations::new().set_data("/n", twice))
        });
        let set = set.build().unwrap();
        manager(&zk).migrate(&MigrationSet::builder("x").build().unwrap()).await.unwrap();
        let manager = manager(&zk);
        let run = tokio::spawn(async move { manager.migrate(&set).await });
        let lost = once_on_write_multi(&server, verdict);
        run.await.unwrap().unwrap();
        assert_eq!(lost.hits(), 1);
        assert_eq!(server.probe().data("/n").unwrap(), "2");
    });
}

/// The documented limit: ZooKeeper compares only versions.
#[test]
fn a_node_that_was_replaced_at_the_same_version_is_not_noticed() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/a").data("1").await.unwrap();
        let read = |reads: Reads| async move {
            Computed::Ok(Operations::new().create("/b", reads.get_data("/a").await?))
        };
        let (set, runs) = raced(&other, 1, read, |zk: CuratorFramework| async move {
            zk.delete("/a").await.unwrap();
            zk.create("/a").data("2").await.unwrap();
            settled().await;
        });
        manager(&zk).migrate(&set).await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        assert_eq!(server.probe().data("/b").unwrap(), "1");
    });
}

#[test]
fn java_cannot_compute() {
    let set = MigrationSet::builder("orders").compatible();
    let set = set.computed("m", "1", |_| async { Ok::<_, zk_curator::Error>(Operations::new()) });
    assert!(matches!(set.build(), Err(Error::NotCompatible { migration, .. }) if migration == "m"));
}

/// The body has handled that a node is missing, and hides a failure that has no guard.
#[test]
fn failure_is_returned_although_a_missing_node_was_handled() {
    let codes = [ErrorCode::NoAuth, ErrorCode::MarshallingError];
    simulated_each(codes, async |code, server, zk| {
        zk.create("/a").data("1").await.unwrap();
        let set = MigrationSet::builder("orders").computed("m", "1", |reads| async move {
            let mut operations = Operations::new();
            if reads.get_data("/x").await.is_err() {
                operations = operations.create("/x", "");
            }
            let text = reads.find_data("/a").await.ok().flatten().map_or("none", |_| "some");
            Ok::<_, zk_curator::Error>(operations.create("/b", text))
        });
        let set = set.build().unwrap();
        let refused = server.rule(move |request| match request.opcode() {
            OpCode::GetData if request.path() == Some("/a") => Verdict::Refuse(code),
            _ => Verdict::Pass,
        });
        let error = manager(&zk).migrate(&set).await.unwrap_err();
        assert_matches!(&error, Error::Framework(error) if error.code() == Some(code));
        assert!(refused.hits() > 0 && !server.probe().exists("/b"));
        drop(refused);
        manager(&zk).migrate(&set).await.unwrap();
        assert_eq!(server.probe().data("/b").unwrap(), "some");
    });
}

#[test]
fn error_of_a_body_is_returned_despite_a_handled_missing_node() {
    simulated_with(async |server, zk| {
        let set = MigrationSet::builder("orders").computed("m", "1", |reads| async move {
            drop(reads.get_data("/x").await);
            Computed::Err("its own".into())
        });
        let error = manager(&zk).migrate(&set.build().unwrap()).await.unwrap_err();
        assert_matches!(&error, Error::Computation { source, .. } if source.to_string() == "its own");
        assert!(!server.probe().exists("/x"));
    });
}

#[test]
fn computed_migration_that_is_too_large_is_named() {
    simulated_with(async |_server, zk| {
        let set = MigrationSet::builder("orders")
            .migration("first", |m| m.create("/a", ""))
            .computed("large", "1", |_| async {
                let operations = Operations::new().create("/b", vec![b'x'; 2 << 20]);
                Ok::<_, zk_curator::Error>(operations)
            });
        let error = manager(&zk).migrate(&set.build().unwrap()).await.unwrap_err();
        assert_eq!(error.applied(), ["first"]);
        assert_matches!(error.reason(), Error::TooLarge { migration, .. } if migration == "large");
    });
}

#[test]
fn error_because_of_two_states_is_computed_again() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        for path in ["/a", "/b"] {
            zk.create(path).data("1").await.unwrap();
        }
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let set = MigrationSet::builder("orders").computed("m", "1", move |reads| {
            let (run, other) = (count.fetch_add(1, Ordering::Relaxed), other.clone());
            async move {
                let a = reads.get_data("/a").await?;
                if run == 0 {
                    other.set_data("/a", "2").await?;
                    other.set_data("/b", "2").await?;
                }
                let b = reads.get_data("/b").await?;
                if a != b {
                    return Computed::Err("they are never different".into());
                }
                Ok(Operations::new().create("/c", a))
            }
        });
        manager(&zk).migrate(&set.build().unwrap()).await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        assert_eq!(server.probe().data("/c").unwrap(), "2");
    });
}

/// The check of the reads changes nothing, so its outcome does not matter.
#[test]
fn error_of_a_computation_is_returned_whatever_is_lost() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let lost = Arc::new(Mutex::new(None));
        let (rule, control) = (Arc::clone(&lost), server.clone());
        let set = MigrationSet::builder("orders").computed("m", "1", move |reads| {
            let rule = Arc::clone(&rule);
            let control = control.clone();
            async move {
                let exists = reads.exists("/a").await?;
                *rule.lock().unwrap() = Some(once_on_write_multi(&control, verdict));
                Computed::Err(if exists { "it is there" } else { "it is missing" }.into())
            }
        });
        let error = manager(&zk).migrate(&set.build().unwrap()).await.unwrap_err();
        assert_matches!(&error, Error::Computation { source, .. }
            if source.to_string() == "it is missing");
        assert!(!error.may_have_applied() && !server.probe().exists("/a"));
        assert_eq!(lost.lock().unwrap().as_ref().map(RuleGuard::hits), Some(1));
    });
}
