//! The quorum of an ensemble: leader, roles, and the log of transactions. Pure: no trees, sessions
//! or connections. A change returns its consequences as a value, and
//! [`State`](crate::ensemble::State) applies them.
//!
//! Agreement is immediate: there are no votes and no pending proposals. A transaction is committed
//! when the leader accepts it, because a majority then has it in its log. Members may apply it
//! later. See `docs/decisions/cluster.md`.

mod agreement;
mod entry;
mod log;
mod membership;
mod peer;
#[cfg(test)]
mod tests;

pub(crate) use agreement::{Quorum, Settlement, Shift};
pub(crate) use entry::{Action, Entry, Handshake, Origin, Reply};
pub(crate) use membership::{ELECTION_PORT, QUORUM_PORT, membership};
pub(crate) use peer::Role;
