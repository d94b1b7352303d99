//! Changes, sessions and the authors of deletions.

use zk_curator::{Acl, SessionId};

use super::super::{
    At, Change, Changes, DeletionCause, Files, Index, Moment, NodeState, Operation, Owner,
    RecipeNode, SessionEnd,
};
use super::model::Model;
use super::writer::{Folder, Op, TestTxn, log_file};

fn create(path: &str, ephemeral: bool, cversion: i32) -> Op {
    let (path, data) = (path.to_owned(), Some(b"10.0.0.1".to_vec()));
    Op::Create { path, data, acl: Acl::open_unsafe(), ephemeral, cversion }
}

fn set(path: &str, data: &[u8], version: i32) -> Op {
    Op::SetData { path: path.to_owned(), data: Some(data.to_vec()), version }
}

fn delete(path: &str) -> Op {
    Op::Delete { path: path.to_owned() }
}

/// A transaction of a session and a request; the next id is given by the position.
type Request = (i64, i32, Op);

fn txns(first: i64, requests: Vec<Request>) -> Vec<TestTxn> {
    let txn = |(zxid, (session, cxid, op))| TestTxn { session, cxid, ..TestTxn::new(zxid, op) };
    (first..).zip(requests).map(txn).collect()
}

/// Two sessions, a lock, a service, a container and a node with a time to live.
fn requests() -> Vec<Request> {
    vec![
        (1, 0, Op::CreateSession { timeout: 4000 }),
        (2, 0, Op::CreateSession { timeout: 6000 }),
        (1, 1, create("/s", false, 1)),
        (1, 2, create("/s/one", true, 1)),
        (2, 1, create("/s/two", true, 2)),
        (1, 3, set("/s/one", b"new", 1)),
        (1, 4, Op::Multi(vec![create("/m", false, 2), set("/m", b"mm", 1)])),
        (1, 5, create("/m/lock-0000000000", true, 1)),
        (1, 6, delete("/m/lock-0000000000")),
        (2, 2, Op::Multi(vec![delete("/m"), create("/n", false, 3)])),
        (1, 0, Op::CloseSession { paths: Some(vec!["/s/one".to_owned()]) }),
        (2, 3, Op::CloseSession { paths: Some(vec!["/s/two".to_owned()]) }),
        (3, 1, Op::Error { code: -110 }),
    ]
}

fn files(folder: &Folder, txns: &[TestTxn]) -> Files {
    folder.write(&format!("log.{:x}", txns[0].zxid), &log_file(txns, 20));
    Files::find([folder.path()]).unwrap()
}

/// Returns the files of a server with one log. They exist as long as the folder.
fn server(requests: Vec<Request>) -> (Folder, Files) {
    let folder = Folder::new();
    let files = files(&folder, &txns(1, requests));
    (folder, files)
}

fn changes(index: &Index) -> Vec<Change> {
    index.changes().unwrap().map(Result::unwrap).collect()
}

/// Returns the transactions, the operations and the paths.
fn summary(changes: &[Change]) -> Vec<(i64, Operation, &str)> {
    let path = |change: &Change| change.path.is_some();
    assert!(changes.iter().all(path));
    changes
        .iter()
        .map(|change| (change.at.zxid, change.operation, change.path.as_deref().unwrap()))
        .collect()
}

