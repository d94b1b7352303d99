//! The requirements of the client on every server, run against the embedded server, in memory and
//! over TCP, and against Apache ZooKeeper. Each case takes a client with an empty chroot.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use zk_curator_client::{
    CreateMode, Error, ErrorCode, EventType, Op, OpResult, SessionState, ZooKeeper, path::PathError,
};

use super::{create, id, open};

fn create_op(path: &str, mode: CreateMode) -> Op {
    Op::Create {
        path: path.into(),
        data: Some(Bytes::from_static(b"t")),
        acl: open(),
        mode,
        ttl: None,
    }
}

pub(crate) async fn nodes_are_created_read_written_and_deleted(zk: ZooKeeper) {
    let created = zk.create("/a", b"one", &open(), CreateMode::Persistent).await.unwrap();
    assert_eq!((created.path.as_str(), created.stat.data_length), ("/a", 3));
    assert_eq!(create(&zk, "/a").await, Err(Error::Refused(ErrorCode::NodeExists)));
    assert_eq!(create(&zk, "/no/parent").await, Err(Error::Refused(ErrorCode::NoNode)));

    let read = zk.get_data("/a").await.unwrap();
    assert_eq!((&read.data[..], read.stat.czxid), (&b"one"[..], created.stat.czxid));
    assert_eq!(zk.exists("/a").await.unwrap(), Some(read.stat));
    assert_eq!(zk.exists("/b").await.unwrap(), None);
    assert_eq!(zk.get_data("/b").await, Err(Error::Refused(ErrorCode::NoNode)));

    let stat = zk.set_data("/a", b"three", Some(0)).await.unwrap();
    assert_eq!((stat.version, stat.data_length), (1, 5));
    assert_eq!(zk.set_data("/a", b"", Some(0)).await, Err(Error::Refused(ErrorCode::BadVersion)));
    zk.set_data("/a", b"", None).await.unwrap();
    assert_eq!(zk.get_data("/a").await.unwrap().data, "");

    create(&zk, "/a/x").await.unwrap();
    create(&zk, "/a/y").await.unwrap();
    let children = zk.get_children("/a").await.unwrap();
    assert_eq!(
        HashSet::<_>::from_iter(children.names.iter().map(String::as_str)),
        HashSet::from(["x", "y"])
    );
    assert_eq!(children.stat.num_children, 2);
    assert_eq!(zk.delete("/a", None).await, Err(Error::Refused(ErrorCode::NotEmpty)));
    assert_eq!(zk.delete("/a/x", Some(7)).await, Err(Error::Refused(ErrorCode::BadVersion)));
    zk.delete("/a/x", Some(0)).await.unwrap();
    zk.delete("/a/y", None).await.unwrap();
    zk.sync("/a").await.unwrap();
    zk.delete("/a", None).await.unwrap();
    assert_eq!(zk.delete("/a", None).await, Err(Error::Refused(ErrorCode::NoNode)));
    zk.close().await.unwrap();
}

