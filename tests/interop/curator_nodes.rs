//! Java Curator's `GroupMember`, `PersistentNode` and `PersistentTtlNode`, and ours, in one group
//! and at one path.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{CreateMode, CuratorFramework, EventType};
use zk_curator_real::java::Program;
use zk_curator_recipes::group::{GroupEvent, GroupMember};
use zk_curator_recipes::node::{PersistentNode, PersistentTtlNode};
use zk_curator_tests::{builder_for, start};

use crate::contest::compiled;
use crate::peer::Peer;

const GROUP: &str = "/groups/workers";
const PATIENCE: Duration = Duration::from_secs(120);
/// The time for one response of the Java program.
const ANSWER: Duration = Duration::from_secs(60);

async fn member(zk: &CuratorFramework, id: &str, data: &str) -> GroupMember {
    let member = GroupMember::builder(zk, GROUP, id).data(data.to_owned()).start();
    member.joined().await.unwrap();
    member
}

/// Each sees the other join and leave, and reads its data.
async fn one_group(program: &Program, connect_string: &str) {
    let zk = start(builder_for(connect_string)).await;
    let mut java = Peer::java(program, [connect_string], ANSWER);
    let ours = member(&zk, "rust-1", "ours").await;
    let mut watch = ours.group().follow();
    assert_eq!(
        watch.next().await.unwrap(),
        GroupEvent::Joined { id: "rust-1".into(), data: "ours".into() }
    );
    assert_eq!(java.tell(&format!("join {GROUP} java-1 theirs")).await, "ok");
    let joined = GroupEvent::Joined { id: "java-1".into(), data: "theirs".into() };
    assert_eq!(watch.next().await.unwrap(), joined);
    assert_eq!(java.tell("members 2").await, "java-1=theirs rust-1=ours");
    let members = ours.group().members().await.unwrap();
    assert_eq!(
        (members["java-1"].as_ref(), members["rust-1"].as_ref()),
        (&b"theirs"[..], &b"ours"[..])
    );

    let second = member(&zk, "rust-2", "too").await;
    assert_eq!(java.tell("members 3").await, "java-1=theirs rust-1=ours rust-2=too");
    ours.leave().await.unwrap();
    drop(second);
    assert_eq!(java.tell("members 1").await, "java-1=theirs");
    assert_eq!(java.tell("leave").await, "ok");
    while !watch.members().is_empty() {
        watch.next().await.unwrap();
    }
    // They join again, and their process ends.
    assert_eq!(java.tell(&format!("join {GROUP} java-1 theirs")).await, "ok");
    assert_eq!(watch.next().await.unwrap(), joined);
    java.end().await;
    assert_eq!(watch.next().await.unwrap(), GroupEvent::Left { id: "java-1".into() });
    zk.close().await.unwrap();
}

