use bytes::Bytes;

/// An item, or several that were put together, removed from a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The path of its node.
    pub path: String,
    /// The data: one item, unless several were
    /// [put together](crate::queue::CuratorQueue::put_multi).
    pub items: Vec<Bytes>,
}
