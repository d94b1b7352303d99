//! Finding files, and the files that are removed.

use super::super::{Error, Files, Packing};
use super::model::Model;
use super::writer::Folder;

fn names(files: &Files) -> Vec<String> {
    let paths = files.logs.iter().map(|log| &log.path);
    let paths = paths.chain(files.snapshots.iter().map(|file| &file.path));
    paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn files_of_both_directories_are_sorted_by_number() {
    let folder = Folder::new();
    for name in [
        "data/version-2/snapshot.9",
        "data/version-2/snapshot.a0.gz",
        "data/version-2/snapshot.10.snappy",
        "data/version-2/currentEpoch",
        "data/version-2/snapshot.9.tmp",
        "data/myid",
        "logs/version-2/log.a",
        "logs/version-2/log.100000001",
        "logs/version-2/log.9",
        "logs/version-2/log.9.bak",
        "logs/log.2",
        "logs/log.x",
    ] {
        folder.write(name, b"");
    }
    let (data, logs) = (folder.path().join("data"), folder.path().join("logs"));
    let files = Files::find([&data, &logs, &logs.join("version-2")]).unwrap();
    assert_eq!(
        names(&files),
        [
            "log.2",
            "log.9",
            "log.a",
            "log.100000001",
            "snapshot.9",
            "snapshot.10.snappy",
            "snapshot.a0.gz"
        ]
    );
    let packings: Vec<_> = files.snapshots.iter().map(|file| file.packing).collect();
    assert_eq!(packings, [Packing::Plain, Packing::Snappy, Packing::Gzip]);
}

#[test]
fn the_logs_of_two_servers_are_refused() {
    let folder = Folder::new();
    folder.write("one/log.5", b"");
    folder.write("two/log.5", b"");
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    assert!(matches!(Files::find([&one, &two]), Err(Error::DuplicateLog { .. })));
    assert_eq!(Files::find([&one, &one]).unwrap().logs.len(), 1);
}

#[test]
fn directories_without_files_are_named() {
    let folder = Folder::new();
    folder.write("myid", b"1");
    let error = Files::find([folder.path()]).unwrap_err();
    assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
    let missing = folder.path().join("missing");
    let error = Files::find([&missing]).unwrap_err();
    assert!(matches!(error, Error::Io { operation: "list", .. }), "{error:?}");
}

#[test]
fn autopurge_keeps_three_snapshots_and_their_logs() {
    let folder = Folder::new();
    let complete = Model::new().snapshot().bytes();
    for zxid in [0x10, 0x20, 0x30, 0x40, 0x50] {
        folder.write(&format!("snapshot.{zxid:x}"), &complete);
        folder.write(&format!("log.{:x}", zxid + 1), b"");
    }
    // A server was killed while it wrote this one.
    folder.write("snapshot.60", &complete[..complete.len() - 1]);
    let files = Files::find([folder.path()]).unwrap();
    let removed: Vec<_> = files.purgeable(3).unwrap();
    let removed: Vec<_> = removed.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(removed, ["log.11", "snapshot.10", "snapshot.20"]);
    assert_eq!(files.purgeable(0).unwrap().len(), 3);
    assert!(files.purgeable(5).unwrap().is_empty());
}
