//! The kinds of queues.

pub(in crate::queue) mod curator;
pub(in crate::queue) mod fifo;
pub(in crate::queue) mod lock_path;
pub(in crate::queue) mod locking;
pub(in crate::queue) mod locking_claims;
pub(in crate::queue) mod locking_delivery;
pub(in crate::queue) mod simple;
