//! Watches of every kind, and their behaviour when the connection is lost.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator_client::{
    AddWatchMode, CreateMode, ErrorCode, EventType, OneshotWatch, Op, PersistentEvent,
    PersistentWatch, WatchEnded, WatcherType, ZooKeeper,
};
use zk_curator_testing::ZooKeeperVersion;

use super::{Case, away, refused};
use crate::common::{create, open, start};

/// Returns the next event of a persistent watch.
async fn next(watch: &mut PersistentWatch) -> (EventType, String) {
    match watch.next().await {
        Some(PersistentEvent::Changed(event)) => (event.event_type, event.path),
        other => panic!("{other:?}"),
    }
}

/// Asserts that there is no unexpected event: the response to a later request of the same stream
/// has arrived.
async fn assert_silent(zk: &ZooKeeper, watch: &mut PersistentWatch) {
    zk.sync("/").await.unwrap();
    zk.exists("/").await.unwrap();
    let event = timeout(Duration::ZERO, watch.next()).await;
    assert!(event.is_err(), "{event:?}");
}

fn event(event_type: EventType, path: &str) -> (EventType, String) {
    (event_type, path.to_owned())
}

/// Asserts that these are the next events of a persistent watch.
async fn assert_told(watch: &mut PersistentWatch, round: usize, expected: &[(EventType, &str)]) {
    for (event_type, path) in expected {
        assert_eq!(next(watch).await, event(*event_type, path), "round {round}");
    }
}

pub(crate) async fn persistent_watches_report_their_events(case: Case) {
    use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
    let (zk, other) = (case.client().await, case.client().await);
    let ((), mut node) = zk.add_watch("/p", AddWatchMode::Persistent).await.unwrap();
    let ((), mut tree) = zk.add_watch("/r", AddWatchMode::PersistentRecursive).await.unwrap();
    let ((), mut root) = zk.add_watch("/", AddWatchMode::PersistentRecursive).await.unwrap();
    for round in 0..3 {
        for path in ["/p", "/p/x", "/r", "/r/x", "/r/x/y"] {
            create(&other, path).await.unwrap();
        }
        other.set_data("/p", b"", None).await.unwrap();
        other.set_data("/p/x", b"", None).await.unwrap();
        other.set_data("/r/x/y", b"", None).await.unwrap();
        for path in ["/r/x/y", "/r/x", "/r", "/p/x", "/p"] {
            other.delete(path, None).await.unwrap();
        }
        let mine = [
            (NodeCreated, "/p"),
            (NodeChildrenChanged, "/p"),
            (NodeDataChanged, "/p"),
            (NodeChildrenChanged, "/p"),
            (NodeDeleted, "/p"),
        ];
        assert_told(&mut node, round, &mine).await;
        let below = [
            (NodeCreated, "/r"),
            (NodeCreated, "/r/x"),
            (NodeCreated, "/r/x/y"),
            (NodeDataChanged, "/r/x/y"),
            (NodeDeleted, "/r/x/y"),
            (NodeDeleted, "/r/x"),
            (NodeDeleted, "/r"),
        ];
        assert_told(&mut tree, round, &below).await;
        let all = [
            (NodeCreated, "/p"),
            (NodeCreated, "/p/x"),
            (NodeCreated, "/r"),
            (NodeCreated, "/r/x"),
            (NodeCreated, "/r/x/y"),
            (NodeDataChanged, "/p"),
            (NodeDataChanged, "/p/x"),
            (NodeDataChanged, "/r/x/y"),
            (NodeDeleted, "/r/x/y"),
            (NodeDeleted, "/r/x"),
            (NodeDeleted, "/r"),
            (NodeDeleted, "/p/x"),
            (NodeDeleted, "/p"),
        ];
        assert_told(&mut root, round, &all).await;
    }
    for watch in [&mut node, &mut tree, &mut root] {
        assert_silent(&zk, watch).await;
    }
    zk.close().await.unwrap();
    assert_eq!(tree.next().await, Some(PersistentEvent::Ended(WatchEnded::Closed)));
    assert_eq!(tree.next().await, None);
}

