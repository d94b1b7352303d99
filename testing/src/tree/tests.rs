use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use zk_curator_proto::records::{
    Acl, CheckVersionRequest, CreateMode, CreateRequest, CreateTtlRequest, DeleteRequest, MultiOp,
    MultiResult, SetDataRequest,
};
use zk_curator_proto::{Decoder, Encoder, ErrorCode};

use super::*;
use crate::config::Config;
use crate::version::{SequenceOverflow, ZooKeeperVersion};

const SESSION: i64 = 0x77;

struct Fixture {
    tree: Tree,
    zxid: i64,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Config::DEFAULT)
    }

    fn with(config: Config) -> Self {
        Self { tree: Tree::new(&config), zxid: 0 }
    }

    fn of_3_8() -> Self {
        Self::with(Config { version: ZooKeeperVersion::V3_8, ..Config::DEFAULT })
    }

    /// Applies an operation at the next zxid. The time is 1,000 milliseconds per zxid.
    fn apply(&mut self, op: MultiOp) -> Result<MultiResult, ErrorCode> {
        self.apply_with_changes(op).map(|(result, _)| result)
    }

    fn apply_with_changes(&mut self, op: MultiOp) -> Result<(MultiResult, Vec<Change>), ErrorCode> {
        let txn = self.next();
        self.tree.apply(op, txn)
    }

    fn next(&mut self) -> Txn<'static> {
        self.zxid += 1;
        Txn { session: SESSION, identities: &[], zxid: self.zxid, time: self.zxid * 1000 }
    }

    fn make(&mut self, path: &str, mode: CreateMode) -> Result<String, ErrorCode> {
        match self.apply(create(path, mode))? {
            MultiResult::Create(path) => Ok(path),
            other => panic!("{other:?}"),
        }
    }
}

fn new_tree() -> Tree {
    Tree::new(&Config::DEFAULT)
}

fn kinds(changes: &[Change]) -> Vec<(ChangeKind, String)> {
    changes.iter().map(|change| (change.kind, change.path.to_string())).collect()
}

fn body(path: &str, flags: i32) -> CreateRequest {
    CreateRequest {
        path: path.into(),
        data: Some(Bytes::from_static(b"d")),
        acl: Acl::open_unsafe(),
        flags,
    }
}

fn create(path: &str, mode: CreateMode) -> MultiOp {
    MultiOp::Create(body(path, mode.flags()))
}

fn create_ttl(path: &str, flags: i32, ttl: i64) -> MultiOp {
    let CreateRequest { path, data, acl, .. } = body(path, 0);
    MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, flags, ttl })
}

fn delete(path: &str, version: i32) -> MultiOp {
    MultiOp::Delete(DeleteRequest { path: path.into(), version })
}

fn set(path: &str, version: i32) -> MultiOp {
    MultiOp::SetData(SetDataRequest {
        path: path.into(),
        data: Some(Bytes::from_static(b"new")),
        version,
    })
}

fn check(path: &str, version: i32) -> MultiOp {
    MultiOp::Check(CheckVersionRequest { path: path.into(), version })
}

#[test]
fn a_new_tree_has_the_nodes_of_every_server() {
    let tree = new_tree();
    let cversion = |path| tree.get(path).map(|node| node.stat().cversion);
    assert_eq!(cversion("/"), Some(-1));
    assert_eq!(cversion(""), Some(-1));
    assert_eq!(cversion("/zookeeper"), Some(-2));
    assert_eq!(cversion("/zookeeper/quota"), Some(0));
    assert_eq!(tree.get("/zookeeper/config").map(|node| node.stat().aversion), Some(-1));
}

#[test]
fn the_stat_has_transactions_times_and_versions() {
    let mut f = Fixture::new();
    f.make("/a", CreateMode::Persistent).unwrap();
    f.make("/a/e", CreateMode::Ephemeral).unwrap();
    f.apply(set("/a", 0)).unwrap();
    f.apply(delete("/a/e", 0)).unwrap();
    let stat = f.tree.get("/a").unwrap().stat();
    assert_eq!((stat.czxid, stat.mzxid, stat.pzxid), (1, 3, 4));
    assert_eq!((stat.ctime, stat.mtime), (1000, 3000));
    assert_eq!((stat.version, stat.cversion, stat.aversion), (1, 2, 0));
    assert_eq!((stat.data_length, stat.num_children, stat.ephemeral_owner), (3, 0, 0));
}

