//! Snapshots and their endings.

use zk_curator::{Acl, SessionId};

use super::super::{Snapshot, StoredStat};
use super::writer::{Folder, SnapshotContent, StoredNode};

fn content() -> SnapshotContent {
    let stat = |czxid| StoredStat { czxid, ..StoredStat::default() };
    let node = |path: &str, data: Option<&[u8]>, acl, czxid| StoredNode {
        path: path.to_owned(),
        data: data.map(<[u8]>::to_vec),
        acl,
        stat: stat(czxid),
    };
    SnapshotContent {
        sessions: vec![(-5, 6000)],
        acls: vec![(3, Acl::read_unsafe())],
        nodes: vec![
            node("", Some(b""), -1, 0),
            node("/a", None, 3, 1),
            node("/a/b", Some(b"data"), 9, 2),
        ],
        ..SnapshotContent::default()
    }
}

#[test]
fn nodes_have_their_data_acl_and_stat() {
    let folder = Folder::new();
    let path = folder.write("snapshot.7", &content().bytes());
    let mut snapshot = Snapshot::open(&path).unwrap();
    let sessions: Vec<_> = snapshot.sessions().iter().map(|s| (s.id, s.timeout_ms)).collect();
    assert_eq!(sessions, [(SessionId::new(-5), 6000)]);
    let mut found = Vec::new();
    while let Some(node) = snapshot.next_node().unwrap() {
        let acl = node.acl.map(|acl| acl.to_vec().unwrap());
        let data = node.data.map(<[u8]>::to_vec);
        found.push((node.path.to_owned(), data, acl, node.stat.czxid));
    }
    assert_eq!(
        found,
        [
            (String::new(), Some(vec![]), Some(Acl::open_unsafe()), 0),
            ("/a".to_owned(), None, Some(Acl::read_unsafe()), 1),
            // The snapshot is fuzzy: it does not contain this ACL.
            ("/a/b".to_owned(), Some(b"data".to_vec()), None, 2),
        ]
    );
    assert!(snapshot.next_node().unwrap().is_none());
}

#[test]
fn the_end_tells_the_fuzzy_range() {
    let folder = Folder::new();
    for (digest, last_zxid, expected) in [
        (None, None, None),
        (Some((9, 1)), None, Some(9)),
        // The digest of a server without transactions.
        (Some((0, 1)), None, None),
        // The digest of the epoch before.
        (Some((5, 1)), None, Some(7)),
        (None, Some(8), Some(8)),
        (Some((8, 1)), Some(8), Some(8)),
        (Some((0, 1)), Some(7), Some(7)),
    ] {
        let content = SnapshotContent { digest, last_zxid, ..content() };
        let path = folder.write("snapshot.7", &content.bytes());
        let mut snapshot = Snapshot::open(&path).unwrap();
        while snapshot.next_node().unwrap().is_some() {}
        let end = snapshot.end().unwrap();
        assert_eq!(end.fuzzy_until(7), expected, "{digest:?} {last_zxid:?}");
        let found = end.digest.map(|(zxid, digest)| (zxid, digest.value));
        assert_eq!((found, end.last_zxid), (digest, last_zxid));
    }
}

#[test]
fn data_longer_than_the_buffer_is_read() {
    let folder = Folder::new();
    let mut content = content();
    content.nodes[2].data = Some(vec![5; 3 << 20]);
    let path = folder.write("snapshot.7", &content.bytes());
    let mut snapshot = Snapshot::open(&path).unwrap();
    let mut sizes = Vec::new();
    while let Some(node) = snapshot.next_node().unwrap() {
        sizes.push(node.data.map(<[u8]>::len));
    }
    assert_eq!(sizes, [Some(0), None, Some(3 << 20)]);
}
