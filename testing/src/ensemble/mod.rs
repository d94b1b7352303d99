//! The state of a server or an ensemble, behind one lock. [`State`] composes the members, the
//! quorum and the sessions. [`handshake`], [`requests`] and [`faults`] are functions on it: the
//! actions of clients and tests.

pub(crate) mod faults;
pub(crate) mod handshake;
mod journal;
mod lock;
pub(crate) mod requests;
mod snapshot;
mod state;
mod writes;

pub use journal::{Fault, Journal, JournalEntry};
pub(crate) use lock::{Ensemble, Limits};
pub use snapshot::{Snapshot, SnapshotError};
pub(crate) use state::State;
pub use writes::{NodeWrite, WriteKind};
