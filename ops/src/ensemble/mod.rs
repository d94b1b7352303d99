//! The servers of an ensemble: which there are, what each of them tells, and what follows from it.
//!
//! `words` and `admin` parse responses, and `rates`, `health` and `doctor` judge them, all without
//! I/O. `probe` asks the servers; [`EnsembleProbe`] finds them first. `rolling` has them restarted,
//! one at a time. Nothing here resets a counter of a server: rates are differences.

pub mod admin;
pub mod doctor;
pub mod health;
mod members;
mod notes;
pub mod probe;
pub mod rates;
pub mod rolling;
pub mod sessions;
mod target;
mod trouble;
pub mod words;

pub use members::EnsembleMembers;
pub use notes::{ProbeNote, notes, whitelist_line};
pub use target::{EnsembleProbe, FrameworkFuture, FrameworkSource};
pub use trouble::ProbeTrouble;
