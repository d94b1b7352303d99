//! Futures of groups, dropped at every point: nothing stays behind, and no follower misses an
//! event.

use zk_curator_recipes::group::{Group, GroupEvent, GroupMember};
use zk_curator_tests::{all_close_clean, poll_then_drop, simulated_each_on, two_in_memory};

const GROUP: &str = "/groups/workers";
/// Each `next` is dropped once at some step, and awaited then: the events are the same.
#[test]
fn a_dropped_wait_loses_no_event() {
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
