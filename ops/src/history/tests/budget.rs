//! Limits of reads, and the rights of nodes at a time.

use std::time::Duration;

use zk_curator::{Acl, Permissions, SessionId};

use super::super::{At, Error, Files, Index, Moment, ReadBudget, ReadLimit, Replay, Undelete};
use super::writer::{Folder, Op, TestTxn, log_file};

const HOUR: Duration = Duration::from_secs(3_600);

fn create(path: &str, acl: Vec<Acl>, ephemeral: bool) -> Op {
    let (path, data) = (path.to_owned(), Some(b"value".to_vec()));
    Op::Create { path, data, acl, ephemeral, cversion: -1 }
}

fn files(folder: &Folder, ops: Vec<Op>) -> Files {
    let txns: Vec<_> = (1..).zip(ops).map(|(zxid, op)| TestTxn::new(zxid, op)).collect();
    folder.write("log.1", &log_file(&txns, 20));
    Files::find([folder.path()]).unwrap()
}

fn limit<T>(result: Result<T, Error>) -> Option<ReadLimit> {
    match result.err()? {
        Error::Limit { limit } => Some(limit),
        other => panic!("{other}"),
    }
}

#[test]
fn every_pass_ends_with_its_budget() {
    let folder = Folder::new();
    let delete = Op::Delete { path: "/a".to_owned() };
    let files = files(&folder, vec![create("/a", Acl::open_unsafe(), false), delete]);
    for (budget, expected) in [
        (ReadBudget::new(0, HOUR, 1 << 20), ReadLimit::Bytes),
        (ReadBudget::new(1 << 20, Duration::ZERO, 1 << 20), ReadLimit::Time),
        (ReadBudget::new(1 << 20, HOUR, 0), ReadLimit::Memory),
    ] {
        let index = || Index::new(&files).budget(&budget);
        assert_eq!(limit(index().fate("/a")), Some(expected));
        let changes = index().path("/a").changes();
        let changes = changes.and_then(|changes| changes.collect::<Result<Vec<_>, _>>());
        assert_eq!(limit(changes), Some(expected));
        assert_eq!(limit(Replay::new(&files).budget(&budget).run(At::Latest)), Some(expected));
        assert_eq!(limit(Undelete::new(&files, "/a").budget(&budget).find()), Some(expected));
    }
    let budget = ReadBudget::new(1 << 30, HOUR, 1 << 20);
    assert!(Index::new(&files).budget(&budget).fate("/a").is_ok());
    budget.stop();
    let stopped = Index::new(&files).budget(&budget).fate("/a");
    assert_eq!(limit(stopped), Some(ReadLimit::Stopped));
}

#[test]
fn rights_are_those_of_the_time() {
    let folder = Folder::new();
    let open = Acl::open_unsafe;
    let secret = || vec![Acl::new(Permissions::ALL, "digest", "ann:x")];
    let writable = vec![Acl::new(Permissions::WRITE, "world", "anyone")];
    let set_acl = |acl, version| Op::SetAcl { path: "/a".to_owned(), acl, version };
    let set = Op::SetData { path: "/a".to_owned(), data: None, version: 1 };
    let files = files(
        &folder,
        vec![
            create("/a", open(), false),
            set_acl(secret(), 1),
            set,
            set_acl(open(), 2),
            Op::Delete { path: "/a".to_owned() },
            create("/a", writable, false),
            create("/e", secret(), true),
        ],
    );
    let changes = Index::new(&files).path("/a").changes().unwrap();
    let rights: Vec<_> = changes
        .map(|change| {
            let change = change.unwrap();
            let reads = |state: Option<super::super::NodeState>| state.map(|one| one.anyone_reads);
            (reads(change.before), reads(change.after))
        })
        .collect();
    let (yes, no) = (Some(Some(true)), Some(Some(false)));
    assert_eq!(rights, [(None, yes), (yes, no), (no, no), (no, yes), (yes, None), (None, no)]);
    let at = Moment { zxid: 7, time_ms: 7_000 };
    let author = Index::new(&files).author(SessionId::new(1), at, 0).unwrap();
    assert_eq!(author.ephemerals[0].anyone_reads, Some(false));
}

#[test]
fn a_shallow_replay_keeps_the_children_only() {
    let folder = Folder::new();
    let open = Acl::open_unsafe;
    let paths = ["/a", "/a/b", "/a/b/c", "/a/d", "/x"];
    let files = files(&folder, paths.iter().map(|path| create(path, open(), false)).collect());
    let replayed = Replay::new(&files).shallow("/a").run(At::Latest).unwrap();
    let node = replayed.tree.get("/a").unwrap();
    let names: Vec<_> = node.children().iter().map(|child| child.name().to_owned()).collect();
    assert_eq!(names, ["b", "d"]);
    assert!(replayed.tree.get("/a/b/c").is_none() && replayed.tree.get("/x").is_none());
    let root = Replay::new(&files).shallow("/").run(At::Zxid(4)).unwrap();
    let children = root.tree.get("/").unwrap().children();
    let names: Vec<_> = children.iter().map(|child| child.name()).collect();
    assert_eq!(names, ["a", "zookeeper"]);
}