#[test]
fn an_ephemeral_node_shows_its_owner_and_the_others_show_none() {
    let mut f = Fixture::new();
    f.make("/e", CreateMode::Ephemeral).unwrap();
    f.apply(MultiOp::CreateContainer(body("/c", 4))).unwrap();
    f.apply(create_ttl("/t", 5, 9)).unwrap();
    let shown = |path| f.tree.get(path).unwrap().stat().ephemeral_owner;
    assert_eq!((shown("/e"), shown("/c"), shown("/t")), (SESSION, 0, 0));
    let owner = |path| f.tree.get(path).unwrap().owner();
    assert_eq!(
        (owner("/e"), owner("/c"), owner("/t")),
        (Owner::Session(SESSION), Owner::Container, Owner::Ttl(9))
    );
}

#[test]
fn the_sequence_number_counts_every_created_child() {
    let mut f = Fixture::new();
    f.make("/a", CreateMode::Persistent).unwrap();
    assert_eq!(f.make("/a/s-", CreateMode::PersistentSequential), Ok("/a/s-0000000000".into()));
    f.make("/a/x", CreateMode::Persistent).unwrap();
    f.apply(delete("/a/x", -1)).unwrap();
    assert_eq!(f.make("/a/", CreateMode::EphemeralSequential), Ok("/a/0000000002".into()));
    f.tree.set_sequence("/a", i32::MAX).unwrap();
    assert_eq!(f.make("/a/s-", CreateMode::PersistentSequential), Ok("/a/s-2147483647".into()));
    assert_eq!(f.make("/a/s-", CreateMode::PersistentSequential), Err(ErrorCode::NodeExists));
    let pzxid = f.tree.get("/a").unwrap().stat().pzxid;
    assert_eq!(f.make("/a/t-", CreateMode::PersistentSequential), Ok("/a/t-2147483647".into()));
    assert_eq!(f.tree.get("/a").unwrap().stat().pzxid, pzxid, "goes with the counter");
    f.tree.set_sequence("/a", -5).unwrap();
    assert_eq!(f.make("/a/s-", CreateMode::PersistentSequential), Ok("/a/s--000000005".into()));
}

#[test]
fn a_failed_create_uses_no_number() {
    let mut f = Fixture::new();
    f.make("/a", CreateMode::Persistent).unwrap();
    assert_eq!(f.make("/a/\u{1}-", CreateMode::PersistentSequential), Err(ErrorCode::BadArguments));
    let (results, changes) = {
        let ops = vec![create("/a/s-", CreateMode::PersistentSequential), check("/none", -1)];
        let txn = f.next();
        f.tree.apply_multi(ops, txn).unwrap()
    };
    assert_eq!(results, [MultiResult::Error(None), MultiResult::Error(Some(ErrorCode::NoNode))]);
    assert_eq!(changes, []);
    assert_eq!(f.make("/a/s-", CreateMode::PersistentSequential), Ok("/a/s-0000000000".into()));
}

#[test]
fn create_checks_in_the_order_of_apache_zookeeper() {
    let mut f = Fixture::new();
    f.make("/e", CreateMode::Ephemeral).unwrap();
    f.make("/a", CreateMode::Persistent).unwrap();
    let no_acl = |path: &str| MultiOp::Create(CreateRequest { acl: Vec::new(), ..body(path, 0) });
    for (op, code) in [
        (MultiOp::Create(body("/no/parent", 7)), ErrorCode::BadArguments),
        (MultiOp::Create(body("no-slash", 0)), ErrorCode::BadArguments),
        (no_acl("/no/parent"), ErrorCode::InvalidAcl),
        (no_acl("no-slash"), ErrorCode::BadArguments),
        (MultiOp::Create(body("/no/parent", 0)), ErrorCode::NoNode),
        (MultiOp::Create(body("/no/", 0)), ErrorCode::NoNode),
        (MultiOp::Create(body("/a/", 0)), ErrorCode::BadArguments),
        (MultiOp::Create(body("/a/..", 0)), ErrorCode::BadArguments),
        (MultiOp::Create(body("/", 0)), ErrorCode::NodeExists),
        (MultiOp::Create(body("/a", 0)), ErrorCode::NodeExists),
        (MultiOp::Create(body("/e/c", 0)), ErrorCode::NoChildrenForEphemerals),
        (MultiOp::Create(body("/e/c-", 3)), ErrorCode::NoChildrenForEphemerals),
        (MultiOp::Create(body("/t", 5)), ErrorCode::BadArguments),
        (create_ttl("/t", 0, 10), ErrorCode::BadArguments),
        (create_ttl("/t", 5, 0), ErrorCode::BadArguments),
        (create_ttl("/t", 5, 1 << 40), ErrorCode::BadArguments),
    ] {
        assert_eq!(f.apply(op.clone()), Err(code), "{op:?}");
    }
    assert_eq!(f.tree.get("/").unwrap().stat().num_children, 3);
}

