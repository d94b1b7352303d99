use std::fmt;

/// A fencing token: a number that grows with every grant. It is the transaction that created the
/// node of the holder.
///
/// It has 64 bits and grows over the whole ensemble. A resource that remembers the highest token it
/// has seen, and refuses lower ones, is safe from holders that have lost a lock without knowing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// Creates a token with this number.
    #[must_use]
    pub const fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// Returns the number.
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
