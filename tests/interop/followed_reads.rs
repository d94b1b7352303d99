//! Followed reads and multi reads, on the embedded server and on Apache ZooKeeper: their
//! conclusions from stats hold on both.

use zk_curator::watch::{ChildEvent, ChildrenDiff};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_tests::{Server, on_each_server};

on_each_server! {
    restarted: followed_data_are_told
}
on_each_server! {
    children_that_have_returned_are_told_apart
    many_nodes_are_read_in_one_request
}

async fn followed_data_are_told(mut server: Server) {
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
async fn children_that_have_returned_are_told_apart(server: Server) {
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