#[test]
fn only_its_own_opcode_makes_a_container() {
    let mut f = Fixture::new();
    f.make("/plain", CreateMode::Container).unwrap();
    f.apply(MultiOp::CreateContainer(body("/container", 0))).unwrap();
    assert_eq!(f.tree.get("/plain").unwrap().owner(), Owner::None);
    assert_eq!(f.tree.get("/container").unwrap().owner(), Owner::Container);
}

#[test]
fn delete_checks_in_the_order_of_apache_zookeeper() {
    let mut f = Fixture::new();
    f.make("/a", CreateMode::Persistent).unwrap();
    f.make("/a/b", CreateMode::Persistent).unwrap();
    for (op, code) in [
        (delete("/", -1), ErrorCode::BadArguments),
        (delete("/zookeeper/quota", -1), ErrorCode::BadArguments),
        (delete("a", -1), ErrorCode::BadArguments),
        (delete("", -1), ErrorCode::BadArguments),
        (delete("/none", 3), ErrorCode::NoNode),
        (delete("/none/child", -1), ErrorCode::NoNode),
        (delete("/a/", -1), ErrorCode::NoNode),
        (delete("/a", 3), ErrorCode::BadVersion),
        (delete("/a", 0), ErrorCode::NotEmpty),
    ] {
        assert_eq!(f.apply(op.clone()), Err(code), "{op:?}");
    }
    assert_eq!(f.apply(delete("/a/b", 0)), Ok(MultiResult::Delete));
}

#[test]
fn versions_are_compared_unless_any_will_do() {
    let mut f = Fixture::new();
    f.make("/a", CreateMode::Persistent).unwrap();
    assert_eq!(f.apply(set("/a", 1)), Err(ErrorCode::BadVersion));
    assert!(f.apply(set("/a", 0)).is_ok());
    assert!(f.apply(set("/a", -1)).is_ok());
    assert_eq!(f.apply(check("/a", 2)), Ok(MultiResult::Check));
    assert_eq!(f.apply(check("/a", 1)), Err(ErrorCode::BadVersion));
    assert_eq!(f.apply(check("/a/", 1)), Err(ErrorCode::BadArguments));
    f.tree.node_mut("/a").unwrap().version = i32::MAX;
    f.apply(set("/a", i32::MAX)).unwrap();
    assert_eq!(f.tree.get("/a").unwrap().stat().version, i32::MIN);
    f.tree.node_mut("/a").unwrap().version = -2;
    f.apply(set("/a", -2)).unwrap();
    assert_eq!(f.tree.get("/a").unwrap().stat().version, 0);
}

#[test]
fn in_a_multi_of_3_8_the_flags_say_what_a_create_is() {
    let mut f = Fixture::of_3_8();
    let ops = vec![
        MultiOp::Create2(body("/a", 0)),
        MultiOp::Create(body("/c", 4)),
        MultiOp::CreateContainer(body("/p", 0)),
        create_ttl("/t", 5, 7),
    ];
    let txn = f.next();
    let (results, _) = f.tree.apply_multi(ops, txn).unwrap();
    assert_eq!(
        (&results[0], &results[2]),
        (&MultiResult::Create("/a".into()), &MultiResult::Create("/p".into()))
    );
    assert!(matches!(
        (&results[1], &results[3]),
        (MultiResult::Create2(_), MultiResult::Create2(_))
    ));
    let owner = |path| f.tree.get(path).unwrap().owner();
    assert_eq!(
        [owner("/c"), owner("/p"), owner("/t")],
        [Owner::Container, Owner::None, Owner::Ttl(7)]
    );
}

#[test]
fn operations_of_a_multi_see_those_before_them() {
    let mut f = Fixture::new();
    let ops = vec![
        create("/a", CreateMode::Persistent),
        create("/a/s-", CreateMode::PersistentSequential),
        set("/a", 0),
        check("/a", 1),
        delete("/a/s-0000000000", 0),
        delete("/a", 1),
    ];
    let txn = f.next();
    let (results, changes) = f.tree.apply_multi(ops, txn).unwrap();
    assert!(results.iter().all(|result| !matches!(result, MultiResult::Error(_))), "{results:?}");
    assert_eq!(
        kinds(&changes),
        [
            (ChangeKind::Created, "/a".into()),
            (ChangeKind::Created, "/a/s-0000000000".into()),
            (ChangeKind::DataChanged, "/a".into()),
            (ChangeKind::Deleted, "/a/s-0000000000".into()),
            (ChangeKind::Deleted, "/a".into()),
        ]
    );
}

