//! Logs that a server is writing.

use zk_curator::Acl;

use super::super::{Files, Follow, FollowEvent, Index};
use super::writer::{Folder, Op, TestTxn, log_file};

fn txns(zxids: impl IntoIterator<Item = i64>) -> Vec<TestTxn> {
    let txn = |zxid| {
        let acl = Acl::open_unsafe();
        let (path, data, cversion) = (format!("/{zxid}"), None, 1);
        TestTxn::new(zxid, Op::Create { path, data, acl, ephemeral: false, cversion })
    };
    zxids.into_iter().map(txn).collect()
}

fn follow(folder: &Folder) -> Follow {
    Index::new(&Files::find([folder.path()]).unwrap()).follow([folder.path()]).unwrap()
}

/// Returns the events that are there, in words.
fn events(follow: &mut Follow) -> Vec<String> {
    let next = || follow.next_event().unwrap();
    let word = |event| match event {
        FollowEvent::Change(change) => change.path.unwrap(),
        FollowEvent::Gap(gap) => format!("gap {}-{}", gap.after, gap.next),
        FollowEvent::Skipped(skipped) => format!("skipped {}", skipped.length),
        FollowEvent::Withdrawn { .. } => "withdrawn".to_owned(),
    };
    std::iter::from_fn(next).map(word).collect()
}

#[test]
fn new_transactions_and_files_are_followed() {
    let folder = Folder::new();
    folder.write("log.1", &log_file(&txns(1..=2), 50));
    let mut follow = follow(&folder);
    assert!(events(&mut follow).is_empty());
    // The last record is not complete.
    let whole = log_file(&txns(1..=4), 0);
    let mut torn = whole[..whole.len() - 10].to_vec();
    torn.resize(whole.len() + 50, 0);
    folder.write("log.1", &torn);
    assert_eq!(events(&mut follow), ["/3"]);
    assert!(events(&mut follow).is_empty());
    folder.write("log.1", &log_file(&txns(1..=4), 50));
    folder.write("log.5", &log_file(&txns(5..=6), 50));
    assert_eq!(events(&mut follow), ["/4", "/5", "/6"]);
}

#[test]
fn an_earlier_begin_is_possible() {
    let folder = Folder::new();
    folder.write("log.1", &log_file(&txns(1..=3), 50));
    let index = Index::new(&Files::find([folder.path()]).unwrap());
    let mut follow = index.clone().since_ms(2000).follow([folder.path()]).unwrap();
    assert_eq!(events(&mut follow), ["/2", "/3"]);
    let mut follow = index.zxids(3..=i64::MAX).follow([folder.path()]).unwrap();
    assert_eq!(events(&mut follow), ["/3"]);
}

#[test]
fn purged_files_and_withdrawn_transactions_are_reported() {
    let folder = Folder::new();
    folder.write("log.1", &log_file(&txns(1..=3), 50));
    let mut follow = follow(&folder);
    assert!(events(&mut follow).is_empty());
    // The ensemble has not committed the last transaction.
    folder.write("log.1", &log_file(&txns(1..=2), 0));
    assert_eq!(events(&mut follow), ["withdrawn"]);
    assert!(events(&mut follow).is_empty());
    let next = |zxid: i64| (2 << 32) | zxid;
    folder.write(&format!("log.{:x}", next(3)), &log_file(&txns([next(3)]), 50));
    let found = events(&mut follow);
    assert_eq!(found, [format!("gap 3-{}", next(3)), format!("/{}", next(3))]);
}

#[test]
fn a_withdrawn_file_is_reported_and_a_purged_one_is_not() {
    let folder = Folder::new();
    folder.write("log.1", &log_file(&txns(1..=2), 50));
    folder.write("log.3", &log_file(&txns([3]), 50));
    folder.write("log.4", &log_file(&txns([4]), 50));
    let mut follow = follow(&folder);
    assert!(events(&mut follow).is_empty());
    std::fs::remove_file(folder.path().join("log.1")).unwrap();
    assert!(events(&mut follow).is_empty());
    std::fs::remove_file(folder.path().join("log.4")).unwrap();
    assert_eq!(events(&mut follow), ["withdrawn"]);
    assert!(events(&mut follow).is_empty());
    let next = (2 << 32) | 1;
    folder.write(&format!("log.{next:x}"), &log_file(&txns([next]), 50));
    assert_eq!(events(&mut follow), [format!("/{next}")]);
}

#[test]
fn states_are_unknown_after_a_withdrawal() {
    let folder = Folder::new();
    let set = |zxid| {
        let (path, data) = ("/1".to_owned(), Some(b"value".to_vec()));
        TestTxn::new(zxid, Op::SetData { path, data, version: 1 })
    };
    let first = [txns([1]), vec![set(2)]].concat();
    folder.write("log.1", &log_file(&first, 50));
    let index = Index::new(&Files::find([folder.path()]).unwrap()).path("/1");
    let mut follow = index.follow([folder.path()]).unwrap();
    assert!(events(&mut follow).is_empty());
    folder.write("log.1", &log_file(&first[..1], 0));
    assert_eq!(events(&mut follow), ["withdrawn"]);
    let next = (2 << 32) | 1;
    folder.write(&format!("log.{next:x}"), &log_file(&[set(next)], 50));
    let event = follow.next_event().unwrap();
    let Some(FollowEvent::Change(change)) = event else { panic!("{event:?}") };
    // The withdrawn transaction would tell a size.
    assert_eq!(change.before.map(|state| (state.version, state.size)), Some((Some(0), None)));
}