pub(crate) async fn events_carry_their_transaction_since_3_9(case: Case) {
    let (zk, other) = (case.client().await, case.client().await);
    let told = |zxid: i64| Some(zxid).filter(|_| case.target.version >= ZooKeeperVersion::V3_9);
    let ((), mut persistent) = zk.add_watch("/persistent", AddWatchMode::Persistent).await.unwrap();
    create(&other, "/persistent").await.unwrap();
    let created = other.exists("/persistent").await.unwrap().unwrap();
    match persistent.next().await {
        Some(PersistentEvent::Changed(event)) => assert_eq!(event.zxid(), told(created.czxid)),
        other => panic!("{other:?}"),
    }
    let (_, absent) = zk.exists_watched("/a").await.unwrap();
    create(&other, "/a").await.unwrap();
    let created = other.exists("/a").await.unwrap().unwrap();
    assert_eq!(absent.await.unwrap().zxid(), told(created.czxid));
    let (_, data) = zk.get_data_watched("/a").await.unwrap();
    let (_, children) = zk.get_children_watched("/a").await.unwrap();
    create(&other, "/a/x").await.unwrap();
    let changed = other.set_data("/a", b"", None).await.unwrap();
    assert_eq!(children.await.unwrap().zxid(), told(changed.pzxid));
    assert_eq!(data.await.unwrap().zxid(), told(changed.mzxid));
}

pub(crate) async fn watches_are_removed_by_kind_and_all_at_once(case: Case) {
    let (zk, other) = (case.client().await, case.client().await);
    let has = |path: &'static str, kind| zk.check_watches(path, kind);
    for path in ["/a", "/b", "/c"] {
        create(&zk, path).await.unwrap();
    }
    // Only this kind: the other watches on the path stay.
    let (_, data) = zk.get_data_watched("/a").await.unwrap();
    let (_, same) = zk.exists_watched("/a").await.unwrap();
    let (_, children) = zk.get_children_watched("/a").await.unwrap();
    assert_eq!(
        (has("/a", WatcherType::Data).await, has("/a", WatcherType::Children).await),
        (Ok(true), Ok(true))
    );
    zk.remove_watches("/a", WatcherType::Data).await.unwrap();
    assert_eq!(data.await, Err(WatchEnded::Removed));
    assert_eq!(same.await, Err(WatchEnded::Removed));
    assert_eq!(
        (has("/a", WatcherType::Data).await, has("/a", WatcherType::Children).await),
        (Ok(false), Ok(true))
    );
    other.set_data("/a", b"", None).await.unwrap();
    create(&other, "/a/x").await.unwrap();
    assert_eq!(children.await.unwrap().event_type, EventType::NodeChildrenChanged);

    let (_, data) = zk.get_data_watched("/b").await.unwrap();
    let (_, children) = zk.get_children_watched("/b").await.unwrap();
    zk.remove_watches("/b", WatcherType::Children).await.unwrap();
    assert_eq!(children.await, Err(WatchEnded::Removed));
    create(&other, "/b/x").await.unwrap();
    other.set_data("/b", b"", None).await.unwrap();
    assert_eq!(data.await.unwrap().event_type, EventType::NodeDataChanged);

    let (_, data) = zk.get_data_watched("/c").await.unwrap();
    let (_, children) = zk.get_children_watched("/c").await.unwrap();
    let (_, absent) = zk.exists_watched("/none").await.unwrap();
    zk.remove_watches("/c", WatcherType::Any).await.unwrap();
    zk.remove_watches("/none", WatcherType::Any).await.unwrap();
    for watch in [data, children, absent] {
        assert_eq!(watch.await, Err(WatchEnded::Removed));
    }
    persistent_watches_are_removed(&case, &zk, &other).await;
}

