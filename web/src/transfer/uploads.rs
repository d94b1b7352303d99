//! Files of nodes, which wait for a decision of their user.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::time::Instant;
use zk_curator::internal::Locked;
use zk_curator_ops::files::TemporaryFile;

use crate::problem::{Problem, ProblemKind, RequestResult};
use crate::security::{Keys, StreamLimits, StreamSeat, Viewer, random_token};

/// The maximum number of files that are kept, and of those that are received at the same time.
const MOST: usize = 8;
/// The maximum number of files that are received at the same time from one user.
const MOST_OF_ONE: usize = 2;
/// The maximum number of files that are kept for one user.
const MOST_KEPT_OF_ONE: usize = 4;
/// The time for which a file is kept.
const LASTING: Duration = Duration::from_secs(600);
/// The size of an opened file, in sizes of the largest stored one.
const OPENED: u64 = 16;

/// The files of an explorer: uploaded ones, and nodes of the past. A file that has expired is
/// deleted with the next upload or look, and all of them with the explorer.
#[derive(Debug)]
pub(crate) struct Uploads {
    most_bytes: u64,
    kept: Locked<BTreeMap<String, KeptUpload>>,
    /// The files that are received. They are on the disk, and not kept yet.
    received: Arc<StreamLimits>,
}

#[derive(Debug)]
struct KeptUpload {
    owner: UploadOwner,
    /// The name by which the user is counted. A user may have several browsers.
    who: String,
    file: Upload,
    ends: Instant,
}

/// A file that is kept.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    pub(crate) file: Arc<TemporaryFile>,
    pub(crate) source: UploadSource,
}

/// The source of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadSource {
    /// A browser has sent it.
    Browser,
    /// It has nodes of the past.
    History,
}

impl UploadSource {
    /// Returns the name of its restore in records of changes.
    pub(crate) const fn operation(self) -> &'static str {
        match self {
            Self::Browser => "restore",
            Self::History => "undelete",
        }
    }
}

/// The user and the browser to which a file belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UploadOwner([u8; 32]);

impl UploadOwner {
    /// Returns the owner of the files of a client; `None` for a client without a session.
    pub(crate) fn of(keys: &Keys, viewer: &Viewer) -> Option<Self> {
        let session = viewer.session.as_deref()?;
        let text = [session.as_bytes(), b"\0", viewer.user.as_bytes()].concat();
        Some(Self(keys.code("upload", &text)))
    }

