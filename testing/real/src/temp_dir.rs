use std::fs;
use std::path::{Path, PathBuf};

use super::{RealError, home};

/// A directory below the system's temporary directory, removed on drop, or at the end of the
/// process, even if the process is killed.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Makes a new, empty directory whose name starts with `prefix`.
    ///
    /// # Errors
    /// [`RealError::Io`].
    pub fn new(prefix: &str) -> Result<Self, RealError> {
        home::new_directory(prefix).map(|path| Self { path })
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a temporary directory was left behind");
        }
    }
}
