//! Bodies: what they are told, when they are dropped, and when they run again.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use zk_curator::ErrorKind;
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::health::Health;
use zk_curator_recipes::partition::{OwnedPartition, PartitionEvent};
use zk_curator_testing::Verdict;
use zk_curator_testing::wait::{self, idle, settled, spend};
use zk_curator_tests::{
    always, assert_matches, closes_clean, simulated_on, simulated_with, two_in_memory,
};

use super::*;

/// Runs a member of one part with this body, until it ends or a minute has passed.
async fn for_a_minute<F: Future<Output = Result<(), &'static str>>>(
    partitioner: SetPartitioner,
    body: impl Fn(Partition) -> F,
) -> Option<Result<(), Error>> {
    timeout(60 * SECOND, partitioner.run(body)).await.ok()
}

#[test]
fn a_revoked_body_may_finish_and_is_dropped_after_the_drain() {
    for (takes, expected) in [(4, 4), (60, 10)] {
        simulated_on(Stage::new, async |stage| {
            let one = stage.join("a", 10, takes * SECOND).await;
            stage.until(&["a"], 10).await;
            let two = stage.join("b", 10, SECOND).await;
            idle(SECOND * 5 / 2).await;
            // It is revoked, and not released.
            assert_eq!(stage.loads(), [("a".to_owned(), 10)].into());
            let since = Instant::now();
            stage.until(&["a", "b"], 10).await;
            let waited = since.elapsed().as_secs_f64() + 0.5;
            assert!((waited - f64::from(expected)).abs() < 0.1, "{waited} s");
            drop((one, two));
        });
    }
}

/// The next owner would start next to a body that has not ended.
#[test]
fn a_lock_is_released_after_its_body_was_dropped() {
    simulated_on(Stage::new, async |stage| {
        let member = stage.join("a", 10, 60 * SECOND).await;
        stage.until(&["a"], 10).await;
        let board = Arc::clone(&stage.board);
        let deletes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&deletes);
        let _rule = stage.server.rule(move |request| {
            let part = request.paths().find_map(|path| path.split('/').nth(4).map(str::to_owned));
            if request.is(OpCode::Delete)
                && let Some(part) = part
            {
                assert!(!board.lock().unwrap().owners.contains_key(&part), "{part} is at work");
                count.fetch_add(1, Ordering::SeqCst);
            }
            Verdict::Pass
        });
        let _other = stage.join("b", 10, SECOND).await;
        stage.until(&["a", "b"], 10).await;
        member.abort();
        stage.until(&["b"], 10).await;
        assert!(deletes.load(Ordering::SeqCst) >= 10);
    });
}

#[test]
fn a_member_leaves_after_it_has_released_everything() {
    simulated_on(Stage::new, async |stage| {
        let member = stage.join("a", 5, SECOND).await;
        stage.until(&["a"], 5).await;
        let deleted: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&deleted);
        let _rule = stage.server.rule(move |request| {
            if request.is(OpCode::Delete) {
                log.lock().unwrap().extend(request.paths().map(str::to_owned));
            }
            Verdict::Pass
        });
        let zk = member.zk.clone();
        member.stop().await;
        let deleted = deleted.lock().unwrap().clone();
        assert_eq!(deleted.len(), 6, "{deleted:?}");
        assert_eq!(deleted[5], format!("{PATH}/members/a"));
        assert!(deleted[..5].iter().all(|path| path.starts_with(&format!("{PATH}/parts/"))));
        closes_clean(&stage.server, &zk).await;
    });
}

#[test]
fn a_body_that_fails_runs_again_with_growing_pauses() {
    simulated_with(async |_, zk| {
        let (tell, mut told) = mpsc::unbounded_channel();
        let body = async |part: Partition| {
            tell.send((Instant::now(), part.fencing_token())).unwrap();
            Err("it fails")
        };
        let partitioner = partitioner(&zk, "a", 1).restart(SECOND, 4 * SECOND);
        assert!(for_a_minute(partitioner, body).await.is_none());
        let (mut last, token) = told.recv().await.unwrap();
        for longest in [1, 2, 4, 4, 4] {
            let (at, same) = told.recv().await.unwrap();
            let pause = at - last;
            assert!(pause >= longest * SECOND / 2 && pause <= longest * SECOND, "{pause:?}");
            assert_eq!(token, same);
            last = at;
        }
    });
}

