//! The format of queues in ZooKeeper: names, data and layouts. Nothing here waits.

pub(in crate::queue) mod codec;
pub(in crate::queue) mod item;
pub(in crate::queue) mod layout;
pub(crate) mod name;
pub(in crate::queue) mod rejection;
pub(in crate::queue) mod value;
