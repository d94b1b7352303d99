//! Migrations that are dropped at every point: all or nothing, and the lock is free.

use zk_curator_recipes::migration::MigrationSet;
use zk_curator_tests::{
    all_close_clean, poll_then_drop, simulated_each_on, simulated_steps, simulated_steps_on,
    two_in_memory,
};

use crate::migration::{clean_up, effects, manager, names, set};

#[test]
fn a_dropped_migration_is_applied_or_not() {
    let mut applied = [0, 0];
    simulated_steps_on(10, two_in_memory, async |step, (server, zk, other)| {
        manager(&other).migrate(&set(1)).await.unwrap();
        let done = poll_then_drop(manager(&zk).migrate(&set(3)), step).await.is_some();
        // The framework stays open.
        let seen = effects(&server.probe()).len();
        assert!(seen == 1 || seen == 3, "step {step}: {seen}");
        applied[usize::from(seen == 3)] += 1;
        let outcome = manager(&other).migrate(&set(3)).await.unwrap();
        let after = 3 - outcome.already;
        assert!(after == outcome.applied.len() && (after == 0 || after == 2), "step {step}");
        assert_eq!(effects(&server.probe()), names(3), "step {step}");
        clean_up(&other).await;
        all_close_clean(&server, [&zk, &other]).await;
        done
    });
    assert!(applied[0] > 8 && applied[1] > 1, "{applied:?}");
}

#[test]
fn the_first_migration_can_be_dropped_everywhere() {
    simulated_steps_on(12, two_in_memory, async |step, (server, zk, other)| {
        let manager_of_zk = manager(&zk).per_migration();
        let done = poll_then_drop(manager_of_zk.migrate(&set(2)), step).await.is_some();
        drop(manager_of_zk);
        zk.close().await.unwrap();
        let seen = if server.probe().exists("/app") { effects(&server.probe()) } else { vec![] };
        assert_eq!(seen, names(2)[..seen.len()], "step {step}");
        manager(&other).migrate(&set(2)).await.unwrap();
        assert_eq!(effects(&server.probe()), names(2), "step {step}");
        clean_up(&other).await;
        all_close_clean(&server, [&other]).await;
        done
    });
}

#[test]
fn a_dropped_wait_leaves_nothing() {
    simulated_each_on(0..12, two_in_memory, async |step, (server, zk, other)| {
        let (ours, theirs, one) = (manager(&zk), manager(&other), set(1));
        let (waited, applied) =
            tokio::join!(poll_then_drop(ours.wait_applied(&one), step), theirs.migrate(&one));
        applied.unwrap();
        drop(waited);
        manager(&zk).wait_applied(&one).await.unwrap();
        drop((ours, theirs));
        clean_up(&other).await;
        all_close_clean(&server, [&zk, &other]).await;
    });
}

#[test]
fn a_dropped_computation_is_applied_or_not() {
    let set = || {
        MigrationSet::builder("orders")
            .migration("root", |m| m.create("/app", "1"))
            .computed("next", "1", |reads| async move {
                let text = String::from_utf8_lossy(&reads.get_data("/app").await?).into_owned();
                let next = zk_curator_recipes::migration::Operations::new();
                Ok::<_, zk_curator::Error>(next.set_data("/app", text + "2"))
            })
            .build()
            .unwrap()
    };
    simulated_steps(14, async |step, server, zk| {
        let manager = manager(&zk);
        let done = poll_then_drop(manager.migrate(&set()), step).await.is_some();
        manager.migrate(&set()).await.unwrap();
        assert_eq!(server.probe().data("/app").unwrap(), "12", "step {step}");
        drop(manager);
        clean_up(&zk).await;
        all_close_clean(&server, [&zk]).await;
        done
    });
}
