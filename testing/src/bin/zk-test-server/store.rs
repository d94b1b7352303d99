//! The directory in which a server is kept.

use std::fs;
use std::io;
use std::path::PathBuf;

use zk_curator_testing::{Snapshot, SnapshotError, TestCluster};

/// The file in the directory.
const FILE: &str = "snapshot";

/// Where nodes and sessions are kept while no server runs.
#[derive(Debug)]
pub(crate) struct Store {
    file: PathBuf,
}

impl Store {
    /// The store in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// One line that tells what is wrong.
    pub(crate) fn open(directory: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot make the directory {}: {error}", directory.display()))?;
        Ok(Self { file: directory.join(FILE) })
    }

    /// What was saved; `None` when nothing was.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub(crate) fn load(&self) -> Result<Option<Snapshot>, SnapshotError> {
        match Snapshot::load(&self.file) {
            Err(SnapshotError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            loaded => loaded.map(Some),
        }
    }

    /// Saves what the servers have.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub(crate) fn save(&self, servers: &TestCluster) -> Result<(), SnapshotError> {
        servers.snapshot().save(&self.file)
    }
}
