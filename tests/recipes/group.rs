//! Groups: members, their observers, and administration.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::timeout;
use zk_curator::ErrorKind::{Closed, InvalidPath, NoAuth, NoNode};
use zk_curator::{Acl, ConnectionState, CuratorFramework, Permissions};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::group::{Group, GroupEvent, GroupMember, GroupWatch};
use zk_curator_testing::Verdict;
use zk_curator_testing::wait::{idle, spend};
use zk_curator_tests::{
    always, closes_clean, connected, expire, once, pairs, simulated_each, simulated_on,
    simulated_with, two_in_memory, until, until_state,
};

const GROUP: &str = "/groups/workers";

async fn joined(zk: &CuratorFramework, id: &str) -> GroupMember {
    let member = GroupMember::builder(zk, GROUP, id).data(format!("data of {id}")).start();
    member.joined().await.unwrap();
    member
}

fn join(id: &str) -> GroupEvent {
    GroupEvent::Joined { id: id.into(), data: format!("data of {id}").into() }
}

fn left(id: &str) -> GroupEvent {
    GroupEvent::Left { id: id.into() }
}

fn ids(members: &BTreeMap<String, Bytes>) -> Vec<&str> {
    members.keys().map(String::as_str).collect()
}

async fn next(watch: &mut GroupWatch) -> GroupEvent {
    let event = timeout(Duration::from_secs(3600), watch.next()).await;
    event.unwrap_or_else(|_| panic!("nothing happens: {watch:?}")).unwrap()
}

#[test]
fn the_layout_is_curators() {
    simulated_with(async |server, zk| {
        let member = joined(&zk, "worker-1").await;
        let probe = server.probe();
        assert!(probe.is_container(GROUP));
        assert_eq!(probe.data("/groups/workers/worker-1").unwrap(), "data of worker-1");
        assert!(probe.stat("/groups/workers/worker-1").unwrap().ephemeral_owner > 0);
        assert_eq!((member.id(), member.group().path()), ("worker-1", GROUP));
        assert_eq!(member.group().members().await.unwrap()["worker-1"], "data of worker-1");
        member.leave().await.unwrap();
        assert_eq!(Group::new(&zk, GROUP).members().await.unwrap(), BTreeMap::new());
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn followers_see_every_change() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut watch = Group::new(&zk, GROUP).follow();
        let (event, one) = tokio::join!(next(&mut watch), joined(&other, "one"));
        assert_eq!(event, join("one"));
        let two = joined(&other, "two").await;
        assert_eq!(next(&mut watch).await, join("two"));
        assert_eq!(ids(watch.members()), ["one", "two"]);
        one.set_data("new").await.unwrap();
        assert_eq!(
            next(&mut watch).await,
            GroupEvent::Changed { id: "one".into(), data: "new".into() }
        );
        assert_eq!(watch.members()["one"], "new");
        one.leave().await.unwrap();
        assert_eq!(next(&mut watch).await, left("one"));
        // So quickly that the list is the same.
        two.leave().await.unwrap();
        let two = joined(&other, "two").await;
        assert_eq!((next(&mut watch).await, next(&mut watch).await), (left("two"), join("two")));
        assert_eq!(ids(watch.members()), ["two"]);
        drop(two);
        assert_eq!(next(&mut watch).await, left("two"));
        // The group itself comes and goes.
        server.reap_containers();
        assert!(!server.probe().exists(GROUP));
        let (event, three) = tokio::join!(next(&mut watch), joined(&other, "three"));
        assert_eq!(event, join("three"));
        drop(three);
    });
}

#[test]
fn the_events_are_a_stream() {
    simulated_with(async |_server, zk| {
        let one = joined(&zk, "one").await;
        let mut events = Box::pin(Group::new(&zk, GROUP).follow().into_stream());
        assert_eq!(events.next().await.unwrap().unwrap(), join("one"));
        assert!(timeout(Duration::from_secs(1), events.next()).await.is_err());
        let two = joined(&zk, "two").await;
        assert_eq!(events.next().await.unwrap().unwrap(), join("two"));
        one.leave().await.unwrap();
        assert_eq!(events.next().await.unwrap().unwrap(), left("one"));
        drop(two);
        assert_eq!(events.next().await.unwrap().unwrap(), left("two"));
    });
}

