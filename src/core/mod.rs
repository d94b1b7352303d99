//! The base of all operations: the session, the settings, the pending cleanup, and the held nodes.
//! Nothing here depends on the operations.

mod advice;
mod authorship;
mod call;
mod cleanup;
mod fence;
mod fencing;
mod handover;
mod identity;
pub(crate) mod metrics;
mod protection;
mod quorum;
mod race;
mod random;
mod session;
mod setbacks;
mod settings;
mod shared;
mod sweep;
mod tell;

pub use authorship::Authorship;
pub(crate) use authorship::PendingCreate;
pub(crate) use call::Call;
pub(crate) use cleanup::{Cleanup, OwedDeletion, PendingCleanup, ResourceRegistration, perform};
pub use cleanup::{HeldNode, HeldWatch, HeldWatchKind, PendingDeletion};
pub use fencing::FencingToken;
pub(crate) use identity::delete_created_by;
pub(crate) use protection::{ProtectedNode, Protection, find, new_prefix};
pub use quorum::ReadFreshness;
pub(crate) use quorum::{read_behind_quorum, read_behind_sync};
pub use race::{RACE_ROUNDS, is_conflict};
pub(crate) use random::RandomSource;
pub(crate) use session::Session;
pub use setbacks::Setbacks;
#[cfg(test)]
pub(crate) use setbacks::{FIRST as FIRST_SETBACK, LONGEST as LONGEST_SETBACK};
pub(crate) use settings::Settings;
pub(crate) use shared::{Core, Lifecycle};
pub(crate) use sweep::{FAN_OUT, delete_children};
pub(crate) use tell::tell;
