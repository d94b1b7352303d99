//! The directory in which a server is kept.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use zk_curator_testing::{Snapshot, SnapshotError, TestCluster};

/// The file in the directory.
const FILE: &str = "snapshot";

/// The place of nodes and sessions while no server runs.
#[derive(Debug)]
pub(crate) struct Store {
    file: PathBuf,
    /// Released by the system when the program ends in any way.
    _lock: File,
}

impl Store {
    /// Opens the store in a directory, and creates the directory if necessary.
    ///
    /// # Errors
    /// A text of one line that describes the error. It is one if another server has the directory:
    /// the last of both to end would overwrite what the other has saved.
    pub(crate) fn open(directory: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&directory).map_err(|error| {
            format!("cannot make the directory {}: {error}", directory.display())
        })?;
        let lock = lock(&directory).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                format!("the directory {} belongs to another server", directory.display())
            }
            _ => format!("cannot lock the directory {}: {error}", directory.display()),
        })?;
        Ok(Self { file: directory.join(FILE), _lock: lock })
    }

    /// Loads the saved state; `None` if there is none.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub(crate) fn load(&self) -> Result<Option<Snapshot>, SnapshotError> {
        match Snapshot::load(&self.file) {
            Err(SnapshotError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            loaded => loaded.map(Some),
        }
    }

    /// Saves the state of the servers.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub(crate) fn save(&self, servers: &TestCluster) -> Result<(), SnapshotError> {
        servers.snapshot().save(&self.file)
    }
}

/// Locks a directory for this process alone, without a file that a failed start would leave there.
/// Fails with [`io::ErrorKind::WouldBlock`] if another process has it.
#[cfg(unix)]
fn lock(directory: &Path) -> io::Result<File> {
    use rustix::fs::{FlockOperation, flock};

    let file = File::open(directory)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Locks a directory for this process alone. Fails with [`io::ErrorKind::WouldBlock`] if another
/// process has it. Windows cannot lock directories, but deletes a file with its last handle.
#[cfg(windows)]
fn lock(directory: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;

    const SHARING_VIOLATION: i32 = 32;
    const DELETE_ON_CLOSE: u32 = 0x0400_0000;
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).write(true).share_mode(0).custom_flags(DELETE_ON_CLOSE);
    options.open(directory.join("lock")).map_err(|error| match error.raw_os_error() {
        Some(SHARING_VIOLATION) => io::ErrorKind::WouldBlock.into(),
        _ => error,
    })
}