/// Curator: a member is always one for itself.
#[test]
fn a_client_without_a_connection_is_no_member() {
    simulated_with(async |server, zk| {
        let member = joined(&zk, "one").await;
        assert!(member.is_member());
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        assert!(!member.is_member());
        assert!(member.group().members().await.is_err());
        until_state(&zk, ConnectionState::Lost).await;
        assert!(!member.is_member());
        server.heal();
        zk.wait_connected().await.unwrap();
        member.joined().await.unwrap();
        assert!(member.is_member());
        until(&server, |probe| probe.children(GROUP) == ["one"]).await;
    });
}

#[test]
fn followers_see_sessions_end_and_survive_their_own() {
    simulated_with(async |server, zk| {
        let (first, second) = (connected(&server).await, connected(&server).await);
        let (_one, _two) = (joined(&first, "one").await, joined(&second, "two").await);
        let mut watch = Group::new(&zk, GROUP).follow();
        let mut told = [next(&mut watch).await, next(&mut watch).await];
        told.sort_by_key(|event| format!("{event:?}"));
        assert_eq!(told, [join("one"), join("two")]);
        expire(&server, &first).await;
        assert_eq!(next(&mut watch).await, left("one"));
        assert_eq!(next(&mut watch).await, join("one"));
        // Between two calls our own session ends, and other members join and leave.
        expire(&server, &zk).await;
        second.close().await.unwrap();
        let _three = joined(&first, "three").await;
        let mut told = [next(&mut watch).await, next(&mut watch).await];
        told.sort_by_key(|event| format!("{event:?}"));
        assert_eq!(told, [join("three"), left("two")]);
        // An outage that is longer than the retry policy allows.
        server.stop().await;
        let restart = async {
            spend(Duration::from_secs(120)).await;
            server.restart().await.unwrap();
            let zk = connected(&server).await;
            (joined(&zk, "four").await, zk)
        };
        let seen = async {
            while !watch.members().contains_key("four") {
                next(&mut watch).await;
            }
        };
        let (_four, ()) = tokio::join!(restart, seen);
    });
}

#[test]
fn a_group_can_be_waited_for_until_it_is_large_enough() {
    simulated_with(async |server, zk| {
        let group = Group::new(&zk, GROUP);
        assert_eq!(group.wait_for(0).await.unwrap(), BTreeMap::new());
        let members = async {
            let mut members = Vec::new();
            for id in ["a", "b", "c"] {
                spend(Duration::from_secs(5)).await;
                members.push(joined(&zk, id).await);
            }
            members
        };
        let (large, members) = tokio::join!(group.wait_for(3), members);
        assert_eq!(ids(&large.unwrap()), ["a", "b", "c"]);
        drop(members);
        until(&server, |probe| probe.children(GROUP).is_empty()).await;
    });
}

#[test]
fn a_group_that_administrators_delete_stays_deleted() {
    simulated_with(async |server, zk| {
        let group = Group::new(&zk, GROUP);
        let early = group.join("early", "");
        assert_eq!(early.joined().await.unwrap_err().kind(), NoNode);
        group.create().await.unwrap();
        group.create().await.unwrap();
        until(&server, |probe| probe.children(GROUP) == ["early"]).await;
        early.joined().await.unwrap();
        server.reap_containers();
        let other = Group::new(&connected(&server).await, GROUP);
        other.delete().await.unwrap();
        other.delete().await.unwrap();
        assert_eq!(group.members().await.unwrap(), BTreeMap::new());
        until(&server, |probe| !probe.exists(GROUP)).await;
        idle(Duration::from_secs(30)).await;
        assert!(!server.probe().exists(GROUP));
        assert!(!early.is_member());
        assert_eq!(early.joined().await.unwrap_err().kind(), NoNode);
        group.create().await.unwrap();
        until(&server, |probe| probe.children(GROUP) == ["early"]).await;
    });
}

