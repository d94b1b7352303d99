//! Snapshots of hostile bytes, plain and compressed: no panic, and no memory for what a length
//! announces. The first byte chooses the compression.

use std::fs;
use std::path::PathBuf;

use zk_curator_ops::history::Snapshot;

/// The limit of the allocations, in bytes: the buffers of a reader and of a decoder, and more.
const MEMORY: usize = 64 << 20;

pub(crate) fn run(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    let path = file(["", ".gz", ".snappy"][usize::from(*kind) % 3]);
    fs::write(&path, bytes).expect("a file");
    let allowed = crate::ALLOCATOR.allocated() + MEMORY;
    crate::ALLOCATOR.set_limit(allowed).expect("room");
    if let Ok(mut snapshot) = Snapshot::open(&path) {
        while let Ok(Some(node)) = snapshot.next_node() {
            // An identity may be no text.
            drop(node.acl.map(|acl| acl.to_vec()));
        }
    }
    crate::ALLOCATOR.set_limit(usize::MAX).expect("room");
    fs::remove_file(&path).expect("a file");
}

fn file(ending: &str) -> PathBuf {
    std::env::temp_dir().join(format!("zk-curator-fuzz-snapshot.{}{ending}", std::process::id()))
}
