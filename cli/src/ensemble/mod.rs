//! The servers of an ensemble: which there are, what each of them tells, and what follows from it.
//!
//! `flw` and `admin` parse responses, `rates`, `health` and `doctor` judge them, all without I/O;
//! `probe` asks the servers, and `rolling` restarts them. Nothing here resets a counter of a server: rates are differences.

pub(crate) mod admin;
pub(crate) mod doctor;
pub(crate) mod flw;
pub(crate) mod health;
pub(crate) mod members;
pub(crate) mod probe;
#[cfg(feature = "tui")]
pub(crate) mod rates;
#[cfg(unix)]
pub(crate) mod rolling;
pub(crate) mod sessions;
mod trouble;

use self::flw::Word;
use self::members::EnsembleMembers;
use self::probe::{ProbeOptions, ProbeReport};
use crate::app::App;
use crate::exit::CommandFailure;

/// Finds the servers, and asks each of them these words.
pub(crate) async fn survey(
    app: &App,
    words: &[Word],
    options: &ProbeOptions,
) -> Result<(EnsembleMembers, Vec<ProbeReport>), CommandFailure> {
    let members = members::find(app, options).await?;
    let reports = probe::ask_all(&members.servers, words, options).await;
    Ok((members, reports))
}
