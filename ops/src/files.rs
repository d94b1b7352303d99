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
fn create_temporary(folder: &Path, prefix: &str) -> io::Result<(PathBuf, File)> {
    let path = folder.join(format!("{prefix}{}", Uuid::new_v4().simple()));
    let file = create_file(&path)?;
    Ok((path, file))
}

/// A file with an unpredictable name, which is removed when it is dropped.
#[derive(Debug)]
pub struct TemporaryFile {
    path: PathBuf,
    is_kept: bool,
}

impl TemporaryFile {
    /// Creates a file in the directory for temporary files, and returns it open for writing.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn create(prefix: &str) -> io::Result<(Self, File)> {
        Self::create_in(&std::env::temp_dir(), prefix)
    }

    /// Creates a file next to another one, which it will replace, and returns it open for writing.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn create_beside(target: &Path) -> io::Result<(Self, File)> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().take(SHOWN).collect();
        let folder = target.parent().unwrap_or_else(|| Path::new(""));
        Self::create_in(folder, &format!("{name}.part-"))
    }

    fn create_in(folder: &Path, prefix: &str) -> io::Result<(Self, File)> {
        let (path, file) = create_temporary(folder, prefix)?;
        Ok((Self { path, is_kept: false }, file))
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the file when this is dropped.
    pub const fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Moves the file to its final path, where it replaces another one. After that, the new name
    /// outlives a crash of the system, if the data were synced before.
    ///
    /// # Errors
    /// Those of the operating system. The file is removed, unless it was moved before.
    pub fn publish(mut self, target: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, target)?;
        self.keep();
        // Other systems do not sync folders.
        #[cfg(unix)]
        sync_folder_of(target)?;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // Nothing more can be done about it.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Writes the names in the folder of a file to the disk.
#[cfg(unix)]
fn sync_folder_of(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    // A folder may be writable without being readable.
    let Ok(folder) = File::open(folder.unwrap_or_else(|| Path::new("."))) else { return Ok(()) };
    folder.sync_all().or_else(|error| match error.kind() {
        // Some file systems cannot sync folders.
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Ok(()),
        _ => Err(error),
    })
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

    #[cfg(unix)]
    #[test]
    fn names_differ_and_only_the_owner_reads() {
        use std::os::unix::fs::PermissionsExt;
        let target = std::env::temp_dir().join("zkc-test");
        let files = [(); 2].map(|()| TemporaryFile::create_beside(&target).expect("a file"));
        for (temporary, file) in &files {
            let mode = file.metadata().expect("metadata").permissions().mode();
            assert_eq!((temporary.path().parent(), mode & 0o777), (target.parent(), 0o600));
        }
        assert_ne!(files[0].0.path(), files[1].0.path());
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_of_a_file_is_synced() {
        let hidden = Path::new("/none/none/file");
        for file in [&*std::env::temp_dir().join("file"), Path::new("file"), hidden] {
            assert!(sync_folder_of(file).is_ok(), "{}", file.display());
        }
    }

    #[test]
    fn a_file_is_removed_unless_it_is_published_or_kept() {
        let create = || TemporaryFile::create("zkc-test-").expect("a file").0;
        let (dropped, mut kept, published) = (create(), create(), create());
        let paths = [&dropped, &kept, &published].map(|file| file.path().to_owned());
        let target = paths[2].with_extension("target");
        drop(dropped);
        kept.keep();
        drop(kept);
        published.publish(&target).expect("a file");
        assert_eq!(paths.each_ref().map(|path| path.exists()), [false, true, false]);
        for path in [&paths[1], &target] {
            std::fs::remove_file(path).expect("a file");
        }
    }
}
