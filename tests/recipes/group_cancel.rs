//! Futures of groups, dropped at every point: nothing stays behind, and no follower misses an
//! event.

use zk_curator::CuratorFramework;
use zk_curator_recipes::group::{Group, GroupEvent, GroupMember};
use zk_curator_tests::{
    all_close_clean, closes_clean, connected, in_memory, poll_then_drop, simulated_drops,
    simulated_each_on, simulated_steps, two_in_memory,
};

const GROUP: &str = "/groups/workers";
/// Drops the future that `run` makes at every step until it completes.
fn at_every_step<F: Future<Output = ()>>(
    more_than: usize,
    run: impl Fn(CuratorFramework, Group) -> F,
) {
    simulated_drops(
        more_than,
        async || {
            let (server, zk) = in_memory().await;
            let group = Group::new(&zk, GROUP);
            (server, zk, group)
        },
        async |(_, zk, group)| run(zk.clone(), group.clone()).await,
        async |(server, zk, group), _| {
            // The group of an administrator stays on purpose.
            connected(&server).await.delete(GROUP).deleting_children().quietly().await.unwrap();
            drop(group);
            zk.close().await.unwrap();
            zk_curator_tests::until(&server, |probe| probe.sessions().len() <= 1).await;
        },
    );
}

#[test]
fn members_leave_nothing() {
    simulated_steps(6, async |step, server, zk| {
        let run = async {
            let member = GroupMember::builder(&zk, GROUP, "one").start();
            member.joined().await.unwrap();
            member.set_data("two").await.unwrap();
            member.leave().await.unwrap();
        };
        let done = poll_then_drop(run, step).await.is_some();
        closes_clean(&server, &zk).await;
        done
    });
}

#[test]
fn administration_can_be_given_up_everywhere() {
    at_every_step(10, async |_, group| {
        group.create().await.unwrap();
        let member = group.join("one", "data");
        group.wait_for(1).await.unwrap();
        assert_eq!(group.members().await.unwrap().len(), 1);
        member.leave().await.unwrap();
        group.delete().await.unwrap();
    });
}

/// Each `next` is dropped once at some step, and awaited then: the events are the same.
#[test]
fn no_event_is_lost_by_whoever_gives_up_waiting() {
    simulated_each_on(0..20, two_in_memory, async |step, (server, zk, other)| {
        let mut watch = Group::new(&zk, GROUP).follow();
        let mut told = Vec::new();
        for round in 0..3 {
            let member = GroupMember::builder(&other, GROUP, format!("m{round}")).start();
            // Given up on the way, or the event.
            let joined = match poll_then_drop(watch.next(), step).await {
                Some(event) => event,
                None => watch.next().await,
            };
            let (left, gone) = tokio::join!(poll_then_drop(watch.next(), step), member.leave());
            gone.unwrap();
            let left = match left {
                Some(event) => event,
                None => watch.next().await,
            };
            told.extend([joined.unwrap(), left.unwrap()]);
        }
        let ids: Vec<_> = told
            .iter()
            .map(|event| match event {
                GroupEvent::Joined { id, .. } => format!("+{id}"),
                GroupEvent::Left { id } => format!("-{id}"),
                event => format!("{event:?}"),
            })
            .collect();
        assert_eq!(ids, ["+m0", "-m0", "+m1", "-m1", "+m2", "-m2"], "step {step}");
        drop(watch);
        all_close_clean(&server, [&zk, &other]).await;
    });
}