#[test]
fn changes_below_a_path_have_their_states() {
    let (_folder, files) = server(requests());
    let found = changes(&Index::new(&files).below("/s").with_data(true));
    assert_eq!(
        summary(&found),
        [
            (3, Operation::Create, "/s"),
            (4, Operation::Create, "/s/one"),
            (5, Operation::Create, "/s/two"),
            (6, Operation::SetData, "/s/one"),
            (11, Operation::Delete, "/s/one"),
            (12, Operation::Delete, "/s/two"),
        ]
    );
    let set = &found[3];
    let state = |state: &Option<NodeState>| {
        let state = state.clone().unwrap();
        (state.version, state.size, state.data.unwrap(), state.owner)
    };
    let owner = Some(Owner::Session(SessionId::new(1)));
    assert_eq!(state(&set.before), (Some(0), Some(8), "10.0.0.1".into(), owner));
    assert_eq!(state(&set.after), (Some(1), Some(3), "new".into(), owner));
    assert_eq!((set.session, set.cxid), (SessionId::new(1), 3));
    assert_eq!((set.at.zxid, set.at.time_ms), (6, 6000));
    assert_eq!(found[0].before, None);
    assert_eq!(state(&found[4].before), (Some(1), Some(3), "new".into(), owner));
    assert_eq!(found[4].after, None);
}

#[test]
fn deletions_have_their_causes() {
    let (path, acl) = ("/c".to_owned(), Acl::open_unsafe());
    let container = Op::Container { path, data: None, acl: acl.clone(), cversion: 4 };
    let ttl = Op::Ttl { path: "/t".to_owned(), data: None, acl, cversion: 5, ttl: 100 };
    let mut requests = requests();
    requests.extend([
        (2, 3, container),
        (2, 4, ttl),
        (0, 0, Op::DeleteContainer { path: "/c".to_owned() }),
        (0, 0, Op::DeleteContainer { path: "/t".to_owned() }),
    ]);
    let (_folder, files) = server(requests);
    let index = Index::new(&files).operations([Operation::Delete]);
    let causes = |index: &Index| -> Vec<_> {
        changes(index).into_iter().map(|change| change.deletion.unwrap()).collect()
    };
    let client = DeletionCause::SessionEnd(SessionEnd::Client);
    let server = DeletionCause::SessionEnd(SessionEnd::Server);
    let request = DeletionCause::Request;
    let (container, ttl) = (DeletionCause::Container, DeletionCause::Ttl);
    let known = [request, request, server, client, container, ttl];
    assert_eq!(causes(&index.clone().with_states(true)), known);
    let reaped = DeletionCause::Reaped;
    assert_eq!(causes(&index), [request, request, server, client, reaped, reaped]);
}

#[test]
fn parts_of_a_multi_see_the_parts_before() {
    let (_folder, files) = server(requests());
    let found = changes(&Index::new(&files).path("/m"));
    let places: Vec<_> = found.iter().map(|change| change.multi.unwrap()).collect();
    let places: Vec<_> = places.iter().map(|place| (place.index, place.count)).collect();
    assert_eq!(places, [(0, 2), (1, 2), (0, 2)]);
    let before = found[1].before.clone().unwrap();
    assert_eq!((before.version, before.size, before.data), (Some(0), Some(8), None));
}

#[test]
fn filters_are_combined() {
    let (_folder, files) = server(requests());
    let zxids =
        |index: Index| -> Vec<_> { changes(&index).iter().map(|change| change.at.zxid).collect() };
    let index = || Index::new(&files);
    assert_eq!(zxids(index().session(SessionId::new(2))), [2, 5, 10, 10, 12, 12]);
    assert_eq!(zxids(index().since_ms(4000).until_ms(5999)), [4, 5]);
    assert_eq!(zxids(index().zxids(6..=7)), [6, 7, 7]);
    assert_eq!(zxids(index().operations([Operation::Error])), [13]);
    assert_eq!(zxids(index().operations([Operation::CreateSession])), [1, 2]);
    let deletions = index().operations([Operation::Delete]).session(SessionId::new(1));
    assert_eq!(zxids(deletions.since_ms(10_000)), [11]);
    assert_eq!(changes(&index().operations([Operation::Error]))[0].error, Some(-110));
}

#[test]
fn ephemeral_nodes_of_old_logs_are_found_with_states() {
    let mut requests = requests();
    requests[10].2 = Op::CloseSession { paths: None };
    let (_folder, files) = server(requests);
    let index = Index::new(&files).operations([Operation::Delete]).zxids(11..=11);
    assert!(changes(&index).is_empty());
    assert_eq!(summary(&changes(&index.with_states(true))), [(11, Operation::Delete, "/s/one")]);
}