    pub(crate) const fn code(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Creates an empty file, which is removed when it is dropped, and returns it open for writing.
pub(crate) fn create() -> io::Result<(TemporaryFile, File)> {
    TemporaryFile::create("zkc-upload-")
}

impl Uploads {
    pub(crate) fn new(most_bytes: u64) -> Self {
        let received = Arc::new(StreamLimits::new(MOST, MOST_OF_ONE));
        Self { most_bytes, kept: Locked::default(), received }
    }

    /// Returns the size of the largest file.
    pub(crate) const fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Returns the size of the largest file after its compression is removed.
    pub(crate) const fn most_opened(&self) -> u64 {
        self.most_bytes.saturating_mul(OPENED)
    }

    /// Takes a place for a file that is received. Dropping it frees the place.
    pub(super) fn place(&self, who: &str) -> RequestResult<StreamSeat> {
        self.received.take(who).ok_or_else(full)
    }

    /// Keeps a file for its owner, the user `who`, and returns its id. The oldest file of a user
    /// with too many makes room.
    pub(crate) fn keep(
        &self,
        owner: UploadOwner,
        who: &str,
        file: TemporaryFile,
        source: UploadSource,
    ) -> RequestResult<String> {
        let now = Instant::now();
        let mut kept = self.kept.lock();
        kept.retain(|_, upload| upload.ends > now);
        let own = kept.iter().filter(|(_, upload)| upload.who == who);
        let own: Vec<_> = own.map(|(id, upload)| (upload.ends, id.clone())).collect();
        if own.len() >= MOST_KEPT_OF_ONE
            && let Some((_, oldest)) = own.into_iter().min()
        {
            kept.remove(&oldest);
        }
        if kept.len() >= MOST {
            return Err(full());
        }
        let (id, file) = (random_token(), Upload { file: Arc::new(file), source });
        let (who, ends) = (who.to_owned(), now + LASTING);
        kept.insert(id.clone(), KeptUpload { owner, who, file, ends });
        Ok(id)
    }

    /// Returns a file of this owner.
    pub(crate) fn get(&self, owner: UploadOwner, id: &str) -> RequestResult<Upload> {
        let now = Instant::now();
        let mut kept = self.kept.lock();
        kept.retain(|_, upload| upload.ends > now);
        let upload = kept.get(id).filter(|upload| upload.owner == owner);
        upload.map(|upload| upload.file.clone()).ok_or_else(gone)
    }

    /// Deletes a file of this owner as soon as nothing reads it.
    pub(crate) fn remove(&self, owner: UploadOwner, id: &str) {
        let mut kept = self.kept.lock();
        if kept.get(id).is_some_and(|upload| upload.owner == owner) {
            kept.remove(id);
        }
    }
}

/// Returns one problem for an expired file, a file of another user, and an unknown id.
pub(crate) fn gone() -> Problem {
    let detail = "The file is not here. Files are kept for 10 minutes, for the browser of their \
                  user. Upload it again, or begin again at the history.";
    Problem::new(StatusCode::GONE, ProblemKind::NoNode, "No such upload", detail)
}

fn full() -> Problem {
    let detail = "Too many files wait to be restored. Try again in some minutes.";
    Problem::no_place("Too many files", detail)
}

#[cfg(test)]
mod tests {
    use zk_curator_testing::{paused, wait};

    use super::*;

    fn file() -> TemporaryFile {
        create().unwrap().0
    }

    #[test]
    fn a_file_belongs_to_its_owner_for_a_time() {
        paused(async {
            let (uploads, ann, bob) = (Uploads::new(9), UploadOwner([1; 32]), UploadOwner([2; 32]));
            let upload = file();
            let path = upload.path().to_owned();
            let id = uploads.keep(ann, "ann", upload, UploadSource::Browser).unwrap();
            assert!(uploads.get(ann, &id).is_ok() && path.exists());
            assert!(uploads.get(bob, &id).is_err() && uploads.get(ann, "other").is_err());
            uploads.remove(bob, &id);
            assert!(uploads.get(ann, &id).is_ok());
            wait::past(Duration::from_secs(601)).await;
            assert!(uploads.get(ann, &id).is_err() && !path.exists());
        });
    }

    #[test]
    fn the_number_of_received_files_is_bounded() {
        let uploads = Uploads::new(9);
        let places = [uploads.place("ann"), uploads.place("ann")];
        assert!(places.iter().all(Result::is_ok) && uploads.place("ann").is_err());
        assert!(uploads.place("bob").is_ok());
        drop(places);
        assert!(uploads.place("ann").is_ok());
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        paused(async {
            let (uploads, ann, bob) = (Uploads::new(9), UploadOwner([1; 32]), UploadOwner([2; 32]));
            let keep = |owner, who| uploads.keep(owner, who, file(), UploadSource::Browser);
            let first = keep(ann, "ann").unwrap();
            wait::past(Duration::from_secs(1)).await;
            for _ in 1..MOST_KEPT_OF_ONE {
                keep(ann, "ann").unwrap();
            }
            assert!(uploads.get(ann, &first).is_ok());
            // Another browser of the same user.
            assert!(keep(UploadOwner([3; 32]), "ann").is_ok());
            assert!(uploads.get(ann, &first).is_err(), "it has made room");
            for _ in 0..MOST_KEPT_OF_ONE {
                assert!(keep(bob, "bob").is_ok(), "one user does not take all places");
            }
            assert!(keep(UploadOwner([4; 32]), "eve").is_err());
            assert!(keep(bob, "bob").is_ok());
        });
    }
}