#[test]
fn a_multi_counts_on_after_the_last_number() {
    let mut f = Fixture::new();
    f.make("/a", CreateMode::Persistent).unwrap();
    f.tree.set_sequence("/a", i32::MAX).unwrap();
    let txn = f.next();
    let ops = vec![create("/a/s-", CreateMode::PersistentSequential); 3];
    let made = |path: &str| MultiResult::Create(path.into());
    let expected = [made("/a/s-2147483647"), made("/a/s--2147483648"), made("/a/s--2147483647")];
    assert_eq!(f.tree.apply_multi(ops, txn).unwrap().0, expected);
    let txn = f.next();
    let (results, _) = f
        .tree
        .apply_multi(
            vec![
                create("/b", CreateMode::Persistent),
                create("/b/s-", CreateMode::PersistentSequential),
                delete("/b/s-0000000000", 0),
                delete("/b", 0),
                create("/b", CreateMode::Persistent),
                create("/b/s-", CreateMode::PersistentSequential),
            ],
            txn,
        )
        .unwrap();
    assert_eq!(results.last(), Some(&made("/b/s-0000000000")));
}

#[test]
fn a_create_with_a_truncated_ttl_fails_the_whole_multi() {
    let mut f = Fixture::of_3_8();
    let before = contents(&f.tree);
    let without = || MultiOp::Create(body("/t", CreateMode::PersistentWithTtl.flags()));
    let txn = f.next();
    let ops = vec![create("/a", CreateMode::Persistent), without()];
    assert_eq!(f.tree.apply_multi(ops, txn), Err(ErrorCode::MarshallingError));
    assert_eq!(contents(&f.tree), before);
    let results = f.tree.apply_multi(vec![check("/none", -1), without()], txn).unwrap().0;
    assert_eq!(results[0], MultiResult::Error(Some(ErrorCode::NoNode)), "not reached");

    let mut f = Fixture::new();
    for flags in [CreateMode::PersistentWithTtl.flags(), 7, -1] {
        let ops = vec![check("/none", -1), MultiOp::Create(body("/t", flags))];
        assert_eq!(
            f.tree.apply_multi(ops, txn),
            Err(ErrorCode::MarshallingError),
            "not even looked at"
        );
    }
}

#[test]
fn creates_in_a_multi_follow_flags_in_3_8_and_opcodes_in_3_9() {
    let ops = || {
        vec![
            MultiOp::Create(body("/create", 0)),
            MultiOp::Create2(body("/create2", 0)),
            MultiOp::CreateContainer(body("/container", 0)),
            MultiOp::Create(body("/flag", CreateMode::Container.flags())),
            MultiOp::CreateTtl(CreateTtlRequest {
                path: "/ttl".into(),
                acl: Acl::open_unsafe(),
                ..Default::default()
            }),
        ]
    };
    for (mut f, with_stat, containers) in [
        (Fixture::of_3_8(), [false, false, false, true, false], ["/flag"].as_slice()),
        (Fixture::new(), [false, true, true, true, false], ["/container", "/flag"].as_slice()),
    ] {
        let txn = f.next();
        let (results, _) = f.tree.apply_multi(ops(), txn).unwrap();
        let stats: Vec<_> =
            results.iter().map(|result| matches!(result, MultiResult::Create2(_))).collect();
        assert_eq!(stats, with_stat);
        let mut found: Vec<_> = f.tree.containers.iter().map(AsRef::as_ref).collect();
        found.sort_unstable();
        assert_eq!(found, containers);
    }
}

#[test]
fn a_counter_that_wraps_around_goes_on_below_zero() {
    let mut f = Fixture::with(Config {
        sequence_overflow: SequenceOverflow::WrapsAround,
        ..Config::DEFAULT
    });
    f.make("/a", CreateMode::Persistent).unwrap();
    f.tree.set_sequence("/a", i32::MAX).unwrap();
    for number in ["2147483647", "-2147483648", "-2147483647"] {
        let path = format!("/a/s-{number}");
        assert_eq!(f.make("/a/s-", CreateMode::PersistentSequential), Ok(path));
    }
}