pub(crate) async fn every_kind_of_node_is_created(zk: ZooKeeper) {
    let acl = open();
    let container = zk.create("/c", b"", &acl, CreateMode::Container).await.unwrap();
    assert_eq!(container.path, "/c");
    let ephemeral = zk.create("/c/e", b"", &acl, CreateMode::Ephemeral).await.unwrap();
    assert_eq!(ephemeral.stat.ephemeral_owner, id(&zk));
    let below = zk.create("/c/e/x", b"", &acl, CreateMode::Persistent).await;
    assert_eq!(below, Err(Error::Refused(ErrorCode::NoChildrenForEphemerals)));
    let first = zk.create("/c/s-", b"", &acl, CreateMode::EphemeralSequential).await.unwrap();
    let second = zk.create("/c/s-", b"", &acl, CreateMode::PersistentSequential).await.unwrap();
    let third = zk.create("/c/", b"", &acl, CreateMode::PersistentSequential).await.unwrap();
    let number = |path: &str| path[path.len() - 10..].parse::<u32>().unwrap();
    assert_eq!(number(&second.path), number(&first.path) + 1);
    assert_eq!(third.path, format!("/c/{:010}", number(&first.path) + 2));
    assert!(first.path.starts_with("/c/s-"));
    assert_eq!((first.stat.ephemeral_owner, second.stat.ephemeral_owner), (id(&zk), 0));
    let root = zk.create("/", b"", &acl, CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(zk.exists(&root.path).await.unwrap(), Some(root.stat), "{}", root.path);

    let ttl = Duration::from_secs(600);
    let node =
        zk.create_with_ttl("/t", b"", &acl, CreateMode::PersistentWithTtl, ttl).await.unwrap();
    assert_eq!(node.path, "/t");
    let mode = CreateMode::PersistentSequentialWithTtl;
    let node = zk.create_with_ttl("/t-", b"", &acl, mode, ttl).await.unwrap();
    assert_eq!(node.path.len(), "/t-0000000001".len());
    zk.close().await.unwrap();
}

pub(crate) async fn transactions_apply_all_or_name_the_failure(zk: ZooKeeper) {
    let applied = zk
        .multi(&[
            create_op("/m", CreateMode::Persistent),
            create_op("/m/s-", CreateMode::PersistentSequential),
            Op::SetData {
                path: "/m".into(),
                data: Some(Bytes::from_static(b"v")),
                version: 0.into(),
            },
            Op::Check { path: "/m".into(), version: 1.into() },
            create_op("/gone", CreateMode::Ephemeral),
            Op::Delete { path: "/gone".into(), version: None.into() },
            create_op("/container", CreateMode::Container),
        ])
        .await
        .unwrap();
    let paths: Vec<_> = applied
        .iter()
        .map(|result| match result {
            OpResult::Created { path, .. } => path.as_str(),
            OpResult::Deleted => "deleted",
            OpResult::DataSet(stat) => ["0", "set"][usize::from(stat.version == 1)],
            OpResult::Checked => "checked",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        paths,
        ["/m", "/m/s-0000000000", "set", "checked", "/gone", "deleted", "/container"]
    );

    for index in 0..3 {
        let mut ops: Vec<_> =
            (0..3).map(|n| create_op(&format!("/n{n}"), CreateMode::Persistent)).collect();
        ops[index] = Op::Check { path: "/m".into(), version: 99.into() };
        let failed = zk.multi(&ops).await.unwrap_err();
        assert_eq!(failed, Error::TransactionFailed { index, code: ErrorCode::BadVersion });
        assert!(!failed.may_have_applied());
        for n in 0..3 {
            assert_eq!(zk.exists(&format!("/n{n}")).await.unwrap(), None);
        }
    }
    assert_eq!(zk.multi(&[]).await.unwrap(), []);
    zk.close().await.unwrap();
}

pub(crate) async fn one_shot_watches_fire_once_for_what_they_watch(zk: ZooKeeper) {
    let (absent, created) = zk.exists_watched("/w").await.unwrap();
    assert_eq!(absent, None);
    create(&zk, "/w").await.unwrap();
    let event = created.await.unwrap();
    assert_eq!((event.event_type, event.path.as_str()), (EventType::NodeCreated, "/w"));

    let (_, exists) = zk.exists_watched("/w").await.unwrap();
    let (_, data) = zk.get_data_watched("/w").await.unwrap();
    let (_, children) = zk.get_children_watched("/w").await.unwrap();
    zk.set_data("/w", b"2", None).await.unwrap();
    assert_eq!(exists.await.unwrap().event_type, EventType::NodeDataChanged);
    assert_eq!(data.await.unwrap().event_type, EventType::NodeDataChanged);
    create(&zk, "/w/x").await.unwrap();
    assert_eq!(children.await.unwrap().event_type, EventType::NodeChildrenChanged);

    let (_, data) = zk.get_data_watched("/w/x").await.unwrap();
    let (_, children) = zk.get_children_watched("/w/x").await.unwrap();
    zk.delete("/w/x", None).await.unwrap();
    assert_eq!(data.await.unwrap().event_type, EventType::NodeDeleted);
    assert_eq!(children.await.unwrap().event_type, EventType::NodeDeleted);

    assert_eq!(zk.get_data_watched("/none").await.unwrap_err(), Error::Refused(ErrorCode::NoNode));
    zk.close().await.unwrap();
}

pub(crate) async fn results_come_in_the_order_of_the_calls(zk: ZooKeeper) {
    // Everything is queued before anything is awaited, and the responses are taken in the opposite
    // order.
    let created = zk.create("/p", b"v", &open(), CreateMode::Persistent);
    let read = zk.get_data("/p");
    let written: Vec<_> = (0..500).map(|_| zk.set_data("/p", b"w", None)).collect();
    let deleted = zk.delete("/p", Some(500));
    let absent = zk.exists("/p");
    assert_eq!(absent.await.unwrap(), None);
    deleted.await.unwrap();
    for (version, stat) in (1..).zip(written) {
        assert_eq!(stat.await.unwrap().version, version);
    }
    assert_eq!(read.await.unwrap().data, "v");
    assert_eq!(created.await.unwrap().path, "/p");
    zk.close().await.unwrap();
}

pub(crate) async fn large_data_come_back_whole(zk: ZooKeeper) {
    let data: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).take(1_000_000).collect();
    zk.create("/large", &data, &open(), CreateMode::Persistent).await.unwrap();
    let reads: Vec<_> = (0..8).map(|_| zk.get_data("/large")).collect();
    for read in reads {
        assert!(read.await.unwrap().data == data);
    }
    let too_large = vec![0; 1 << 20];
    let refused = zk.set_data("/large", &too_large, None).await.unwrap_err();
    assert!(matches!(refused, Error::TooLarge { limit: 0xf_ffff, .. }), "{refused:?}");
    assert!(matches!(zk.state(), SessionState::Connected(_)));
    zk.close().await.unwrap();
}

pub(crate) async fn arguments_that_make_no_sense_are_refused_here(zk: ZooKeeper) {
    let paths = [
        ("", PathError::Empty),
        ("a", PathError::Relative),
        ("/a/", PathError::TrailingSlash),
        ("//a", PathError::EmptyComponent),
        ("/a/../b", PathError::RelativeComponent),
        ("/a\0", PathError::InvalidCharacter('\0')),
    ];
    for (path, why) in paths {
        let why = Error::InvalidPath(why);
        assert_eq!(create(&zk, path).await, Err(why.clone()));
        assert_eq!(zk.delete(path, None).await, Err(why.clone()));
        assert_eq!(zk.exists(path).await, Err(why.clone()));
        assert_eq!(zk.exists_watched(path).await.unwrap_err(), why);
        assert_eq!(zk.get_data(path).await, Err(why.clone()));
        assert_eq!(zk.get_data_watched(path).await.unwrap_err(), why);
        assert_eq!(zk.set_data(path, b"", None).await, Err(why.clone()));
        assert_eq!(zk.get_children(path).await, Err(why.clone()));
        assert_eq!(zk.get_children_watched(path).await.unwrap_err(), why);
        assert_eq!(zk.sync(path).await, Err(why.clone()));
        assert_eq!(zk.multi(&[create_op(path, CreateMode::Persistent)]).await, Err(why));
    }
    let acl = open();
    for mode in [CreateMode::PersistentWithTtl, CreateMode::PersistentSequentialWithTtl] {
        assert!(matches!(zk.create("/a", b"", &acl, mode).await, Err(Error::InvalidArgument(_))));
    }
    let ttl = Duration::from_secs(1);
    let mixed = zk.create_with_ttl("/a", b"", &acl, CreateMode::Ephemeral, ttl).await;
    assert!(matches!(mixed, Err(Error::InvalidArgument(_))));
    assert_eq!(
        zk.create("/a", b"", &[], CreateMode::Persistent).await,
        Err(Error::Refused(ErrorCode::InvalidAcl))
    );
    zk.close().await.unwrap();
}

pub(crate) async fn identities_are_accepted(zk: ZooKeeper) {
    zk.add_auth("digest", b"user:secret").await.unwrap();
    zk.add_auth("digest", b"user:secret").await.unwrap();
    let mine = zk_curator_client::Acl::creator_all();
    zk.create("/mine", b"", &mine, CreateMode::Persistent).await.unwrap();
    assert_eq!(zk.get_data("/mine").await.unwrap().data, "");
    zk.close().await.unwrap();
}

/// Checks that the watches of a client fire for another client's writes after `disrupt` has cut its
/// connection. The paths are so long that they do not fit into one request.
pub(crate) async fn two_thousand_watches_on_long_paths_survive(
    zk: &ZooKeeper,
    other: &ZooKeeper,
    disrupt: impl AsyncFnOnce(&ZooKeeper),
) {
    let paths: Vec<_> = (0..2000).map(|n| format!("/{n:067}")).collect();
    assert_eq!(paths[0].len(), 68);
    let created: Vec<_> =
        paths.iter().map(|path| zk.create(path, b"", &open(), CreateMode::Persistent)).collect();
    let reads: Vec<_> = paths.iter().map(|path| zk.get_data_watched(path)).collect();
    for created in created {
        created.await.unwrap();
    }
    let mut watches = Vec::new();
    for read in reads {
        watches.push(read.await.unwrap().1);
    }
    disrupt(zk).await;
    let written: Vec<_> = paths.iter().map(|path| other.set_data(path, b"2", None)).collect();
    for written in written {
        written.await.unwrap();
    }
    for watch in watches {
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeDataChanged);
    }
}
