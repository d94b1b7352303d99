use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::RealError;

/// A directory in the system's temporary directory, removed on drop.
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
        let parent = env::temp_dir();
        loop {
            let path =
                parent.join(format!("{prefix}-{}-{:016x}", std::process::id(), fastrand::u64(..)));
            // `create_dir` fails for an existing directory, so no other process uses this one.
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(RealError::Io { what: "create", path, source }),
            }
        }
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