#[test]
fn ephemeral_nodes_that_a_session_end_does_not_list_are_deleted() {
    let mut requests = requests();
    requests[9] = (1, 7, create("/s/more", true, 3));
    let (_folder, files) = server(requests);
    let index = Index::new(&files).operations([Operation::Delete]).zxids(11..=11);
    assert_eq!(summary(&changes(&index)), [(11, Operation::Delete, "/s/one")]);
    let both = [(11, Operation::Delete, "/s/one"), (11, Operation::Delete, "/s/more")];
    let found = changes(&index.with_states(true));
    assert_eq!(summary(&found), both);
    let cause = DeletionCause::SessionEnd(SessionEnd::Server);
    assert!(found.iter().all(|change| change.deletion == Some(cause)), "{found:?}");
    let explained = Index::new(&files).explain("/s/more", None, 0).unwrap().explanation.unwrap();
    assert_eq!((explained.change.at.zxid, explained.change.deletion), (11, Some(cause)));
    // The snapshot of the transaction before contains a node that its session creates later.
    let folder = Folder::new();
    let close = Op::CloseSession { paths: Some(Vec::new()) };
    let later = txns(21, vec![(1, 0, close), (1, 1, create("/e", true, 1))]);
    let mut model = Model { zxid: 20, ..Model::new() };
    model.apply(&later[1]);
    folder.write("snapshot.14", &model.snapshot().bytes());
    let files = self::files(&folder, &later);
    let found = changes(&Index::new(&files).operations([Operation::Delete]).path("/e"));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn states_before_the_first_snapshot_are_unknown() {
    let folder = Folder::new();
    let txns = txns(
        5,
        vec![(1, 1, set("/a", b"1", 7)), (1, 2, set("/a", b"22", 8)), (1, 3, set("/a", b"333", 9))],
    );
    let mut model = Model { zxid: 4, ..Model::new() };
    model.apply(&TestTxn::new(4, create("/a", false, 1)));
    // The snapshot of transaction 5 is fuzzy: it contains transaction 6.
    model.apply(&txns[0]);
    model.apply(&txns[1]);
    folder.write("snapshot.5", &model.snapshot().bytes());
    let found = changes(&Index::new(&files(&folder, &txns)).path("/a"));
    let before = |index: usize| found[index].before.clone().unwrap();
    assert_eq!((before(0).version, before(0).size), (Some(6), None));
    assert_eq!((before(1).version, before(1).size), (Some(7), None));
    assert_eq!((before(2).version, before(2).size), (Some(8), Some(2)));
}

#[test]
fn missing_transactions_at_both_ends_are_told() {
    let folder = Folder::new();
    let mut model = Model { zxid: 3, ..Model::new() };
    model.apply(&TestTxn::new(4, create("/a", false, 1)));
    folder.write("snapshot.4", &model.snapshot().bytes());
    let txns = txns(
        8,
        vec![(1, 1, set("/a", b"1", 7)), (1, 2, set("/a", b"22", 8)), (1, 3, delete("/a"))],
    );
    folder.write("log.a", &log_file(&txns[2..], 20));
    let gaps = |changes: &Changes| -> Vec<_> {
        changes.gaps().iter().map(|gap| (gap.after, gap.next)).collect()
    };
    // The value in the snapshot may be an old one.
    let mut changes = Index::new(&files(&folder, &txns[..1])).path("/a").changes().unwrap();
    let first = changes.next().unwrap().unwrap();
    let before = first.before.unwrap();
    assert_eq!((before.version, before.size), (Some(6), None));
    assert_eq!(changes.by_ref().count(), 1);
    assert_eq!(gaps(&changes), [(8, 10)]);
    // The transaction 9 is selected, and missing.
    let index = Index::new(&files(&folder, &txns[..1]));
    for (last, expected) in [(8, vec![]), (9, vec![(8, 10)])] {
        let mut changes = index.clone().zxids(8..=last).changes().unwrap();
        assert_eq!(changes.by_ref().count(), 1);
        assert_eq!(gaps(&changes), expected);
    }
}

#[test]
fn sessions_have_begin_end_and_timeout() {
    let folder = Folder::new();
    let mut model = Model::new();
    model.sessions.insert(9, 1234);
    folder.write("snapshot.0", &model.snapshot().bytes());
    let files = files(&folder, &txns(1, requests()));
    let sessions = Index::new(&files).sessions().unwrap();
    let ids: Vec<_> = sessions.iter().map(|session| session.id.get()).collect();
    assert_eq!(ids, [1, 2, 3, 9]);
    let one = &sessions[0];
    assert_eq!((one.timeout_ms, one.transactions), (Some(4000), 8));
    assert_eq!(one.begun.map(|at| at.zxid), Some(1));
    assert_eq!(one.ended.map(|(at, end)| (at.zxid, end)), Some((11, SessionEnd::Server)));
    assert_eq!(sessions[1].ended.map(|(_, end)| end), Some(SessionEnd::Client));
    assert_eq!((sessions[2].timeout_ms, sessions[2].begun), (None, None));
    assert_eq!((sessions[3].timeout_ms, sessions[3].transactions), (Some(1234), 0));
    let one = Index::new(&files).session(SessionId::new(1)).sessions().unwrap();
    assert_eq!(one, sessions[..1]);
}

#[test]
fn a_session_ends_once_and_its_id_can_be_used_again() {
    let requests = vec![
        (1, 0, Op::CreateSession { timeout: 4000 }),
        (1, 1, create("/e", true, 1)),
        (1, 0, Op::CloseSession { paths: Some(vec!["/e".to_owned()]) }),
        // The client closed it, too late.
        (1, 2, Op::CloseSession { paths: Some(Vec::new()) }),
        (1, 0, Op::CreateSession { timeout: 5000 }),
        (1, 1, create("/f", true, 2)),
        (1, 0, Op::CloseSession { paths: Some(vec!["/f".to_owned()]) }),
    ];
    let (_folder, files) = server(requests);
    let index = Index::new(&files);
    for (zxid, timeout, begun, ended, last, path) in
        [(2, 4000, 1, 3, 4, "/e"), (6, 5000, 5, 7, 6, "/f")]
    {
        let at = Moment { zxid, time_ms: 1000 * zxid };
        let author = index.author(SessionId::new(1), at, 0).unwrap();
        let session = &author.session;
        assert_eq!(session.timeout_ms, Some(timeout));
        assert_eq!(session.begun.map(|at| at.zxid), Some(begun));
        let end = session.ended.map(|(at, end)| (at.zxid, end));
        assert_eq!(end, Some((ended, SessionEnd::Server)));
        assert_eq!(session.last.map(|at| at.zxid), Some(last));
        let paths: Vec<_> = author.ephemerals.iter().map(|node| node.path.as_str()).collect();
        assert_eq!(paths, [path]);
    }
    let sessions = index.sessions().unwrap();
    let [session] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!((session.timeout_ms, session.transactions), (Some(5000), 3));
}

#[test]
fn the_author_of_a_deletion_is_found() {
    let (_folder, files) = server(requests());
    let index = Index::new(&files).with_data(true);
    let deletions = index.deletions("/s/one").unwrap();
    let [deletion] = &deletions[..] else { panic!("{deletions:?}") };
    assert_eq!((deletion.first.zxid, deletion.nodes, deletion.recipe), (11, 1, None));
    let author = index.author(deletion.change.session, deletion.change.at, 5000).unwrap();
    assert_eq!(author.session.timeout_ms, Some(4000));
    let ephemerals: Vec<_> = author
        .ephemerals
        .iter()
        .map(|node| (node.path.as_str(), node.data.as_deref(), node.deleted.map(|at| at.zxid)))
        .collect();
    assert_eq!(
        ephemerals,
        [
            ("/m/lock-0000000000", Some(&b"10.0.0.1"[..]), Some(9)),
            ("/s/one", Some(&b"new"[..]), Some(11)),
        ]
    );
    let nearby: Vec<_> = author.nearby.iter().map(|change| change.at.zxid).collect();
    assert_eq!((nearby, author.nearby_count), (vec![6, 7, 7, 8, 9, 11, 11], 7));
    let lock = &index.deletions("/m/lock-0000000000").unwrap()[0];
    assert_eq!(lock.recipe, Some(RecipeNode::Lock));
}

#[test]
fn the_author_of_a_change_of_the_root_is_found() {
    let acl = Op::SetAcl { path: "/".to_owned(), acl: Acl::read_unsafe(), version: 1 };
    let requests = vec![(4, 1, create("/a", false, 1)), (4, 2, acl), (5, 1, delete("/a"))];
    let (_folder, files) = server(requests);
    let index = Index::new(&files);
    let explained = index.explain("/", None, 0).unwrap().explanation.unwrap();
    assert_eq!((explained.change.at.zxid, explained.change.operation), (2, Operation::SetAcl));
    assert_eq!(explained.author.unwrap().session.id, SessionId::new(4));
}

#[test]
fn a_run_of_deletions_begins_with_the_first_child() {
    let (_folder, files) = server(vec![
        (1, 1, create("/a", false, 1)),
        (1, 2, create("/a/b", false, 1)),
        (1, 3, create("/a/b/c", false, 1)),
        (1, 4, create("/a/d", false, 2)),
        (2, 1, delete("/a/d")),
        (1, 5, delete("/a/b/c")),
        (1, 6, delete("/a/b")),
        (1, 7, delete("/a")),
        (1, 8, create("/a", false, 2)),
        (1, 9, delete("/a")),
    ]);
    let deletions = Index::new(&files).deletions("/a").unwrap();
    let found: Vec<_> = deletions
        .iter()
        .map(|deletion| (deletion.change.at.zxid, deletion.first.zxid, deletion.nodes))
        .collect();
    assert_eq!(found, [(8, 6, 3), (10, 10, 1)]);
    assert_eq!(deletions[0].before(), At::Zxid(5));
}

#[test]
fn changes_of_other_sessions_in_a_run_are_counted() {
    let (_folder, files) = server(vec![
        (1, 1, create("/a", false, 1)),
        (1, 2, create("/a/b", false, 1)),
        (1, 3, create("/a/c", false, 2)),
        (2, 1, create("/a/live", true, 3)),
        // Before the run.
        (3, 1, set("/a/c", b"3", 1)),
        (1, 4, delete("/a/b")),
        (3, 2, set("/a/c", b"4", 2)),
        (3, 3, delete("/a/c")),
        // It deletes an ephemeral node, which does not count.
        (2, 0, Op::CloseSession { paths: Some(vec!["/a/live".to_owned()]) }),
        (1, 5, delete("/a")),
    ]);
    let deletions = Index::new(&files).deletions("/a").unwrap();
    let [deletion] = &deletions[..] else { panic!("{deletions:?}") };
    let found = (deletion.first.zxid, deletion.nodes, deletion.other_changes);
    assert_eq!(found, (6, 2, 2));
}

#[test]
fn the_last_thousand_deletions_are_listed() {
    for count in [999, 1000, 1001, 1999, 2000, 2001, 3500] {
        let cycle = |time| [(1, 1, create("/a", false, time)), (1, 2, delete("/a"))];
        let (_folder, files) = server((1..=count).flat_map(cycle).collect());
        let index = Index::new(&files);
        let fate = index.fate("/a").unwrap();
        let found: Vec<_> = fate.deletions.iter().map(|one| one.change.at.zxid).collect();
        let count = i64::from(count);
        let first = (count - 1000).max(0) + 1;
        let expected: Vec<_> = (first..=count).map(|time| 2 * time).collect();
        assert_eq!((found, fate.deletion_count), (expected, count.unsigned_abs()));
    }
}

#[test]
fn the_other_changes_of_an_author_are_counted() {
    let close = |paths: Option<&str>| {
        let paths = paths.map(|path| vec![path.to_owned()]);
        vec![(1, 1, create("/e", true, 1)), (1, 0, Op::CloseSession { paths })]
    };
    let many = (1..=1100).map(|version| (1, version, set("/", b"", version)));
    let many = many.chain([(1, 1101, create("/e", false, 1)), (1, 1102, delete("/e"))]);
    for (requests, listed, others) in [
        (close(Some("/e")), 3, 2),
        // The logs of ZooKeeper 3.5 do not list the deletion.
        (close(None), 2, 2),
        (many.collect(), 1001, 1101),
    ] {
        let (_folder, files) = server(requests);
        let explained = Index::new(&files).explain("/e", None, u32::MAX).unwrap();
        let explanation = explained.explanation.unwrap();
        let author = explanation.author.unwrap();
        assert_eq!(explanation.change.operation, Operation::Delete);
        let counts = (author.nearby.len(), author.others_count(&explanation.change));
        assert_eq!(counts, (listed, others));
    }
}

#[test]
fn an_earlier_deletion_is_not_called_the_last_one() {
    let cycle = |time| [(1, 1, create("/a", false, time)), (1, 2, delete("/a"))];
    let (_folder, files) = server((1..=3).flat_map(cycle).collect());
    let index = Index::new(&files);
    let explain = |at| index.explain("/a", at, 0).unwrap().explanation.unwrap();
    for (at, zxid, earlier) in [(Some(At::Zxid(4)), 4, 1), (None, 6, 2)] {
        let explained = explain(at);
        assert_eq!(explained.change.at.zxid, zxid);
        let expected = format!("earlier deletions of it in the logs: {earlier}");
        assert_eq!(explained.notes(), [expected]);
    }
}

#[test]
fn a_younger_node_of_a_snapshot_is_not_an_older_one() {
    let folder = Folder::new();
    let txns = txns(
        20,
        vec![(7, 1, delete("/e")), (5, 1, create("/e", true, 2)), (5, 2, set("/e", b"x", 1))],
    );
    let mut model = Model { zxid: 19, ..Model::new() };
    model.apply(&TestTxn::new(19, create("/e", false, 1)));
    for txn in &txns {
        model.apply(txn);
    }
    folder.write("snapshot.16", &model.snapshot().bytes());
    let index = Index::new(&files(&folder, &txns));
    let at = Moment { zxid: 22, time_ms: 22_000 };
    let author = index.author(SessionId::new(5), at, 0).unwrap();
    let [node] = &author.ephemerals[..] else { panic!("{author:?}") };
    assert_eq!((node.created.map(|at| at.zxid), node.deleted), (Some(21), None));
}

#[test]
fn changes_are_followed_while_the_log_grows() {
    let folder = Folder::new();
    let txns = txns(1, requests());
    let files = files(&folder, &txns[..3]);
    let mut changes = Index::new(&files).below("/s").changes().unwrap();
    assert_eq!(changes.by_ref().map(|change| change.unwrap().at.zxid).collect::<Vec<_>>(), [3]);
    folder.write("log.1", &log_file(&txns[..4], 20));
    folder.write("log.5", &log_file(&txns[4..], 20));
    changes.add_new_files(&Files::find([folder.path()]).unwrap());
    let found: Vec<_> = changes.by_ref().map(|change| change.unwrap().at.zxid).collect();
    assert_eq!(found, [4, 5, 6, 11, 12]);
    assert!(changes.gaps().is_empty() && changes.skipped().next().is_none());
}
