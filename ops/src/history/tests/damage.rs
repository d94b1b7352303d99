//! Files with a flipped or a missing byte: an error that names the place, or the right content.

use std::path::Path;

use proptest::prelude::*;

use super::super::{Error, Log, LogEnd, Record, Snapshot, Txn};
use super::model::{Choice, Model, choices};
use super::writer::{Folder, SnapshotContent, TestTxn, gzip, log_file, snappy};

/// The masks with which each byte is changed.
const MASKS: [u8; 3] = [0x01, 0x42, 0xff];
const CHOICES: [Choice; 9] = [
    (8, 0, 1),
    (0, 0, 1),
    (1, 0, 2),
    (4, 1, 3),
    (6, 1, 7),
    (7, 2, 2),
    (10, 1, 2),
    (11, 0, 0),
    (9, 0, 0),
];

fn txns() -> Vec<TestTxn> {
    Model::new().run(&CHOICES, true)
}

/// The records of a log, and how reading ended.
#[derive(Debug)]
struct Reading {
    /// The records, as text.
    records: Vec<String>,
    end: Option<LogEnd>,
    error: Option<Error>,
    skipped: usize,
}

fn read_log(path: &Path, skips: bool) -> Reading {
    let mut reading = Reading { records: Vec::new(), end: None, error: None, skipped: 0 };
    let mut log = match Log::open(path) {
        Ok(log) => log.skip_damaged(skips),
        Err(error) => {
            reading.error = Some(error);
            return reading;
        }
    };
    loop {
        match log.next_record() {
            Ok(Some(record)) => reading.records.push(described(&record)),
            Ok(None) => break,
            Err(error) => {
                reading.error = Some(error);
                break;
            }
        }
    }
    (reading.end, reading.skipped) = (log.end(), log.skipped().len());
    reading
}

fn described(record: &Record<'_>) -> String {
    let acl = match record.txn {
        Txn::Create(create) => create.acl.to_vec().unwrap(),
        Txn::SetAcl(set) => set.acl.to_vec().unwrap(),
        _ => Vec::new(),
    };
    let ids: Vec<_> = acl.iter().map(|entry| entry.id.as_str()).collect();
    format!("{record:?} {ids:?}")
}

/// Reads a log, and checks that it has the first of the expected records, and tells if some are
/// missing.
fn check_prefix(path: &Path, expected: &[String], what: &str) {
    let reading = read_log(path, false);
    let count = reading.records.len();
    assert!(count <= expected.len() && reading.records == expected[..count], "{what}");
    let is_told = match &reading.error {
        Some(Error::Damaged { path: named, .. } | Error::UnknownVersion { path: named, .. }) => {
            named == path
        }
        Some(Error::UnexpectedMagic { path: named, .. }) => named == path,
        Some(_) => false,
        None => {
            count == expected.len()
                || matches!(reading.end, Some(LogEnd::Torn { .. } | LogEnd::Empty))
        }
    };
    assert!(is_told, "{what}: {reading:?}");
}

#[test]
fn a_flipped_byte_of_a_log_never_changes_a_record() {
    let folder = Folder::new();
    let bytes = log_file(&txns(), 30);
    let path = folder.write("log.1", &bytes);
    let expected = read_log(&path, false).records;
    assert_eq!(expected.len(), CHOICES.len());
    for at in 0..bytes.len() {
        for mask in MASKS {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            folder.write("log.1", &damaged);
            check_prefix(&path, &expected, &format!("byte {at}, mask {mask:#x}"));
        }
    }
}

#[test]
fn skipping_loses_the_damaged_record_only() {
    let folder = Folder::new();
    let bytes = log_file(&txns(), 30);
    let path = folder.write("log.1", &bytes);
    let expected = read_log(&path, true).records;
    for at in 16..bytes.len() {
        for mask in MASKS {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            folder.write("log.1", &damaged);
            let reading = read_log(&path, true);
            let what = format!("byte {at}, mask {mask:#x}: {reading:?}");
            assert!(reading.error.is_none(), "{what}");
            let lost = expected.iter().filter(|record| !reading.records.contains(record)).count();
            assert!(lost <= 1 && reading.records.len() + lost == expected.len(), "{what}");
            let is_torn = matches!(reading.end, Some(LogEnd::Torn { .. }));
            assert!(reading.skipped == 1 || is_torn, "{what}");
        }
    }
}

#[test]
fn a_truncated_log_has_the_first_records() {
    let folder = Folder::new();
    let bytes = log_file(&txns(), 0);
    let path = folder.write("log.1", &bytes);
    let expected = read_log(&path, false).records;
    let mut counts = Vec::new();
    for length in 0..=bytes.len() {
        folder.write("log.1", &bytes[..length]);
        let reading = read_log(&path, false);
        let count = reading.records.len();
        assert!(reading.error.is_none() && reading.records == expected[..count], "{length}");
        counts.push(count);
    }
    assert!(counts.is_sorted() && counts.last() == Some(&expected.len()));
}