#[test]
fn a_failing_body_can_end_the_member() {
    simulated_with(async |server, zk| {
        let body = async |part: Partition| {
            if part.name() == "s3" {
                return Err("no disk");
            }
            part.revoked().await;
            Ok(())
        };
        let ran = for_a_minute(partitioner(&zk, "a", 5).end_on_error(), body).await.unwrap();
        let Err(Error::Body { part, why, .. }) = &ran else { panic!("{ran:?}") };
        assert_eq!((part.as_str(), why.as_str()), ("s3", "no disk"));
        assert!(ran.unwrap_err().may_have_applied());
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn the_other_bodies_drain_before_an_error_ends_the_member() {
    // How long they take; more than they may.
    for (takes, all) in [(SECOND, 4), (11 * SECOND, 0)] {
        simulated_with(async |server, zk| {
            let (begun, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let body = async |part: Partition| {
                begun.fetch_add(1, Ordering::SeqCst);
                if part.name() == "s3" {
                    wait::until(async || begun.load(Ordering::SeqCst) >= 5).await;
                    return Err("no disk");
                }
                part.revoked().await;
                spend(takes).await;
                finished.fetch_add(1, Ordering::SeqCst);
                // Only the first error counts.
                Err("late")
            };
            let ran = for_a_minute(partitioner(&zk, "a", 5).end_on_error(), body).await.unwrap();
            let Err(Error::Body { part, why, .. }) = &ran else { panic!("{ran:?}") };
            assert_eq!((part.as_str(), why.as_str()), ("s3", "no disk"));
            assert_eq!(finished.load(Ordering::SeqCst), all);
            closes_clean(&server, &zk).await;
        });
    }
}

#[test]
fn a_body_that_ends_gives_its_part_up_until_the_next_change() {
    simulated_with(async |server, zk| {
        let runs = Arc::new(AtomicUsize::new(0));
        let (first, count) = (partitioner(&zk, "a", 1), Arc::clone(&runs));
        let mut health = first.health();
        let member = tokio::spawn(async move {
            let body = async |_: Partition| {
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, String>(())
            };
            first.run(body).await
        });
        idle(60 * SECOND).await;
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(server.probe().children(&format!("{PATH}/parts/s0")).is_empty());
        // Nobody works on it.
        assert_matches!(health.next().await, Some(Health::Waiting));
        // A member that takes no part is a change.
        zk.create(format!("{PATH}/members/zz")).await.unwrap();
        zk.delete(format!("{PATH}/members/zz")).await.unwrap();
        idle(60 * SECOND).await;
        let again = runs.load(Ordering::SeqCst);
        assert!((1..=3).contains(&again), "{again} runs");
        member.abort();
    });
}

/// A part that comes back while its body drains.
/// An operator deletes the lock, and a fenced write of the body is refused, for example.
#[test]
fn a_body_that_ends_after_its_part_was_lost_runs_again() {
    simulated_on(two_in_memory, async |(_, zk, other)| {
        let runs = AtomicUsize::new(0);
        let body = async |part: Partition| {
            if runs.fetch_add(1, Ordering::SeqCst) < 3 {
                other.delete(part.ownership().path()).await.unwrap();
            } else {
                part.revoked().await;
            }
            Ok(())
        };
        for_a_minute(partitioner(&zk, "a", 1), body).await;
        assert_eq!(runs.load(Ordering::SeqCst), 4);
    });
}

#[test]
fn a_body_that_accepts_a_reprieve_keeps_its_part() {
    for accepts in [true, false] {
        simulated_with(async |_, zk| {
            let (tell, mut told) = mpsc::unbounded_channel();
            let set = partitioner(&zk, "a", 1).drain(60 * SECOND);
            let member = {
                let set = set.clone();
                tokio::spawn(async move {
                    let body = async |part: Partition| {
                        tell.send(part.fencing_token()).unwrap();
                        if accepts {
                            part.accept_reprieve();
                        }
                        loop {
                            part.revoked().await;
                            spend(10 * SECOND).await;
                            if part.is_revoked() {
                                return Ok::<_, String>(());
                            }
                        }
                    };
                    set.run(body).await
                })
            };
            let token = told.recv().await.unwrap();
            set.set_parts(["other"]).await.unwrap();
            spend(5 * SECOND).await;
            set.set_parts(["s0", "other"]).await.unwrap();
            let other = told.recv().await.unwrap();
            assert!(other > token);
            let again = timeout(60 * SECOND, told.recv()).await.ok();
            assert_eq!(again.is_none(), accepts, "{again:?}");
            member.abort();
        });
    }
}

#[test]
fn parts_are_followed_as_a_stream() {
    simulated_on(Stage::new, async |stage| {
        let zk = connected(&stage.server).await;
        let mut events = partitioner(&zk, "a", 6).follow();
        let mut owned: BTreeMap<String, OwnedPartition> = BTreeMap::new();
        while owned.len() < 6 {
            match events.next().await.unwrap().unwrap() {
                PartitionEvent::Acquired(part) => _ = owned.insert(part.name().to_owned(), part),
                event => panic!("{event:?}"),
            }
        }
        let other = stage.join("b", 6, SECOND).await;
        let mut revoked = Vec::new();
        while revoked.len() < 3 {
            match events.next().await.unwrap().unwrap() {
                PartitionEvent::Revoked(name) => revoked.push(name),
                event => panic!("{event:?}"),
            }
        }
        assert!(owned[&revoked[0]].is_revoked() && !owned[&revoked[0]].is_over());
        // Two are given up, the third is taken away when the time is over.
        drop((owned.remove(&revoked[0]), owned.remove(&revoked[1])));
        settled().await;
        assert_eq!(stage.loads(), [("b".to_owned(), 2)].into());
        let PartitionEvent::Lost(name) = events.next().await.unwrap().unwrap() else { panic!() };
        owned[&name].lost().await;
        assert_eq!((&name, owned[&name].is_over()), (&revoked[2], true));
        drop(owned.remove(&name));

        events.stop();
        for _ in 0..3 {
            let event = events.next().await.unwrap().unwrap();
            let PartitionEvent::Revoked(name) = event else { panic!("{event:?}") };
            drop(owned.remove(&name));
        }
        assert!(events.next().await.is_none());
        stage.until(&["b"], 6).await;
        let theirs = other.zk.clone();
        other.stop().await;
        zk.close().await.unwrap();
        closes_clean(&stage.server, &theirs).await;
    });
}

#[test]
fn a_dropped_stream_gives_everything_up() {
    simulated_with(async |server, zk| {
        let mut events = partitioner(&zk, "a", 3).follow();
        let event = events.next().await.unwrap().unwrap();
        let PartitionEvent::Acquired(part) = event else { panic!("{event:?}") };
        drop(events);
        idle(5 * SECOND).await;
        // It is held, but all others are released.
        assert!(part.is_revoked() && !part.is_over());
        let held = server.probe().paths().iter().filter(|path| path.contains("-lock-")).count();
        assert_eq!(held, 1);
        drop(part);
        settled().await;
        assert!(server.probe().children(&format!("{PATH}/members")).is_empty());
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn health_tells_whether_a_member_owns_its_parts() {
    simulated_on(Stage::new, async |stage| {
        let zk = connected(&stage.server).await;
        let set = partitioner(&zk, "a", 10);
        let mut health = set.health();
        assert_matches!(health.next().await, Some(Health::Waiting));
        let one = stage.run(&zk, set.clone(), "a", 3 * SECOND);
        assert_matches!(health.next().await, Some(Health::Working));
        assert_eq!(stage.until(&["a"], 10).await.len(), 10);
        // Its parts are still with the first member.
        let other = connected(&stage.server).await;
        let mut watch = partitioner(&other, "b", 10).follow();
        let mut theirs = watch.health();
        assert_matches!(theirs.next().await, Some(Health::Waiting));
        let (told, parts) = tokio::join!(theirs.next(), async {
            let mut parts = Vec::new();
            while parts.len() < 5 {
                if let PartitionEvent::Acquired(part) = watch.next().await.unwrap().unwrap() {
                    parts.push(part);
                }
            }
            parts
        });
        assert_matches!(told, Some(Health::Working));
        assert_eq!((parts.len(), stage.loads()["a"]), (5, 5));
        stage.server.hold();
        assert_matches!(theirs.next().await, Some(Health::Waiting));
        assert_matches!(health.next().await, Some(Health::Waiting));
        stage.server.release();
        assert_matches!(theirs.next().await, Some(Health::Working));
        assert_matches!(health.next().await, Some(Health::Working));
        watch.stop();
        drop(parts);
        assert_matches!(theirs.next().await, Some(Health::Waiting));
        assert_matches!(theirs.next().await, None);
        one.abort();
        assert_matches!(health.next().await, Some(Health::Waiting));
        drop(set);
        assert_matches!(health.next().await, None);
    });
}

#[test]
fn health_has_the_error_that_ends_a_member() {
    simulated_with(async |server, zk| {
        let _rule = always(&server, OpCode::Create2, Verdict::Refuse(ErrorCode::NoAuth));
        let watch = partitioner(&zk, "a", 1).follow();
        let mut health = watch.health();
        let failed = loop {
            if let Health::Failed(error) = health.next().await.expect("it has failed") {
                break error;
            }
        };
        assert_eq!(failed.kind(), ErrorKind::NoAuth);
        assert_matches!(health.next().await, None);
    });
}
