use std::fmt;

/// A state of a store, or of a value: the transaction of ZooKeeper (zxid) that has made it. Later
/// ones are larger.
///
/// The number is unique in the ensemble. The number of a value is the revision of the store at
/// which it was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub(super) i64);

impl Revision {
    /// The revision of a store that does not exist.
    pub const NONE: Self = Self(0);

    /// The revision with this number.
    #[must_use]
    pub const fn new(zxid: i64) -> Self {
        Self(zxid)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
