use bytes::Bytes;

/// An item, or several put as one, that was removed from a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The path of the node that it was.
    pub path: String,
    /// The data: one item, unless several were [put as one](super::CuratorQueue::put_multi).
    pub items: Vec<Bytes>,
}
