//! The parts that move when members come and go, and their cost.

use std::collections::BTreeMap;

use zk_curator_proto::OpCode;
use zk_curator_testing::TestCluster;
use zk_curator_testing::wait::{idle, past, spend};
use zk_curator_tests::{
    all_close_clean, builder_for, expire, recorded, session_id, simulated, simulated_on, start,
};

use super::*;

#[test]
fn every_part_has_one_body_in_one_of_the_members() {
    simulated_on(Stage::new, async |stage| {
        let one = stage.join("a", 20, SECOND).await;
        stage.until(&["a"], 20).await;
        let two = stage.join("b", 20, SECOND).await;
        let three = stage.join("c", 20, SECOND).await;
        stage.until(&["a", "b", "c"], 20).await;
        assert!(stage.loads().values().all(|load| (4..=7).contains(load)), "{:?}", stage.loads());
        let view = partitioner(&one.zk, "a", 20).view().await.unwrap();
        assert_eq!(view.members.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        for (part, owner) in stage.owners() {
            assert_eq!(view.parts[&part].owner.as_ref(), Some(&owner));
            assert_eq!(view.parts[&part].assigned_to.as_ref(), Some(&owner));
            assert!(view.parts[&part].waiting.is_empty());
        }
        assert_eq!(view.owned_by("a").count(), stage.loads()["a"]);
        let frameworks = [&one.zk, &two.zk, &three.zk].map(Clone::clone);
        one.stop().await;
        stage.until(&["b", "c"], 20).await;
        two.stop().await;
        three.stop().await;
        all_close_clean(&stage.server, frameworks).await;
    });
}

/// Kazoo releases all of them.
#[test]
fn a_join_leaves_most_bodies_alone() {
    const PARTS: usize = 1000;
    simulated_on(Stage::new, async |stage| {
        let mut members = BTreeMap::new();
        for number in 0..10 {
            let id = format!("w-{number}");
            members.insert(id.clone(), stage.join(&id, PARTS, SECOND / 10).await);
        }
        let ids: Vec<&str> = members.keys().map(String::as_str).collect();
        let before = stage.until(&ids, PARTS).await;
        idle(SETTLED).await;
        assert_eq!((stage.begun(), stage.owners() == before), (PARTS, true));

        let (recording, requests) = recorded(&stage.server);
        let joined = Instant::now();
        let new = stage.join("w-10", PARTS, SECOND / 10).await;
        let all: Vec<&str> = ids.iter().copied().chain(["w-10"]).collect();
        let after = stage.until(&all, PARTS).await;
        let took = joined.elapsed();
        // Nothing comes later.
        idle(SETTLED).await;
        drop(recording);
        assert_eq!(stage.owners(), after);
        let moves = moved(&before, &after);
        println!("{moves} of {PARTS} parts moved in {took:?}");
        assert!((1..=110).contains(&moves), "{moves} parts have moved");
        assert_eq!(stage.begun(), PARTS + moves);
        assert!(took <= 3 * SECOND, "it took {took:?}");

        let requests = requests.lock().unwrap();
        for (id, member) in &members {
            let requests = &requests[&session_id(&member.zk).get()];
            let count = |opcode| requests.iter().filter(|request| **request == opcode).count();
            let given_up =
                before.iter().filter(|(part, owner)| *owner == id && after[*part] != *id).count();
            let taken = after.iter().filter(|(part, owner)| *owner == id && before[*part] != *id);
            // Parts that stay cost nothing: the members are listed, the new one is read, and parts
            // that move are released or acquired.
            assert_eq!(count(OpCode::Delete), given_up, "{id}");
            let others = requests.len() - given_up;
            assert!(others <= 2 + 5 * taken.count(), "{id}: {requests:?}");
        }
        drop(new);
    });
}

#[test]
fn the_parts_of_a_dead_member_are_spread() {
    simulated_on(Stage::new, async |stage| {
        let mut members = Vec::new();
        for id in ["a", "b", "c", "d"] {
            members.push(stage.join(id, 100, SECOND).await);
        }
        let before = stage.until(&["a", "b", "c", "d"], 100).await;
        // Its process dies.
        members[0].abort();
        expire(&stage.server, &members[0].zk).await;
        let after = stage.until(&["b", "c", "d"], 100).await;
        let heirs: BTreeSet<&String> = before
            .iter()
            .filter(|(_, owner)| *owner == "a")
            .map(|(part, _)| &after[part])
            .collect();
        assert_eq!(heirs.len(), 3);
        let lost = before.values().filter(|owner| *owner == "a").count();
        assert!(moved(&before, &after) <= lost + 15, "{} of {lost}", moved(&before, &after));
    });
}

/// With no delay, nothing but the round trips separates the end of a session from its heirs.
#[test]
fn without_a_delay_parts_are_taken_when_the_leave_is_seen() {
    simulated_on(Stage::new, async |stage| {
        let mut members = Vec::new();
        for id in ["a", "b"] {
            let zk = connected(&stage.server).await;
            let partitioner = partitioner(&zk, id, 10).leave_delay(Duration::ZERO);
            members.push(stage.run(&zk, partitioner, id, SECOND));
        }
        stage.until(&["a", "b"], 10).await;
        past(SETTLED).await;
        members[0].abort();
        expire(&stage.server, &members[0].zk).await;
        let expired = Instant::now();
        stage.until(&["b"], 10).await;
        assert!(expired.elapsed() <= SECOND / 50, "it took {:?}", expired.elapsed());
    });
}

#[test]
fn a_rolling_restart_moves_nothing() {
    simulated_on(Stage::new, async |stage| {
        let mut members = Vec::new();
        for id in ["a", "b", "c"] {
            let zk = connected(&stage.server).await;
            let partitioner = partitioner(&zk, id, 30).leave_delay(30 * SECOND);
            members.push((id, stage.run(&zk, partitioner, id, SECOND)));
        }
        let before = stage.until(&["a", "b", "c"], 30).await;
        past(SETTLED).await;
        for (id, member) in members {
            let (zk, begun, load) = (member.zk.clone(), stage.begun(), stage.loads()[id]);
            member.stop().await;
            idle(10 * SECOND).await;
            assert_eq!(stage.owners().len(), 30 - load);
            let partitioner = partitioner(&zk, id, 30).leave_delay(30 * SECOND);
            drop(stage.run(&zk, partitioner, id, SECOND).task);
            assert_eq!(stage.until(&["a", "b", "c"], 30).await, before);
            assert_eq!(stage.begun(), begun + load);
        }
    });
}

#[test]
fn a_flapping_member_does_not_stop_the_others() {
    simulated_on(Stage::new, async |stage| {
        let _others = (stage.join("a", 30, SECOND).await, stage.join("b", 30, SECOND).await);
        let before = stage.until(&["a", "b"], 30).await;
        let zk = connected(&stage.server).await;
        for _ in 0..50 {
            let member = stage.run(&zk, partitioner(&zk, "c", 30), "c", SECOND);
            spend(SECOND).await;
            member.stop().await;
            spend(SECOND).await;
            let owners = stage.owners();
            let kept = before.iter().filter(|(part, owner)| owners.get(*part) == Some(*owner));
            assert!(kept.count() >= 15, "{:?}", stage.loads());
        }
        past(SETTLED).await;
        assert_eq!(stage.owners(), before);
    });
}

#[test]
fn a_heavier_member_owns_more() {
    simulated_on(Stage::new, async |stage| {
        let zk = connected(&stage.server).await;
        let _members = [("a", 1), ("b", 1), ("heavy", 2)].map(|(id, weight)| {
            stage.run(&zk, partitioner(&zk, id, 80).weight(weight), id, SECOND)
        });
        stage.until(&["a", "b", "heavy"], 80).await;
        let loads = stage.loads();
        assert!((34..=44).contains(&loads["heavy"]), "{loads:?}");
        assert!(loads["a"].max(loads["b"]) <= 22, "{loads:?}");
        let view = partitioner(&zk, "a", 80).view().await.unwrap();
        assert_eq!(view.members["heavy"].weight, 2);
    });
}

#[test]
fn parts_go_to_their_zone_while_there_is_room() {
    simulated_on(Stage::new, async |stage| {
        use zk_curator_recipes::partition::Part;
        let zk = connected(&stage.server).await;
        let parts = || {
            let zone = |part: usize| if part < 4 { "a" } else { "b" };
            (0..8).map(move |part| Part::new(format!("s{part}")).zone(zone(part)))
        };
        let _members = ["a", "b"].map(|id| {
            let partitioner = SetPartitioner::new(&zk, PATH, parts()).id(id).zone(id);
            stage.run(&zk, partitioner, id, SECOND)
        });
        for (part, owner) in stage.until(&["a", "b"], 8).await {
            assert_eq!(owner, if *part < *"s4" { "a" } else { "b" }, "{part}");
        }
    });
}

/// The member at a server that lags sees joins and leaves late. The locks keep parts apart.
#[test]
fn a_part_has_one_owner_while_members_see_different_groups() {
    simulated(async {
        let cluster = TestCluster::in_memory(3).await;
        let board: Arc<Mutex<Board>> = Arc::default();
        // The board of the stage, without its server.
        let stage = Stage { server: server().await, board };
        let lag = cluster.lag_by(2, 15 * SECOND);
        let mut members = Vec::new();
        for (place, id) in ["a", "b", "late"].into_iter().enumerate() {
            let member = cluster.member(place);
            let connect = builder_for(&member.connect_string())
                .session_timeout(60 * SECOND)
                .connector(Arc::new(member.connector()));
            let zk = start(connect).await;
            members.push(stage.run(&zk, partitioner(&zk, id, 40), id, SECOND));
            spend(5 * SECOND).await;
        }
        past(2 * SETTLED).await;
        let settled = stage.until(&["a", "b", "late"], 40).await;
        members.remove(1).stop().await;
        // It has taken what the late one has not given up yet, or waits for it.
        past(5 * SECOND).await;
        drop(lag);
        let after = stage.until(&["a", "late"], 40).await;
        let left = settled.values().filter(|owner| *owner == "b").count();
        assert!(moved(&settled, &after) >= left);
        let view = partitioner(&members[0].zk, "a", 40).view().await.unwrap();
        for (part, owner) in after {
            assert_eq!(view.parts[&part].assigned_to, Some(owner));
        }
    });
}
