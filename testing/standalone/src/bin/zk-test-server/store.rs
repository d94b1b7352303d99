//! The directory in which a server is kept.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use zk_curator_testing::{Snapshot, SnapshotError, TestCluster};

/// The file of nodes and sessions in the directory.
const FILE: &str = "snapshot";
/// The file that the server of the directory has locked. It stays, because another server may wait
/// to open it.
const LOCK: &str = "lock";

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
        let lock = lock(&directory.join(LOCK)).map_err(|error| match error.kind() {
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

/// Opens a file for this process alone. Fails with [`io::ErrorKind::WouldBlock`] if another has it.
#[cfg(unix)]
fn lock(path: &Path) -> io::Result<File> {
    use rustix::fs::{FlockOperation, flock};

    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Opens a file for this process alone. Fails with [`io::ErrorKind::WouldBlock`] if another has it.
#[cfg(windows)]
fn lock(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;

    const SHARING_VIOLATION: i32 = 32;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).share_mode(0);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(SHARING_VIOLATION) => io::ErrorKind::WouldBlock.into(),
        _ => error,
    })
}
