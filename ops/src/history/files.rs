//! The files of a server.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{Error, Result};

/// The folder of the current format, below the directories that are configured.
const FOLDER: &str = "version-2";

/// The log files and snapshots of one server, sorted by their transaction ids.
///
/// Files are opened for reading only. A server that is running removes old files: see
/// [`Error::Removed`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Files {
    /// The logs, in order.
    pub logs: Vec<LogFile>,
    /// The snapshots, the oldest first.
    pub snapshots: Vec<SnapshotFile>,
}

/// A log file, `log.<zxid>`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogFile {
    /// The file.
    pub path: PathBuf,
    /// The transaction in its name, which is the first one in the file.
    pub zxid: i64,
    /// The length in bytes when the file was found. Servers allocate space in advance.
    pub length: u64,
}

/// A snapshot, `snapshot.<zxid>`, `snapshot.<zxid>.gz` or `snapshot.<zxid>.snappy`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotFile {
    /// The file.
    pub path: PathBuf,
    /// The transaction in its name. The snapshot contains it and all earlier ones; it may contain
    /// changes of later ones.
    pub zxid: i64,
    /// The length in bytes.
    pub length: u64,
    /// The compression.
    pub packing: Packing,
}

/// The compression of a snapshot (`snapshot.compression.method`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// None.
    Plain,
    /// gzip.
    Gzip,
    /// The stream format of snappy-java.
    Snappy,
}

impl Packing {
    /// Returns the compression that the name of a file says.
    pub(super) fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("snappy") => Self::Snappy,
            _ => Self::Plain,
        }
    }
}

impl Files {
    /// Finds the files of one server in its data directory and, if it is another one, in its log
    /// directory: in the directories themselves and in their folder `version-2`.
    ///
    /// # Errors
    /// [`Error::Io`] if a directory cannot be listed, [`Error::NothingFound`] if they contain no
    /// file of the server, and [`Error::DuplicateLog`] if they contain the logs of two servers.
    pub fn find<P: AsRef<Path>>(directories: impl IntoIterator<Item = P>) -> Result<Self> {
        let mut files = Self::default();
        let (mut asked, mut seen) = (Vec::new(), BTreeSet::new());
        for directory in directories {
            let directory = directory.as_ref();
            asked.push(directory.to_owned());
            files.list(directory, &mut seen)?;
            let folder = directory.join(FOLDER);
            if folder.is_dir() {
                files.list(&folder, &mut seen)?;
            }
        }
        if files.logs.is_empty() && files.snapshots.is_empty() {
            return Err(Error::NothingFound { directories: asked });
        }
        files.logs.sort_by(|one, other| (one.zxid, &one.path).cmp(&(other.zxid, &other.path)));
        files.snapshots.sort_by(|one, other| (one.zxid, &one.path).cmp(&(other.zxid, &other.path)));
        for pair in files.logs.windows(2) {
            if let [first, second] = pair
                && first.zxid == second.zxid
            {
                let (first, second) = (first.path.clone(), second.path.clone());
                return Err(Error::DuplicateLog { first, second });
            }
        }
        Ok(files)
    }

    /// Adds the files of a directory that was not listed before.
    fn list(&mut self, directory: &Path, seen: &mut BTreeSet<PathBuf>) -> Result<()> {
        let failed = |source| Error::Io { operation: "list", path: directory.to_owned(), source };
        if !seen.insert(directory.canonicalize().map_err(failed)?) {
            return Ok(());
        }
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let log = name.strip_prefix("log.").and_then(zxid_of);
            let snapshot = name.strip_prefix("snapshot.");
            let snapshot = snapshot.map(|rest| rest.strip_suffix(".gz").unwrap_or(rest));
            let snapshot = snapshot.map(|rest| rest.strip_suffix(".snappy").unwrap_or(rest));
            let snapshot = snapshot.and_then(zxid_of);
            if log.is_none() && snapshot.is_none() {
                continue;
            }
            let path = entry.path();
            let length = match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => metadata.len(),
                Ok(_) => continue,
                // It was removed while the directory was listed: it is not one of the files.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("read", &path, error)),
            };
            if let Some(zxid) = log {
                self.logs.push(LogFile { path, zxid, length });
            } else if let Some(zxid) = snapshot {
                let packing = Packing::of(&path);
                self.snapshots.push(SnapshotFile { path, zxid, length, packing });
            }
        }
        Ok(())
    }
}

/// Reads a transaction id as servers write it: in hexadecimal digits, without leading zeros.
fn zxid_of(text: &str) -> Option<i64> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_canonical = text == "0" || !text.starts_with('0');
    let is_hex = !text.is_empty() && text.bytes().all(is_digit);
    (is_hex && is_canonical).then(|| i64::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_servers_write_them() {
        assert_eq!(zxid_of("100000002"), Some(0x1_0000_0002));
        assert_eq!(zxid_of("0"), Some(0));
        for other in ["", "00", "-1", "+1", "1G", "1A", "5.bak", "10000000000000000"] {
            assert_eq!(zxid_of(other), None, "{other}");
        }
    }
}
