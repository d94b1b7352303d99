use std::fmt;

/// A number that grows with every grant: the transaction that created the node of the holder.
///
/// It is 64 bits wide and grows over the whole ensemble. A resource that remembers the highest token it has
/// seen, and refuses lower ones, is safe from holders that have lost a lock without knowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The token with this number.
    #[must_use]
    pub const fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
