//! The files that `autopurge` removes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::error::{Error, Result};
use super::files::{Files, Packing, SnapshotFile};
use super::snapshot::MARK;
use super::unpack::SNAPPY;

impl Files {
    /// Returns the files that `autopurge`, or `zkCleanup.sh`, may remove at its next run, if it
    /// keeps `retained` snapshots (`autopurge.snapRetainCount`, at least 3, which is the default).
    ///
    /// It keeps the newest snapshots that look complete, the logs that begin after the oldest of
    /// them, and the log before.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Removed`] if a snapshot cannot be read.
    pub fn purgeable(&self, retained: usize) -> Result<Vec<PathBuf>> {
        let mut oldest = None;
        let mut kept = 0;
        for file in self.snapshots.iter().rev() {
            if kept < retained.max(3) && looks_complete(file)? {
                oldest = Some(file.zxid);
                kept += 1;
            }
        }
        let Some(oldest) = oldest else { return Ok(Vec::new()) };
        let before = self.logs.partition_point(|log| log.zxid <= oldest).saturating_sub(1);
        let logs = self.logs.iter().take(before).map(|log| &log.path);
        let snapshots = self.snapshots.iter().filter(|file| file.zxid < oldest);
        Ok(logs.chain(snapshots.map(|file| &file.path)).cloned().collect())
    }
}

/// Returns `true` if a server takes the file for a snapshot: by its last bytes, or by its first
/// ones if it is compressed.
fn looks_complete(snapshot: &SnapshotFile) -> Result<bool> {
    let complete = match snapshot.packing {
        Packing::Plain => ends_with(&snapshot.path, MARK, snapshot.length),
        Packing::Gzip => begins_with(&snapshot.path, [0x1f, 0x8b]),
        Packing::Snappy => begins_with(&snapshot.path, SNAPPY),
    };
    complete.map_err(|error| Error::io("read", &snapshot.path, error))
}

fn begins_with<const N: usize>(path: &Path, expected: [u8; N]) -> io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.take(N as u64).read_to_end(&mut bytes)?;
    Ok(bytes == expected)
}

fn ends_with<const N: usize>(path: &Path, expected: [u8; N], length: u64) -> io::Result<bool> {
    let Some(start) = length.checked_sub(N as u64) else { return Ok(false) };
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(N as u64).read_to_end(&mut bytes)?;
    Ok(bytes == expected)
}