async fn persistent_watches_are_removed(case: &Case, zk: &ZooKeeper, other: &ZooKeeper) {
    let has = |path: &'static str, kind| zk.check_watches(path, kind);
    for path in ["/p", "/r"] {
        create(zk, path).await.unwrap();
    }
    let ((), mut persistent) = zk.add_watch("/p", AddWatchMode::Persistent).await.unwrap();
    let ((), mut recursive) = zk.add_watch("/r", AddWatchMode::PersistentRecursive).await.unwrap();
    assert_eq!(has("/p", WatcherType::Any).await, Ok(true));
    assert_eq!(has("/r", WatcherType::Any).await, Ok(true));
    let kinds = if case.target.version >= ZooKeeperVersion::V3_9 {
        assert_eq!(
            refused(zk.remove_watches("/p", WatcherType::PersistentRecursive).await),
            ErrorCode::NoWatcher
        );
        [WatcherType::Persistent, WatcherType::PersistentRecursive]
    } else {
        [WatcherType::Any; 2]
    };
    zk.remove_watches("/p", kinds[0]).await.unwrap();
    zk.remove_watches("/r", kinds[1]).await.unwrap();
    for (path, watch) in [("/p", &mut persistent), ("/r", &mut recursive)] {
        other.set_data(path, b"", None).await.unwrap();
        assert_eq!(watch.next().await, Some(PersistentEvent::Ended(WatchEnded::Removed)));
        assert_eq!(watch.next().await, None);
        assert_eq!(has(path, WatcherType::Any).await, Ok(false));
        assert_eq!(refused(zk.remove_watches(path, WatcherType::Any).await), ErrorCode::NoWatcher);
    }
}

pub(crate) async fn a_dropped_handle_removes_the_watch_on_the_server(case: Case) {
    let zk = case.client().await;
    create(&zk, "/a").await.unwrap();
    let is_watched = |path: &'static str, kind| zk.check_watches(path, kind);
    let (_, data) = zk.get_data_watched("/a").await.unwrap();
    let (_, same) = zk.get_data_watched("/a").await.unwrap();
    let (_, children) = zk.get_children_watched("/a").await.unwrap();
    let (_, absent) = zk.exists_watched("/none").await.unwrap();
    drop(data);
    assert_eq!(is_watched("/a", WatcherType::Data).await, Ok(true), "another handle is left");
    drop(same);
    assert_eq!(is_watched("/a", WatcherType::Data).await, Ok(false));
    assert_eq!(is_watched("/a", WatcherType::Children).await, Ok(true));
    drop(children);
    assert_eq!(is_watched("/a", WatcherType::Any).await, Ok(false));
    drop(absent);
    assert_eq!(is_watched("/none", WatcherType::Any).await, Ok(false));

    // Dropped before the response.
    drop(zk.get_data_watched("/a"));
    zk.sync("/").await.unwrap();
    assert_eq!(is_watched("/a", WatcherType::Any).await, Ok(false));

    for mode in [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive] {
        let ((), watch) = zk.add_watch("/a", mode).await.unwrap();
        assert_eq!(is_watched("/a", WatcherType::Any).await, Ok(true));
        drop(watch);
        assert_eq!(is_watched("/a", WatcherType::Any).await, Ok(false));
    }
    // A watch that has fired leaves nothing to remove.
    let (_, fired) = zk.get_data_watched("/a").await.unwrap();
    zk.set_data("/a", b"", None).await.unwrap();
    fired.await.unwrap();
    assert_eq!(is_watched("/a", WatcherType::Any).await, Ok(false));
}

pub(crate) async fn one_shot_watches_fire_for_changes_during_a_cut(case: Case) {
    let ((zk, relay), other) = (case.relayed().await, case.client().await);
    for path in ["/changed", "/deleted", "/parent", "/later", "/later-parent", "/quiet"] {
        create(&zk, path).await.unwrap();
    }
    let (_, changed) = zk.get_data_watched("/changed").await.unwrap();
    let (_, deleted) = zk.exists_watched("/deleted").await.unwrap();
    let (_, deleted_parent) = zk.get_children_watched("/deleted").await.unwrap();
    let (_, parent) = zk.get_children_watched("/parent").await.unwrap();
    let (_, created) = zk.exists_watched("/created").await.unwrap();
    let (_, later) = zk.get_data_watched("/later").await.unwrap();
    let (_, later_parent) = zk.get_children_watched("/later-parent").await.unwrap();
    let (_, later_created) = zk.exists_watched("/later-created").await.unwrap();
    let (_, mut quiet) = zk.get_data_watched("/quiet").await.unwrap();
    away(&zk, &relay, async {
        other.set_data("/changed", b"2", None).await.unwrap();
        other.delete("/deleted", None).await.unwrap();
        create(&other, "/parent/x").await.unwrap();
        create(&other, "/created").await.unwrap();
    })
    .await;
    for (watch, expected, path) in [
        (changed, EventType::NodeDataChanged, "/changed"),
        (deleted, EventType::NodeDeleted, "/deleted"),
        (deleted_parent, EventType::NodeDeleted, "/deleted"),
        (parent, EventType::NodeChildrenChanged, "/parent"),
        (created, EventType::NodeCreated, "/created"),
    ] {
        let event = watch.await.unwrap();
        assert_eq!((event.event_type, event.path.as_str()), (expected, path));
    }
    // Twice more without a change: the remaining watches are re-armed every time.
    away(&zk, &relay, async {}).await;
    away(&zk, &relay, async {}).await;
    zk.sync("/").await.unwrap();
    other.set_data("/later", b"2", None).await.unwrap();
    create(&other, "/later-parent/x").await.unwrap();
    create(&other, "/later-created").await.unwrap();
    assert_eq!(later.await.unwrap().event_type, EventType::NodeDataChanged);
    assert_eq!(later_parent.await.unwrap().event_type, EventType::NodeChildrenChanged);
    assert_eq!(later_created.await.unwrap().event_type, EventType::NodeCreated);
    assert!(timeout(Duration::ZERO, &mut quiet).await.is_err());
}

