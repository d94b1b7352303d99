//! Every operation with its typed result and errors, except those that the suite without a relay
//! covers.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use zk_curator_client::{
    Acl, CreateMode, Error, ErrorCode, Op, OpResult, Permissions, Read, ReadResponse,
    Reconfiguration, Version,
};
use zk_curator_testing::ZooKeeperVersion;

use super::{Case, refused};
use crate::common::{create, id, open, start};

pub(crate) async fn acls_are_read_replaced_and_enforced(case: Case) {
    let (zk, other) = (case.client().await, case.client().await);
    create(&zk, "/open").await.unwrap();
    let read = zk.get_acl("/open").await.unwrap();
    assert_eq!((read.acl, read.stat.aversion), (open(), 0));

    zk.add_auth("digest", b"alice:secret").await.unwrap();
    let stat = zk.set_acl("/open", &Acl::creator_all(), Some(0)).await.unwrap();
    assert_eq!(stat.aversion, 1);
    let acl = zk.get_acl("/open").await.unwrap().acl;
    assert_eq!((acl.len(), acl[0].scheme.as_str()), (1, "digest"));
    assert!(acl[0].id.starts_with("alice:") && acl[0].id.len() > "alice:x".len(), "{}", acl[0].id);
    assert_eq!(acl[0].permissions, Permissions::ALL);

    other.sync("/open").await.unwrap();
    assert_eq!(refused(other.get_data("/open").await), ErrorCode::NoAuth);
    assert_eq!(refused(other.get_data_watched("/open").await), ErrorCode::NoAuth);
    assert_eq!(refused(other.get_children("/open").await), ErrorCode::NoAuth);
    // Until a leader has applied the change itself, it checks a write against its own record, with
    // the old ACL. Other members may be faster.
    while other.set_data("/open", b"data", None).await.is_ok() {}
    assert_eq!(refused(other.set_data("/open", b"", None).await), ErrorCode::NoAuth);
    assert_eq!(refused(create(&other, "/open/x").await), ErrorCode::NoAuth);
    assert_eq!(refused(other.set_acl("/open", &open(), None).await), ErrorCode::NoAuth);
    assert_eq!(refused(other.get_acl("/open").await), ErrorCode::NoAuth);
    if case.target.version < ZooKeeperVersion::V3_9 {
        // The existence of a node is not secret (ZOOKEEPER-2590).
        assert!(other.exists("/open").await.unwrap().is_some());
    }
    other.add_auth("digest", b"alice:wrong").await.unwrap();
    assert_eq!(refused(other.get_data("/open").await), ErrorCode::NoAuth);
    other.add_auth("digest", b"alice:secret").await.unwrap();
    assert_eq!(other.get_data("/open").await.unwrap().data, "data");

    assert_eq!(refused(zk.set_acl("/open", &open(), Some(0)).await), ErrorCode::BadVersion);
    assert_eq!(refused(zk.set_acl("/none", &open(), None).await), ErrorCode::NoNode);
    assert_eq!(refused(zk.get_acl("/none").await), ErrorCode::NoNode);
    assert_eq!(refused(zk.set_acl("/open", &[], None).await), ErrorCode::InvalidAcl);
    let unknown = [Acl::new(Permissions::ALL, "no-such-scheme", "x")];
    assert_eq!(refused(zk.set_acl("/open", &unknown, None).await), ErrorCode::InvalidAcl);
    let stranger = other.multi(&[Op::Delete { path: "/open".into(), version: 9.into() }]).await;
    assert_eq!(stranger, Err(Error::TransactionFailed { index: 0, code: ErrorCode::BadVersion }));
}

pub(crate) async fn many_reads_in_one_request_fail_each_for_itself(case: Case) {
    let zk = case.client().await;
    create(&zk, "/a").await.unwrap();
    create(&zk, "/a/x").await.unwrap();
    zk.add_auth("digest", b"alice:secret").await.unwrap();
    zk.create("/mine", b"", &Acl::creator_all(), CreateMode::Persistent).await.unwrap();
    let other = case.client().await;
    other.sync("/").await.unwrap();
    let reads = ["/a", "/none", "/mine"].map(str::to_owned).into_iter();
    let reads: Vec<_> =
        reads.flat_map(|path| [Read::Data(path.clone()), Read::Children(path)]).collect();
    let answers = other.multi_read(&reads).await.unwrap();
    let Ok(ReadResponse::Data(data)) = &answers[0] else { panic!("{:?}", answers[0]) };
    assert_eq!((&data.data[..], data.stat.num_children), (&b"data"[..], 1));
    assert_eq!(answers[1], Ok(ReadResponse::Children(vec!["x".into()])));
    for answer in &answers[2..4] {
        assert_eq!(*answer, Err(Error::Refused(ErrorCode::NoNode)));
    }
    for answer in &answers[4..] {
        assert_eq!(*answer, Err(Error::Refused(ErrorCode::NoAuth)));
    }
    assert_eq!(other.multi_read(&[]).await.unwrap(), []);
    let many: Vec<_> =
        (0..2000).map(|n| Read::Data(if n % 2 == 0 { "/a" } else { "/a/x" }.into())).collect();
    assert!(other.multi_read(&many).await.unwrap().iter().all(Result::is_ok));
    let invalid = other.multi_read(&[Read::Data("a".into())]).await.unwrap_err();
    assert!(matches!(invalid, Error::InvalidPath(_)), "{invalid:?}");
}