#[test]
fn the_second_with_an_id_waits_for_the_first() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let first = joined(&other, "one").await;
        let second = GroupMember::builder(&zk, GROUP, "one").data("second").start();
        until(&server, |probe| !probe.watches().is_empty()).await;
        assert!(!second.is_member());
        first.leave().await.unwrap();
        second.joined().await.unwrap();
        assert_eq!(second.group().members().await.unwrap()["one"], "second");
    });
}

#[test]
fn lost_responses_make_no_difference() {
    let cases = pairs(
        [Verdict::LoseReply, Verdict::LoseRequest],
        [OpCode::Create2, OpCode::GetChildren2, OpCode::GetData, OpCode::Exists, OpCode::Delete],
    );
    simulated_each(cases, async |(verdict, opcode), server, zk| {
        let mut watch = Group::new(&zk, GROUP).follow();
        let _lost = once(&server, opcode, verdict);
        let member = joined(&zk, "one").await;
        assert_eq!(next(&mut watch).await, join("one"), "{opcode:?} {verdict:?}");
        member.leave().await.unwrap();
        assert_eq!(next(&mut watch).await, left("one"));
    });
}

#[test]
fn mistakes_are_refused() {
    simulated_with(async |server, zk| {
        for (group, id) in
            [("no-slash", "a"), (GROUP, ""), (GROUP, "a/b"), (GROUP, ".."), (GROUP, "/a")]
        {
            let member = GroupMember::builder(&zk, group, id).start();
            assert_eq!(member.joined().await.unwrap_err().kind(), InvalidPath, "{group} {id}");
            assert_eq!(member.set_data("x").await.unwrap_err().kind(), InvalidPath);
            assert!(!member.is_member());
            member.leave().await.unwrap();
        }
        let invalid = Group::new(&zk, "no-slash");
        assert_eq!(invalid.members().await.unwrap_err().kind(), InvalidPath);
        assert_eq!(invalid.follow().next().await.unwrap_err().kind(), InvalidPath);
        let refuse = always(&server, OpCode::GetChildren2, Verdict::Refuse(ErrorCode::NoAuth));
        zk.create_containers(GROUP).await.unwrap();
        assert_eq!(Group::new(&zk, GROUP).follow().next().await.unwrap_err().kind(), NoAuth);
        drop(refuse);
        let mut watch = Group::new(&zk, "/nowhere").follow();
        let (end, closed) = tokio::join!(watch.next(), zk.close());
        closed.unwrap();
        assert_eq!(end.unwrap_err().kind(), Closed);
    });
}

/// Creates a member that nobody may read.
async fn secret(zk: &CuratorFramework, id: &str) -> String {
    let acl = vec![Acl::new(Permissions::ADMIN, "world", "anyone")];
    zk.create(format!("{GROUP}/{id}")).data("secret").acl(acl).await.unwrap().path
}

#[test]
fn a_member_that_cannot_be_read_does_not_hide_the_others() {
    simulated_on(two_in_memory, async |(_, zk, other)| {
        let group = Group::new(&zk, GROUP);
        group.create().await.unwrap();
        let path = secret(&other, "b").await;
        let mut watch = group.follow();
        let hidden = GroupEvent::Unreadable { id: "b".into(), error: NoAuth };
        assert_eq!(next(&mut watch).await, hidden);
        let one = joined(&other, "a").await;
        assert_eq!(next(&mut watch).await, join("a"));
        assert_eq!((ids(watch.members()), watch.unreadable().len()), (vec!["a"], 1));
        assert_eq!(ids(&group.wait_for(2).await.unwrap()), ["a"]);
        let error = group.members().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (NoAuth, &*path));
        // Its ACL is repaired, and something else changes.
        other.set_acl(path.as_str(), Acl::open_unsafe()).await.unwrap();
        one.leave().await.unwrap();
        let data = "secret".into();
        let mut events = [next(&mut watch).await, next(&mut watch).await];
        events.sort_by_key(|event| matches!(event, GroupEvent::Joined { .. }));
        assert_eq!(events, [left("a"), GroupEvent::Joined { id: "b".into(), data }]);
        other.delete(path).await.unwrap();
        assert_eq!(next(&mut watch).await, left("b"));
        assert!(watch.unreadable().is_empty() && watch.members().is_empty());
    });
}
