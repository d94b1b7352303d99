//! The directory in which a server is kept.

use std::fs;
use std::io;
use std::path::PathBuf;

use zk_curator_testing::{Snapshot, SnapshotError, TestCluster};

/// The file in the directory.
const FILE: &str = "snapshot";

/// The place of nodes and sessions while no server runs.
#[derive(Debug)]
pub(crate) struct Store {
    file: PathBuf,
}

impl Store {
    /// Opens the store in a directory, and creates the directory if necessary.
    ///
    /// # Errors
    /// A text of one line that describes the error.
    pub(crate) fn open(directory: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&directory).map_err(|error| {
            format!("cannot make the directory {}: {error}", directory.display())
        })?;
        Ok(Self { file: directory.join(FILE) })
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
