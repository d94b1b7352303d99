//! Putting items.

pub(in crate::queue) mod buckets;
pub(in crate::queue) mod producer;
pub(in crate::queue) mod unconfirmed;
