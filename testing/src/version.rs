//! Which Apache ZooKeeper a server behaves like.

/// The release of Apache ZooKeeper whose behaviour a server shows where releases differ.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZooKeeperVersion {
    /// 3.8.0, as Debian ships it: with the fix that watch events need the permission to read the node; the
    /// differential test compares with it. A connection has at most one watch in each of the two tables on a path:
    /// setting a one-shot one takes the place of a persistent one. `exists` needs no permission, and a `create2` in
    /// a multi is answered without a stat.
    V3_8,
    /// 3.9, as of its last releases. Watches of different kinds on one path live side by side and are removed by
    /// kind, events carry the zxid of their transaction, `exists` needs the permission to read the node,
    /// and a `create2` in a multi is answered with a stat.
    V3_9,
}

impl ZooKeeperVersion {
    /// How a server of this release names itself in the four-letter words.
    pub(crate) const fn number(self) -> &'static str {
        match self {
            Self::V3_8 => "3.8.0",
            Self::V3_9 => "3.9.5",
        }
    }
}

/// What follows the sequence number 2^31 - 1.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SequenceOverflow {
    /// Apache ZooKeeper since 3.6, and a client that waits for each answer: the same number again and again, so
    /// that a name is taken when it is otherwise the same. Within a multi the numbers go on at -2^31.
    Sticks,
    /// -2^31, and so on upwards. Apache ZooKeeper before 3.6 and its documentation; later ones do it to creates
    /// that arrive while others are under way.
    WrapsAround,
}
