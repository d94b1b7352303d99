//! Files that only their owner may read, because the data of nodes may be secret.
//!
//! On Windows, files have the rights of their folder.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// The characters of the name of a file in the name of its part. Systems limit the length of names.
const SHOWN: usize = 40;

/// Creates a file that does not exist yet, with the mode 0600. A link in its place is not followed.
///
/// # Errors
/// Those of the operating system.
pub fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates a file with an unpredictable name: `prefix` and a UUID. Returns its path too.
///
/// # Errors
/// Those of the operating system.
pub fn create_temporary(folder: &Path, prefix: &str) -> io::Result<(PathBuf, File)> {
    let path = folder.join(format!("{prefix}{}", Uuid::new_v4().simple()));
    let file = create_file(&path)?;
    Ok((path, file))
}

/// A file in the folder for temporary files. It is deleted when this value is dropped.
#[derive(Debug)]
pub struct TemporaryFile {
    path: PathBuf,
}

impl TemporaryFile {
    /// Creates an empty file as [`create_temporary`] does. Returns it open for writing, too.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn create(prefix: &str) -> io::Result<(Self, File)> {
        let (path, file) = create_temporary(&std::env::temp_dir(), prefix)?;
        Ok((Self { path }, file))
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // Nothing more can be done about it.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Creates a file next to another one, which it will replace. Returns its path too.
///
/// # Errors
/// Those of the operating system.
pub fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().take(SHOWN).collect();
    let folder = target.parent().unwrap_or_else(|| Path::new(""));
    create_temporary(folder, &format!("{name}.part-"))
}

/// Creates a folder that does not exist yet, with the mode 0700.
///
/// # Errors
/// Those of the operating system.
pub fn create_folder(path: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let (target, file) = create_temporary(&std::env::temp_dir(), "zkc-test-").expect("a file");
        drop(file);
        let link = target.with_extension("link");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let refused = create_file(&link).map(drop).map_err(|error| error.kind());
        for path in [&link, &target] {
            std::fs::remove_file(path).expect("a file");
        }
        assert_eq!(refused, Err(io::ErrorKind::AlreadyExists));
    }

    #[test]
    fn a_temporary_file_is_deleted_when_it_is_dropped() {
        let (temporary, file) = TemporaryFile::create("zkc-test-").expect("a file");
        let path = temporary.path().to_owned();
        drop(file);
        assert!(path.exists());
        drop(temporary);
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn names_differ_and_only_the_owner_reads() {
        use std::os::unix::fs::PermissionsExt;
        let target = std::env::temp_dir().join("zkc-test");
        let files = [(); 2].map(|()| create_beside(&target).expect("a file"));
        for (path, file) in &files {
            let mode = file.metadata().expect("metadata").permissions().mode();
            std::fs::remove_file(path).expect("a file");
            assert_eq!((path.parent(), mode & 0o777), (target.parent(), 0o600));
        }
        assert_ne!(files[0].0, files[1].0);
    }
}
