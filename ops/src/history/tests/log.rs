//! Log files: their ends, and files that grow.

use std::fs::OpenOptions;
use std::io::Write;

use super::super::{Error, Files, Log, LogEnd, Logs};
use super::writer::{Folder, Op, TestTxn, file_header, framed, log_file};

fn txns(count: i64) -> Vec<TestTxn> {
    let op = |zxid| Op::Create {
        path: format!("/n{zxid}"),
        data: Some(vec![7; 20]),
        acl: Vec::new(),
        ephemeral: false,
        cversion: 1,
    };
    (1..=count).map(|zxid| TestTxn::new(zxid, op(zxid))).collect()
}

/// Returns the ids of the transactions.
fn zxids(log: &mut Log) -> Vec<i64> {
    let mut zxids = Vec::new();
    while let Some(record) = log.next_record().unwrap() {
        zxids.push(record.header.zxid);
    }
    zxids
}

#[test]
fn a_log_may_end_in_each_of_these_ways() {
    let folder = Folder::new();
    let whole = log_file(&txns(3), 0);
    let last = framed(&txns(3)[2].bytes()).len();
    let start = whole.len() - last;
    let mut unfinished = whole[..whole.len() - 10].to_vec();
    unfinished.resize(whole.len() + 100, 0);
    let end = whole.len() as u64;
    for (bytes, count, expected) in [
        (whole.clone(), 3, LogEnd::Exact),
        (log_file(&txns(3), 5), 3, LogEnd::Padded { offset: end }),
        (log_file(&txns(3), 3 << 20), 3, LogEnd::Padded { offset: end }),
        (
            whole[..whole.len() - 10].to_vec(),
            2,
            LogEnd::Torn { offset: start as u64, length: last as u64 - 10 },
        ),
        (unfinished, 2, LogEnd::Torn { offset: start as u64, length: last as u64 - 10 }),
        (whole[..16].to_vec(), 0, LogEnd::Exact),
        (whole[..9].to_vec(), 0, LogEnd::Empty),
        (Vec::new(), 0, LogEnd::Empty),
        (vec![0; 500], 0, LogEnd::Empty),
    ] {
        let path = folder.write("log.1", &bytes);
        let mut log = Log::open(&path).unwrap();
        assert_eq!(zxids(&mut log).len(), count, "{expected:?}");
        assert_eq!(log.end(), Some(expected));
    }
}

#[test]
fn a_log_is_followed_while_it_grows() {
    let folder = Folder::new();
    let whole = log_file(&txns(4), 0);
    for step in [1, 3, 50, 200] {
        let path = folder.write("log.1", &[]);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        let mut log = Log::open(&path).unwrap();
        let mut found = Vec::new();
        for part in whole.chunks(step) {
            file.write_all(part).unwrap();
            found.extend(zxids(&mut log));
        }
        assert_eq!(found, [1, 2, 3, 4], "{step} bytes at a time");
        assert_eq!(log.end(), Some(LogEnd::Exact));
    }
}

#[test]
fn a_log_with_allocated_space_is_followed() {
    let folder = Folder::new();
    let whole = log_file(&txns(4), 0);
    for step in [1, 7, 100] {
        let mut bytes = vec![0; whole.len() + 1000];
        bytes[..16].copy_from_slice(&whole[..16]);
        let path = folder.write("log.1", &bytes);
        let mut log = Log::open(&path).unwrap();
        let mut found = Vec::new();
        for written in (16..whole.len()).step_by(step).chain([whole.len()]) {
            bytes[..written].copy_from_slice(&whole[..written]);
            folder.write("log.1", &bytes);
            found.extend(zxids(&mut log));
        }
        assert_eq!(found, [1, 2, 3, 4], "{step} bytes at a time");
    }
}

#[test]
fn other_files_and_versions_are_refused() {
    let folder = Folder::new();
    let path = folder.write("log.1", b"PK\x03\x04 something else");
    let expected = "begins with [50, 4b, 03, 04]; expected a transaction log";
    assert!(Log::open(&path).unwrap_err().to_string().ends_with(expected));
    let mut other = file_header(*b"ZKLG", 0);
    other[7] = 3;
    let path = folder.write("log.1", &other);
    assert!(matches!(Log::open(&path), Err(Error::UnknownVersion { version: 3, .. })));
    let missing = folder.path().join("log.2");
    assert!(matches!(Log::open(&missing), Err(Error::Removed { path }) if path == missing));
}

#[test]
fn a_record_above_the_limit_is_damage() {
    let folder = Folder::new();
    let path = folder.write("log.1", &log_file(&txns(2), 0));
    let length = txns(1)[0].bytes().len();
    let mut log = Log::open(&path).unwrap().max_record(length);
    assert_eq!(zxids(&mut log), [1, 2]);
    let mut log = Log::open(&path).unwrap().max_record(length - 1);
    let error = log.next_record().map(|record| record.is_some()).unwrap_err();
    assert!(matches!(error, Error::Damaged { offset: 16, .. }), "{error}");
}

#[test]
fn records_longer_than_the_window_are_read() {
    let folder = Folder::new();
    let mut txns = txns(3);
    for txn in &mut txns {
        let Op::Create { data, .. } = &mut txn.op else { panic!("not a create") };
        *data = Some(vec![1; 3 << 20]);
    }
    let path = folder.write("log.1", &log_file(&txns, 100));
    assert_eq!(zxids(&mut Log::open(path).unwrap()), [1, 2, 3]);
}

#[test]
fn all_logs_are_one_stream() {
    let folder = Folder::new();
    let txns = txns(9);
    folder.write("version-2/log.1", &log_file(&txns[..4], 50));
    folder.write("version-2/log.5", &log_file(&txns[4..5], 0));
    folder.write("version-2/log.6", &log_file(&txns[5..], 0));
    let files = Files::find([folder.path()]).unwrap();
    for first in 0..12 {
        let mut logs = Logs::new(&files).from_zxid(first);
        let mut found = Vec::new();
        while let Some(record) = logs.next_record().unwrap() {
            found.push(record.header.zxid);
        }
        let expected: Vec<_> = (first.max(1)..=9).collect();
        assert_eq!(found, expected, "from {first}");
    }
}

#[test]
fn new_files_are_added_to_a_stream() {
    let folder = Folder::new();
    let txns = txns(3);
    folder.write("log.1", &log_file(&txns[..2], 50));
    let mut logs = Logs::new(&Files::find([folder.path()]).unwrap());
    while logs.next_record().unwrap().is_some() {}
    folder.write("log.3", &log_file(&txns[2..], 0));
    logs.add_new_files(&Files::find([folder.path()]).unwrap());
    assert_eq!(logs.next_record().unwrap().map(|record| record.header.zxid), Some(3));
    assert_eq!(logs.path(), Some(folder.path().join("log.3").as_path()));
    assert_eq!(logs.offset(), Some(16));
    assert!(logs.next_record().unwrap().is_none());
}
