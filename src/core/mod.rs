//! The base of all operations: the session, the settings, the cleanup that is owed, and the nodes that are held. Nothing here
//! depends on the operations.

mod call;
mod chore;
mod debt;
mod fencing;
mod handover;
mod held;
mod identity;
pub(crate) mod metrics;
mod protection;
mod quorum;
mod race;
mod random;
mod session;
mod settings;
mod shared;
mod slot;
mod sweep;
mod tell;

pub(crate) use call::Call;
pub(crate) use chore::{Chore, Deletion};
pub(crate) use debt::Debt;
pub use fencing::FencingToken;
pub(crate) use held::Ticket;
pub use held::{HeldChore, HeldNode, HeldWatch, WatchKind};
pub(crate) use identity::delete_created_by;
pub(crate) use protection::{Found, Protection, find, new_prefix};
pub(crate) use quorum::{read_behind_quorum, read_behind_sync};
pub(crate) use race::RACE_ROUNDS;
pub(crate) use random::Random;
pub(crate) use session::Session;
pub(crate) use settings::Settings;
pub(crate) use shared::{Core, Lifecycle};
pub(crate) use sweep::{FAN_OUT, delete_children};
pub(crate) use tell::tell;
