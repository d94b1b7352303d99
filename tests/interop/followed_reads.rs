//! Followed reads and multi reads, on the embedded server and on Apache ZooKeeper: their
//! conclusions from stats hold on both.

use std::cell::Cell;
use std::collections::BTreeSet;

use zk_curator::watch::{ChildEvent, ChildrenDiff};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_real::{self as real, RealZooKeeper};
use zk_curator_tests::{Server, builder_for, on_each_server, real_time, start};

on_each_server! {
    restarted: followed_data_are_returned
}
on_each_server! {
    recreated_children_are_distinguished
    many_nodes_are_read_in_one_request
}

async fn followed_data_are_returned(mut server: Server) {
    let (zk, other) = (server.connected().await, server.connected().await);
    let mut watch = zk.watch_data("/a");
    assert!(watch.next().await.unwrap().is_none());
    other.create("/a").data("1").await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().0, "1");
    for data in ["1", "2"] {
        other.set_data("/a", data).await.unwrap();
        assert_eq!(watch.next().await.unwrap().unwrap().0, data);
    }
    other.delete("/a").await.unwrap();
    assert!(watch.next().await.unwrap().is_none());
    let restarted = async {
        server.stop().await;
        server.restart().await;
        other.wait_connected().await.unwrap();
        other.create("/a").idempotent().data("3").await.unwrap();
    };
    let (told, ()) = tokio::join!(watch.next(), restarted);
    assert_eq!(told.unwrap().unwrap().0, "3");
    let waiting = tokio::spawn(zk.wait_gone("/a"));
    zk.wait_data("/a", |data| data == "3").await.unwrap();
    other.delete("/a").await.unwrap();
    waiting.await.unwrap().unwrap();
    zk.close().await.unwrap();
    other.close().await.unwrap();
}

async fn replace(zk: &CuratorFramework, path: &str) {
    zk.delete(path).await.unwrap();
    zk.create(path).await.unwrap();
}

async fn events(diff: &mut ChildrenDiff, count: usize) -> Vec<ChildEvent> {
    let mut events = Vec::new();
    while events.len() < count {
        events.push(diff.next().await.unwrap());
    }
    events
}

/// `cversion` counts the creations: `DataNode.copyStat`.
async fn recreated_children_are_distinguished(server: Server) {
    let (zk, other) = (server.connected().await, server.connected().await);
    let joined = |name: &str| ChildEvent::Joined(name.to_owned());
    let left = |name: &str| ChildEvent::Left(name.to_owned());
    for path in ["/p", "/p/a", "/p/b"] {
        other.create(path).await.unwrap();
    }
    let mut watch = zk.watch_children("/p").identity();
    let mut diff = zk.watch_children("/p").identity().diff();
    assert_eq!(watch.next().await.unwrap().unwrap().0, ["a", "b"]);
    assert_eq!(events(&mut diff, 2).await, [joined("a"), joined("b")]);
    for _ in 0..3 {
        replace(&other, "/p/b").await;
        assert_eq!(watch.next().await.unwrap().unwrap().0, ["a", "b"]);
        assert_eq!(events(&mut diff, 2).await, [left("b"), joined("b")]);
    }
    // Other nodes that are created and deleted are not a reason, even in a transaction.
    let more = other.transaction().create("/p/c", "").create("/p/d", "").delete("/p/c");
    more.commit().await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().0, ["a", "b", "d"]);
    assert_eq!(events(&mut diff, 1).await, [joined("d")]);
    replace(&other, "/p/a").await;
    other.delete("/p/d").await.unwrap();
    assert_eq!(events(&mut diff, 3).await, [left("a"), left("d"), joined("a")]);
    assert_eq!(watch.next().await.unwrap().unwrap().0, ["a", "b"]);
    zk.close().await.unwrap();
    other.close().await.unwrap();
}

async fn many_nodes_are_read_in_one_request(server: Server) {
    let zk = server.connected().await;
    zk.create("/p").data("parent").await.unwrap();
    for number in 0..300 {
        zk.create(format!("/p/{number:03}")).data(number.to_string()).await.unwrap();
    }
    let children = zk.children_with_data("/p").await.unwrap();
    assert_eq!(children.len(), 300);
    assert!(children.iter().enumerate().all(|(number, child)| {
        child.name == format!("{number:03}")
            && child.data == number.to_string()
            && child.stat.version == 0
    }));
    let answers =
        zk.multi_read().get_data("/p").children("/p/000").get_data("/none").await.unwrap();
    assert_eq!(answers[0].clone().unwrap().into_data().unwrap().0, "parent");
    assert!(answers[1].clone().unwrap().into_children().unwrap().is_empty());
    assert_eq!(answers[2].as_ref().unwrap_err().kind(), ErrorKind::NoNode);
    zk.close().await.unwrap();
}

/// Two clients write 200 nodes, in one transaction after the other. In a quorum, servers execute
/// reads in several threads, and this request takes the longest of all.
async fn reads_show_one_value(reader: &CuratorFramework, writers: [&CuratorFramework; 2]) {
    const NODES: usize = 200;
    const READS: usize = 300;
    let paths: Vec<String> = (0..NODES).map(|number| format!("/one/{number}")).collect();
    reader.create("/one").await.unwrap();
    let mut create = reader.transaction();
    for path in &paths {
        create = create.create(path, "0");
    }
    create.commit().await.unwrap();
    let is_over = Cell::new(false);
    let write = async |(number, zk): (usize, &CuratorFramework)| {
        for round in 1.. {
            let mut write = zk.transaction();
            for path in &paths {
                write = write.set_data(path, format!("{number} {round}"));
            }
            write.commit().await.unwrap();
            if is_over.get() {
                break;
            }
        }
    };
    let read = async {
        let mut seen = BTreeSet::new();
        for _ in 0..READS {
            let mut request = reader.multi_read().in_one_request();
            for path in &paths {
                request = request.get_data(path);
            }
            let nodes = request.await.unwrap().into_iter();
            let nodes = nodes.map(|node| node.unwrap().into_data().unwrap());
            let values: BTreeSet<_> = nodes.map(|(data, stat)| (stat.mzxid, data)).collect();
            assert_eq!(values.len(), 1, "a mixture: {values:?}");
            seen.extend(values);
        }
        is_over.set(true);
        assert!(seen.len() > READS / 10, "only {} states were seen", seen.len());
    };
    tokio::join!(read, write((1, writers[0])), write((2, writers[1])));
    reader.delete("/one").deleting_children().await.unwrap();
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn multi_read_shows_one_state() {
    real_time(async {
        let name = "multi_read_shows_one_state";
        let Some(ensemble) = real::or_skip_ensemble(name, 3).await else { return };
        let leader = ensemble.leader().await.unwrap();
        let mut servers: Vec<_> =
            ensemble.servers().iter().map(RealZooKeeper::connect_string).collect();
        servers.swap(0, leader);
        let mut clients = Vec::new();
        for server in &servers {
            clients.push(start(builder_for(server)).await);
        }
        let [leader, follower, other] = &clients[..] else { panic!("three servers") };
        reads_show_one_value(leader, [follower, other]).await;
        reads_show_one_value(follower, [leader, other]).await;
        reads_show_one_value(follower, [follower, leader]).await;
    });
}
