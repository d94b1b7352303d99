//! Settings, and lists of parts that change.

use zk_curator_testing::wait::{idle, past};
use zk_curator_tests::{
    assert_matches, closes_clean, simulated, simulated_on, simulated_with, until,
};

use super::*;

async fn refused(partitioner: SetPartitioner) -> Error {
    let body = async |_: Partition| Ok::<_, String>(());
    timeout(60 * SECOND, partitioner.run(body)).await.expect("an error").unwrap_err()
}

#[test]
fn invalid_settings_are_refused() {
    simulated_with(async |server, zk| {
        let set = || partitioner(&zk, "a", 1);
        for (invalid, setting) in [
            (set().id(""), "id of a member"),
            (set().id("a/b"), "id of a member"),
            (set().id("_r_5e0a7c8e-0000-4000-8000-000000000001"), "id of a member"),
            (set().weight(0), "weight"),
            (set().weight(1001), "weight"),
            (set().zone("a\nweight 7"), "zone"),
            (SetPartitioner::new(&zk, PATH, ["a/b"]), "name of a part"),
            (SetPartitioner::new(&zk, PATH, [".."]), "name of a part"),
        ] {
            let error = refused(invalid.clone()).await;
            assert_matches!(error, Error::InvalidSetting { setting: found, .. } if found == setting);
            let viewed = invalid.view().await.unwrap_err();
            assert_matches!(viewed, Error::InvalidSetting { setting: found, .. } if found == setting);
        }
        let error = refused(SetPartitioner::new(&zk, "shards", ["s0"])).await;
        assert_matches!(error, Error::Framework(error) if error.operation() == "run");
        let error = set().set_parts(["a/b"]).await.unwrap_err();
        assert_matches!(error, Error::InvalidSetting { setting: "name of a part", .. });
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn parts_of_this_process_can_be_replaced() {
    simulated_with(async |server, zk| {
        let stage = Stage { server, board: Arc::default() };
        let set = partitioner(&zk, "a", 3);
        let member = stage.run(&zk, set.clone(), "a", SECOND);
        stage.until(&["a"], 3).await;
        set.set_parts(["s1", "s2", "s3", "s4"]).await.unwrap();
        let owners = stage.until(&["a"], 4).await;
        assert_eq!(owners.keys().collect::<Vec<_>>(), ["s1", "s2", "s3", "s4"]);
        // The parts that stayed were not touched.
        assert_eq!(stage.begun(), 5);
        set.set_parts(Vec::<String>::new()).await.unwrap();
        past(SETTLED).await;
        assert!(stage.owners().is_empty());
        member.stop().await;
    });
}

#[test]
fn shared_parts_are_those_of_the_first_member() {
    simulated_on(Stage::new, async |stage| {
        let zk = connected(&stage.server).await;
        let first = partitioner(&zk, "a", 4).shared_parts();
        assert!(first.view().await.unwrap().parts.is_empty());
        let one = stage.run(&zk, first.clone(), "a", SECOND);
        stage.until(&["a"], 4).await;
        let other = connected(&stage.server).await;
        let second = partitioner(&other, "b", 100).shared_parts();
        let two = stage.run(&other, second.clone(), "b", SECOND);
        stage.until(&["a", "b"], 4).await;
        // Any member, and every client, can replace them.
        let before = stage.owners();
        second.set_parts(names(8)).await.unwrap();
        let after = stage.until(&["a", "b"], 8).await;
        assert!(moved(&before, &after) <= 2, "{before:?} {after:?}");
        let view = partitioner(&zk, "c", 0).shared_parts().view().await.unwrap();
        assert_eq!(view.parts.len(), 8);
        // Without the list, members keep what they have.
        zk.delete(format!("{PATH}/list")).await.unwrap();
        idle(SETTLED).await;
        assert_eq!(stage.owners(), after);
        zk.create(format!("{PATH}/list")).data("none of ours").await.unwrap();
        for member in [one, two] {
            assert_matches!(member.task.await.unwrap(), Err(Error::NotAList { .. }));
        }
        assert_matches!(first.view().await, Err(Error::NotAList { .. }));
    });
}

/// A member that is never assigned anything costs nothing else.
#[test]
fn more_members_than_parts_wait() {
    simulated_on(Stage::new, async |stage| {
        let zk = connected(&stage.server).await;
        let _members =
            ["a", "b", "c", "d"].map(|id| stage.run(&zk, partitioner(&zk, id, 2), id, SECOND));
        past(SETTLED).await;
        assert_eq!(stage.loads().into_values().collect::<Vec<_>>(), [1, 1]);
        assert_eq!(stage.begun(), 2);
    });
}

#[test]
fn the_second_member_with_an_id_waits() {
    simulated_on(Stage::new, async |stage| {
        let one = stage.join("a", 3, SECOND).await;
        let before = stage.until(&["a"], 3).await;
        let two = stage.join("a", 3, SECOND).await;
        idle(SETTLED).await;
        assert_eq!((stage.owners(), stage.begun()), (before, 3));
        one.stop().await;
        stage.until(&["a"], 3).await;
        assert_eq!(stage.begun(), 6);
        two.stop().await;
    });
}

#[test]
fn recreated_parent_of_kazoo_members_is_persistent() {
    simulated(async {
        let stage = Stage::new().await;
        let zk = connected(&stage.server).await;
        let set = partitioner(&zk, "a", 2).settle(SECOND).with_kazoo();
        let member = stage.run(&zk, set, "a", Duration::ZERO);
        stage.until(&["a"], 2).await;
        let party = format!("{PATH}/party");
        stage.server.remove(&party).unwrap();
        until(&stage.server, |probe| probe.children(&party).len() == 1).await;
        assert!(!stage.server.probe().is_container(&party));
        member.stop().await;
    });
}
