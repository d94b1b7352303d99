//! Groups in the layouts of kazoo's parties. The tests next to kazoo itself are in `interop`.

use bytes::Bytes;
use zk_curator::{CreateMode, ErrorKind};
use zk_curator_recipes::group::{Group, GroupEvent, GroupMember};
use zk_curator_tests::{
    assert_clean_but_for, expire, poll_then_drop, simulated_each, simulated_steps, simulated_with,
    until,
};

const PATH: &str = "/party";

fn group(zk: &zk_curator::CuratorFramework, is_shallow: bool) -> Group {
    let group = Group::new(zk, PATH);
    if is_shallow { group.with_kazoo_shallow_party() } else { group.with_kazoo_party() }
}

fn member(zk: &zk_curator::CuratorFramework, id: &str, is_shallow: bool) -> GroupMember {
    let member = GroupMember::builder(zk, PATH, id).data("ignored");
    if is_shallow { member.with_kazoo_shallow_party() } else { member.with_kazoo_party() }.start()
}

#[test]
fn members_have_the_names_of_kazoo() {
    simulated_each([false, true], async |is_shallow, server, zk| {
        let joined = member(&zk, "w-1", is_shallow);
        joined.joined().await.unwrap();
        assert_eq!(joined.id(), "w-1");
        let members = group(&zk, is_shallow).members().await.unwrap();
        let (name, id) = members.first_key_value().unwrap();
        assert_eq!(id, "w-1");
        let suffix = if is_shallow { "-w-1" } else { "__party__" };
        assert!(name.len() == 32 + suffix.len() && name.ends_with(suffix), "{name}");
        assert_eq!(zk.get_data(format!("{PATH}/{name}")).await.unwrap(), "w-1");
        assert_eq!(joined.group().members().await.unwrap(), members);
        joined.leave().await.unwrap();
        // kazoo does not create it again.
        assert_eq!(zk.exists(PATH).await.unwrap().unwrap().ephemeral_owner, 0);
        zk.close().await.unwrap();
        assert_clean_but_for(&server, |_, path| path == PATH);
    });
}

#[test]
fn a_party_is_joined_under_the_names_of_kazoo() {
    simulated_each([false, true], async |is_shallow, _server, zk| {
        zk.create(PATH).await.unwrap();
        let group = group(&zk, is_shallow);
        let joined = group.join("w-1", "");
        joined.joined().await.unwrap();
        let members = group.members().await.unwrap();
        assert_eq!(members.values().map(|id| &id[..]).collect::<Vec<_>>(), [b"w-1"]);
    });
}

#[test]
fn data_of_a_member_stay_its_id() {
    simulated_each([false, true], async |is_shallow, _server, zk| {
        let joined = member(&zk, "w-1", is_shallow);
        joined.joined().await.unwrap();
        let refused = joined.set_data("10.0.0.7").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        let names = zk.children(PATH).await.unwrap();
        assert_eq!(zk.get_data(format!("{PATH}/{}", names[0])).await.unwrap(), "w-1");
    });
}

#[test]
fn equal_ids_are_two_members() {
    simulated_each([false, true], async |is_shallow, server, zk| {
        let (one, two) = (member(&zk, "w", is_shallow), member(&zk, "w", is_shallow));
        let members = group(&zk, is_shallow).wait_for(2).await.unwrap();
        assert!(members.values().all(|id| id == "w"));
        // A node of the former session is not counted as the own one.
        let before = members;
        expire(&server, &zk).await;
        until(&server, |probe| probe.children(PATH).len() == 2).await;
        one.joined().await.unwrap();
        two.joined().await.unwrap();
        assert_eq!(group(&zk, is_shallow).members().await.unwrap(), before);
    });
}

#[test]
fn foreign_nodes_are_read_as_by_kazoo() {
    simulated_with(async |_server, zk| {
        zk.create(PATH).await.unwrap();
        for (name, data) in [("0__party__", "one"), ("1-two-2", ""), ("three", "x")] {
            let create = zk.create(format!("{PATH}/{name}")).mode(CreateMode::Ephemeral);
            create.data(data).await.unwrap();
        }
        let party = group(&zk, false).members().await.unwrap();
        assert_eq!(party.into_values().collect::<Vec<_>>(), ["one"]);
        let shallow = group(&zk, true).members().await.unwrap();
        assert_eq!(shallow.into_values().collect::<Vec<Bytes>>(), ["0__party__", "two-2", "three"]);
        let mut events = group(&zk, false).follow();
        let first = events.next().await.unwrap();
        let expected = GroupEvent::Joined { id: "0__party__".into(), data: "one".into() };
        assert_eq!(first, expected);
    });
}

#[test]
fn slash_in_an_id_is_refused_where_it_is_a_name() {
    simulated_with(async |_server, zk| {
        let refused = member(&zk, "a/b", true).joined().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidPath);
        let joined = member(&zk, "a/b", false);
        joined.joined().await.unwrap();
        assert_eq!(group(&zk, false).members().await.unwrap().into_values().next().unwrap(), "a/b");
    });
}

#[test]
fn members_leave_nothing_but_the_party() {
    simulated_steps(6, async |step, server, zk| {
        let run = async {
            let member = member(&zk, "one", false);
            member.joined().await.unwrap();
            member.leave().await.unwrap();
        };
        let done = poll_then_drop(run, step).await.is_some();
        zk.close().await.unwrap();
        assert_clean_but_for(&server, |_, path| path == PATH);
        done
    });
}