#[test]
fn the_end_of_a_session_deletes_what_it_owns_in_one_transaction() {
    let mut f = Fixture::new();
    f.make("/a", CreateMode::Persistent).unwrap();
    f.make("/a/2", CreateMode::Ephemeral).unwrap();
    f.make("/a/1", CreateMode::Ephemeral).unwrap();
    assert_eq!(f.tree.close_session(SESSION + 1, 9), []);
    assert_eq!(
        kinds(&f.tree.close_session(SESSION, 9)),
        [(ChangeKind::Deleted, "/a/1".into()), (ChangeKind::Deleted, "/a/2".into())]
    );
    assert_eq!(f.tree.get("/a").unwrap().stat().pzxid, 9);
    assert_eq!(f.tree.ephemerals(SESSION).count(), 0);
}

#[test]
fn containers_are_reaped_when_empty_and_others_by_ttl() {
    let mut f = Fixture::new();
    f.apply(MultiOp::CreateContainer(body("/used", 4))).unwrap();
    f.apply(MultiOp::CreateContainer(body("/unused", 4))).unwrap();
    f.apply(create_ttl("/ttl", 5, 500)).unwrap();
    f.make("/used/c", CreateMode::Persistent).unwrap();
    assert_eq!(f.tree.reapable(3500, 0), []);
    f.apply(delete("/used/c", -1)).unwrap();
    assert_eq!(f.tree.reapable(3500, 0), ["/used".into()]);
    assert_eq!(f.tree.reapable(3501, 0), ["/ttl".into(), "/used".into()]);
    assert_eq!(f.tree.reapable(3500, 1499), ["/unused".into(), "/used".into()]);
    assert_eq!(
        f.tree.reap(&"/used".into(), 9).map(|changes| kinds(&changes)),
        Ok(vec![(ChangeKind::Deleted, "/used".into())])
    );
    assert_eq!(f.tree.reap(&"/used".into(), 10), Err(ErrorCode::NoNode));
    f.apply(set("/ttl", -1)).unwrap();
    assert_eq!(f.tree.reapable(6500, 0), []);
    assert_eq!(f.tree.reapable(6501, 0), ["/ttl".into()]);
}

/// Returns the whole content of a tree, in order.
fn contents(tree: &Tree) -> Vec<String> {
    let mut nodes: Vec<_> = tree
        .root()
        .walk("/")
        .map(|(path, node)| {
            let mut children: Vec<_> = node.child_names().collect();
            children.sort_unstable();
            format!("{path} {:?} {:?} {:?} {children:?}", node.data(), node.stat(), node.owner())
        })
        .collect();
    nodes.sort_unstable();
    nodes
}

/// Encodes and decodes the tree.
fn copied(tree: &Tree, zxid: i64) -> Tree {
    let mut out = Encoder::new();
    for (path, node) in tree.root().walk("/") {
        out.string(&path);
        node.encode(&mut out);
    }
    let count = i64::try_from(tree.count()).unwrap();
    Tree::decode(count, zxid, &mut Decoder::new(out.finish())).unwrap()
}

fn assert_consistent(tree: &Tree) {
    assert_eq!(tree.root().walk("/").count(), tree.count());
    for (path, node) in tree.root().walk("/") {
        if path != "/" {
            assert!(tree.get(&path).is_some(), "{path}");
            assert!(path::validate(&path).is_ok(), "{path}");
        }
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        for name in node.child_names() {
            assert!(
                tree.get(&format!("{prefix}{name}")).is_some(),
                "{prefix}{name} does not exist"
            );
        }
        let (mut ephemeral, mut container, mut ttl) = (false, false, false);
        match node.owner() {
            Owner::None => {}
            Owner::Session(_) => ephemeral = true,
            Owner::Container => container = true,
            Owner::Ttl(_) => ttl = true,
        }
        assert_eq!(tree.ephemerals.values().any(|paths| paths.contains(path.as_str())), ephemeral);
        assert_eq!(tree.containers.contains(path.as_str()), container);
        assert_eq!(tree.ttls.contains(path.as_str()), ttl);
    }
    let owned = tree.ephemerals.values().flatten().chain(&tree.containers).chain(&tree.ttls);
    assert!(owned.into_iter().all(|path| tree.get(path).is_some()));
    assert!(tree.ephemerals.values().all(|paths| !paths.is_empty()));
}

fn any_path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c-"]), 1..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

