//! Transaction logs of hostile bytes: no panic and no endless loop, with and without damage that is
//! skipped. Skipped ranges lie within the file, and are in order.

use std::fs;
use std::path::PathBuf;

use zk_curator_ops::history::Log;

/// The limit of the allocations, in bytes: the window of a reader, twice, and more.
const MEMORY: usize = 8 << 20;

pub(crate) fn run(input: &[u8]) {
    let path = file();
    fs::write(&path, input).expect("a file");
    let allowed = crate::ALLOCATOR.allocated() + MEMORY;
    crate::ALLOCATOR.set_limit(allowed).expect("room");
    for skips in [false, true] {
        let Ok(log) = Log::open(&path) else { continue };
        let mut log = log.skip_damaged(skips);
        let mut records = 0;
        while let Ok(Some(_)) = log.next_record() {
            records += 1;
            assert!(records <= input.len(), "more records than bytes");
        }
        let mut before = 0;
        for range in log.skipped() {
            assert!(skips && range.offset >= before && range.length > 0);
            before = range.offset + range.length;
            assert!(before <= input.len() as u64);
        }
        assert!(!skips || log.end().is_some(), "damage was not skipped");
    }
    crate::ALLOCATOR.set_limit(usize::MAX).expect("room");
    fs::remove_file(&path).expect("a file");
}

fn file() -> PathBuf {
    std::env::temp_dir().join(format!("zk-curator-fuzz-log-{}", std::process::id()))
}