pub(crate) async fn responses_after_a_cut_show_no_change_before_its_watch_fires(case: Case) {
    let ((zk, relay), other) = (case.relayed().await, case.client().await);
    create(&zk, "/a").await.unwrap();
    for _ in 0..5 {
        let (_, mut watch) = zk.get_data_watched("/a").await.unwrap();
        let mut written = 0;
        let mut read = None;
        away(&zk, &relay, async {
            written = other.set_data("/a", b"", None).await.unwrap().version;
            read = Some((zk.sync("/a"), zk.get_data("/a")));
        })
        .await;
        let (sync, read) = read.expect("queued");
        sync.await.unwrap();
        assert_eq!(read.await.unwrap().stat.version, written);
        assert!(timeout(Duration::ZERO, &mut watch).await.is_ok(), "the response came first");
    }
}

pub(crate) async fn persistent_watches_survive_cuts_and_say_so(case: Case) {
    let ((zk, relay), other) = (case.relayed().await, case.client().await);
    create(&zk, "/p").await.unwrap();
    create(&zk, "/r").await.unwrap();
    let ((), mut node) = zk.add_watch("/p", AddWatchMode::Persistent).await.unwrap();
    let ((), mut tree) = zk.add_watch("/r", AddWatchMode::PersistentRecursive).await.unwrap();
    for round in 0..3 {
        away(&zk, &relay, async {
            other.set_data("/p", b"missed", None).await.unwrap();
        })
        .await;
        for watch in [&mut node, &mut tree] {
            let unchanged = rearmed(watch).await;
            // One of several servers may not have applied the write yet.
            assert!(!unchanged || case.target.addresses.len() > 1);
        }
        // The current server may not have applied the missed write yet.
        zk.sync("/p").await.unwrap();
        while timeout(Duration::ZERO, node.next()).await.is_ok() {}
        other.set_data("/p", b"seen", None).await.unwrap();
        let below = format!("/r/{round}");
        create(&other, &below).await.unwrap();
        assert_eq!(next(&mut node).await, event(EventType::NodeDataChanged, "/p"));
        assert_eq!(next(&mut tree).await, event(EventType::NodeCreated, &below));
        assert_silent(&zk, &mut node).await;
        assert_silent(&zk, &mut tree).await;
    }
}

/// Sessions of other cases may end in between, which is a transaction. Then the next cut must show
/// it.
pub(crate) async fn a_rearmed_watch_tells_whether_anything_was_missed(case: Case) {
    let ((zk, relay), other) = (case.relayed().await, case.client().await);
    create(&zk, "/p").await.unwrap();
    let ((), mut node) = zk.add_watch("/p", AddWatchMode::Persistent).await.unwrap();
    let ((), mut tree) = zk.add_watch("/", AddWatchMode::PersistentRecursive).await.unwrap();
    // The second time there was no request on the previous connection.
    for _ in 0..2 {
        loop {
            away(&zk, &relay, async {}).await;
            let unchanged = rearmed(&mut node).await;
            assert_eq!(rearmed(&mut tree).await, unchanged);
            if unchanged {
                break;
            }
        }
    }
    for path in ["/p", "/elsewhere"] {
        let mut written = 0;
        away(&zk, &relay, async {
            written = match path {
                "/p" => other.set_data(path, b"missed", None).await.unwrap().mzxid,
                path => {
                    other
                        .create(path, b"", &open(), CreateMode::Persistent)
                        .await
                        .unwrap()
                        .stat
                        .czxid
                }
            };
        })
        .await;
        let unchanged = rearmed(&mut node).await;
        assert_eq!(rearmed(&mut tree).await, unchanged);
        if unchanged {
            // It was one of several servers that had not applied the write.
            assert!(case.target.addresses.len() > 1, "{path}");
            assert_eq!(next(&mut tree).await.1, path);
            if path == "/p" {
                assert_eq!(next(&mut node).await, event(EventType::NodeDataChanged, "/p"));
            }
        } else {
            assert!(
                zk.last_zxid_seen() >= written,
                "the response that re-armed it shows the write"
            );
        }
    }
    assert_silent(&zk, &mut node).await;
    assert_silent(&zk, &mut tree).await;
}