pub(crate) async fn a_transaction_creates_every_kind_of_node(case: Case) {
    let zk = case.client().await;
    let op = |path: &str, mode, ttl| Op::Create {
        path: path.into(),
        data: Some(Bytes::new()),
        acl: open(),
        mode,
        ttl,
    };
    let ttl = Some(Duration::from_secs(600));
    let results = zk
        .multi(&[
            op("/p", CreateMode::Persistent, None),
            op("/p/e", CreateMode::Ephemeral, None),
            op("/p/s-", CreateMode::PersistentSequential, None),
            op("/p/s-", CreateMode::EphemeralSequential, None),
            op("/c", CreateMode::Container, None),
            op("/t", CreateMode::PersistentWithTtl, ttl),
            op("/t-", CreateMode::PersistentSequentialWithTtl, ttl),
        ])
        .await
        .unwrap();
    let paths: Vec<_> = results
        .iter()
        .map(|result| match result {
            OpResult::Created { path, stat } => {
                // 3.8 returns the stat only for containers and nodes with a time to live.
                assert!(stat.is_some() || case.target.version < ZooKeeperVersion::V3_9, "{path}");
                path.as_str()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(paths[..6], ["/p", "/p/e", "/p/s-0000000001", "/p/s-0000000002", "/c", "/t"]);
    for path in paths {
        let stat = zk.exists(path).await.unwrap().expect(path);
        let ephemeral = ["/p/e", "/p/s-0000000002"].contains(&path);
        assert_eq!(stat.ephemeral_owner, if ephemeral { id(&zk) } else { 0 }, "{path}");
    }
    let below = op("/p/e/x", CreateMode::Persistent, None);
    for (index, at_fault, code) in [
        (1, op("/p", CreateMode::Persistent, None), ErrorCode::NodeExists),
        (1, below, ErrorCode::NoChildrenForEphemerals),
        (2, op("/no/parent", CreateMode::Persistent, None), ErrorCode::NoNode),
        (0, Op::Delete { path: "/p".into(), version: None.into() }, ErrorCode::NotEmpty),
        (1, Op::Check { path: "/gone".into(), version: None.into() }, ErrorCode::NoNode),
        (
            2,
            Op::SetData { path: "/p".into(), data: Some(Bytes::new()), version: 7.into() },
            ErrorCode::BadVersion,
        ),
    ] {
        let mut ops =
            vec![op("/q", CreateMode::Persistent, None), op("/q/x", CreateMode::Persistent, None)];
        ops.insert(index, at_fault.clone());
        let failed = zk.multi(&ops).await;
        assert_eq!(failed, Err(Error::TransactionFailed { index, code }), "{at_fault:?}");
        assert_eq!(zk.exists("/q").await.unwrap(), None);
    }
}

pub(crate) async fn a_session_knows_its_ephemeral_nodes_and_its_identities(case: Case) {
    let (zk, other) = (case.client().await, case.client().await);
    create(&zk, "/a").await.unwrap();
    for path in ["/a/1", "/a/2", "/b"] {
        zk.create(path, b"", &open(), CreateMode::Ephemeral).await.unwrap();
    }
    other.create("/a/3", b"", &open(), CreateMode::Ephemeral).await.unwrap();
    let mine = |paths: Vec<String>| HashSet::<String>::from_iter(paths);
    let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    zk.sync("/").await.unwrap();
    assert_eq!(mine(zk.get_ephemerals("/").await.unwrap()), set(&["/a/1", "/a/2", "/b"]));
    assert_eq!(mine(zk.get_ephemerals("/a").await.unwrap()), set(&["/a/1", "/a/2"]));
    assert_eq!(mine(other.get_ephemerals("/").await.unwrap()), set(&["/a/3"]));
    assert_eq!(zk.get_ephemerals("/none").await.unwrap(), Vec::<String>::new());

    if let Some(identities) = case.identities(&zk).await {
        assert_eq!(identities.iter().map(|id| id.scheme.as_str()).collect::<Vec<_>>(), ["ip"]);
    }
    zk.add_auth("digest", b"alice:secret").await.unwrap();
    if let Some(identities) = case.identities(&zk).await {
        let identities: HashSet<_> =
            identities.into_iter().map(|id| (id.scheme, id.user)).collect();
        assert_eq!(identities.len(), 2);
        assert!(identities.contains(&("digest".to_owned(), "alice".to_owned())), "{identities:?}");
    }

    zk.close().await.unwrap();
    other.sync("/").await.unwrap();
    assert_eq!(other.get_children("/a").await.unwrap().names, ["3"]);
    assert_eq!(other.exists("/b").await.unwrap(), None);
}

pub(crate) async fn descendants_are_counted(case: Case) {
    let zk = case.client().await;
    for path in ["/a", "/a/b", "/a/b/c", "/a/b/d", "/ab"] {
        create(&zk, path).await.unwrap();
    }
    assert_eq!(zk.get_all_children_number("/a").await, Ok(3));
    assert_eq!(zk.get_all_children_number("/").await, Ok(5));
    assert_eq!(zk.get_all_children_number("/a/b/c").await, Ok(0));
    assert_eq!(refused(zk.get_all_children_number("/none").await), ErrorCode::NoNode);
}

pub(crate) async fn the_configuration_is_read_and_changing_it_refused(case: Case) {
    let zk = case.client().await;
    let config = zk.get_config().await.unwrap();
    let config = String::from_utf8_lossy(&config.data).into_owned();
    if case.target.addresses.len() > 1 {
        for address in &case.target.addresses {
            assert!(
                config.contains("server.") && config.contains("version="),
                "{config} {address}"
            );
        }
    }
    let leaving = Reconfiguration::Incremental {
        joining: vec![],
        leaving: vec!["3".into()],
        version: None.into(),
    };
    assert_eq!(refused(zk.reconfig(&leaving).await), ErrorCode::ReconfigDisabled);
    let members = Reconfiguration::Members {
        members: vec!["server.1=127.0.0.1:2888:3888;2181".into()],
        version: 7.into(),
    };
    assert_eq!(refused(zk.reconfig(&members).await), ErrorCode::ReconfigDisabled);
    assert!(zk.exists("/").await.unwrap().is_some());
}

pub(crate) async fn timeouts_are_negotiated(case: Case) {
    let (shortest, longest) = case.target.timeouts;
    let between = Duration::from_millis(7300);
    for (asked, granted) in
        [(shortest * 3 / 4, shortest), (between, between), (Duration::from_secs(3600), longest)]
    {
        let zk = start(case.builder().session_timeout(asked)).await;
        assert_eq!(zk.session().expect("a session").timeout, granted);
        match zk.close().await {
            // On a busy machine the shortest session may be over before the response to its close.
            Err(Error::ConnectionLoss { sent: true }) if granted == shortest => {}
            closed => closed.unwrap(),
        }
    }
}

pub(crate) async fn null_data_differ_from_empty_data(case: Case) {
    let zk = case.client().await;
    let create = |path: &str, data: Option<&'static str>| Op::Create {
        path: path.into(),
        data: data.map(Bytes::from),
        acl: open(),
        mode: CreateMode::Persistent,
        ttl: None,
    };
    let set = |path: &str, data: Option<&'static str>| Op::SetData {
        path: path.into(),
        data: data.map(Bytes::from),
        version: Version::Any,
    };
    zk.create_op(&create("/null", None)).await.unwrap();
    zk.multi(&[create("/empty", Some("")), create("/also", None)]).await.unwrap();
    let is_null = async |path: &str| {
        let data = zk.get_data(path).await.unwrap();
        assert_eq!((&data.data[..], data.stat.data_length), (&b""[..], 0), "{path}");
        let read = zk.multi_read(&[Read::Data(path.into())]).await.unwrap().swap_remove(0);
        assert_eq!(read, Ok(ReadResponse::Data(data.clone())), "{path}");
        data.is_null
    };
    assert!(is_null("/null").await && is_null("/also").await && !is_null("/empty").await);
    zk.multi(&[set("/null", Some("")), set("/empty", None)]).await.unwrap();
    assert!(!is_null("/null").await && is_null("/empty").await);
}
