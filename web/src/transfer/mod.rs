//! Backups, comparisons and restores.
//!
//! `multipart` and `restore_choice` are pure. `work` runs what reads files in threads of their own,
//! `uploads` keeps uploaded files and nodes of the past, and `receive` and `download` are the two
//! ends at the browser.

mod compare;
mod download;
mod failure;
mod multipart;
mod plan;
mod receive;
mod restore_choice;
mod uploads;
mod work;

pub(crate) use compare::{CompareWith, Comparison, DifferenceRow, MOST_COMPARED, compare};
pub(crate) use download::{DownloadHead, download};
pub(crate) use failure::problem_of;
pub(crate) use multipart::is_multipart;
pub(crate) use plan::{PlannedRestore, RestoreRefusal, RestoreTask};
pub(crate) use receive::receive;
pub(crate) use restore_choice::{
    ACLS, COUNTERS, ChoiceField, EPHEMERALS, EXISTING, ROOT, RestoreChoice,
};
pub(crate) use uploads::{Upload, UploadOwner, UploadSource, Uploads, create, gone};
pub(crate) use work::{WorkPlaces, complete, until_gone};