fn any_op() -> impl Strategy<Value = MultiOp> {
    let version = prop::sample::select(vec![-1, -1, 0, 1]);
    prop_oneof![
        4 => (any_path(), 0..5).prop_map(|(path, flags)| MultiOp::Create(body(&path, flags))),
        1 => any_path().prop_map(|path| MultiOp::CreateContainer(body(&path, 4))),
        1 => (any_path(), 1..5_i64).prop_map(|(path, ttl)| create_ttl(&path, 5, ttl)),
        3 => (any_path(), version.clone()).prop_map(|(path, version)| delete(&path, version)),
        2 => (any_path(), version.clone()).prop_map(|(path, version)| set(&path, version)),
        1 => (any_path(), version).prop_map(|(path, version)| check(&path, version)),
    ]
}

proptest! {
    #[test]
    fn the_tree_stays_consistent(ops in prop::collection::vec(any_op(), 1..60)) {
        let mut f = Fixture::new();
        for op in ops {
            let before = contents(&f.tree);
            if f.apply(op).is_err() {
                prop_assert_eq!(before, contents(&f.tree));
            }
            assert_consistent(&f.tree);
        }
        let copy = copied(&f.tree, f.zxid);
        prop_assert_eq!(contents(&f.tree), contents(&copy));
        assert_consistent(&copy);
        f.tree.close_session(SESSION, 1000);
        prop_assert!(f.tree.ephemerals.is_empty());
        assert_consistent(&f.tree);
    }

    #[test]
    fn a_multi_does_what_its_operations_do_one_by_one_or_nothing(
        setup in prop::collection::vec(any_op(), 0..20),
        ops in prop::collection::vec(any_op(), 1..8),
    ) {
        let mut f = Fixture::new();
        for op in setup {
            let _ = f.apply(op).ok();
        }
        let before = contents(&f.tree);
        let txn = f.next();
        let mut single = f.tree.clone();
        let mut expected = Vec::new();
        let failure = ops.iter().position(|op| match single.apply(txn::as_in_multi(op.clone(), f.tree.version), txn) {
            Ok((result, _)) => {
                expected.push(result);
                false
            }
            Err(_) => true,
        });
        let (results, changes) = f.tree.apply_multi(ops.clone(), txn).unwrap();
        prop_assert_eq!(results.len(), ops.len());
        assert_consistent(&f.tree);
        match failure {
            None => {
                prop_assert_eq!(results, expected);
                prop_assert_eq!(contents(&f.tree), contents(&single));
            }
            Some(at) => {
                prop_assert_eq!(contents(&f.tree), before);
                prop_assert!(changes.is_empty());
                for (index, result) in results.iter().enumerate() {
                    let code = match index.cmp(&at) {
                        std::cmp::Ordering::Less => None,
                        std::cmp::Ordering::Equal => single.apply(txn::as_in_multi(ops[at].clone(), f.tree.version), txn).err(),
                        std::cmp::Ordering::Greater => Some(ErrorCode::RuntimeInconsistency),
                    };
                    prop_assert_eq!(result, &MultiResult::Error(code));
                }
            }
        }
    }
}

#[test]
fn a_snapshot_stays_as_it_is() {
    let mut f = Fixture::new();
    for path in ["/a", "/a/b", "/a/b/c", "/z"] {
        f.apply(create(path, CreateMode::Persistent)).unwrap();
    }
    let (snapshot, before) = (f.tree.clone(), contents(&f.tree));
    f.apply(set("/a/b/c", -1)).unwrap();
    f.apply(create("/a/b/d", CreateMode::Persistent)).unwrap();
    f.apply(delete("/z", -1)).unwrap();
    assert_eq!(contents(&snapshot), before);
    assert_ne!(contents(&f.tree), before);
    let shared = |path| std::ptr::eq(snapshot.get(path).unwrap(), f.tree.get(path).unwrap());
    assert!(shared("/zookeeper") && !shared("/a"));
}

#[test]
fn a_tree_of_any_depth_is_dropped() {
    let open: Arc<[Acl]> = Acl::open_unsafe().into();
    let mut node = Arc::new(Node::new(None, Arc::clone(&open), Owner::None, 0, 0));
    for _ in 0..50_000 {
        let mut parent = Node::new(None, Arc::clone(&open), Owner::None, 0, 0);
        parent.link("", node);
        node = Arc::new(parent);
    }
    let snapshot = Arc::clone(&node);
    drop(node);
    assert!(snapshot.get(&"/".repeat(1000)).is_some());
    drop(snapshot);
}
