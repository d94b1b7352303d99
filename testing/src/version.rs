//! The release of Apache ZooKeeper that a server behaves like.

/// The release of Apache ZooKeeper whose behaviour a server shows where releases differ.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZooKeeperVersion {
    /// 3.8.0 as shipped by Debian, with the fix that watch events need read permission on the node.
    /// The differential test compares with it. A connection has at most one watch in each of the
    /// two tables on a path: a one-shot watch replaces a persistent one. `exists` needs no
    /// permission, and the response to a `create2` in a multi has no stat.
    V3_8,
    /// The latest 3.9 releases. Watches of different kinds coexist on one path and are removed by
    /// kind, events carry the zxid of their transaction, `exists` needs read permission on the
    /// node, and the response to a `create2` in a multi has a stat.
    V3_9,
}

impl ZooKeeperVersion {
    /// The version number in the responses to four-letter words.
    pub(crate) const fn number(self) -> &'static str {
        match self {
            Self::V3_8 => "3.8.0",
            Self::V3_9 => "3.9.5",
        }
    }
}

/// Behaviour after the sequence number 2^31 - 1.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SequenceOverflow {
    /// The number stays the same, so that equal names fail with `NodeExists`, as in Apache
    /// ZooKeeper since 3.6 for a client that waits for each response. Within a multi the numbers
    /// continue at -2^31.
    Sticks,
    /// The numbers continue at -2^31, as documented and as in Apache ZooKeeper before 3.6. Later
    /// releases do so for pipelined creates.
    WrapsAround,
}
