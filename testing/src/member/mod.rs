//! A single server: tree, watches and connections. State shared by an ensemble is in
//! [`crate::ensemble`]. No I/O and no waiting: responses and events go to the outboxes of
//! connections.

mod connections;
mod operations;
mod outbox;
mod reads;
mod replica;
mod traffic;

pub(crate) use connections::Connection;
pub(crate) use operations::needs_quorum;
pub(crate) use outbox::Outbox;
pub(crate) use replica::Member;