#[test]
fn a_log_inside_damaged_data_is_not_read() {
    let folder = Folder::new();
    let mut txns = txns();
    let copy = log_file(&txns[..3], 0);
    let super::writer::Op::SetData { data, .. } = &mut txns[4].op else { panic!("not setData") };
    *data = Some(copy);
    let bytes = log_file(&txns, 0);
    let path = folder.write("log.1", &bytes);
    let expected = read_log(&path, true).records;
    assert_eq!(expected.len(), CHOICES.len());
    // The first byte of the request number of the fifth record.
    let at = log_file(&txns[..4], 0).len() + 12 + 8;
    let mut damaged = bytes;
    damaged[at] ^= 1;
    folder.write("log.1", &damaged);
    let reading = read_log(&path, true);
    assert_eq!(reading.skipped, 1);
    assert_eq!(reading.records, [&expected[..4], &expected[5..]].concat());
}

fn content() -> SnapshotContent {
    let mut model = Model::new();
    model.run(&CHOICES[..8], true);
    let mut content = model.snapshot();
    content.digest = Some((model.zxid, model.digest()));
    content.last_zxid = Some(model.zxid);
    content
}

/// Returns the nodes and sessions of a snapshot, as text.
fn read_snapshot(path: &Path) -> Result<Vec<String>, Error> {
    let mut snapshot = Snapshot::open(path)?;
    let mut found: Vec<_> = snapshot.sessions().iter().map(|id| format!("{id:?}")).collect();
    while let Some(node) = snapshot.next_node()? {
        // Before the checksum was read, an ACL may be damaged.
        let acl = node.acl.map(|acl| acl.to_vec().unwrap_or_default());
        let ids: Vec<_> = acl.iter().flatten().map(|entry| entry.id.clone()).collect();
        found.push(format!("{node:?} {ids:?}"));
    }
    found.push(format!("{:?}", snapshot.end()));
    Ok(found)
}

#[test]
fn a_flipped_byte_of_a_snapshot_is_an_error() {
    let folder = Folder::new();
    let bytes = content().bytes();
    for at in 0..bytes.len() {
        for mask in MASKS {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            let path = folder.write("snapshot.1", &damaged);
            let error = read_snapshot(&path).expect_err(&format!("byte {at}, mask {mask:#x}"));
            assert!(error.to_string().contains("snapshot.1"), "{error}");
        }
    }
}

#[test]
fn a_truncated_snapshot_is_an_error_except_at_its_seals() {
    let folder = Folder::new();
    let bytes = content().bytes();
    let seals = [54, 21, 0].map(|rest| bytes.len() - rest);
    for length in 0..=bytes.len() {
        let path = folder.write("snapshot.1", &bytes[..length]);
        assert_eq!(read_snapshot(&path).is_ok(), seals.contains(&length), "{length}");
    }
}

#[test]
fn a_damaged_compressed_snapshot_is_an_error_or_right() {
    let folder = Folder::new();
    let plain = content().bytes();
    let path = folder.write("snapshot.1", &plain);
    let expected = read_snapshot(&path).unwrap();
    for (name, bytes) in [("snapshot.1.gz", gzip(&plain)), ("snapshot.1.snappy", snappy(&plain))] {
        let path = folder.write(name, &bytes);
        assert_eq!(read_snapshot(&path).unwrap(), expected, "{name}");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            folder.write(name, &damaged);
            match read_snapshot(&path) {
                Ok(found) => assert_eq!(found, expected, "{name}, byte {at}"),
                Err(error) => assert!(error.to_string().contains(name), "{error}"),
            }
            folder.write(name, &bytes[..at]);
            // Blocks of snappy may end at a seal.
            if let Ok(found) = read_snapshot(&path) {
                let nodes = found.len() - 1;
                assert!(name.ends_with("snappy") && found[..nodes] == expected[..nodes], "{at}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let folder = Folder::new();
        for (magic, name) in [(*b"ZKLG", "log.1"), (*b"ZKSN", "snapshot.1")] {
            let file = [&super::writer::file_header(magic, 0)[..], &bytes[..]].concat();
            let path = folder.write(name, &file);
            drop((read_log(&path, true), read_snapshot(&path)));
        }
        drop(Record::decode(&bytes));
    }

    #[test]
    fn random_logs_with_random_damage_have_right_records(
        choices in choices(30),
        flips in prop::collection::vec((any::<u16>(), 1..=255_u8), 1..4),
    ) {
        let folder = Folder::new();
        let bytes = log_file(&Model::new().run(&choices, true), 40);
        let path = folder.write("log.1", &bytes);
        let expected = read_log(&path, true).records;
        let mut damaged = bytes.clone();
        for (at, mask) in flips {
            let at = usize::from(at) % bytes.len();
            damaged[at] ^= mask;
        }
        folder.write("log.1", &damaged);
        let found = read_log(&path, true).records;
        let mut left = expected.iter();
        for record in &found {
            prop_assert!(left.any(|other| other == record), "{record} was never written");
        }
    }
}