/// Returns the flag `unchanged` of the re-armed watch after a lost connection.
async fn rearmed(watch: &mut PersistentWatch) -> bool {
    assert_eq!(watch.next().await, Some(PersistentEvent::Disarmed));
    loop {
        match watch.next().await {
            // Another attempt has failed.
            Some(PersistentEvent::Disarmed) => {}
            Some(PersistentEvent::Rearmed { unchanged }) => return unchanged,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn twenty_five_thousand_watches_survive_a_cut(case: Case) {
    many_watches_survive_a_cut(case, 25_000).await;
}

pub(crate) async fn a_hundred_thousand_watches_survive_a_cut(case: Case) {
    many_watches_survive_a_cut(case, 100_000).await;
}

/// Sets a third of the watches on data, a third on nodes that do not exist, and a third on
/// children.
async fn many_watches_survive_a_cut(case: Case, count: usize) {
    /// The number of nodes of each kind that change while the client is away.
    const MEANWHILE: usize = 100;
    /// This many operations in a transaction are well below its limit.
    const BATCH: usize = 1000;
    let (relay, long) = (case.relay().await, Duration::from_secs(40));
    let zk = start(case.through(&relay).session_timeout(long)).await;
    let other = start(case.builder().session_timeout(long)).await;
    let path = |n: usize| format!("/{}-{n:07}", "x".repeat(60));
    let create_op = |n: usize| Op::Create {
        path: path(n),
        data: Some(Bytes::new()),
        acl: open(),
        mode: CreateMode::Persistent,
        ttl: None,
    };
    let all: Vec<_> = (0..count).collect();
    for batch in all.chunks(BATCH) {
        let nodes: Vec<_> = batch.iter().filter(|n| **n % 3 != 1).map(|n| create_op(*n)).collect();
        zk.multi(&nodes).await.unwrap();
    }
    let mut watches: Vec<(EventType, OneshotWatch)> = Vec::with_capacity(count);
    for batch in all.chunks(10 * BATCH) {
        let (mut data, mut absent, mut children) = (Vec::new(), Vec::new(), Vec::new());
        for n in batch {
            match n % 3 {
                0 => data.push(zk.get_data_watched(&path(*n))),
                1 => absent.push(zk.exists_watched(&path(*n))),
                _ => children.push(zk.get_children_watched(&path(*n))),
            }
        }
        for pending in data {
            watches.push((EventType::NodeDataChanged, pending.await.unwrap().1));
        }
        for pending in absent {
            watches.push((EventType::NodeCreated, pending.await.unwrap().1));
        }
        for pending in children {
            watches.push((EventType::NodeDeleted, pending.await.unwrap().1));
        }
    }
    let change = |n: &usize| match n % 3 {
        0 => Op::SetData { path: path(*n), data: Some(Bytes::new()), version: 0.into() },
        1 => create_op(*n),
        _ => Op::Delete { path: path(*n), version: None.into() },
    };
    let (meanwhile, later) = all.split_at(3 * MEANWHILE);
    away(&zk, &relay, async {
        other.multi(&meanwhile.iter().map(change).collect::<Vec<_>>()).await.unwrap();
    })
    .await;
    // The response comes after everything is re-armed.
    zk.sync("/").await.unwrap();
    for batch in later.chunks(BATCH) {
        other.multi(&batch.iter().map(change).collect::<Vec<_>>()).await.unwrap();
    }
    for (expected, watch) in watches {
        assert_eq!(watch.await.unwrap().event_type, expected);
    }
    zk.close().await.unwrap();
}
