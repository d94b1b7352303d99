//! Futures of groups, dropped at every point: nothing stays behind, and nobody misses an event.

use zk_curator::CuratorFramework;
use zk_curator_recipes::group::{Group, GroupEvent, GroupMember};
use zk_curator_tests::cancel::{self, each_step};
use zk_curator_tests::{assert_clean_after_close, connected, in_memory, poll_then_drop, simulated};

const GROUP: &str = "/groups/workers";
/// Drops the future that `run` makes at every step until it completes.
async fn at_every_step<F: Future<Output = ()>>(run: impl Fn(CuratorFramework, Group) -> F) -> usize {
    cancel::at_every_step(
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
    )
    .await
}

#[test]
fn members_leave_nothing() {
    simulated(async {
        let steps = each_step(async |step| {
            let (server, zk) = in_memory().await;
            let run = async {
                let member = GroupMember::builder(&zk, GROUP, "one").start();
                member.joined().await.unwrap();
                member.set_data("two").await.unwrap();
                member.leave().await.unwrap();
            };
            let done = poll_then_drop(run, step).await.is_some();
            zk.close().await.unwrap();
            assert_clean_after_close(&server);
            done
        })
        .await;
        assert!(steps > 6, "only {steps} steps");
    });
}

#[test]
fn administration_can_be_given_up_everywhere() {
    simulated(async {
        let steps = at_every_step(async |_, group| {
            group.create().await.unwrap();
            let member = group.join("one", "data");
            group.wait_for(1).await.unwrap();
            assert_eq!(group.members().await.unwrap().len(), 1);
            member.leave().await.unwrap();
            group.delete().await.unwrap();
        })
        .await;
        assert!(steps > 10, "only {steps} steps");
    });
}

/// Each `next` is dropped once at some step, and awaited then: the events are the same.
#[test]
fn no_event_is_lost_by_whoever_gives_up_waiting() {
    simulated(async {
        for step in 0..20 {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
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
            zk.close().await.unwrap();
            other.close().await.unwrap();
            assert_clean_after_close(&server);
        }
    });
}