/// The same name for the same options; and where one is closed, the other takes its place.
async fn one_path(program: &Program, connect_string: &str) {
    let zk = start(builder_for(connect_string)).await;
    let mut java = Peer::java(program, [connect_string], ANSWER);
    let path = java.tell("node EPHEMERAL_SEQUENTIAL true /nodes/w- theirs").await;
    let ours =
        PersistentNode::builder(&zk, "/nodes/w-", CreateMode::EphemeralSequential).protected();
    let ours = ours.data("ours").start();
    let shape = |path: &str| {
        let (prefix, number) = path.split_at(path.len() - 10);
        (
            prefix.len(),
            prefix.starts_with("/nodes/_c_") && prefix.ends_with("-w-"),
            number.parse::<u32>().is_ok(),
        )
    };
    assert_eq!(shape(&path), shape(&ours.created().await.unwrap()));
    assert!(shape(&path).1 && shape(&path).2);
    assert_eq!(java.tell("close").await, "ok");
    ours.close().await.unwrap();

    // Theirs is ephemeral and there: ours waits, and leaves it alone.
    assert_eq!(java.tell("node EPHEMERAL false /nodes/name theirs").await, "/nodes/name");
    let ours =
        PersistentNode::builder(&zk, "/nodes/name", CreateMode::Ephemeral).data("ours").start();
    let (created, closed) = tokio::join!(ours.created(), java.tell("close"));
    assert_eq!((created.unwrap().as_str(), closed.as_str()), ("/nodes/name", "ok"));
    assert_eq!(zk.get_data("/nodes/name").await.unwrap(), "ours");
    let owner = zk.exists("/nodes/name").await.unwrap().unwrap().ephemeral_owner;
    assert_eq!(owner, zk.session().unwrap().id.get());
    ours.close().await.unwrap();

    // A persistent one is adopted by ours.
    assert_eq!(
        java.tell("node PERSISTENT false /nodes/persistent theirs").await,
        "/nodes/persistent"
    );
    let ours = PersistentNode::builder(&zk, "/nodes/persistent", CreateMode::Persistent)
        .data("ours")
        .start();
    ours.set_data("ours").await.unwrap();
    assert_eq!(zk.get_data("/nodes/persistent").await.unwrap(), "ours");
    // Java keeps it, too: closed by us, it comes back from there.
    let mut watch = zk.exists("/nodes/persistent").watched().await.unwrap().watch;
    ours.close().await.unwrap();
    (&mut watch).await.unwrap();
    while zk.get_data("/nodes/persistent").await.is_err() {
        let watched = zk.exists("/nodes/persistent").watched().await.unwrap();
        if watched.value.is_none() {
            watched.watch.await.unwrap();
        }
    }
    java.end().await;
    zk.close().await.unwrap();
}

/// Both keep the same node by touching the same child, whichever created it, even when the other
/// one stops.
async fn one_node_with_a_time_to_live(program: &Program, connect_string: &str) {
    const TTL: Duration = Duration::from_secs(3);
    let zk = start(builder_for(connect_string)).await;
    let mut java = Peer::java(program, [connect_string], ANSWER);
    // Curator 5.4 makes a container.
    assert_eq!(java.tell("ttl /ttl/theirs 3000 theirs").await, "ok");
    let node = PersistentTtlNode::builder(&zk, "/ttl/theirs", TTL).data("ours").start();
    node.set_data("ours").await.unwrap();
    assert_eq!(java.tell("forget").await, "ok");
    assert!(touched_twice(&zk, "/ttl/theirs/touch").await);
    assert_eq!(zk.get_data("/ttl/theirs").await.unwrap(), "ours");

    let node = PersistentTtlNode::builder(&zk, "/ttl/ours", TTL).data("ours").start();
    node.created().await.unwrap();
    assert_eq!(java.tell("ttl /ttl/ours 3000 theirs").await, "ok");
    drop(node);
    assert!(touched_twice(&zk, "/ttl/ours/touch").await);
    assert!(zk.exists("/ttl/ours").await.unwrap().is_some());
    java.end().await;
    zk.close().await.unwrap();
}

/// The second time by a client that has not stopped.
async fn touched_twice(zk: &CuratorFramework, path: &str) -> bool {
    let mut touched = 0;
    while touched < 2 {
        let watch = match zk.get_data(path).watched().await {
            Ok(watched) => watched.watch,
            Err(_) => zk.exists(path).watched().await.unwrap().watch,
        };
        touched += usize::from(watch.await.unwrap().event_type != EventType::NodeDeleted);
    }
    zk.exists(path).await.unwrap().is_some()
}

async fn both(connect_string: &str) {
    let program = compiled("CuratorNodes.java").await;
    timeout(PATIENCE, async {
        one_group(&program, connect_string).await;
        one_path(&program, connect_string).await;
        one_node_with_a_time_to_live(&program, connect_string).await;
    })
    .await
    .unwrap();
}

on_each_with_java! {
    groups_and_nodes_are_shared_with_curator,
    |servers| both(&servers).await
}
