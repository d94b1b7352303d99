use proptest::prelude::*;

use super::*;
use crate::transfer::record::tests::records;

fn header() -> BackupHeader {
    BackupHeader::new("/", "2026-01-01T00:00:00Z".to_owned(), "localhost:2181")
}

fn written(records: &[TransferRecord], trailer: BackupTrailer) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), &header()).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish(trailer).unwrap().0
}

fn read(bytes: &[u8]) -> Result<(BackupHeader, Vec<TransferRecord>, BackupTrailer), BackupDamage> {
    let mut reader = RecordReader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    let trailer = reader.trailer().cloned().expect("the end");
    Ok((reader.header().clone(), records, trailer))
}

fn exact() -> BackupTrailer {
    BackupTrailer::new(BackupConsistency::Exact, Some(Vec::new()))
}

/// Nodes with valid paths.
fn valid() -> impl Strategy<Value = Vec<TransferRecord>> {
    let record = records().prop_map(|record| {
        let path = record.path.replace('/', "_");
        TransferRecord { path: format!("/{path}"), ..record }
    });
    prop::collection::vec(record, 0..8)
}

fn trailers() -> impl Strategy<Value = BackupTrailer> {
    let consistency = prop_oneof![Just(BackupConsistency::Exact), Just(BackupConsistency::Fuzzy)];
    let changed = any::<Option<Vec<String>>>();
    (consistency, changed, any::<Vec<String>>()).prop_map(|(consistency, changed, unreadable)| {
        BackupTrailer { unreadable, ..BackupTrailer::new(consistency, changed) }
    })
}

proptest! {
    #[test]
    fn a_file_is_read_as_written(records in valid(), trailer in trailers()) {
        let bytes = written(&records, trailer.clone());
        let nodes = records.len() as u64;
        let expected = (header(), records, BackupTrailer { nodes, ..trailer });
        prop_assert_eq!(read(&bytes).unwrap(), expected);
    }

    #[test]
    fn a_truncated_file_is_refused(records in valid(), cut: prop::sample::Index) {
        let bytes = written(&records, exact());
        let error = read(&bytes[..cut.index(bytes.len())]).unwrap_err();
        prop_assert!(error.is_truncated(), "{}", error);
    }

    #[test]
    fn an_altered_file_is_refused(
        records in valid(), place: prop::sample::Index, flip in 1..=255_u8,
    ) {
        let mut bytes = written(&records, exact());
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        prop_assert!(read(&bytes).is_err(), "byte {}", place);
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn no_lines_panic(lines: Vec<Vec<u8>>) {
        let mut bytes = written(&[], BackupTrailer::new(BackupConsistency::Exact, None));
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        bytes.truncate(end + 1);
        bytes.extend(lines.join(&b'\n'));
        prop_assert!(read(&bytes).is_err());
    }
}

#[test]
fn damage_names_the_line() {
    let node = |path: &str| {
        let stat = zk_curator::Stat::default();
        TransferRecord::new(path.to_owned(), Some(bytes::Bytes::new()), Vec::new(), &stat)
    };
    let good = String::from_utf8(written(&[node("/a"), node("/b")], exact())).unwrap();
    let lines: Vec<_> = good.lines().collect();
    let trailer = lines[3];
    let cases = [
        (good.replacen("backup", "other", 1), "line 1: not a backup of zkc: other"),
        (good.replacen("\"version\":2", "\"version\":3", 1), "line 1: a backup of version 3"),
        (good.replace("/b", "/b/"), "line 3: /b/ is not a path below /"),
        (good.replace("/b", "b"), "line 3: b is not a path below /"),
        (good.replace("/b", "/c"), "line 4: the checksum differs"),
        (good.replace("exact", "fuzzy"), "line 4: the checksum differs"),
        ([lines[0], lines[1], trailer, ""].join("\n"), "line 3: 1 nodes precede it, not 2"),
        (format!("{good}\n"), "line 4: text after the last line"),
        ("x\n".to_owned(), "line 1: not a backup of zkc: "),
        ("x".to_owned(), "line 1: truncated"),
        (String::new(), "line 1: truncated"),
    ];
    for (text, expected) in cases {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}, not {expected}");
    }
}

#[test]
fn a_line_without_an_end_is_bounded() {
    let endless = io::BufReader::new(io::repeat(b'x'));
    let error = RecordReader::new(endless).err().unwrap();
    assert!(error.to_string().contains("longer than 33554432 bytes"), "{error}");
}
